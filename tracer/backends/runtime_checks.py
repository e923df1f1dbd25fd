"""Runtime assertions on data, which torch's compilers would drop, are checked outside of the compiled graph.

Once AOTAutograd and Inductor have read `aten._assert_scalar(u0 == s0)` they take u0 for s0, in the check too, which then
always holds. So the compiled graph also returns the tensors that the checks read, and the checks run on those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from tracer.backends.result_memory import METADATA, Compiled, unchanged
from tracer.graph.output_graph import EXAMPLE

_CHECK = torch.ops.aten._assert_scalar.default


def return_checked_values(graph: fx.Graph) -> Callable[[Compiled], Compiled]:
    """Makes a graph return also the values that its checks read. The result wraps the compiled graph: it removes these values
    from the results and runs the checks on them."""
    checks = [node for node in graph.nodes if node.target is _CHECK]
    if not checks:
        return unchanged
    checker = _Checker(graph, checks)
    output = graph.output_node()
    output.args = ((*output.args[0], *checker.values),)
    return checker.around


class _Checker:
    """The part of a graph that computes its checks, as a separate graph whose inputs are values of the whole graph."""

    def __init__(self, graph: fx.Graph, checks: list[fx.Node]) -> None:
        self.values: list[fx.Node] = []  # of the whole graph
        self._whole, self._own = graph, fx.Graph()
        self._inputs: dict[Any, fx.Node] = {}
        self._copies: dict[fx.Node, fx.Node] = {}
        for check in checks:
            self._copy(check)
        self._own.output(())

    def around(self, compiled: Compiled) -> Compiled:
        check, extra = fx.GraphModule({}, self._own), len(self.values)

        def run(*args: Any) -> Any:
            results = compiled(*args)
            check.forward(*results[-extra:])
            return results[:-extra]

        return run

    def _copy(self, node: fx.Node) -> fx.Node:
        copy = self._copies.get(node)
        if copy is None:
            copy = self._copies[node] = self._own.node_copy(node, lambda arg: self._argument(node, arg))
        return copy

    def _argument(self, user: fx.Node, node: fx.Node) -> fx.Node:
        if not isinstance(node.meta[EXAMPLE], torch.Tensor):
            return self._input(node, node) if node.op == "placeholder" else self._copy(node)
        if user.op == "call_method" and user.target in METADATA:
            return self._input(node, node)
        return self._input((user, node), node, elements_for=user)

    def _input(self, key: Any, node: fx.Node, elements_for: fx.Node | None = None) -> fx.Node:
        known = self._inputs.get(key)
        if known is None:
            self.values.append(self._value_when_read(node, elements_for))
            known = self._inputs[key] = self._placeholder()
        return known

    def _placeholder(self) -> fx.Node:
        last = [*self._inputs.values()][-1] if self._inputs else self._own._root
        with self._own.inserting_after(last):
            return self._own.placeholder(f"value_{len(self._inputs)}")

    def _value_when_read(self, node: fx.Node, elements_for: fx.Node | None) -> fx.Node:
        """A node for the value that a check reads. If it reads elements, they are copied before a later operation changes
        them."""
        if not isinstance(node.meta[EXAMPLE], torch.Tensor):
            return node
        if elements_for is None:
            with self._whole.inserting_after(node):
                return self._whole.call_method("detach", (node,))
        with self._whole.inserting_before(elements_for):
            return self._whole.call_method("clone", (self._whole.call_method("detach", (node,)),))
