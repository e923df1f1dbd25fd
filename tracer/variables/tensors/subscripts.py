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
    items = _indices(tx, key)
    if any(map(_is_read_off, items)) and all(_is_basic(item) or _is_read_off(item) for item in items) and reads_numbers(tx):
        with capturing_numbers(tx):
            read = [item.call_method(tx, "item", [], {}) if _is_read_off(item) else item for item in items]
            return _selected(tx, tensor, read), None
    if not any(isinstance(item, SymNodeVariable) for item in items):
        return tensor, key
    return (_selected(tx, tensor, items), None) if all(map(_is_basic, items)) else _selected_beside_others(tx, tensor, items, key)


def select_basic(tx: Tracer, tensor: TensorVariable, key: VariableTracker) -> TensorVariable | None:
    """The view `tensor[key]`, if the key has symbolic indices beside ints, slices without a step, None and Ellipsis only."""
    items = _indices(tx, key)
    symbolic = any(isinstance(item, SymNodeVariable) for item in items)
    if any(isinstance(item, SliceVariable) and not item.parts[2].is_none() for item in items):
        return None
    return _selected(tx, tensor, items) if symbolic and all(map(_is_basic, items)) else None


def _indices(tx: Tracer, key: VariableTracker) -> list[VariableTracker]:
    """The indices of a subscript. An integer of NumPy that was passed is the number in it."""
    items = key.items(tx) if isinstance(key, TupleVariable) else [key]
    return [cast("Any", item).as_number(tx) if getattr(item, "is_integer", False) else item for item in items]


def reads_numbers(tx: Tracer) -> bool:
    """Whether a number is read off a tensor here. Compilers do not take every graph that writes to views at such places."""
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


def _selected_beside_others(
    tx: Tracer, tensor: TensorVariable, items: list[VariableTracker], key: VariableTracker
) -> tuple[TensorVariable, VariableTracker]:
    """(the view that the symbolic indices select, what is left of the key), where other indices are tensors or lists. Torch, too,
    selects first."""
    used = [_dims_taken(tx, item) for item in items]
    if None in used:
        return tensor, key
    skipped = tensor.fake.dim() - sum(used)
    view: Any = tensor
    rest, dim = [], 0
    for item, dims in zip(items, used):
        if isinstance(item, SymNodeVariable):
            view = view.call_method(tx, "select", [ConstantVariable(dim), item], {})
            continue
        rest.append(item)
        dim += skipped if item.is_constant() and item.constant() is Ellipsis else dims
    return view, TupleVariable(rest)


def _dims_taken(tx: Tracer, item: VariableTracker) -> Any:
    """How many dims an index takes; None if that is not known."""
    if _is_basic(item):
        return _dims_used(item)
    fake: Any = getattr(item, "fake", None)
    if isinstance(fake, torch.Tensor):
        return fake.dim() if fake.dtype in (torch.bool, torch.uint8) else 1
    if isinstance(item, SequenceVariable) and item.cls is list:
        of_ints = all(each.python_type() is int for each in item.items(tx))
        return 1 if of_ints and item.items(tx) else None
    return None


def _is_read_off(item: VariableTracker) -> bool:
    """Whether an index is a tensor of no dims with an integer, which torch reads off it."""
    fake: Any = getattr(item, "fake", None)
    if not isinstance(fake, torch.Tensor) or fake.dim() or getattr(item, "cls", None) is not torch.Tensor:
        return False
    return not (fake.dtype.is_floating_point or fake.dtype.is_complex or fake.dtype in (torch.bool, torch.uint8))


def is_basic_index(tx: Tracer, key: VariableTracker) -> bool:
    """Whether an index gives a view: it has only ints, slices, None and Ellipsis."""
    return all(map(_is_basic, key.items(tx) if type(key) is TupleVariable else [key]))


def _is_basic(item: VariableTracker) -> bool:
    if isinstance(item, (SliceVariable, SymNodeVariable)):
        return item.python_type() in (slice, int)
    return item.is_constant() and (item.constant() is None or item.constant() is Ellipsis or type(item.constant()) is int)


def _dims_used(item: VariableTracker) -> int:
    return 0 if item.is_constant() and (item.constant() is None or item.constant() is Ellipsis) else 1
