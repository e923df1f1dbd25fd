"""Classes that the traced program made by a class statement, and what it put into their namespaces: static methods, class
methods, properties.

While tracing, a *prototype* stands for such a class: a real class with the same bases, in whose namespace a function of the
same code stands for each function, and a placeholder for what has no value yet, so that CPython's own rules of lookup serve.
None of it runs. The output code makes the class anew, if the program still has it then.
"""
from __future__ import annotations

import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.variables.base import VariableTracker
from tracer.variables.callables import BoundMethodVariable, BuiltinMethodVariable, CallableVariable
from tracer.variables.classes import ClassVariable
from tracer.variables.constant import NONE
from tracer.variables.functions import FunctionVariable, NestedFunctionVariable, UserFunctionVariable
from tracer.variables.lookups import HEAP_TYPE, MISSING, is_data_descriptor, lookup, storage_base

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer


class StaticMethodVariable(VariableTracker):
    """staticmethod(function)"""

    cls: type = staticmethod

    def __init__(self, function: VariableTracker) -> None:
        self.function = function

    def python_type(self) -> type:
        return self.cls

    def truth(self, tx: Tracer) -> bool:
        return True

    def children(self) -> Iterable[VariableTracker]:
        return (self.function,)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        return self.function if name in ("__func__", "__wrapped__") else super().get_attr(tx, name)

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        return self.function.call(tx, args, kwargs)

    def reconstruct(self, cg: Any) -> None:
        cg.call_object(self.cls, lambda: cg.load(self.function))


class ClassMethodVariable(StaticMethodVariable):
    """classmethod(function)"""

    cls = classmethod

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        tx.raise_error(TypeError, "'classmethod' object is not callable")


class PropertyVariable(VariableTracker):
    """property(fget, fset, fdel)"""

    PARTS = {"fget": "getter", "fset": "setter", "fdel": "deleter"}

    def __init__(self, parts: dict[str, VariableTracker]) -> None:
        self.parts = {name: parts.get(name, NONE) for name in self.PARTS}

    def python_type(self) -> type:
        return property

    def truth(self, tx: Tracer) -> bool:
        return True

    def children(self) -> Iterable[VariableTracker]:
        return self.parts.values()

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in self.parts:
            return self.parts[name]
        if name in self.PARTS.values():
            return BuiltinMethodVariable(self, name)
        return super().get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        part = next((part for part, method in self.PARTS.items() if method == name), None)
        if part is None or kwargs or len(args) != 1:
            return super().call_method(tx, name, args, kwargs)
        return PropertyVariable({**self.parts, part: args[0]})

    def reconstruct(self, cg: Any) -> None:
        cg.call_object(property, *[lambda part=part: cg.load(part) for part in self.parts.values()])  # type: ignore[misc]


class Placeholder:
    """Stands in the namespace of a prototype for a value that is not known while tracing."""


class MadeClassVariable(ClassVariable):
    """A class that the trace made; `value` is its prototype."""

    def __init__(self, prototype: type, bases: list[VariableTracker], namespace: dict[str, VariableTracker]) -> None:
        super().__init__(prototype)
        self.bases = bases
        self.namespace = namespace
        self.stored: dict[str, VariableTracker] = {}  # after it was made

    def children(self) -> Iterable[VariableTracker]:
        return (*self.bases, *self.namespace.values(), *self.stored.values())

    def is_known_to_its_bases(self) -> bool:
        """Whether a base is a class of the program, which can ask for its `__subclasses__()`."""
        return any(base.__flags__ & HEAP_TYPE for base in self.value.__bases__)

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        if name.startswith("__") or is_data_descriptor(lookup(type(self.value), name)[1]):
            unsupported("unsupported-attribute-store", value=self.describe(), name=name)
        known = prototype(tx, name, value)
        tx.effects.mutate(self)
        setattr(self.value, name, known)
        self.stored[name] = value

    def reconstruct(self, cg: Any) -> None:
        cg.call_object(
            type(self.value),
            lambda: cg.load_const(self.value.__name__),
            lambda: cg.build_sequence("BUILD_TUPLE", self.bases),
            lambda: self._load_namespace(cg),
        )

    def _load_namespace(self, cg: Any) -> None:
        for name, value in self.namespace.items():
            cg.load_const(name)
            cg.load(value)
        cg.asm.emit("BUILD_MAP", len(self.namespace))

    def fill(self, cg: Any) -> None:
        for name, value in self.stored.items():
            cg.load(value)
            cg.load(self)
            cg.asm.emit("STORE_ATTR", name)


# -- prototypes --------------------------------------------------------------------------------------------------------

_KNOWN_DESCRIPTORS = (FunctionVariable, CallableVariable, BoundMethodVariable, BuiltinMethodVariable)
_DESCRIPTOR_METHODS = ("__get__", "__set__", "__delete__", "__set_name__")


def prototype(tx: Tracer, name: str, value: VariableTracker) -> Any:
    """What stands for an attribute `name` in the namespace of a prototype."""
    if isinstance(value, StaticMethodVariable):
        return value.cls(prototype(tx, name, value.function))  # type: ignore[call-arg]
    if isinstance(value, PropertyVariable):
        return property(*(prototype(tx, name, part) for part in value.parts.values()))
    if not isinstance(value, _KNOWN_DESCRIPTORS) and any(
        lookup(value.python_type(), method)[1] is not MISSING for method in _DESCRIPTOR_METHODS
    ):
        unsupported("makes-a-class", function=f"A class statement with {value.describe()} for a descriptor")
    if value.is_constant():
        return value.constant()
    if isinstance(value, ClassVariable):
        return value.value
    stand_in = _stand_in(value)
    if isinstance(stand_in, Placeholder) and name.startswith("__") and name != "__annotations__":
        unsupported("makes-a-class", function=f"A class statement with {value.describe()} for {name}")
    tx.trace.stand_ins[id(stand_in)] = (stand_in, value)
    return stand_in


def _stand_in(value: VariableTracker) -> Any:
    if isinstance(value, NestedFunctionVariable):
        cells = tuple([types.CellType() for _ in value.code.co_freevars])
        return types.FunctionType(value.code, value.globals, value.name, None, cells)
    if isinstance(value, (UserFunctionVariable, CallableVariable)):
        return value.value
    return Placeholder()


def let_go(cls: type) -> None:
    """Takes a prototype out of the subclasses of its bases, which the program can see as long as it lives."""
    try:
        cls.__bases__ = (type("Prototype", (storage_base(cls),), {}),)
    except TypeError:  # laid out in another way
        pass


def runs_nothing(base: type) -> bool:
    """Whether making a class with this base runs no code of the program."""
    return type(base) in PLAIN_METACLASSES and not lookup(base, "__init_subclass__")[0].__flags__ & HEAP_TYPE  # type: ignore[union-attr]


PLAIN_METACLASSES: set[type] = {type}
