"""Whether the arguments of two calls are alike for a trace: of the same kinds, tensors with the same metadata in the same
symbols, equal constants, and otherwise the very same tracked values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph.fakes.fake_tensors import is_leaf
from tracer.guards.constants import is_guardable_constant, same_constant
from tracer.operators.results import dispatch_keys
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import SizeVariable
from tracer.variables.containers.sequence_base import SequenceVariable
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.iteration import IteratorVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import ConstantVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.effects.log import Effects
    from tracer.interpreter.binding import Passed


class NotRepeatable(Exception):
    """What a call did cannot be done once more for another object. The message says why."""


def form_of_tensor(fake: torch.Tensor) -> tuple[Any, ...]:
    """What a trace can ask of a tensor of the graph."""
    return (
        type(fake), fake.dtype, fake.device, fake.layout, fake.requires_grad, is_leaf(fake), fake.is_inference(),
        dispatch_keys(fake), len(fake.shape), *map(form_of_number, fake.shape), *map(form_of_number, fake.stride()),
        form_of_number(fake.storage_offset()),
    )  # fmt: skip


def form_of_number(number: Any) -> Any:
    """An expression has one node in a trace."""
    return number if type(number) is int else number.node


def is_plain_tensor(value: VariableTracker) -> bool:
    """Whether a tensor of the graph is nothing more than that."""
    if type(value) is not TensorVariable:
        return False
    special = value.is_made_parameter or value.held is not None or value.retained is not None or value.hooked_at is not None
    return not special and value.known is None


class Likeness:
    """The arguments of one call, as the trace saw them when it began."""

    def __init__(self, arguments: Iterable[VariableTracker], names: tuple[str, ...], passed: Passed | None) -> None:
        """`names` are those of the last arguments; `passed` is what the call passes on besides."""
        self.forms: list[tuple[Any, ...]] = [(str, *names)]
        self.leaves: list[VariableTracker] = []  # tensors and symbolic numbers
        self.nodes: list[Any] = []  # of the leaves, at that time
        self.sequences: list[VariableTracker] = []  # tuples that the trace made
        self.objects: list[VariableTracker] = []  # which have to be the very same in another call
        self.constants: list[Any] = []
        self.refusal = ""  # why no other call is alike
        for argument in arguments:
            self._add(argument)
        if passed is not None:
            self._add_passed(passed)

    def _add_passed(self, passed: Passed) -> None:
        rest = passed.rest
        if rest is not None:
            self.forms.append((id(rest.call_form), rest.start, rest.is_read()))
            for first in rest.first:
                self._add(first)
        facts, values = passed.keywords.likeness()
        self.forms.append(facts)
        for value in values:
            if isinstance(value, VariableTracker):
                self._add(value)
            else:
                self.refusal = "an argument was not read yet"

    def _add(self, value: VariableTracker) -> None:
        kind = type(value)
        has_source = value.source is not None
        if kind is ConstantVariable and is_guardable_constant(value.constant()):
            self.forms.append((kind,))
            self.constants.append(value.constant())
        elif kind is TensorVariable and is_plain_tensor(value):
            tensor: Any = value
            self.forms.append((kind, tensor.cls, has_source, *form_of_tensor(tensor.fake)))
            self._add_leaf(tensor)
        elif kind is SymNodeVariable:
            number: Any = value
            self.forms.append((kind, type(number.example), has_source, number.example.node))
            self._add_leaf(number)
        elif kind in (TupleVariable, SizeVariable) and not has_source:
            items = list(value.holdings())
            self.forms.append((kind, len(items)))
            self.sequences.append(value)
            for item in items:
                if isinstance(item, VariableTracker):
                    self._add(item)
                else:
                    self.refusal = "an argument holds what was not read yet"
        else:
            self._add_object(value)

    def _add_leaf(self, value: Any) -> None:
        self.leaves.append(value)
        self.nodes.append(value.node)

    def _add_object(self, value: VariableTracker) -> None:
        made = isinstance(value, UserObjectVariable) and value.value is None
        if made or isinstance(value, IteratorVariable) or type(value) in (TensorVariable, SymNodeVariable):
            self.refusal = f"it is given {value.describe()}"
        self.forms.append((type(value),))
        self.objects.append(value)

    def difference(self, other: Likeness) -> str:
        """In what the arguments of two calls differ; empty if they are alike."""
        if len(self.forms) != len(other.forms):
            return "the arguments are others"
        for mine, others in zip(self.forms, other.forms):
            if mine != others:
                return f"an argument is {others}, not {mine}"
        if not all(map(same_constant, other.constants, self.constants)):
            return f"a constant is another: {other.constants}, not {self.constants}"
        for one, another in zip(self.objects, other.objects):
            if one is not another:
                return f"{another.describe()} is another object than {one.describe()}"
        return ""

    def reaches(self, effects: Effects, targets: set[VariableTracker], more: Iterable[VariableTracker] = ()) -> bool:
        """Whether one of the targets is an argument, or held by one, or one of `more`, or held by one of those."""
        todo: list[VariableTracker] = [*self.leaves, *self.objects, *more]
        seen: set[VariableTracker] = set()
        while todo:
            value = todo.pop()
            if value in targets:
                return True
            if value not in seen:
                seen.add(value)
                todo += effects.held_by(value)
        return False


def parts_of(value: VariableTracker | None) -> Iterator[VariableTracker]:
    """A result of an operation and, where it is a sequence, its items, the outermost first."""
    if value is None:
        raise NotRepeatable("an operation failed in it")
    yield value
    if isinstance(value, SequenceVariable):
        for item in value.holdings():
            if not isinstance(item, VariableTracker):
                raise NotRepeatable("a result was not read yet")
            yield from parts_of(item)
