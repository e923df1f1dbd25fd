"""Which function builds the tracked form of a value: by its exact type, or by the most derived registered base."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracer.protocol.lookups import rely_on_bases
from tracer.protocol.variable import VariableTracker
from tracer.sources.base import Source

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.variables.builders.builder import VariableBuilder

Build = Callable[["VariableBuilder", "Tracer", Any, Source], VariableTracker]  # of a value, and how it is reached
_EXACT: dict[type, Build] = {}
_SUBCLASSES: dict[type, Build] = {}


def tracks(*types_: type) -> Callable[[Build], Build]:
    """Registers the builder of values of exactly these types. Raises ValueError at import if one has a builder already.

    The builder adds the guards that the tracked form relies on. It calls `builder.remember` where the identity of the value
    matters, so that the same object reached by another path is the same variable.
    """

    def register(build: Build) -> Build:
        for cls in types_:
            if cls in _EXACT:
                raise ValueError(f"{cls} is tracked twice")
            _EXACT[cls] = build
        return build

    return register


def tracks_subclasses(*bases: type) -> Callable[[Build], Build]:
    """Registers the builder of values of these types and of types derived from them, where `tracks` and more derived bases have
    none. Raises ValueError at import if one has a builder already."""

    def register(build: Build) -> Build:
        for base in bases:
            if base in _SUBCLASSES:
                raise ValueError(f"subclasses of {base} are tracked twice")
            _SUBCLASSES[base] = build
        return build

    return register


def tracks_later(module: str, name: str) -> Callable[[Build], Build]:
    """As `tracks`, for a class of a module that the program may load; the tracer does not."""

    def register(build: Build) -> Build:
        _LATER[module, name] = build
        return build

    return register


_LATER: dict[tuple[str, str], Build] = {}


def find_later() -> None:
    """Looks for the classes of `tracks_later` whose modules have been loaded."""
    for (module, name), build in list(_LATER.items()):
        cls = vars(sys.modules[module]).get(name) if module in sys.modules else None
        if isinstance(cls, type):
            del _LATER[module, name]
            _EXACT[cls] = build


def builder_of(cls: type) -> Build:
    """The builder for a class. It is not memoised: the bases of a class can be assigned, and the class can be freed."""
    exact = _EXACT.get(cls)
    if exact is not None:
        return exact
    rely_on_bases(cls)
    return next(_SUBCLASSES[base] for base in cls.__mro__ if base in _SUBCLASSES)
