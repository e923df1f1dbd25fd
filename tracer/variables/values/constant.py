"""Immutable values that are fixed for the trace: numbers, strings, dtypes and the like."""

from __future__ import annotations

import contextlib
import enum
import functools
import math
import operator
import re
import types
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tracer.effects import decimal_contexts
from tracer.graph_breaks import unsupported
from tracer.guards.constants import LIBRARY_VALUES, is_guardable_constant
from tracer.protocol.lookups import lookup
from tracer.protocol.variable import ObservedException, VariableTracker, is_exception
from tracer.variables.iteration import IteratorVariable
from tracer.variables.slots import BINARY, COMPARE, DUNDER, UNARY
from tracer.variables.text import formatted, plain_form

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source

SCALARS = (int, float, bool, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
TORCH_CONSTANTS = (
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch.qscheme, torch.iinfo, torch.finfo
)  # fmt: skip
BY_IDENTITY = (torch.iinfo, torch.finfo, types.CodeType, re.Pattern, re.Match)  # guarded by their identity
CONSTANT_TYPES: frozenset[type] = frozenset((*SCALARS, *TORCH_CONSTANTS, *BY_IDENTITY))
_CONTAINERS = (tuple, frozenset, range, slice)

LARGEST_FOLDED_POWER = 100_000  # bits
LARGEST_TEXT = 1_000_000  # characters
_PURE_DUNDERS = ("__eq__", "__ne__", "__hash__", "__repr__", "__str__", "__reduce__", "__reduce_ex__")
_TEXT_METHODS = frozenset(("format", "format_map", "__mod__", "__format__"))


def refuse_large(op: str, left: Any, right: Any) -> None:
    """Powers, shifts and repetitions that would take long or fill the memory are left to CPython."""
    if op in ("**", "<<") and isinstance(right, int) and isinstance(left, int):
        if abs(right) * max(left.bit_length(), 1 if op == "<<" else 0) > LARGEST_FOLDED_POWER:
            unsupported("constant-too-large", value=f"{left!r} {op} {right!r}")
    if op == "*":
        for sequence, times in ((left, right), (right, left)):
            if isinstance(sequence, (str, bytes)) and isinstance(times, int) and len(sequence) * times > LARGEST_TEXT:
                size = len(sequence) * times
                unsupported("constant-too-large", value=f"a {type(sequence).__name__} of {size} characters")


def is_nan(value: Any) -> bool:
    """Whether a number is not equal to itself."""
    return isinstance(value, (float, complex)) and value != value


def is_constant_value(value: Any) -> bool:
    """Whether `value` is immutable all the way down and safe to fold."""
    cls = type(value)
    if cls in CONSTANT_TYPES or issubclass(cls, enum.Enum):
        return True
    if cls is slice:
        return all(map(is_constant_value, (value.start, value.stop, value.step)))
    if cls in LIBRARY_VALUES:
        return is_guardable_constant(value)
    return cls is range or (cls in (tuple, frozenset) and all(map(is_constant_value, value)))


class ConstantVariable(VariableTracker):
    """A value of `CONSTANT_TYPES`."""

    __slots__ = ("source", "value")

    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def is_constant(self) -> bool:
        return True

    def constant(self) -> Any:
        return self.value

    def graph_arg(self) -> Any:
        value = self.value
        if isinstance(value, np.bool_):
            return float(value)  # torch takes NumPy's bool for a float
        if isinstance(value, np.generic):
            return value.item()
        if type(value) is float and value != value and math.copysign(1.0, value) < 0:
            unsupported("not-a-graph-argument", value="nan with a sign, which the text of a graph loses")
        return value

    def hash_key(self, tx: Tracer) -> Any:
        try:
            hash(self.value)
        except TypeError as error:
            tx.raise_error(TypeError, *error.args)
        if is_nan(self.value):
            unsupported("identity-of-a-value", left=self.describe(), right="a key")
        return self.value

    def identity(self) -> Any:
        return self.value

    def describe(self) -> str:
        if isinstance(self.value, enum.Enum):  # its __repr__ may be code of the program
            return f"ConstantVariable({type(self.value).__qualname__}.{vars(self.value).get('_name_', '?')})"
        return f"ConstantVariable({self.value!r})"

    def truth(self, tx: Tracer) -> bool:
        return bool(self.value)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.load_const(self.value)

    # -- folding -------------------------------------------------------------------------------------------------

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if op == "%" and isinstance(self.value, str) and not reflected:
            return formatted(tx, operator.mod, [self, other], {})
        plain = plain_value(other)
        if not plain.is_constant():
            return None
        left, right = (plain.constant(), self.value) if reflected else (self.value, plain.constant())
        refuse_large(op, left, right)
        if is_left_to(other, self.value, op, reflected):
            return None
        with named_by_cpython(other, op):
            return fold(tx, BINARY[op], left, right)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        plain = plain_value(other)
        if not plain.is_constant() or is_left_to(other, self.value, op):
            return None
        with named_by_cpython(other, op):
            return fold(tx, COMPARE[op], self.value, plain.constant())

    def unary(self, tx: Tracer, op: str) -> VariableTracker | None:
        return fold(tx, UNARY[op], self.value)

    def length(self, tx: Tracer) -> VariableTracker:
        return fold(tx, len, self.value)

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        key = key.specialize(tx)
        if key.is_constant():
            return fold(tx, operator.getitem, self.value, key.constant())
        unsupported("unsupported-subscript", value=self.describe(), key=key.describe())

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        item = item.specialize(tx)
        if item.is_constant():
            return fold(tx, operator.contains, self.value, item.constant())
        unsupported("unsupported-subscript", value=self.describe(), key=item.describe())

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        value = self.value
        try:
            _lookup(type(value), name)
        except AttributeError:
            tx.raise_error(AttributeError, f"{type(value).__name__!r} object has no attribute {name!r}")
        if name == "__class__":
            return tx.class_variable(type(value))
        attribute = getattr(value, name)
        if is_constant_value(attribute):
            return tx.literal(attribute)
        if isinstance(value, np.generic) and isinstance(attribute, np.dtype):
            return tx.literal(attribute)
        if callable(attribute):
            return ConstantMethodVariable(self, name)
        if isinstance(value, np.generic) and isinstance(attribute, (np.generic, tuple)):  # `real`, `shape`
            return tx.literal(attribute)
        unsupported("unsupported-attribute", value=self.describe(), name=name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        method = getattr(self.value, name, None)
        if method is None:
            return self.get_attr(tx, name)
        if name == "__iter__" and not args:
            return self.iterate(tx)
        if isinstance(self.value, torch.device) and name in ("__enter__", "__exit__"):
            return tx.call_unbound_model(getattr(torch.device, name), [self, *args], kwargs)
        if not _is_pure(self.value, name):
            unsupported("unsupported-method", value=self.describe(), name=name)
        if name in _TEXT_METHODS and isinstance(self.value, str):
            return formatted(tx, method, args, kwargs)
        if name == "join" and len(args) == 1 and isinstance(self.value, (str, bytes)):
            args = [_join_argument(tx, args[0])]
        if isinstance(self.value, np.generic) and name == "astype" and len(args) == 1 and isinstance(args[0].identity(), type):
            return fold(tx, method, args[0].identity(), **{key: plain_form(tx, value) for key, value in kwargs.items()})
        constants = [plain_form(tx, argument) for argument in args]
        return fold(tx, method, *constants, **{key: plain_form(tx, value) for key, value in kwargs.items()})

    def iterate(self, tx: Tracer) -> VariableTracker:
        if isinstance(self.value, (str, bytes)):
            return ConstantIterator(self.value)
        if isinstance(self.value, (tuple, range, frozenset)):
            return tx.literal(self.value).iterate(tx)
        tx.raise_error(TypeError, f"{type(self.value).__name__!r} object is not iterable")


def plain_value(value: VariableTracker) -> VariableTracker:
    """The number or text that an instance of a subclass of int, str and so on holds. Any other value is returned unchanged."""
    storage = getattr(value, "storage", None)
    return storage if isinstance(storage, ConstantVariable) else value


def is_left_to(other: VariableTracker, value: Any, op: str, reflected: bool = False) -> bool:
    """Whether `other` is an instance of a subclass of a built-in class for which the method of `value`'s class returns
    NotImplemented. In that case the methods of `other` decide."""
    plain = plain_value(other)
    method = getattr(type(value), f"__{'r' * reflected}{DUNDER[op]}__", None)
    if plain is other or method is None:
        return False
    try:
        return method(value, plain.constant()) is NotImplemented
    except Exception:
        return False


@contextlib.contextmanager
def named_by_cpython(value: VariableTracker, operation: str) -> Iterator[None]:
    """Within, an operation is done on the plain value that `value` holds. Its error would name the class of `value`, so unless
    that is a plain constant, an error breaks the graph and CPython raises it."""
    try:
        yield
    except ObservedException:
        if isinstance(value, ConstantVariable):
            raise
        unsupported("unsupported-method", value=value.describe(), name=operation)


class _Text(str):
    """A subclass of str, to get the type of its iterator: CPython's faster iterator for ASCII serves exact str only."""


def iterator_at(value: str | bytes, position: int) -> Any:
    """The built-in iterator over `value`, set to `position`. An overriding `__iter__` is not called. Called by output code."""
    iterator: Any = str.__iter__(value) if isinstance(value, str) else bytes.__iter__(value)
    iterator.__setstate__(position)
    return iterator


class ConstantIterator(IteratorVariable):
    """iter(str) or iter(bytes)"""

    def __init__(self, value: str | bytes, instance: VariableTracker | None = None) -> None:
        """`instance` is the object that holds the value, if that is an instance of a subclass of str or bytes."""
        self.value = value
        self.instance = instance
        self.position = 0

    def python_type(self) -> type:
        of_text = self.instance is not None and isinstance(self.value, str)
        return type(iter(_Text(self.value) if of_text else self.value))

    def children(self) -> Iterable[VariableTracker]:
        return () if self.instance is None else (self.instance,)

    def advance(self, tx: Tracer) -> VariableTracker | None:
        if self.position >= len(self.value):
            return None
        self.position += 1
        return ConstantVariable(self.value[self.position - 1])

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.instance is None:
            cg.call_object(iter, lambda: cg.load_const(self.value[self.position :]))
        else:
            cg.call_object(iterator_at, functools.partial(cg.load, self.instance), lambda: cg.load_const(self.position))


_BOUND_TYPES: dict[type, type] = {  # of what is in a class written in C -> of the method that is bound
    types.WrapperDescriptorType: types.MethodWrapperType,
    types.MethodDescriptorType: types.BuiltinMethodType,
    types.ClassMethodDescriptorType: types.BuiltinMethodType,
    types.BuiltinFunctionType: types.BuiltinMethodType,  # `__new__`
}


class NamedMethodVariable(VariableTracker):
    """A method of a built-in type, bound to a tracked value, which models it under its name."""

    def __init__(self, owner: VariableTracker, name: str, source: Source | None = None) -> None:
        self.owner = owner
        self.name = name
        self.source = source

    def children(self) -> Iterable[VariableTracker]:
        return (self.owner,)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "__self__":
            return self.owner
        if name == "__name__":
            return ConstantVariable(self.name)
        bound = _BOUND_TYPES.get(type(lookup(self.owner.python_type(), self.name)[1]))
        if bound is not None and not hasattr(bound, name):  # such methods have no attributes of their own
            tx.raise_error(AttributeError, f"{bound.__name__!r} object has no attribute {name!r}")
        return super().get_attr(tx, name)

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        return self.owner.call_method(tx, self.name, args, kwargs)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.load(self.owner)
        cg.load_attr(self.name)


class ConstantMethodVariable(NamedMethodVariable):
    """A bound method of a constant, such as `", ".join`."""

    owner: ConstantVariable

    def python_type(self) -> type:
        return type(getattr(self.owner.value, self.name))

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in ("__name__", "__qualname__", "__doc__"):
            return ConstantVariable(getattr(getattr(self.owner.value, self.name), name))
        return super().get_attr(tx, name)


def _lookup(cls: type, name: str) -> Any:
    owner, static = lookup(cls, name)
    if owner is None:
        raise AttributeError(name)
    return static


def _is_pure(value: Any, name: str) -> bool:
    """Whether a method may be called while tracing. Entering a torch.device, for example, changes the state of the process."""
    return not isinstance(value, TORCH_CONSTANTS) or not name.startswith("__") or name in _PURE_DUNDERS


def _join_argument(tx: Tracer, argument: VariableTracker) -> VariableTracker:
    """The argument of `join` as a constant. The items of an iterable become a tuple of constants."""
    if argument.is_constant():
        return argument
    try:
        iterator = argument.iterate(tx)
    except ObservedException as raised:
        if is_exception(raised.value, TypeError):
            tx.raise_error(TypeError, "can only join an iterable")
        raise
    items = iterator.unpack(tx)  # unpacking calls `__iter__` of the iterator, as CPython does
    for item in items:
        if not item.is_constant():
            unsupported("format-of-runtime-value", value=f"{item.describe()} in a join")
    return tx.literal(tuple(item.constant() for item in items))


def fold(tx: Tracer, function: Any, *args: Any, **kwargs: Any) -> VariableTracker:
    """`function(*args, **kwargs)` on plain constants, evaluated now. An exception is raised in the traced program."""
    if decimal_contexts.are_among((function, getattr(function, "__self__", None), *args, *kwargs.values())):
        with decimal_contexts.computing(tx):
            return tx.literal(tx.run_now(function, *args, **kwargs))
    return tx.literal(tx.run_now(function, *args, **kwargs))


NONE = ConstantVariable(None)
ZERO, ONE = ConstantVariable(0), ConstantVariable(1)
TRUE = ConstantVariable(True)
FALSE = ConstantVariable(False)


def boolean(value: bool) -> ConstantVariable:
    return TRUE if value else FALSE
