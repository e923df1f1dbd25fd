"""Methods of built-in base classes, called on objects of the classes that derive from them: `super().__setattr__(...)`.

An object of a class that derives from list, dict, str, ... keeps the built-in's value in `UserObjectVariable.storage`: a tracked
list, dict, constant, ... A method that is inherited from the built-in is called on that.
"""

from __future__ import annotations

import collections
import types

from tracer.graph_breaks import unsupported
from tracer.interpreter.raising import raise_attribute_error
from tracer.protocol.lookups import lookup, no_attribute, rely_on_bases, storage_base
from tracer.protocol.models import model_of
from tracer.protocol.tracer import Tracer
from tracer.protocol.variable import VariableTracker, invoke
from tracer.sources.attributes import SubclassesSource
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.dicts import DictVariable, entries_are_copied
from tracer.variables.containers.lists import ListVariable, TupleVariable
from tracer.variables.containers.sets import SetVariable
from tracer.variables.exceptions.exceptions import ExceptionVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.objects.reduction import reduced
from tracer.variables.slots import OPERATORS
from tracer.variables.tensors.overrides import base_method
from tracer.variables.values.constant import NONE, ConstantIterator, ConstantVariable, boolean, named_by_cpython, plain_value

_NAMING_THE_CLASS = ("__repr__", "__str__", "__reduce__", "__reduce_ex__")
_COPYING_ENTRIES = ("copy", "__copy__", "__or__", "__ror__")  # of dicts; C may copy the entries directly, or call `keys()`
_COPYING = (*_COPYING_ENTRIES, "fromkeys", *_NAMING_THE_CLASS)
# Methods whose result depends on the object's class: they call its constructor, name it, or tell it from the plain class.
_BY_CLASS: dict[type, tuple[str, ...]] = {
    dict: ("fromkeys",),
    collections.OrderedDict: (*_COPYING, "update", "__ior__", "__eq__", "__ne__"),
    collections.defaultdict: _COPYING,
    collections.deque: ("copy", "__copy__", "__add__", "__mul__", "__rmul__", *_NAMING_THE_CLASS),
    set: _NAMING_THE_CLASS,
    frozenset: _NAMING_THE_CLASS,
    str: ("format", "format_map", "partition", "rpartition"),
    bytes: ("partition", "rpartition"),
}
_OF_SEQUENCES = ("__add__", "__mul__", "__rmul__", "__mod__")  # these take any operand, or raise, but never return NotImplemented
# How many arguments these methods of `object` take, `self` apart.
_ARGUMENTS_OF_OBJECT = {"__setattr__": 2, "__getattribute__": 1, "__delattr__": 1, "__eq__": 1, "__ne__": 1}


