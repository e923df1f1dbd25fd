"""dict and its subclasses, dict views, set and frozenset."""
from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.variables.base import Models, VariableTracker
from tracer.variables.constant import ConstantVariable, boolean
from tracer.variables.iterators import IteratorVariable
from tracer.variables.lazy import Unwrapped, realize
from tracer.variables.sequences import TupleVariable

if TYPE_CHECKING:
    from tracer.sources import Source
    from tracer.variables.protocol import Tracer

Pair = tuple[VariableTracker, Any]
NONE = ConstantVariable(None)


class _Values:
    """The values of a dict's entries as a store for `realize`."""

    def __init__(self, entries: dict[Any, Pair]) -> None:
        self.entries = entries

    def __getitem__(self, key: Any) -> Any:
        return self.entries[key][1]

    def __setitem__(self, key: Any, value: VariableTracker) -> None:
        self.entries[key] = (self.entries[key][0], value)


class DictVariable(VariableTracker):
    """A dict: `entries` maps the hash key of each key to (key, value), in insertion order."""

    methods = Models("dict method")

    def __init__(
        self,
        entries: dict[Any, Pair],
        source: Source | None = None,
        cls: type = dict,
        default_factory: VariableTracker | None = None,
    ) -> None:
        self.entries = entries
        self.source = source
        self.cls = cls
        self.default_factory = default_factory
        self._values = _Values(entries)

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"DictVariable(length={len(self.entries)})"

    __repr__ = describe

    def value(self, tx: Tracer, key: Any) -> VariableTracker:
        return realize(tx, self._values, key)

    def keys(self) -> list[VariableTracker]:
        return [pair[0] for pair in self.entries.values()]

    def values(self, tx: Tracer) -> list[VariableTracker]:
        return [self.value(tx, key) for key in self.entries]

    def children(self) -> Iterable[VariableTracker]:
        for key, value in self.entries.values():
            yield key
            if isinstance(value, VariableTracker):
                yield value
        if self.default_factory is not None:
            yield self.default_factory

    def graph_arg(self) -> Any:
        result = {}
        for key, value in self.entries.values():
            if isinstance(value, Unwrapped) or not key.is_constant():
                unsupported("not-a-graph-argument", value=self.describe())
            result[key.constant()] = value.graph_arg()
        return result

    # -- protocol ------------------------------------------------------------------------------------------------

    def truth(self, tx: Tracer) -> bool:
        return bool(self.entries)

    def length(self, tx: Tracer) -> VariableTracker:
        return ConstantVariable(len(self.entries))

    def iterate(self, tx: Tracer) -> VariableTracker:
        return DictIterator(self, "keys")

    def unpack(self, tx: Tracer) -> list[VariableTracker]:
        return self.keys()

    def hash_key(self, tx: Tracer) -> Any:
        tx.raise_error(TypeError, f"unhashable type: {self.cls.__name__!r}")

    def find(self, tx: Tracer, key: VariableTracker) -> VariableTracker | None:
        hashed = key.hash_key(tx)
        return self.value(tx, hashed) if hashed in self.entries else None

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        found = self.find(tx, key)
        if found is not None:
            return found
        if self.default_factory is not None:
            value = self.default_factory.call(tx, [], {})
            self.set_item(tx, key, value)
            return value
        self.missing(tx, key)
        raise AssertionError

    def missing(self, tx: Tracer, key: VariableTracker) -> None:
        tx.raise_error(KeyError, key.constant() if key.is_constant() else key.describe())

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        hashed = key.hash_key(tx)
        tx.effects.mutate(self)
        old = self.entries.get(hashed)
        self.entries[hashed] = (key if old is None else old[0], value)

    def del_item(self, tx: Tracer, key: VariableTracker) -> None:
        hashed = key.hash_key(tx)
        if hashed not in self.entries:
            self.missing(tx, key)
        tx.effects.mutate(self)
        del self.entries[hashed]

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        return boolean(item.hash_key(tx) in self.entries)

    def update(self, tx: Tracer, pairs: Iterable[tuple[VariableTracker, VariableTracker]]) -> None:
        for key, value in pairs:
            self.set_item(tx, key, value)

    def copy(self, tx: Tracer) -> DictVariable:
        return DictVariable(dict(self.entries), cls=self.cls, default_factory=self.default_factory)

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if op != "|" or reflected or not isinstance(other, DictVariable):
            return None
        result = self.copy(tx)
        result.update(tx, other.pairs(tx))
        return result

    def inplace(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if op != "|":
            return None
        self.update(tx, pairs_of(tx, other))
        return self

    def pairs(self, tx: Tracer) -> list[tuple[VariableTracker, VariableTracker]]:
        return list(zip(self.keys(), self.values(tx)))

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if op not in ("==", "!=") or not isinstance(other, DictVariable):
            return None
        equal = self.entries.keys() == other.entries.keys() and all(
            tx.same_or_equal(self.value(tx, key), other.value(tx, key)) for key in self.entries
        )
        if equal and self.cls is other.cls is collections.OrderedDict:
            equal = list(self.entries) == list(other.entries)
        return boolean(equal is (op == "=="))

    # -- methods -------------------------------------------------------------------------------------------------

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "default_factory" and self.cls is collections.defaultdict:
            return self.default_factory or NONE
        if hasattr(self.cls, name):
            return tx.bound_builtin_method(self, name)
        tx.raise_error(AttributeError, f"{self.cls.__name__!r} object has no attribute {name!r}")

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        model = self.methods.get(name)
        if model is None:
            if not hasattr(self.cls, name):
                tx.raise_error(AttributeError, f"{self.cls.__name__!r} object has no attribute {name!r}")
            unsupported("unsupported-method", value=self.describe(), name=name)
        return model(tx, self, *args, **kwargs)

    # -- code ----------------------------------------------------------------------------------------------------

    def reconstruct(self, cg: Any) -> None:
        if self.cls is dict and not cg.reaches_itself(self):
            self._build(cg)
        elif self.cls is collections.defaultdict:
            cg.call_object(self.cls, lambda: cg.load(self.default_factory or NONE))
        else:
            cg.call_object(self.cls)

    def fill(self, cg: Any) -> None:
        if self.entries and (self.cls is not dict or cg.reaches_itself(self)):
            cg.call_object(dict.update, lambda: cg.load(self), lambda: self._build(cg))
            cg.asm.emit("POP_TOP")

    def replay(self, cg: Any) -> None:
        """self.clear(); self.update(entries), with the methods of the built-in class"""
        base = collections.OrderedDict if issubclass(self.cls, collections.OrderedDict) else dict
        self._build(cg)
        contents = cg.store_temporary()
        cg.call_object(base.clear, lambda: cg.load(self))
        cg.asm.emit("POP_TOP")
        cg.call_object(base.update, lambda: cg.load(self), lambda: cg.asm.load_fast(contents))
        cg.asm.emit("POP_TOP")

    def _build(self, cg: Any) -> None:
        cg.asm.emit("BUILD_MAP", 0)
        for key, value in self.entries.values():
            cg.load(key)
            cg.load(value)
            cg.asm.emit("MAP_ADD", 1)


def pairs_of(tx: Tracer, value: VariableTracker) -> list[tuple[VariableTracker, VariableTracker]]:
    """The pairs that dict(value) would hold: of a mapping, or of an iterable of pairs."""
    if isinstance(value, DictVariable):
        return value.pairs(tx)
    mapping = tx.as_mapping(value)
    if mapping is not None:
        return mapping
    pairs = []
    for position, item in enumerate(value.unpack(tx)):
        pair = item.unpack(tx)
        if len(pair) != 2:
            tx.raise_error(
                ValueError,
                f"dictionary update sequence element #{position} has length {len(pair)}; 2 is required",
            )
        pairs.append((pair[0], pair[1]))
    return pairs


_dict = DictVariable.methods


@_dict("__len__")
def _len(tx: Tracer, self: DictVariable) -> VariableTracker:
    return self.length(tx)


@_dict("__getitem__")
def _getitem(tx: Tracer, self: DictVariable, key: VariableTracker) -> VariableTracker:
    return self.get_item(tx, key)


@_dict("__setitem__")
def _setitem(tx: Tracer, self: DictVariable, key: VariableTracker, value: VariableTracker) -> VariableTracker:
    self.set_item(tx, key, value)
    return NONE


@_dict("__delitem__")
def _delitem(tx: Tracer, self: DictVariable, key: VariableTracker) -> VariableTracker:
    self.del_item(tx, key)
    return NONE


@_dict("__contains__")
def _contains(tx: Tracer, self: DictVariable, key: VariableTracker) -> VariableTracker:
    return self.contains(tx, key)


@_dict("__iter__")
def _iter(tx: Tracer, self: DictVariable) -> VariableTracker:
    return self.iterate(tx)


@_dict("__eq__")
def _eq(tx: Tracer, self: DictVariable, other: VariableTracker) -> VariableTracker:
    return self.compare(tx, "==", other) or ConstantVariable(NotImplemented)


@_dict("get")
def _get(tx: Tracer, self: DictVariable, key: VariableTracker, default: VariableTracker = NONE) -> VariableTracker:
    found = self.find(tx, key)
    return default if found is None else found


@_dict("setdefault")
def _setdefault(
    tx: Tracer, self: DictVariable, key: VariableTracker, default: VariableTracker = NONE
) -> VariableTracker:
    found = self.find(tx, key)
    if found is None:
        self.set_item(tx, key, default)
        return default
    return found


@_dict("pop")
def _pop(tx: Tracer, self: DictVariable, key: VariableTracker, *default: VariableTracker) -> VariableTracker:
    found = self.find(tx, key)
    if found is None:
        if not default:
            self.missing(tx, key)
        return default[0]
    self.del_item(tx, key)
    return found


@_dict("popitem")
def _popitem(tx: Tracer, self: DictVariable, last: VariableTracker | None = None) -> VariableTracker:
    if not self.entries:
        tx.raise_error(KeyError, "popitem(): dictionary is empty")
    hashed = next(iter(self.entries)) if last is not None and not last.truth(tx) else next(reversed(self.entries))
    pair = TupleVariable([self.entries[hashed][0], self.value(tx, hashed)])
    tx.effects.mutate(self)
    del self.entries[hashed]
    return pair


@_dict("update")
def _update(tx: Tracer, self: DictVariable, *others: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    for other in others:
        self.update(tx, pairs_of(tx, other))
    self.update(tx, ((ConstantVariable(key), value) for key, value in kwargs.items()))
    return NONE


@_dict("clear")
def _clear(tx: Tracer, self: DictVariable) -> VariableTracker:
    tx.effects.mutate(self)
    self.entries.clear()
    return NONE


@_dict("copy", "__copy__")
def _copy(tx: Tracer, self: DictVariable) -> VariableTracker:
    return self.copy(tx)


@_dict("move_to_end")
def _move_to_end(
    tx: Tracer, self: DictVariable, key: VariableTracker, last: VariableTracker = ConstantVariable(True)
) -> VariableTracker:
    hashed = key.hash_key(tx)
    if hashed not in self.entries:
        self.missing(tx, key)
    tx.effects.mutate(self)
    pair = self.entries.pop(hashed)
    rest = list(self.entries.items())
    self.entries.clear()
    self.entries.update([*rest, (hashed, pair)] if last.truth(tx) else [(hashed, pair), *rest])
    return NONE


for _kind in ("keys", "values", "items"):
    _dict(_kind)(lambda tx, self, kind=_kind: DictViewVariable(self, kind))


class DictViewVariable(VariableTracker):
    """dict.keys(), .values() or .items(): sees later changes of its dict."""

    _TYPES = {"keys": type({}.keys()), "values": type({}.values()), "items": type({}.items())}

    def __init__(self, owner: DictVariable, kind: str, source: Source | None = None) -> None:
        self.owner = owner
        self.kind = kind
        self.source = source

    def python_type(self) -> type:
        return self._TYPES[self.kind]

    def children(self) -> Iterable[VariableTracker]:
        return (self.owner,)

    def truth(self, tx: Tracer) -> bool:
        return bool(self.owner.entries)

    def length(self, tx: Tracer) -> VariableTracker:
        return self.owner.length(tx)

    def unpack(self, tx: Tracer) -> list[VariableTracker]:
        return [self.item(tx, key) for key in self.owner.entries]

    def item(self, tx: Tracer, hashed: Any) -> VariableTracker:
        if self.kind == "keys":
            return self.owner.entries[hashed][0]
        value = self.owner.value(tx, hashed)
        return value if self.kind == "values" else TupleVariable([self.owner.entries[hashed][0], value])

    def iterate(self, tx: Tracer) -> VariableTracker:
        return DictIterator(self.owner, self.kind)

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        if self.kind == "keys":
            return self.owner.contains(tx, item)
        return boolean(any(tx.same_or_equal(mine, item) for mine in self.unpack(tx)))

    def as_set(self, tx: Tracer) -> SetVariable:
        return SetVariable({item.hash_key(tx): item for item in self.unpack(tx)})

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if self.kind == "values" or op not in ("&", "|", "-", "^") or reflected:
            return None
        return set_operation(tx, op, self.as_set(tx), other.unpack(tx), SetVariable)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if self.kind == "values" or not isinstance(other, (DictViewVariable, SetVariable)):
            return None
        theirs = other.as_set(tx) if isinstance(other, DictViewVariable) else other
        return self.as_set(tx).compare(tx, op, theirs)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        return tx.bound_builtin_method(self, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        methods = {"__iter__": self.iterate, "__len__": self.length, "__contains__": self.contains}
        if name in methods:
            return methods[name](tx, *args)  # type: ignore[operator]
        if name == "isdisjoint":
            return self.as_set(tx).call_method(tx, name, args, kwargs)
        unsupported("unsupported-method", value=self.describe(), name=name)

    def reconstruct(self, cg: Any) -> None:
        cg.call_object(getattr(dict, self.kind), lambda: cg.load(self.owner))


class DictIterator(IteratorVariable):
    """Iterates over keys, values or items; a change of size meanwhile raises as in CPython."""

    cls = type(iter({}))

    def __init__(self, owner: DictVariable, kind: str) -> None:
        self.view = DictViewVariable(owner, kind)
        self.keys = list(owner.entries)
        self.position = 0

    def advance(self, tx: Tracer) -> VariableTracker | None:
        if self.position >= len(self.keys) and len(self.keys) == len(self.view.owner.entries):
            return None
        if len(self.view.owner.entries) != len(self.keys):
            tx.raise_error(RuntimeError, "dictionary changed size during iteration")
        key = self.keys[self.position]
        if key not in self.view.owner.entries:
            tx.raise_error(RuntimeError, "dictionary keys changed during iteration")
        self.position += 1
        return self.view.item(tx, key)

    def children(self) -> Iterable[VariableTracker]:
        return (self.view,)

    def reconstruct(self, cg: Any) -> None:
        if self.position == 0:
            cg.load(self.view)
            cg.asm.emit("GET_ITER")
            return
        unsupported("cannot-reconstruct", value="a half-consumed dict iterator")


# -- sets ------------------------------------------------------------------------------------------------------------


class SetVariable(VariableTracker):
    """A set: `entries` maps the hash key of each element to the element. Order is CPython's only for iteration of
    constants, so that iterating over a set of more than one element that existed before breaks the graph."""

    cls: type = set
    methods = Models("set method")

    def __init__(self, entries: dict[Any, VariableTracker], source: Source | None = None) -> None:
        self.entries = entries
        self.source = source

    def python_type(self) -> type:
        return self.cls

    def children(self) -> Iterable[VariableTracker]:
        return self.entries.values()

    def truth(self, tx: Tracer) -> bool:
        return bool(self.entries)

    def length(self, tx: Tracer) -> VariableTracker:
        return ConstantVariable(len(self.entries))

    def ordered(self, tx: Tracer) -> list[VariableTracker]:
        """The elements in the order in which CPython would iterate."""
        if len(self.entries) < 2:
            return list(self.entries.values())
        if all(item.is_constant() for item in self.entries.values()):
            order = self.cls(item.constant() for item in self.entries.values())
            return [self.entries[key] for key in order]
        unsupported("set-order", value=self.describe())

    def unpack(self, tx: Tracer) -> list[VariableTracker]:
        return self.ordered(tx)

    def iterate(self, tx: Tracer) -> VariableTracker:
        return TupleVariable(self.ordered(tx)).iterate(tx)

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        return boolean(item.hash_key(tx) in self.entries)

    def hash_key(self, tx: Tracer) -> Any:
        tx.raise_error(TypeError, f"unhashable type: {self.cls.__name__!r}")

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if op not in ("&", "|", "-", "^") or reflected or not isinstance(other, (SetVariable, DictViewVariable)):
            return None
        theirs = other.as_set(tx) if isinstance(other, DictViewVariable) else other
        return set_operation(tx, op, self, list(theirs.entries.values()), type(self))

    def inplace(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if self.cls is not set:
            return None
        result = self.binary(tx, op, other, False)
        if not isinstance(result, SetVariable):
            return None
        self.replace(tx, result.entries)
        return self

    def replace(self, tx: Tracer, entries: dict[Any, VariableTracker]) -> None:
        tx.effects.mutate(self)
        self.entries = dict(entries)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if not isinstance(other, SetVariable):
            return None
        mine, theirs = self.entries.keys(), other.entries.keys()
        results = {"==": mine == theirs, "!=": mine != theirs, "<=": mine <= theirs, "<": mine < theirs,
                   ">=": mine >= theirs, ">": mine > theirs}  # fmt: skip
        return boolean(results[op])

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if hasattr(self.cls, name):
            return tx.bound_builtin_method(self, name)
        tx.raise_error(AttributeError, f"{self.cls.__name__!r} object has no attribute {name!r}")

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        model = self.methods.get(name)
        if model is None or not hasattr(self.cls, name):
            self.get_attr(tx, name)
            unsupported("unsupported-method", value=self.describe(), name=name)
        return model(tx, self, *args, **kwargs)

    def reconstruct(self, cg: Any) -> None:
        cg.build_sequence("BUILD_SET", list(self.entries.values()))

    def replay(self, cg: Any) -> None:
        cg.build_sequence("BUILD_LIST", list(self.entries.values()))
        contents = cg.store_temporary()
        cg.call_object(set.clear, lambda: cg.load(self))
        cg.asm.emit("POP_TOP")
        cg.call_object(set.update, lambda: cg.load(self), lambda: cg.asm.load_fast(contents))
        cg.asm.emit("POP_TOP")


class FrozenSetVariable(SetVariable):
    cls = frozenset
    methods = Models("frozenset method")

    def is_constant(self) -> bool:
        return all(item.is_constant() for item in self.entries.values())

    def constant(self) -> Any:
        return frozenset(item.constant() for item in self.entries.values())

    def hash_key(self, tx: Tracer) -> Any:
        return frozenset(self.entries)

    def reconstruct(self, cg: Any) -> None:
        cg.call_object(frozenset, lambda: cg.build_sequence("BUILD_LIST", list(self.entries.values())))


def set_operation(
    tx: Tracer, op: str, mine: SetVariable, others: list[VariableTracker], make: type[SetVariable]
) -> SetVariable:
    theirs = {item.hash_key(tx): item for item in others}
    if op == "|":
        return make({**mine.entries, **{k: v for k, v in theirs.items() if k not in mine.entries}})
    if op == "&":
        return make({k: v for k, v in mine.entries.items() if k in theirs})
    rest = {k: v for k, v in mine.entries.items() if k not in theirs}
    if op == "^":
        rest.update({k: v for k, v in theirs.items() if k not in mine.entries})
    return make(rest)


def _combining(op: str) -> Any:
    def method(tx: Tracer, self: SetVariable, *others: VariableTracker) -> VariableTracker:
        result = type(self)(dict(self.entries))
        for other in others:
            result = set_operation(tx, op, result, elements(tx, other), type(self))
        return result

    return method


def _updating(op: str) -> Any:
    def method(tx: Tracer, self: SetVariable, *others: VariableTracker) -> VariableTracker:
        for other in others:
            self.replace(tx, set_operation(tx, op, self, elements(tx, other), SetVariable).entries)
        return NONE

    return method


def elements(tx: Tracer, value: VariableTracker) -> list[VariableTracker]:
    """The elements of an iterable that goes into a set, where order does not matter."""
    return list(value.entries.values()) if isinstance(value, SetVariable) else value.unpack(tx)


def _comparing(op: str) -> Any:
    def method(tx: Tracer, self: SetVariable, other: VariableTracker) -> VariableTracker:
        theirs = SetVariable({item.hash_key(tx): item for item in elements(tx, other)})
        return self.compare(tx, op, theirs) or NONE

    return method


def _isdisjoint(tx: Tracer, self: SetVariable, other: VariableTracker) -> VariableTracker:
    return boolean(not any(item.hash_key(tx) in self.entries for item in elements(tx, other)))


for _table in (SetVariable.methods, FrozenSetVariable.methods):
    for _name, _op in (("union", "|"), ("intersection", "&"), ("difference", "-"), ("symmetric_difference", "^")):
        _table(_name)(_combining(_op))
    for _name, _op in (("issubset", "<="), ("issuperset", ">=")):
        _table(_name)(_comparing(_op))
    _table("isdisjoint")(_isdisjoint)
    _table("copy", "__copy__")(lambda tx, self: type(self)(dict(self.entries)))
    _table("__len__")(lambda tx, self: self.length(tx))
    _table("__iter__")(lambda tx, self: self.iterate(tx))
    _table("__contains__")(lambda tx, self, item: self.contains(tx, item))

_set = SetVariable.methods
for _name, _op in (("update", "|"), ("intersection_update", "&"), ("difference_update", "-"),
                   ("symmetric_difference_update", "^")):  # fmt: skip
    _set(_name)(_updating(_op))


@_set("add")
def _add(tx: Tracer, self: SetVariable, item: VariableTracker) -> VariableTracker:
    tx.effects.mutate(self)
    self.entries.setdefault(item.hash_key(tx), item)
    return NONE


@_set("discard")
def _discard(tx: Tracer, self: SetVariable, item: VariableTracker) -> VariableTracker:
    tx.effects.mutate(self)
    self.entries.pop(item.hash_key(tx), None)
    return NONE


@_set("remove")
def _remove(tx: Tracer, self: SetVariable, item: VariableTracker) -> VariableTracker:
    hashed = item.hash_key(tx)
    if hashed not in self.entries:
        tx.raise_error(KeyError, item.constant() if item.is_constant() else item.describe())
    tx.effects.mutate(self)
    del self.entries[hashed]
    return NONE


@_set("clear")
def _set_clear(tx: Tracer, self: SetVariable) -> VariableTracker:
    self.replace(tx, {})
    return NONE


@_set("pop")
def _set_pop(tx: Tracer, self: SetVariable) -> VariableTracker:
    if not self.entries:
        tx.raise_error(KeyError, "pop from an empty set")
    item = self.ordered(tx)[0]
    tx.effects.mutate(self)
    del self.entries[item.hash_key(tx)]
    return item


__all__ = ["DictIterator", "DictVariable", "DictViewVariable", "FrozenSetVariable", "SetVariable"]
