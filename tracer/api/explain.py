"""`explain(fn)(*args)`: the graphs, breaks and guards of one call, as an object that prints as a report."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from tracer.api.callables import compiled, original_of
from tracer.api.settings import Settings
from tracer.backends.registry import RUNS_AS_WRITTEN
from tracer.exc import Unsupported
from tracer.metrics import counters

if TYPE_CHECKING:
    from tracer.guards.manager import CheckFunctionManager


@dataclasses.dataclass
class ExplainOutput:
    """The graphs of one call, why each ended, and what the entries that were made depend on."""

    graphs: list[torch.fx.GraphModule] = dataclasses.field(default_factory=list)
    break_reasons: list[Unsupported] = dataclasses.field(default_factory=list)
    out_guards: list[Any] = dataclasses.field(default_factory=list)
    check_fns: list[str] = dataclasses.field(default_factory=list)  # of each entry, as a person reads it
    compile_times: float = 0.0  # seconds spent tracing and in the backend
    result: Any = dataclasses.field(repr=False, default=None)  # what the call returned

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        return len(self.break_reasons)

    @property
    def ops_per_graph(self) -> list[list[Any]]:
        """The functions and methods that each graph calls, in order."""
        return [
            [node.target for node in gm.graph.nodes if node.op not in ("placeholder", "output", "get_attr")] for gm in self.graphs
        ]

    @property
    def op_count(self) -> int:
        return sum(map(len, self.ops_per_graph))

    def __str__(self) -> str:
        lines = [
            f"Graphs: {self.graph_count}, graph breaks: {self.graph_break_count}, operations: {self.op_count},"
            f" guards: {len(self.out_guards)}, traced in {self.compile_times:.2f} s"
        ]
        for number, ops in enumerate(self.ops_per_graph, 1):
            lines.append(f"Graph {number}: {', '.join(map(_op_name, ops)) or 'no operation'}")
        for number, reason in enumerate(self.break_reasons, 1):
            lines.append(f"Break {number}: {_indented(str(reason))}")
        for number, text in enumerate(self.check_fns, 1):
            lines.append(f"Entry {number} serves calls for which:\n  {_indented(text)}")
        return "\n".join(lines)

    def _keep_guards(self, manager: CheckFunctionManager) -> None:
        self.out_guards.extend(manager.guards)
        self.check_fns.append(manager.source_text)


def explain(fn: Callable[..., Any]) -> Callable[..., ExplainOutput]:
    """A function that takes fn's arguments, runs it once in a region of its own, and returns an `ExplainOutput`.

    Exceptions of fn are raised, and its effects happen, as in any call.

    ```python
    told = tracer.explain(lambda x: x.sin() + 1)(torch.ones(2))
    assert told.graph_count == 1 and told.graph_break_count == 0
    print(told)
    ```
    """

    def explained(*args: Any, **kwargs: Any) -> ExplainOutput:
        output = ExplainOutput()

        def keep(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
            output.graphs.append(gm)
            found: Callable[..., Any] = gm.forward
            return found

        setattr(keep, RUNS_AS_WRITTEN, True)
        hooks: dict[str, Callable[..., Any]] = {
            "on_break": output.break_reasons.append,
            "on_guards": output._keep_guards,
        }
        settings = Settings(backend=keep, name="explain", hooks=hooks)
        before = counters["seconds"]["tracing"]
        output.result = compiled(original_of(fn), settings)(*args, **kwargs)
        output.compile_times = counters["seconds"]["tracing"] - before
        return output

    return explained


def _op_name(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", str(target))


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.strip().split("\n")).lstrip()
