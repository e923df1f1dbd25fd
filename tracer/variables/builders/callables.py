"""Tracked forms of functions, methods, classes, modules and cells that existed before the frame ran."""

from __future__ import annotations

import functools
import re
import types
from typing import TYPE_CHECKING, Any

import torch

from tracer import _C, user_marks
from tracer.guards.identity import CodeMatch, FunctionMatch, IdMatch, TypeMatch
from tracer.guards.values import EqualsMatch
from tracer.protocol.lookups import SLOT_TYPES, lookup
from tracer.protocol.models import code_model_of, is_in_graph, model_of
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.base import Source
from tracer.sources.functions import MethodFuncSource, MethodSelfSource
from tracer.sources.reading import is_a, is_heap_type, type_mro
from tracer.variables.builders.builder import VariableBuilder, opaque, tracks, tracks_subclasses
from tracer.variables.classes.type_forms import FORM_BASES, FORM_TYPES, TypeFormVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.functions.callables import (
    BoundMethodVariable,
    BuiltinClassMethodVariable,
    BuiltinMethodVariable,
    CallableVariable,
    CompiledFunctionVariable,
    PartialVariable,
)
from tracer.variables.functions.python_functions import UserFunctionVariable, cell_of, is_nested_function
from tracer.variables.objects.python_modules import PythonModuleVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


@tracks(types.FunctionType)
def _function(builder: VariableBuilder, tx: Tracer, value: types.FunctionType, source: Source) -> VariableTracker:
    if is_library_function(value):
        builder.guard(FunctionMatch(source, value))
        return builder.remember(value, CallableVariable(value, source))
    inner = value.__dict__.get(_COMPILED)
    if inner is not None:  # a result of torch.compile
        builder.guard(IdMatch(source, value))
        function = tx.wrap(inner, GenericAttrSource(source, _COMPILED))
        return builder.remember(value, CompiledFunctionVariable(value, function, source))
    nested = is_nested_function(value)
    builder.guard(CodeMatch(source, value) if nested else FunctionMatch(source, value))
    return builder.remember(value, UserFunctionVariable(value, source, any_of_its_code=nested))


_COMPILED = "_torchdynamo_orig_callable"


def is_library_function(value: types.FunctionType) -> bool:
    """Whether calls of the function are handled by a mark, a model or the graph, not by tracing through it."""
    if user_marks.is_opaque(value) or value in user_marks.graph_policy or user_marks.substitute_of(value) is not None:
        return True
    return model_of(value) is not None or code_model_of(value) is not None or is_in_graph(value)


@tracks(types.MethodType)
def _method(builder: VariableBuilder, tx: Tracer, value: types.MethodType, source: Source) -> VariableTracker:
    builder.guard(TypeMatch(source, types.MethodType))
    function = tx.wrap(value.__func__, MethodFuncSource(source))
    bound = BoundMethodVariable(function, tx.wrap(value.__self__, MethodSelfSource(source)), source)
    return builder.remember(value, bound)


_WITH_CLASS = type(re.compile("").match)  # a builtin method that C gives its defining class


