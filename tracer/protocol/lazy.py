"""Lazy items: those of containers that existed before the frame ran are wrapped, and guarded, when they are first read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer.protocol.variable import VariableTracker

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.sources.base import Source


class Unwrapped:
    """A value that has not been read yet, and its source."""

    __slots__ = ("source", "value")

    def __init__(self, value: Any, source: Source) -> None:
        self.value = value
        self.source = source


def realize(tx: Tracer, store: Any, key: Any) -> VariableTracker:
    """store[key], which is wrapped in place if it has not been yet."""
    item: VariableTracker | Unwrapped = store[key]
    if isinstance(item, Unwrapped):
        item = store[key] = tx.wrap(item.value, item.source)
    return item
