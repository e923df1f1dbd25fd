"""The operators of Python on tracked values: which operand is asked first, and what happens when none answers."""

from __future__ import annotations

import collections
import types

import numpy as np

from tracer.graph_breaks import unsupported
from tracer.guards.identity import Distinct
from tracer.protocol.lookups import lookup
from tracer.protocol.tracer import Tracer
from tracer.protocol.variable import VariableTracker
from tracer.sources.reading import is_heap_type
from tracer.variables.builders.weak_references import WeakReferenceVariable
from tracer.variables.functions.python_functions import UserFunctionVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.objects.untraceable import OpaqueVariable
from tracer.variables.slots import DUNDER
from tracer.variables.values.constant import ConstantVariable, boolean, is_nan
from tracer.variables.values.identities import COPIED, constants_are_one, might_be_one
from tracer.variables.values.symbolic import SymNodeVariable

_MIRROR = {"<": ">", "<=": ">=", "==": "==", "!=": "!=", ">": "<", ">=": "<="}
_REPEATED = (str, bytes, bytearray, list, tuple, collections.deque)


class _SortKey:
    def __init__(self, tx: Tracer, key: VariableTracker, item: VariableTracker) -> None:
        self.tx = tx
        self.key = key
        self.item = item

    def __lt__(self, other: _SortKey) -> bool:
        return self.tx.binary_truth("<", self.key, other.key)


