"""Special methods of built-in classes that the program calls by name: `x.__len__()`, `list.__getitem__(x, 0)`.

CPython makes these methods from the slots of a class (`slotdefs` in Objects/typeobject.c), with a few kinds of wrappers that
check the arguments. Likewise, a row of `SLOTS` says how many arguments the wrapper takes and which method of the protocol
implements the slot. This module also has the tables of operators from which rows are made.
"""

from __future__ import annotations

import dataclasses
import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from tracer.graph_breaks import unsupported
from tracer.protocol.error_words import wrong_count
from tracer.protocol.lookups import MISSING, lookup, rely_on_process, type_name
from tracer.protocol.models import Models
from tracer.protocol.variable import VariableTracker, invoke
from tracer.variables.text import form

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_ARITHMETIC = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "<<": "lshift", ">>": "rshift", "&": "and", "|": "or", "^": "xor",
}  # fmt: skip
_COMPARISONS = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}
DUNDER = {**_ARITHMETIC, **_COMPARISONS}
UNARY_DUNDER = {"-": "__neg__", "+": "__pos__", "~": "__invert__"}
OPERATORS = frozenset(f"__{prefix}{name}__" for name in (*DUNDER.values(), "divmod") for prefix in ("", "r"))

BINARY: dict[str, Any] = {op: getattr(operator, f"__{name}__") for op, name in _ARITHMETIC.items()}
INPLACE: dict[str, Any] = {op: getattr(operator, f"__i{name}__") for op, name in _ARITHMETIC.items()}
COMPARE: dict[str, Any] = {op: getattr(operator, f"__{name}__") for op, name in _COMPARISONS.items()}
UNARY: dict[str, Any] = {op: getattr(operator, name) for op, name in UNARY_DUNDER.items()}

_SETS = frozenset("-&|^")  # operators of sets, and some of them of dicts, whose methods may return NotImplemented


@dataclasses.dataclass(frozen=True)
class Slot:
    """One special method. `call(tx, value, *args)` gives its result, or None if the model has no result. In that case the
    method returns NotImplemented if it `may_decline` and does not take operands of that class; otherwise the graph breaks.

    `unpacks`: the wrapper calls PyArg_UnpackTuple, whose errors have other words."""

    arity: int
    call: Callable[..., VariableTracker | None]
    may_decline: bool = False
    unpacks: bool = False

    def refuse(self, tx: Tracer, name: str, method: Any, count: int, kwargs: dict[str, VariableTracker]) -> NoReturn:
        """Raises the error of the real method for a wrong number of arguments or for keywords."""
        if not isinstance(method, types.WrapperDescriptorType):  # C defines this method itself, apart from the slot
            unsupported("call-arguments", error=f"{name} with {count} arguments")
        if kwargs:
            tx.raise_error(TypeError, f"wrapper {name}() takes no keyword arguments")
        tx.raise_error(TypeError, wrong_count(name, self.arity, count, self.unpacks))


def _set_item(tx: Tracer, value: VariableTracker, key: VariableTracker, item: VariableTracker, /) -> VariableTracker:
    value.set_item(tx, key, item)
    return tx.literal(None)


def _del_item(tx: Tracer, value: VariableTracker, key: VariableTracker, /) -> VariableTracker:
    value.del_item(tx, key)
    return tx.literal(None)


def _next(tx: Tracer, value: VariableTracker, /) -> VariableTracker:
    item = value.next(tx)
    if item is None:
        tx.raise_error(StopIteration)
    return item


def _hash(tx: Tracer, value: VariableTracker, /) -> VariableTracker:
    value.hash_key(tx)  # raises TypeError if the value is unhashable
    if not value.is_constant():
        unsupported("unhashable-in-trace", value=value.describe())
    rely_on_process("hashes of texts and objects differ between processes")
    return tx.literal(hash(value.constant()))


def _format(tx: Tracer, value: VariableTracker, spec: VariableTracker, /) -> VariableTracker:
    return tx.literal(value.format(tx, spec.constant()))


