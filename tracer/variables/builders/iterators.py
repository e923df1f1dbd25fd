"""From built-in iterators that existed before the frame ran to their tracked form."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from tracer.guards.containers import LengthMatch
from tracer.guards.identity import TypeMatch
from tracer.protocol.variable import VariableTracker
from tracer.sources.builtin_iterators import (
    BACKWARD_ITERATORS,
    COMPOSED_ITERATORS,
    FORWARD_ITERATORS,
    items_left,
    iterator_parts,
)
from tracer.sources.containers import ItemSource
from tracer.sources.iterators import IteratorPartsSource
from tracer.variables.builders.builder import VariableBuilder, opaque, tracks
from tracer.variables.iteration import FilterIterator, IteratorVariable, MapIterator, ZipIterator
from tracer.variables.iterators.existing_iterators import CountStream, EnumerateStream, StreamVariable, replays_by_asking

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.sources.base import Source


@tracks(*FORWARD_ITERATORS, *BACKWARD_ITERATORS)
def _stream(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    try:
        items_left(value)
    except TypeError:
        return opaque(builder, value, source)
    builder.guard(TypeMatch(source, type(value)))
    return builder.remember(value, StreamVariable(value, source))


@tracks(*COMPOSED_ITERATORS, itertools.count)
def _composed_iterator(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    try:
        parts = iterator_parts(value)
    except TypeError:  # a strict zip, a count of floats
        return opaque(builder, value, source)
    builder.guard(TypeMatch(source, type(value)))
    all_parts = IteratorPartsSource(source)
    builder.guard(LengthMatch(all_parts, len(parts)))
    wrapped = [tx.wrap(part, ItemSource(all_parts, index)) for index, part in enumerate(parts)]
    made: IteratorVariable
    if type(value) is itertools.count:
        made = CountStream(source, *wrapped)
    elif type(value) is zip:
        made = ZipIterator(wrapped, False)
    elif type(value) is map:
        made = MapIterator(wrapped[0], wrapped[1:])
    elif type(value) is filter:
        made = FilterIterator(wrapped[0], wrapped[1])
    elif replays_by_asking(wrapped[0]):
        made = EnumerateStream(source, *wrapped)
    else:
        return opaque(builder, value, source)
    made.source = source
    return builder.remember(value, made)
