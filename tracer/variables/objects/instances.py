"""Instances of user classes: their attributes and special methods are found, stored and deleted by CPython's rules.

An object may also be an instance of a built-in class (a dict subclass, an exception). Then `storage` is the tracked value of
the built-in part, and the built-in class's own methods act on it.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from tracer import _C
from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import (
    C_METHOD_TYPES,
    MISSING,
    defines,
    is_data_descriptor,
    lookup,
    no_attribute,
    no_place_for,
    refuse_changed_class,
    type_name,
)
from tracer.protocol.variable import ObservedException, VariableTracker, is_exception
from tracer.sources.attributes import AttrSource
from tracer.sources.reading import field_index, is_a, type_dict
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.functions.callables import BoundMethodVariable, BuiltinMethodVariable, CallableVariable
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.sources.base import Source


class InstanceVariable(VariableTracker):
    """An instance of `cls`. `value` is the object when it existed before the frame ran, None when the trace made it."""

    def __init__(
        self,
        cls: type,
        value: Any = None,
        source: Source | None = None,
        storage: VariableTracker | None = None,
    ) -> None:
        self.cls = cls
        self.value = value
        self.source = source
        self.storage = storage
        self.made_class: VariableTracker | None = None  # the class, if the trace made it

    @property
    def storage(self) -> VariableTracker | None:
        return self._storage

    @storage.setter
    def storage(self, value: VariableTracker | None) -> None:
        self._storage = value
        if value is not None and not isinstance(value, (ConstantVariable, TupleVariable)):
            value.holder = self

    def identity(self) -> Any:
        return self if self.value is None else self.value

    def children(self) -> Iterable[VariableTracker]:
        return [part for part in (self.storage, self.made_class) if part is not None]

    def _path(self) -> Source:
        """The source of an object that existed before the frame ran."""
        assert self.source is not None
        return self.source

    # -- attributes ----------------------------------------------------------------------------------------------

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        _, custom = lookup(self.cls, "__getattribute__")
        if isinstance(custom, types.FunctionType):
            return self._call_class_function(tx, "__getattribute__", [ConstantVariable(name)])
        if not self._is_plain_access(custom):
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        return self.default_get_attr(tx, name)

    def _is_plain_access(self, hook: Any) -> bool:
        """Whether what a class has as `__getattribute__`, `__setattr__` or `__delattr__` does what object's does. That of a class
        written in C may do anything, such as ask another object."""
        return _C.is_generic_access(hook)

    def default_get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        """Does what object.__getattribute__ does, then falls back to `__getattr__`."""
        try:
            found = self.find_attr(tx, name)
        except ObservedException as raised:
            if is_exception(raised.value, AttributeError) and self._has_getattr():
                found = None
            else:
                raise
        if found is not None:
            return found
        if self.cls.__dict__.get("__getattr__") is None and lookup(self.cls, "__getattr__")[1] is _MODULE_GETATTR:
            return self._module_attr(tx, name)
        if self._has_getattr():
            return self._call_class_function(tx, "__getattr__", [ConstantVariable(name)])
        tx.raise_error(AttributeError, no_attribute(self.cls, name))

    def find_attr(self, tx: Tracer, name: str) -> VariableTracker | None:
        """The value that `object.__getattribute__` finds; None where it would raise AttributeError."""
        if tx.effects.is_class_changed(self.cls, name):
            stored, own = self._stored_on_class(tx, name), self.instance_attr(tx, name)
            return stored if own is None else own
        owner, static = lookup(self.cls, name)
        if static is not MISSING and is_data_descriptor(static):
            return self._through_descriptor(tx, name, owner, static)
        instance = self.instance_attr(tx, name)
        if instance is not None:
            return instance
        if name == "__class__":
            return tx.class_variable(self.cls, self)
        if static is MISSING:
            return None
        return self._bind(tx, name, owner, static)

    def _stored_on_class(self, tx: Tracer, name: str) -> VariableTracker:
        """What an attribute is that the trace has stored on a class. Breaks the graph for one that would be bound."""
        stored = None
        for base in self.cls.__mro__:
            stored = tx.effects.attribute(tx.class_variable(base), name)
            if stored is not None or name in type_dict(base):
                break
        if stored is None or defines(stored.python_type(), "__get__") or is_data_descriptor(lookup(self.cls, name)[1]):
            unsupported("unsupported-attribute", value=self.cls.__qualname__, name=name)
        return stored

    def instance_attr(self, tx: Tracer, name: str) -> VariableTracker | None:
        """An attribute in the instance's own dict."""
        pending = tx.effects.attribute(self, name)
        if pending is not None:
            return pending
        if self.value is None or tx.effects.is_deleted(self, name):
            return None
        attributes = _C.instance_dict(self.value)
        if attributes is not None and name in attributes:
            return tx.wrap(attributes[name], AttrSource(self._path(), name))
        if attributes is not None:
            tx.guard_absent(self, name)
        return None

    def _through_descriptor(self, tx: Tracer, name: str, owner: Any, static: Any) -> VariableTracker | None:
        if is_a(static, property):
            if static.fget is None:
                tx.raise_error(AttributeError, f"property {name!r} of {self.cls.__name__!r} object has no getter")
            return tx.class_attr(owner, name, self, part="fget").call(tx, [self], {})
        if name == "__dict__" and is_a(static, (types.GetSetDescriptorType, types.MemberDescriptorType)):
            return tx.instance_dict(self, self.value)
        if is_a(static, types.MemberDescriptorType):
            return self.slot(tx, name)
        if is_a(static, types.GetSetDescriptorType):
            return self._c_attribute(tx, name, static)
        field = field_index(static)
        if field is not None and isinstance(self.storage, TupleVariable):
            return self.storage.item(tx, field)
        getter = lookup(type(static), "__get__")[1]
        if isinstance(getter, types.FunctionType):
            descriptor = tx.class_attr(owner, name, self)
            return descriptor.call_method(tx, "__get__", [self, tx.class_variable(self.cls, self)], {})
        unsupported("unsupported-descriptor", name=name, kind=type(static).__name__)

    def slot(self, tx: Tracer, name: str) -> VariableTracker | None:
        """The value of a slot; None if it is empty."""
        pending = tx.effects.attribute(self, name)
        if pending is not None or self.value is None or tx.effects.is_deleted(self, name):
            return pending
        try:
            value = _C.raw_attr(self.value, name)
        except AttributeError:
            tx.guard_absent(self, name)
            return None
        return tx.wrap(value, AttrSource(self._path(), name))

    def _c_attribute(self, tx: Tracer, name: str, static: Any) -> VariableTracker | None:
        pending = tx.effects.attribute(self, name)
        if pending is not None:
            return pending
        if name == "__class__":
            return tx.class_variable(self.cls, self)
        if name in ("__weakref__", "__doc__"):
            unsupported("unsupported-descriptor", name=name, kind="attribute of a C type")
        if self.storage is not None:
            return self.storage.get_attr(tx, name)
        unsupported("unsupported-descriptor", name=name, kind="attribute of a C type")

    def _bind(self, tx: Tracer, name: str, owner: Any, static: Any) -> VariableTracker:
        """A class attribute that is not a data descriptor, read through the instance."""
        if is_a(static, staticmethod):
            return tx.class_attr(owner, name, self, part="__func__")
        if is_a(static, classmethod):
            return BoundMethodVariable(tx.class_attr(owner, name, self, part="__func__"), tx.class_variable(self.cls, self))
        if is_a(static, types.FunctionType):
            return BoundMethodVariable(tx.class_attr(owner, name, self), self)
        is_of_class = is_a(static, types.BuiltinFunctionType) and is_a(static.__self__, type)  # `__new__` and the like
        if (
            is_a(static, (types.MethodDescriptorType, types.WrapperDescriptorType))
            and static.__objclass__ not in self.cls.__mro__
        ):
            unsupported("unsupported-descriptor", name=name, kind="method of another class")  # CPython raises TypeError
        if is_a(static, C_METHOD_TYPES) or is_of_class:
            return BuiltinMethodVariable(self, name)
        if not defines(type(static), "__get__"):
            return tx.class_attr(owner, name, self)
        descriptor = tx.class_attr(owner, name, self)
        getter = lookup(type(static), "__get__")[1]
        if isinstance(getter, types.FunctionType):
            return descriptor.call_method(tx, "__get__", [self, tx.class_variable(self.cls, self)], {})
        if isinstance(descriptor, CallableVariable):
            return BoundMethodVariable(descriptor, self)
        unsupported("unsupported-descriptor", name=name, kind=type(static).__name__)

    # -- __getattr__ ---------------------------------------------------------------------------------------------

    def _has_getattr(self) -> bool:
        return lookup(self.cls, "__getattr__")[1] is not MISSING

    def _module_attr(self, tx: Tracer, name: str) -> VariableTracker:
        """nn.Module.__getattr__: parameters, buffers and submodules, in that order."""
        for table in ("_parameters", "_buffers", "_modules"):
            members = self.instance_attr(tx, table)
            if members is not None:
                found = members.call_method(tx, "get", [ConstantVariable(name), _ABSENT], {})
                if found is not _ABSENT:
                    return found
        tx.raise_error(AttributeError, f"{type_name(self.cls)!r} object has no attribute {name!r}")

    # -- stores --------------------------------------------------------------------------------------------------

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        _, hook = lookup(self.cls, "__setattr__")
        if isinstance(hook, types.FunctionType):
            self._call_class_function(tx, "__setattr__", [ConstantVariable(name), value])
            return
        self._refuse_store_in_c(hook, name)
        self.default_set_attr(tx, name, value)

    def _refuse_store_in_c(self, hook: Any, name: str) -> None:
        if not self._is_plain_access(hook):
            unsupported("unsupported-attribute-store", value=self.describe(), name=name)

    def default_set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        """object.__setattr__"""
        if tx.effects.is_class_changed(self.cls, name):
            self._stored_on_class(tx, name)  # it is no descriptor
        owner, static = lookup(self.cls, name)
        if static is not MISSING and is_data_descriptor(static):
            if is_a(static, property):
                if static.fset is None:
                    tx.raise_error(AttributeError, f"property {name!r} of {self.cls.__name__!r} object has no setter")
                tx.class_attr(owner, name, self, part="fset").call(tx, [self, value], {})
                return
            setter = lookup(type(static), "__set__")[1]
            if isinstance(setter, types.FunctionType):
                tx.class_attr(owner, name, self).call_method(tx, "__set__", [self, value], {})
                return
            if not is_a(static, types.MemberDescriptorType) or "__slots__" not in type_dict(owner):  # C members may be read-only
                unsupported("unsupported-attribute-store", value=self.describe(), name=name)
        elif not self.cls.__dictoffset__:
            tx.raise_error(AttributeError, no_place_for(self.cls, name))
        tx.effects.store_attribute(self, name, value)

    def del_attr(self, tx: Tracer, name: str) -> None:
        _, hook = lookup(self.cls, "__delattr__")
        if isinstance(hook, types.FunctionType):
            self._call_class_function(tx, "__delattr__", [ConstantVariable(name)])
            return
        self._refuse_store_in_c(hook, name)
        self.default_del_attr(tx, name)

    def default_del_attr(self, tx: Tracer, name: str) -> None:
        """object.__delattr__"""
        owner, static = lookup(self.cls, name)
        if static is not MISSING and is_data_descriptor(static):
            if not self._delete_through(tx, name, owner, static):
                unsupported("unsupported-attribute-store", value=self.describe(), name=name)
            return
        if not self.cls.__dictoffset__:
            tx.raise_error(AttributeError, no_place_for(self.cls, name))
        if self.instance_attr(tx, name) is None:
            tx.raise_error(AttributeError, f"{type_name(self.cls)!r} object has no attribute {name!r}")
        tx.delete_attribute(self, name)

    def _delete_through(self, tx: Tracer, name: str, owner: Any, static: Any) -> bool:
        """Whether a data descriptor could be asked to delete the attribute."""
        if is_a(static, property) and static.fdel is not None:
            tx.class_attr(owner, name, self, part="fdel").call(tx, [self], {})
        elif isinstance(lookup(type(static), "__delete__")[1], types.FunctionType):
            tx.class_attr(owner, name, self).call_method(tx, "__delete__", [self], {})
        elif is_a(static, types.MemberDescriptorType):
            if self.slot(tx, name) is None:
                tx.raise_error(AttributeError, name)
            tx.delete_attribute(self, name)
        else:
            return False
        return True

    # -- special methods -----------------------------------------------------------------------------------------

    def special(self, tx: Tracer, name: str) -> VariableTracker | None:
        """A special method, looked up on the class as CPython does."""
        refuse_changed_class(tx, self.cls, name)
        owner, static = lookup(self.cls, name)
        if static is None and name != "__hash__":  # C calls it or raises an error of its own
            unsupported("unsupported-descriptor", name=name, kind="NoneType")
        inherited = owner is object and name in ("__eq__", "__ne__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__")
        if static is MISSING or static is None or inherited:
            return None
        try:
            if is_data_descriptor(static):
                return self._through_descriptor(tx, name, owner, static)
            return self._bind(tx, name, owner, static)
        except ObservedException:  # C suppresses it for some methods only
            unsupported("unsupported-descriptor", name=name, kind=type(static).__name__)

    def call_special(self, tx: Tracer, name: str, *args: VariableTracker) -> VariableTracker | None:
        """The result of a special method; None if the class does not define it."""
        method = self.special(tx, name)
        return None if method is None else method.call(tx, list(args), {})

    def _call_class_function(self, tx: Tracer, name: str, args: list[VariableTracker]) -> VariableTracker:
        method = self.special(tx, name)
        assert method is not None
        return method.call(tx, args, {})


_MODULE_GETATTR = torch.nn.Module.__dict__["__getattr__"]
_ABSENT = ConstantVariable(None)
