"""range and slice, and the conversion of subscripts to ints and slices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.error_words import not_in_sequence
from tracer.protocol.lookups import defines, type_name
from tracer.protocol.models import Models
from tracer.protocol.variable import VariableTracker
from tracer.variables.iteration import IteratorVariable
from tracer.variables.slots import BuiltinVariable
from tracer.variables.values.constant import NONE, ConstantVariable, boolean, fold
from tracer.variables.values.special_results import checked_index
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source

_PARTS = ("start", "stop", "step")
LONGEST = 1_000_000  # the most items of a range that the trace unpacks
_LARGEST = 2**62  # the largest int that a symbolic int is compared with


class NotAnIndex:
    """The result of `index_of` for a value that no built-in sequence accepts as a subscript."""


NOT_AN_INDEX = NotAnIndex()


def as_int(tx: Tracer, value: VariableTracker) -> int | None:
    """operator.index(value), or None for a value that has no `__index__`. A symbolic int is specialised."""
    value = value.specialize(tx)
    if value.is_constant():
        constant = value.constant()
        return int(constant) if isinstance(constant, int) else None
    if not defines(value.python_type(), "__index__"):
        return None
    if issubclass(value.python_type(), int):  # CPython uses its int value and does not call its `__index__`
        return as_int(tx, value.storage)  # type: ignore[attr-defined]  # instances of int hold one
    number = checked_index(tx, value.call_method(tx, "__index__", [], {}))
    number = number.specialize(tx)
    if number.is_constant() and type(number.constant()) is int:
        found: int | None = number.constant()
        return found
    unsupported("unsupported-subscript", value="a sequence", key=value.describe())


def index_of(tx: Tracer, key: VariableTracker) -> Any:
    """The Python int or slice that a subscript stands for, or NOT_AN_INDEX."""
    if isinstance(key, SliceVariable):
        return key.concrete(tx)
    number = as_int(tx, key)
    return NOT_AN_INDEX if number is None else number


class RangeIterator(IteratorVariable):
    """iter(range). `left` holds the numbers that it has not given yet."""

    def __init__(self, left: range) -> None:
        self.left = left

    def python_type(self) -> type:
        return type(iter(self.left))

    def advance(self, tx: Tracer) -> VariableTracker | None:
        if not self.left:
            return None
        item = self.left[0]
        self.left = self.left[1:]
        return ConstantVariable(item)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(iter, lambda: cg.load_const(self.left))


class Bounds(BuiltinVariable):
    """start, stop and step, as `kind` (range or slice) combines them."""

    kind: type[Any]

    def __init__(
        self, start: VariableTracker, stop: VariableTracker, step: VariableTracker, source: Source | None = None
    ) -> None:
        self.parts = (start, stop, step)
        self.source = source

    def python_type(self) -> type:
        return self.kind

    def is_constant(self) -> bool:
        return all(part.is_constant() for part in self.parts)

    def constant(self) -> Any:
        return self.kind(*(part.constant() for part in self.parts))

    def children(self) -> Iterable[VariableTracker]:
        return self.parts

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in _PARTS:
            return self.parts[_PARTS.index(name)]
        return super().get_attr(tx, name)


class RangeVariable(Bounds):
    """range(start, stop, step). The bounds may be symbolic until the range is iterated over."""

    kind = range
    methods = Models("range method")
    operands = (range,)

    def concrete(self, tx: Tracer) -> range:
        parts = [part.specialize(tx) for part in self.parts]
        return range(*(part.constant() for part in parts))

    def numbers(self, tx: Tracer) -> range:
        """A concrete range of the same numbers. Unless the step is 1 or -1, the guard admits every stop that gives them."""
        start, stop, step = self.parts
        if not isinstance(stop, SymNodeVariable) or stop.depends_on_data() or not (start.is_constant() and step.is_constant()):
            return self.concrete(tx)
        first, by = int(start.constant()), int(step.constant())
        count = len(range(first, stop.example.node.hint, by))
        last, end = first + (count - 1) * by, first + count * by
        if abs(by) == 1 or count == 0 or max(abs(last), abs(end)) > _LARGEST:
            return self.concrete(tx)
        low, high = (last + 1, end) if by > 0 else (end, last - 1)
        stop.stays_within(low, high)
        return range(first, end, by)

    def form(self, tx: Tracer) -> Any:
        return self.concrete(tx)

    def truth(self, tx: Tracer) -> bool:
        if self._counts_to_symbol():
            return tx.binary_truth(">", self.parts[1], ConstantVariable(0))
        return bool(self.numbers(tx))

    def _counts_to_symbol(self) -> bool:
        start, stop, step = self.parts
        if not (start.is_constant() and step.is_constant() and isinstance(stop, SymNodeVariable)):
            return False
        return (start.constant(), step.constant()) == (0, 1)

    def length(self, tx: Tracer) -> VariableTracker:
        stop = self.parts[1]
        if self._counts_to_symbol() and tx.binary_truth(">=", stop, ConstantVariable(0)):
            return stop
        return fold(tx, len, self.numbers(tx))

    def iterate(self, tx: Tracer) -> VariableTracker:
        return RangeIterator(self.numbers(tx))

    def reverse_iterate(self, tx: Tracer) -> VariableTracker:
        return RangeIterator(self.numbers(tx)[::-1])

    def unpack(self, tx: Tracer) -> list[VariableTracker]:
        numbers = self.numbers(tx)
        if len(numbers) > LONGEST:
            unsupported("trace-too-long", value=LONGEST)
        return [ConstantVariable(number) for number in numbers]

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        index = index_of(tx, key)
        if index is NOT_AN_INDEX:
            tx.raise_error(TypeError, f"range indices must be integers or slices, not {type_name(key.python_type())}")
        try:
            item = self.numbers(tx)[index]
        except IndexError:
            tx.raise_error(IndexError, "range object index out of range")
        return tx.literal(item)

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        item = item.specialize(tx)
        if not item.is_constant():
            return boolean(any(tx.same_or_equal(mine, item) for mine in self.unpack(tx)))
        return boolean(item.constant() in self.numbers(tx))

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if isinstance(other, RangeVariable) and op in ("==", "!="):
            equal = self.concrete(tx) == other.concrete(tx)
            return boolean(equal is (op == "=="))
        return None

    def hash_key(self, tx: Tracer) -> Any:
        return self.concrete(tx)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(range, *(lambda part=part: cg.load(part) for part in self.parts))


@RangeVariable.methods("index")
def _index(tx: Tracer, self: RangeVariable, item: VariableTracker, /) -> VariableTracker:
    numbers = self.numbers(tx)
    number = item.specialize(tx)
    if number.constant() not in numbers:
        tx.raise_error(ValueError, not_in_sequence(range, lambda: repr(number.constant())))
    return ConstantVariable(numbers.index(number.constant()))


@RangeVariable.methods("count")
def _count(tx: Tracer, self: RangeVariable, item: VariableTracker, /) -> VariableTracker:
    if not item.is_constant() and not isinstance(item, SymNodeVariable):  # it may be equal to several of the numbers
        return ConstantVariable(sum(tx.same_or_equal(mine, item) for mine in self.unpack(tx)))
    return ConstantVariable(int(self.contains(tx, item).truth(tx)))


class SliceVariable(Bounds):
    """slice(start, stop, step)"""

    kind = slice
    methods = Models("slice method")
    operands = (slice,)

    def specialize(self, tx: Tracer) -> VariableTracker:
        parts = [part.specialize(tx) for part in self.parts]
        return ConstantVariable(slice(*[part.constant() for part in parts])) if all(p.is_constant() for p in parts) else self

    def concrete(self, tx: Tracer) -> slice:
        """The real slice, of ints and None, that Python sequences accept."""
        bounds: list[int | None] = []
        for part in self.parts:
            number = None if part.is_none() else as_int(tx, part)
            if number is None and not part.is_none():
                tx.raise_error(TypeError, "slice indices must be integers or None or have an __index__ method")
            bounds.append(number)
        if bounds[2] == 0:
            tx.raise_error(ValueError, "slice step cannot be zero")
        return slice(*bounds)

    def graph_arg(self) -> Any:
        return slice(*(part.graph_arg() for part in self.parts))

    def hash_key(self, tx: Tracer) -> Any:
        if slice.__hash__ is None:  # before Python 3.12
            tx.raise_error(TypeError, "unhashable type: 'slice'")
        return slice, *(part.hash_key(tx) for part in self.parts)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if isinstance(other, SliceVariable):
            return tx.compare(op, tx.tuple_of(self.parts), tx.tuple_of(other.parts))
        return None

    def reconstruct(self, cg: ValueCodegen) -> None:
        for part in self.parts:
            cg.load(part)
        cg.asm.emit("BUILD_SLICE", 3)


@SliceVariable.methods("indices")
def _indices(tx: Tracer, self: SliceVariable, length: VariableTracker, /) -> VariableTracker:
    number = as_int(tx, length)
    if number is None or number < 0:
        unsupported("call-arguments", error="slice.indices")
    return tx.literal(self.concrete(tx).indices(number))


@SliceVariable.methods("__reduce__", "__reduce_ex__")
def _reduce(tx: Tracer, self: SliceVariable, /, *protocol: VariableTracker) -> VariableTracker:
    return tx.tuple_of([tx.class_variable(slice), tx.tuple_of(self.parts)])


__all__ = ["NONE", "NOT_AN_INDEX", "RangeVariable", "SliceVariable", "as_int", "index_of"]
