"""Guards as the functions that torch.compile takes as `guard_filter_fn` know them: those of torch.compiler, and the program's."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from tracer.drop_in.inlined import tell
from tracer.guards.base import Guard
from tracer.guards.demands import Equal, Is, OfType, Tensor
from tracer.guards.identity import TypeMatch
from tracer.guards.shapes import ShapeGuards
from tracer.sources.base import FrameValues, Source

_GLOBAL = ("global", "module", "builtin")
_IN_LOCALS = re.compile(r"L\['(\w+)'\]")  # torch's names of arguments and of what is in them begin with the bare name
_NOTHING = object()  # the value of an entry that has none
# What torch calls the checks that a guard comes down to.
_DERIVED = {OfType: "TYPE_MATCH", Is: "ID_MATCH", Equal: "EQUALS_MATCH", Tensor: "TENSOR_MATCH"}


@dataclasses.dataclass(frozen=True)
class PathOfGuard:
    """Whether what a guard reads lies in a module of the program: the questions that torch.compiler's filters ask of a source."""

    in_module: bool
    in_built_in_module: bool

    def is_unspecialized_nn_module(self) -> bool:
        return self.in_module

    def is_unspecialized_builtin_nn_module(self) -> bool:
        return self.in_built_in_module


@dataclasses.dataclass(frozen=True)
class OriginalGuard:
    """In place of torch's Guard: `source`, and the guard of ours."""

    source: PathOfGuard
    guard: Guard


@dataclasses.dataclass(frozen=True)
class GuardEntry:
    """In place of torch's GuardFilterEntry. `value` is what the guard reads in the call that was traced; `has_value` is false of
    guards on no single path, and of paths that lead nowhere, as those of guards that something is missing."""

    name: str
    has_value: bool
    value: object
    guard_type: str
    derived_guard_types: tuple[str, ...]
    is_global: bool
    orig_guard: OriginalGuard


def filter_of(theirs: Callable[[Sequence[Any]], Iterable[bool]]) -> Callable[[list[Guard], FrameValues], list[bool]]:
    """A filter of our guards that asks one of torch's."""

    def keeps(guards: list[Guard], values: FrameValues) -> list[bool]:
        tell(guards)
        modules = _modules_of(guards)
        return [bool(keep) for keep in theirs([_entry(guard, modules, values) for guard in guards])]

    return keeps


def _modules_of(guards: list[Guard]) -> dict[Source, type]:
    """Where the frame reads modules, and their classes."""
    classes = {guard.source: guard.cls.get() for guard in guards if type(guard) is TypeMatch}
    return {source: cls for source, cls in classes.items() if isinstance(cls, type) and issubclass(cls, torch.nn.Module)}


def _entry(guard: Guard, modules: dict[Source, type], values: FrameValues) -> GuardEntry:
    sources = () if isinstance(guard, ShapeGuards) else guard.sources()  # torch names no path for guards on sizes
    source = sources[0] if len(sources) == 1 else None
    owner = None if source is None else _owner(source, modules)
    path = PathOfGuard(owner is not None, owner is not None and owner.__module__.startswith("torch.nn."))
    value = _NOTHING if source is None else _value_at(source, values)
    return GuardEntry(
        name="" if source is None else _IN_LOCALS.sub(r"\1", source.name),
        has_value=value is not _NOTHING,
        value=value,
        guard_type=guard.kind,
        derived_guard_types=tuple(dict.fromkeys(_DERIVED[type(each)] for each in guard.demands() if type(each) in _DERIVED)),
        is_global=source is not None and getattr(source.root(), "root_kind", "") in _GLOBAL,
        orig_guard=OriginalGuard(path, guard),
    )


def _value_at(source: Source, values: FrameValues) -> object:
    try:
        return source.get(values)
    except Exception:  # whatever reading raises: a guard may say that there is nothing
        return _NOTHING


def _owner(source: Source, modules: dict[Source, type]) -> type | None:
    """The class of the innermost module that a path leads through."""
    step: Source | None = source
    while step is not None:
        if step in modules:
            return modules[step]
        step = step.base
    return None
