"""Buffers that the trace makes: io.StringIO, io.BytesIO, bytearray and array.array. Their contents are known, so that a shadow of
each, a real buffer, does while tracing what the program asks for; the output code makes the buffer as it is in the end."""

from __future__ import annotations

import array
import functools
import io
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import defines, type_name
from tracer.protocol.variable import ObservedException, is_exception
from tracer.variables.containers.ranges import NOT_AN_INDEX, index_of
from tracer.variables.iteration import IteratorVariable
from tracer.variables.slots import BINARY, COMPARE
from tracer.variables.text import plain_form
from tracer.variables.values.constant import FALSE, NONE, ConstantVariable, NamedMethodVariable, fold

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.protocol.variable import VariableTracker

BUFFERS: tuple[type, ...] = (io.StringIO, io.BytesIO, bytearray, array.array)
_INDEXED = (bytearray, array.array)
# Methods that give the memory of the buffer, take what is not a constant, or make another state.
_REFUSED = frozenset(
    "getbuffer detach readinto readinto1 fileno __init__ __setstate__ __getstate__ __reduce__ __reduce_ex__ __sizeof__ "
    "buffer_info fromfile tofile __buffer__ __release_buffer__".split()
)


class BufferVariable(IteratorVariable):
    """`value` is the shadow. A stream is its own iterator; a bytearray and an array are read by index."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def python_type(self) -> type:
        return type(self.value)

    @property
    def _is_stream(self) -> bool:
        return not isinstance(self.value, _INDEXED)

    def form(self, tx: Tracer) -> Any:
        if self._is_stream:  # its text has its address
            unsupported("format-of-runtime-value", value=self.describe())
        return self.value[:]

    def truth(self, tx: Tracer) -> bool:
        return self._is_stream or bool(self.value)

    def hash_key(self, tx: Tracer) -> Any:
        return self if self._is_stream else tx.raise_error(TypeError, f"unhashable type: {type_name(self.python_type())!r}")

    # -- attributes and methods ----------------------------------------------------------------------------------

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "__class__":
            return tx.class_variable(self.python_type())
        if not defines(self.python_type(), name):
            tx.raise_error(AttributeError, f"{type_name(self.python_type())!r} object has no attribute {name!r}")
        if name.startswith("__") and name not in ("__enter__", "__exit__"):
            return super().get_attr(tx, name)
        found = tx.run_now(getattr, self.value, name)
        return BufferMethodVariable(self, name) if callable(found) else tx.literal(found)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name == "__reduce_ex__" and isinstance(self.value, bytearray) and len(args) == 1:
            return self._reduced(tx, args[0])
        if name in ("__copy__", "__deepcopy__") and not self._is_stream:  # of an array; the memo is not looked into
            return BufferVariable(self.value[:])
        if name in _REFUSED or not defines(self.python_type(), name):
            unsupported("unsupported-method", value=self.describe(), name=name)
        if name == "__iter__":
            return self.iterate(tx)
        if name == "__exit__":
            self._ask(tx, "close" if self._is_stream else "release", [], {})
            return NONE
        return self._ask(tx, name, args, kwargs)

    def _reduced(self, tx: Tracer, protocol: VariableTracker) -> VariableTracker:
        if not protocol.is_constant() or protocol.constant() < 3:
            unsupported("unsupported-method", value=self.describe(), name="__reduce_ex__")
        return tx.tuple_of([tx.class_variable(bytearray), tx.literal((bytes(self.value),)), NONE])

    def _ask(self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        """What the shadow gives."""
        given = [_plain_index(tx, arg) if name in _BY_INDEX and not at else plain_form(tx, arg) for at, arg in enumerate(args)]
        named = {key: plain_form(tx, value) for key, value in kwargs.items()}
        self.is_written(tx)
        try:
            found = tx.run_now(getattr(self.value, name), *given, **named)
        except ObservedException as raised:
            if is_exception(raised.value, BufferError):  # whether a memoryview still lives depends on references
                unsupported("unsupported-method", value=f"{self.describe()}, which has a memoryview,", name=name)
            raise
        return self if found is self.value else self.tracked(tx, found)

    def is_written(self, tx: Tracer) -> None:
        """Its contents are about to change, or may be."""
        tx.effects.mutate(self)

    def tracked(self, tx: Tracer, found: Any) -> VariableTracker:
        """The tracked form of what the shadow gave."""
        return BufferVariable(found) if type(found) in BUFFERS else tx.literal(found)

    # -- operators and iteration ---------------------------------------------------------------------------------

    def length(self, tx: Tracer) -> VariableTracker:
        return super().length(tx) if self._is_stream else ConstantVariable(len(self.value))

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        return super().contains(tx, item) if self._is_stream else self._ask(tx, "__contains__", [item], {})

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if self._is_stream or reflected:
            return None if self._is_stream else unsupported("unsupported-operator", left="bytes", op=op, right=self.describe())
        return BufferVariable(tx.run_now(BINARY[op], self.value, plain_form(tx, other)))

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if self._is_stream:
            return None
        if not (isinstance(other, BufferVariable) or other.is_constant()):
            return FALSE if op == "==" else None
        return fold(tx, COMPARE[op], self.value, plain_form(tx, other))

    def iterate(self, tx: Tracer) -> VariableTracker:
        if self._is_stream:
            return self
        return tx.literal(tuple(self.value)).iterate(tx)

    def advance(self, tx: Tracer) -> VariableTracker | None:
        line = self.value.readline()
        return tx.literal(line) if line else None

    # -- code ----------------------------------------------------------------------------------------------------

    def reconstruct(self, cg: ValueCodegen) -> None:
        if isinstance(self.value, array.array):
            kind, data = self.value.typecode, self.value.tobytes()
            cg.call_object(array.array, lambda: cg.load_const(kind), lambda: cg.load_const(data))
        elif not self._is_stream:
            cg.call_object(bytearray, lambda: cg.load_const(bytes(self.value)))
        elif self.value.closed:
            cg.call_object(_CLOSED[type(self.value)])
        else:
            state = self.value.__getstate__()[:-1]  # without its __dict__, which is empty
            cg.call_object(_IN_STATE[type(self.value)], lambda: cg.load_const(state))


_BY_INDEX = ("__getitem__", "__setitem__", "__delitem__")


def _plain_index(tx: Tracer, key: VariableTracker) -> Any:
    number = index_of(tx, key)
    return plain_form(tx, key) if number is NOT_AN_INDEX else number


class BufferMethodVariable(NamedMethodVariable):
    """A bound method of a buffer."""

    def python_type(self) -> type:
        return type(len)


def _in_state(cls: type, state: tuple[Any, ...]) -> Any:
    """Called by output code: a stream with these contents, at this position."""
    made: Any = cls()
    made.__setstate__((*state, None))
    return made


def _closed(cls: type) -> Any:
    """Called by output code."""
    made: Any = cls()
    made.close()
    return made


_IN_STATE = {cls: functools.partial(_in_state, cls) for cls in BUFFERS}
_CLOSED = {cls: functools.partial(_closed, cls) for cls in BUFFERS}
