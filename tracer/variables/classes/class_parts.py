"""Attributes that the standard library adds to a class that the trace made, such as the methods of a dataclass.

The trace reads them from the class's prototype (a real class that stands for it, see `made_classes`), the output code from the
class itself. `trace.stand_ins` maps the id of each object in a prototype's namespace to (object, tracked value).
"""

from __future__ import annotations

import dataclasses
import enum
import reprlib
import types
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from tracer.graph_breaks import unsupported
from tracer.protocol.variable import VariableTracker
from tracer.sources.reading import is_heap_type, type_dict
from tracer.sources.roots import ModuleGlobalsSource
from tracer.variables.classes.enums import EnumMemberVariable
from tracer.variables.classes.type_forms import FORM_BASES, FORM_TYPES, TypeFormVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.functions.python_functions import CellVariable, FunctionVariable, UserFunctionVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.values.constant import ConstantVariable, is_constant_value

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.variables.classes.classes import ClassVariable


_FORMS = (*FORM_TYPES, *FORM_BASES)
# The wrapper by which dataclasses keep a `__repr__` from recursing; the function that was generated is in its `__wrapped__`.
# Before Python 3.13 dataclasses have one of their own.
_REPR_WRAPPER = getattr(dataclasses, "_recursive_repr", reprlib.recursive_repr())(lambda self: "").__code__


def part_of(tx: Tracer, cls: ClassVariable, name: str, value: Any) -> VariableTracker:
    """The tracked form of an attribute that the standard library added to a class."""
    known = tx.trace.stand_ins.get(id(value))
    if known is not None:
        return known[1]
    if type(value) is tuple and value and all(is_constant_value(item) or isinstance(item, _FORMS) for item in value):
        return ClassTupleVariable(cls, name, [tracked_form(tx, item) for item in value])
    if name == "__doc__":  # the text depends on values that the prototype does not have
        return ClassPartVariable(cls, name, type(value))
    if is_constant_value(value):
        return ConstantVariable(value)
    if type(value) is types.FunctionType:
        if _is_of_module(value) and value.__closure__ is None and value.__defaults__ is None and value.__kwdefaults__ is None:
            return UserFunctionVariable(value, None)  # one function of a module, which many classes share
        return MadeFunctionVariable(cls, name, vars(value)["__wrapped__"] if value.__code__ is _REPR_WRAPPER else value)
    if name == "__dataclass_fields__":
        return ClassDictVariable(cls, name, {key: FieldVariable(cls, key, field) for key, field in value.items()})
    if name == "_member_map_" and isinstance(cls.value, enum.EnumMeta):
        return ClassDictVariable(cls, name, {key: EnumMemberVariable(member) for key, member in value.items()})
    if name == "_member_names_" and isinstance(cls.value, enum.EnumMeta):
        return ClassListVariable(cls, name, value)
    if isinstance(value, type) and not is_heap_type(value):
        return tx.class_variable(value)
    if isinstance(value, types.BuiltinFunctionType):
        return CallableVariable(value)
    return ClassPartVariable(cls, name, type(value))


def _is_of_module(function: types.FunctionType) -> bool:
    """Whether a function is found in its module, and was not generated."""
    first, *rest = function.__qualname__.split(".")
    found = function.__globals__.get(first)
    for name in rest:
        found = type_dict(found).get(name) if isinstance(found, type) else None
    return found is function


class ClassPartVariable(VariableTracker):
    """An attribute that the standard library added to a class that the trace made."""

    def __init__(self, cls: ClassVariable, name: str, kind: type) -> None:
        self.of = cls
        self.name = name
        self.kind = kind

    def python_type(self) -> type:
        return self.kind

    def children(self) -> Iterable[VariableTracker]:
        return (self.of,)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(_read_part, lambda: cg.load(self.of), lambda: cg.load_const(self.name))


class ClassTupleVariable(TupleVariable):
    """A tuple that the standard library added to a class that the trace made."""

    def __init__(self, cls: ClassVariable, name: str, items: list[VariableTracker]) -> None:
        super().__init__(items)
        self.part = ClassPartVariable(cls, name, tuple)

    def children(self) -> Iterable[VariableTracker]:
        return (*super().children(), self.part)

    def reconstruct(self, cg: ValueCodegen) -> None:
        self.part.reconstruct(cg)


def _read_part(cls: type, name: str) -> Any:
    """Called by output code."""
    return type_dict(cls)[name]


