"""Text with parts that are known only when the graph runs: f-strings over sizes, shapes and tensors.

Most of it is the message of a check that holds, which nobody reads. So such a text is no value yet but a recipe: dropped, it
costs nothing; taken out of the trace, the output code formats it; looked into, it becomes that of this call, as the
numbers in it do, or breaks the graph where it was made.

The handlers of f-strings (`interpreter.opcodes.strings`) ask `piece` of each part. A tensor's part is formatted after the
graph, so that it must not have been written to since: `_state` tells.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import torch

from tracer.errors import Unsupported
from tracer.graph_breaks import reason
from tracer.locations import UserStack
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.text import form
from tracer.variables.values.constant import ConstantVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracer.protocol.tracer import Tracer, ValueCodegen


class Piece(NamedTuple):
    """`format(conversion(value), spec)`, or `format(value, spec)` if the conversion is None."""

    value: SymNodeVariable | TensorVariable | TupleVariable
    conversion: Callable[[Any], str] | None
    spec: str
    break_step: int  # of the instruction that made it
    stack: UserStack = ()  # at that instruction
    state: tuple[Any, ...] | None = None  # of the tensor at that time; None if changes cannot be detected

    def is_as_it_was(self, tx: Tracer) -> bool:
        return not isinstance(self.value, TensorVariable) or (self.state is not None and self.state == _state(tx, self.value))

    def number(self, tx: Tracer) -> Any:
        """The number, or the tuple of numbers, specialised to its value in this call. A tensor breaks the graph."""
        if isinstance(self.value, TensorVariable):
            self.refuse()
        return form(tx, self.value)

    def refuse(self) -> NoReturn:
        # The graph breaks at the instruction that made the text, not at the one that wants to read it.
        details = {"value": self.value.describe()}
        raise Unsupported(reason("format-of-runtime-value"), details, stack=self.stack, break_step=self.break_step)


def piece(tx: Tracer, value: VariableTracker, conversion: Callable[[Any], str] | None, spec: str) -> Piece | None:
    """What is formatted later. None for other values, and where the formatting could raise: tensors take a format spec only where
    they have no dims, so that one with a spec is formatted later only after a conversion, which makes it a text."""
    if isinstance(value, TupleVariable) and _is_of_numbers(tx, value):
        if not spec or (conversion is not None and _always_formats("", None, spec)):
            return Piece(value, conversion, spec, tx.break_step())
    elif isinstance(value, SymNodeVariable):
        if _always_formats(value.python_type()(1), conversion, spec):
            return Piece(value, conversion, spec, tx.break_step())
    elif isinstance(value, TensorVariable) and value.cls is torch.Tensor and value.known is None:
        if not spec or (conversion is not None and _always_formats("", None, spec)):
            return Piece(value, conversion, spec, tx.break_step(), tx.trace.user_stack(), _state(tx, value))
    return None


def _is_of_numbers(tx: Tracer, value: TupleVariable) -> bool:
    """Whether a value is a tuple, or the sizes of a tensor, of symbolic numbers, and of constants beside them."""
    if value.python_type() not in (tuple, torch.Size):
        return False
    items = value.items(tx)
    symbolic = [isinstance(item, SymNodeVariable) for item in items]
    return any(symbolic) and all(is_symbol or isinstance(item, ConstantVariable) for is_symbol, item in zip(symbolic, items))


def rendered(value: Any, conversion: Callable[[Any], str] | None, spec: str) -> str:
    """The text that an f-string makes of a value."""
    return format(value if conversion is None else conversion(value), spec)


def _always_formats(sample: Any, conversion: Callable[[Any], str] | None, spec: str) -> bool:
    """Whether every value of the class of `sample` can be formatted so; one value of it is tried."""
    if spec.endswith("c"):  # not every number is a character
        return False
    try:
        rendered(sample, conversion, spec)
    except ValueError:
        return False
    return True


def _state(tx: Tracer, value: TensorVariable) -> tuple[Any, ...] | None:
    """A state that changes when the text of a tensor may. Inputs may alias one another, so it counts the writes to all."""
    fake, inputs = value.fake, [each.fake for each in tx.trace.input_tensors]
    if not any(each.untyped_storage()._cdata == fake.untyped_storage()._cdata for each in inputs):
        inputs = []
    if any(each.is_inference() for each in (fake, *inputs)):
        return None
    return fake._version, sum(each._version for each in inputs), fake.requires_grad, fake.grad_fn is None


class RuntimeTextVariable(VariableTracker):
    """A str that joins constant parts and pieces."""

    def __init__(self, tx: Tracer, parts: Iterable[str | Piece]) -> None:
        self._tx = tx
        self.parts = tuple(parts)
        self._value: str | None = None

    def python_type(self) -> type:
        return str

    def describe(self) -> str:
        parts = [part if isinstance(part, str) else f"{{{part.value.describe()}}}" for part in self.parts]
        return f"RuntimeTextVariable({''.join(parts)!r})"

    def with_spec(self, spec: str) -> RuntimeTextVariable | None:
        """`format(text, spec)`; None where that has to look into the text. From Python 3.13 on `{x!r:>30}` formats what one
        instruction has converted."""
        if not spec:
            return self
        part = self.parts[0] if len(self.parts) == 1 and self._value is None else None
        if not isinstance(part, Piece) or part.conversion is None or part.spec or not _always_formats("", None, spec):
            return None
        return RuntimeTextVariable(self._tx, (part._replace(spec=spec),))

    # -- specialised to this call ------------------------------------------------------------------------------------

    def is_constant(self) -> bool:
        return not any(isinstance(part, Piece) and isinstance(part.value, TensorVariable) for part in self.parts)

    def constant(self) -> str:
        if self._value is None:
            self._value = "".join(map(self._text_of, self.parts))
        return self._value

    def _text_of(self, part: str | Piece) -> str:
        if isinstance(part, str):
            return part
        return rendered(part.number(self._tx), part.conversion, part.spec)

    def _read(self) -> ConstantVariable:
        return ConstantVariable(self.constant())

    def form(self, tx: Tracer) -> str:
        return self.constant()

    def hash_key(self, tx: Tracer) -> Any:
        return self.constant()

    def identity(self) -> Any:
        return self

    def truth(self, tx: Tracer) -> bool:
        return bool(self.constant())

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        return self._read().get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        return self._read().call_method(tx, name, args, kwargs)

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if op == "+" and other.python_type() is str:
            mine, theirs = self.parts, parts_of(other)
            return RuntimeTextVariable(tx, theirs + mine if reflected else mine + theirs)
        return self._read().binary(tx, op, other, reflected)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        return self._read().compare(tx, op, other)

    def length(self, tx: Tracer) -> VariableTracker:
        return self._read().length(tx)

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        return self._read().get_item(tx, key)

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        return self._read().contains(tx, item)

    def iterate(self, tx: Tracer) -> VariableTracker:
        return self._read().iterate(tx)

    # -- in the output code ------------------------------------------------------------------------------------------

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self._value is not None:
            cg.load_const(self._value)
            return
        for part in self.parts:
            if not (isinstance(part, str) or part.is_as_it_was(self._tx)):
                part.refuse()
        cg.call_object(str.join, lambda: cg.load_const(""), lambda: self._load_parts(cg))

    def _load_parts(self, cg: ValueCodegen) -> None:
        for part in self.parts:
            if isinstance(part, str):
                cg.load_const(part)
            else:
                cg.call_object(format, functools.partial(_load_converted, cg, part), functools.partial(cg.load_const, part.spec))
        cg.asm.emit("BUILD_TUPLE", len(self.parts))

    def children(self) -> Iterable[VariableTracker]:
        return [part.value for part in self.parts if not isinstance(part, str)]


def _load_converted(cg: ValueCodegen, part: Piece) -> None:
    if part.conversion is None:
        cg.load(part.value)
    else:
        cg.call_object(part.conversion, lambda: cg.load(part.value))


def parts_of(value: VariableTracker) -> tuple[str | Piece, ...]:
    """The parts of a text, constant or not."""
    return value.parts if isinstance(value, RuntimeTextVariable) else (value.constant(),)
