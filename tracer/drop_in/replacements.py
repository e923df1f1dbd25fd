"""Replacing attributes of torch's modules at an install, and restoring the original objects at an uninstall."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, NamedTuple


class Replacement(NamedTuple):
    """An attribute of a module or class of torch, and what it is while the tracer is installed."""

    owner: ModuleType | type
    name: str
    value: Any


class Put:
    """Replacements that have been made. Modules of torch that have imported a replaced function by name get the new one, too."""

    def __init__(self, replacements: Iterable[Replacement]) -> None:
        """Makes all replacements. Raises AttributeError, and makes none, if this version of torch lacks one of the attributes."""
        wanted = list(replacements)
        missing = [f"{each.owner.__name__}.{each.name}" for each in wanted if each.name not in vars(each.owner)]
        if missing:
            raise AttributeError(f"this version of torch has no {' and no '.join(missing)}")
        self._before = [(each, vars(each.owner)[each.name]) for each in wanted]
        _exchange([(before, each.value) for each, before in self._before])
        for each, _ in self._before:
            setattr(each.owner, each.name, each.value)

    def take_back(self) -> None:
        """Restores the original objects, also in modules that have imported a replacement since. What somebody else has assigned
        to one of the attributes meanwhile is lost."""
        _exchange([(each.value, before) for each, before in self._before])
        for each, before in self._before:
            setattr(each.owner, each.name, before)


def _exchange(pairs: list[tuple[Any, Any]]) -> None:
    """Replaces the old functions by the new ones in every module of torch, whatever name they have there."""
    new = {id(old): new for old, new in pairs if callable(old)}  # others, such as None or True, stand in many modules by chance
    for module in list(_modules_of_torch()):
        for name, held in list(vars(module).items()):
            if id(held) in new:
                setattr(module, name, new[id(held)])


def _modules_of_torch() -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        if (name == "torch" or name.startswith(("torch.", "functorch."))) and isinstance(module, ModuleType):
            yield module


class Added:
    """Methods that have been added to a class. The class inherits methods of these names, and does so again after `take_back`."""

    def __init__(self, cls: type, methods: dict[str, Callable[..., Any]]) -> None:
        self._cls, self._names = cls, list(methods)
        for name, method in methods.items():
            setattr(cls, name, method)

    def take_back(self) -> None:
        for name in self._names:
            delattr(self._cls, name)
