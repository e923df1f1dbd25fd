"""The parts of type annotations: `list[int]`, `Optional[Tensor]`, `int | None`, type variables. They are immutable, so
operations on them are evaluated while tracing."""

from __future__ import annotations

import operator
import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import lookup
from tracer.protocol.variable import ObservedException, RealObjectVariable, VariableTracker, is_exception
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.reading import is_heap_type
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.lists import ListVariable, TupleVariable
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_TYPING_BASE: type = typing._Final
FORM_TYPES: tuple[type, ...] = (types.GenericAlias, types.UnionType)
FORM_BASES: tuple[type, ...] = tuple({_TYPING_BASE, typing.TypeVar, typing.ParamSpec} - {object})
_ALIAS = type(typing.List[int])  # noqa: UP006  (typing's own kind of alias)
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {"==": operator.eq, "!=": operator.ne}


class TypeFormVariable(RealObjectVariable):
    def describe(self) -> str:
        return f"TypeFormVariable({type(self.value).__name__})"

    def identity(self) -> Any:
        return self if self.source is None else self.value

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if op in _COMPARE and isinstance(other, (TypeFormVariable, ClassVariable)):
            return ConstantVariable(_COMPARE[op](self.value, other.value))
        return None

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if op != "|":
            return None
        return union_of(tx, other, self) if reflected else union_of(tx, self, other)

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        return subscripted(tx, self, key)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        missing = object()
        value = getattr(self.value, name, missing)
        if value is missing:
            tx.raise_error(AttributeError, f"{type(self.value).__name__!r} object has no attribute {name!r}")
        if self.source is not None:
            return tx.wrap(value, GenericAttrSource(self.source, name))
        return made(value)

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        """Calls the class behind an alias: list[int](...) makes a list."""
        origin = getattr(self.value, "__origin__", None)
        if type(self.value) is types.GenericAlias and isinstance(origin, type) and not is_heap_type(origin):
            return tx.class_variable(origin).call(tx, args, kwargs)
        if type(self.value) is _ALIAS and isinstance(origin, type) and is_heap_type(origin):
            return self._instance(tx, tx.class_variable(origin), args, kwargs)
        return super().call(tx, args, kwargs)

    def _instance(
        self, tx: Tracer, cls: VariableTracker, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        """Does what typing._GenericAlias.__call__ does for `Box[int](...)`: makes an instance and sets its `__orig_class__`."""
        made = cls.call(tx, args, kwargs)
        try:
            made.set_attr(tx, "__orig_class__", self)
        except ObservedException as raised:
            if not is_exception(raised.value, AttributeError):
                raise
        return made


def made(value: Any) -> VariableTracker:
    """The tracked form of a part of an annotation."""
    if isinstance(value, (*FORM_TYPES, *FORM_BASES)):
        return TypeFormVariable(value)
    if isinstance(value, type):
        return ClassVariable(value)
    if type(value) is tuple:
        return TupleVariable([made(item) for item in value])
    if type(value) is list:
        return ListVariable([made(item) for item in value])
    if value is None or type(value) in (str, bool, int):
        return ConstantVariable(value)
    unsupported("not-a-constant", value=f"a part of an annotation of type {type(value).__name__}")


def subscripted(tx: Tracer, generic: TypeFormVariable | ClassVariable, key: VariableTracker) -> VariableTracker:
    """The result of subscripting a generic: `List[int]`, `dict[str, Any]`."""
    return _apply(operator.getitem, generic.value, _plain(tx, key), f"{generic.describe()}[{key.describe()}]")


def mro_entries(tx: Tracer, form: Any, bases: list[VariableTracker]) -> list[VariableTracker]:
    """The bases that replace an alias such as `Generic[T]` in a class statement."""
    try:
        plain = [base.value if isinstance(base, CallableVariable) else _plain(tx, base) for base in bases]
        classes = form.value.__mro_entries__(tuple(plain))
    except Exception as error:
        unsupported("makes-a-class", cause=error, function=f"A class statement with {form.describe()} for a base ({error})")
    return [tx.class_variable(cls) for cls in classes]


def union_of(tx: Tracer, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    """The result of `left | right`, such as `int | None`."""
    return _apply(operator.or_, _plain(tx, left), _plain(tx, right), f"{left.describe()} | {right.describe()}")


def _apply(function: Callable[[Any, Any], Any], left: Any, right: Any, what: str) -> VariableTracker:
    try:
        return made(function(left, right))
    except Exception as error:
        unsupported("unsupported-call", cause=error, value=f"{what} ({error})")


def _plain(tx: Tracer, value: VariableTracker) -> Any:
    """The Python object behind a tracked part of an annotation."""
    if isinstance(value, TypeFormVariable):
        return value.value
    if isinstance(value, ClassVariable):
        if type(value).reconstruct is not ClassVariable.reconstruct:
            unsupported("makes-a-class", function=f"An annotation with {value.describe()}, which the trace made,")
        if lookup(type(value.value), "__hash__")[0] not in (type, object):
            unsupported("unhashable-in-trace", value=value.describe())
        return value.value
    if type(value) is TupleVariable:
        return tuple(_plain(tx, item) for item in value.items(tx))
    if type(value) is ListVariable:
        return [_plain(tx, item) for item in value.items(tx)]
    return value.constant()
