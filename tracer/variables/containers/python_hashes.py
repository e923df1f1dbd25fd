"""Keys whose class defines `__hash__` in Python. Its `__hash__` and `__eq__` are traced when CPython's own tables call them.

CPython calls them again when the output code puts the key into a table. So neither may have a side effect, and both must
still give the same answers when the trace is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tracer.errors import Unsupported
from tracer.graph.output_graph import Refusal
from tracer.graph_breaks import unsupported
from tracer.protocol.variable import ObservedException, VariableTracker
from tracer.variables.values.identities import ALWAYS_APART, IdVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.sources.base import Source
    from tracer.variables.objects.instances import InstanceVariable

_ASKING = Refusal("unhashable-in-trace", "an object whose __hash__ or __eq__ has an effect")


class HashedKeys:
    """The answers that `__hash__` and `__eq__` of keys gave in one trace."""

    def __init__(self) -> None:
        self._hashes: list[tuple[InstanceVariable, int]] = []
        self._equalities: list[tuple[VariableTracker, VariableTracker, bool]] = []
        self._by_identity: dict[VariableTracker, None] = {}

    def __len__(self) -> int:
        return len(self._hashes) + len(self._equalities) + len(self._by_identity)

    def by_identity(self, value: VariableTracker) -> Any:
        """The identity of a value that is a key, or part of a key, and is equal only to itself. The value is recorded."""
        self._by_identity[value] = None
        return value.identity()

    def apart(self, has_identity: Callable[[VariableTracker], bool]) -> Iterable[tuple[Source, ...]]:
        """Groups of sources of recorded keys: those of one group must stay different objects, because lookups told them apart."""
        classes: dict[type, list[Source]] = {}
        for value in self._by_identity:
            if value.source is not None and not value.is_constant() and has_identity(value):
                classes.setdefault(value.python_type(), []).append(value.source)
        return [tuple(group) for cls, group in classes.items() if len(group) > 1 and not issubclass(cls, ALWAYS_APART)]

    def hash(self, tx: Tracer, value: InstanceVariable) -> HashedObject:
        hashed = _hash(tx, value)
        self._hashes.append((value, hashed))
        return HashedObject(tx, value, hashed)

    def equal(self, tx: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
        answer = _equal(tx, left, right)
        self._equalities.append((left, right, answer))
        return answer

    def ask_again(self, tx: Tracer) -> None:
        """Asks everything again at the end of the trace, and breaks the graph if an answer has changed."""
        try:
            same = all(_hash(tx, value) == hashed for value, hashed in self._hashes) and all(
                _equal(tx, left, right) is answer for left, right, answer in self._equalities
            )
        except (ObservedException, Unsupported):
            same = False
        if not same:
            unsupported("unhashable-in-trace", value="an object whose __hash__ or __eq__ depends on what was changed")

    def clear(self) -> None:
        self._hashes.clear()
        self._equalities.clear()
        self._by_identity.clear()


class HashedObject:
    """The hash key of an object. As with the object itself in CPython, a table calls `__eq__` only where hashes are equal."""

    def __init__(self, tx: Tracer, value: VariableTracker, hashed: int) -> None:
        self._trace = tx.trace
        self._tx = tx
        self.value = value
        self._hash = hashed

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HashedObject):
            unsupported("unhashable-in-trace", value=f"{self.value.describe()} beside a key of another kind with the same hash")
        if self.value is other.value:
            return True
        frame = self._trace.frame or self._tx  # the frame being traced; there is none while code is emitted
        return self._trace.hashed.equal(frame, self.value, other.value)


def _hash(tx: Tracer, value: InstanceVariable) -> int:
    with tx.trace.trial(_ASKING):
        hashed = value.call_special(tx, "__hash__")
    if isinstance(hashed, IdVariable):
        return hash(hashed.hash_key(tx))
    if hashed is None or not (hashed.is_constant() and isinstance(hashed.constant(), int)):
        unsupported("unhashable-in-trace", value=value.describe())
    return as_hash(hashed.constant())


def as_hash(number: int) -> int:
    """The result of hash() for an object whose `__hash__` returns `number`. It can differ from hash(number)."""
    return hash(Answering(number))


class Answering:
    """Has the hash that a number stands for."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __hash__(self) -> int:
        return self._number


def _equal(tx: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    with tx.trace.trial(_ASKING):
        return tx.same_or_equal(left, right)
