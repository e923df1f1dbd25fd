"""Models of `typing`. Most of it is traced through."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.classes.type_forms import made
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.functions.python_functions import UserFunctionVariable
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


@models(typing.get_type_hints)
def _get_type_hints(tx: Tracer, obj: VariableTracker) -> VariableTracker:
    """For functions, whose annotations are guarded, and classes. Names in string annotations are looked up while tracing."""
    if not isinstance(obj, (UserFunctionVariable, ClassVariable)):
        unsupported("unsupported-builtin", function=f"typing.get_type_hints of {obj.describe()}")
    if isinstance(obj, UserFunctionVariable):
        annotations = obj.get_attr(tx, "__annotations__")
        assert isinstance(annotations, DictVariable)
        annotations.values(tx)
    try:
        hints = typing.get_type_hints(obj.value)
    except Exception as error:
        unsupported("unsupported-builtin", cause=error, function=f"typing.get_type_hints: {error}")
    return DictVariable({name: (ConstantVariable(name), made(hint)) for name, hint in hints.items()})
