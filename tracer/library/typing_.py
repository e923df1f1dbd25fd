"""Models of `typing`. Most of it is traced through."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.library.frames_of_callers import function_of
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.classes.type_forms import made
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.functions.python_functions import NestedFunctionVariable, UserFunctionVariable
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


@models(vars(typing)["_idfunc"])
def _new_type(tx: Tracer, value: VariableTracker, /) -> VariableTracker:
    """A call of what `NewType` made: the value itself."""
    return value


@models(typing.get_type_hints)
def _get_type_hints(tx: Tracer, obj: VariableTracker, *, format: VariableTracker | None = None) -> VariableTracker:
    """For functions, whose annotations are guarded, and classes. Names in string annotations are looked up while tracing.
    `format` is an `annotationlib.Format`; those that give annotations as they are differ for names that are not found."""
    how = {} if format is None else {"format": format.identity()}
    if any(getattr(each, "name", None) not in ("VALUE", "FORWARDREF") for each in how.values()):
        unsupported("unsupported-builtin", function="typing.get_type_hints in another format")
    if isinstance(obj, NestedFunctionVariable):
        return _hints_of_made(tx, obj)
    if not isinstance(obj, (UserFunctionVariable, ClassVariable)):
        unsupported("unsupported-builtin", function=f"typing.get_type_hints of {obj.describe()}")
    if isinstance(obj, UserFunctionVariable):
        annotations = obj.get_attr(tx, "__annotations__")
        assert isinstance(annotations, DictVariable)
        annotations.values(tx)
    try:
        hints = typing.get_type_hints(obj.value, **how)
    except Exception as error:
        unsupported("unsupported-builtin", cause=error, function=f"typing.get_type_hints: {error}")
    return DictVariable({name: (ConstantVariable(name), made(hint)) for name, hint in hints.items()})


def _hints_of_made(tx: Tracer, function: NestedFunctionVariable) -> VariableTracker:
    """Of a function that the trace made, whose annotations are classes or None."""
    annotations = function.get_attr(tx, "__annotations__")
    assert isinstance(annotations, DictVariable)
    hints: dict[str, VariableTracker] = {}
    for name, given in annotations.pairs(tx):
        hint = _evaluated(tx, function, given)
        if not isinstance(hint, ClassVariable) and not hint.is_none():
            unsupported("unsupported-builtin", function=f"typing.get_type_hints with {hint.describe()} for {name.constant()!r}")
        hints[name.constant()] = tx.class_variable(type(None)) if hint.is_none() else hint
    return tx.new_dict(hints)


def _evaluated(tx: Tracer, function: NestedFunctionVariable, hint: VariableTracker) -> VariableTracker:
    """An annotation; for a text, what it says among the globals of the function."""
    text = hint.constant() if hint.is_constant() else None
    if type(text) is not str:
        return hint
    code = function_of(text, ())
    if code is None:
        unsupported("unsupported-builtin", function=f"typing.get_type_hints with {text!r}")
    return tx.inline(NestedFunctionVariable(code, function.globals, function.globals_owner, code.co_qualname), [], {})
