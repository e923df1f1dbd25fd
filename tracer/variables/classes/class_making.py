"""How a class is made without running code of the program: by the trace for a prototype, by the output code for the class
itself. What the program's own code does then (`__set_name__`, `__init_subclass__`, metaclasses) has been traced."""

from __future__ import annotations

import _abc
import types
from collections.abc import Callable
from typing import Any

from tracer import _C
from tracer.sources.reading import is_heap_type, type_dict, type_mro

# type.__new__ called from nowhere: it gives a class the __module__ of its caller.
_new: Any = types.FunctionType((lambda *args: type.__new__(*args)).__code__, {"type": type})
_set_bases: Any = type.__dict__["__bases__"].__set__


def bare_class(metaclass: type, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
    """type.__new__(metaclass, name, bases, namespace) without the calls of `__set_name__` and `__init_subclass__`."""
    named = {key: value for key, value in namespace.items() if _is_of_the_program(type(value), "__set_name__")}
    rest = {**namespace, **dict.fromkeys(named)}
    if any(_is_of_the_program(base, "__init_subclass__") for base in bases):
        cls = _without_init_subclass(metaclass, name, bases, rest)
    else:
        cls = _new(metaclass, name, bases, rest)
    for key, value in named.items():
        type.__setattr__(cls, key, value)
    return cls


def _is_of_the_program(cls: type, name: str) -> bool:
    """Whether a class has `name` from a class that was written in Python."""
    owner = next((base for base in type_mro(cls) if name in type_dict(base)), object)
    return is_heap_type(owner)


def _without_init_subclass(metaclass: type, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
    """While the class is made, its MRO has a class whose `__init_subclass__` does nothing before those of the program."""
    silent: Any = type.__new__(type(metaclass), "silent", (metaclass,), {"__slots__": (), "mro": _silent_mro})
    cls: type = _new(silent, name, bases, namespace)
    _C.drop_metaclass(cls)
    _set_bases(cls, bases)  # which finds the MRO anew
    return cls


def _do_nothing(cls: type, **options: Any) -> None:
    pass


def _silent_mro(cls: type) -> list[type]:
    own, *rest = type.mro(cls)
    return [own, _Silent, *rest]


class _Silent:
    __slots__ = ()

    __init_subclass__: Any = classmethod(_do_nothing)


def become_abstract(cls: type, names: frozenset[str] | None) -> None:
    """_abc._abc_init, where it is known already which names are abstract."""
    _abc._abc_init(cls)
    if names is not None:
        made: Any = cls
        made.__abstractmethods__ = names


def done_to(cls: type, steps: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...]) -> type:
    """The class, after what the library does to it."""
    for step, args in steps:
        step(cls, *args)
    return cls


def run_metaclass(metaclass: Any, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
    """A class statement with a metaclass of the library, which runs no code of the program."""
    prepared = metaclass.__prepare__(name, bases)
    for key, value in namespace.items():
        prepared[key] = value
    made: type = metaclass(name, bases, prepared)
    return made