def call_builtin_method(
    tx: Tracer, owner: VariableTracker, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    """`owner.name(...)` where lookup has found a method that is written in C."""
    if isinstance(owner, UserObjectVariable):
        base, static = lookup(owner.cls, name)
        if base is None:
            unsupported("unsupported-method", value=owner.describe(), name=name)
        if isinstance(static, types.ClassMethodDescriptorType) and isinstance(owner.storage, ConstantVariable):
            return tx.class_variable(owner.cls).get_attr(tx, name).call(tx, args, kwargs)
        return call_base_method(tx, base, name, owner, args, kwargs)
    if isinstance(owner, ClassVariable):
        return _call_type_method(tx, owner, name, args, kwargs)
    return owner.call_method(tx, name, args, kwargs)


def _call_type_method(
    tx: Tracer, cls: ClassVariable, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    """A method of `type` called on a class."""
    if name == "mro":
        return ListVariable(tx.class_tuple(cls, cls.value.__mro__).unpack(tx))
    if name == "__subclasses__" and not args and cls.source is not None and not tx.trace.findings.made:
        found = tx.wrap(type.__subclasses__(cls.value), SubclassesSource(cls.source))
        return ListVariable(found.unpack(tx))
    if name == "__call__":
        return tx.type_call(cls, args, kwargs)
    if name == "__init__" and len(args) in (1, 3):  # type.__init__ only counts its arguments
        return NONE
    if name == "__setattr__" and args[0].is_constant():
        cls.store(tx, args[0].constant(), args[1])
        return NONE
    if name == "__getattribute__" and args[0].is_constant():
        return cls.find_attr(tx, args[0].constant())
    if name == "__instancecheck__":
        rely_on_bases(args[0].python_type())
        return boolean(cls.value in args[0].python_type().__mro__)
    if name == "__subclasscheck__" and isinstance(args[0], ClassVariable):
        rely_on_bases(args[0].value)
        return boolean(cls.value in args[0].value.__mro__)
    unsupported("unsupported-method", value=cls.describe(), name=name)


def call_base_method(
    tx: Tracer,
    base: type,
    name: str,
    owner: VariableTracker,
    args: list[VariableTracker],
    kwargs: dict[str, VariableTracker],
) -> VariableTracker:
    """`base.name(owner, ...)` where `base` is a built-in class in the MRO of `owner`'s class.

    `__new__` is a static method: the class is its first argument. Of other methods, a model that is registered for the method
    itself goes first."""
    if name == "__new__" and args and isinstance(args[0], ClassVariable):
        if base is object and storage_base(args[0].value) is not object:
            unsupported("unsupported-method", value=args[0].describe(), name="__new__ of object")
        return tx.new_object(args[0], args[1:], kwargs)
    model = model_of(base.__dict__.get(name))
    if model is not None:
        return invoke(model, (tx, owner, *args), kwargs)
    if isinstance(owner, UserObjectVariable):
        if base is object and name == "__init__":
            return _object_init(tx, owner, bool(args or kwargs))
        if base is object:
            return _object_method(tx, owner, name, args)
        if isinstance(owner, ExceptionVariable):
            return owner.base_method(tx, base, name, args, kwargs)
        if owner.storage is not None:
            return _storage_method(tx, owner, name, args, kwargs)
    if isinstance(owner, ClassVariable) and base is object and name == "__init_subclass__":
        return _object_init_subclass(tx, owner.value, args, kwargs)
    if base is types.SimpleNamespace and isinstance(owner, UserObjectVariable):
        return namespace_method(tx, owner, name, args, kwargs)
    if base is type and isinstance(owner, ClassVariable):
        return _call_type_method(tx, owner, name, args, kwargs)
    if not isinstance(owner, (UserObjectVariable, ClassVariable)):
        return base_method(tx, owner, name, args, kwargs)
    unsupported("unsupported-method", value=owner.describe(), name=name)


def _object_init_subclass(
    tx: Tracer, cls: type, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    if kwargs:
        tx.raise_error(TypeError, f"{cls.__qualname__}.__init_subclass__() takes no keyword arguments")
    if args:
        tx.raise_error(TypeError, f"{cls.__qualname__}.__init_subclass__() takes no arguments ({len(args)} given)")
    return NONE


def _object_init(tx: Tracer, owner: UserObjectVariable, has_arguments: bool) -> VariableTracker:
    """object.__init__, which refuses arguments if the class overrides `__init__`, or does not override `__new__`."""
    if has_arguments and lookup(owner.cls, "__init__")[0] is not object:
        tx.raise_error(TypeError, "object.__init__() takes exactly one argument (the instance to initialize)")
    if has_arguments and lookup(owner.cls, "__new__")[0] is object:
        tx.raise_error(TypeError, f"{owner.cls.__name__}() takes no arguments")
    return NONE


def _object_method(tx: Tracer, owner: UserObjectVariable, name: str, args: list[VariableTracker]) -> VariableTracker:
    """A method of `object` other than `__new__` and `__init__`."""
    if name == "__init_subclass__":
        return _object_init_subclass(tx, object, args, {})
    if len(args) != _ARGUMENTS_OF_OBJECT.get(name, len(args)):
        unsupported("call-arguments", error=f"object.{name}() with {len(args)} arguments")
    if name == "__setattr__":
        owner.default_set_attr(tx, args[0].constant(), args[1])
        return NONE
    if name == "__getattribute__":
        found = owner.find_attr(tx, args[0].constant())
        if found is not None:
            return found
        raise_attribute_error(tx, owner, args[0], no_attribute(owner.cls, args[0].constant()))
    if name == "__delattr__":
        owner.default_del_attr(tx, args[0].constant())
        return NONE
    if name in ("__reduce_ex__", "__reduce__", "__getstate__"):
        return reduced(tx, owner, name, args)
    if name in ("__eq__", "__ne__"):
        if tx.is_same(owner, args[0]):
            return boolean(name == "__eq__")
        return ConstantVariable(NotImplemented)
    unsupported("unsupported-method", value=owner.describe(), name=name)


def _storage_method(
    tx: Tracer,
    owner: UserObjectVariable,
    name: str,
    args: list[VariableTracker],
    kwargs: dict[str, VariableTracker],
) -> VariableTracker:
    """A method that the object's class inherits from list, dict, str, ...: called on the storage of the object."""
    storage = owner.storage
    assert storage is not None
    calls_no_override = name == "update" and lookup(owner.cls, "__setitem__")[0] is storage.python_type()
    if name in _BY_CLASS.get(storage.python_type(), ()) and not calls_no_override:
        unsupported("unsupported-method", value=owner.describe(), name=name)
    if name in _COPYING_ENTRIES and isinstance(storage, DictVariable) and not entries_are_copied(owner.cls):
        unsupported("unsupported-method", value=owner.describe(), name=name)
    if isinstance(storage, ConstantVariable):
        if name == "__iter__" and isinstance(storage.value, (str, bytes)) and not args:
            return ConstantIterator(storage.value, owner)
        args = [plain_value(arg) for arg in args]
        if name in OPERATORS and len(args) == 1 and not args[0].is_constant():
            if isinstance(storage.value, (str, bytes)) and name in _OF_SEQUENCES:
                unsupported("unsupported-method", value=owner.describe(), name=name)
            return ConstantVariable(NotImplemented)
        with named_by_cpython(owner, name):
            return storage.call_method(tx, name, args, kwargs)
    if name == "__init__":
        if storage.python_type() is collections.defaultdict:
            unsupported("unsupported-method", value=owner.describe(), name=name)
        filled = not isinstance(storage, DictVariable) and (kwargs or storage.truth(tx))  # __init__ empties it first
        if len(args) > 1 or filled:
            unsupported("unsupported-method", value=owner.describe(), name=name)
        if isinstance(storage, (DictVariable, SetVariable)):
            return storage.call_method(tx, "update", args, kwargs)
        return storage.call_method(tx, "extend", args, kwargs) if args else NONE
    if name == "__getitem__" and isinstance(storage, DictVariable) and len(args) == 1:
        found = storage.find(tx, args[0])
        if found is not None:
            return found
        missing = owner.call_special(tx, "__missing__", args[0])
        return storage.get_item(tx, args[0]) if missing is None else missing
    result = storage.call_method(tx, name, args, kwargs)
    if result is storage and isinstance(storage, TupleVariable):  # of a subclass, C gives a plain tuple, never the object itself
        return TupleVariable(storage.items(tx))
    return owner if result is storage else result  # in-place operators return the object itself


def namespace_method(
    tx: Tracer, owner: UserObjectVariable, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    """A method of types.SimpleNamespace."""
    if name == "__init__" and not args:
        for key, value in kwargs.items():
            tx.effects.store_attribute(owner, key, value)
        return NONE
    if name in ("__eq__", "__ne__"):
        other = args[0]
        if not isinstance(other, UserObjectVariable) or not issubclass(other.cls, types.SimpleNamespace):
            return ConstantVariable(NotImplemented)
        mine, theirs = (tx.instance_dict(each, each.value).snapshot(tx) for each in (owner, other))
        return boolean(tx.same_or_equal(mine, theirs) is (name == "__eq__"))
    if name == "__repr__":
        return ConstantVariable(owner.text(tx, "repr"))
    unsupported("unsupported-method", value=owner.describe(), name=name)
