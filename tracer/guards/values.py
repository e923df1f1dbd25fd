"""Guards on plain values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind, shown
from tracer.guards.constants import SINGLETONS, constant_key, is_enum_member, is_guardable_constant
from tracer.guards.demands import Demand, Equal, Is
from tracer.guards.identity import type_mismatch
from tracer.guards.references import ObjectRef
from tracer.sources.base import Source


@guard_kind
class OrdinaryFloat(Guard):
    """A float that algebra may be done on: neither zero, which has a sign, nor infinite, nor nan."""

    source: Source
    kind: ClassVar[str] = "ORDINARY_FLOAT"
    rank: ClassVar[int] = 4

    def _text(self, value: str) -> str:
        return f"{value} - {value} == 0.0 != {value}"

    def check(self, code: CheckScope) -> str | None:
        return self._text(code.read(self.source))

    def lines(self) -> list[str]:
        return [self._text(self.source.name)]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch(f"{self.source.name} is {shown(seen[0])}", "a finite float that is not zero", shown(seen[0]))


@guard_kind
class EqualsMatch(Guard):
    """A plain value, equal in type and value; see `is_guardable_constant`."""

    source: Source
    value: Any
    kind: ClassVar[str] = "EQUALS_MATCH"
    rank: ClassVar[int] = 3
    told: ClassVar[bool] = True

    def __post_init__(self) -> None:
        value = self.value.get() if type(self.value) is ObjectRef else self.value  # of a guard that is made again
        if not is_guardable_constant(value):
            raise TypeError(f"EQUALS_MATCH on {self.source.name}: {type(value).__name__} is not a plain constant")
        if is_enum_member(value):
            object.__setattr__(self, "value", ObjectRef(value))

    def demands(self) -> tuple[Demand, ...]:
        is_object = type(self.value) is ObjectRef
        return (Is(self.source, self.value) if is_object else Equal(self.source, self.value),)

    def lines(self) -> list[str]:
        name, value = self.source.name, self.value
        if type(value) is ObjectRef:
            return [f"___check_obj_id({name}, {value.id})"]
        if type(value) in SINGLETONS:
            return [f"{name} is {value!r}"]
        return [f"___check_type_id({name}, {id(type(value))})", f"{name} == {value!r}"]

    def explain(self, *seen: Any) -> Mismatch:
        value = self.value
        if type(value) is not ObjectRef and type(value) is not type(seen[0]):
            return type_mismatch(self.source, type(value).__name__, seen[0])
        expected = repr(value) if type(value) is ObjectRef else shown(value)
        return Mismatch(self.lines()[-1], expected, shown(seen[0]))

    def references(self) -> Iterator[ObjectRef]:
        if type(self.value) is ObjectRef:
            yield self.value

    def _fields(self) -> tuple[Any, ...]:
        return self.source, self.value if type(self.value) is ObjectRef else constant_key(self.value)


PLAIN_VALUES: dict[type, Any] = {  # of an instance of a subclass, without running its methods
    int: int.__int__, float: float.__float__, str: str.__str__, bytes: bytes.__bytes__, complex: complex.__complex__,
}  # fmt: skip


@guard_kind
class PlainValueMatch(Guard):
    """The number or text in an instance of a class that derives from `base`."""

    source: Source
    base: type
    value: Any
    kind: ClassVar[str] = "PLAIN_VALUE"
    rank: ClassVar[int] = 3

    def check(self, code: CheckScope) -> str | None:
        plain = f"{code.const(PLAIN_VALUES[self.base], 'plain')}({code.read(self.source)})"
        return f"___same_constant({plain}, {code.const(self.value, 'value')})"

    def lines(self) -> list[str]:
        return [f"{self.base.__name__}({self.source.name}) == {self.value!r}"]

    def explain(self, *seen: Any) -> Mismatch:
        now = PLAIN_VALUES[self.base](seen[0]) if isinstance(seen[0], self.base) else seen[0]
        return Mismatch(self.lines()[0], shown(self.value), shown(now))

    def _fields(self) -> tuple[Any, ...]:
        return self.source, self.base, constant_key(self.value)
