"""`compare_with_eager`: a backend that runs another one beside eager, and says which operation differs.

`backends.verify` compares, `backends.smallest_difference` searches, `backends.difference_program` writes the program.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tracer import config
from tracer.api.callables import compiled
from tracer.api.settings import Settings
from tracer.backends.calling import Backend, resolve_backend
from tracer.backends.difference_program import write_program
from tracer.backends.registry import REAL_INPUTS, CompilerFn
from tracer.backends.smallest_difference import Part, smallest_difference
from tracer.backends.verify import copies_of, difference
from tracer.errors import BackendCompilerFailed, UserError
from tracer.graph.graph_module import copy_of, with_graph


def compare_with_eager(
    backend: str | Callable[..., Any] = "inductor",
    *,
    calls: int = 3,
    folder: str | Path = ".",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> CompilerFn:
    """A backend that compiles with `backend`, and runs the first `calls` calls of each graph beside eager, on copies of inputs.

    Where results, gradients of the inputs, or what is left in the inputs differ, the call raises `exc.BackendCompilerFailed`
    with the first operation that is wrong, the user's line, and the path of a program in `folder` that shows the difference
    with as few operations as possible; its inputs lie beside it (`.pt`). The folder is made if it is not there.
    Floats may differ by the tolerances of `torch.testing.assert_close`, or by twice the error of eager against float64.
    `mode` and `options` are those of the backend. Inductor draws random numbers of its own unless its option
    `fallback_random` is set, so that graphs with random operations differ without it.
    Raises InvalidBackend or UserError for what cannot be asked for.

    ```python
    model = tracer.compile(torch.nn.Linear(4, 2), backend=tracer.compare_with_eager("aot_eager", calls=1))
    model(torch.ones(3, 4))
    ```
    """
    if type(calls) is not int or calls < 1:
        raise UserError(f"calls={calls!r} is not a number of calls", hint="give 1 or more.")
    inner = resolve_backend(backend, mode, options)

    def comparing(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        graph = with_graph(gm, copy_of(gm.graph))  # a compiler may change the graph that it is given
        return _Compared(graph, inner(gm, example_inputs), inner, calls, Path(folder))

    setattr(comparing, REAL_INPUTS, inner.needs_real_inputs)
    comparing.__name__ = comparing.__qualname__ = f"{inner.name} beside eager"
    return comparing


class _Compared:
    """A compiled graph that is compared with eager at its first calls. Each compared call runs it twice: once for the comparison,
    and then on the inputs of the program."""

    def __init__(
        self, gm: torch.fx.GraphModule, compiled_graph: Callable[..., Any], backend: Backend, calls: int, folder: Path
    ) -> None:
        """`gm`: the graph as it was captured, which runs eagerly. `calls`: how many are compared."""
        self.gm = gm
        self.compiled_graph = compiled_graph
        self.backend = backend
        self.calls_left = calls  # a call that differs does not count: the next one raises again
        self.folder = folder
        # Whether a size is a symbol, so that parts of the graph are compiled with symbolic sizes as well.
        self.dynamic = any(isinstance(node.meta.get("example_value"), torch.SymInt) for node in gm.graph.nodes)

    def __call__(self, *inputs: Any) -> Any:
        if self.calls_left > 0:
            self._compare(inputs)
            self.calls_left -= 1
        return self.compiled_graph(*inputs)

    def _compare(self, inputs: tuple[Any, ...]) -> None:
        """Raises BackendCompilerFailed where the graph differs on copies of the inputs, after a search for the smallest part
        that does. The search compiles some 2 log2(n) parts of a graph of n operations."""
        found = difference(self.gm, self.compiled_graph, inputs, gradients=True)
        if not found:
            return
        part = smallest_difference(self.gm, inputs, self._differs)
        where = "no part of it differs that is compiled by itself"
        if part is not None:
            line = (part.last.stack_trace or "").strip()
            where = f"the first operation that differs is {part.last.format_node()}\n{line}\n{part.difference}"
        part = part or Part(self.gm, copies_of(inputs), next(iter(self.gm.graph.nodes)), found)
        path = write_program(part, self.backend, self.dynamic, self.folder)
        raise BackendCompilerFailed(
            self.backend.name,
            f"the graph computes something else than when it is run eagerly: {found}\n{where}",
            hint=f"run {path}, which shows it with few operations; it and {path.stem}.pt make a report to the backend's authors.",
        )

    def _differs(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> str:
        """How a part of the graph, captured and compiled as a program of its own, differs from eager; "" where it does not."""

        def run(*args: Any) -> Any:
            return gm.forward(*args)

        with config.patch(suppress_errors=False):
            made = compiled(run, Settings(backend=self.backend, dynamic=self.dynamic))
            return difference(gm, made, inputs, gradients=True)
