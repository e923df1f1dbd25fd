"""UNCHANGED: lookups on classes would find what they found in the trace, and the traced functions have the same code.

`Findings` gathers these lookups while a frame is traced. They are checked by CPython's version numbers of classes, all in one
call. If a version has changed, the lookups on that class are made again.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tracer import _C
from tracer.guards.base import Guard, Mismatch, guard_kind
from tracer.guards.constants import is_guardable_constant, same_constant
from tracer.guards.demands import Demand, Stays
from tracer.guards.references import ObjectRef
from tracer.sources.reading import field_index, type_dict, type_mro

if TYPE_CHECKING:
    from tracer.guards.implication import Known

_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE
_type_flags = type.__dict__["__flags__"].__get__
ABSENT: Any = object()


class _Looked(NamedTuple):
    """What was looked up on one class: name -> where it was found and what, after which class of the MRO."""

    cls: type
    found: dict[tuple[str, int], tuple[str, type | None, type | None, Any]]


class Findings:
    """The lookups of one trace. Classes are keys by their ids, because a metaclass may define `__hash__`."""

    def __init__(self) -> None:
        self.classes: dict[int, _Looked] = {}
        self.functions: dict[FunctionType, CodeType] = {}
        self.varying: set[tuple[int, str]] = set()  # (class, name) of numbers that are symbols; shape guards check those
        self.asked: dict[tuple[int, int], tuple[type, type, bool]] = {}  # answers of abc: (class, base, is it a subclass)
        self.of_process: dict[str, None] = {}  # values that differ between processes, in words
        self.made: dict[int, type] = {}  # classes that the trace itself made; lookups on them are noted for their bases
        self.recreated: dict[int, type] = {}  # classes that each call of a function makes anew, guarded by a ClassShape

    def note_class(self, cls: type) -> None:
        """The trace relies on the bases of a class."""
        if self._is_not_guarded_by_identity(cls):
            for base in cls.__bases__:
                self.note_class(base)
        else:
            self._looked(cls)

    def _is_not_guarded_by_identity(self, cls: type) -> bool:
        return id(cls) in self.made or id(cls) in self.recreated

    def _looked(self, cls: type) -> _Looked | None:
        """The lookups on a class; None for a class that cannot change."""
        looked = self.classes.get(id(cls))
        if looked is None and not _type_flags(cls) & _IMMUTABLE:
            looked = self.classes[id(cls)] = _Looked(cls, {})
        return looked

    def note(self, cls: type, name: str, owner: type | None, value: Any, after: type | None = None) -> None:
        """Notes a lookup of `name` in the MRO of `cls`, after the class `after` if that is given. It found `value` in the
        namespace of `owner`; None: in none."""
        if self._is_not_guarded_by_identity(cls):
            for base in cls.__mro__[1:]:
                if not self._is_not_guarded_by_identity(base):
                    self.note(base, name, *find(base, name))
            return
        looked = self._looked(cls)
        if looked is not None:
            looked.found.setdefault((name, id(after)), (name, after, owner, value))

    def held(self, owner: type | None, name: str, value: Any) -> Any:
        """What has to stay the same of an attribute: of a number that is a symbol, only its type."""
        if owner is None:
            return None
        return (type(value),) if (id(owner), name) in self.varying else held(value)

    def note_function(self, function: FunctionType) -> None:
        """The trace went through the code of a function."""
        self.functions.setdefault(function, function.__code__)


class Found(NamedTuple):
    """One lookup: `owner` is None if no class of the MRO had the name."""

    name: str
    after: ObjectRef | None
    owner: ObjectRef | None
    value: Any  # see `held`

    def holds(self, cls: type) -> bool:
        owner, value = find(cls, self.name, None if self.after is None else self.after.get())
        if owner is None or self.owner is None:
            return owner is self.owner
        return id(owner) == self.owner.id and _is_same_value(value, self.value)


class ClassFacts(NamedTuple):
    cls: ObjectRef
    mro: tuple[int, ...]
    found: tuple[Found, ...]

    def changed(self) -> str | None:
        """The first name that a lookup finds elsewhere now, or not at all; None if nothing has changed."""
        cls = self.cls.get()
        if cls is None:
            return "the class itself"
        if tuple(map(id, type_mro(cls))) != self.mro:
            return "its bases"
        return next((found.name for found in self.found if not found.holds(cls)), None)


class CodeFact(NamedTuple):
    function: ObjectRef
    code: ObjectRef

    def holds(self) -> bool:
        function = self.function.get()
        return function is not None and id(function.__code__) == self.code.id


def find(cls: type, name: str, after: type | None = None) -> tuple[type | None, Any]:
    """The class of the MRO (after `after`) that has an attribute, and its raw value there; (None, ABSENT) if none has it."""
    if after is None:
        return _C.find_in_mro(cls, name) or (None, ABSENT)
    behind = False
    for base in type_mro(cls):
        if behind:
            value = type_dict(base).get(name, ABSENT)
            if value is not ABSENT:
                return base, value
        behind = behind or base is after
    return None, ABSENT


def held(value: Any) -> Any:
    """What is kept of a class attribute to recognise it: its type and a constant, or references that keep nothing alive."""
    cls = type(value)
    if cls is property:
        return cls, *map(ObjectRef, (value.fget, value.fset, value.fdel))
    if cls in (staticmethod, classmethod):
        return cls, ObjectRef(value.__func__)
    if is_guardable_constant(value):
        return cls, value
    field = field_index(value)
    if field is not None:
        return cls, field
    try:
        weakref.ref(value)
    except TypeError:
        return (cls,)  # slots and the like; the contents of other values are guarded where they are read
    return cls, ObjectRef(value)


def _is_same_value(value: Any, held: Any) -> bool:
    """Whether a class attribute is the one of which `held` was kept."""
    cls, *parts = held
    if type(value) is not cls:
        return False
    if cls is property:
        return [id(value.fget), id(value.fset), id(value.fdel)] == [part.id for part in parts]
    if cls in (staticmethod, classmethod):
        return bool(id(value.__func__) == parts[0].id)
    field = field_index(value)
    if field is not None:
        return bool(field == parts[0])
    if parts and type(parts[0]) is ObjectRef:
        return id(value) == parts[0].id
    return not parts or same_constant(value, parts[0])


@guard_kind
class Unchanged(Guard):
    """`Unchanged.of(findings)`. Classes and functions are held as ObjectRefs."""

    classes: tuple[ClassFacts, ...]
    functions: tuple[CodeFact, ...]
    asked: tuple[tuple[ObjectRef, ObjectRef, bool], ...] = ()  # of abc; AbcRegistryMatch sees that the answers stay
    of_process: tuple[str, ...] = ()  # as in Findings: such an entry cannot be loaded in another process
    kind: ClassVar[str] = "UNCHANGED"
    told: ClassVar[bool] = True

    @classmethod
    def of(cls, findings: Findings) -> Unchanged:
        classes = [
            ClassFacts(
                ObjectRef(looked.cls),
                tuple(map(id, type_mro(looked.cls))),
                tuple(
                    [
                        Found(name, _reference(after), _reference(owner), findings.held(owner, name, value))
                        for name, after, owner, value in looked.found.values()
                    ]
                ),
            )
            for looked in findings.classes.values()
        ]
        functions = [CodeFact(ObjectRef(function), ObjectRef(code)) for function, code in findings.functions.items()]
        asked = [(ObjectRef(one), ObjectRef(base), answer) for one, base, answer in findings.asked.values()]
        return cls(tuple(classes), tuple(functions), tuple(asked), tuple(findings.of_process))

    def demands(self) -> tuple[Demand, ...]:
        objects = [fact.cls for fact in self.classes] + [fact.function for fact in self.functions]
        return (Stays(tuple(objects), self.holds),)

    def holds(self) -> bool:
        """Looks everything up again."""
        return all(facts.changed() is None for facts in self.classes) and all(f.holds() for f in self.functions)

    def lines(self) -> list[str]:
        names = [facts.cls.name or "" for facts in self.classes] + [fact.function.name or "" for fact in self.functions]
        return [f"___unchanged({', '.join(dict.fromkeys(names))})"] if names else []

    def explain(self, *seen: Any) -> Mismatch:
        for facts in self.classes:
            what = facts.changed()
            if what is not None:
                return Mismatch(f"class {facts.cls.name} has changed: {what}", "unchanged", "changed")
        for fact in self.functions:
            if not fact.holds():
                return Mismatch(f"function {fact.function.name} has other code", "unchanged", "changed")
        return Mismatch("a class or function has changed", "unchanged", "changed")

    def references(self) -> Iterator[ObjectRef]:
        for facts in self.classes:
            yield facts.cls
        for fact in self.functions:
            yield from (fact.function, fact.code)

    def follows_from(self, known: Known) -> bool:
        return self.holds() and any(each.holds() and self._names() <= each._names() for each in known.of(Unchanged))

    def _names(self) -> set[Any]:
        """What is looked up, without what is found: if two guards hold now, equal lookups find the same."""
        found = {(facts.cls, each.name, each.after) for facts in self.classes for each in facts.found}
        return found | {(facts.cls,) for facts in self.classes} | {fact.function for fact in self.functions}

    def _fields(self) -> tuple[Any, ...]:
        return (id(self),)


def _reference(cls: type | None) -> ObjectRef | None:
    return None if cls is None else ObjectRef(cls)
