"""Classes as values, and `super()`. Attributes of a class are looked up by CPython's rules."""

from __future__ import annotations

import enum
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import C_METHOD_TYPES, MISSING, SLOT_TYPES, defines, is_data_descriptor, lookup, refuse_changed_class
from tracer.protocol.models import model_of
from tracer.protocol.variable import NO_CONTAINER, ObservedException, RealObjectVariable, VariableTracker, is_exception
from tracer.sources.reading import is_a
from tracer.variables.classes import given_annotations
from tracer.variables.classes.class_namespace import ClassNamespaceVariable
from tracer.variables.classes.enums import EnumMemberVariable, has_value, member_of_name
from tracer.variables.functions.callables import (
    BoundMethodVariable,
    BuiltinClassMethodVariable,
    BuiltinMethodVariable,
    CallableVariable,
)
from tracer.variables.slots import UNARY_DUNDER
from tracer.variables.values.constant import ConstantVariable, boolean
from tracer.variables.values.special_results import checked_iterator, checked_length, checked_truth, contains_by_iteration

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen

_DTYPE_OF_CLASS = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE


_METACLASS_OF_BINDINGS = type(torch._C.DispatchKey)  # of classes that torch makes with pybind11


class ClassVariable(RealObjectVariable):
    """A class."""

    value: type

    def describe(self) -> str:
        return f"ClassVariable({self.value.__qualname__})"

    def text(self, tx: Tracer, kind: str) -> str:
        if type(self.value).__str__ is object.__str__ and type(self.value).__repr__ is type.__repr__:
            for name in ("__qualname__", "__module__"):
                tx.class_text(self, name)
            return repr(self.value)
        return super().text(tx, kind)

    def truth(self, tx: Tracer) -> bool:
        result = self._call_special(tx, "__bool__")
        if result is None:
            length = self._call_special(tx, "__len__")
            return True if length is None else checked_length(tx, length).truth(tx)
        return checked_truth(tx, result)

    def hash_key(self, tx: Tracer) -> Any:
        if self._defines(tx, "__hash__") or self._defines(tx, "__eq__"):
            return super().hash_key(tx)
        return self.value

    def graph_arg(self) -> Any:
        """torch's operations accept Python's number classes as dtypes."""
        dtype = _DTYPE_OF_CLASS.get(self.value)
        return super().graph_arg() if dtype is None else dtype

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if self._defines(tx, "__getattribute__"):
            return self._call_special(tx, "__getattribute__", ConstantVariable(name))  # type: ignore[return-value]  # it is defined
        if not self._defines(tx, "__getattr__"):
            return self.find_attr(tx, name)
        try:
            return self.find_attr(tx, name)
        except ObservedException as raised:
            if not is_exception(raised.value, AttributeError):
                raise
        found = self._call_special(tx, "__getattr__", ConstantVariable(name))
        assert found is not None
        return found

    def find_attr(self, tx: Tracer, name: str) -> VariableTracker:
        """type.__getattribute__"""
        pending = tx.effects.attribute(self, name)
        if pending is not None:
            return pending
        refuse_changed_class(tx, self.value, name)
        described = self._data_attr(tx, name)
        if described is not None:
            return described
        if isinstance(self.value, enum.EnumMeta):
            member = member_of_name(tx, self.value, name)
            if member is not None:
                return member
        owner, static = lookup(self.value, name)
        if static is MISSING:
            return self._metaclass_attr(tx, name)
        if is_a(static, staticmethod):
            return tx.class_attr(owner, name, self, part="__func__")
        if is_a(static, classmethod):
            return BoundMethodVariable(tx.class_attr(owner, name, self, part="__func__"), self)
        if is_a(static, types.ClassMethodDescriptorType):
            if model_of(static) is not None:
                return BuiltinClassMethodVariable(static, self)
            if id(self.value) in tx.trace.findings.made:  # the prototype must not be passed to C code
                unsupported("unsupported-attribute", value=self.describe(), name=name)
            return CallableVariable(getattr(self.value, name))
        if defines(type(static), "__get__") and not isinstance(
            static, (types.FunctionType, property, *C_METHOD_TYPES, *SLOT_TYPES, types.BuiltinFunctionType)
        ):
            getter = lookup(type(static), "__get__")[1]
            if isinstance(getter, types.FunctionType):
                return tx.class_attr(owner, name, self).call_method(tx, "__get__", [ConstantVariable(None), self], {})
            if not is_a(static, type):
                value = getattr(self.value, name)
                if value is not static:
                    unsupported("unsupported-descriptor", name=name, kind=type(static).__name__)
        return tx.class_attr(owner, name, self)

    def _data_attr(self, tx: Tracer, name: str) -> VariableTracker | None:
        """The value from a data descriptor of the metaclass, which takes precedence over the attributes of the class."""
        owner, static = lookup(type(self.value), name)
        if static is MISSING or not is_data_descriptor(static):
            return None
        if is_a(static, property):
            return tx.class_attr(owner, name, tx.class_variable(type(self.value), self), part="fget").call(tx, [self], {})
        if name in ("__name__", "__qualname__", "__module__", "__doc__", "__text_signature__"):
            if name == "__doc__" and id(self.value) in tx.trace.findings.made:
                return None  # falls through to the class attribute, which may be a descriptor
            value = type.__getattribute__(self.value, name)
            if value is None or type(value) is str:
                return tx.class_text(self, name)
        elif name == "__class__":
            return tx.class_variable(type(self.value))
        elif name == "__dict__":
            return ClassNamespaceVariable(self)
        elif name in ("__mro__", "__bases__"):
            classes = type.__getattribute__(self.value, name)
            if classes is not None:  # it is None while the class's own mro() runs
                return tx.class_tuple(self, classes)
        elif name == "__base__":
            base = self.value.__base__
            return ConstantVariable(None) if base is None else tx.class_variable(base)
        elif name == "__abstractmethods__":
            if self.value is not type and lookup(self.value, name)[0] is self.value:  # type's own is the descriptor
                return tx.class_attr(self.value, name, self)
            tx.raise_error(AttributeError, name)
        elif name == "__annotations__" and (given := self.given_annotations(tx)) is not None:
            return given
        elif (
            name in ("__annotations__", "__type_params__")
            and self.value is not type  # whose own are the descriptors
            and lookup(self.value, name)[0] is self.value
        ):  # else reading may create it
            return tx.class_attr(self.value, name, self)
        unsupported("unsupported-attribute", value=self.describe(), name=name)

    def given_annotations(self, tx: Tracer) -> VariableTracker | None:
        """The annotations, if a function of the class gives them; None if they are in its namespace, or nowhere."""
        return given_annotations.of_existing(tx, self)

    def _metaclass_attr(self, tx: Tracer, name: str) -> VariableTracker:
        owner, static = lookup(type(self.value), name)
        if is_a(static, types.FunctionType):
            return BoundMethodVariable(tx.class_attr(owner, name, tx.class_variable(type(self.value), self)), self)
        if static is MISSING:
            tx.raise_error(AttributeError, f"type object {self.value.__name__!r} has no attribute {name!r}")
        if is_a(static, C_METHOD_TYPES):
            return BuiltinMethodVariable(self, name)
        if is_a(static, (staticmethod, classmethod)):
            of = tx.class_variable(type(self.value), self)
            function = tx.class_attr(owner, name, of, part="__func__")
            return function if is_a(static, staticmethod) else BoundMethodVariable(function, of)
        if not defines(type(static), "__get__"):
            return tx.class_attr(owner, name, tx.class_variable(type(self.value), self))
        unsupported("unsupported-attribute", value=self.describe(), name=name)

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        if self._call_special(tx, "__setattr__", ConstantVariable(name), value) is None:
            self.store(tx, name, value)

    def store(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        """type.__setattr__"""
        if self.source is None or self.value.__flags__ & _IMMUTABLE or self.changes_stores(name, value):
            unsupported("unsupported-attribute-store", value=self.describe(), name=name)
        if name.startswith("__") or is_data_descriptor(lookup(type(self.value), name)[1]):
            unsupported("unsupported-attribute-store", value=self.describe(), name=name)
        tx.effects.store_class_attribute(self, self.value, name, value)

    def changes_stores(self, name: str, value: VariableTracker) -> bool:
        """Whether setting a class attribute changes how stores to instances behave. Replay of side effects cannot honour that, as
        it repeats stores object by object."""
        kind = value.python_type()
        return name in ("__setattr__", "__delattr__") or defines(kind, "__set__") or defines(kind, "__delete__")

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        return tx.instantiate(self, args, kwargs)

    # -- special methods of the metaclass ------------------------------------------------------------------------

    def _of_metaclass(self, tx: Tracer, name: str) -> tuple[type, Any] | None:
        """(owner, method) if the metaclass defines a special method itself. Methods of `type` do not count, nor do those of
        EnumMeta, other than the ones about attributes."""
        metaclass = type(self.value)
        refuse_changed_class(tx, metaclass, name)
        owner, static = lookup(metaclass, name)
        if owner in (None, type, object) or owner is enum.EnumMeta and name not in ("__setattr__", "__delattr__", "__getattr__"):
            return None
        if metaclass is _METACLASS_OF_BINDINGS and name in ("__getattribute__", "__call__"):
            return None  # they do what those of `type` do; the former gives a method written in C as it is
        return owner, static

    def _defines(self, tx: Tracer, name: str) -> bool:
        return self._of_metaclass(tx, name) is not None

    def _call_special(self, tx: Tracer, name: str, *args: VariableTracker) -> VariableTracker | None:
        found = self._of_metaclass(tx, name)
        if found is None:
            return None
        owner, static = found
        if not is_a(static, types.FunctionType):
            unsupported("unsupported-descriptor", name=name, kind=type(static).__name__)
        of = tx.class_variable(type(self.value), self)
        return BoundMethodVariable(tx.class_attr(owner, name, of), self).call(tx, list(args), {})

    def _operator(self, tx: Tracer, name: str, other: VariableTracker) -> VariableTracker | None:
        result = self._call_special(tx, name, other)
        if result is None or (result.is_constant() and result.constant() is NotImplemented):
            return None
        return result

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if op == "|" and lookup(type(self.value), "__or__")[0] is type:  # int | None in an annotation
            return tx.union_of(other, self) if reflected else tx.union_of(self, other)
        return self._operator(tx, tx.dunder(op, "r" if reflected else ""), other)

    def inplace(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        return self._operator(tx, tx.dunder(op, "i"), other)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        result = self._operator(tx, tx.dunder(op), other)
        if result is None and op == "!=" and not self._defines(tx, "__ne__"):
            equal = self._operator(tx, "__eq__", other)
            return None if equal is None else boolean(not equal.truth(tx))
        return result

    def unary(self, tx: Tracer, op: str) -> VariableTracker | None:
        return self._call_special(tx, UNARY_DUNDER[op])

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        return self._call_special(tx, "__getitem__", key) or tx.class_getitem(self, key)

    def iterate(self, tx: Tracer) -> VariableTracker:
        result = self._call_special(tx, "__iter__")
        if result is not None:
            return checked_iterator(tx, result)
        return tx.getitem_iterator(self) if self._defines(tx, "__getitem__") else tx.iterate_class(self)

    def measured(self, tx: Tracer) -> VariableTracker:
        if self._defines(tx, "__len__") or self._defines(tx, "__length_hint__"):
            unsupported("unsupported-iteration", value=f"{self.describe()}, which is asked for its length")
        return self.iterate(tx)

    def collect(self, tx: Tracer) -> list[VariableTracker]:
        return self.measured(tx).drain(tx)

    def length(self, tx: Tracer) -> VariableTracker:
        result = self._call_special(tx, "__len__")
        if result is not None:
            return checked_length(tx, result)
        if not isinstance(self.value, enum.EnumMeta):
            tx.raise_error(TypeError, f"object of type {type(self.value).__name__!r} has no len()")
        return ConstantVariable(len(tx.iterate_class(self).unpack(tx)))

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        result = self._call_special(tx, "__contains__", item)
        if result is not None:
            return boolean(result.truth(tx))
        if self._defines(tx, "__iter__") or self._defines(tx, "__getitem__"):
            return contains_by_iteration(tx, self, item)
        if not isinstance(self.value, enum.EnumMeta):
            tx.raise_error(TypeError, NO_CONTAINER.format(type(self.value).__name__))
        if not isinstance(item, EnumMemberVariable):
            found = has_value(self.value, item)
            if found is None:
                unsupported("unsupported-operator", left=item.describe(), op="in", right=self.describe())
            return boolean(found)
        if lookup(type(self.value), "__contains__")[0] is enum.EnumMeta:
            return boolean(enum.EnumMeta.__contains__(self.value, item.value))
        members = tx.iterate_class(self).sequence
        assert members is not None
        return members.contains(tx, item)


class SuperVariable(VariableTracker):
    """super(cls, obj): looks attributes up in the MRO of obj's class, starting after `cls`."""

    def __init__(self, after: type, owner: VariableTracker) -> None:
        self.after = after
        self.owner = owner

    def python_type(self) -> type:
        return super

    def children(self) -> Iterable[VariableTracker]:
        return (self.owner,)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        owner = self.owner
        of_class = isinstance(owner, ClassVariable) and self.after in owner.value.__mro__
        cls = owner.value if isinstance(owner, ClassVariable) and of_class else owner.python_type()
        refuse_changed_class(tx, cls, name)
        base, static = lookup(cls, name, self.after)
        if base is not None:
            return self._bind(tx, base, name, static, of_class)
        tx.raise_error(AttributeError, f"'super' object has no attribute {name!r}")

    def _bind(self, tx: Tracer, base: type, name: str, static: Any, of_class: bool) -> VariableTracker:
        if is_a(static, staticmethod):
            return tx.class_attr(base, name, self.owner, part="__func__")
        if is_a(static, classmethod):
            return BoundMethodVariable(tx.class_attr(base, name, self.owner, part="__func__"), self._class_of_owner(tx, of_class))
        if is_a(static, property) and not of_class:
            return tx.class_attr(base, name, self.owner, part="fget").call(tx, [self.owner], {})
        if is_a(static, types.FunctionType):
            function = tx.class_attr(base, name, self.owner)
            return function if of_class else BoundMethodVariable(function, self.owner)
        if is_a(static, types.ClassMethodDescriptorType) and model_of(static) is not None:
            return BuiltinClassMethodVariable(static, self._class_of_owner(tx, of_class))
        if is_a(static, (*C_METHOD_TYPES, types.BuiltinFunctionType)):
            return SuperMethodVariable(base, name, self.owner, static)
        found = tx.class_attr(base, name, self.owner)
        getter = lookup(type(static), "__get__")[1]
        if getter is MISSING or is_a(static, property):
            return found
        if not is_a(getter, types.FunctionType):
            unsupported("unsupported-descriptor", name=name, kind=type(static).__name__)
        cls = self._class_of_owner(tx, of_class)
        return found.call_method(tx, "__get__", [ConstantVariable(None) if of_class else self.owner, cls], {})

    def _class_of_owner(self, tx: Tracer, of_class: bool) -> VariableTracker:
        return self.owner if of_class else tx.class_variable(self.owner.python_type(), self.owner)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(super, lambda: cg.load_class(self.after), lambda: cg.load(self.owner))


class SuperMethodVariable(VariableTracker):
    """A method of a built-in base class, reached through super()."""

    def __init__(self, base: type, name: str, owner: VariableTracker, static: Any) -> None:
        self.base = base
        self.name = name
        self.owner = owner
        self.static = static

    def python_type(self) -> type:
        return types.BuiltinMethodType

    def children(self) -> Iterable[VariableTracker]:
        return (self.owner,)

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        return tx.call_base_method(self.base, self.name, self.owner, args, kwargs)
