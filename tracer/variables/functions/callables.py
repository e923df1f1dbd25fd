"""Callables that are not Python functions themselves: bound methods, builtins and C functions, partial objects."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from tracer.effects.cached_results import count_calls
from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import C_METHOD_TYPES, defines, lookup
from tracer.protocol.models import models
from tracer.protocol.variable import RealObjectVariable, VariableTracker
from tracer.sources.attributes import AttrSource, GenericAttrSource
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.marked_calls import heed_marks
from tracer.variables.values.constant import ConstantVariable, NamedMethodVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source

_PACKET: Any = type(torch.ops.aten.add)  # the class of an operator, which holds its overloads
_BINDING = (types.WrapperDescriptorType, types.MethodDescriptorType)  # they bind to an instance as functions do
READABLE = frozenset(("__name__", "__qualname__", "__module__", "__doc__"))  # attributes that every function has


class BoundMethodVariable(VariableTracker):
    """A function bound to an object."""

    def __init__(self, function: VariableTracker, owner: VariableTracker, source: Source | None = None) -> None:
        self.function = function
        self.owner = owner
        self.source = source

    def python_type(self) -> type:
        return types.MethodType

    def describe(self) -> str:
        return f"BoundMethodVariable({self.function.describe()})"

    def hash_key(self, tx: Tracer) -> Any:
        owner = tx.trace.hashed.by_identity(self.owner)  # CPython hashes the owner by identity, too
        return ("method", id(owner), self.function.hash_key(tx))

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if op in ("==", "!=") and isinstance(other, BoundMethodVariable):
            same = tx.is_same(self.owner, other.owner) and tx.is_same(self.function, other.function)
            return ConstantVariable(same is (op == "=="))
        return None

    def children(self) -> Iterable[VariableTracker]:
        return (self.function, self.owner)

    def resolve_call(
        self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> tuple[VariableTracker, list[VariableTracker], dict[str, VariableTracker]]:
        return self.function.resolve_call(tx, [self.owner, *args], kwargs)

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        return self.function.call(tx, [self.owner, *args], kwargs)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "__self__":
            return self.owner
        if name == "__func__":
            return self.function
        if name in ("__call__", "__get__"):
            return tx.bound_builtin_method(self, name)
        return self.function.get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name == "__call__":
            return self.call(tx, args, kwargs)
        if name == "__get__":
            return self
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.source is None and self.function.python_type() in _BOUND_AS_METHODS:
            cg.call_object(types.MethodType, lambda: cg.load(self.function), lambda: cg.load(self.owner))
        else:
            unsupported("cannot-reconstruct", value=self.describe())


_BOUND_AS_METHODS = (types.FunctionType, functools._lru_cache_wrapper)


def bound_by_get(
    tx: Tracer, function: VariableTracker, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    """function.__get__(owner, cls). If the owner is None, this is the function itself."""
    if kwargs or not 1 <= len(args) <= 2:
        unsupported("call-arguments", error="__get__ of a function")
    if not args[0].is_none():
        owner = getattr(function.identity(), "__objclass__", object)
        if owner not in args[0].python_type().__mro__:
            unsupported("call-arguments", error="__get__ of a method for an object of another class")
        return BoundMethodVariable(function, args[0])
    if len(args) == 1 or args[1].is_none():
        tx.raise_error(TypeError, "__get__(None, None) is invalid")
    return function


class BuiltinMethodVariable(NamedMethodVariable):
    """A method of a built-in type, bound to any value, which the interpreter calls (`[].append`)."""

    def python_type(self) -> type:
        return types.BuiltinMethodType

    def describe(self) -> str:
        return f"BuiltinMethodVariable({self.owner.describe()}.{self.name})"

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        return tx.call_builtin_method(self.owner, self.name, args, kwargs)


class BuiltinClassMethodVariable(BuiltinMethodVariable):
    """A class method written in C that has a model, bound to a class: the model is called with the class first."""

    def __init__(self, descriptor: Any, owner: VariableTracker, source: Source | None = None) -> None:
        super().__init__(owner, descriptor.__name__, source)
        self.descriptor = descriptor

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        return tx.call_library(CallableVariable(self.descriptor), [self.owner, *args], kwargs)

    def reconstruct(self, cg: ValueCodegen) -> None:
        if lookup(self.owner.identity(), self.name)[1] is self.descriptor:
            super().reconstruct(cg)
        else:  # found by super(), behind another of that name
            bind = types.ClassMethodDescriptorType.__get__
            descriptor = self.descriptor
            cg.call_object(bind, lambda: cg.load_const(descriptor), lambda: cg.load_const(None), lambda: cg.load(self.owner))


_COMPARED_BY_C = {
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.FunctionType,
}


class CallableVariable(RealObjectVariable):
    """A callable without Python code that can be traced: a builtin, a C function, a torch operation. Its calls are modelled in
    `tracer.library`."""

    def describe(self) -> str:
        return f"CallableVariable({getattr(self.value, '__qualname__', self.value)!s})"

    def graph_arg(self) -> Any:
        return self.value

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        """C compares what is written in C: `torch.Tensor.ndim.__get__` is another object at each read, and equal to the others
        of its descriptor."""
        if op not in ("==", "!=") or not isinstance(other, CallableVariable):
            return None
        if not {type(self.value), type(other.value)} <= _COMPARED_BY_C:
            return None
        return ConstantVariable((self.value == other.value) is (op == "=="))

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        return tx.call_library(self, args, kwargs)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in READABLE:
            return ConstantVariable(getattr(self.value, name, None))
        if name == "__get__" and isinstance(self.value, _BINDING):
            return tx.bound_builtin_method(self, name)
        if isinstance(self.value, _PACKET) and name in self.value.overloads():
            return CallableVariable(getattr(self.value, name))
        is_fixed = isinstance(self.value, (types.BuiltinMethodType, types.MethodWrapperType, *C_METHOD_TYPES))
        if is_fixed or (self.source is not None and not hasattr(type(self.value), "__getattr__")):
            missing = object()
            value = getattr(self.value, name, missing)
            if value is missing:
                tx.raise_error(AttributeError, f"{type(self.value).__name__!r} object has no attribute {name!r}")
            if self.source is None:
                unsupported("unsupported-attribute", value=self.describe(), name=name)
            return tx.wrap(value, GenericAttrSource(self.source, name))
        unsupported("unsupported-attribute", value=self.describe(), name=name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name == "__call__":
            return self.call(tx, args, kwargs)
        if name == "__get__" and isinstance(self.value, _BINDING):
            return bound_by_get(tx, self, args, kwargs)
        found = self.get_attr(tx, name)
        if isinstance(found, BuiltinMethodVariable) and found.owner.identity() is self.value:  # its call would come back here
            if isinstance(self.value, functools._lru_cache_wrapper):
                count_calls(self.value)
            method = lookup(type(self.value), name)[1]
            if models.get(method) is not None:
                return tx.call_unbound_model(method, [self, *args], kwargs)
            unsupported("unsupported-method", value=self.describe(), name=name)
        return found.call(tx, args, kwargs)


class CompiledFunctionVariable(CallableVariable):
    """A function that the user decorated to be compiled, called by traced code. It is traced through like any other."""

    def __init__(self, value: Any, function: VariableTracker, source: Source | None = None) -> None:
        super().__init__(value, source)
        self.function = function

    def resolve_call(
        self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> tuple[VariableTracker, list[VariableTracker], dict[str, VariableTracker]]:
        heed_marks(tx, self.value)
        return self.function.resolve_call(tx, args, kwargs)

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        target, args, kwargs = self.resolve_call(tx, args, kwargs)
        return target.call(tx, args, kwargs)


class _KeywordsVariable(DictVariable):
    """`partial.keywords` of an object that the trace makes."""

    def __init__(self, owner: PartialVariable) -> None:
        super().__init__({name: (ConstantVariable(name), value) for name, value in owner.kwargs.items()})
        self.owner = owner

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.load(self.owner)
        cg.load_attr("keywords")

    def fill(self, cg: ValueCodegen) -> None:
        """Nothing: the dict has its items."""


class PartialVariable(VariableTracker):
    """functools.partial(function, *args, **kwargs)"""

    def __init__(
        self,
        function: VariableTracker,
        args: list[VariableTracker],
        kwargs: dict[str, VariableTracker],
        cls: type,
        source: Source | None = None,
        value: functools.partial[Any] | None = None,
    ) -> None:
        self.value = value
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.cls = cls
        self.source = source
        self._args_tuple: VariableTracker | None = None
        self._keywords: VariableTracker | None = None

    def hash_key(self, tx: Tracer) -> Any:
        return self

    def children(self) -> Iterable[VariableTracker]:
        return (self.function, *self.args, *self.kwargs.values())

    def resolve_call(
        self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> tuple[VariableTracker, list[VariableTracker], dict[str, VariableTracker]]:
        return self.function.resolve_call(tx, [*self.args, *args], {**self.kwargs, **kwargs})

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        return self.function.call(tx, [*self.args, *args], {**self.kwargs, **kwargs})

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "func":
            return self.function
        if name == "args":
            self._args_tuple = self._args_tuple or TupleVariable(self.args)
            return self._args_tuple
        if name == "keywords" and self.value is not None and self.source is not None:
            return tx.wrap(self.value.keywords, GenericAttrSource(self.source, "keywords"))
        if name == "keywords":
            self._keywords = self._keywords or _KeywordsVariable(self)
            tx.effects.note_copy(self._keywords)
            return self._keywords
        pending = tx.effects.attribute(self, name)
        if pending is not None:
            return pending
        if name == "__class__":
            return tx.class_variable(self.cls)
        if name == "__call__":
            return tx.bound_builtin_method(self, name)
        if defines(self.cls, name) or tx.effects.is_deleted(self, name):
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        if self.value is not None and self.source is not None:
            if name in self.value.__dict__:
                return tx.wrap(self.value.__dict__[name], AttrSource(self.source, name))
            tx.guard_absent(self, name)
        tx.raise_error(AttributeError, f"'functools.partial' object has no attribute {name!r}")

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        return self.call(tx, args, kwargs) if name == "__call__" else super().call_method(tx, name, args, kwargs)

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        if name in ("func", "args", "keywords"):
            tx.raise_error(AttributeError, "readonly attribute")
        tx.effects.store_attribute(self, name, value)

    def reconstruct(self, cg: ValueCodegen) -> None:
        loads = [lambda v=v: cg.load(v) for v in (self.function, *self.args)]
        cg.call_object(self.cls, *loads, **{k: (lambda v=v: cg.load(v)) for k, v in self.kwargs.items()})
