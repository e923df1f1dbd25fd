"""Models of `struct`: what is packed of constants, and unpacked of constant bytes, is known while tracing."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.protocol.models import foldable, models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.objects.buffers import BufferVariable
from tracer.variables.objects.structs import StructVariable, UnpackIterator
from tracer.variables.text import plain_form
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

foldable(struct.pack, struct.unpack, struct.calcsize)


@models(struct.pack_into)
def _pack_into(
    tx: Tracer, format: VariableTracker, buffer: VariableTracker, offset: VariableTracker, *values: VariableTracker
) -> VariableTracker:
    if not isinstance(buffer, BufferVariable):
        unsupported("unsupported-builtin", function=f"struct.pack_into {buffer.describe()}")
    given = [plain_form(tx, value) for value in (offset, *values)]
    buffer.is_written(tx)
    tx.run_now(struct.pack_into, plain_form(tx, format), buffer.value, *given)
    return NONE


@models(struct.unpack_from)
def _unpack_from(
    tx: Tracer, format: VariableTracker, /, buffer: VariableTracker, offset: VariableTracker | None = None
) -> VariableTracker:
    held = buffer.value if isinstance(buffer, BufferVariable) else plain_form(tx, buffer)
    return tx.literal(
        tx.run_now(struct.unpack_from, plain_form(tx, format), held, 0 if offset is None else plain_form(tx, offset))
    )


@models(struct.Struct)
def _struct(tx: Tracer, format: VariableTracker) -> VariableTracker:
    return StructVariable(tx.run_now(struct.Struct, plain_form(tx, format)))


@models(struct.iter_unpack)
def _iter_unpack(tx: Tracer, format: VariableTracker, buffer: VariableTracker, /) -> VariableTracker:
    data = buffer.constant()  # what a buffer holds may change before the iterator reads it
    items = list(tx.run_now(struct.iter_unpack, plain_form(tx, format), data))
    return UnpackIterator(tx, TupleVariable([tx.literal(item) for item in items]))
