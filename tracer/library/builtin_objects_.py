"""Models of the builtins that ask about objects: types, attributes, super(). isinstance is in `class_checks`."""

from __future__ import annotations

import collections
import types
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.library.class_checks import find_attr
from tracer.library.frames_of_callers import locals_of_caller
from tracer.protocol.lookups import lookup, storage_base, type_name
from tracer.protocol.models import models
from tracer.protocol.variable import ObservedException, VariableTracker, is_exception
from tracer.variables.classes.classes import ClassVariable, SuperVariable
from tracer.variables.containers.lists import NamedTupleVariable, TupleVariable
from tracer.variables.containers.tuples import acts_as_tuple
from tracer.variables.functions.callables import (
    BoundMethodVariable,
    BuiltinMethodVariable,
    CallableVariable,
    PartialVariable,
)
from tracer.variables.functions.python_functions import FunctionVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.values.constant import NONE, boolean
from tracer.variables.values.identities import IdVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker

_CALLABLES = (
    FunctionVariable, CallableVariable, ClassVariable, BoundMethodVariable, BuiltinMethodVariable, PartialVariable,
)  # fmt: skip


@models(type)
def _type(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
    if len(args) != 1 or kwargs:
        return tx.new_class(tx.class_variable(type), list(args), kwargs)
    return tx.class_variable(args[0].python_type(), args[0])


@models(callable)
def _callable(tx: Tracer, value: Value, /) -> Value:
    return boolean(is_callable(value))


def is_callable(value: Value) -> bool:
    return isinstance(value, _CALLABLES) or lookup(value.python_type(), "__call__")[0] is not None


# -- attributes --------------------------------------------------------------------------------------------------------


def _name(name: Value, function: str) -> str:
    if not (name.is_constant() and isinstance(name.constant(), str)):
        unsupported("unsupported-builtin", function=f"{function} with {name.describe()} for a name")
    return str.__str__(name.constant())  # a member of an enum has another text


@models(getattr)
def _getattr(tx: Tracer, obj: Value, name: Value, /, *default: Value) -> Value:
    if len(default) > 1:
        unsupported("call-arguments", error=f"getattr expected at most 3 arguments, got {2 + len(default)}")
    if not default:
        return tx.read_attribute(obj, _name(name, "getattr"))
    found = find_attr(tx, obj, _name(name, "getattr"))
    return default[0] if found is None else found


@models(hasattr)
def _hasattr(tx: Tracer, obj: Value, name: Value, /) -> Value:
    return boolean(find_attr(tx, obj, _name(name, "hasattr")) is not None)


@models(setattr)
def _setattr(tx: Tracer, obj: Value, name: Value, value: Value, /) -> Value:
    obj.set_attr(tx, _name(name, "setattr"), value)
    return NONE


@models(delattr)
def _delattr(tx: Tracer, obj: Value, name: Value, /) -> Value:
    obj.del_attr(tx, _name(name, "delattr"))
    return NONE


@models(id)
def _id(tx: Tracer, value: Value, /) -> Value:
    tx.effects.cached.refuse_identity(value, "another object")
    tx.trace.note_id_read()  # from here on dicts and sets check int keys, which may equal an id
    return IdVariable(value)


@models(super)
def _super(tx: Tracer, *args: Value) -> Value:
    cls: Value | None
    if args:
        if len(args) != 2:
            unsupported("unsupported-builtin", function="super with one argument")
        cls, owner = args
    else:
        cell = tx.cells.get("__class__")
        cls = None if cell is None else cell.read(tx)
        owner = tx.first_argument()
    if not isinstance(cls, ClassVariable):
        unsupported("unsupported-builtin", function="super outside of a method")
    of_class = isinstance(owner, ClassVariable) and issubclass(owner.value, cls.value)
    if not of_class and not issubclass(owner.python_type(), cls.value):
        kind = (
            f"type {type_name(owner.value)}"
            if isinstance(owner, ClassVariable)
            else f"instance of {type_name(owner.python_type())}"
        )
        tx.raise_error(TypeError, _NO_INSTANCE.replace("instance of str", kind).replace("(int)", f"({type_name(cls.value)})"))
    return SuperVariable(cls.value, owner)


try:
    super(int, "")
except TypeError as _error:
    _NO_INSTANCE = str(_error)  # names the two from Python 3.13 on


@models(vars)
def _vars(tx: Tracer, *obj: Value) -> Value:
    if not obj:
        return locals_of_caller(tx)
    try:
        return obj[0].get_attr(tx, "__dict__")
    except ObservedException as raised:
        if not is_exception(raised.value, AttributeError):
            raise
    tx.raise_error(TypeError, "vars() argument must have __dict__ attribute")


# -- making objects ----------------------------------------------------------------------------------------------------


@models(types.SimpleNamespace)
def _namespace(tx: Tracer, /, **kwargs: Value) -> Value:
    made = UserObjectVariable(types.SimpleNamespace)
    for name, value in kwargs.items():
        tx.effects.store_attribute(made, name, value)
    return made


@models(types.SimpleNamespace.__reduce__)
def _reduce_namespace(tx: Tracer, self: Value, /) -> Value:
    assert isinstance(self, UserObjectVariable)
    attributes = tx.instance_dict(self, self.value)
    return TupleVariable([tx.class_variable(self.cls, self), TupleVariable([]), attributes])


@models(types.MethodType)
def _method(tx: Tracer, function: Value, owner: Value, /) -> Value:
    if not is_callable(function):
        tx.raise_error(TypeError, "first argument must be callable")
    return BoundMethodVariable(function, owner)


@models(object)
def _object(tx: Tracer) -> Value:
    return UserObjectVariable(object)


def _new(base: type) -> Any:
    def model(tx: Tracer, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
        if not isinstance(cls, ClassVariable) or not issubclass(cls.value, base):
            unsupported("unsupported-builtin", function=f"{base.__name__}.__new__")
        if storage_base(cls.value) is not base and not issubclass(base, BaseException):  # CPython refuses such a call as unsafe
            unsupported("unsupported-builtin", function=f"{base.__name__}.__new__")
        if cls.value is base and base in _FILLED_LATER:  # `__init__` fills it
            return tx.class_variable(base).call(tx, [], {})
        if cls.value is base and base is not object and not issubclass(base, BaseException):
            return tx.class_variable(base).call(tx, list(args), kwargs)
        if base is tuple and hasattr(cls.value, "_fields") and acts_as_tuple(cls.value):
            return NamedTupleVariable(args[0].unpack(tx), cls.value)
        return tx.new_object(cls, list(args), kwargs)

    return model


_FILLED_LATER = (list, dict, set)
for _base in (object, tuple, list, dict, int, float, str, bytes, set, frozenset, BaseException, Exception):
    models(_base.__new__)(_new(_base))


@models(collections.OrderedDict.__init__)
def _init_ordered_dict(tx: Tracer, self: Value, /, *args: Value, **kwargs: Value) -> Value:
    return self.call_method(tx, "update", list(args), kwargs)
