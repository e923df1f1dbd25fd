"""Models of functools. Caches are in `caches`; functions that can be written in Python are in `polyfills.functools_`."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.library.builtin_objects_ import is_callable
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.functions.callables import PartialVariable
from tracer.variables.values.constant import ZERO

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen

Value = VariableTracker
_KEY_WRAPPER: type = type(functools.cmp_to_key(lambda left, right: 0))


@models(functools.partial)
def _partial(tx: Tracer, function: Value, /, *args: Value, **kwargs: Value) -> Value:
    """A partial of a partial holds the inner function and all arguments, as in CPython."""
    if not is_callable(function):
        tx.raise_error(TypeError, "the first argument must be callable")
    if isinstance(function, PartialVariable) and not tx.effects.attributes(function):
        return PartialVariable(function.function, [*function.args, *args], {**function.kwargs, **kwargs}, functools.partial)
    return PartialVariable(function, list(args), dict(kwargs), functools.partial)


class KeyWrapperVariable(VariableTracker):
    """functools.cmp_to_key(function) or, with `obj`, the key that it makes for that object."""

    def __init__(self, function: Value, obj: Value | None = None) -> None:
        self.function = function
        self.obj = obj

    def python_type(self) -> type:
        return _KEY_WRAPPER

    def children(self) -> Iterable[Value]:
        return (self.function,) if self.obj is None else (self.function, self.obj)

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if len(args) != 1 or kwargs:
            unsupported("call-arguments", error="what cmp_to_key gives takes one object")
        return KeyWrapperVariable(self.function, args[0])

    def get_attr(self, tx: Tracer, name: str) -> Value:
        return self.obj if name == "obj" and self.obj is not None else super().get_attr(tx, name)

    def hash_key(self, tx: Tracer) -> Any:
        tx.raise_error(TypeError, f"unhashable type: '{_KEY_WRAPPER.__module__}.{_KEY_WRAPPER.__name__}'")

    def compare(self, tx: Tracer, op: str, other: Value) -> Value:
        if not isinstance(other, KeyWrapperVariable):
            tx.raise_error(TypeError, "other argument must be K instance")
        if self.obj is None or other.obj is None:
            unsupported("unsupported-operator", left=self.describe(), op=op, right=other.describe())
        return tx.compare(op, self.function.call(tx, [self.obj, other.obj], {}), ZERO)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(functools.cmp_to_key, lambda: cg.load(self.function))
        if self.obj is not None:
            obj = self.obj
            cg.call_top(lambda: cg.load(obj))


@models(functools.cmp_to_key)
def _cmp_to_key(tx: Tracer, mycmp: Value) -> Value:
    return KeyWrapperVariable(mycmp)
