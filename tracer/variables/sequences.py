"""list, tuple, torch.Size, named tuples, range and slice."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph_breaks import unsupported
from tracer.variables.base import Models, VariableTracker, no_keywords
from tracer.variables.constant import COMPARE, ConstantVariable, boolean
from tracer.variables.iterators import SequenceIterator
from tracer.variables.lazy import Unwrapped, realize
from tracer.variables.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.sources import Source
    from tracer.variables.protocol import Tracer

Item = VariableTracker | Unwrapped


def index_of(tx: Tracer, key: VariableTracker) -> Any:
    """The Python int or slice that a subscript stands for; symbolic bounds are specialised."""
    if isinstance(key, SymNodeVariable):
        key = key.specialize(tx)
    if isinstance(key, SliceVariable):
        return slice(*(index_of(tx, part) for part in key.parts))
    if key.is_constant() and (key.constant() is None or isinstance(key.constant(), int)):
        return key.constant()
    return None


class SequenceVariable(VariableTracker):
    """A built-in sequence of tracked values; items that existed before the frame are wrapped when first read."""

    cls: type = object
    methods: Models

    def __init__(self, items: Iterable[Item], source: Source | None = None) -> None:
        self._items: list[Item] = list(items)
        self.source = source

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"{type(self).__name__}(length={len(self._items)})"

    __repr__ = describe

    def item(self, tx: Tracer, index: int) -> VariableTracker:
        return realize(tx, self._items, index)

    def items(self, tx: Tracer) -> list[VariableTracker]:
        return [realize(tx, self._items, index) for index in range(len(self._items))]

    def unpack(self, tx: Tracer) -> list[VariableTracker]:
        return self.items(tx)

    def children(self) -> Iterable[VariableTracker]:
        return (item for item in self._items if isinstance(item, VariableTracker))

    def is_constant(self) -> bool:
        return False

    def graph_arg(self) -> Any:
        args = [item.graph_arg() for item in self._realized()]
        return tuple(args) if issubclass(self.cls, tuple) else args

    def _realized(self) -> list[VariableTracker]:
        for item in self._items:
            if isinstance(item, Unwrapped):
                unsupported("not-a-graph-argument", value=self.describe())
        return self._items  # type: ignore[return-value]

    # -- protocol ------------------------------------------------------------------------------------------------

    def truth(self, tx: Tracer) -> bool:
        return bool(self._items)

    def length(self, tx: Tracer) -> VariableTracker:
        return ConstantVariable(len(self._items))

    def iterate(self, tx: Tracer) -> VariableTracker:
        return SequenceIterator(self)

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        index = index_of(tx, key)
        if isinstance(index, slice):
            return self.like(self.items(tx)[index])
        if index is None:
            name = "list" if self.cls is list else "tuple"
            tx.raise_error(TypeError, f"{name} indices must be integers or slices, not {_type_name(key)}")
        if not -len(self._items) <= index < len(self._items):
            tx.raise_error(IndexError, f"{'list' if self.cls is list else 'tuple'} index out of range")
        return self.item(tx, index % len(self._items))

    def like(self, items: list[VariableTracker]) -> VariableTracker:
        """A new sequence of the kind that slicing this one gives."""
        return type(self)(items)

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        return boolean(any(tx.same_or_equal(mine, item) for mine in self.items(tx)))

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if op == "+" and not reflected and isinstance(other, SequenceVariable) and _concatenates(self.cls, other.cls):
            return self.like(self.items(tx) + other.items(tx))
        if op == "*":
            times = index_of(tx, other)
            if isinstance(times, int):
                return self.like(self.items(tx) * times)
        return None

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if not isinstance(other, SequenceVariable) or not _comparable(self.cls, other.cls):
            return None
        mine, theirs = self.items(tx), other.items(tx)
        if op in ("==", "!=") and len(mine) != len(theirs):
            return boolean(op == "!=")
        for left, right in zip(mine, theirs):
            if not tx.same_or_equal(left, right):
                return boolean(op == "!=") if op in ("==", "!=") else tx.compare(op, left, right)
        return boolean(COMPARE[op](len(mine), len(theirs)))

    # -- methods -------------------------------------------------------------------------------------------------

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if hasattr(self.cls, name):
            return tx.bound_builtin_method(self, name)
        tx.raise_error(AttributeError, f"{self.cls.__name__!r} object has no attribute {name!r}")

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        model = self.methods.get(name) or _SHARED.get(name)
        if model is None:
            if not hasattr(self.cls, name):
                tx.raise_error(AttributeError, f"{self.cls.__name__!r} object has no attribute {name!r}")
            unsupported("unsupported-method", value=self.describe(), name=name)
        return model(tx, self, *args, **kwargs)


def _type_name(value: VariableTracker) -> str:
    return value.python_type().__name__


def _concatenates(left: type, right: type) -> bool:
    return (left is list) == (right is list)


def _comparable(left: type, right: type) -> bool:
    return (issubclass(left, list) and issubclass(right, list)) or (issubclass(left, tuple) and issubclass(right, tuple))


_SHARED = Models("sequence method")


@_SHARED("__len__")
def _len(tx: Tracer, self: SequenceVariable) -> VariableTracker:
    return self.length(tx)


@_SHARED("__getitem__")
def _getitem(tx: Tracer, self: SequenceVariable, key: VariableTracker) -> VariableTracker:
    return self.get_item(tx, key)


@_SHARED("__contains__")
def _contains(tx: Tracer, self: SequenceVariable, item: VariableTracker) -> VariableTracker:
    return self.contains(tx, item)


@_SHARED("__iter__")
def _iter(tx: Tracer, self: SequenceVariable) -> VariableTracker:
    return self.iterate(tx)


@_SHARED("__eq__")
def _eq(tx: Tracer, self: SequenceVariable, other: VariableTracker) -> VariableTracker:
    return self.compare(tx, "==", other) or ConstantVariable(NotImplemented)


@_SHARED("index")
def _index(tx: Tracer, self: SequenceVariable, item: VariableTracker, *bounds: VariableTracker) -> VariableTracker:
    items = self.items(tx)
    start, stop, _ = slice(*(index_of(tx, bound) for bound in bounds), *[None] * (2 - len(bounds))).indices(len(items))
    for position in range(start, stop):
        if tx.same_or_equal(items[position], item):
            return ConstantVariable(position)
    name = item.constant().__repr__() if item.is_constant() else "x"
    tx.raise_error(ValueError, f"{name} is not in list" if self.cls is list else "tuple.index(x): x not in tuple")


@_SHARED("count")
def _count(tx: Tracer, self: SequenceVariable, item: VariableTracker) -> VariableTracker:
    return ConstantVariable(sum(tx.same_or_equal(mine, item) for mine in self.items(tx)))


# -- tuple and its kin -----------------------------------------------------------------------------------------------


class TupleVariable(SequenceVariable):
    cls = tuple
    methods = Models("tuple method")

    def is_constant(self) -> bool:
        return all(isinstance(item, VariableTracker) and item.is_constant() for item in self._items)

    def constant(self) -> Any:
        return tuple(item.constant() for item in self._realized())

    def identity(self) -> Any:
        return self

    def hash_key(self, tx: Tracer) -> Any:
        return tuple(item.hash_key(tx) for item in self.items(tx))

    def reconstruct(self, cg: Any) -> None:
        cg.build_sequence("BUILD_TUPLE", self._items)


class SizeVariable(TupleVariable):
    """torch.Size"""

    cls = torch.Size
    methods = Models("torch.Size method")

    def constant(self) -> Any:
        return torch.Size(super().constant())

    def like(self, items: list[VariableTracker]) -> VariableTracker:
        return SizeVariable(items)

    def reconstruct(self, cg: Any) -> None:
        cg.call_object(torch.Size, lambda: cg.build_sequence("BUILD_TUPLE", self._items))


@SizeVariable.methods("numel")
def _numel(tx: Tracer, self: SizeVariable) -> VariableTracker:
    product: VariableTracker = ConstantVariable(1)
    for item in self.items(tx):
        product = tx.binary("*", product, item)
    return product


class NamedTupleVariable(TupleVariable):
    """An instance of a `collections.namedtuple` class or of a structure that torch returns."""

    methods = Models("named tuple method")

    def __init__(self, items: Iterable[Item], cls: type, source: Source | None = None) -> None:
        super().__init__(items, source)
        self.cls = cls

    def is_constant(self) -> bool:
        return False

    @property
    def fields(self) -> Sequence[str]:
        names = getattr(self.cls, "_fields", None)
        if names is None:  # a structseq, such as torch.return_types.max
            names = [name for name in self.cls.__match_args__]  # type: ignore[attr-defined]
        return names

    def like(self, items: list[VariableTracker]) -> VariableTracker:
        return TupleVariable(items)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in self.fields:
            return self.item(tx, list(self.fields).index(name))
        if name == "_fields":
            return tx.literal(tuple(self.fields))
        if name == "__class__":
            return tx.class_variable(self.cls)
        return tx.named_tuple_attr(self, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if (self.methods.get(name) or _SHARED.get(name)) is None:
            return self.get_attr(tx, name).call(tx, args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, cg: Any) -> None:
        if hasattr(self.cls, "_make"):
            cg.call_object(self.cls._make, lambda: cg.build_sequence("BUILD_TUPLE", self._items))
        else:
            cg.call_object(self.cls, lambda: cg.build_sequence("BUILD_TUPLE", self._items))


@NamedTupleVariable.methods("_replace")
def _replace(tx: Tracer, self: NamedTupleVariable, **kwargs: VariableTracker) -> VariableTracker:
    unknown = [name for name in kwargs if name not in self.fields]
    if unknown:
        tx.raise_error(ValueError, f"Got unexpected field names: {unknown!r}")
    items = [kwargs.get(name) or item for name, item in zip(self.fields, self.items(tx))]
    return NamedTupleVariable(items, self.cls)


@NamedTupleVariable.methods("_asdict")
def _asdict(tx: Tracer, self: NamedTupleVariable) -> VariableTracker:
    return tx.new_dict(dict(zip(self.fields, self.items(tx))))


# -- list ------------------------------------------------------------------------------------------------------------


class ListVariable(SequenceVariable):
    cls = list
    methods = Models("list method")

    def hash_key(self, tx: Tracer) -> Any:
        tx.raise_error(TypeError, "unhashable type: 'list'")

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        index = index_of(tx, key)
        if isinstance(index, slice):
            items = self.items(tx)
            try:
                items[index] = value.unpack(tx)
            except ValueError as error:
                tx.raise_error(ValueError, *error.args)
            self.replace(tx, items)
            return
        if index is None:
            tx.raise_error(TypeError, f"list indices must be integers or slices, not {_type_name(key)}")
        if not -len(self._items) <= index < len(self._items):
            tx.raise_error(IndexError, "list assignment index out of range")
        tx.effects.mutate(self)
        self._items[index] = value

    def del_item(self, tx: Tracer, key: VariableTracker) -> None:
        index = index_of(tx, key)
        items = self.items(tx)
        try:
            del items[index]
        except IndexError:
            tx.raise_error(IndexError, "list assignment index out of range")
        self.replace(tx, items)

    def replace(self, tx: Tracer, items: Iterable[VariableTracker]) -> None:
        """self[:] = items"""
        tx.effects.mutate(self)
        self._items[:] = items

    def inplace(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if op == "+":
            self.replace(tx, self.items(tx) + other.unpack(tx))
            return self
        if op == "*":
            times = index_of(tx, other)
            if isinstance(times, int):
                self.replace(tx, self.items(tx) * times)
                return self
        return None

    def reconstruct(self, cg: Any) -> None:
        if cg.reaches_itself(self):
            cg.asm.emit("BUILD_LIST", 0)
        else:
            cg.build_sequence("BUILD_LIST", self._items)

    def fill(self, cg: Any) -> None:
        if cg.reaches_itself(self):
            self.replay(cg)

    def replay(self, cg: Any) -> None:
        """Makes the list that existed before the frame what this one is: self[:] = items"""
        cg.build_sequence("BUILD_LIST", self._items)
        cg.load(self)
        cg.load_const(slice(None))
        cg.asm.emit("STORE_SUBSCR")


_list = ListVariable.methods


@_list("append")
def _append(tx: Tracer, self: ListVariable, item: VariableTracker) -> VariableTracker:
    tx.effects.mutate(self)
    self._items.append(item)
    return ConstantVariable(None)


@_list("extend")
def _extend(tx: Tracer, self: ListVariable, other: VariableTracker) -> VariableTracker:
    self.replace(tx, self.items(tx) + other.unpack(tx))
    return ConstantVariable(None)


@_list("insert")
def _insert(tx: Tracer, self: ListVariable, position: VariableTracker, item: VariableTracker) -> VariableTracker:
    index = index_of(tx, position)
    if not isinstance(index, int):
        tx.raise_error(TypeError, f"{_type_name(position)!r} object cannot be interpreted as an integer")
    tx.effects.mutate(self)
    self._items.insert(index, item)
    return ConstantVariable(None)


@_list("pop")
def _pop(tx: Tracer, self: ListVariable, position: VariableTracker | None = None) -> VariableTracker:
    index = -1 if position is None else index_of(tx, position)
    if not self._items:
        tx.raise_error(IndexError, "pop from empty list")
    if not isinstance(index, int):
        tx.raise_error(TypeError, "an integer is required")
    if not -len(self._items) <= index < len(self._items):
        tx.raise_error(IndexError, "pop index out of range")
    item = self.item(tx, index % len(self._items))
    tx.effects.mutate(self)
    del self._items[index]
    return item


@_list("remove")
def _remove(tx: Tracer, self: ListVariable, item: VariableTracker) -> VariableTracker:
    for position, mine in enumerate(self.items(tx)):
        if tx.same_or_equal(mine, item):
            tx.effects.mutate(self)
            del self._items[position]
            return ConstantVariable(None)
    tx.raise_error(ValueError, "list.remove(x): x not in list")


@_list("clear")
def _clear(tx: Tracer, self: ListVariable) -> VariableTracker:
    self.replace(tx, [])
    return ConstantVariable(None)


@_list("copy", "__copy__")
def _copy(tx: Tracer, self: ListVariable) -> VariableTracker:
    return ListVariable(self.items(tx))


@_list("reverse")
def _reverse(tx: Tracer, self: ListVariable) -> VariableTracker:
    self.replace(tx, self.items(tx)[::-1])
    return ConstantVariable(None)


@_list("sort")
def _sort(
    tx: Tracer, self: ListVariable, *, key: VariableTracker | None = None, reverse: VariableTracker | None = None
) -> VariableTracker:
    self.replace(tx, tx.sorted(self.items(tx), key, reverse))
    return ConstantVariable(None)


@_list("__setitem__")
def _setitem(tx: Tracer, self: ListVariable, key: VariableTracker, value: VariableTracker) -> VariableTracker:
    self.set_item(tx, key, value)
    return ConstantVariable(None)


@_list("__delitem__")
def _delitem(tx: Tracer, self: ListVariable, key: VariableTracker) -> VariableTracker:
    self.del_item(tx, key)
    return ConstantVariable(None)


# -- range and slice -------------------------------------------------------------------------------------------------


class RangeVariable(VariableTracker):
    """range(start, stop, step); the bounds may be symbolic until somebody iterates."""

    def __init__(
        self, start: VariableTracker, stop: VariableTracker, step: VariableTracker, source: Source | None = None
    ) -> None:
        self.parts = (start, stop, step)
        self.source = source

    def python_type(self) -> type:
        return range

    def is_constant(self) -> bool:
        return all(part.is_constant() for part in self.parts)

    def constant(self) -> range:
        return range(*(part.constant() for part in self.parts))

    def concrete(self, tx: Tracer) -> range:
        return range(*(index_of(tx, part) for part in self.parts))

    def children(self) -> Iterable[VariableTracker]:
        return self.parts

    def truth(self, tx: Tracer) -> bool:
        return bool(self.concrete(tx))

    def length(self, tx: Tracer) -> VariableTracker:
        start, stop, step = self.parts
        if start.is_constant() and step.is_constant() and (start.constant(), step.constant()) == (0, 1):
            if isinstance(stop, SymNodeVariable) and tx.binary_truth(">=", stop, ConstantVariable(0)):
                return stop
        return ConstantVariable(len(self.concrete(tx)))

    def iterate(self, tx: Tracer) -> VariableTracker:
        return SequenceIterator(TupleVariable([ConstantVariable(i) for i in self.concrete(tx)]))

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        try:
            item = self.concrete(tx)[index_of(tx, key)]
        except IndexError:
            tx.raise_error(IndexError, "range object index out of range")
        return tx.literal(item)

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        if isinstance(item, SymNodeVariable):
            item = item.specialize(tx)
        return boolean(item.is_constant() and item.constant() in self.concrete(tx))

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if isinstance(other, RangeVariable) and op in ("==", "!="):
            return boolean(COMPARE[op](self.concrete(tx), other.concrete(tx)))
        return None

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in ("start", "stop", "step"):
            return self.parts[("start", "stop", "step").index(name)]
        return tx.bound_builtin_method(self, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name in ("__len__", "__iter__", "__contains__", "__getitem__"):
            return {"__len__": self.length, "__iter__": self.iterate, "__contains__": self.contains,
                    "__getitem__": self.get_item}[name](tx, *args)  # type: ignore[operator]
        return ConstantVariable(getattr(self.concrete(tx), name)(*(arg.constant() for arg in args)))

    def hash_key(self, tx: Tracer) -> Any:
        return self.concrete(tx)

    def reconstruct(self, cg: Any) -> None:
        cg.call_object(range, *(lambda part=part: cg.load(part) for part in self.parts))


class SliceVariable(VariableTracker):
    """slice(start, stop, step)"""

    def __init__(
        self, start: VariableTracker, stop: VariableTracker, step: VariableTracker, source: Source | None = None
    ) -> None:
        self.parts = (start, stop, step)
        self.source = source

    def python_type(self) -> type:
        return slice

    def is_constant(self) -> bool:
        return all(part.is_constant() for part in self.parts)

    def constant(self) -> slice:
        return slice(*(part.constant() for part in self.parts))

    def graph_arg(self) -> Any:
        return slice(*(part.graph_arg() for part in self.parts))

    def children(self) -> Iterable[VariableTracker]:
        return self.parts

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in ("start", "stop", "step"):
            return self.parts[("start", "stop", "step").index(name)]
        return tx.bound_builtin_method(self, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        no_keywords(tx, name, kwargs)
        if name == "indices" and len(args) == 1:
            return tx.literal(index_of(tx, self).indices(index_of(tx, args[0])))
        unsupported("unsupported-method", value="slice", name=name)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if isinstance(other, SliceVariable):
            return TupleVariable(self.parts).compare(tx, op, TupleVariable(other.parts))
        return None

    def reconstruct(self, cg: Any) -> None:
        for part in self.parts:
            cg.load(part)
        cg.asm.emit("BUILD_SLICE", 3)


__all__ = [
    "ListVariable", "NamedTupleVariable", "RangeVariable", "SequenceVariable", "SizeVariable", "SliceVariable",
    "TupleVariable", "index_of",
]  # fmt: skip
