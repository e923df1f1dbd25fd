"""Keys whose class defines `__hash__` in Python: both it and `__eq__` are traced, when CPython's own tables ask."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.variables.base import VariableTracker

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer


class HashedObject:
    """The hash key of an object. Tables compare it as CPython's would compare the object: where hashes are equal."""

    def __init__(self, tx: Tracer, value: VariableTracker, hashed: int) -> None:
        self._trace = tx.trace
        self.value = value
        self._hash = hashed

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HashedObject):
            unsupported("unhashable-in-trace", value=f"{self.value.describe()} beside a key of another kind with the same hash")
        if self.value is other.value:
            return True
        frame: Any = self._trace.frame  # the one that asks now
        return frame.same_or_equal(self.value, other.value)  # type: ignore[no-any-return]
