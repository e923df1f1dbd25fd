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
    bound = isinstance(function, BoundMethodVariable)
    of = function.function if isinstance(function, BoundMethodVariable) else function
    if not isinstance(of, UserFunctionVariable):
        unsupported("unsupported-builtin", function=f"inspect.signature of {function.describe()}")
    signature = signature_of(of.value, bound)
    source = ObjectSource(signature, f"signature({of.value.__qualname__})", (signature_of, of.value, bound))
    return tx.wrap(signature, source)


def signature_of(function: Any, bound: bool) -> inspect.Signature:
    return inspect.signature(function.__get__(object()) if bound else function)


@models(inspect.isfunction)
def _isfunction(tx: Tracer, value: VariableTracker) -> VariableTracker:
    return boolean(isinstance(value, FunctionVariable))


@models(inspect.ismethod)
def _ismethod(tx: Tracer, value: VariableTracker) -> VariableTracker:
    return boolean(isinstance(value, BoundMethodVariable))


@models(inspect.isclass)
def _isclass(tx: Tracer, value: VariableTracker) -> VariableTracker:
    return boolean(isinstance(value, ClassVariable))
