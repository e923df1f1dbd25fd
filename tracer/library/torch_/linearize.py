"""A model of `torch.func.linearize`: the function is traced in a level of forward AD, as a graph of its own, which each call of
the function that linearize gives runs with other tangents."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import torch
from torch import func, fx
from torch.utils import _pytree as pytree

from tracer.compat_torch.thread_state import dual_level
from tracer.graph.fakes.fake_tensors import storage_of
from tracer.graph.operations.forward_ad import run_linearized
from tracer.graph.output_graph import EXAMPLE
from tracer.graph_breaks import unsupported
from tracer.library.structures import containers_of, tracked
from tracer.library.subgraphs import argument_of_function, recording, refuse_new_symbols
from tracer.library.torch_.forward_ad import enter_dual_level, exit_dual_level, make_dual, unpack_dual
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.tensors.tensor import TensorVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen

Value = VariableTracker
_NAME = "a function under torch.func.linearize"


@models.of_plain_tensors(func.linearize)
def _linearize(tx: Tracer, function: Value, *primals: Value) -> Value:
    linear = LinearVariable(tx, primals)
    output = function.call(tx, list(primals), {})  # PyTorch, too, calls it twice
    linear.trace(tx, function)
    return TupleVariable([output, linear])


class LinearVariable(VariableTracker):
    """The function that `linearize` gives. It can be called in the graph, and not leave it."""

    def __init__(self, tx: Tracer, primals: tuple[Value, ...]) -> None:
        self.step = tx.break_step()
        leaves, self.spec = pytree.tree_flatten(tuple(containers_of(tx, primal) for primal in primals))
        self.primals: list[TensorVariable] = [leaf for leaf in leaves if isinstance(leaf, TensorVariable)]
        if len(self.primals) < len(leaves):
            self._refuse("with arguments that are no tensors")
        if torch._C._are_functorch_transforms_active() or dual_level() >= 0:
            self._refuse("in a level of forward AD")

    def _refuse(self, why: str) -> NoReturn:
        unsupported("autograd-in-trace", break_step=self.step, name=f"torch.func.linearize {why}")

    def truth(self, tx: Tracer) -> bool:
        return True

    def reconstruct(self, cg: ValueCodegen) -> None:
        unsupported("cannot-reconstruct", break_step=self.step, value="the function that torch.func.linearize gave")

    def trace(self, tx: Tracer, function: Value) -> None:
        """Makes the graph of the tangents of what the function gives."""
        mode = tx.output.world.fake_mode
        draws, marks = mode.draws, [self._argument(tx, primal) for primal in self.primals]
        tangents = [TensorVariable(mark, mark.meta[EXAMPLE]) for mark in marks]
        with recording(tx, _NAME, [function, *self.primals]) as part:
            enter_dual_level(tx)
            duals = iter([make_dual(tx, primal, tangent) for primal, tangent in zip(self.primals, tangents)])
            given = tracked(tx, pytree.tree_unflatten(self.primals, self.spec), lambda leaf: next(duals)).unpack(tx)
            self.structure = containers_of(tx, function.call(tx, list(given), {}))
            leaves = pytree.tree_leaves(self.structure)
            if not all(isinstance(leaf, TensorVariable) for leaf in leaves):
                self._refuse("of a function that gives other values than tensors")
            results = [self._tangent(tx, leaf) for leaf in leaves]
            exit_dual_level(tx)
        if mode.draws > draws:
            self._refuse("of a function that draws random numbers")
        subgraph = part.cut(results, [*(primal.node for primal in self.primals), *marks])
        refuse_new_symbols(subgraph, _NAME)
        for mark in reversed(marks):
            tx.output.graph.erase_node(mark)
        self.captured = tuple(subgraph.read[2 * len(marks) :])
        read = [primal.fake for primal in self.primals]
        read += [node.meta[EXAMPLE] for node in self.captured if isinstance(node.meta[EXAMPLE], torch.Tensor)]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in read):
            self._refuse("where an input requires a gradient")  # PyTorch keeps a part of the history of tangents
        self.storages, self.writes = set(map(storage_of, read)), len(mode.writes)
        self.module = tx.output.add_module("linearized", subgraph.module)

    def _argument(self, tx: Tracer, primal: TensorVariable) -> fx.Node:
        """A node that stands for a tangent."""
        example = tx.output.run_fake(torch.empty_like, (primal.fake,), {}, torch.empty_like)
        return tx.output.create_node("call_function", argument_of_function, (), {}, example)

    def _tangent(self, tx: Tracer, result: Value) -> fx.Node:
        tangent = unpack_dual(tx, result).unpack(tx)[1]
        if tangent.is_none():
            self._refuse("of a function with a result that has no tangent")
        node: fx.Node = tangent.graph_arg()
        return node

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        leaves, spec = pytree.tree_flatten(tuple(containers_of(tx, arg) for arg in args))
        tangents = [leaf for leaf in leaves if isinstance(leaf, TensorVariable)]
        if kwargs or spec != self.spec or len(tangents) < len(leaves) or not all(map(_fits, tangents, self.primals)):
            self._refuse("with tangents that do not fit")
        if torch._C._are_functorch_transforms_active() or dual_level() >= 0:
            self._refuse("whose function is called under a transform, or in a level of forward AD")
        if not self.storages.isdisjoint(tx.output.world.fake_mode.writes[self.writes :]):
            self._refuse("of tensors that are written to before its function is called")
        nodes = [value.node for value in (*self.primals, *tangents)]
        made = tx.output.call_function(run_linearized, (self.module, *nodes, *self.captured), {})
        results = iter(made.unpack(tx))
        return tracked(tx, self.structure, lambda leaf: next(results))


def _fits(tangent: TensorVariable, primal: TensorVariable) -> bool:
    one, other = tangent.fake, primal.fake
    return (one.shape, one.device, one.dtype) == (other.shape, other.device, other.dtype)
