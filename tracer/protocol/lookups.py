"""Lookups of class attributes while tracing. Their results become guards.

Lookups happen everywhere, also where no `Tracer` is at hand, so the findings of the running trace are kept per thread.
"""

from __future__ import annotations

import contextlib
import threading
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.guards.references import class_name
from tracer.guards.unchanged import ABSENT, Findings, find
from tracer.protocol.error_words import full_name, words_of
from tracer.sources.reading import is_a, is_heap_type, type_mro

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

MISSING = ABSENT
SLOT_TYPES = (types.MemberDescriptorType, types.GetSetDescriptorType)
C_METHOD_TYPES = (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType)


class _Running(threading.local):
    findings: Findings | None = None


_running = _Running()


@contextlib.contextmanager
def recorded(findings: Findings) -> Iterator[None]:
    """While entered, lookups on this thread are recorded in `findings`."""
    outer, _running.findings = _running.findings, findings
    try:
        yield
    finally:
        _running.findings = outer


def lookup(cls: type, name: str, after: type | None = None) -> tuple[type | None, Any]:
    """(the class in the MRO of `cls` that defines a name, its raw value). Starts after the class `after`, as super() does."""
    if type_mro(cls) is None:  # it is None while the class's own mro() runs
        unsupported("unsupported-attribute", value=f"class {class_name(cls)}, which is being made", name=name)
    owner, value = find(cls, name, after)
    if _running.findings is not None:
        _running.findings.note(cls, name, owner, value, after)
    return owner, value


def defines(cls: type, name: str) -> bool:
    """Whether instances of `cls` have a special method, looked up as in C: not on the metaclass, binding no descriptors."""
    return lookup(cls, name)[1] is not MISSING


def has_from_python(cls: type, name: str) -> bool:
    """Whether a class inherits `name` from a class that was written in Python."""
    owner = lookup(cls, name)[0]
    return owner is not None and is_heap_type(owner)


def rely_on_bases(cls: type) -> None:
    """Records that the trace depends on the bases of a class."""
    if _running.findings is not None:
        _running.findings.note_class(cls)


def rely_on_process(what: str) -> None:
    """Records that the trace depends on something (`what`) that may differ in another process, and so cannot be saved for one."""
    if _running.findings is not None:
        _running.findings.of_process.setdefault(what)


def rely_on_answer(cls: type, base: type, answer: bool) -> None:
    """Records that abc answered whether a class is a subclass of another."""
    findings = _running.findings
    if findings is not None and not (findings.made.keys() | findings.recreated.keys()) & {id(cls), id(base)}:
        findings.asked[id(cls), id(base)] = cls, base, answer


def rely_on_code(function: types.FunctionType) -> None:
    """Records that the trace depends on the code of a function."""
    if _running.findings is not None:
        _running.findings.note_function(function)


def refuse_changed_class(tx: Tracer, cls: type, name: str) -> None:
    """Breaks the graph for a class attribute that the trace has stored: lookups would not see the store before it is replayed."""
    if tx.effects.is_class_changed(cls, name):
        unsupported("unsupported-attribute", value=cls.__qualname__, name=name)


def is_data_descriptor(value: Any) -> bool:
    cls = type(value)
    return defines(cls, "__set__") or defines(cls, "__delete__")


def storage_base(cls: type) -> type:
    """The built-in class that holds the storage of an instance of `cls`."""
    for base in cls.__mro__:
        if not is_heap_type(base) and base.__module__ in ("builtins", "collections"):
            return base
    return object


def type_name(cls: type) -> str:
    """The name of a class as C's error messages show it."""
    plain = is_heap_type(cls) or cls.__module__ == "builtins"
    return cls.__name__ if plain else f"{cls.__module__}.{cls.__name__}"


# -- the words of errors, which depend on the version of Python ----------------------------------------------------------------


class _Example:
    __slots__ = ("slot",)


_NAMES_SLOTS_IN_FULL = _Example.__module__ in words_of(getattr, _Example(), "slot")  # from Python 3.13 on
_NO_DICT = words_of(setattr, _Example(), "name", None).partition("'name'")[2]  # "and no __dict__ for ...", likewise


def no_attribute(cls: type, name: str) -> str:
    """What CPython says where an instance of `cls` has no such attribute, or an empty slot."""
    said = type_name(cls)
    if _NAMES_SLOTS_IN_FULL and is_a(lookup(cls, name)[1], types.MemberDescriptorType):
        said = full_name(cls)
    return f"{said!r} object has no attribute {name!r}"


def no_place_for(cls: type, name: str) -> str:
    """What CPython says where an attribute is set or deleted on an instance of `cls`, which has no dict."""
    if lookup(cls, name)[1] is not MISSING:
        return f"{type_name(cls)!r} object attribute {name!r} is read-only"
    is_plain = all(lookup(cls, hook)[0] is object for hook in ("__setattr__", "__delattr__"))
    return f"{type_name(cls)!r} object has no attribute {name!r}{_NO_DICT if is_plain else ''}"