class MadeFunctionVariable(FunctionVariable):
    """A function that the standard library generated for the class."""

    def __init__(self, cls: ClassVariable, name: str, value: types.FunctionType) -> None:
        self.part = ClassPartVariable(cls, name, types.FunctionType)
        self.value = value
        self.code = value.__code__
        self.globals = value.__globals__
        self.name = value.__name__
        self.qualname = value.__qualname__

    def describe(self) -> str:
        return f"MadeFunctionVariable({self.value.__qualname__})"

    def children(self) -> Iterable[VariableTracker]:
        return (self.part,)

    def defaults(self, tx: Tracer) -> list[VariableTracker]:
        return [tracked_form(tx, value) for value in self.value.__defaults__ or ()]

    def kwdefaults(self, tx: Tracer) -> dict[str, VariableTracker]:
        return {name: tracked_form(tx, value) for name, value in (self.value.__kwdefaults__ or {}).items()}

    def closure(self, tx: Tracer) -> list[CellVariable]:
        return [CellVariable(tracked_form(tx, cell.cell_contents)) for cell in self.value.__closure__ or ()]

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in ("__name__", "__qualname__", "__module__"):
            return ConstantVariable(getattr(self.value, name))
        return super().get_attr(tx, name)

    def reconstruct(self, cg: ValueCodegen) -> None:
        self.part.reconstruct(cg)


def tracked_form(tx: Tracer, value: Any) -> VariableTracker:
    """The tracked form of a value that the standard library took from a prototype, such as a default or the content of a cell.
    Unlike an attribute of the class (`part_of`), the output code cannot read it by name."""
    known = tx.trace.stand_ins.get(id(value))
    if known is not None:
        return known[1]
    if is_constant_value(value):
        return ConstantVariable(value)
    if isinstance(value, type):
        return tx.class_variable(value)
    if isinstance(value, _FORMS):
        return TypeFormVariable(value)
    name = _names_in_dataclasses().get(id(value))  # a sentinel, such as dataclasses.MISSING
    if name is None:
        kind = type(value).__name__
        unsupported("makes-a-class", function=f"A class statement of which the library keeps an object of type {kind}")
    return tx.wrap(value, ModuleGlobalsSource("dataclasses", name))


def _names_in_dataclasses() -> dict[int, str]:
    """The names of the objects of the module `dataclasses`, by id; of those that are neither functions nor modules."""
    plain = (types.FunctionType, types.ModuleType)
    return {id(value): name for name, value in vars(dataclasses).items() if not isinstance(value, plain)}


class ClassListVariable(ListVariable):
    """A list of texts that the standard library added to a class that the trace made. It is only read."""

    def __init__(self, cls: ClassVariable, name: str, texts: list[str]) -> None:
        super().__init__(map(ConstantVariable, texts))
        self.part = ClassPartVariable(cls, name, list)

    def children(self) -> Iterable[VariableTracker]:
        return (self.part,)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        unsupported("unsupported-attribute", value=self.part.name, name=name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name not in ("__iter__", "__len__", "__reversed__", "__contains__", "__getitem__", "copy", "index", "count"):
            unsupported("unsupported-method", value=self.part.name, name=name)
        return super().call_method(tx, name, args, kwargs)

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        self._refuse()

    def del_item(self, tx: Tracer, key: VariableTracker) -> None:
        self._refuse()

    def replace(self, tx: Tracer, items: Iterable[VariableTracker]) -> None:
        self._refuse()

    def extend(self, tx: Tracer, other: VariableTracker) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        unsupported("unsupported-method", value=self.part.name, name="__setitem__")

    def reconstruct(self, cg: ValueCodegen) -> None:
        self.part.reconstruct(cg)

    def fill(self, cg: ValueCodegen) -> None:
        """Nothing to do: the library has filled the list that `reconstruct` reads."""


class ClassDictVariable(DictVariable):
    """A dict that the standard library added to a class that the trace made: `__dataclass_fields__`, the members of an enum."""

    def __init__(self, cls: ClassVariable, name: str, items: Mapping[str, VariableTracker]) -> None:
        super().__init__({key: (ConstantVariable(key), value) for key, value in items.items()})
        self.part = ClassPartVariable(cls, name, dict)

    def children(self) -> Iterable[VariableTracker]:
        return (self.part,)

    def _mutate(self, tx: Tracer, keys: bool) -> None:
        unsupported("unsupported-method", value=self.part.name, name="__setitem__")

    def reconstruct(self, cg: ValueCodegen) -> None:
        self.part.reconstruct(cg)

    def fill(self, cg: ValueCodegen) -> None:
        """Nothing to do: the library has filled the dict that `reconstruct` reads."""


class FieldVariable(UserObjectVariable):
    """One of the fields of a dataclass that the trace made."""

    def __init__(self, cls: ClassVariable, name: str, field: Any) -> None:
        super().__init__(dataclasses.Field)
        self.of = cls
        self.name = name
        self.field = field

    def children(self) -> Iterable[VariableTracker]:
        return (self.of,)

    def slot(self, tx: Tracer, name: str) -> VariableTracker | None:
        return tracked_form(tx, getattr(self.field, name))

    def default_set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        unsupported("unsupported-attribute-store", value=self.describe(), name=name)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(_read_field, lambda: cg.load(self.of), lambda: cg.load_const(self.name))

    def fill(self, cg: ValueCodegen) -> None:
        """Nothing to do: the library has filled the object that `reconstruct` reads."""


def _read_field(cls: Any, name: str) -> Any:
    """Called by output code."""
    return cls.__dataclass_fields__[name]
