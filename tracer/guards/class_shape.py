"""Guards on classes that a function makes anew at each call: they are compared by bases and contents, not by identity."""

from __future__ import annotations

import weakref
from types import FunctionType
from typing import Any, ClassVar

from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind, shown
from tracer.guards.constants import constant_key, is_guardable_constant
from tracer.guards.references import class_name
from tracer.sources.base import Source
from tracer.sources.reading import type_dict

_bases = type.__dict__["__bases__"].__get__


class ClassTemplate:
    """What the lookup of attributes on a class depends on: its bases, the names in it, and what kind of thing is under each. What
    they hold is guarded where it is read."""

    def __init__(self, cls: type) -> None:
        self.name = class_name(cls)
        self._metaclass = type(cls)
        self._bases = tuple(map(weakref.ref, _bases(cls)))
        self._parts = _parts(cls)

    def fits(self, cls: Any) -> bool:
        if type(cls) is not self._metaclass or class_name(cls) != self.name:
            return False
        bases = _bases(cls)
        if len(bases) != len(self._bases) or any(base is not ref() for base, ref in zip(bases, self._bases)):
            return False
        return self._parts == _parts(cls)


def _parts(cls: type) -> list[tuple[Any, ...]]:
    return [(name, *_kind(name, value)) for name, value in type_dict(cls).items()]


def _kind(name: str, value: Any) -> tuple[Any, ...]:
    kind = type(value)
    if kind is FunctionType:
        return kind, value.__code__
    if kind is property:
        return kind, *(_kind("", part) for part in (value.fget, value.fset, value.fdel))
    if kind in (staticmethod, classmethod):
        return kind, _kind("", value.__func__)
    if name.startswith("_") and is_guardable_constant(value):  # which the tracer itself may have looked at
        return kind, constant_key(value)
    return (kind,)


@guard_kind
class ClassShape(Guard):
    """A class has the bases and the kinds of attributes that the class of the trace had."""

    source: Source
    template: Any
    kind: ClassVar[str] = "CLASS_SHAPE"
    rank: ClassVar[int] = 0

    def check(self, code: CheckScope) -> str | None:
        return f"{code.const(self.template.fits, 'made_alike')}({code.read(self.source)})"

    def lines(self) -> list[str]:
        return [f"___made_alike({self.source.name}, {self.template.name})"]

    def explain(self, *seen: Any) -> Mismatch:
        expected = f"a class made as {self.template.name} was"
        return Mismatch(f"{self.source.name} is another class", expected, shown(seen[0]))


@guard_kind
class ClassNamesMatch(Guard):
    """The namespace of a class has these names, in this order."""

    source: Source
    names: tuple[str, ...]
    kind: ClassVar[str] = "CLASS_NAMES"

    def check(self, code: CheckScope) -> str | None:
        return f"tuple({code.const(type_dict, 'type_dict')}({code.read(self.source)})) == {code.const(self.names, 'names')}"

    def lines(self) -> list[str]:
        return [f"list({self.source.name}.__dict__) == [{', '.join(map(repr, self.names))}]"]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch(f"names in {self.source.name} changed", shown(self.names), shown(tuple(type_dict(seen[0]))))
