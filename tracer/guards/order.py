"""In which order guards are checked: what is read below a source comes after the guards on that source.

The order depends on the guards and on the order in which they came alone, so equal traces give equal text.
"""

from __future__ import annotations

import operator
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

from tracer.guards.base import Guard
from tracer.guards.shapes import ShapeLine
from tracer.guards.tensors import TensorMatch
from tracer.sources.base import Source

_RANK = operator.attrgetter("rank")


@dataclass
class Stage:
    """Guards that are checked one by one, then tensors that are checked all at once."""

    guards: list[Guard] = field(default_factory=list)
    tensors: list[TensorMatch] = field(default_factory=list)

    def without(self, ids: Container[int]) -> Stage:
        """The stage without the guards with these ids."""
        return Stage(
            [guard for guard in self.guards if id(guard) not in ids], [guard for guard in self.tensors if id(guard) not in ids]
        )


def arrange(guards: Iterable[Guard]) -> list[Stage]:
    """Global state; then by depth below tensors, each stage in order of dependency; then aliasing; then shapes."""
    state: list[Guard] = []
    single: list[tuple[Source, Guard]] = []
    relations: list[Guard] = []
    shapes: list[Guard] = []
    for guard in dict.fromkeys(part for each in guards for part in each.parts()):
        sources = guard.sources()
        if not sources:
            state.append(guard)
        elif isinstance(guard, ShapeLine):
            shapes.append(guard)
        elif len(sources) == 1:
            single.append((sources[0], guard))
        else:
            relations.append(guard)
    stages = _stages(single)
    stages[0].guards[:0] = state
    stages.append(Stage(relations + shapes))
    return [stage for stage in stages if stage.guards or stage.tensors]


def _stages(guards: list[tuple[Source, Guard]]) -> list[Stage]:
    """The stages of guards that each have one source. The guards of a stage read only below tensors that an earlier stage has
    checked."""
    depth = _Depth({source for source, guard in guards if isinstance(guard, TensorMatch)})
    stages = [Stage()]
    for source, on_source in by_dependency(guards):
        level = depth(source)
        while len(stages) <= level:
            stages.append(Stage())
        for guard in on_source:
            if isinstance(guard, TensorMatch):
                stages[level].tensors.append(guard)
            else:
                stages[level].guards.append(guard)
    return stages


class _Depth(dict[Source, int]):
    """source -> how many tensors lie above it on its path."""

    def __init__(self, tensors: set[Source]) -> None:
        super().__init__()
        self.tensors = tensors

    def __call__(self, source: Source) -> int:
        known = self.get(source)
        if known is None:
            base = source.base
            known = self[source] = 0 if base is None else self(base) + (base in self.tensors)
        return known


def by_dependency(guards: Iterable[tuple[Source, Guard]]) -> Iterator[tuple[Source, list[Guard]]]:
    """A source's guards after those of its base, by rank; otherwise as they came."""
    on: dict[Source, list[Guard]] = {}
    for source, guard in guards:
        on.setdefault(source, []).append(guard)
    placed: set[Source] = set()
    for source in on:
        for step in _path_to(source, placed):
            if step in on:
                yield step, sorted(on[step], key=_RANK)


def _path_to(source: Source, placed: set[Source]) -> list[Source]:
    """The sources from the root to this one that are not in `placed` yet; adds them to it."""
    path: list[Source] = []
    step: Source | None = source
    while step is not None and step not in placed:
        path.append(step)
        placed.add(step)
        step = step.base
    return path[::-1]
