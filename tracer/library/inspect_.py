"""Models of `inspect`: signatures of functions, which are fixed as long as the function is."""
from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.library.registry import models
from tracer.sources import ObjectSource
from tracer.variables.base import VariableTracker
from tracer.variables.callables import BoundMethodVariable
from tracer.variables.classes import ClassVariable
from tracer.variables.constant import boolean
from tracer.variables.functions import FunctionVariable, UserFunctionVariable

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer


@models(inspect.signature)
def _signature(tx: Tracer, function: VariableTracker) -> VariableTracker:
    value: Any = None
    if isinstance(function, UserFunctionVariable):
        value = function.value
    elif isinstance(function, BoundMethodVariable) and isinstance(function.function, UserFunctionVariable):
        value = function.function.value.__get__(object())
    if value is None:
        unsupported("unsupported-builtin", function=f"inspect.signature of {function.describe()}")
    signature = inspect.signature(value)
    return tx.wrap(signature, ObjectSource(signature, f"signature({value.__qualname__})"))


@models(inspect.isfunction)
def _isfunction(tx: Tracer, value: VariableTracker) -> VariableTracker:
    return boolean(isinstance(value, FunctionVariable))


@models(inspect.ismethod)
def _ismethod(tx: Tracer, value: VariableTracker) -> VariableTracker:
    return boolean(isinstance(value, BoundMethodVariable))


@models(inspect.isclass)
def _isclass(tx: Tracer, value: VariableTracker) -> VariableTracker:
    return boolean(isinstance(value, ClassVariable))
