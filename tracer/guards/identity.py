"""Guards on what an object is: its type, its identity, and whether two sources are one object."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any, ClassVar

from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind, shown, type_check
from tracer.guards.demands import Apart, Demand, Is, IsNot, OfType, Same
from tracer.guards.references import ObjectRef, class_name
from tracer.sources.base import Source
from tracer.sources.functions import CodeSource


def as_reference(guard: Guard, field: str) -> None:
    """Replaces the object that a guard was made with by a reference that does not keep it alive."""
    value = getattr(guard, field)
    if type(value) is not ObjectRef:
        object.__setattr__(guard, field, ObjectRef(value))


@guard_kind
class TypeMatch(Guard):
    """The exact type of a value. `TypeMatch(source, cls)`; holds the class as an ObjectRef."""

    source: Source
    cls: Any
    kind: ClassVar[str] = "TYPE_MATCH"
    rank: ClassVar[int] = 0
    told: ClassVar[bool] = True

    def __post_init__(self) -> None:
        as_reference(self, "cls")

    def demands(self) -> tuple[Demand, ...]:
        return (OfType(self.source, self.cls),)

    def lines(self) -> list[str]:
        return [f"___check_type_id({self.source.name}, {self.cls.id})"]

    def explain(self, *seen: Any) -> Mismatch:
        return type_mismatch(self.source, self.cls.name or self.cls.type_name, seen[0])

    def shows_data(self) -> bool:
        return False

    def references(self) -> Iterator[ObjectRef]:
        yield self.cls


def type_mismatch(source: Source, expected: str, seen: Any) -> Mismatch:
    now = class_name(type(seen))
    return Mismatch(f"type of {source.name} was {expected}, is {now}", expected, now)


@guard_kind
class IdMatch(Guard):
    """The very same object. `IdMatch(source, obj)`; holds the object as an ObjectRef."""

    source: Source
    obj: Any
    kind: ClassVar[str] = "ID_MATCH"
    rank: ClassVar[int] = 1
    told: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if type(self.obj) is MethodType:
            raise TypeError(f"{self.kind}: a bound method is made anew at each read; guard its __self__ and __func__")
        as_reference(self, "obj")

    def demands(self) -> tuple[Demand, ...]:
        return (Is(self.source, self.obj),)

    def lines(self) -> list[str]:
        return [f"___check_obj_id({self.source.name}, {self.obj.id})"]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch(f"{self.source.name} is another object than {self.obj}", repr(self.obj), shown(seen[0]))

    def references(self) -> Iterator[ObjectRef]:
        yield self.obj


@guard_kind
class FunctionMatch(IdMatch):
    """The same function, or other object that is called (the reference documents list modules so too)."""

    kind: ClassVar[str] = "FUNCTION_MATCH"


@guard_kind
class ModuleMatch(IdMatch):
    """The value is the very module that the trace saw."""

    kind: ClassVar[str] = "MODULE_MATCH"


@guard_kind
class ClassAttrMatch(IdMatch):
    """What a class holds under a name: on a TypeLookupSource (the whole MRO) or a ClassAttrSource."""

    kind: ClassVar[str] = "CLASS_ATTR_MATCH"


@guard_kind
class CodeMatch(Guard):
    """A function (exactly) with this code object, whichever function it is: closures of one def share it."""

    source: Source
    code_object: Any
    kind: ClassVar[str] = "CODE_MATCH"
    rank: ClassVar[int] = 2
    told: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.code_object, FunctionType):
            object.__setattr__(self, "code_object", self.code_object.__code__)
        as_reference(self, "code_object")

    @classmethod
    def of(cls, source: Source, function: FunctionType, **where: Any) -> CodeMatch:
        return cls(source, function.__code__, **where)

    def demands(self) -> tuple[Demand, ...]:
        """Nothing but a function has code to read."""
        return (Is(CodeSource(self.source), self.code_object),)

    def check(self, code: CheckScope) -> str | None:
        """Compares the type first: an object of another type may have no code to read."""
        if self.code_object.dead:
            return "False"
        value, kind = code.read(self.source), code.exact_type(self.source)
        code.show_type(self.source, FunctionType)
        shown_first = "" if kind is FunctionType else f"{type_check(value, FunctionType, code)} and "
        return f"{shown_first}id({value}.__code__) == {self.code_object.id}"

    def lines(self) -> list[str]:
        return [f"___check_obj_id({CodeSource(self.source).name}, {self.code_object.id})"]

    def explain(self, *seen: Any) -> Mismatch:
        code_object: CodeType | None = self.code_object.get()
        expected = f"the code of {code_object.co_qualname}" if code_object else "code that is gone"
        now = seen[0].__code__.co_qualname if type(seen[0]) is FunctionType else shown(seen[0])
        return Mismatch(f"{self.source.name} is another function", expected, now)

    def references(self) -> Iterator[ObjectRef]:
        yield self.code_object


@guard_kind
class NoneMatch(Guard):
    """The value is None, or it is not."""

    source: Source
    is_none: bool = True
    kind: ClassVar[str] = "NONE_MATCH"
    rank: ClassVar[int] = 1
    told: ClassVar[bool] = True

    def demands(self) -> tuple[Demand, ...]:
        return (Is(self.source, ObjectRef(None)) if self.is_none else IsNot(self.source, ObjectRef(None)),)

    def lines(self) -> list[str]:
        return [f"{self.source.name} is {'' if self.is_none else 'not '}None"]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch(self.lines()[0], "None" if self.is_none else "not None", shown(seen[0]))


@guard_kind
class BoolMatch(Guard):
    """The value is True itself, or False itself."""

    source: Source
    value: bool
    kind: ClassVar[str] = "BOOL_MATCH"
    rank: ClassVar[int] = 1
    told: ClassVar[bool] = True

    def demands(self) -> tuple[Demand, ...]:
        return (Is(self.source, ObjectRef(self.value)),)

    def lines(self) -> list[str]:
        return [f"{self.source.name} is {self.value}"]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch(self.lines()[0], repr(self.value), shown(seen[0]))


@guard_kind
class WeakrefAlive(Guard):
    """A `weakref.ref` (exactly) whose object still lives, or does not."""

    source: Source
    alive: bool = True
    kind: ClassVar[str] = "WEAKREF_ALIVE"

    def check(self, code: CheckScope) -> str | None:
        return f"___weakref_alive({code.read(self.source)}) is {self.alive}"

    def lines(self) -> list[str]:
        return [f"{self.source.name}() is {'not ' if self.alive else ''}None"]

    def explain(self, *seen: Any) -> Mismatch:
        words = {True: "alive", False: "dead"}
        return Mismatch(f"the object of {self.source.name} was {words[self.alive]}", words[self.alive], shown(seen[0]))


@guard_kind
class ContextVarIsSet(Guard):
    """A context variable has been set in this context, or has not."""

    source: Source
    is_set: bool
    kind: ClassVar[str] = "CONTEXT_VAR_IS_SET"

    def check(self, code: CheckScope) -> str | None:
        return f"___context_var_is_set({code.read(self.source)}) is {self.is_set}"

    def lines(self) -> list[str]:
        return [f"{self.source.name} is {'' if self.is_set else 'not '}set"]

    def explain(self, *seen: Any) -> Mismatch:
        words = {True: "set", False: "not set"}
        return Mismatch(f"{self.source.name} was {words[self.is_set]}", words[self.is_set], words[not self.is_set])


@guard_kind
class SameObject(Guard):
    """Two sources lead to one object."""

    a: Source
    b: Source
    kind: ClassVar[str] = "DUPLICATE_INPUT"
    told: ClassVar[bool] = True

    def sources(self) -> tuple[Source, ...]:
        return (self.a, self.b)

    def demands(self) -> tuple[Demand, ...]:
        return (Same(self.a, self.b),)

    def lines(self) -> list[str]:
        return [f"{self.a.name} is {self.b.name}"]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch(f"{self.a.name} and {self.b.name} were one object", "the same object", "two objects")


@guard_kind
class Distinct(Guard):
    """No two of the sources lead to one object."""

    group: tuple[Source, ...]
    kind: ClassVar[str] = "NO_ALIASING"
    told: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", tuple(self.group))

    def demands(self) -> tuple[Demand, ...]:
        return (Apart(self.group),)

    def lines(self) -> list[str]:
        return [f"___distinct({', '.join(source.name for source in self.group)})"] if len(self.group) > 1 else []

    def explain(self, *seen: Any) -> Mismatch:
        first: dict[int, Source] = {}
        for source, value in zip(self.group, seen, strict=True):
            if id(value) in first:
                both = f"{first[id(value)].name} and {source.name}"
                return Mismatch(f"{both} are one object", "different objects", "the same object")
            first[id(value)] = source
        return Mismatch("two inputs are one object", "different objects", "the same object")

    def log_name(self) -> str:
        return f"{len(self.group)} inputs {self.kind}"
