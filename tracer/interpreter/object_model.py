"""Attributes of classes and instances, with their guards."""

from __future__ import annotations

import enum
import sys
import types
from typing import Any, Generic

from tracer import _C
from tracer.graph_breaks import unsupported
from tracer.guards.attributes import HasAttr
from tracer.guards.identity import SameObject
from tracer.guards.references import lasts
from tracer.protocol.lookups import MISSING, defines, lookup
from tracer.protocol.tracer import Tracer
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import AttrSource, ClassAttrSource, GenericAttrSource, TypeSource
from tracer.sources.base import Source
from tracer.sources.containers import ItemSource
from tracer.sources.functions import FunctionNamespaceSource
from tracer.sources.reading import is_a
from tracer.sources.roots import ModuleGlobalsSource, namespace_source
from tracer.variables.builders.literals import from_python
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.classes.type_forms import subscripted
from tracer.variables.containers.lists import NamedTupleVariable
from tracer.variables.containers.tuples import is_generated
from tracer.variables.functions.callables import BoundMethodVariable, BuiltinMethodVariable, CallableVariable
from tracer.variables.functions.python_functions import UserFunctionVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import fold
from tracer.variables.values.symbolic import SymNodeVariable

_PARTS = {"__func__": lambda raw: raw.__func__, "fget": lambda raw: raw.fget, "fset": lambda raw: raw.fset,
          "fdel": lambda raw: raw.fdel}  # fmt: skip


def class_variable(tx: Tracer, cls: type, of: VariableTracker | None = None) -> ClassVariable:
    """The tracked class `cls`. If it was not met yet, its source is the type of `of`, an instance of it."""
    found = tx.trace.builder.known(cls)
    if found is None and of is not None and of.source is not None and of.python_type() is cls:
        found = tx.wrap(cls, TypeSource(of.source))
    if found is None:
        return tx.trace.builder.remember(cls, ClassVariable(cls))
    if not isinstance(found, ClassVariable):  # its own mro() is running
        unsupported("unknown-type", value=found.describe())
    return found


def class_source(tx: Tracer, cls: type, of: VariableTracker | None) -> Source | None:
    """How guards reach `cls`, a class in the MRO of `of` (an instance or a class)."""
    variable = class_variable(tx, cls, of)
    if variable.source is not None:
        return variable.source
    start: VariableTracker | None
    if isinstance(of, ClassVariable):
        start = of
    elif of is not None and of.source is not None:
        start = class_variable(tx, of.python_type(), of)
    else:  # an instance that the trace made, maybe of a class that it has met
        start = None if of is None else tx.trace.builder.known(of.python_type())
    if not isinstance(start, ClassVariable) or start.source is None:
        return importable_source(cls)
    index = next((index for index, base in enumerate(start.value.__mro__) if base is cls), None)
    return importable_source(cls) if index is None else ItemSource(GenericAttrSource(start.source, "__mro__"), index)


def class_attr(tx: Tracer, owner: type | None, name: str, of: VariableTracker | None, part: str | None = None) -> VariableTracker:
    """The raw attribute `name` of class `owner` (or its function, for a property or classmethod)."""
    assert owner is not None  # as `lookup` has found it
    owner_variable = tx.trace.builder.known(owner)
    if owner_variable is not None:
        stored = tx.effects.attribute(owner_variable, name)
        if stored is not None:
            return stored
    raw = owner.__dict__[name]
    value = raw if part is None else _PARTS[part](raw)
    if id(owner) in tx.trace.findings.made and id(value) in tx.trace.stand_ins:
        return tx.trace.stand_ins[id(value)][1]
    reached_by = class_source(tx, owner, of)
    if reached_by is None:
        return _sourceless(value)
    source: Source = ClassAttrSource(reached_by, name)
    if part is not None:
        source = GenericAttrSource(source, part)
    found = tx.wrap(value, source)
    if isinstance(found, SymNodeVariable):
        tx.trace.findings.varying.add((id(owner), name))
    return found


def class_text(tx: Tracer, of: ClassVariable, name: str) -> VariableTracker:
    """One of the names of a class, or its docstring, guarded unless nobody is expected to change it. The guard is needed because
    assigning a name gives a class no new version."""
    text = type.__getattribute__(of.value, name)
    source = None if id(of.value) in tx.trace.findings.made or lasts(of.value) else class_source(tx, of.value, of)
    return from_python(text) if source is None else tx.wrap(text, GenericAttrSource(source, name))


