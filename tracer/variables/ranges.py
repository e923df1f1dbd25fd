"""range and slice, and what a subscript means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.variables.answers import int_given
from tracer.variables.base import VariableTracker, no_keywords
from tracer.variables.constant import NONE, ConstantVariable, boolean
from tracer.variables.iterators import IteratorVariable
from tracer.variables.lookups import defines
from tracer.variables.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.sources import Source
    from tracer.variables.protocol import Tracer, ValueCodegen

_PARTS = ("start", "stop", "step")
LONGEST = 1_000_000  # steps of a range that tracing follows
_LARGEST = 2**62  # with which a symbolic int is compared


class NotAnIndex:
    """What `index_of` gives for a value that no built-in sequence takes as a subscript."""


NOT_AN_INDEX = NotAnIndex()


def as_int(tx: Tracer, value: VariableTracker) -> int | None:
    """operator.index(value), None for a value that has no `__index__`; a symbolic int is specialised."""
    if isinstance(value, SymNodeVariable):
        value = value.specialize(tx)
    if value.is_constant():
        constant = value.constant()
        return int(constant) if isinstance(constant, int) else None
    if not defines(value.python_type(), "__index__"):
        return None
    if issubclass(value.python_type(), int):  # CPython takes such an object itself, whatever its `__index__` says
        return as_int(tx, value.storage)  # type: ignore[attr-defined]  # instances of int hold one
    number = int_given(tx, value.call_method(tx, "__index__", [], {}))
    if isinstance(number, SymNodeVariable):
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
    """iter(range): `left` is what it has not given yet."""

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


class Bounds(VariableTracker):
    """start, stop and step, of which `kind` makes one value."""

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
        if hasattr(self.kind, name):
            return tx.bound_builtin_method(self, name)
        tx.raise_error(AttributeError, f"{self.kind.__name__!r} object has no attribute {name!r}")


class RangeVariable(Bounds):
    """range(start, stop, step); the bounds may be symbolic until somebody iterates."""

    kind = range

    def concrete(self, tx: Tracer) -> range:
        parts = [part.specialize(tx) if isinstance(part, SymNodeVariable) else part for part in self.parts]
        return range(*(part.constant() for part in parts))

    def numbers(self, tx: Tracer) -> range:
        """The same numbers; where steps are longer than 1, many stops give them, and none of those is told from the others."""
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
        return ConstantVariable(len(self.numbers(tx)))

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
            name = key.python_type().__name__
            tx.raise_error(TypeError, f"range indices must be integers or slices, not {name}")
        try:
            item = self.numbers(tx)[index]
        except IndexError:
            tx.raise_error(IndexError, "range object index out of range")
        return tx.literal(item)

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        if isinstance(item, SymNodeVariable):
            item = item.specialize(tx)
        if not item.is_constant():
            return boolean(any(tx.same_or_equal(mine, item) for mine in self.unpack(tx)))
        return boolean(item.constant() in self.numbers(tx))

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if isinstance(other, RangeVariable) and op in ("==", "!="):
            equal = self.concrete(tx) == other.concrete(tx)
            return boolean(equal is (op == "=="))
        return None

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        no_keywords(tx, name, kwargs)
        if name in _RANGE_METHODS and len(args) == _RANGE_METHODS[name]:
            result: VariableTracker = getattr(self, _NAMES.get(name, name))(tx, *args)
            return result
        unsupported("unsupported-method", value="range", name=name)

    def index(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        numbers = self.numbers(tx)
        number = item.specialize(tx) if isinstance(item, SymNodeVariable) else item
        if number.constant() not in numbers:
            tx.raise_error(ValueError, f"{number.constant()!r} is not in range")
        return ConstantVariable(numbers.index(number.constant()))

    def count(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        return ConstantVariable(int(self.contains(tx, item).truth(tx)))

    def hash_key(self, tx: Tracer) -> Any:
        return self.concrete(tx)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(range, *(lambda part=part: cg.load(part) for part in self.parts))


_NAMES = {
    "__len__": "length", "__iter__": "iterate", "__contains__": "contains", "__getitem__": "get_item",
    "__reversed__": "reverse_iterate",
}  # fmt: skip
_RANGE_METHODS = {
    "__len__": 0, "__iter__": 0, "__reversed__": 0, "__contains__": 1, "__getitem__": 1, "index": 1, "count": 1,
}  # fmt: skip


class SliceVariable(Bounds):
    """slice(start, stop, step)"""

    kind = slice

    def concrete(self, tx: Tracer) -> slice:
        """The slice of ints and None, by which a sequence of Python is sliced."""
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

    def truth(self, tx: Tracer) -> bool:
        return True

    def hash_key(self, tx: Tracer) -> Any:
        tx.raise_error(TypeError, "unhashable type: 'slice'")

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        no_keywords(tx, name, kwargs)
        if name == "indices" and len(args) == 1:
            length = as_int(tx, args[0])
            if length is None or length < 0:
                unsupported("call-arguments", error="slice.indices")
            return tx.literal(self.concrete(tx).indices(length))
        unsupported("unsupported-method", value="slice", name=name)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if isinstance(other, SliceVariable):
            return tx.compare(op, tx.tuple_of(self.parts), tx.tuple_of(other.parts))
        return None

    def reconstruct(self, cg: ValueCodegen) -> None:
        for part in self.parts:
            cg.load(part)
        cg.asm.emit("BUILD_SLICE", 3)


__all__ = ["NONE", "NOT_AN_INDEX", "RangeVariable", "SliceVariable", "as_int", "index_of"]
