"""Guards on attributes that are there or are not: in the instance, and along the MRO of a class."""

from __future__ import annotations

from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, ClassVar

from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind
from tracer.guards.demands import Demand, Leads
from tracer.guards.references import class_name
from tracer.sources import steps
from tracer.sources.attributes import InstanceDictSource
from tracer.sources.base import Source
from tracer.sources.reading import type_dict, type_mro

_WORDS = {True: "present", False: "absent"}


def _found_in_mro(cls: type, name: str) -> Any:
    for klass in type_mro(cls):
        if name in type_dict(klass):
            return type_dict(klass)[name]
    return None


def _has_dict(cls: type) -> bool:
    return any(type(type_dict(klass).get("__dict__")) is GetSetDescriptorType for klass in type_mro(cls))


@guard_kind
class HasAttr(Guard):
    """Whether an object has an attribute of its own: a filled slot, or an entry of the instance dict."""

    source: Source
    attr: str
    present: bool = True
    kind: ClassVar[str] = "HASATTR"
    told: ClassVar[bool] = True

    def demands(self) -> tuple[Demand, ...]:
        return (Leads(self.source, steps.ATTR, self.attr, self.present),)

    def check(self, code: CheckScope) -> str | None:
        """If the class is known to have no slot of that name, it is enough to look into the object's dict."""
        cls = code.exact_type(self.source)
        if cls is not None and type(_found_in_mro(cls, self.attr)) is not MemberDescriptorType and _has_dict(cls):
            return f"{self.attr!r} {'in' if self.present else 'not in'} {code.read(InstanceDictSource(self.source))}"
        return Guard.check(self, code)

    def lines(self) -> list[str]:
        return [f"{'' if self.present else 'not '}hasattr({self.source.name}, {self.attr!r})"]

    def explain(self, *seen: Any) -> Mismatch:
        name = f"{self.source.name}.{self.attr}"
        return Mismatch(f"{name} was {_WORDS[self.present]}", _WORDS[self.present], _WORDS[not self.present])


@guard_kind
class ClassHasAttr(Guard):
    """Whether a class or one of its bases has an attribute; the source is the class."""

    source: Source
    attr: str
    present: bool = False
    kind: ClassVar[str] = "CLASS_HASATTR"
    told: ClassVar[bool] = True

    def demands(self) -> tuple[Demand, ...]:
        return (Leads(self.source, steps.TYPE_LOOKUP, self.attr, self.present),)

    def lines(self) -> list[str]:
        return [f"{'' if self.present else 'not '}hasattr({self.source.name}, {self.attr!r})"]

    def explain(self, *seen: Any) -> Mismatch:
        name = f"{class_name(seen[0]) if type in type_mro(type(seen[0])) else self.source.name}.{self.attr}"
        return Mismatch(f"{name} was {_WORDS[self.present]}", _WORDS[self.present], _WORDS[not self.present])