def _sourceless(value: Any) -> VariableTracker:
    """An attribute of a class that no guard can reach. The class is taken to be fixed as long as the code is."""
    if is_a(value, types.FunctionType):
        return UserFunctionVariable(value, None)
    if is_a(value, type):
        return ClassVariable(value)
    if callable(value):
        return CallableVariable(value)
    return from_python(value)


def class_getitem(tx: Tracer, cls: ClassVariable, key: VariableTracker) -> VariableTracker:
    value: Any = cls.value
    if lookup(type(value), "__getitem__")[1] is _ENUM_GETITEM and key.is_constant():
        return fold(tx, value._member_map_.__getitem__, key.constant())
    owner, method = lookup(value, "__class_getitem__")
    if isinstance(method, classmethod) and isinstance(method.__func__, types.FunctionType) and owner is not Generic:
        return cls.get_attr(tx, "__class_getitem__").call(tx, [key], {})
    if method is MISSING and value is not type:
        unsupported("unsupported-subscript", value=cls.describe(), key=key.describe())
    return subscripted(tx, cls, key)


def named_tuple_attr(tx: Tracer, owner: NamedTupleVariable, name: str) -> VariableTracker:
    base, static = lookup(owner.cls, name)
    if static is MISSING:
        tx.raise_error(AttributeError, f"{owner.cls.__name__!r} object has no attribute {name!r}")
    if is_a(static, property):
        return class_attr(tx, base, name, owner, part="fget").call(tx, [owner], {})
    if is_a(static, types.FunctionType) and not (name in ("_replace", "_asdict") and is_generated(static)):
        return BoundMethodVariable(class_attr(tx, base, name, owner), owner)
    if is_a(static, staticmethod):
        return class_attr(tx, base, name, owner, part="__func__")
    if is_a(static, classmethod):
        function = class_attr(tx, base, name, owner, part="__func__")
        return BoundMethodVariable(function, class_variable(tx, owner.cls, owner))
    if not defines(type(static), "__get__"):
        return class_attr(tx, base, name, owner)
    return BuiltinMethodVariable(owner, name)


def instance_attr(tx: Tracer, owner: VariableTracker, value: Any, name: str) -> VariableTracker:
    """A plain attribute that the user has set on an existing object of a built-in class (a tensor)."""
    assert owner.source is not None
    attributes = getattr(value, "__dict__", {})
    if name in attributes:
        return tx.wrap(attributes[name], AttrSource(owner.source, name))
    guard_absent(tx, owner, name)
    tx.raise_error(AttributeError, f"{type(value).__name__!r} object has no attribute {name!r}")


def guard_absent(tx: Tracer, owner: VariableTracker, name: str) -> None:
    """Guards that the instance dict of an existing object has no entry `name`."""
    if owner.source is not None:
        tx.guard(HasAttr(owner.source, name, False))


def guard_globals(tx: Tracer, function: UserFunctionVariable) -> None:
    """Guards the globals of a function that is guarded only by its code: another function with that code may have others."""
    namespace = namespace_source(function.globals, tx.frames()[0].globals)
    if namespace is not None and function.source is not None:
        tx.guard(SameObject(namespace, FunctionNamespaceSource(function.source)))


def delete_attribute(tx: Tracer, owner: VariableTracker, name: str) -> None:
    tx.effects.delete_attribute(owner, name, _existed(tx, owner, name))


_ENUM_GETITEM = enum.EnumMeta.__dict__["__getitem__"]


def _existed(tx: Tracer, owner: VariableTracker, name: str) -> bool:
    """Whether an object had an attribute of its own before the frame ran."""
    if owner.source is None:
        return False
    value = owner.real(tx) if isinstance(owner, TensorVariable) else getattr(owner, "value", None)
    try:
        _C.raw_attr(value, name)
    except AttributeError:
        return False
    return True


def importable_source(cls: type) -> Source | None:
    """The class as a global of the module that defines it, if it is one."""
    module = sys.modules.get(cls.__module__)
    if module is not None and vars(module).get(cls.__name__) is cls:
        return ModuleGlobalsSource(cls.__module__, cls.__name__)
    return None
