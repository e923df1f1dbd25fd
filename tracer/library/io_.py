"""Models of buffers (io.StringIO, io.BytesIO, bytearray, array.array, memoryview), and of `print` into one."""

from __future__ import annotations

import array
import io
import sys
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.sources.roots import ModuleSource
from tracer.variables.objects.buffers import BufferVariable
from tracer.variables.objects.memory_views import MemoryViewVariable
from tracer.variables.text import formatted, plain_form
from tracer.variables.values.constant import FALSE, NONE, ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker


def _model_of_buffer(cls: type) -> Any:
    def model(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
        """A new buffer with contents that are known."""
        given = [plain_form(tx, arg) for arg in args]
        named = {key: plain_form(tx, value) for key, value in kwargs.items()}
        return BufferVariable(tx.run_now(cls, *given, **named))

    return model


for _cls in (io.StringIO, io.BytesIO, bytearray):
    models(_cls)(_model_of_buffer(_cls))


@models(array.array)
def _array(tx: Tracer, typecode: Value, *initial: Value) -> Value:
    kind, given = plain_form(tx, typecode), [plain_form(tx, value) for value in initial]
    if kind in ("u", "w"):  # of text
        unsupported("unsupported-builtin", function="array.array of text")
    return BufferVariable(tx.run_now(array.array, kind, *given))


@models(memoryview)
def _memory_view(tx: Tracer, object: Value) -> Value:
    if isinstance(object, MemoryViewVariable):
        return MemoryViewVariable(tx.run_now(memoryview, object.value), object.base)
    if isinstance(object, BufferVariable) and not isinstance(object.value, (io.StringIO, io.BytesIO)):
        return MemoryViewVariable(memoryview(object.value), object, is_whole=True)
    if not object.is_constant() or type(object.constant()) is not bytes:
        unsupported("unsupported-builtin", function=f"memoryview of {object.describe()}")
    return MemoryViewVariable(memoryview(object.constant()), object, is_whole=True)


@models(print)
def _print(tx: Tracer, *values: Value, sep: Value = NONE, end: Value = NONE, file: Value = NONE, flush: Value = FALSE) -> Value:
    """Writes to a buffer that the trace made, or to nowhere. Any other output has to happen at each call, in its place: the
    graph breaks."""
    target = tx.wrap(sys, ModuleSource("sys")).get_attr(tx, "stdout") if file.is_none() else file
    if target.is_none():
        return NONE
    if not isinstance(target, BufferVariable):
        unsupported("side-effect-call", name="print", value=", ".join(value.describe() for value in values))
    texts = [formatted(tx, str, [value], {}) for value in values]
    between, behind = (" " if sep.is_none() else sep.constant()), ("\n" if end.is_none() else end.constant())
    text = between.join(str(each.constant()) for each in texts) + behind
    target.call_method(tx, "write", [ConstantVariable(text)], {})
    return NONE
