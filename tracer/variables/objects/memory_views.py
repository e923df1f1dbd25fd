"""memoryviews of bytes that are known, and of buffers that the trace makes: views of the shadow, which read and write it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from tracer.graph_breaks import unsupported
from tracer.variables.objects.buffers import BufferVariable
from tracer.variables.text import plain_form
from tracer.variables.values.constant import ConstantVariable, boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.protocol.variable import VariableTracker


class _Contents(bytes):
    """The bytes of a view, for functions that read them. The text of a view has its address."""

    def __repr__(self) -> NoReturn:
        unsupported("format-of-runtime-value", value="a memoryview")

    __str__ = __repr__

    def __format__(self, spec: str) -> NoReturn:
        unsupported("format-of-runtime-value", value="a memoryview")


class MemoryViewVariable(BufferVariable):
    """`base`: the bytes or the buffer whose memory `value` shows; `is_whole`: it was made by memoryview(base)."""

    value: memoryview[Any]

    def __init__(self, value: memoryview[Any], base: VariableTracker, is_whole: bool = False) -> None:
        super().__init__(value)
        self.base = base
        self.is_whole = is_whole

    @property
    def _is_stream(self) -> bool:
        return False

    def children(self) -> Iterable[VariableTracker]:
        return (self.base,)

    def form(self, tx: Tracer) -> Any:
        return _Contents(self._read(tx, "tobytes"))

    def _read(self, tx: Tracer, name: str) -> Any:
        return tx.run_now(getattr(self.value, name))

    def truth(self, tx: Tracer) -> bool:
        return bool(self.length(tx).constant())

    def hash_key(self, tx: Tracer) -> Any:
        unsupported("unhashable-in-trace", value=self.describe())

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "obj":
            self._read(tx, "tobytes")  # of one that was released there is none
            return self.base
        return super().get_attr(tx, name)

    def is_written(self, tx: Tracer) -> None:
        tx.effects.mutate(self.base if isinstance(self.base, BufferVariable) else self)

    def tracked(self, tx: Tracer, found: Any) -> VariableTracker:
        return MemoryViewVariable(found, self.base) if type(found) is memoryview else super().tracked(tx, found)

    def length(self, tx: Tracer) -> VariableTracker:
        return ConstantVariable(tx.run_now(len, self.value))

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        sought = plain_form(tx, item)
        return boolean(tx.run_now(lambda: sought in self.value))

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        unsupported("unsupported-operator", left=self.describe(), op=op, right=other.describe())

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if op not in ("==", "!="):
            return None
        compared = other.value if isinstance(other, BufferVariable) else plain_form(tx, other)
        return boolean((self.value == compared) is (op == "=="))

    def iterate(self, tx: Tracer) -> VariableTracker:
        return tx.literal(tuple(self._read(tx, "tolist"))).iterate(tx)

    def reconstruct(self, cg: ValueCodegen) -> None:
        if not self.is_whole:
            unsupported("cannot-reconstruct", value="a part of a memoryview, or another format of one,")
        cg.call_object(memoryview, lambda: cg.load(self.base))
