"""Calls the compiled pieces of a graph in turn.

AOTAutograd and Inductor surround the code of a graph with functions that have nothing to do for most pieces, and that take as
long as an operation on a small tensor. Without gradients, from the second call on, the code of such a piece is called by itself.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tracer.backends.result_memory import without_copies

Compiled = Callable[..., Any]
Step = tuple[int, list[int], list[int]]  # the number of a piece, the places of its inputs, and those of its results, in a row
CODE_ALONE = "code_alone"  # attribute of a compiled graph that has a CodeAlone


@dataclasses.dataclass(frozen=True)
class CodeAlone:
    """The code of a compiled graph, a function of a list of inputs, which it empties. What surrounds it has nothing to do, but
    for marks on results whose sizes vary with those of inputs, which torch.compile reads."""

    code: Compiled
    marks_results: bool


def calling(
    pieces: Sequence[Compiled], steps: Sequence[Step], places: list[Any], constants: list[Any], keeps_state: bool
) -> Compiled:
    """The function that calls the pieces. Values lie in a list: the arguments, then results, until they are last used, then
    constants. `places`: of what is returned. `keeps_state`: no piece changes the state of torch that those behind it run in."""
    count = sum(len(written) for _, _, written in steps)
    last = {place: i for i, (_, read, written) in enumerate(steps) for place in (*written, *read)}
    made = {place for _, _, written in steps for place in written}
    ends: dict[int, list[int]] = {}
    for place in made.difference(places):
        ends.setdefault(last[place], []).append(place)
    plan = tuple([(kind, tuple(read), _range(written), tuple(ends.get(i, ()))) for i, (kind, read, written) in enumerate(steps)])
    behind = (*itertools.repeat(None, count), *constants)
    alone = _CalledAlone(keeps_state)

    def run(*args: Any) -> Any:
        if alone.run is not None and not torch.is_grad_enabled() and not _is_watched():
            return alone.run(*args)
        values = [*args, *behind]
        for kind, read, (first, end), dead in plan:
            values[first:end] = pieces[kind](*[values[place] for place in read])
            for place in dead:
                values[place] = None
        alone.prepare(pieces, plan, behind, places)
        return [values[place] for place in places]

    return run


def _range(written: list[int]) -> tuple[int, int]:
    return (written[0], written[-1] + 1) if written else (0, 0)


def _is_watched() -> bool:
    """Whether torch's functions around the code note that it runs: for a profile, or to debug."""
    debug = sys.modules.get("torch._inductor.debug")
    return torch.autograd.profiler._is_profiler_enabled or bool(getattr(debug, "RECORD_GRAPH_EXECUTION", False))


class _CalledAlone:
    """A function that calls the code of pieces by itself. It is not written to files: another process makes its own."""

    def __init__(self, may_be: bool) -> None:
        self.run: Compiled | None = None
        self._may_be = may_be

    def __reduce__(self) -> Any:
        return _CalledAlone, (self._may_be,)

    def prepare(self, pieces: Sequence[Compiled], plan: Sequence[Any], behind: Sequence[Any], places: list[Any]) -> None:
        """After the first call, in which what surrounds the code may still do something once."""
        if not self._may_be or self.run is not None:
            return
        steps = []
        for kind, read, (first, end), dead in plan:
            code = _taking_a_list(pieces[kind], is_returned=not set(places).isdisjoint(range(first, end)))
            steps.append((code, _reader(read), first, end, dead))

        def run(*args: Any) -> Any:
            values = [*args, *behind]
            for code, read, first, end, dead in steps:
                values[first:end] = code([*read(values)])
                for place in dead:
                    values[place] = None
            return [values[place] for place in places]

        self.run = torch.compiler.disable(run) if "torch._dynamo" in sys.modules else run


def _taking_a_list(piece: Compiled, is_returned: bool) -> Compiled:
    """A function of a list of inputs: the code of a piece alone, or what calls the piece. `is_returned`: the program sees a
    result."""
    alone: CodeAlone | None = getattr(without_copies(piece), CODE_ALONE, None)
    if alone is None or alone.marks_results and is_returned:
        return functools.partial(_call, piece)
    found: Compiled = getattr(alone.code, "current_callable", None) or alone.code
    return found


def _call(piece: Compiled, inputs: list[Any]) -> Any:
    return piece(*inputs)


def _reader(places: tuple[int, ...]) -> Compiled:
    return operator.itemgetter(*places) if len(places) > 1 else lambda values: [values[place] for place in places]
