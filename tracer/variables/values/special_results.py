"""Checks of what special methods of the program's own classes return. They raise the errors that C raises for wrong results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import defines, type_name
from tracer.protocol.variable import NO_CONTAINER, ObservedException, VariableTracker, is_exception
from tracer.variables.values.constant import ZERO, ConstantVariable, boolean
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


def checked_iterator(tx: Tracer, answer: VariableTracker) -> VariableTracker:
    """Checks that the result of `__iter__` has `__next__`, as CPython does: calling the empty slot would crash it."""
    kind = answer.python_type()
    if not defines(kind, "__next__"):
        tx.raise_error(TypeError, f"iter() returned non-iterator of type {type_name(kind)!r}")
    return answer


def contains_by_iteration(tx: Tracer, container: VariableTracker, item: VariableTracker) -> VariableTracker:
    """`item in container`, for a class without `__contains__`. As in CPython, a TypeError of `iter` is replaced by another."""
    try:
        iterator = container.iterate(tx)
    except ObservedException as raised:
        if not is_exception(raised.value, TypeError):
            raise
        tx.raise_error(TypeError, NO_CONTAINER.format(type_name(container.python_type())))
    while (mine := iterator.next(tx)) is not None:
        if tx.same_or_equal(mine, item):
            return boolean(True)
    return boolean(False)


def checked_truth(tx: Tracer, answer: VariableTracker) -> bool:
    """Checks the result of `__bool__` and returns the truth of it."""
    if answer.python_type() is not bool:
        tx.raise_error(TypeError, f"__bool__ should return bool, returned {type_name(answer.python_type())}")
    return answer.truth(tx)


def checked_index(tx: Tracer, answer: VariableTracker) -> VariableTracker:
    """Checks the result of `__index__` and returns it."""
    kind = answer.python_type()
    if not issubclass(kind, int):
        tx.raise_error(TypeError, f"__index__ returned non-int (type {type_name(kind)})")
    return answer


def _asked_for_its_length(make: Callable[[Any], Any]) -> bool:
    class Asked:
        asked = False

        def __len__(self) -> int:
            self.asked = True
            return 0

        def __iter__(self) -> Iterator[None]:
            return iter(())

    value = Asked()
    make(value)
    return value.asked


_FOR_A_TUPLE = _asked_for_its_length(tuple)  # until Python 3.13


def tuple_items(tx: Tracer, value: VariableTracker) -> list[VariableTracker]:
    """The items, where CPython fills a tuple with them, as it does for `tuple(value)` and `f(*value)`."""
    return value.collect(tx) if _FOR_A_TUPLE else value.unpack(tx)


def checked_length(tx: Tracer, answer: VariableTracker) -> VariableTracker:
    """Checks the result of `__len__` and returns what `len` makes of it."""
    kind = answer.python_type()
    if not defines(kind, "__index__"):
        tx.raise_error(TypeError, f"{type_name(kind)!r} object cannot be interpreted as an integer")
    if not isinstance(answer, SymNodeVariable) and not (answer.is_constant() and isinstance(answer.constant(), int)):
        if issubclass(kind, int):
            unsupported("unsupported-builtin", function=f"len that is {answer.describe()}")
        answer = checked_index(tx, answer.call_method(tx, "__index__", [], {}))
    if answer.is_constant():
        answer = ConstantVariable(int(answer.constant()))
    if tx.compare("<", answer, ZERO).truth(tx):
        tx.raise_error(ValueError, "__len__() should return >= 0")
    if answer.is_constant() and answer.constant() > sys.maxsize:
        tx.raise_error(OverflowError, "cannot fit 'int' into an index-sized integer")
    return answer