def _binary(op: str) -> Slot:
    return Slot(1, lambda tx, value, other, /: value.binary(tx, op, other, False), may_decline=op in _SETS, unpacks=op == "*")


def _reflected(op: str) -> Slot:
    return Slot(1, lambda tx, value, other, /: value.binary(tx, op, other, True), unpacks=op == "*")


def _inplace(op: str) -> Slot:
    return Slot(1, lambda tx, value, other, /: value.inplace(tx, op, other), unpacks=op == "*")


def _compare(op: str) -> Slot:
    return Slot(1, lambda tx, value, other, /: value.compare(tx, op, other), may_decline=True)


SLOTS = {
    "__len__": Slot(0, lambda tx, value, /: value.length(tx)),
    "__bool__": Slot(0, lambda tx, value, /: tx.literal(value.truth(tx))),
    "__getitem__": Slot(1, lambda tx, value, key, /: value.get_item(tx, key)),
    "__setitem__": Slot(2, _set_item, unpacks=True),
    "__delitem__": Slot(1, _del_item),
    "__contains__": Slot(1, lambda tx, value, item, /: value.contains(tx, item)),
    "__iter__": Slot(0, lambda tx, value, /: value.iterate(tx)),
    "__next__": Slot(0, _next),
    "__reversed__": Slot(0, lambda tx, value, /: value.reverse_iterate(tx)),
    "__hash__": Slot(0, _hash),
    "__repr__": Slot(0, lambda tx, value, /: tx.literal(value.text(tx, "repr"))),
    "__str__": Slot(0, lambda tx, value, /: tx.literal(value.text(tx, "str"))),
    "__format__": Slot(1, _format),
    **{f"__{name}__": _compare(op) for op, name in _COMPARISONS.items()},
    **{f"__{name}__": _binary(op) for op, name in _ARITHMETIC.items()},
    **{f"__r{name}__": _reflected(op) for op, name in _ARITHMETIC.items()},
    **{f"__i{name}__": _inplace(op) for op, name in _ARITHMETIC.items()},
}


def call_slot(
    tx: Tracer, value: VariableTracker, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    """value.name(*args), for a special method that C defines. A method without a row in `SLOTS` breaks the graph."""
    method = lookup(value.python_type(), name)[1]
    slot = SLOTS.get(name)
    if slot is None or method is None:  # the method is None for `__hash__` of an unhashable class
        unsupported("unsupported-method", value=value.describe(), name=name)
    if kwargs or len(args) != slot.arity:
        slot.refuse(tx, name, method, len(args), kwargs)
    result = slot.call(tx, value, *args)
    if result is not None:
        return result
    if slot.may_decline and not issubclass(args[0].python_type(), getattr(value, "operands", object)):
        return tx.literal(NotImplemented)
    unsupported("unsupported-method", value=value.describe(), name=name)


class BuiltinVariable(VariableTracker):
    """An object of a class that is written in C. `methods` models its methods other than the special ones."""

    methods: ClassVar[Models] = Models("method of no class")
    operands: tuple[type, ...] = (object,)  # its comparisons and set operators take these, and return NotImplemented for others

    def text(self, tx: Tracer, kind: str) -> str:
        if not hasattr(self, "form"):
            return super().text(tx, kind)
        return str(form(tx, self)) if kind == "str" else repr(form(tx, self))

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        cls = self.python_type()
        if name == "__class__":
            return tx.class_variable(cls, self)
        static = lookup(cls, name)[1]
        if static is MISSING:
            self.raise_missing(tx, name)
        if name == "__doc__":
            return tx.literal(static)
        return tx.bound_builtin_method(self, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if lookup(self.python_type(), name)[1] is MISSING:
            self.raise_missing(tx, name)
        model = self.methods.get(name)
        return call_slot(tx, self, name, args, kwargs) if model is None else invoke(model, (tx, self, *args), kwargs)

    def raise_missing(self, tx: Tracer, name: str) -> NoReturn:
        tx.raise_error(AttributeError, f"{type_name(self.python_type())!r} object has no attribute {name!r}")
