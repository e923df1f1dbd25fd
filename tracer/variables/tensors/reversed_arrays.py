"""Views of arrays with negative strides (`a[::-1]`, `np.flip`), which torch has not.

In the graph, operations take a copy of such a view, made where it is used. What writes to it, or makes a view of it, breaks the
graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from tracer import _C
from tracer.graph.operations.array_operations import array_operation
from tracer.graph_breaks import unsupported
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.containers.ranges import SliceVariable
from tracer.variables.tensors.arrays import VIEWS, NdarrayVariable, apply
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import NONE, ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen

_SAME_AS_BASE = frozenset(("shape", "size", "ndim", "dtype", "itemsize", "nbytes"))
_GETITEM = array_operation("operator", "getitem")


class ReversedArrayVariable(NdarrayVariable):
    """`np.flip(base, dims)`, a view of `base`."""

    def __init__(self, base: NdarrayVariable, dims: Iterable[int]) -> None:
        self.base = base
        self.dims = tuple(sorted(dims))
        self.cls = np.ndarray
        self.source = None
        self.writeable = base.writeable

    @property
    def tensor(self) -> TensorVariable:  # type: ignore[override]  # an attribute of other arrays
        unsupported("not-a-graph-argument", value=self.describe())

    def describe(self) -> str:
        return f"a view of {self.base.describe()} with negative strides"

    def children(self) -> Iterable[VariableTracker]:
        return (self.base,)

    def operand(self, tx: Tracer) -> NdarrayVariable:
        flipped = self.base.tensor.call_method(tx, "flip", [tx.literal(self.dims)], {})
        assert isinstance(flipped, TensorVariable)
        copy = NdarrayVariable(flipped)
        copy.reversed_dims = self.dims
        return copy

    def known(self, tx: Tracer) -> None:
        return None

    def length(self, tx: Tracer) -> VariableTracker:
        return self.base.length(tx)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in _SAME_AS_BASE:
            return self.base.get_attr(tx, name)
        if name == "strides":
            steps = self.base.get_attr(tx, name).unpack(tx)
            return TupleVariable([tx.unary("-", step) if dim in self.dims else step for dim, step in enumerate(steps)])
        return super().get_attr(tx, name)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(_flipped, lambda: cg.load(self.base), lambda: cg.load_const(self.dims))


def _flipped(array: np.ndarray[Any, Any], dims: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Called by output code."""
    view: np.ndarray[Any, Any] = np.flip(array, dims)
    return view


_C.never_trace(_flipped.__code__)


def _parts(array: VariableTracker) -> tuple[NdarrayVariable, frozenset[int]] | None:
    """The array of positive strides that an array is a view of, and the dims that are reversed."""
    if isinstance(array, ReversedArrayVariable):
        return array.base, frozenset(array.dims)
    return (array, frozenset()) if isinstance(array, NdarrayVariable) and not array.is_scalar else None


