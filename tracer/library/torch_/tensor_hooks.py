"""A model of `Tensor.register_hook`. On a tensor that the graph makes, the hook becomes a graph of its own. It is traced where it
is registered but runs when gradients come, perhaps much later, so what it reads must still be the same then. On a tensor that is
a leaf outside of the graph, the output code registers the hook as it is.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import fx

from tracer.effects.deferred_calls import DeferredCall
from tracer.graph.operations.tensor_hooks import add_hook, remove_hook
from tracer.graph.output_graph import EXAMPLE
from tracer.graph_breaks import unsupported
from tracer.library.subgraphs import Subgraph, argument_of_function, recording, refuse_new_symbols
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.sources.reading import codes_in
from tracer.variables.functions.python_functions import FunctionVariable
from tracer.variables.tensors.backward import is_leaf_outside
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import NONE, ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen

Value = VariableTracker
_NAME = "a hook on a tensor"


class OutsideHandleVariable(VariableTracker):
    """The handle of a hook that the output code registers."""

    def __init__(self, break_step: int) -> None:
        self.break_step = break_step

    def truth(self, tx: Tracer) -> bool:
        return True

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        self._refuse()

    def get_attr(self, tx: Tracer, name: str) -> Value:
        self._refuse()

    def reconstruct(self, cg: ValueCodegen) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        """Breaks the graph before the hook is registered, so that CPython makes the handle."""
        name = f"{_NAME} whose handle is used outside of the graph"
        unsupported("autograd-in-trace", break_step=self.break_step, name=name)


class HookHandleVariable(OutsideHandleVariable):
    """The handle of a hook in the graph. It exists only in the graph, which can remove the hook."""

    def __init__(self, node: fx.Node, break_step: int) -> None:
        super().__init__(break_step)
        self.node = node

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name != "remove" or args or kwargs:
            self._refuse()
        handle = self.node.meta[EXAMPLE]
        tx.output.run_fake(remove_hook, (handle,), {}, _NAME)
        tx.output.create_node("call_function", remove_hook, (self.node,), {}, None)
        return NONE

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name != "remove":
            self._refuse()
        return tx.bound_builtin_method(self, name)


@models.of_plain_tensors(add_hook)
def _register_hook(tx: Tracer, tensor: Value, hook: Value, name: str) -> Value:
    """`name` is the method of the tensor that registers the hook."""
    known = isinstance(tensor, TensorVariable) and tensor.cls in (torch.Tensor, torch.nn.Parameter)
    nested = tx.effects.observer is not None or torch._C._are_functorch_transforms_active() or tx.trace.overrides.active
    if not isinstance(tensor, TensorVariable) or not known or nested or not tensor.fake.requires_grad:
        unsupported("autograd-in-trace", name=f"{_NAME} of another kind")
    if is_leaf_outside(tx, tensor):
        return _set_by_output_code(tx, tensor, hook, getattr(torch.Tensor, name))
    if tensor.source is not None or name != "register_hook":
        unsupported("autograd-in-trace", name=f"{_NAME} that existed before, or of another kind,")
    _refuse_what_may_change(tx, hook)
    subgraph = _trace_hook(tx, tensor, hook)
    output = tx.output
    module = output.add_module("hook", subgraph.module)
    examples = tuple(node.meta[EXAMPLE] for node in subgraph.read)
    handle = output.run_fake(add_hook, (tensor.fake, subgraph.module, examples), {}, _NAME)
    node = output.create_node("call_function", add_hook, (tensor.node, module, tuple(subgraph.read)), {}, handle)
    step = tx.break_step()
    tensor.hooked_at = step if tensor.hooked_at is None else tensor.hooked_at
    return HookHandleVariable(node, step)


def _set_by_output_code(tx: Tracer, tensor: TensorVariable, hook: Value, function: Any) -> Value:
    """Registers the hook after the graph. Gradients reach a leaf later still, unless a backward pass is part of the graph, which
    has to be refused."""
    step = tx.break_step()
    tensor.hooked_at = step if tensor.hooked_at is None else tensor.hooked_at
    tx.effects.defer(DeferredCall(function, (), (tensor, hook)))
    return OutsideHandleVariable(step)


def _trace_hook(tx: Tracer, tensor: TensorVariable, hook: Value) -> Subgraph:
    """Traces a call of the hook with a gradient of the tensor's shape, and cuts it out as a graph of its own."""
    output = tx.output
    example = output.run_fake(_gradient, (tensor.fake,), {}, _NAME)
    argument = output.create_node("call_function", argument_of_function, (), {}, example)
    with recording(tx, _NAME, [hook]) as part, torch.no_grad():  # as autograd runs it
        result = hook.call(tx, [TensorVariable(argument, example)], {})
    given = result.node if isinstance(result, TensorVariable) else None
    if given is None and not result.is_none():
        unsupported("autograd-in-trace", name=f"{_NAME} that gives something else than a tensor")
    subgraph = part.cut([given], [argument])
    del subgraph.read[:1]
    output.graph.erase_node(argument)
    refuse_new_symbols(subgraph, _NAME)
    return subgraph


def _refuse_what_may_change(tx: Tracer, hook: Value) -> None:
    """Besides the gradient, a hook may read torch and `math`, and tensors and constants in its defaults and in cells that the
    trace made. The end of the trace checks that these cells have not changed."""
    if not isinstance(hook, FunctionVariable):
        unsupported("autograd-in-trace", name=f"{_NAME} that is no plain function")
    for name in (name for code in codes_in(hook.code) for name in code.co_names):
        if name in hook.globals and not _never_changes(hook.globals[name]):
            unsupported("autograd-in-trace", name=f"{_NAME} that reads the global {name}")
    for value in (*hook.defaults(tx), *hook.kwdefaults(tx).values()):
        _refuse_objects(value)
    for cell in hook.closure(tx):
        content = cell.read(tx)
        if cell.source is not None or content is None:
            unsupported("autograd-in-trace", name=f"{_NAME} with a closure that existed before")
        _refuse_objects(content)
        tx.trace.read_late.append((cell, content, tx.break_step()))


def _refuse_objects(value: Value) -> None:
    """Breaks the graph for a hook that reads more of the program than tensors and constants."""
    if not isinstance(value, (TensorVariable, ConstantVariable)):
        unsupported("autograd-in-trace", name=f"{_NAME} that reads {value.describe()}")


def _never_changes(value: object) -> bool:
    """Whether a hook may read this global when autograd calls it, after the trace."""
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] in ("torch", "math")
    return isinstance(value, types.BuiltinFunctionType)


def _gradient(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)
