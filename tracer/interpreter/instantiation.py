"""Calls of classes: `__new__`, then `__init__`, and the instances that built-in bases make."""

from __future__ import annotations

import abc
import collections
import enum
import types
from typing import Any

import torch

from tracer.graph_breaks import unsupported
from tracer.guards.values import PLAIN_VALUES
from tracer.interpreter.wrapper_dispatch import made_wrapper
from tracer.protocol.inlining import is_disabled_by_torch
from tracer.protocol.lookups import lookup, storage_base
from tracer.protocol.models import model_of
from tracer.protocol.tracer import Tracer
from tracer.protocol.variable import VariableTracker, invoke
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.reading import can_be_instantiated, is_a, is_heap_type
from tracer.variables.classes.class_parts import tracked_form
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.classes.enums import member_of_value
from tracer.variables.classes.made_classes import MadeClassVariable
from tracer.variables.containers.deques import DequeVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable, NamedTupleVariable, TupleVariable
from tracer.variables.containers.sets import SetVariable
from tracer.variables.containers.tuples import acts_as_tuple
from tracer.variables.exceptions.exception_groups import new_group
from tracer.variables.exceptions.exceptions import ExceptionVariable, new_os_error, refuse_fields
from tracer.variables.functions.autograd_context import FunctionInstanceVariable
from tracer.variables.functions.callables import BoundMethodVariable, CallableVariable
from tracer.variables.functions.python_functions import FunctionVariable, as_written
from tracer.variables.marked_calls import heed_marks
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.tensors.overrides import is_traceable_subclass
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.tensors.wrappers import is_wrapper_class
from tracer.variables.values.constant import ConstantVariable

_WITHOUT_KEYWORDS = (tuple, float)  # their `__new__` takes none, and drops them where a subclass has an `__init__`
_NOT_MADE_BY_CALLS = 1 << 7  # Py_TPFLAGS_DISALLOW_INSTANTIATION
_ENUM_CALL = enum.EnumMeta.__dict__["__call__"]
_CREATE = as_written(vars(enum.EnumMeta)["_create_"])
_TYPE_CALL = type.__dict__["__call__"]


