"""Models of the builtins that ask about objects: types, attributes, super()."""
from __future__ import annotations

import _abc
import abc
import collections
import types
import typing
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph_breaks import unsupported
from tracer.library.registry import models
from tracer.variables.base import ObservedException, VariableTracker
from tracer.variables.callables import BoundMethodVariable, BuiltinMethodVariable, CallableVariable, PartialVariable
from tracer.variables.classes import ClassVariable, SuperVariable
from tracer.variables.constant import NONE, boolean
from tracer.variables.functions import FunctionVariable
from tracer.variables.lookups import lookup
from tracer.variables.objects import UserObjectVariable
from tracer.variables.sequences import NamedTupleVariable, TupleVariable

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer

Value = VariableTracker

# Checks that look at the class of the object alone.
_BY_CLASS = frozenset(
    (type.__instancecheck__, abc.ABCMeta.__instancecheck__)
    + tuple(type(cls).__instancecheck__ for cls in (torch.nn.Parameter, torch.nn.Buffer, torch.Tensor))
)
_PROTOCOL_CHECK = type(typing.Protocol).__instancecheck__
_CALLABLES = (
    FunctionVariable, CallableVariable, ClassVariable, BoundMethodVariable, BuiltinMethodVariable, PartialVariable,
)  # fmt: skip


@models(isinstance)
def _isinstance(tx: Tracer, value: Value, classes: Value, /) -> Value:
    return boolean(any(is_instance(tx, value, cls) for cls in _classes(tx, classes)))


def is_instance(tx: Tracer, value: Value, cls: ClassVariable) -> bool:
    kind = value.python_type()
    if kind is cls.value:
        return True
    if lookup(kind, "__class__")[0] is not object:
        unsupported("unsupported-builtin", function=f"isinstance of {value.describe()}, which has its own __class__")
    owner, check = lookup(type(cls.value), "__instancecheck__")
    if check in _BY_CLASS:
        return issubclass(kind, cls.value)
    if check is _PROTOCOL_CHECK:
        return _has_protocol(tx, value, kind, cls.value)
    if not isinstance(check, types.FunctionType):
        unsupported("unsupported-builtin", function=f"isinstance with {cls.describe()}")
    function = tx.class_attr(owner, "__instancecheck__", None)  # type: ignore[attr-defined]
    return function.call(tx, [cls, value], {}).truth(tx)  # type: ignore[no-any-return]


def _has_protocol(tx: Tracer, value: Value, kind: type, cls: Any) -> bool:
    """typing._ProtocolMeta.__instancecheck__ of CPython 3.11"""
    if not getattr(cls, "_is_protocol", False):
        return issubclass(kind, cls)
    if not getattr(cls, "_is_runtime_protocol", False):
        tx.raise_error(
            TypeError, "Instance and class checks can only be used with @runtime_checkable protocols"
        )
    names = typing._get_protocol_attrs(cls)  # type: ignore[attr-defined]
    only_methods = all(callable(getattr(cls, name, None)) for name in names)
    if only_methods and issubclass(kind, cls):
        return True
    for name in names:
        attribute = find_attr(tx, value, name)
        if attribute is None:
            return False
        if callable(getattr(cls, name, None)) and attribute.is_constant() and attribute.constant() is None:
            return False
    return True


def _classes(tx: Tracer, value: Value) -> list[ClassVariable]:
    if isinstance(value, ClassVariable):
        return [value]
    if isinstance(value, TupleVariable):
        return [cls for item in value.items(tx) for cls in _classes(tx, item)]
    alias = getattr(value, "value", None)
    if isinstance(alias, types.UnionType) or typing.get_origin(alias) is typing.Union:
        return [tx.class_variable(cls) for cls in typing.get_args(alias)]  # type: ignore[attr-defined]
    unsupported("unsupported-builtin", function=f"isinstance with {value.describe()}")


@models(issubclass)
def _issubclass(tx: Tracer, cls: Value, classes: Value, /) -> Value:
    if not isinstance(cls, ClassVariable):
        unsupported("unsupported-builtin", function="issubclass of something else than a class")
    for base in _classes(tx, classes):
        _, check = lookup(type(base.value), "__subclasscheck__")
        known = (type.__subclasscheck__, abc.ABCMeta.__subclasscheck__)
        if check not in known and isinstance(check, types.FunctionType):
            unsupported("unsupported-builtin", function=f"issubclass with {base.describe()}")
        if issubclass(cls.value, base.value):
            return boolean(True)
    return boolean(False)


