"""Guards on containers: how long they are, which keys they have, and whether a name is absent."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind, shown
from tracer.guards.constants import constant_key, is_guardable_constant, same_constant
from tracer.guards.demands import Demand, Keys, Leads, Length, OfType
from tracer.guards.identity import as_reference
from tracer.guards.references import ObjectRef
from tracer.sources import steps
from tracer.sources.attributes import AttrSource
from tracer.sources.base import Source
from tracer.sources.functions import FunctionGlobalsSource, FunctionNamespaceSource
from tracer.sources.reading import instance_dict, size, type_mro, unproxied
from tracer.sources.roots import GlobalSource, GlobalsSource, ModuleGlobalsSource, ModuleNamespaceSource


@guard_kind
class LengthMatch(Guard):
    """`len` of a builtin container or of a subclass, as the builtin defines it."""

    source: Source
    length: int
    kind: ClassVar[str] = "LENGTH_MATCH"
    rank: ClassVar[int] = 2
    told: ClassVar[bool] = True

    def demands(self) -> tuple[Demand, ...]:
        return (Length(self.source, self.length, self.length),)

    def lines(self) -> list[str]:
        return [f"len({self.source.name}) == {self.length}"]

    def explain(self, *seen: Any) -> Mismatch:
        try:
            now = str(size(seen[0]))
        except TypeError:
            now = shown(seen[0])
        return Mismatch(self.lines()[0], str(self.length), now)


def keys_match(mapping: Any, expected: tuple[Any, ...]) -> bool:
    """Whether a dict has these keys in this order: plain values by value, ObjectRefs by identity."""
    mapping = unproxied(mapping)
    return dict.__len__(mapping) == len(expected) and all(map(_is_member, dict.keys(mapping), expected))


def _is_member(seen: Any, expected: Any) -> bool:
    return id(seen) == expected.id if type(expected) is ObjectRef else same_constant(seen, expected)


def ordered_keys_match(mapping: Any, expected: tuple[Any, ...]) -> bool:
    """As `keys_match`, for the order of an OrderedDict, which `move_to_end` changes and the order of the underlying dict is not.

    Walking that order hashes the keys, so it is first shown that they are the expected plain keys, in any order.
    """
    if dict.__len__(mapping) != len(expected) or not all(map(is_guardable_constant, dict.keys(mapping))):
        return False
    return all(map(same_constant, collections.OrderedDict.keys(mapping), expected))


@guard_kind
class DictKeysMatch(Guard):
    """The keys of a dict (or a subclass), in order. Keys that are no plain constants are compared by identity.

    `DictKeysMatch.of(source, mapping)` takes them from the dict at hand.
    """

    source: Source
    keys: tuple[Any, ...]
    ordered_dict: bool = False  # the order is that of an OrderedDict
    kind: ClassVar[str] = "DICT_KEYS"
    rank: ClassVar[int] = 2

    def __post_init__(self) -> None:
        held = tuple([key if _is_held(key) else ObjectRef(key) for key in self.keys])
        if self.ordered_dict and any(type(key) is ObjectRef for key in held):
            raise TypeError(f"DICT_KEYS on {self.source.name}: the order of an OrderedDict is read by hashing its keys")
        object.__setattr__(self, "keys", held)

    @classmethod
    def of(cls, source: Source, mapping: dict[Any, Any], **where: Any) -> DictKeysMatch:
        if collections.OrderedDict in type_mro(type(mapping)):
            in_order: Any = collections.OrderedDict.keys(mapping)  # type: ignore[arg-type]  # an OrderedDict
            return cls(source, tuple(in_order), ordered_dict=True, **where)
        return cls(source, tuple(dict.keys(mapping)), **where)

    def demands(self) -> tuple[Demand, ...]:
        if self.says_all():
            return (Keys(self.source, self.keys),)
        return (Length(self.source, len(self.keys), len(self.keys)),)

    def says_all(self) -> bool:
        """Not for an OrderedDict: `move_to_end` changes its order, and the dict below keeps another one."""
        return not (self.ordered_dict and self.keys)

    def check(self, code: CheckScope) -> str | None:
        if self.says_all():
            return Guard.check(self, code)
        return f"___ordered_keys({code.read(self.source)}, {code.const(self.keys, 'keys')})"

    def lines(self) -> list[str]:
        return [f"list({self.source.name}.keys()) == [{', '.join(_key_text(key) for key in self.keys)}]"]

    def explain(self, *seen: Any) -> Mismatch:
        name = self.source.name
        expected = f"[{_few(self.keys, _key_text)}]"
        if dict not in type_mro(type(seen[0])):
            return Mismatch(f"{name} was a dict", expected, shown(seen[0]))
        now = list(dict.keys(seen[0]))
        text = f"[{_few(now, shown)}]"
        known = {constant_key(key) if type(key) is not ObjectRef else key.id for key in self.keys}
        added = [k for k in now if (constant_key(k) if is_guardable_constant(k) else id(k)) not in known]
        if added:
            return Mismatch(f"keys of {name} changed: {_few(added, shown)} is new", expected, text)
        gone = len(self.keys) - len(now)
        words = f"{gone} fewer" if gone > 0 else "another order"
        return Mismatch(f"keys of {name} changed: {words}", expected, text)

    def references(self) -> Iterator[ObjectRef]:
        return (key for key in self.keys if type(key) is ObjectRef)

    def _fields(self) -> tuple[Any, ...]:
        if set(map(type, self.keys)) == _ONLY_STR:
            return self.source, self.ordered_dict, str, *self.keys
        return self.source, self.ordered_dict, *[k if type(k) is ObjectRef else constant_key(k) for k in self.keys]


_ONLY_STR = {str}


@guard_kind
class EmptyDicts(Guard):
    """Attributes that an object has in its instance dict are empty dicts, all exactly of the class `cls`. `cls` is held as an
    ObjectRef."""

    source: Source
    attrs: tuple[str, ...]
    cls: Any
    kind: ClassVar[str] = "EMPTY_DICTS"
    told: ClassVar[bool] = True

    def __post_init__(self) -> None:
        as_reference(self, "cls")

    @staticmethod
    def of(source: Source, attributes: dict[str, Any], attrs: tuple[str, ...], cls: type) -> EmptyDicts | None:
        """The guard that says so of an object with this instance dict; None where it does not hold."""
        guard = EmptyDicts(source, attrs, cls)
        return guard if guard.holds(attributes) else None

    def places(self) -> tuple[AttrSource, ...]:
        """Where the dicts are."""
        return tuple([AttrSource(self.source, attr) for attr in self.attrs])

    def found(self, attributes: Mapping[str, Any] | None) -> list[tuple[int, AttrSource]]:
        """The dicts by their ids, and where they are, given the instance dict of an object of which it holds."""
        return [] if attributes is None else [(id(attributes[place.attr]), place) for place in self.places()]

    def holds(self, attributes: dict[str, Any] | None) -> bool:
        """Whether it holds of an object with this instance dict."""
        return attributes is not None and all(self._is_empty(attributes.get(attr)) for attr in self.attrs)

    def _is_empty(self, value: Any) -> bool:
        return id(type(value)) == self.cls.id and not dict.__len__(value)

    def demands(self) -> tuple[Demand, ...]:
        return tuple([demand for place in self.places() for demand in (OfType(place, self.cls), Keys(place, ()))])

    def check(self, code: CheckScope) -> str | None:
        return " and ".join(filter(None, [demand.text(code) for demand in self.demands()]))

    def lines(self) -> list[str]:
        return [f"list({place.name}.keys()) == []" for place in self.places()]

    def explain(self, *seen: Any) -> Mismatch:
        attributes = instance_dict(seen[0]) or {}
        for attr, line in zip(self.attrs, self.lines()):
            found: Any = attributes.get(attr)
            if not self._is_empty(found):
                is_dict = dict in type_mro(type(found))
                return Mismatch(line, "[]", f"[{_few(list(dict.keys(found)), shown)}]" if is_dict else shown(found))
        return Mismatch(" and ".join(self.lines()), "[]", shown(seen[0]))

    def references(self) -> Iterator[ObjectRef]:
        yield self.cls


def _is_held(key: Any) -> bool:
    """Whether a guard can hold the key itself, and not only a reference to it."""
    return type(key) is ObjectRef or is_guardable_constant(key)


def _few(items: Sequence[Any], text: Callable[[Any], str], most: int = 20) -> str:
    """Items as text for a message; of many only the first ones."""
    words = ", ".join(map(text, items[:most]))
    return words if len(items) <= most else f"{words}, ... ({len(items)} in all)"


def _key_text(key: Any) -> str:
    return repr(key) if type(key) is ObjectRef else shown(key)


def can_be_key(key: Any) -> bool:
    """Whether `_C.has_plain_key` finds it."""
    return type(key) in _PLAIN_KEYS and key == key


_PLAIN_KEYS = (str, bytes, int, bool, float, type(None))


@guard_kind
class DictContains(Guard):
    """Whether a dict has a key, whatever other keys it has. The key is one that `can_be_key` accepts."""

    source: Source
    key: Any
    present: bool = True
    kind: ClassVar[str] = "DICT_CONTAINS"
    rank: ClassVar[int] = 2
    told: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not can_be_key(self.key):
            raise TypeError(f"DICT_CONTAINS on {self.source.name}: the key is not a plain constant")

    def demands(self) -> tuple[Demand, ...]:
        return (Leads(self.source, steps.ITEM, self.key, self.present),)

    def lines(self) -> list[str]:
        return [f"{shown(self.key)} {'in' if self.present else 'not in'} {self.source.name}"]

    def explain(self, *seen: Any) -> Mismatch:
        words = {True: "present", False: "absent"}
        return Mismatch(self.lines()[0], words[self.present], words[not self.present])

    def _fields(self) -> tuple[Any, ...]:
        return self.source, constant_key(self.key), self.present


@guard_kind
class DictLengthReaches(Guard):
    """Whether a dict has at least `count` keys, whichever they are."""

    source: Source
    count: int
    holds: bool
    kind: ClassVar[str] = "DICT_LENGTH_REACHES"
    rank: ClassVar[int] = 2
    told: ClassVar[bool] = True

    def demands(self) -> tuple[Demand, ...]:
        return (Length(self.source, self.count) if self.holds else Length(self.source, 0, self.count - 1),)

    def lines(self) -> list[str]:
        return [f"len({self.source.name}) {'>=' if self.holds else '<'} {self.count}"]

    def explain(self, *seen: Any) -> Mismatch:
        words = f"{'at least' if self.holds else 'fewer than'} {self.count} keys"
        return Mismatch(self.lines()[0], words, str(size(seen[0])) if isinstance(seen[0], dict) else shown(seen[0]))


@guard_kind
class NotInGlobals(Guard):
    """The globals have no such name, so that it means the builtin. Made from the source that the global would have,
    or from its name, which then is one of the root frame's globals.
    """

    source: Any
    kind: ClassVar[str] = "NOT_IN_GLOBALS"
    told: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.source, str):
            object.__setattr__(self, "source", GlobalSource(self.source))

    def namespace(self) -> Source:
        """The dict that the name would be in."""
        match self.source:
            case GlobalSource():
                return GlobalsSource()
            case ModuleGlobalsSource(module, _):
                return ModuleNamespaceSource(module)
            case FunctionGlobalsSource(function, _):
                return FunctionNamespaceSource(function)
        raise TypeError(f"NOT_IN_GLOBALS: {self.source!r} is not the source of a global")

    def sources(self) -> tuple[Source, ...]:
        return (self.namespace(),)

    def demands(self) -> tuple[Demand, ...]:
        return (Leads(self.namespace(), steps.SUBSCRIPT, self.source.global_name, False),)

    def lines(self) -> list[str]:
        return [f"{self.source.global_name!r} not in {self.namespace().name}"]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch(f"global {self.source.global_name!r} now hides the builtin", "absent", "present")

    def log_name(self) -> str:
        return f"builtin {self.source.global_name!r} {self.kind}"


@guard_kind
class SetMatch(Guard):
    """A set or frozenset (exactly) with these members, whatever the order. Members that are no plain constants are compared by
    identity."""

    source: Source
    members: frozenset[Any]
    kind: ClassVar[str] = "SET_MATCH"
    rank: ClassVar[int] = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", frozenset(m if _is_held(m) else ObjectRef(m) for m in self.members))

    def check(self, code: CheckScope) -> str | None:
        return f"___set_match({code.read(self.source)}, {code.const(self.members, 'members')})"

    def lines(self) -> list[str]:
        return [f"{self.source.name} == {{{', '.join(sorted(map(_key_text, self.members)))}}}"]

    def explain(self, *seen: Any) -> Mismatch:
        now = shown(seen[0])
        if type(seen[0]) in (set, frozenset):
            now = f"{{{', '.join(sorted(map(shown, seen[0])))}}}"
        return Mismatch(self.lines()[0], self.lines()[0].partition(" == ")[2], now)

    def references(self) -> Iterator[ObjectRef]:
        return (member for member in self.members if type(member) is ObjectRef)

    def _fields(self) -> tuple[Any, ...]:
        return self.source, *_members_apart(self.members)


def _members_apart(members: Iterable[Any]) -> tuple[frozenset[Any], frozenset[int]]:
    """What tells plain constants in a set from others of their value, and the ids of other members."""
    plain: list[Any] = []
    others: list[Any] = []
    for member in members:
        (plain if is_guardable_constant(member) else others).append(member)
    return frozenset(map(constant_key, plain)), frozenset(m.id if type(m) is ObjectRef else id(m) for m in others)


@guard_kind
class SetOrderMatch(Guard):
    """The order in which a set is iterated, which depends on how it was made. Members that are no plain constants are compared by
    identity."""

    source: Source
    members: tuple[Any, ...]
    kind: ClassVar[str] = "SET_ORDER"
    rank: ClassVar[int] = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple([m if _is_held(m) else ObjectRef(m) for m in self.members]))

    def check(self, code: CheckScope) -> str | None:
        return f"___set_order({code.read(self.source)}, {code.const(self.members, 'members')})"

    def lines(self) -> list[str]:
        return [f"list({self.source.name}) == [{', '.join(map(_key_text, self.members))}]"]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch(f"order of {self.source.name} changed", self.lines()[0].partition(" == ")[2], shown(seen[0]))

    def references(self) -> Iterator[ObjectRef]:
        return (member for member in self.members if type(member) is ObjectRef)

    def _fields(self) -> tuple[Any, ...]:
        return self.source, *[m if type(m) is ObjectRef else constant_key(m) for m in self.members]


def set_order(seen: set[Any] | frozenset[Any], members: tuple[Any, ...]) -> bool:
    """Whether a set of as many members is iterated in this order."""
    return all(map(_is_member, seen, members))


def set_match(seen: Any, members: frozenset[Any]) -> bool:
    if type(seen) not in (set, frozenset) or len(seen) != len(members):
        return False
    return _members_apart(seen) == _members_apart(members)