def instantiate(
    tx: Tracer, cls: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    """cls(*args, **kwargs)"""
    value = cls.value
    heed_marks(tx, value)
    model = model_of(value)
    if model is not None:
        return invoke(model, (tx, *args), kwargs)
    owner, call = lookup(type(value), "__call__")
    if call is _ENUM_CALL:
        return _enum_member(tx, cls, args, kwargs)
    if isinstance(call, types.FunctionType):
        of = tx.class_variable(type(value), cls)
        return BoundMethodVariable(tx.class_attr(owner, "__call__", of), cls).call(tx, args, kwargs)
    if isinstance(call, type):  # typing.TypedDict: dict
        return tx.class_variable(call).call(tx, args, kwargs)
    if call is not _TYPE_CALL:
        unsupported("unsupported-call", value=f"class {value.__qualname__}, whose metaclass has its own __call__")
    if value is torch.Tensor:
        return tx.new_tensor(value, args) if not kwargs else unsupported("call-arguments", error="keywords")
    if issubclass(value, torch.Tensor) and not is_traceable_subclass(value):
        if is_wrapper_class(value) and tx.output.wrappers.takes(value):
            return made_wrapper(tx, value, lambda: type_call(tx, cls, args, kwargs), args, kwargs)
        unsupported("tensor-subclass", cls=value.__qualname__, source="a constructor call")
    if issubclass(value, tuple) and lookup(value, "__new__")[0] is lookup(value, "_fields")[0] and acts_as_tuple(value):
        return _new_named_tuple(tx, cls, args, kwargs)
    if issubclass(value, tuple) and hasattr(value, "n_sequence_fields") and len(args) == 1 and not kwargs:
        return _new_struct_sequence(tx, value, args[0])
    if value.__flags__ & _NOT_MADE_BY_CALLS:
        unsupported("unsupported-call", value=f"class {value.__qualname__}, which C alone makes instances of")
    if not is_heap_type(value) and not issubclass(value, BaseException):
        return tx.call_library(CallableVariable(value, cls.source), args, kwargs)
    return type_call(tx, cls, args, kwargs)


def _enum_member(
    tx: Tracer, cls: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    """cls(value). For an enum without members, the call makes a class: `Enum("Color", "RED GREEN")`."""
    enumeration: Any = cls.value
    named = "names" in kwargs or len(args) > 1
    if named and not enumeration._member_map_ and 1 <= len(args) <= 2:
        module = tx.literal(tx.globals.get("__name__"))
        return tx.inline(_CREATE, [cls, *args], {"module": module, **kwargs})
    if len(args) + len(kwargs) != 1 or kwargs.keys() - {"value"} or not enumeration._member_map_:
        unsupported("makes-a-class", function=enumeration.__qualname__)
    return member_of_value(tx, enumeration, *args, *kwargs.values())


def type_call(tx: Tracer, cls: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
    """type.__call__: __new__, then __init__ if that gave an instance."""
    value = cls.value
    owner, static = lookup(value, "__new__")
    if is_a(static, staticmethod) and isinstance(static.__func__, types.FunctionType):
        instance = tx.class_attr(owner, "__new__", cls, part="__func__").call(tx, [cls, *args], kwargs)
        if not issubclass(instance.python_type(), value):
            return instance
    elif kwargs and issubclass(value, torch.Tensor):
        unsupported("tensor-subclass", cls=value.__qualname__, source="a constructor call with keywords")
    else:
        instance = new_object(tx, cls, args, kwargs)
    owner, static = lookup(value, "__init__")
    if is_a(static, types.FunctionType):
        init = tx.class_attr(owner, "__init__", cls)
        if issubclass(value, torch.Tensor) and init.source is not None and is_disabled_by_torch(static):
            init = tx.wrap(static.__wrapped__, GenericAttrSource(init.source, "__wrapped__"))
        result = init.call(tx, [instance, *args], kwargs)
        if not result.is_none():
            tx.raise_error(TypeError, f"__init__() should return None, not '{result.python_type().__name__}'")
    elif not isinstance(instance, (TensorVariable, NamedTupleVariable)):  # `object.__init__` of a tuple does nothing
        assert owner is not None  # it is `object`, if nothing else
        tx.call_base_method(owner, "__init__", instance, args, kwargs)
    return instance


def new_object(
    tx: Tracer, cls: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    """An instance as the `__new__` of a built-in base makes it."""
    if issubclass(cls.value, type):
        return tx.new_class(cls, args, kwargs)
    made = _new_object(tx, cls, args, kwargs)
    if isinstance(cls, MadeClassVariable) and isinstance(made, UserObjectVariable):
        made.made_class = cls
    return made


def _new_object(
    tx: Tracer, cls: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    value = cls.value
    _refuse_abstract(tx, value)
    if not can_be_instantiated(value):
        tx.run_now(object.__new__, value)
    if lookup(value, "__del__")[0] is not None:  # runs when the last reference goes
        unsupported("unsupported-call", value=f"class {value.__qualname__}, which has __del__")
    if issubclass(value, BaseExceptionGroup):
        return new_group(tx, value, args)
    if issubclass(value, BaseException):
        if issubclass(value, OSError):
            return new_os_error(tx, value, args)
        refuse_fields(value)
        return ExceptionVariable(value, args=args)
    if issubclass(value, torch.Tensor):
        return tx.new_tensor(value, args)
    if issubclass(value, torch.autograd.Function):
        return FunctionInstanceVariable(value)
    base, maker = storage_base(value), lookup(value, "__new__")[0]
    assert maker is not None  # it is `object`, if nothing else
    if not issubclass(base, maker) and not _has_python_new(value):
        unsupported("unsupported-call", value=f"class {value.__qualname__}, whose instances are made in C")
    if base is object:
        if (args or kwargs) and lookup(value, "__new__")[0] is not object:
            tx.raise_error(TypeError, "object.__new__() takes exactly one argument (the type to instantiate)")
        if (args or kwargs) and lookup(value, "__init__")[0] is object:
            tx.raise_error(TypeError, f"{value.__name__}() takes no arguments")
        return UserObjectVariable(value)
    if base in _WITHOUT_KEYWORDS and lookup(value, "__init__")[0] is not object:
        kwargs = {}  # those are for its own `__init__`
    if base is tuple:
        if kwargs or len(args) > 1:  # an error, which the model of `tuple` words
            return tx.class_variable(base).call(tx, args, kwargs)
        return UserObjectVariable(value, storage=TupleVariable(args[0].unpack(tx) if args else []))
    if base is list:
        return UserObjectVariable(value, storage=ListVariable([]))
    if issubclass(base, dict):
        return UserObjectVariable(value, storage=DictVariable({}, cls=base))
    if base is set:
        return UserObjectVariable(value, storage=SetVariable({}))
    if base is collections.deque:
        return UserObjectVariable(value, storage=DequeVariable([]))
    if base in PLAIN_VALUES:
        plain = tx.class_variable(base).call(tx, args, kwargs)
        if type(plain) is ConstantVariable:
            return UserObjectVariable(value, storage=ConstantVariable(plain.value))
    unsupported("unsupported-call", value=f"class {value.__qualname__}, derived from {base.__name__}")


def _refuse_abstract(tx: Tracer, cls: type) -> None:
    """Raises the TypeError that object.__new__ raises for an abstract class."""
    owner, methods = lookup(cls, "__abstractmethods__")
    if owner is cls and methods and storage_base(cls) is object:
        stand_in = abc.ABCMeta(cls.__name__, (), {name: abc.abstractmethod(_refuse_abstract) for name in methods})
        try:
            stand_in()
        except TypeError as error:  # in the words of this version of CPython
            tx.raise_error(TypeError, *error.args)


def _new_named_tuple(
    tx: Tracer, cls: ClassVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    made: Any = cls.value
    fields: tuple[str, ...] = made._fields
    owner, static = lookup(made, "__new__")
    values = dict(zip(fields, args)) | kwargs
    if len(values) < len(fields):
        if id(cls.value) in tx.trace.findings.made:
            defaults = [tracked_form(tx, default) for default in static.__func__.__defaults__ or ()]
        else:
            function = tx.class_attr(owner, "__new__", cls, part="__func__")
            assert isinstance(function, FunctionVariable)
            defaults = function.defaults(tx)
        values = dict(zip(fields[::-1], defaults[::-1])) | values
    if len(args) > len(fields) or set(values) != set(fields) or kwargs.keys() & set(fields[: len(args)]):
        unsupported("unsupported-call", value=f"named tuple {cls.value.__qualname__}")
    return NamedTupleVariable([values[name] for name in fields], cls.value)


def _new_struct_sequence(tx: Tracer, cls: Any, iterable: VariableTracker) -> VariableTracker:
    """An instance of a class such as torch.return_types.max, made of all its items."""
    if iterable.is_constant() and not isinstance(iterable.constant(), (tuple, str, bytes)):
        tx.raise_error(TypeError, "constructor requires a sequence")
    items = iterable.unpack(tx)
    if len(items) < cls.n_sequence_fields:
        name, count = f"{cls.__module__}.{cls.__name__}", cls.n_sequence_fields
        limit = "" if cls.n_fields == count else "at least "
        tx.raise_error(TypeError, f"{name}() takes {limit or 'a '}{count}-sequence ({len(items)}-sequence given)")
    if len(items) > cls.n_sequence_fields:
        unsupported("unsupported-call", value=f"{cls.__qualname__} with {len(items)} items")
    return NamedTupleVariable(items, cls)


def _has_python_new(cls: type) -> bool:
    static = lookup(cls, "__new__")[1]
    return is_a(static, staticmethod) and isinstance(static.__func__, types.FunctionType)
