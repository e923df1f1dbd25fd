"""`id(obj)`: an int whose value is known only when the program runs, while the trace knows which ids are equal."""

from __future__ import annotations

import enum
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph_breaks import unsupported
from tracer.guards.constants import LIBRARY_VALUES, same_constant
from tracer.guards.identity import Distinct, IdMatch, SameObject
from tracer.protocol.variable import VariableTracker
from tracer.variables.values.constant import boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen


#: Objects of these classes are guarded by identity or, if they are tensors, to be distinct.
ALWAYS_APART = (torch.Tensor, type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


def might_be_one(tx: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    """Whether two objects that are different now could be the same object in another call that passes the guards."""
    if left.source is None or right.source is None or (left.is_constant() and right.is_constant()):
        return False  # made by this call, or guarded by value
    if not all(side.is_constant() or tx.trace.builder.is_by_identity(side) for side in (left, right)):
        return False  # a number that varies: nobody knows which object it is
    cls = left.python_type()
    return cls is right.python_type() and not issubclass(cls, ALWAYS_APART)


COPIED = (int, float, complex, str, bytes, tuple, frozenset, range, slice, torch.device,
          *LIBRARY_VALUES)  # equal values need not be one object  # fmt: skip


def constants_are_one(tx: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    """Whether two constants are one object. Other guards check only what they equal, so the answer is guarded if it can vary."""
    mine, theirs = left.constant(), right.constant()
    if type(mine) is not type(theirs) or not isinstance(mine, COPIED) or isinstance(mine, (bool, enum.Enum)):
        return mine is theirs
    if not same_constant(mine, theirs):
        return False
    if mine is theirs and (_is_shared(mine) or left.source == right.source):
        return True
    if left.source is not None and right.source is not None:
        sources = left.source, right.source
        tx.guard(SameObject(*sources) if mine is theirs else Distinct(sources))
        return mine is theirs
    if mine is not theirs:
        unsupported("identity-of-a-value", left=left.describe(), right=right.describe())
    source = left.source or right.source
    if source is not None:
        tx.guard(IdMatch(source, mine))
    return True


def _is_shared(value: Any) -> bool:
    """Whether CPython has a single object for all values equal to this one."""
    if isinstance(value, int):
        return -5 <= value <= 256
    return isinstance(value, (str, bytes, tuple)) and not value


class Identity:
    """The hash key of `id(value)`. Keys of one object are equal. Equal constants may be distinct: comparing them breaks."""

    def __init__(self, value: VariableTracker) -> None:
        self.value = value  # kept alive, so that no other object takes its place
        self.constant = value.is_constant()
        self.object: Any = value.constant() if self.constant else value.identity()

    def __hash__(self) -> int:
        if not self.constant:
            return self._place()
        try:
            return hash((type(self.object), self.object))
        except TypeError:  # a slice, which is a constant, too
            return hash(type(self.object))

    def _place(self) -> int:
        """A number for the object. A tuple is made anew by each call of `identity()`, so its parts stand for the object."""
        if type(self.object) is tuple:
            return hash(tuple(part if isinstance(part, str) else id(part) for part in self.object))
        return id(self.object)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Identity) or self.constant != other.constant:
            return False
        if not self.constant:
            return self._place() == other._place()
        if type(self.object) is not type(other.object) or self.object != other.object:
            return False
        if self.object is not None and not isinstance(self.object, (bool, type(...))):
            unsupported("identity-of-a-value", left=self.value.describe(), right=other.value.describe())
        return True


class IdVariable(VariableTracker):
    """id(value)"""

    def __init__(self, value: VariableTracker) -> None:
        self.value = value
        self.key = Identity(value)

    def python_type(self) -> type:
        return int

    def describe(self) -> str:
        return f"IdVariable({self.value.describe()})"

    def children(self) -> Iterable[VariableTracker]:
        return (self.value,)

    def truth(self, tx: Tracer) -> bool:
        return True

    def hash_key(self, tx: Tracer) -> Any:
        tx.trace.hashed.by_identity(self.value)
        return self.key

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if op in ("==", "!=") and isinstance(other, IdVariable):
            if might_be_one(tx, self.value, other.value):
                return boolean(tx.is_same(self.value, other.value) is (op == "=="))
            return boolean((self.key == other.key) is (op == "=="))
        number = other.constant() if other.is_constant() else None
        if op in ("==", "!=") and isinstance(number, int) and self.value.source is not None and not self.key.constant:
            return boolean((self._known(tx) == number) is (op == "=="))
        unsupported("unsupported-operator", left=self.describe(), op=op, right=other.describe())

    def _known(self, tx: Tracer) -> int:
        """The number itself, for an object that existed before the frame, with a guard on its identity."""
        assert self.value.source is not None
        obj = self.value.real(tx) if hasattr(self.value, "real") else self.key.object
        if isinstance(obj, (VariableTracker, tuple)):
            unsupported("identity-of-a-value", left=self.describe(), right="a number")
        tx.guard(IdMatch(self.value.source, obj))
        return id(obj)

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.value.is_constant() and self.value.source is None:
            unsupported("cannot-reconstruct", value=self.describe())
        cg.call_object(id, lambda: cg.load(self.value))


def refuse_unknown(hashed: Any, entries: Iterable[Any]) -> None:
    """Breaks the graph if a key and an entry are an id and another int: whether they are equal is known only at run time."""
    if type(hashed) in (Identity, int, tuple) and any(_may_be_equal(hashed, key) for key in entries):
        unsupported("unhashable-in-trace", value="id(...) among other numbers")


def _may_be_equal(one: Any, other: Any) -> bool:
    """Whether it depends on addresses in memory if two keys are equal: one is an id, the other a number."""
    first, second = type(one), type(other)
    if first is second is tuple:
        return len(one) == len(other) and any(map(_may_be_equal, one, other))
    return (first is Identity and _is_int(other)) or (second is Identity and _is_int(one))


def _is_int(key: Any) -> bool:
    return isinstance(key, int) and not isinstance(key, bool)
