"""Guards as the functions that torch.compile takes as `guard_filter_fn` know them: those of torch.compiler, and the program's."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from tracer.guards.base import Guard
from tracer.guards.identity import TypeMatch
from tracer.guards.tensors import TensorMatch
from tracer.sources.base import Source

_GLOBAL = ("global", "module", "builtin")
_IN_LOCALS = re.compile(r"L\['(\w+)'\]")  # torch's names of arguments and of what is in them begin with the bare name


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
    """In place of torch's GuardFilterEntry. Guards hold no values: `value` is an empty parameter for the guard on a parameter,
    and None for all others."""

    name: str
    has_value: bool
    value: object
    guard_type: str
    derived_guard_types: tuple[str, ...]
    is_global: bool
    orig_guard: OriginalGuard


def filter_of(theirs: Callable[[Sequence[Any]], Iterable[bool]]) -> Callable[[list[Guard]], list[bool]]:
    """A filter of our guards that asks one of torch's."""

    def keeps(guards: list[Guard]) -> list[bool]:
        modules = _modules_of(guards)
        return [bool(keep) for keep in theirs([_entry(guard, modules) for guard in guards])]

    return keeps


def _modules_of(guards: list[Guard]) -> dict[Source, type]:
    """Where the frame reads modules, and their classes."""
    classes = {guard.source: guard.cls.get() for guard in guards if type(guard) is TypeMatch}
    return {source: cls for source, cls in classes.items() if isinstance(cls, type) and issubclass(cls, torch.nn.Module)}


def _entry(guard: Guard, modules: dict[Source, type]) -> GuardEntry:
    sources = guard.sources()
    source = sources[0] if len(sources) == 1 else None
    owner = None if source is None else _owner(source, modules)
    path = PathOfGuard(owner is not None, owner is not None and owner.__module__.startswith("torch.nn."))
    is_parameter = type(guard) is TensorMatch and issubclass(guard.spec.cls, torch.nn.Parameter)
    return GuardEntry(
        name="" if source is None else _IN_LOCALS.sub(r"\1", source.name),
        has_value=is_parameter,
        value=torch.nn.Parameter(torch.empty(0)) if is_parameter else None,
        guard_type=guard.kind,
        derived_guard_types=(),
        is_global=source is not None and getattr(source.root(), "root_kind", "") in _GLOBAL,
        orig_guard=OriginalGuard(path, guard),
    )


def _owner(source: Source, modules: dict[Source, type]) -> type | None:
    """The class of the innermost module that a path leads through."""
    step: Source | None = source
    while step is not None:
        if step in modules:
            return modules[step]
        step = step.base
    return None
