"""Functions that create a class without running the program's code. The trace calls them to make a prototype, and the output
code calls them to make the class itself. The hooks that CPython would run (`__set_name__`, `__init_subclass__`, methods of
metaclasses) have already been traced."""

from __future__ import annotations

import _abc
import functools
import types
from collections.abc import Callable
from typing import Any

from tracer import _C
from tracer.sources.reading import is_heap_type, type_dict, type_mro
from tracer.variables.classes.given_annotations import applied

# type.__new__ gives a class the __module__ of its caller, so it is called with globals that have no __name__.
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
    """Whether a class inherits `name` from a class that was written in Python."""
    owner = next((base for base in type_mro(cls) if name in type_dict(base)), object)
    return is_heap_type(owner)


def _without_init_subclass(metaclass: type, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
    """Makes a class whose MRO, for the time being, puts an `__init_subclass__` that does nothing before the program's own."""
    silent: Any = type.__new__(type(metaclass), "silent", (metaclass,), {"__slots__": (), "mro": _silent_mro})
    cls: type = _new(silent, name, bases, namespace)
    _C.drop_metaclass(cls)
    _set_bases(cls, bases)  # assigning __bases__ recomputes the MRO
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
    """Does what _abc._abc_init does, with `names` as the abstract names if they are known already."""
    _abc._abc_init(cls)
    if names is not None:
        made: Any = cls
        made.__abstractmethods__ = names


def _step(step: Callable[..., Any], args: tuple[Any, ...], cls: type) -> Any:
    return step(cls, *args)


def apply_steps(
    cls: type, steps: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...], annotations: dict[str, Any] | None = None
) -> type:
    """Applies the steps that the standard library takes on a class, such as a decorator's, and returns the class. `annotations`:
    what the function of the class gave for them."""
    for step, args in steps:
        applied(functools.partial(_step, step, args), cls, annotations)
    return cls


def run_metaclass(metaclass: Any, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
    """Runs a class statement whose metaclass belongs to the standard library, and so runs none of the program's code."""
    prepared = metaclass.__prepare__(name, bases)
    for key, value in namespace.items():
        prepared[key] = value
    made: type = metaclass(name, bases, prepared)
    return made


def made_enum(metaclass: Any, name: str, bases: tuple[type, ...], namespace: dict[str, Any], boundary: Any = None) -> type:
    """Makes an enum of the namespace that the body of a class statement has left, in which each value is known."""
    prepared = metaclass.__prepare__(name, bases)
    for key, value in namespace.items():
        prepared[key] = value
    made: type = metaclass.__new__(metaclass, name, bases, prepared, boundary=boundary)
    return made