@models(_abc._abc_instancecheck)
def _abc_instancecheck(tx: Tracer, cls: Value, value: Value, /) -> Value:
    return boolean(issubclass(value.python_type(), _classes(tx, cls)[0].value))


@models(_abc._abc_subclasscheck)
def _abc_subclasscheck(tx: Tracer, cls: Value, subclass: Value, /) -> Value:
    return boolean(issubclass(_classes(tx, subclass)[0].value, _classes(tx, cls)[0].value))


@models(type)
def _type(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
    if len(args) != 1 or kwargs:
        unsupported("unsupported-builtin", function="type with three arguments")
    return tx.class_variable(args[0].python_type(), args[0])  # type: ignore[attr-defined,no-any-return]


@models(callable)
def _callable(tx: Tracer, value: Value, /) -> Value:
    return boolean(is_callable(value))


def is_callable(value: Value) -> bool:
    return isinstance(value, _CALLABLES) or lookup(value.python_type(), "__call__")[0] is not None


# -- attributes --------------------------------------------------------------------------------------------------------


def find_attr(tx: Tracer, obj: Value, name: str) -> Value | None:
    """getattr(obj, name), None where that raises AttributeError."""
    try:
        return obj.get_attr(tx, name)
    except ObservedException as raised:
        if tx.is_exception(raised.value, AttributeError):
            return None
        raise


def _name(name: Value, function: str) -> str:
    if not (name.is_constant() and isinstance(name.constant(), str)):
        unsupported("unsupported-builtin", function=f"{function} with {name.describe()} for a name")
    return str(name.constant())


@models(getattr)
def _getattr(tx: Tracer, obj: Value, name: Value, /, *default: Value) -> Value:
    if len(default) > 1:
        unsupported("call-arguments", error=f"getattr expected at most 3 arguments, got {2 + len(default)}")
    if not default:
        return obj.get_attr(tx, _name(name, "getattr"))
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
    unsupported("unsupported-builtin", function="id")


@models(super)
def _super(tx: Tracer, *args: Value) -> Value:
    if args:
        if len(args) != 2:
            unsupported("unsupported-builtin", function="super with one argument")
        cls, owner = args
    else:
        cell = tx.cells.get("__class__")  # type: ignore[attr-defined]
        cls = None if cell is None else cell.read(tx)  # type: ignore[assignment]
        owner = tx.first_argument()  # type: ignore[attr-defined]
    if not isinstance(cls, ClassVariable):
        unsupported("unsupported-builtin", function="super outside of a method")
    of_class = isinstance(owner, ClassVariable) and issubclass(owner.value, cls.value)
    if not of_class and not issubclass(owner.python_type(), cls.value):
        tx.raise_error(TypeError, "super(type, obj): obj must be an instance or subtype of type")
    return SuperVariable(cls.value, owner)


@models(vars)
def _vars(tx: Tracer, *obj: Value) -> Value:
    if not obj:
        unsupported("frame-introspection", function="vars()")
    return obj[0].get_attr(tx, "__dict__")


@models(locals, globals, dir)
def _introspection(tx: Tracer, *args: Value) -> Value:
    unsupported("frame-introspection", function="locals(), globals() or dir()")


# -- making objects ----------------------------------------------------------------------------------------------------


@models(object)
def _object(tx: Tracer) -> Value:
    return UserObjectVariable(object)


def _new(base: type) -> Any:
    def model(tx: Tracer, cls: Value, /, *args: Value, **kwargs: Value) -> Value:
        if not isinstance(cls, ClassVariable) or not issubclass(cls.value, base) or cls.value is base:
            unsupported("unsupported-builtin", function=f"{base.__name__}.__new__")
        if base is tuple and hasattr(cls.value, "_fields"):
            return NamedTupleVariable(args[0].unpack(tx), cls.value)
        return tx.new_object(cls, list(args))  # type: ignore[attr-defined,no-any-return]

    return model


for _base in (object, tuple, list, dict, BaseException, Exception):
    models(_base.__new__)(_new(_base))


@models(collections.OrderedDict.__init__)
def _init_ordered_dict(tx: Tracer, self: Value, /, *args: Value, **kwargs: Value) -> Value:
    return self.call_method(tx, "update", list(args), kwargs)
