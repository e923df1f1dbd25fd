"""Models of functions that functions of the standard library make: the wrapper of a dataclass' repr, the dispatcher of a
generic function. They are recognised by their code objects."""

from __future__ import annotations

import dataclasses
import functools
import reprlib
import weakref
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.guards.state import AbcRegistryMatch
from tracer.protocol.lookups import rely_on_process
from tracer.protocol.models import code_models
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.functions import CellContentsSource, ClosureCellSource
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.functions.callables import CallableVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker


def _repr_wrappers() -> list[Any]:
    wrappers = [reprlib.recursive_repr()(lambda self: "")]
    if hasattr(dataclasses, "_recursive_repr"):
        wrappers.append(dataclasses._recursive_repr(lambda self: ""))
    return [wrapper.__code__ for wrapper in wrappers]


@code_models(*_repr_wrappers())
def _repr_once(tx: Tracer, callee: CallableVariable, obj: Value) -> Value:
    """Calls the wrapped function without the check for recursion: tracing an object that contains itself breaks the graph."""
    if callee.source is None:
        unsupported("unsupported-call", value=callee.describe())
    function = tx.wrap(callee.value.__wrapped__, GenericAttrSource(callee.source, "__wrapped__"))
    return function.call(tx, [obj], {})


@functools.singledispatch
def _generic(value: Any) -> None: ...


@code_models(_generic.dispatch.__code__)
def _dispatch(tx: Tracer, callee: CallableVariable, cls: Value) -> Value:
    """`dispatch` of functools.singledispatch: the implementation for a class, among those that are registered now."""
    function = callee.value
    names = function.__code__.co_freevars
    if callee.source is None or not isinstance(cls, ClassVariable):
        unsupported("unsupported-call", value=callee.describe())
    index = names.index("registry")
    registry = function.__closure__[index].cell_contents
    tracked = tx.wrap(registry, CellContentsSource(ClosureCellSource(callee.source, index)))
    assert isinstance(tracked, DictVariable)
    tx.guard(AbcRegistryMatch())
    rely_on_process("functools.singledispatch chose by what is registered with abstract base classes")
    cache = function.__closure__[names.index("dispatch_cache")].cell_contents
    if type(cache) is not weakref.WeakKeyDictionary:  # another mapping could notice that it is not read
        unsupported("unsupported-call", value=callee.describe())
    try:
        found = functools._find_impl(cls.value, registry)  # type: ignore[attr-defined]  # private in functools
    except RuntimeError as error:  # an ambiguous dispatch
        tx.raise_error(RuntimeError, *error.args)
    key = next(key for key in registry if registry[key] is found)
    return tracked.value(tx, key)
