"""Models of `inspect`: the signature of a plain function is made while tracing, and guarded; other calls are traced through."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.guards.constants import is_guardable_constant
from tracer.guards.values import EqualsMatch
from tracer.library.polyfills.inspect_ import annotations_as_written
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.roots import ObjectSource
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.functions.callables import BoundMethodVariable
from tracer.variables.functions.python_functions import UserFunctionVariable, annotations_run_calls, as_written

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_WRITTEN = as_written(inspect.signature)
_ANNOTATIONS = as_written(annotations_as_written)
_VALUE = getattr(getattr(inspect, "Format", None), "VALUE", None)  # of annotations; Python 3.14 has forms


@models(inspect.signature)
def _signature(tx: Tracer, function: VariableTracker, /, **how: VariableTracker) -> VariableTracker:
    bound = isinstance(function, BoundMethodVariable)
    of = function.function if isinstance(function, BoundMethodVariable) else function
    if how or not isinstance(of, UserFunctionVariable) or of.any_of_its_code or not _is_plain(of):
        return tx.inline(_WRITTEN, [function], how)
    _rely_on(tx, of)
    signature = signature_of(of.value, bound)
    source = ObjectSource(signature, f"signature({of.value.__qualname__})", (signature_of, of.value, bound))
    return tx.wrap(signature, source)


_ASKED = ("__signature__", "__wrapped__", "_partialmethod")


def _is_plain(function: UserFunctionVariable) -> bool:
    """Whether a few guards can cover everything that the signature of a function depends on."""
    value = function.value
    if annotations_run_calls(value):
        return False
    try:
        notes = value.__annotations__
    except Exception:  # Python 3.14 runs code for them, which may name what is not there
        return False
    if function.source is None or value.__kwdefaults__ is not None or any(name in vars(value) for name in _ASKED):
        return False
    return is_guardable_constant(value.__defaults__) and all(type(note) in (str, type) for note in notes.values())


def _rely_on(tx: Tracer, function: UserFunctionVariable) -> None:
    for name in _ASKED:
        tx.guard_absent(function, name)
    source = function.source
    assert source is not None
    for name in ("__defaults__", "__kwdefaults__"):
        tx.guard(EqualsMatch(GenericAttrSource(source, name), getattr(function.value, name)))
    notes = function.get_attr(tx, "__annotations__")
    if isinstance(notes, DictVariable):
        notes.values(tx)


def signature_of(function: Any, bound: bool) -> inspect.Signature:
    return inspect.signature(function.__get__(object()) if bound else function)


def _of_text(
    tx: Tracer, cls: VariableTracker, obj: VariableTracker, text: VariableTracker, *how: VariableTracker
) -> VariableTracker:
    """The signature at the start of the docstring of a callable that is written in C."""
    value = obj.identity()
    if cls.identity() is not inspect.Signature or isinstance(value, VariableTracker) or not text.is_constant():
        unsupported("unsupported-builtin", function=f"inspect.signature of {obj.describe()}")
    made = (_from_text, inspect.Signature, value, text.constant(), *[part.constant() for part in how])
    signature = made[0](*made[1:])
    return tx.wrap(signature, ObjectSource(signature, f"signature({obj.describe()})", made))


_from_text = getattr(inspect, "_signature_fromstr", None)
if _from_text is not None:
    models(_from_text)(_of_text)


@models(inspect.get_annotations)
def _get_annotations(tx: Tracer, obj: VariableTracker, /, **how: VariableTracker) -> VariableTracker:
    form = how.pop("format", None)
    if form is not None and form.identity() is not _VALUE:
        unsupported("call-arguments", error="inspect.get_annotations in another form than their values")
    if any(not value.is_constant() or value.constant() for value in how.values()):
        unsupported("call-arguments", error="inspect.get_annotations that is to evaluate them, or in namespaces")
    return tx.inline(_ANNOTATIONS, [obj], {})
