"""Chooses where a trace ends if the graph breaks in a loop, or in the first function that a frame calls.

If the break is in a function that a loop calls, the trace ends before the loop, and CPython runs the loop. The function is then
a frame of its own in every iteration, and one cache entry serves them all; the loop itself would be traced anew for each place
at which it resumes. A loop over the rows of a tensor is left to CPython too: resuming it would specialise the number of rows."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from tracer.bytecode import Program
from tracer.variables.iteration import IteratorVariable

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator


#: What lies between GET_ITER and FOR_ITER where a comprehension is inlined in the function around it.
_BEFORE_COMPREHENSION = frozenset({"LOAD_FAST_AND_CLEAR", "MAKE_CELL", "SWAP", "COPY", "BUILD_LIST", "BUILD_SET", "BUILD_MAP"})


def loop_head(program: Program, index: int) -> int:
    """The index of the FOR_ITER that takes the iterator which the GET_ITER at `index` makes; of another instruction, where it is
    for no loop."""
    index += 1
    while program[index].opname in _BEFORE_COMPREHENSION:
        index += 1
    return index


def step_before_loop(frame: InstructionTranslator | None) -> int | None:
    """The step to end the trace at, given the innermost frame at a graph break; None if no loop is left to CPython."""
    if frame is None:
        return None
    frames = frame.resumable()
    for outer in frames[:-1]:
        step = _outermost_loop(outer)
        if step is not None:
            return step
    return _first_rows(frames[-1])


def step_of_first_call(frame: InstructionTranslator | None) -> int | None:
    """The step of the call that the root frame is in, if the graph has no operation before it. If CPython makes the call, the
    callee is a frame of its own, and its cache entries do not depend on other inputs of the root frame."""
    frames = [] if frame is None else frame.resumable()
    if len(frames) < 2:
        return None
    before = list(frames[1].output.graph.nodes)[: frames[1].nodes_before]
    return None if any(node.op != "placeholder" and not node.meta.get("pure") for node in before) else frames[0].step


def _outermost_loop(frame: InstructionTranslator) -> int | None:
    """The step at which the frame began the outermost loop that it is in; None if it is in none."""
    if frame.code.co_flags & inspect.CO_GENERATOR:
        return None
    return min((step for index, step in frame.loops.items() if _is_in_loop(frame, index)), default=None)


def _is_in_loop(frame: InstructionTranslator, index: int) -> bool:
    head = frame.program.instructions[index]
    return head.target is not None and index < frame.inst.index < head.target


def _first_rows(frame: InstructionTranslator) -> int | None:
    """For a frame in a loop, the first step at which it made an iterator over a tensor that is still on its stack."""
    if _outermost_loop(frame) is None:
        return None
    made = frame.trace.row_iterators
    steps = []
    todo = [value for value in frame.stack if isinstance(value, IteratorVariable)]
    seen = set()
    while todo:
        value = todo.pop()
        if value not in seen:
            seen.add(value)
            if value in made and made[value][0] is frame:
                steps.append(made[value][1])
            todo += [part for part in value.children() if isinstance(part, IteratorVariable)]
    return min(steps, default=None)
