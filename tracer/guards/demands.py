"""What guards demand of the values at their sources: a small vocabulary, which knows no kind of guard.

`guards.steady` and `guards.checklist` have C answer for guards whose demands say all of them, `guards.decision` tells entries
apart by intervals, `guards.implication` compares entries. Each demand also says itself in Python, for `check_fn`.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, dataclass_transform

from tracer import _C
from tracer.guards.base import CheckScope, type_check
from tracer.guards.constants import equality
from tracer.guards.references import ObjectRef
from tracer.sources.base import Source
from tracer.sources.steps import Step, key_text

LEAST, MOST = -(2**63), 2**63 - 1
QUICK_LEN = (list, tuple, dict, str, bytes, set, frozenset, collections.deque, bytearray, range)


class Word(NamedTuple):
    """A word of the value at a source, one of `_C.WORD`; `dim` of a size or stride. WORD.INT with `dim` 1: an int is wanted."""

    source: Source
    kind: int
    dim: int = 0


class Feature(NamedTuple):
    """The sum of some words with coefficients, modulo `modulus` if that is not 0."""

    terms: tuple[tuple[int, Word], ...]
    modulus: int = 0


Interval = tuple[int, int]
_T = TypeVar("_T")


@dataclass_transform(frozen_default=True)
def _demand(cls: type[_T]) -> type[_T]:
    """A dataclass that is frozen for type checkers only, because frozen dataclasses are slower to make."""
    return dataclasses.dataclass(slots=True, unsafe_hash=True)(cls)


class Demand:
    """One thing that is demanded."""

    __slots__ = ()

    def text(self, code: CheckScope) -> str | None:
        """A Python expression that is true exactly if it is so; None if earlier guards have shown it."""
        raise NotImplementedError

    def show(self, code: CheckScope) -> None:
        """Notes what follows if the demand holds, such as an exact type: later reads may be printed more simply."""


@_demand
class OfType(Demand):
    """The value is exactly of a class."""

    source: Source
    cls: ObjectRef

    def text(self, code: CheckScope) -> str | None:
        cls = self.cls.get()
        if cls is None or code.exact_type(self.source) is cls:
            return "False" if cls is None else None
        value = code.read(self.source)
        self.show(code)
        return type_check(value, cls, code)

    def show(self, code: CheckScope) -> None:
        if not self.cls.dead:
            code.show_type(self.source, self.cls.get())


@_demand
class Is(Demand):
    """The value is an object."""

    source: Source
    obj: ObjectRef

    def text(self, code: CheckScope) -> str | None:
        if self.obj.dead:
            return "False"
        obj = self.obj.get()
        value = code.read(self.source)
        self.show(code)
        if obj is None or obj is True or obj is False:
            return f"{value} is {obj}"
        if self.obj.bound:
            return f"{value} is {code.const(obj, self.obj.name or 'obj')}"
        return f"id({value}) == {self.obj.id}"

    def show(self, code: CheckScope) -> None:
        if type(self.obj.get()) is FunctionType:  # whose __class__ cannot be assigned
            code.show_type(self.source, FunctionType)


@_demand
class IsNot(Demand):
    """The value is not this object, which lives as long as the process."""

    source: Source
    obj: ObjectRef

    def text(self, code: CheckScope) -> str | None:
        obj = self.obj.get()
        return f"{code.read(self.source)} is not {'None' if obj is None else code.const(obj, 'obj')}"


@_demand
class Same(Demand):
    """Two sources lead to one object."""

    a: Source
    b: Source

    def text(self, code: CheckScope) -> str | None:
        return f"{code.read(self.a)} is {code.read(self.b)}"


@_demand
class Apart(Demand):
    """No two of the sources lead to one object."""

    group: tuple[Source, ...]

    def text(self, code: CheckScope) -> str | None:
        if len(self.group) < 2:
            return None
        if len(self.group) == 2:
            return f"{code.read(self.group[0])} is not {code.read(self.group[1])}"
        return code.distinct(self.group)


@_demand
class Equal(Demand):
    """The value has the type and the value of a plain constant, which is no member of an enum."""

    source: Source
    value: Any

    def text(self, code: CheckScope) -> str | None:
        text = equality(code.read(self.source), self.value, code, code.exact_type(self.source))
        self.show(code)
        return text

    def show(self, code: CheckScope) -> None:
        code.show_type(self.source, type(self.value))


@_demand
class Length(Demand):
    """The size of a container, as the builtin defines it, is from `least` to `most`."""

    source: Source
    least: int
    most: int = MOST

    def text(self, code: CheckScope) -> str | None:
        size = f"{'len' if code.exact_type(self.source) in QUICK_LEN else '___size'}({code.read(self.source)})"
        if self.least == self.most:
            return f"{size} == {self.least}"
        if self.most == MOST:
            return f"{size} >= {self.least}"
        return f"{size} < {self.most + 1}" if self.least == 0 else f"{self.least} <= {size} <= {self.most}"


@_demand
class Keys(Demand):
    """A dict (or an object of a subclass) has exactly these keys, in this order: plain constants, ObjectRefs for other keys."""

    source: Source
    keys: tuple[Any, ...]

    def text(self, code: CheckScope) -> str | None:
        value, exact = code.read(self.source), code.exact_type(self.source) is dict
        if not self.keys:
            return f"{'len' if exact else '___size'}({value}) == 0"
        keys = code.const(self.keys, "keys")
        if not exact or any(type(key) is ObjectRef for key in self.keys):
            return f"___dict_keys({value}, {keys})"
        # The keys are nearly always the same objects as in the trace; then no Python function is called.
        return f"len({value}) == {len(self.keys)} and all(map(___is, {value}, {keys})) or ___dict_keys({value}, {keys})"


@_demand
class Leads(Demand):
    """A step from the value leads to another value (`present`), or to none. Only for steps that have a `has`."""

    source: Source
    step: Step
    key: Any
    present: bool = True

    def text(self, code: CheckScope) -> str | None:
        has = self.step.has.format(code.read(self.source), key_text(self.key, code))
        return f"{has} is {self.present}"


@_demand
class Present(Demand):
    """The path leads to a value. How Python asks for that the guard says for itself."""

    source: Source


@_demand
class Tensor(Demand):
    """The value is a tensor as `_C.TensorMatch` compares it."""

    source: Source
    spec: Any  # a guards.tensors.TensorSpec

    def text(self, code: CheckScope) -> str | None:
        value = code.read(self.source)
        self.show(code)
        return f"{code.const(_C.TensorMatch((self.spec,)), 'check_tensor')}({value})"

    def show(self, code: CheckScope) -> None:
        code.show_type(self.source, self.spec.cls)


@_demand
class Lies(Demand):
    """A feature lies in an interval. It has no text: the guard prints that in its own `check`."""

    feature: Feature
    low: int
    high: int


def word_is(source: Source, kind: int, value: int, dim: int = 0) -> Lies:
    """The demand that a word has this value. Words are signed; addresses and hashes may use all 64 bits."""
    signed = value - 2**64 if value > MOST else value
    return Lies(Feature(((1, Word(source, kind, dim)),)), signed, signed)


@_demand
class State(Demand):
    """The state of the process is as in a `_C.GlobalState`."""

    snapshot: Any

    def text(self, code: CheckScope) -> str | None:
        self.show(code)
        return f"{code.const(self.snapshot.check, 'global_state')}()"

    def show(self, code: CheckScope) -> None:
        code.show_state()


@_demand
class Stays(Demand):
    """Classes and functions have not changed; if one has, `holds()` decides whether that matters."""

    objects: tuple[ObjectRef, ...]
    holds: Callable[[], bool]

    def text(self, code: CheckScope) -> str | None:
        objects = tuple([reference.get() for reference in self.objects])
        if any(obj is None for obj in objects):
            return "False"
        return f"{code.const(_C.Unchanged(objects, self.holds), 'unchanged')}()" if objects else None


@_demand
class Counted(Demand):
    """A `_C.Counter` is still at `count`. If it is not, the guard may hold nevertheless, and its `check` decides."""

    counter: Any
    count: int