@tracks(
    types.BuiltinFunctionType,
    _WITH_CLASS,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    functools._lru_cache_wrapper,
    type(torch.ops.aten.add),
    type(torch.ops.aten.add.Tensor),
    torch._C.ScriptFunction,
)
def _callable(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    owner = getattr(value, "__self__", None)
    if isinstance(value, types.BuiltinFunctionType) and _is_method_of(owner, value.__name__):
        builder.guard(TypeMatch(source, type(value)))
        builder.guard(EqualsMatch(GenericAttrSource(source, "__name__"), value.__name__))
        return BuiltinMethodVariable(tx.wrap(owner, GenericAttrSource(source, "__self__")), value.__name__, source)
    descriptor = _modelled_class_method(owner, value)
    if descriptor is not None:
        builder.guard(TypeMatch(source, type(value)))
        builder.guard(EqualsMatch(GenericAttrSource(source, "__name__"), value.__name__))
        cls = tx.wrap(owner, GenericAttrSource(source, "__self__"))
        return BuiltinClassMethodVariable(descriptor, cls, source)
    attr = _known_by(value)
    if attr is None:
        builder.guard(IdMatch(source, value))
    else:
        builder.guard(TypeMatch(source, type(value)))
        builder.guard(IdMatch(GenericAttrSource(source, attr), getattr(value, attr)))
        builder.guard(EqualsMatch(GenericAttrSource(source, "__name__"), value.__name__))
    return CallableVariable(value, source)


def _known_by(value: Any) -> str | None:
    """The attribute that, with its name, tells a callable apart whose identity is not to be guarded."""
    if isinstance(value, types.MethodWrapperType):  # a new object at each access
        return "__self__"
    if isinstance(value, SLOT_TYPES) and is_heap_type(value.__objclass__):  # a guard that held it would keep its class alive
        return "__objclass__"
    return None


def _modelled_class_method(owner: Any, value: Any) -> Any:
    """The class method written in C that a builtin binds to the class `owner`, where the tracer has a model of it."""
    if not isinstance(value, types.BuiltinFunctionType) or not is_a(owner, type) or model_of(value) is not None:
        return None
    descriptor = lookup(owner, value.__name__)[1]
    if is_a(descriptor, types.ClassMethodDescriptorType) and model_of(descriptor) is not None:
        return descriptor
    return None


def _is_method_of(owner: Any, name: str) -> bool:
    """Whether a builtin is a method bound to an object. A plain function may have a `__self__` too: a module, say."""
    if owner is None or is_a(owner, (types.ModuleType, type)):
        return False
    return isinstance(getattr(type(owner), name, None), types.MethodDescriptorType)


@tracks(_C.Dispatcher)
def _compiled_function(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(IdMatch(source, value))
    part = "_tracer_opaque" if hasattr(value, "_tracer_opaque") else "function"
    function = tx.wrap(getattr(value, part), GenericAttrSource(source, part))
    return builder.remember(value, CompiledFunctionVariable(value, function, source))


@tracks(functools.partial)
def _partial(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(TypeMatch(source, functools.partial))
    function = tx.wrap(value.func, GenericAttrSource(source, "func"))
    args = tx.wrap(value.args, GenericAttrSource(source, "args")).unpack(tx)
    keywords = tx.wrap(value.keywords, GenericAttrSource(source, "keywords"))
    assert isinstance(keywords, DictVariable)
    kwargs = {key.constant(): item for key, item in keywords.pairs(tx)}
    tx.effects.note_read(value.keywords)
    return builder.remember(value, PartialVariable(function, args, kwargs, functools.partial, source, value))


@tracks_subclasses(type)
def _class(builder: VariableBuilder, tx: Tracer, value: type, source: Source) -> VariableTracker:
    if type_mro(value) is None:  # while its own mro() runs
        return opaque(builder, value, source)
    return builder.guard_class(value, source)


@tracks(*FORM_TYPES)
@tracks_subclasses(*FORM_BASES)
def _type_form(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(IdMatch(source, value))
    return builder.remember(value, TypeFormVariable(value, source))


def _is_plain_module(value: types.ModuleType) -> bool:
    """Whether a module is initialised, and its attributes can be read without running code of its class."""
    namespace = types.ModuleType.__getattribute__(value, "__dict__") or {}
    reads = lookup(type(value), "__getattribute__")[1]
    return type(namespace.get("__name__")) is str and not isinstance(reads, types.FunctionType)


@tracks_subclasses(types.ModuleType)
def _module(builder: VariableBuilder, tx: Tracer, value: types.ModuleType, source: Source) -> VariableTracker:
    if not _is_plain_module(value):
        return opaque(builder, value, source)
    builder.guard(FunctionMatch(source, value))
    return builder.remember(value, PythonModuleVariable(value, source))


@tracks(types.CellType)
def _cell(builder: VariableBuilder, tx: Tracer, value: types.CellType, source: Source) -> VariableTracker:
    return builder.remember(value, cell_of(value, source))
