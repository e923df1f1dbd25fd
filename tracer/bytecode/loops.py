"""Which instructions of a program belong to a loop, and which locals change from turn to turn."""

from __future__ import annotations

from types import CodeType

from tracer.bytecode.instructions import Program, program
from tracer.bytecode.liveness import written_name
from tracer.bytecode.resume import resumes_at


def outermost_loops(program: Program) -> dict[int, int]:
    """The outermost loop that each instruction belongs to, by the index of one instruction of it; others are left out.

    An instruction belongs to a loop if it may run again in a later turn: one on the way out of the loop (before a `return`, or a
    `break`) does not."""
    known: dict[int, int] | None = program.facts.get("outermost_loops")
    if known is None:
        known = program.facts["outermost_loops"] = _find(program)
    return known


def _find(program: Program) -> dict[int, int]:
    back = {one.target: one.index for one in program if one.target is not None and one.target <= one.index}
    found: dict[int, int] = {}
    if not back:
        return found
    after: list[set[int]] = [set() for _ in program]
    for one in program:
        if not one.final:
            after[one.index].add(one.index + 1)
        if one.target is not None:
            after[one.index].add(one.target)
        if one.handler is not None:
            after[one.index].add(one.handler.target)
    before: list[set[int]] = [set() for _ in program]
    for index, following in enumerate(after):
        for each in following:
            before[each].add(index)
    for head in back:
        if head not in found:
            loop = _reached(after, head) & _reached(before, head)
            found |= dict.fromkeys(loop, head)
    return found


def _reached(edges: list[set[int]], start: int) -> set[int]:
    """The instructions that edges lead to from `start`; itself only if they lead back to it."""
    reached: set[int] = set()
    todo: list[int] = [*edges[start]]
    while todo:
        index = todo.pop()
        if index not in reached:
            reached.add(index)
            todo += edges[index]
    return reached


def loop_resumed_in(code: CodeType) -> frozenset[str] | None:
    """The fast locals that change from turn to turn of the loop in which a resume function begins. None for other code."""
    start = resumes_at(code)
    if start is None:
        return None
    whole = program(code)
    loops = outermost_loops(whole)
    if start not in loops:
        return None
    written = (written_name(one) for one in whole if loops.get(one.index) == loops[start])
    return frozenset(name for name in written if name is not None)
