"""Class statements, staticmethod, classmethod and property. Other functions that make classes break the graph where the program
calls them, so that CPython makes the class."""

from __future__ import annotations

import _abc
import abc
import builtins
import enum
import inspect
import types
import typing
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.library.class_checks import find_attr
from tracer.protocol.lookups import has_from_python, lookup
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.classes.class_making import become_abstract
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.classes.made_classes import (
    ClassMethodVariable,
    MadeClassVariable,
    Placeholder,
    PropertyVariable,
    StaticMethodVariable,
)
from tracer.variables.functions.python_functions import UserFunctionVariable, as_written
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker


@models(builtins.__build_class__)
def _build_class(tx: Tracer, body: Value, name: Value, /, *bases: Value, **kwargs: Value) -> Value:
    return tx.build_class(body, name, list(bases), kwargs)


@models(_abc._abc_init)
def _abc_init(tx: Tracer, cls: Value, /) -> Value:
    """The abstract names are found on the prototype: the functions of the class itself may get their marks later on."""
    if not isinstance(cls, MadeClassVariable):
        unsupported("makes-a-class", function="_abc_init")
    for value in cls.namespace.values():
        _refuse_own_abstractness(tx, value)
    inherited = {name for base in cls.value.__bases__ for name in getattr(base, "__abstractmethods__", ())}
    for name in inherited:
        if isinstance(lookup(type(lookup(cls.value, name)[1]), "__get__")[1], types.FunctionType):
            unsupported("makes-a-class", function=f"An abstract class with a descriptor for {name}")
    if isinstance(lookup(type(cls.value), "__getattribute__")[1], types.FunctionType):
        unsupported("makes-a-class", function="An abstract class whose metaclass has __getattribute__")
    _abc._abc_init(cls.value)
    cls.apply_step(tx, become_abstract, cls.value.__dict__["__abstractmethods__"])
    return NONE


def _refuse_own_abstractness(tx: Tracer, value: Value) -> None:
    """Refuses a value that has an `__isabstractmethod__`, unless it is a function that the trace made."""
    if isinstance(value, UserFunctionVariable) and value.source is not None:
        found = find_attr(tx, value, "__isabstractmethod__")
    elif isinstance(value, UserObjectVariable):
        hooks = (lookup(value.cls, name)[1] for name in ("__isabstractmethod__", "__getattr__", "__getattribute__"))
        found = next((value for hook in hooks if isinstance(hook, (types.FunctionType, property))), None)
        found = found or value.instance_attr(tx, "__isabstractmethod__")
    else:
        return
    if found is not None:
        unsupported("makes-a-class", function=f"An abstract class with {value.describe()}, which may be abstract itself,")


def _function_of(cls: Any) -> Any:
    """What `cls.__init_subclass__` binds to a class; in C a descriptor (Generic, from Python 3.12 on)."""
    method = vars(cls)["__init_subclass__"]
    return getattr(method, "__func__", method)


@models(_function_of(typing.Generic))
def _init_generic(tx: Tracer, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
    return _init_by_typing(tx, typing.Generic, cls, *args, **kwargs)


@models(_function_of(typing.Protocol))
def _init_protocol(tx: Tracer, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
    return _init_by_typing(tx, typing.Protocol, cls, *args, **kwargs)


def _init_protocol_class(tx: Tracer, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
    """Of the metaclass, which notes the names of the protocol."""
    if not isinstance(cls, MadeClassVariable):
        unsupported("makes-a-class", function=f"The metaclass of Protocol with {cls.describe()}")
    try:
        cls.apply_step(tx, vars(_PROTOCOL_META)["__init__"], "", (), {})  # what `type` ignores
    except Exception as error:
        unsupported("makes-a-class", cause=error, function=f"A class statement that fails ({error})")
    return NONE


_PROTOCOL_META: Any = type(typing.Protocol)
if "__init__" in vars(_PROTOCOL_META):  # from Python 3.12 on
    models(vars(_PROTOCOL_META)["__init__"])(_init_protocol_class)


def _runtime_checkable(tx: Tracer, cls: Value, /) -> Value:
    """Notes the members that are no methods, which it reads from the class."""
    if not isinstance(cls, MadeClassVariable):
        return tx.inline(as_written(typing.runtime_checkable), [cls], {})
    for name in getattr(cls.value, "__protocol_attrs__", ()):
        static = lookup(cls.value, name)[1]
        if isinstance(static, Placeholder) or has_from_python(type(static), "__get__"):
            unsupported("makes-a-class", function=f"@runtime_checkable of a class with a value of the program for {name}")
    try:
        cls.apply_step(tx, typing.runtime_checkable)
    except TypeError as error:
        unsupported("makes-a-class", cause=error, function=f"A decorator that fails ({error})")
    return cls


if "__non_callable_proto_members__" in typing.runtime_checkable.__code__.co_names:  # from Python 3.13 on
    models(typing.runtime_checkable)(_runtime_checkable)


def _init_by_typing(tx: Tracer, of: Any, cls: Value, *args: Value, **kwargs: Value) -> Value:
    """Runs typing's own `__init_subclass__` on a new class."""
    if not isinstance(cls, MadeClassVariable) or args:
        unsupported("makes-a-class", function=f"{of.__name__}.__init_subclass__ with {cls.describe()}")
    if lookup(cls.value, "__init_subclass__", typing.Generic)[0] is not object:  # typing's calls this one in turn
        unsupported("makes-a-class", function=f"A class statement with a base behind {of.__name__} that has __init_subclass__")
    if kwargs:
        tx.raise_error(TypeError, f"{cls.value.__qualname__}.__init_subclass__() takes no keyword arguments")
    try:
        cls.apply_step(tx, _function_of(of))
    except Exception as error:
        unsupported("makes-a-class", cause=error, function=f"A class statement that fails ({error})")
    return NONE


@models(staticmethod)
def _staticmethod(tx: Tracer, function: Value, /) -> Value:
    return StaticMethodVariable(function)


@models(classmethod)
def _classmethod(tx: Tracer, function: Value, /) -> Value:
    return ClassMethodVariable(function)


@models(property)
def _property(tx: Tracer, fget: Value | None = None, fset: Value | None = None, fdel: Value | None = None) -> Value:
    parts = {"fget": fget, "fset": fset, "fdel": fdel}
    return PropertyVariable({name: part for name, part in parts.items() if part is not None})


@models(inspect.getattr_static(enum.EnumMeta, "__new__").__func__)
def _new_enum(
    tx: Tracer, metaclass: Value, name: Value, bases: Value, namespace: Value, /, *, boundary: Value = NONE, **kwargs: Value
) -> Value:
    """Given the metaclass that the class statement has found, it makes the class of the filled namespace."""
    if not isinstance(metaclass, ClassVariable):
        unsupported("makes-a-class", function=f"EnumMeta.__new__ of {metaclass.describe()}")
    return tx.new_class(metaclass, [name, bases, namespace], {"boundary": boundary, **kwargs})


@models(vars(type)["__prepare__"])
def _prepare(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
    return tx.new_dict({})


def _model_that_breaks(name: str) -> Any:
    """The model of a function that makes a class and is not traced: it breaks the graph."""

    def model(tx: Tracer, *args: Any, **kwargs: Any) -> Any:
        unsupported("makes-a-class", function=name)

    return model


for _function in (
    typing.TypedDict, typing.NewType, abc.update_abstractmethods,
):  # fmt: skip
    models(_function)(_model_that_breaks(getattr(_function, "__qualname__", str(_function))))
