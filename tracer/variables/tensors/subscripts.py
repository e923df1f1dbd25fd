"""Subscripts of tensors, as FX arguments. A symbolic index becomes a `select`, as torch's own subscript would specialise it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch

from tracer import config
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import RangeVariable, SequenceVariable, SliceVariable, TupleVariable
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.tensors.tensor_methods import capturing_numbers
from tracer.variables.values.constant import ConstantVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.variables.tensors.tensor import TensorVariable

WHOLE = ConstantVariable(Ellipsis)


def subscript(tx: Tracer, key: VariableTracker) -> Any:
    """A subscript as an FX argument: ints, slices, None, Ellipsis, tensors and lists of them."""
    if isinstance(key, SliceVariable):
        return slice(*(_bound(tx, part) for part in key.parts))
    if isinstance(key, RangeVariable):  # as torch takes any other sequence of numbers
        return tx.as_graph_arg(tx.call_library(CallableVariable(torch.arange), list(key.parts), {}))
    if key.is_constant() and not isinstance(key, SequenceVariable):
        return key.graph_arg()
    if isinstance(key, SequenceVariable):
        if key.cls is list and any(map(_depends_on_data, key.items(tx))):  # torch itself converts it to a tensor
            return tx.as_graph_arg(tx.call_library(CallableVariable(torch.tensor), [key], {}))
        items = [subscript(tx, item) for item in key.items(tx)]
        return tuple(items) if issubclass(key.cls, tuple) else items
    index_of_array = getattr(key, "as_index", None)
    return tx.as_graph_arg(key) if index_of_array is None else index_of_array(tx)


def _bound(tx: Tracer, part: VariableTracker) -> Any:
    known = cast("TensorVariable", part).decided(tx) if _is_read_off(part) else None
    return subscript(tx, part) if known is None else int(known)


def _depends_on_data(value: VariableTracker) -> bool:
    return isinstance(value, SymNodeVariable) and value.depends_on_data()


def select_symbolic(tx: Tracer, tensor: TensorVariable, key: VariableTracker) -> tuple[TensorVariable, VariableTracker | None]:
    """(the view `tensor[key]`, None) if the key has symbolic indices, otherwise (tensor, key)"""
    items = key.items(tx) if isinstance(key, TupleVariable) else [key]
    if any(map(_is_read_off, items)) and all(_is_basic(item) or _is_read_off(item) for item in items) and _reads_numbers(tx):
        with capturing_numbers(tx):
            read = [item.call_method(tx, "item", [], {}) if _is_read_off(item) else item for item in items]
            return _selected(tx, tensor, read), None
    if not any(isinstance(item, SymNodeVariable) for item in items) or not all(map(_is_basic, items)):
        return tensor, key
    return _selected(tx, tensor, items), None


def _reads_numbers(tx: Tracer) -> bool:
    """Whether an index is read off a tensor here. Compilers do not take every graph that writes to views at such places."""
    if tx.effects.observer is not None or torch._C._are_functorch_transforms_active():  # a part that is a graph of its own
        return False
    return config.capture_scalar_outputs or tx.output.chances.take()


def _selected(tx: Tracer, tensor: TensorVariable, items: list[VariableTracker]) -> TensorVariable:
    skipped = tensor.fake.dim() - sum(map(_dims_used, items))
    dim = 0
    view: Any = tensor
    for item in items:  # one by one and in this order, as torch does
        at = ConstantVariable(dim)
        if isinstance(item, SliceVariable):
            whole = ConstantVariable(slice(None))
            view = view.get_item(tx, TupleVariable([whole] * dim + [item]))
            dim += 1
        elif item.is_constant() and item.constant() is Ellipsis:
            dim += skipped
        elif _dims_used(item) == 0:
            view = view.call_method(tx, "unsqueeze", [at], {})
            dim += 1
        else:
            view = view.call_method(tx, "select", [at, item], {})
    return cast("TensorVariable", view)


def _is_read_off(item: VariableTracker) -> bool:
    """Whether an index is a tensor of no dims with an integer, which torch reads off it."""
    fake: Any = getattr(item, "fake", None)
    if not isinstance(fake, torch.Tensor) or fake.dim() or getattr(item, "cls", None) is not torch.Tensor:
        return False
    return not (fake.dtype.is_floating_point or fake.dtype.is_complex or fake.dtype in (torch.bool, torch.uint8))


def _is_basic(item: VariableTracker) -> bool:
    if isinstance(item, (SliceVariable, SymNodeVariable)):
        return item.python_type() in (slice, int)
    return item.is_constant() and (item.constant() is None or item.constant() is Ellipsis or type(item.constant()) is int)


def _dims_used(item: VariableTracker) -> int:
    return 0 if item.is_constant() and (item.constant() is None or item.constant() is Ellipsis) else 1