def _item(tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker | None:
    """`array[key]`, if the array is reversed, or the key reverses a dim: `::-1` alone or among slices and numbers."""
    parts = _parts(args[0])
    if parts is None:
        return None
    base, dims = parts
    keys = args[1].items(tx) if isinstance(args[1], TupleVariable) else [args[1]]
    if not dims and not any(_reverses(key) for key in keys):
        return None
    whole = _all_dims(keys, base.tensor.fake.dim())
    read = None if whole is None else _read(whole, dims)
    if read is None:
        return None
    key, reversed_dims = read
    item = apply(tx, _GETITEM, [base, TupleVariable(key)], {})
    return ReversedArrayVariable(item, reversed_dims) if reversed_dims and isinstance(item, NdarrayVariable) else item


def _read(keys: list[VariableTracker], dims: frozenset[int]) -> tuple[list[VariableTracker], list[int]] | None:
    """The key that reads the same of the array without reversed dims, and the dims of the result that are then to be reversed."""
    read: list[VariableTracker] = []
    reversed_dims, dim, place = [], 0, 0
    for key in keys:
        backwards = dim in dims
        if key.is_none():
            read.append(key)
            place += 1
            continue
        dim += 1
        if not isinstance(key, SliceVariable):
            read.append(ConstantVariable(-1 - key.constant()) if backwards else key)
            continue
        if _reverses(key) or _is_whole(key):
            read.append(_WHOLE)
            if backwards != _reverses(key):
                reversed_dims.append(place)
        elif backwards:
            return None
        else:
            read.append(key)
        place += 1
    return read, reversed_dims


def _all_dims(keys: list[VariableTracker], count: int) -> list[VariableTracker] | None:
    """The key with a part for each dim; None if it has others than slices, numbers, None and an ellipsis."""
    dots = [place for place, key in enumerate(keys) if key.is_constant() and key.constant() is ...]
    for place, key in enumerate(keys):
        if not (place in dots or key.is_none() or isinstance(key, SliceVariable) or _is_number(key)):
            return None
    missing = count - sum(not key.is_none() for key in keys) + len(dots)
    if len(dots) > 1 or missing < 0:
        return None
    at = dots[0] if dots else len(keys)
    return [*keys[:at], *[_WHOLE] * missing, *keys[at + len(dots) :]]


_WHOLE = SliceVariable(NONE, NONE, NONE)


def _is_number(key: VariableTracker) -> bool:
    return key.is_constant() and type(key.constant()) is int


def _reverses(key: VariableTracker) -> bool:
    if not isinstance(key, SliceVariable):
        return False
    start, stop, step = key.parts
    return start.is_none() and stop.is_none() and _is_number(step) and step.constant() == -1


def _is_whole(key: SliceVariable) -> bool:
    start, stop, step = key.parts
    return start.is_none() and stop.is_none() and (step.is_none() or _is_number(step) and step.constant() == 1)


def _flip(tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker | None:
    """np.flip(array, axis)"""
    parts = _parts(args[0]) if args else None
    given = [*args[1:], *([kwargs["axis"]] if "axis" in kwargs else [])]
    if parts is None or len(given) > 1 or kwargs.keys() - {"axis"}:
        return None
    count = parts[0].tensor.fake.dim()
    axes = _axes(tx, given[0], count) if given else range(count)
    return None if axes is None else _turned(tx, *parts, axes)


def _axes(tx: Tracer, axis: VariableTracker, count: int) -> Iterable[int] | None:
    if axis.is_none():
        return range(count)
    each = axis.items(tx) if isinstance(axis, TupleVariable) else [axis]
    if not all(_is_number(one) and -count <= one.constant() < count for one in each):
        return None
    axes = [one.constant() % count for one in each]
    return axes if len(set(axes)) == len(axes) else None


def _along(axis: int) -> Any:
    """The model of np.flipud or np.fliplr."""

    def turned(tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker | None:
        parts = _parts(args[0]) if len(args) == 1 and not kwargs else None
        return None if parts is None or parts[0].tensor.fake.dim() <= axis else _turned(tx, *parts, (axis,))

    return turned


def _turned(tx: Tracer, base: NdarrayVariable, dims: frozenset[int], axes: Iterable[int]) -> VariableTracker:
    item = apply(tx, _GETITEM, [base, ConstantVariable(...)], {})  # another array object than `base`
    turned = dims ^ frozenset(axes)
    return ReversedArrayVariable(item, turned) if turned and isinstance(item, NdarrayVariable) else item


def _rotated(tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker | None:
    """np.rot90(array, k, axes): by 90 degrees, two dims change places, and the one that is now the first is reversed."""
    parts = _parts(args[0]) if args else None
    given = dict(zip(("k", "axes"), args[1:])) | kwargs
    if parts is None or len(args) > 3 or given.keys() - {"k", "axes"}:
        return None
    base, dims = parts
    axes = _axes(tx, given.get("axes", _FIRST_TWO), base.tensor.fake.dim())
    times = given.get("k", ConstantVariable(1))
    if axes is None or len(first_second := list(axes)) != 2 or not _is_number(times):
        return None
    first, second = first_second
    turns = times.constant() % 4
    if turns % 2 == 0:
        return _turned(tx, base, dims, first_second if turns else ())
    swapped = apply(tx, array_operation("method", "swapaxes"), [base, ConstantVariable(first), ConstantVariable(second)], {})
    assert isinstance(swapped, NdarrayVariable)
    moved = frozenset({first: second, second: first}.get(dim, dim) for dim in dims)
    return _turned(tx, swapped, moved, (first,) if turns == 1 else (second,))


_FIRST_TWO = TupleVariable([ConstantVariable(0), ConstantVariable(1)])


VIEWS.update({"operator:getitem": _item, "function:flip": _flip, "function:flipud": _along(0), "function:fliplr": _along(1)})
VIEWS["function:rot90"] = _rotated
