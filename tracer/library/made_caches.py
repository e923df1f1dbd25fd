"""Caches that the traced program makes itself with `functools.lru_cache`. The trace knows their contents, but output code cannot
reconstruct them."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.library.polyfills.functools_ import cache_of
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.functions.python_functions import as_written

if TYPE_CHECKING:
    from typing import Any

    from tracer.protocol.tracer import Tracer, ValueCodegen

Value = VariableTracker
_CACHE_OF = as_written(cache_of)
_METHODS = ("__call__", "cache_info", "cache_clear")


class MadeCacheVariable(VariableTracker):
    """A function that `functools.lru_cache` has wrapped; its methods are functions of `polyfills.functools_`."""

    def __init__(self, methods: list[Value], made_at: int) -> None:
        self.methods = dict(zip(_METHODS, methods, strict=True))
        self.made_at = made_at

    def python_type(self) -> type:
        return functools._lru_cache_wrapper

    def children(self) -> Iterable[Value]:
        return self.methods.values()

    def hash_key(self, tx: Tracer) -> Any:
        return self

    def get_attr(self, tx: Tracer, name: str) -> Value:
        stored = tx.effects.attribute(self, name)
        if stored is not None:
            return stored
        if name == "__dict__":
            return tx.instance_dict(self, None)
        if name in _METHODS:
            return tx.bound_builtin_method(self, name)
        return super().get_attr(tx, name)

    def set_attr(self, tx: Tracer, name: str, value: Value) -> None:
        if name in _METHODS or hasattr(functools._lru_cache_wrapper, name) and name not in functools.WRAPPER_ASSIGNMENTS:
            super().set_attr(tx, name, value)
        tx.effects.store_attribute(self, name, value)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return (self.methods.get(name) or self.get_attr(tx, name)).call(tx, args, kwargs)

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.methods["__call__"].call(tx, args, kwargs)

    def reconstruct(self, cg: ValueCodegen) -> None:
        unsupported("cannot-reconstruct", break_step=self.made_at, value="a cache that was made inside")


@models(functools._lru_cache_wrapper)
def _lru_cache_wrapper(tx: Tracer, function: Value, maxsize: Value, typed: Value, info: Value) -> Value:
    """If the cache has to be reconstructed, the graph breaks at the call of lru_cache, and CPython runs that call."""
    made_at = next(frame for frame in reversed(tx.frames()) if frame.globals is not vars(functools)).break_step()
    return MadeCacheVariable(tx.inline(_CACHE_OF, [function, maxsize, typed, info], {}).unpack(tx), made_at)
