"""Models for `torch.optim`: steps are traced through, as they run in CPython.

torch takes other paths there for compilers (counters that stay tensors, graph breaks around a step). They are not taken, because
they would change results in the last bit: counters become numbers of the graph.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch.optim import optimizer

from tracer.graph_breaks import unsupported
from tracer.protocol.models import code_models, models
from tracer.protocol.variable import ObservedException, VariableTracker
from tracer.sources.functions import CellContentsSource, ClosureCellSource
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.functions.python_functions import as_written
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.tensors.tensor_methods import capturing_numbers
from tracer.variables.values.constant import FALSE, ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker


@code_models(optimizer._use_grad_for_differentiable(lambda self: None).__code__)
def _step(tx: Tracer, callee: CallableVariable, instance: Value, *args: Value, **kwargs: Value) -> Value:
    """Runs the step in the grad mode that the optimizer asks for."""
    if callee.source is None:
        unsupported("unsupported-call", value=callee.describe())
    index = callee.value.__code__.co_freevars.index("func")
    source = CellContentsSource(ClosureCellSource(callee.source, index))
    function = tx.wrap(callee.value.__closure__[index].cell_contents, source)
    wanted = instance.get_attr(tx, "defaults").get_item(tx, tx.literal("differentiable")).truth(tx)
    before, state = torch.is_grad_enabled(), tx.trace.torch_state
    state.change(torch._C._set_grad_enabled, wanted)
    try:
        result = function.call(tx, [instance, *args], kwargs)
    except ObservedException:
        state.change(torch._C._set_grad_enabled, before)
        raise
    state.change(torch._C._set_grad_enabled, before)
    return result


@models.of_plain_tensors(optimizer._get_value)
def _get_value(tx: Tracer, value: Value) -> Value:
    if not isinstance(value, TensorVariable):
        return value
    with capturing_numbers(tx):
        return value.call_method(tx, "item", [], {})


@models.of_plain_tensors(optimizer._stack_if_compiling)
def _stack_if_compiling(tx: Tracer, values: Value) -> Value:
    return values


_ZERO_GRAD: Any = optimizer.Optimizer.zero_grad
_zero_grad_itself = inspect.unwrap(_ZERO_GRAD)


@models.of_plain_tensors(_zero_grad_itself)
def _zero_grad(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
    """torch tells compilers not to trace this method. It is traced through all the same, with the result that CPython gives."""
    return tx.inline(as_written(_zero_grad_itself), list(args), kwargs)


@models.of_plain_tensors(torch._C._group_tensors_by_device_and_dtype)
def _groups(tx: Tracer, lists: Value, with_indices: Value = FALSE) -> Value:
    """torch itself groups empty tensors with the same devices and dtypes. The indices that it returns hold for the tensors."""
    rows = [row.unpack(tx) for row in lists.unpack(tx)]
    firsts = [item for item in rows[0] if isinstance(item, TensorVariable)] if rows else []
    alike = all(len(row) == len(firsts) and all(map(_goes_with, firsts, row)) for row in rows)
    if not firsts or len(firsts) != len(rows[0]) or not alike:
        unsupported("unsupported-builtin", function="torch._C._group_tensors_by_device_and_dtype")
    stand_ins = [torch.empty(0, dtype=first.fake.dtype, device=first.fake.device) for first in firsts]
    result = DictVariable({})
    for key, (_, places) in torch._C._group_tensors_by_device_and_dtype([stand_ins], True).items():
        members = ListVariable([ListVariable([row[place] for place in places]) for row in rows])
        indices = tx.literal(places if with_indices.truth(tx) else [])
        result.set_item(tx, tx.tuple_of(map(ConstantVariable, key)), tx.tuple_of([members, indices]))
    return result


def _goes_with(first: TensorVariable, other: Value) -> bool:
    """Whether torch accepts a value beside a tensor of the first list: None, or a tensor of the same device and dtype."""
    if not isinstance(other, TensorVariable):
        return other.is_none()
    return (first.fake.device, first.fake.dtype) == (other.fake.device, other.fake.dtype)
