"""Type parameters and aliases that the traced code makes: `def f[T = int](x: T)`, `class Box[T]`, `type Pair = tuple[T, T]`.

CPython makes new ones at each run of the statement, so the output code makes them again. While tracing, another object of the
same kind stands for each, of which forms such as `list[T]` and classes can be made.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from tracer.bytecode import Assembler
from tracer.graph_breaks import unsupported
from tracer.protocol.variable import VariableTracker
from tracer.variables.classes.class_namespace import ClassNamespaceVariable
from tracer.variables.classes.type_forms import TypeFormVariable, made_form
from tracer.variables.functions.python_functions import CellVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen


def type_parameter(tx: Tracer, kind: type, parts: list[VariableTracker], opname: str, number: int) -> VariableTracker:
    """A new TypeVar, ParamSpec or TypeVarTuple; `parts`: its name, and the function that gives its bound or constraints."""
    make: Any = kind
    keywords = {} if kind.__name__ == "TypeVarTuple" else {"infer_variance": True}
    return made_form(tx, make(parts[0].constant(), **keywords), parts, lambda cg: cg.asm.emit(opname, number))


def with_default(tx: Tracer, parameter: VariableTracker, function: VariableTracker, number: int) -> VariableTracker:
    """The parameter, just made, with a default that the function gives (PEP 696)."""
    plain = typing.cast(TypeFormVariable, parameter).value
    value = _with_unknown_default(type(plain).__name__, plain.__name__)
    return made_form(tx, value, [parameter, function], lambda cg: cg.asm.emit("CALL_INTRINSIC_2", number))


def _with_unknown_default(kind: str, name: str) -> Any:
    """One that breaks the graph where its default is asked for, as by the form `Box[int]` of a `class Box[T, S = T]`."""
    stars = {"TypeVar": "", "TypeVarTuple": "*", "ParamSpec": "**"}[kind]
    names: dict[str, Any] = {"__unknown__": _unknown_default}
    exec(f"def made[{stars}{name} = __unknown__()](): ...", names)
    return names["made"].__type_params__[0]


def _unknown_default() -> None:
    unsupported("unsupported-attribute", value="A type parameter", name="__default__")


def type_alias(tx: Tracer, parts: list[VariableTracker], number: int) -> VariableTracker:
    """`type name[parameters] = ...` of (name, parameters or None, function that gives the value)"""
    name, parameters, _ = parts
    made = () if parameters.is_constant() else tuple(form.value for form in _forms(tx, parameters))

    def emit(cg: ValueCodegen) -> None:
        cg.asm.emit("BUILD_TUPLE", len(parts))
        cg.asm.emit("CALL_INTRINSIC_1", number)

    return made_form(tx, _alias_maker(number)((name.constant(), made or None, _unknown_value)), parts, emit)


@functools.cache
def _alias_maker(number: int) -> Callable[[tuple[Any, ...]], Any]:
    """Makes an alias as the statement does. A call of `TypeAliasType` would ask the parameters for their defaults, since 3.14."""
    asm = Assembler()
    asm.load_fast("parts")
    asm.emit("CALL_INTRINSIC_1", number)
    asm.return_value()
    return FunctionType(asm.finish("make_alias", "make_alias", __file__, 1, ("parts",)), {})


def _unknown_value(*format: int) -> None:
    unsupported("unsupported-attribute", value="An alias of types", name="__value__")


def generic_of(tx: Tracer, parameters: VariableTracker, number: int) -> VariableTracker:
    """Generic[parameters], the base that `class Box[T]` adds."""
    made = [_unpacked(form.value) for form in _forms(tx, parameters)]
    generic: Any = typing.Generic
    return made_form(tx, generic[tuple(made)], [parameters], lambda cg: cg.asm.emit("CALL_INTRINSIC_1", number))


def _unpacked(parameter: Any) -> Any:
    return next(iter(parameter)) if isinstance(parameter, typing.TypeVarTuple) else parameter


def _forms(tx: Tracer, parameters: VariableTracker) -> list[TypeFormVariable]:
    """What the compiler has made a tuple of: parameters of this trace, or of one before a graph break."""
    return typing.cast("list[TypeFormVariable]", parameters.unpack(tx))


class NamespaceCell(CellVariable):
    """The cell `__classdict__` of a class body: its namespace, and the dict of the class once that is made."""

    made: VariableTracker | None = None  # the class

    def read(self, tx: Tracer) -> VariableTracker | None:
        if self.made is not None:
            return ClassNamespaceVariable(self.made)
        return super().read(tx)

    def children(self) -> Iterable[VariableTracker]:
        return super().children() if self.made is None else (self.made,)

    def fill(self, cg: ValueCodegen) -> None:
        if self.made is None:
            super().fill(cg)
        else:  # an alias may outlive its class; making the class fills the cell
            cg.load(self.made)
            cg.asm.pop()
