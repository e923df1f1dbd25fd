"""Proves, operator by operator, that a graph computes each row of a batch independently, or says why not.

A tensor *has its rows* at a dim of size B times a constant, where B is the batch size, if for every b <= B its rows for the
first b are the same as if the inputs had only their first b rows. Rows may then be appended to a batch, and their results cut
off again. To prove it, the graph is run on its fakes once more; each ATen operator that runs needs a rule in `row_rules`.
"""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch import fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tracer.graph.fakes.fake_tensors import expr_of, is_symbolic
from tracer.graph.output_graph import EXAMPLE
from tracer.operators.row_rules import Call, Dependent, Rows, rows_after


def rows_depend(gm: fx.GraphModule, batch: Any, places: dict[Any, Any]) -> str | None:
    """Why rows cannot be proved independent; None if they can.

    `places` maps the symbols of the graph's trace to expressions over the sizes of a domain; `batch` is one of those sizes.
    """
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    tracker = _Tracker(batch, places)
    try:
        examples = [node.meta[EXAMPLE] for node in inputs]
        for example in examples:
            if isinstance(example, torch.Tensor):
                tracker.remember(example, tracker.of_input(example))
        if not any(tracker.known(example) for example in examples):
            return None  # no input depends on the batch size, so the graph does not
        with torch.no_grad(), _fake_mode(examples), tracker:
            results = _Rerun(gm, tracker).run(*examples)
        for result in tree_leaves(results):
            tracker.check_output(result)
    except Dependent as error:
        return str(error)
    except Exception as error:
        return f"the graph could not be looked through: {type(error).__name__}: {error}"
    return None


def _fake_mode(examples: list[Any]) -> Any:
    return next(example.fake_mode for example in examples if hasattr(example, "fake_mode"))


class _Rerun(fx.Interpreter):
    """Runs a graph on its fakes. An error names the user's line at which rows come to depend on each other."""

    def __init__(self, gm: fx.GraphModule, tracker: _Tracker) -> None:
        super().__init__(gm, garbage_collect_values=False)
        self.extra_traceback = False
        self.tracker = tracker

    def run_node(self, n: fx.Node) -> Any:
        try:
            return super().run_node(n)
        except Dependent as error:
            line = (n.stack_trace or "").strip().splitlines()
            raise Dependent(f"{error}; from {' '.join(part.strip() for part in line[-2:])}" if line else str(error)) from None

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        if not isinstance(value, torch.Tensor):
            raise Dependent(f"{target} is a graph of its own, which is not looked into")
        return self.tracker.fake_of(value)


class _Tracker(TorchDispatchMode):
    """Tracks the rows of tensors through every operator that runs."""

    def __init__(self, batch: Any, places: dict[Any, Any]) -> None:
        super().__init__()
        self.batch = batch
        self.places = places
        self._rows: dict[int, tuple[torch.Tensor, Rows | None]] = {}  # by id of a tensor, which is kept alive

    def remember(self, tensor: torch.Tensor, rows: Rows | None) -> None:
        self._rows[id(tensor)] = tensor, rows

    def known(self, tensor: Any) -> Rows | None:
        found = self._rows.get(id(tensor))
        if found is None and isinstance(tensor, torch.Tensor):
            raise Dependent("it reads a tensor that is neither an input nor the result of an operator")
        return None if found is None else found[1]

    def fake_of(self, value: torch.Tensor) -> torch.Tensor:
        mode = next(tensor.fake_mode for tensor, _ in self._rows.values() if hasattr(tensor, "fake_mode"))
        fake: torch.Tensor = mode.from_tensor(value, static_shapes=True)
        self.remember(fake, None)
        return fake

    def sizes(self, tensor: torch.Tensor) -> list[Any]:
        return [self.number(size) for size in tensor.shape]

    def number(self, value: Any) -> Any:
        """An int or SymInt over the sizes of the domain."""
        return expr_of(value).xreplace(self.places) if is_symbolic(value) else sympy.sympify(value)

    def grows(self, value: Any) -> bool:
        """Whether a number depends on the batch size."""
        return is_symbolic(value) and self.batch in self.number(value).free_symbols

    def of_input(self, tensor: torch.Tensor) -> Rows | None:
        sizes = enumerate(self.sizes(tensor))
        found = [Rows(dim, sympy.cancel(size / self.batch)) for dim, size in sizes if self.batch in size.free_symbols]
        if not found:
            return None
        self.check_size(found, "an input")
        return found[0]

    def check_size(self, found: list[Rows], what: str) -> None:
        if len(found) > 1 or self.batch in found[0].block.free_symbols:
            raise Dependent(f"{what} has {self.batch} at several dims, or in an expression")

    def check_output(self, result: Any) -> None:
        if isinstance(result, torch.Tensor):
            self.known(result)
        elif self.grows(result):
            raise Dependent(f"the graph gives a number that depends on {self.batch}")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        call = Call.of(func, args, kwargs, tensors, self)
        for tensor, rows in zip(tensors, rows_after(call), strict=True):
            self._check_result(func, tensor, rows)
            self.remember(tensor, rows)
        return result

    def _check_result(self, func: Any, tensor: torch.Tensor, rows: Rows | None) -> None:
        """Checks the sizes of a result: B times the block at the dim of the rows, and independent of B elsewhere."""
        if rows is not None and self.batch in sympy.sympify(rows.block).free_symbols:
            raise Dependent(f"{func} gives {self.batch} * ({rows.block}) rows")
        for dim, size in enumerate(self.sizes(tensor)):
            expected = rows is not None and dim == rows.dim
            if expected and rows is not None and sympy.expand(size - self.batch * rows.block) != 0:
                raise Dependent(f"{func} gives {size} rows, not {self.batch * rows.block}")
            if not expected and self.batch in size.free_symbols:
                raise Dependent(f"{func} gives a size that depends on {self.batch} beside its rows")
