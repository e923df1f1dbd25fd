"""What stands in torch's modules while the tracer is installed: put there, and put back, object for object."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, NamedTuple


class Replacement(NamedTuple):
    """An attribute of a module of torch, and what it is while the tracer is installed."""

    owner: ModuleType
    name: str
    value: Any


class Put:
    """Replacements that have been made. Where other modules of torch hold the same function, they are given ours, too."""

    def __init__(self, replacements: Iterable[Replacement]) -> None:
        """Makes them all, or raises AttributeError, naming what this torch has not, and makes none."""
        wanted = list(replacements)
        missing = [f"{each.owner.__name__}.{each.name}" for each in wanted if each.name not in vars(each.owner)]
        if missing:
            raise AttributeError(f"this torch has no {' and no '.join(missing)}")
        self._before = [(each, vars(each.owner)[each.name]) for each in wanted]
        _exchange([(before, each.value) for each, before in self._before])
        for each, _ in self._before:
            setattr(each.owner, each.name, each.value)

    def take_back(self) -> None:
        """Puts back what stood there, also in modules that were imported meanwhile."""
        _exchange([(each.value, before) for each, before in self._before])
        for each, before in self._before:
            setattr(each.owner, each.name, before)


def _exchange(pairs: list[tuple[Any, Any]]) -> None:
    """Wherever a module of torch holds one of the old functions, under whatever name, it holds the new one."""
    new = {id(old): new for old, new in pairs if callable(old)}
    for module in list(_modules_of_torch()):
        for name, held in list(vars(module).items()):
            if id(held) in new:
                setattr(module, name, new[id(held)])


def _modules_of_torch() -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        if (name == "torch" or name.startswith(("torch.", "functorch."))) and isinstance(module, ModuleType):
            yield module


class Added:
    """Methods put into a class that inherits them, and taken out again."""

    def __init__(self, cls: type, methods: dict[str, Callable[..., Any]]) -> None:
        self._cls, self._names = cls, list(methods)
        for name, method in methods.items():
            setattr(cls, name, method)

    def take_back(self) -> None:
        for name in self._names:
            delattr(self._cls, name)
