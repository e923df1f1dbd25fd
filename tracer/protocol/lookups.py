"""Looking class attributes up while tracing; what is found becomes a guard.

Lookups happen everywhere, also where no frame is at hand, so the findings of the running trace are found by thread.
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
from tracer.sources.reading import is_heap_type, type_mro

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
    """Within, what is looked up on this thread is noted there."""
    outer, _running.findings = _running.findings, findings
    try:
        yield
    finally:
        _running.findings = outer


def lookup(cls: type, name: str, after: type | None = None) -> tuple[type | None, Any]:
    """Where in the MRO of `cls` (behind `after`, as super() looks) a class attribute stands, and the raw value there."""
    if type_mro(cls) is None:  # while its own mro() runs
        unsupported("unsupported-attribute", value=f"class {class_name(cls)}, which is being made", name=name)
    owner, value = find(cls, name, after)
    if _running.findings is not None:
        _running.findings.note(cls, name, owner, value, after)
    return owner, value


def defines(cls: type, name: str) -> bool:
    """Whether instances of `cls` have the special method, as C looks it up: without the metaclass, and no descriptor is asked."""
    return lookup(cls, name)[1] is not MISSING


def has_from_python(cls: type, name: str) -> bool:
    """Whether a class has `name` from a class that was written in Python."""
    owner = lookup(cls, name)[0]
    return owner is not None and is_heap_type(owner)


def rely_on_bases(cls: type) -> None:
    """What is decided now depends on the bases of a class."""
    if _running.findings is not None:
        _running.findings.note_class(cls)


def rely_on_process(what: str) -> None:
    """What is decided now may be decided otherwise in another process of the same program: the trace is of no use there."""
    if _running.findings is not None:
        _running.findings.of_process.setdefault(what)


def rely_on_answer(cls: type, base: type, answer: bool) -> None:
    """abc has said whether a class is a subclass of another."""
    findings = _running.findings
    if findings is not None and not (findings.made.keys() | findings.alike.keys()) & {id(cls), id(base)}:
        findings.asked[id(cls), id(base)] = cls, base, answer


def rely_on_code(function: types.FunctionType) -> None:
    """What is decided now depends on the code of a function."""
    if _running.findings is not None:
        _running.findings.note_function(function)


def refuse_changed_class(tx: Tracer, cls: type, name: str) -> None:
    """A class attribute that the trace itself has stored is looked up by CPython, once it is stored for good."""
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
    """How C names a class in its messages."""
    plain = is_heap_type(cls) or cls.__module__ == "builtins"
    return cls.__name__ if plain else f"{cls.__module__}.{cls.__name__}"
