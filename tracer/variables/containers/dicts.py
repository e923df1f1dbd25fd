"""dict, OrderedDict, defaultdict and mappingproxy. Their methods are in `dict_methods`, their views in `dict_views`."""

from __future__ import annotations

import collections
import functools
import itertools
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.effects.lifetimes import check_release
from tracer.graph_breaks import unsupported
from tracer.guards.containers import can_be_key
from tracer.protocol.error_words import no_pair
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.lookups import defines, lookup, type_name
from tracer.protocol.models import Models
from tracer.protocol.variable import VariableTracker, held, whole
from tracer.variables.containers.dict_reads import ReadByKey
from tracer.variables.containers.dict_views import DictIterator
from tracer.variables.containers.keys import is_none_of, key_in
from tracer.variables.slots import BuiltinVariable
from tracer.variables.text import form, formatted
from tracer.variables.values.constant import NONE, ConstantVariable, boolean
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source

Pair = tuple[VariableTracker, Any]


def entries_are_copied(cls: type) -> bool:
    """Whether C copies the entries of a dict of this subclass directly. If not, it calls `keys()` and reads each item."""
    return lookup(cls, "__iter__")[1] is dict.__dict__["__iter__"]


class DictVariable(BuiltinVariable):
    """A dict: `entries` maps the hash key of each key to (key, value), in insertion order. While `unread` is set, the program
    has read and stored single keys only; the first access of `entries` reads and guards all keys.

    `version` changes whenever the keys change. For a dict that existed before the frame, `original` holds the keys that it
    had then, and `changed` maps each key that got a new value to its old value."""

    methods = Models("dict method")
    operands: tuple[type, ...] = (dict,)

    def __init__(
        self,
        entries: dict[Any, Pair] | ReadByKey,
        source: Source | None = None,
        cls: type = dict,
        default_factory: VariableTracker | None = None,
    ) -> None:
        self.unread: ReadByKey | None = None
        if isinstance(entries, ReadByKey):
            self.unread = entries
        else:
            self.entries = entries
        self.source = source
        self.cls = cls
        self.default_factory = default_factory
        self.version = 0
        self.original: dict[Any, VariableTracker] | None = None
        self.changed: dict[Any, Any] = {}

    @functools.cached_property
    def entries(self) -> dict[Any, Pair]:
        assert self.unread is not None
        unread, self.unread = self.unread, None
        if self.source is not None and (self.changed or unread.removed):
            self.original = unread.keys()
        return unread.whole()

    def describe(self) -> str:
        return f"DictVariable(length={len(self.entries) if self.unread is None else 'unread'})"

    def value(self, tx: Tracer, key: Any) -> VariableTracker:
        entries: Any = self.entries if self.unread is None else self.unread.met
        tracked, item = entries[key]
        if type(item) is Unwrapped:
            item = tx.wrap(item.value, item.source)
            entries[key] = tracked, item
        value: VariableTracker = item
        return value

    def keys(self) -> list[VariableTracker]:
        return [pair[0] for pair in self.entries.values()]

    def values(self, tx: Tracer) -> list[VariableTracker]:
        return [self.value(tx, key) for key in self.entries]

    def pairs(self, tx: Tracer) -> list[tuple[VariableTracker, VariableTracker]]:
        return list(zip(self.keys(), self.values(tx)))

    def children(self) -> Iterable[VariableTracker]:
        pairs = self.entries.values() if self.unread is None else filter(None, self.unread.met.values())
        for key, value in pairs:
            yield key
            if isinstance(value, VariableTracker):
                yield value
        if self.default_factory is not None:
            yield self.default_factory

    def holdings(self) -> Iterable[Any]:
        return itertools.chain.from_iterable(self.entries.values()) if self.unread is None else self.unread.holdings()

    def graph_arg(self) -> Any:
        result = {}
        for key, value in self.entries.values():
            if isinstance(value, Unwrapped) or not key.is_constant():
                unsupported("not-a-graph-argument", value=self.describe())
            result[key.constant()] = value.graph_arg()
        return result

    def form(self, tx: Tracer) -> Any:
        items = [(form(tx, key), form(tx, value)) for key, value in self.pairs(tx)]
        if self.cls is collections.defaultdict:
            unsupported("format-of-runtime-value", value=self.describe())
        return self.cls(items)

    @property
    def real_keys(self) -> bool:
        """Whether CPython's set methods treat it as a plain dict, whose size they use in advance."""
        if self.cls is not dict:
            raise AttributeError("real_keys")
        return True

    # -- protocol ------------------------------------------------------------------------------------------------

    def truth(self, tx: Tracer) -> bool:
        return self.reaches(1)

    def reaches(self, count: int) -> bool:
        """len(self) >= count"""
        return len(self.entries) >= count if self.unread is None else self.unread.reaches(count)

    def length(self, tx: Tracer) -> VariableTracker:
        return ConstantVariable(len(self.entries))

    def iterate(self, tx: Tracer) -> VariableTracker:
        return DictIterator(self, "keys")

    def reverse_iterate(self, tx: Tracer) -> VariableTracker:
        return DictIterator(self, "keys", backwards=True)

    def unpack(self, tx: Tracer) -> list[VariableTracker]:
        return self.keys()

    def hash_key(self, tx: Tracer) -> Any:
        tx.raise_error(TypeError, f"unhashable type: {type_name(self.cls)!r}")

    def key_of(self, tx: Tracer, key: VariableTracker) -> Any:
        """The hash key under which `entries` holds the key."""
        return key_in(tx, self.cls, lambda: self.entries, key)

    def has(self, hashed: Any) -> bool:
        """Whether there is an entry for this hash key (see `key_of`)."""
        if self.unread is not None and can_be_key(hashed):
            return self.unread.look(hashed)
        return hashed in self.entries

    def _has_no_such_number(self, tx: Tracer, key: VariableTracker) -> bool:
        """Whether an int that varies is no key. This reads all keys, which are few, and does not fix the int."""
        if not isinstance(key, SymNodeVariable):
            return False
        present = self.entries if self.unread is None else self.unread.present()
        return is_none_of(tx, key, present) and len(self.entries) == len(present)

    def find(self, tx: Tracer, key: VariableTracker) -> VariableTracker | None:
        if self._has_no_such_number(tx, key):
            return None
        hashed = self.key_of(tx, key)
        return self.value(tx, hashed) if self.has(hashed) else None

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
        tx.raise_value(tx.new_exception(KeyError, key))

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        hashed = self.key_of(tx, key)
        old = self._store(tx, hashed, (key.specialize(tx), value))
        before = self.changed.setdefault(hashed, None if old is None else old[1])
        if value is before:
            del self.changed[hashed]

    def _store(self, tx: Tracer, hashed: Any, pair: Pair) -> Pair | None:
        """Stores the pair and returns the previous one, or None if the key is new."""
        tx.effects.mutate(self)
        if self.unread is not None and can_be_key(hashed):
            old = self.unread.store(hashed, pair)
            self.version += old is None
        else:
            old = self.entries.get(hashed)
            self._mutate(tx, keys=old is None)
            self.entries[hashed] = pair if old is None else (old[0], pair[1])
        if old is not None:
            check_release((old[1],), "an item of a dict")
        return old

    def del_item(self, tx: Tracer, key: VariableTracker) -> None:
        hashed = self.key_of(tx, key)
        if not self.has(hashed):
            self.missing(tx, key)
        held_pair = self.entries[hashed] if self.unread is None else self.unread.met.get(hashed)
        check_release(held_pair or (), "an item of a dict")
        tx.effects.mutate(self)  # an observer of changes may read all keys now
        if self.unread is not None and can_be_key(hashed):
            self.unread.remove(hashed)
            self.version += 1
        else:
            self._mutate(tx, keys=True)
            del self.entries[hashed]

    def clear(self, tx: Tracer) -> None:
        check_release(self.holdings(), "the items of a dict")
        self._mutate(tx, keys=True)
        self.entries.clear()

    def reorder(self, tx: Tracer, entries: dict[Any, Pair]) -> None:
        """Replaces the entries by the same entries in another order."""
        self._mutate(tx, keys=True)
        self.entries.clear()
        self.entries.update(entries)

    def _mutate(self, tx: Tracer, keys: bool) -> None:
        if self.cls is types.MappingProxyType:
            unsupported("mutation-of-input", value="a mappingproxy")
        tx.effects.mutate(self)
        entries = self.entries  # reading it may set `original`
        if self.source is not None and self.original is None:
            self.original = {hashed: pair[0] for hashed, pair in entries.items()}
        if keys:
            self.version += 1

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        return boolean(not self._has_no_such_number(tx, item) and self.has(self.key_of(tx, item)))

    def update(self, tx: Tracer, pairs: Iterable[tuple[VariableTracker, VariableTracker]]) -> None:
        for key, value in pairs:
            self.set_item(tx, key, value)

    def copy(self, tx: Tracer) -> DictVariable:
        self.values(tx)
        return DictVariable(dict(self.entries), cls=self.cls, default_factory=self.default_factory)

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if op == "%" and reflected and other.is_constant() and isinstance(other.constant(), str):
            return formatted(tx, lambda text, value: text % value, [other, self], {})
        if not isinstance(other, DictVariable) and getattr(held(other), "cls", None) is dict:
            if not entries_are_copied(other.python_type()):
                unsupported("unsupported-operator", left=self.describe(), op=op, right=other.describe())
            other = held(other)
        if op != "|" or reflected or not isinstance(other, DictVariable):
            return None
        if types.MappingProxyType in (self.cls, other.cls):
            return None
        result = self.copy(tx)
        if other.cls is not dict and whole(self).python_type() is dict:  # the method of the right operand's class comes first
            result = DictVariable(result.entries, cls=other.cls, default_factory=other.default_factory)
        result.update(tx, other.pairs(tx))
        return result

    def inplace(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if op != "|" or self.cls is types.MappingProxyType:
            return None
        update_from(tx, self, other)
        return self

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        other = held(other)
        if op not in ("==", "!=") or not isinstance(other, DictVariable) or isinstance(other, MappingProxyVariable):
            return None
        equal = len(self.entries) == len(other.entries) and all(
            key in other.entries and tx.same_or_equal(self.value(tx, key), other.value(tx, key)) for key in list(self.entries)
        )
        if equal and self.cls is other.cls is collections.OrderedDict:
            equal = list(self.entries) == list(other.entries)
        return boolean(equal is (op == "=="))

    # -- methods -------------------------------------------------------------------------------------------------

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "default_factory" and self.cls is collections.defaultdict:
            return self.default_factory or NONE
        stored = tx.effects.attribute(self, name)
        if stored is not None:
            return stored
        if name == "__dict__" and self.cls is collections.OrderedDict:
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        return super().get_attr(tx, name)

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        """Only an OrderedDict that the trace made takes attributes here: an existing one may have some already."""
        if self.cls is not collections.OrderedDict or self.source is not None or hasattr(self.cls, name):
            super().set_attr(tx, name, value)
        tx.effects.store_attribute(self, name, value)

    # -- code ----------------------------------------------------------------------------------------------------

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.cls is dict and not cg.reaches_itself(self) and not cg.awaits_keys(self):
            self._build(cg)
        elif self.cls is collections.defaultdict:
            cg.call_object(self.cls, lambda: cg.load(self.default_factory or NONE))
        else:
            cg.call_object(self.cls)

    def hashed(self) -> Iterable[VariableTracker]:
        return [key for key, _ in self.entries.values()]

    def fill(self, cg: ValueCodegen) -> None:
        if self.entries and (self.cls is not dict or cg.reaches_itself(self) or cg.awaits_keys(self)):
            cg.call_object(self._base().update, lambda: cg.load(self), lambda: self._build(cg))
            cg.asm.emit("POP_TOP")

    def _base(self) -> Any:
        """The built-in class whose methods change the dict without running overrides of a subclass."""
        return collections.OrderedDict if issubclass(self.cls, collections.OrderedDict) else dict

    def replayed(self) -> Iterable[VariableTracker | Unwrapped]:
        deleted, stored = self._difference()
        return (*deleted, *(part for pair in stored for part in pair))

    def replay(self, cg: ValueCodegen) -> None:
        """Deletes the keys that are gone or have moved, then stores the new pairs. Nothing else is touched, so that live
        iterators over the dict see no change that the program did not make."""
        deleted, stored = self._difference()
        for key in deleted:
            cg.call_object(self._base().__delitem__, lambda: cg.load(self), functools.partial(cg.load, key))
            cg.asm.emit("POP_TOP")
        for key, value in stored:
            cg.call_object(
                self._base().__setitem__,
                lambda: cg.load(self),
                functools.partial(cg.load, key),
                functools.partial(cg.load, value),
            )
            cg.asm.emit("POP_TOP")

    def _difference(self) -> tuple[list[VariableTracker], list[Pair]]:
        """The keys to delete and the pairs to store."""
        if self.unread is not None:
            return [ConstantVariable(key) for key in self.unread.removed], self.unread.stored(self.changed)
        original = self.original or {}
        kept = self._keys_in_place(list(original))
        deleted = [key for hashed, key in original.items() if hashed not in kept]
        stored = [pair for hashed, pair in self.entries.items() if hashed not in kept or hashed in self.changed]
        return deleted, stored

    def _keys_in_place(self, before: list[Any]) -> set[Any]:
        """The keys that need not be deleted: the longest prefix of the present keys that keeps the old order."""
        kept: set[Any] = set()
        position = 0
        for hashed in self.entries:
            while position < len(before) and before[position] != hashed:
                position += 1
            if position == len(before) or self._is_other_key(hashed):
                break
            kept.add(hashed)
        return kept

    def _is_other_key(self, hashed: Any) -> bool:
        """Whether a key was replaced by an equal key of another type, such as 1 by True."""
        old, new = (self.original or {})[hashed], self.entries[hashed][0]
        return old is not new and old.is_constant() and new.is_constant() and type(old.constant()) is not type(new.constant())

    def _build(self, cg: ValueCodegen) -> None:
        cg.asm.emit("BUILD_MAP", 0)
        for key, value in self.entries.values():
            cg.load(key)
            cg.load(value)
            cg.asm.emit("MAP_ADD", 1)


class MappingProxyVariable(DictVariable):
    """types.MappingProxyType(underlying), which shares the entries of the underlying dict."""

    operands = (object,)  # its operators are those of the underlying dict

    def __init__(self, underlying: DictVariable, source: Source | None = None) -> None:
        self.underlying = underlying
        super().__init__(underlying.entries, source, types.MappingProxyType)

    @property
    def version(self) -> int:
        return self.underlying.version

    @version.setter
    def version(self, value: int) -> None:
        """Ignored: the version is that of the underlying dict."""

    def children(self) -> Iterable[VariableTracker]:
        return (self.underlying,)

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if isinstance(other, MappingProxyVariable):
            other = other.underlying
        if not isinstance(other, DictVariable):
            return None
        return other.binary(tx, op, self.underlying, False) if reflected else self.underlying.binary(tx, op, other, False)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        return self.underlying.compare(tx, op, other.underlying if isinstance(other, MappingProxyVariable) else other)

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        tx.raise_error(TypeError, "'mappingproxy' object does not support item assignment")

    def del_item(self, tx: Tracer, key: VariableTracker) -> None:
        tx.raise_error(TypeError, "'mappingproxy' object does not support item deletion")

    def form(self, tx: Tracer) -> Any:
        return types.MappingProxyType(form(tx, self.underlying))

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(types.MappingProxyType, lambda: cg.load(self.underlying))

    def fill(self, cg: ValueCodegen) -> None:
        pass


def from_keys(tx: Tracer, cls: type, keys: VariableTracker, value: VariableTracker) -> DictVariable:
    """cls.fromkeys(keys, value)"""
    made = DictVariable({}, cls=cls)
    made.update(tx, ((key, value) for key in keys.unpack(tx)))
    return made


def pairs_of(tx: Tracer, value: VariableTracker) -> list[tuple[VariableTracker, VariableTracker]]:
    """The pairs that dict(value) would hold. `value` is a mapping or an iterable of pairs."""
    mapping = mapping_pairs(tx, value)
    return list(_each_pair(tx, value)) if mapping is None else mapping


def mapping_pairs(tx: Tracer, value: VariableTracker) -> list[tuple[VariableTracker, VariableTracker]] | None:
    """The pairs of a mapping, in order, or None if `value` is not a mapping."""
    if isinstance(value, DictVariable):
        return value.pairs(tx)
    return tx.as_mapping(value)


def _each_pair(tx: Tracer, value: VariableTracker) -> Iterable[tuple[VariableTracker, VariableTracker]]:
    """The pairs of an iterable, checked as dict does: its errors give the position of an element that is not a pair."""
    iterator, position = value.iterate(tx), 0
    while (item := iterator.next(tx)) is not None:
        if item.is_constant() and not defines(item.python_type(), "__iter__"):
            words, notes = no_pair(position)
            error = tx.new_exception(TypeError, ConstantVariable(words))
            for note in notes:
                error.call_method(tx, "add_note", [ConstantVariable(note)], {})
            tx.raise_value(error)
        pair = item.unpack(tx)
        if len(pair) != 2:
            tx.raise_error(ValueError, f"dictionary update sequence element #{position} has length {len(pair)}; 2 is required")
        yield pair[0], pair[1]
        position += 1


def _each_ordered_pair(tx: Tracer, value: VariableTracker) -> Iterable[tuple[VariableTracker, VariableTracker]]:
    """As `_each_pair`, with the error messages of OrderedDict (CPython's Objects/odictobject.c, mutablemapping_add_pairs)."""
    iterator = value.iterate(tx)
    while (item := iterator.next(tx)) is not None:
        pair = item.unpack(tx)
        if len(pair) > 2:
            tx.raise_error(ValueError, "too many values to unpack (expected 2)")
        if len(pair) < 2:
            tx.raise_error(ValueError, f"need more than {len(pair)} value{'' if pair else 's'} to unpack")
        yield pair[0], pair[1]


def update_from(tx: Tracer, target: DictVariable, value: VariableTracker) -> None:
    """dict.update(target, value). Each pair is stored before the next one is asked for."""
    mapping = mapping_pairs(tx, value)
    each_pair = _each_ordered_pair if target.cls is collections.OrderedDict else _each_pair
    target.update(tx, each_pair(tx, value) if mapping is None else mapping)
