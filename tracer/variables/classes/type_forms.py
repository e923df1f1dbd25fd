"""The parts of type annotations: `list[int]`, `Optional[Tensor]`, `int | None`, type variables. They are immutable, so
operations on them are evaluated while tracing, on stand-ins for those that the traced code makes (`type_parameters`)."""

from __future__ import annotations

import operator
import types
import typing
from collections.abc import Callable, Iterable
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
    from tracer.protocol.tracer import Tracer, ValueCodegen

_TYPING_BASE: type = typing._Final
FORM_TYPES: tuple[type, ...] = (types.GenericAlias, types.UnionType)
_PARAMETERS = ("TypeVar", "TypeVarTuple", "ParamSpec", "ParamSpecArgs", "ParamSpecKwargs", "TypeAliasType")
FORM_BASES: tuple[type, ...] = (
    _TYPING_BASE,
    typing.ForwardRef,
    *(vars(typing)[name] for name in _PARAMETERS if hasattr(typing, name)),
)
# What these run when they are first asked for: the code of a type parameter's bound or default, or of an alias.
_LAZY = ("__value__", "__bound__", "__constraints__", "__default__") if hasattr(typing, "TypeAliasType") else ()
_ALIAS = type(typing.List[int])  # noqa: UP006  (typing's own kind of alias)
_METHODS = (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)
Emit = Callable[["ValueCodegen"], None]
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

    def unpack(self, tx: Tracer) -> list[VariableTracker]:
        if not isinstance(self.value, typing.TypeVarTuple):
            return super().unpack(tx)
        return [subscripted(tx, TypeFormVariable(typing.Unpack), self)]  # *args: *Ts

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in _LAZY:
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        missing = object()
        value = getattr(self.value, name, missing)
        if value is missing:
            tx.raise_error(AttributeError, f"{type(self.value).__name__!r} object has no attribute {name!r}")
        if not isinstance(value, _METHODS) and getattr(self.value, name) is not value:  # `P.args` is made at each read
            unsupported("unsupported-attribute", value=self.describe(), name=name)
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


_READABLE = ("__name__", "__covariant__", "__contravariant__", "__infer_variance__", "__type_params__", "__parameters__",
             "__origin__", "__args__")  # fmt: skip


class MadeFormVariable(TypeFormVariable):
    """A type parameter or alias that the trace made, or a form with one of them in it. `value` stands for it while tracing. The
    output code makes it: `emit` is called with the parts on the stack."""

    def __init__(self, value: Any, parts: list[VariableTracker], emit: Emit) -> None:
        super().__init__(value)
        self.parts = parts
        self.emit = emit

    def children(self) -> Iterable[VariableTracker]:
        return self.parts

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        """Not those that are evaluated when they are first read, or that depend on the module."""
        if name not in _READABLE or not hasattr(self.value, name):
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        return _part(tx, getattr(self.value, name))

    def reconstruct(self, cg: ValueCodegen) -> None:
        for part in self.parts:
            cg.load(part)
        self.emit(cg)


def _part(tx: Tracer, value: Any) -> VariableTracker:
    """The tracked form of what a stand-in says of itself."""
    known = tx.trace.stand_ins.get(id(value))
    if known is not None:
        return known[1]
    if type(value) is tuple:
        return TupleVariable([_part(tx, item) for item in value])
    if isinstance(value, type):
        return tx.class_variable(value)
    if value is None or type(value) in (str, bool):
        return ConstantVariable(value)
    unsupported("not-a-constant", value=f"a part of an annotation of type {type(value).__name__}")


def made_form(tx: Tracer, value: Any, parts: list[VariableTracker], emit: Emit) -> VariableTracker:
    """The tracked form of `value`, that stands for what `emit` makes of the parts."""
    known = tx.trace.stand_ins.get(id(value))  # typing keeps forms: Optional[T] is one object
    if known is None:
        known = tx.trace.stand_ins[id(value)] = (value, MadeFormVariable(value, parts, emit))
    return known[1]


def _holds_made(value: VariableTracker) -> bool:
    """Whether a part of an annotation was made by the trace, or has something in it that was."""
    if isinstance(value, (TupleVariable, ListVariable)):
        return any(_holds_made(item) for item in value.children())
    return isinstance(value, MadeFormVariable) or isinstance(value, ClassVariable) and _is_made(value)


def _is_made(cls: ClassVariable) -> bool:
    return type(cls).reconstruct is not ClassVariable.reconstruct


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
    what = f"{generic.describe()}[{key.describe()}]"
    emit: Emit = lambda cg: cg.asm.subscript()  # noqa: E731
    return _applied(tx, operator.getitem, generic.value, [generic, key], what, emit)


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
    what = f"{left.describe()} | {right.describe()}"
    return _applied(tx, operator.or_, _plain(tx, left), [left, right], what, lambda cg: cg.asm.emit("BINARY_OP", "|"))


def _applied(
    tx: Tracer, function: Callable[[Any, Any], Any], left: Any, operands: list[VariableTracker], what: str, emit: Emit
) -> VariableTracker:
    """`function` of the operands, of which `left` is the first as a Python object. `emit` writes it for the output code."""
    right = _plain(tx, operands[1])
    try:
        result = function(left, right)
    except Exception as error:
        unsupported("unsupported-call", cause=error, value=f"{what} ({error})")
    return made_form(tx, result, operands, emit) if any(map(_holds_made, operands)) else made(result)


def _plain(tx: Tracer, value: VariableTracker) -> Any:
    """The Python object behind a tracked part of an annotation."""
    if isinstance(value, TypeFormVariable):
        return value.value
    if isinstance(value, ClassVariable):
        if _is_made(value):
            unsupported("makes-a-class", function=f"An annotation with {value.describe()}, which the trace made,")
        if lookup(type(value.value), "__hash__")[0] not in (type, object):
            unsupported("unhashable-in-trace", value=value.describe())
        return value.value
    if type(value) is TupleVariable:
        return tuple(_plain(tx, item) for item in value.items(tx))
    if type(value) is ListVariable:
        return [_plain(tx, item) for item in value.items(tx)]
    return value.constant()
