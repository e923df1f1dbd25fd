"""Guards on how a call passes what its function takes as *args and **kwargs."""

from __future__ import annotations

from typing import Any, ClassVar

from tracer._C import WORD
from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind
from tracer.guards.demands import MOST, Demand, Feature, Length, Lies, Present, Word
from tracer.sources.base import Source
from tracer.sources.roots import ArgumentSource


@guard_kind
class PositionalCount(Guard):
    """How many arguments a call passes in *args: from `least` to `most` (None: any number)."""

    source: Source
    least: int
    most: int | None
    kind: ClassVar[str] = "POSITIONAL_COUNT"
    rank: ClassVar[int] = 2
    told: ClassVar[bool] = True

    def demands(self) -> tuple[Demand, ...]:
        return (Length(self.source, self.least, MOST if self.most is None else self.most),)

    def lines(self) -> list[str]:
        name = f"len({self.source.name})"
        if self.least == self.most:
            return [f"{name} == {self.least}"]
        return [f"{name} >= {self.least}" if self.most is None else f"{self.least} <= {name} <= {self.most}"]

    def explain(self, *seen: Any) -> Mismatch:
        most = "more" if self.most is None else str(self.most)
        wanted = str(self.least) if self.least == self.most else f"{self.least} to {most}"
        return Mismatch(self.lines()[0], wanted, str(len(seen[0])))


@guard_kind
class ArgumentCount(Guard):
    """How many arguments a call passes in *args and **kwargs together."""

    args: Source
    kwargs: Source
    count: int
    kind: ClassVar[str] = "ARGUMENT_COUNT"
    rank: ClassVar[int] = 2
    told: ClassVar[bool] = True

    def sources(self) -> tuple[Source, ...]:
        return self.args, self.kwargs

    def demands(self) -> tuple[Demand, ...]:
        both = Feature(((1, Word(self.args, WORD.LENGTH)), (1, Word(self.kwargs, WORD.LENGTH))))
        return (Lies(both, self.count, self.count),)

    def check(self, code: CheckScope) -> str | None:
        return f"len({code.read(self.args)}) + len({code.read(self.kwargs)}) == {self.count}"

    def lines(self) -> list[str]:
        return [f"len({self.args.name}) + len({self.kwargs.name}) == {self.count}"]

    def explain(self, *seen: Any) -> Mismatch:
        args, kwargs = seen
        passed = f"{len(args) + len(kwargs)}: {', '.join([f'{len(args)} by position', *kwargs])}"
        return Mismatch(self.lines()[0], str(self.count), passed)


@guard_kind
class ArgumentGiven(Guard):
    """A call passes an argument, by position or by keyword."""

    source: ArgumentSource
    kind: ClassVar[str] = "ARGUMENT_GIVEN"
    rank: ClassVar[int] = 0
    told: ClassVar[bool] = True

    def demands(self) -> tuple[Demand, ...]:
        return (Present(self.source),)

    def check(self, code: CheckScope) -> str | None:
        return self.source.given(code)

    def lines(self) -> list[str]:
        return [f"the argument {self.source.argument!r} is given"]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch(self.lines()[0], "given", "left out")
