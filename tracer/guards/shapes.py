"""Guards on sizes and ints: expressions that the trace decided, over sources that are read as plain numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind, shown
from tracer.guards.demands import Demand
from tracer.guards.linear import intervals_of
from tracer.locations import UserLocation
from tracer.sources.base import Source
from tracer.sources.roots import ArgumentSource, LocalSource
from tracer.sources.tensors import StorageOffsetSource, TensorSizeSource, TensorStrideSource
from tracer.user_marks import SizePredicate

if TYPE_CHECKING:
    from tracer.guards.implication import Known


_OF_TENSORS = (TensorSizeSource, TensorStrideSource, StorageOffsetSource)


class _Condition(Guard):
    """Keeps what a condition demands, which is computed once."""

    __slots__ = ("_found",)
    _found: tuple[tuple[Demand, ...], bool]


@guard_kind
class ShapeLine(_Condition):
    """One expression. `template` is Python with `{0}`, `{1}`, ... for the labels, which are sources of numbers.

    `recorded` is the form in which the trace met it, if it was simplified since.
    """

    template: str
    labels: tuple[Source, ...]
    recorded: str | None = None
    kind: ClassVar[str] = "SHAPE_ENV"

    @classmethod
    def of(
        cls,
        render: Callable[[Callable[[Source], str]], str],
        recorded: str | None = None,
        where: UserLocation | None = None,
    ) -> ShapeLine:
        """From a printer: `render(text_of_label)` gives the expression, asking for the text of each label.

        The printer sees the labels' names, by which it may sort, between marks by which they are found again.
        """
        labels: dict[str, Source] = {}

        def name(source: Source) -> str:
            labels[source.name] = source
            return f"\1{source.name}\2"

        text = render(name)
        index = {label: i for i, label in enumerate(labels)}
        template = re.sub("\1([^\2]*)\2", lambda found: f"{{{index[found[1]]}}}", text)
        return cls(template, tuple(labels.values()), recorded, where=where)

    def sources(self) -> tuple[Source, ...]:
        return self.labels

    def text(self, name: Callable[[Source], str]) -> str:
        """The expression with each label named."""
        names = [name(label) for label in self.labels]
        return re.sub(r"\{(\d+)\}", lambda field: names[int(field[1])], self.template)

    def demands(self) -> tuple[Demand, ...]:
        return self._intervals()[0]

    def says_all(self) -> bool:
        return self._intervals()[1]

    def _intervals(self) -> tuple[tuple[Demand, ...], bool]:
        try:
            return self._found
        except AttributeError:
            self._found = found = intervals_of(self.template, self.labels)
            return found

    def check(self, code: CheckScope) -> str | None:
        return self.text(code.read)

    def follows_from(self, known: Known) -> bool:
        return True  # it is about sizes

    def lines(self) -> list[str]:
        return [self.text(lambda source: source.name)]

    def shows_data(self) -> bool:
        """An int that is no argument itself may be data."""
        return not all(isinstance(label, (*_OF_TENSORS, LocalSource, ArgumentSource)) for label in self.labels)

    def explain(self, *seen: Any) -> Mismatch:
        values = ", ".join(f"{label.name} = {shown(value)}" for label, value in zip(self.labels, seen, strict=True))
        return Mismatch(self.lines()[0], "true", f"false for {values}")


@guard_kind
class ShapeGuards(Guard):
    """All shape guards of a trace, in the order in which they are checked."""

    shape_lines: tuple[ShapeLine, ...]
    kind: ClassVar[str] = "SHAPE_ENV"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape_lines", tuple(self.shape_lines))

    @classmethod
    def of(cls, lines: Iterable[tuple[str, tuple[Source, ...]]]) -> ShapeGuards:
        """From (template, labels) pairs."""
        return cls(tuple(ShapeLine(template, tuple(labels)) for template, labels in lines))

    def sources(self) -> tuple[Source, ...]:
        return tuple(dict.fromkeys(label for line in self.shape_lines for label in line.labels))

    def parts(self) -> tuple[Guard, ...]:
        return self.shape_lines

    def lines(self) -> list[str]:
        return [text for line in self.shape_lines for text in line.lines()]

    def check(self, code: CheckScope) -> str | None:
        raise TypeError("shape guards are checked line by line")

    def follows_from(self, known: Known) -> bool:
        return True

    def log_name(self) -> str:
        return self.kind


@guard_kind
class PredicateMatch(Guard):
    """A condition of the user on a size (`user_marks.SizePredicate`) holds, or does not, as in the trace."""

    source: Source
    predicate: SizePredicate
    holds: bool
    kind: ClassVar[str] = "SIZE_PREDICATE"
    told: ClassVar[bool] = True

    def check(self, code: CheckScope) -> str | None:
        return f"{code.const(self.predicate.holds, 'holds')}({code.read(self.source)}) is {self.holds}"

    def lines(self) -> list[str]:
        return [f"{self.predicate!r}({self.source.name}) is {self.holds}"]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch(f"{self.predicate!r}({self.source.name}) changed", str(self.holds), f"{not self.holds} for {seen[0]}")