def binary(tx: Tracer, op: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    if _asks_right_first(op, left, right):
        result = right.binary(tx, op, left, True) or left.binary(tx, op, right, False)
    elif left.python_type() is right.python_type() and is_heap_type(left.python_type()):  # then C asks the left one alone
        result = left.binary(tx, op, right, False)
    else:
        result = left.binary(tx, op, right, False) or right.binary(tx, op, left, True)
    if result is None:
        unsupported("unsupported-operator", left=left.describe(), op=op, right=right.describe())
    return result


def inplace(tx: Tracer, op: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    if op == "*" and _is_repeated(left, right):
        return binary(tx, op, left, right)
    return left.inplace(tx, op, right) or binary(tx, op, left, right)


def compare(tx: Tracer, op: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    if _prefers_right(left, right):
        result = right.compare(tx, _MIRROR[op], left) or left.compare(tx, op, right)
    else:
        result = left.compare(tx, op, right) or right.compare(tx, _MIRROR[op], left)
    if result is not None:
        return result
    if op in ("==", "!=") and not _has_equality_of_its_own(left, right):
        tx.effects.cached.refuse_comparison(left, right)
        return boolean(_is_one(tx, left, right) is (op == "=="))
    unsupported("unsupported-operator", left=left.describe(), op=op, right=right.describe())


def binary_truth(tx: Tracer, op: str, left: VariableTracker, right: VariableTracker) -> bool:
    return compare(tx, op, left, right).truth(tx)


def same_or_equal(tx: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    """`left is right or left == right`, as containers compare their items."""
    return _is_one(tx, left, right) or binary_truth(tx, "==", left, right)


def _is_one(tx: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    """Whether both are the same object, with a guard that this stays so."""
    if left is right:
        return True
    for side in (left, right):
        if isinstance(side, UserFunctionVariable):
            side.guard_identity(tx)
    if not (left.is_constant() or right.is_constant()):
        tx.output.journal.refuse("it compares identities")
    if left.is_constant() and right.is_constant() and is_nan(left.constant()) and is_nan(right.constant()):
        return constants_are_one(tx, left, right)
    if left.identity() is right.identity():
        return True
    if isinstance(left, WeakReferenceVariable) and type(left) is type(right):
        if left.source is None or right.source is None:
            return left.is_one(tx, right)
    if left.source is not None and right.source is not None and might_be_one(tx, left, right):
        tx.guard(Distinct((left.source, right.source)))
    return False


def _is_singleton(value: VariableTracker) -> bool:
    """Whether a value is known by its kind alone: nothing else is the same object."""
    return value.is_constant() and type(value.constant()) in (type(None), bool, type(...), type(NotImplemented))


def is_same(tx: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    """`left is right`"""
    if left is right:
        return True
    tx.effects.cached.refuse_comparison(left, right)
    if not (_is_singleton(left) or _is_singleton(right)):
        tx.output.journal.refuse("it compares identities")
    if isinstance(left, SymNodeVariable) or isinstance(right, SymNodeVariable):
        if left.python_type() is not right.python_type():
            return False
        if left.python_type() is bool:
            return left.truth(tx) is right.truth(tx)
        unsupported("identity-of-a-value", left=left.describe(), right=right.describe())
    if issubclass(left.python_type(), np.generic) and left.python_type() is right.python_type():
        unsupported("identity-of-a-value", left=left.describe(), right=right.describe())
    if isinstance(left, ConstantVariable) and isinstance(right, ConstantVariable):
        return constants_are_one(tx, left, right)
    if _is_one(tx, left, right):
        return True
    if left.is_constant() and right.is_constant():  # the objects themselves are not at hand
        mine, theirs = left.constant(), right.constant()
        if type(mine) is type(theirs) and isinstance(mine, COPIED) and not isinstance(mine, bool) and mine == theirs:
            unsupported("identity-of-a-value", left=left.describe(), right=right.describe())
    return False


def unary(tx: Tracer, op: str, value: VariableTracker) -> VariableTracker:
    result = value.unary(tx, op)
    if result is None:
        unsupported("unsupported-operator", left=op, op="", right=value.describe())
    return result


def dunder(tx: Tracer, op: str, prefix: str = "") -> str:
    return f"__{prefix}{DUNDER[op]}__"


def sort_values(
    tx: Tracer, items: list[VariableTracker], key: VariableTracker, reverse: VariableTracker
) -> list[VariableTracker]:
    """The items as CPython's own sort orders them, so that the program's comparisons are traced in CPython's order."""
    plain = key.is_none()
    keys = items if plain else [key.call(tx, [item], {}) for item in items]
    rows = [_SortKey(tx, key, item) for key, item in zip(keys, items)]
    rows.sort(reverse=reverse.truth(tx))
    return [row.item for row in rows]


def _prefers_right(left: VariableTracker, right: VariableTracker) -> bool:
    """Whether the right operand's class is a subclass of the left's, so that its method is asked first."""
    if left.is_constant() and right.is_constant():
        return False
    try:
        left_type, right_type = left.python_type(), right.python_type()
    except Exception:
        return False
    return left_type is not right_type and issubclass(right_type, left_type)


def _asks_right_first(op: str, left: VariableTracker, right: VariableTracker) -> bool:
    if op == "*" and _is_repeated(left, right):
        return True
    return _prefers_right(left, right) and _is_reflected_anew(op, left, right)


def _is_repeated(left: VariableTracker, right: VariableTracker) -> bool:
    """Whether a sequence is multiplied with an object whose `__rmul__` CPython asks before it repeats the sequence."""
    if not isinstance(right, UserObjectVariable):
        return False
    answers = isinstance(lookup(right.python_type(), "__rmul__")[1], types.FunctionType)
    return answers and lookup(left.python_type(), "__mul__")[0] in _REPEATED


def _is_reflected_anew(op: str, left: VariableTracker, right: VariableTracker) -> bool:
    """Whether the right operand's class has another reflected method than the left operand's class, its base."""
    name = f"__r{DUNDER[op]}__"
    return lookup(left.python_type(), name)[1] is not lookup(right.python_type(), name)[1]


def _has_equality_of_its_own(left: VariableTracker, right: VariableTracker) -> bool:
    """Whether C code compares the two in a way that is not modelled, as it does bound methods and cells."""
    for side in (left, right):  # objects that are not modelled
        if isinstance(side, OpaqueVariable) and lookup(side.python_type(), "__eq__")[0] is not object:
            return True
    cls = left.python_type()
    if cls is not right.python_type() or left is right or isinstance(left, UserObjectVariable):
        return False
    return isinstance(lookup(cls, "__eq__")[1], types.WrapperDescriptorType) and lookup(cls, "__eq__")[0] is not object
