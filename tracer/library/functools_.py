"""Models of functools. Caches are in `caches`, what can be written in Python in `polyfills.functools_`."""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.library.registry import models
from tracer.variables.base import VariableTracker
from tracer.variables.callables import PartialVariable

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer

Value = VariableTracker


@models(functools.partial)
def _partial(tx: Tracer, function: Value, /, *args: Value, **kwargs: Value) -> Value:
    """A partial of a partial holds the inner function and all arguments, as in CPython."""
    if isinstance(function, PartialVariable) and not tx.effects.attributes(function):
        return PartialVariable(
            function.function, [*function.args, *args], {**function.kwargs, **kwargs}, functools.partial
        )
    return PartialVariable(function, list(args), dict(kwargs), functools.partial)


@models(functools.singledispatch)
def _singledispatch(tx: Tracer, *args: Value) -> Value:
    unsupported("unsupported-builtin", function="functools.singledispatch")
