"""Says of one module of the program what the trace has learnt of another: sources and guards below the one, in terms of the
other. What the new guards ask for is looked up in the real objects first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tracer import _C
from tracer.guards.attributes import HasAttr
from tracer.guards.base import Guard
from tracer.guards.constants import LIBRARY_VALUES, same_constant
from tracer.guards.containers import DictContains, DictKeysMatch, EmptyDicts, LengthMatch, keys_match, ordered_keys_match
from tracer.guards.identity import IdMatch, TypeMatch
from tracer.guards.references import ObjectRef
from tracer.guards.tensors import TensorMatch
from tracer.guards.values import EqualsMatch
from tracer.sources.attributes import TypeSource
from tracer.sources.base import Source
from tracer.sources.reading import instance_dict, size

if TYPE_CHECKING:
    from tracer.runtime.frame_state import DynamismPolicy


class Unlike(Exception):
    """The two modules differ in what the trace has learnt. The message says in what."""


class Below:
    """Which sources lie below that of a module. What is reached through a class does not: the modules have the same classes."""

    def __init__(self, root: Source) -> None:
        self.root = root
        self._known: dict[Source, bool] = {root: True}

    def __contains__(self, source: Source) -> bool:
        known = self._known.get(source)
        if known is None:
            inside = type(source) is not TypeSource and any(each in self for each in _sources_in(_arguments(source)))
            known = self._known[source] = inside
        return known

    def touches(self, guard: Guard) -> bool:
        """Whether a guard reads a source below."""
        return any(source in self for source in guard.sources())


def is_below(source: Source, root: Source | None) -> bool:
    """Whether a path begins with another one."""
    step: Source | None = source
    while step is not None and step != root:
        step = step.base
    return step is not None


def _arguments(source: Source) -> tuple[Any, ...]:
    """Those that make an equal source."""
    arguments: tuple[Any, ...] = source.__reduce__()[1]
    return arguments


def _sources_in(fields: Iterable[Any]) -> Iterable[Source]:
    for field in fields:
        if isinstance(field, Source):
            yield field
        elif type(field) is tuple:
            yield from _sources_in(field)


class Relocation:
    """From the source of a module to that of another, `module`."""

    def __init__(self, below: Below, root: Source, module: Any) -> None:
        self.root = root
        self._below = below
        self._moved: dict[Source, Source] = {below.root: root}
        self._values: dict[Source, Any] = {root: module}

    def source(self, source: Source) -> Source:
        """The place in the other module that corresponds to a source."""
        if source not in self._below:
            return source
        moved = self._moved.get(source)
        if moved is None:
            moved = self._moved[source] = type(source)(*map(self._field, _arguments(source)))
        return moved

    def _field(self, field: Any) -> Any:
        if isinstance(field, Source):
            return self.source(field)
        if type(field) is tuple:
            return tuple(map(self._field, field))
        return field

    def is_moved(self, source: Source) -> bool:
        """Whether a source lies in the other module."""
        return is_below(source, self.root)

    def guard(self, guard: Guard) -> Guard:
        """What a guard says, of the other module."""
        kind = type(guard)
        moved = kind.__new__(kind)  # the fields are as `__post_init__` left them
        names: tuple[str, ...] = kind.__match_args__
        for name in names:
            object.__setattr__(moved, name, self._field(getattr(guard, name)))
        object.__setattr__(moved, "where", guard.where)
        return moved

    def value(self, source: Source) -> Any:
        """What lies at a source that was moved. Raises Unlike where nothing does."""
        if source not in self._values:
            if source.base is None:
                raise Unlike(f"{source.name} is not read")
            value = self.value(source.origin())
            try:
                for step, key in source.steps():
                    value = step.function(value, key) if step.keyed else step.function(value)
            except Exception as error:
                raise Unlike(f"{source.name} cannot be read: {type(error).__name__}") from None
            self._values[source] = value
        return self._values[source]

    def check(self, guard: Guard, policy: DynamismPolicy) -> None:
        """Raises Unlike where a guard that was moved is seen not to hold, or a constant that it compares is to be a symbol. Only
        the frequent kinds are looked at here: all guards are tried when the trace is complete."""
        holds = _HOLDS.get(type(guard))
        if holds is None:
            return
        [source] = guard.sources()
        value = self.value(source)
        try:
            held = holds(guard, value)
        except (TypeError, AttributeError):  # the value has another type
            held = False
        if not held:
            raise Unlike(str(guard))
        if type(guard) is EqualsMatch and _may_vary(policy, source, value):
            raise Unlike(f"{source.name} varies")


def _may_vary(policy: DynamismPolicy, source: Source, value: Any) -> bool:
    """Asks what the builder of such a value asks: this also tells the policy that the value was met."""
    if type(value) is int:
        return policy.int_is_dynamic(source, value)
    if type(value) is float:
        return policy.float_is_dynamic(source, value)
    return type(value) in LIBRARY_VALUES and not policy.value_is_constant(source, value)


def _equals(guard: EqualsMatch, value: Any) -> bool:
    if type(guard.value) is ObjectRef:
        return id(value) == guard.value.id
    return same_constant(value, guard.value)


def _has_attribute(guard: HasAttr, value: Any) -> bool:
    try:
        _C.raw_attr(value, guard.attr)
    except AttributeError:
        return not guard.present
    return guard.present


def _contains(guard: DictContains, value: Any) -> bool:
    return bool(type(value) is dict and guard.key in value) is guard.present


def _is_object(guard: IdMatch, value: Any) -> bool:
    return bool(id(value) == guard.obj.id)


_IDENTITIES: tuple[type[Guard], ...] = (IdMatch, *IdMatch.__subclasses__())
_HOLDS: dict[type[Guard], Callable[[Any, Any], bool]] = {
    TypeMatch: lambda guard, value: id(type(value)) == guard.cls.id,
    EqualsMatch: _equals,
    TensorMatch: lambda guard, value: bool(guard.holds(value)),
    HasAttr: _has_attribute,
    DictContains: _contains,
    DictKeysMatch: lambda guard, value: (ordered_keys_match if guard.ordered_dict else keys_match)(value, guard.keys),
    EmptyDicts: lambda guard, value: guard.holds(instance_dict(value)),
    LengthMatch: lambda guard, value: size(value) == guard.length,
    **dict.fromkeys(_IDENTITIES, _is_object),
}
