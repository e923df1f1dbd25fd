"""Items of containers that existed before the frame ran are wrapped, and guarded, when they are first read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer.protocol.variable import VariableTracker

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.sources import Source


class Unwrapped:
    """A value that nobody has read yet, and how to reach it."""

    __slots__ = ("source", "value")

    def __init__(self, value: Any, source: Source) -> None:
        self.value = value
        self.source = source


def realize(tx: Tracer, store: Any, key: Any) -> VariableTracker:
    """store[key], wrapped in place if it was not."""
    item: VariableTracker | Unwrapped = store[key]
    if isinstance(item, Unwrapped):
        item = store[key] = tx.wrap(item.value, item.source)
    return item
