"""Chooses where a trace ends if the graph breaks in a loop, or in the first function that a frame calls.

If the break is in a function that a loop calls, the trace ends before the loop, and CPython runs the loop. The function is then
a frame of its own in every iteration, and one cache entry serves them all; the loop itself would be traced anew for each place
at which it resumes. So it is where the loop itself breaks, if most operations of its turn are in functions that it calls. A loop
that does the work itself is compiled from one break to the next. One over the rows of a tensor is left to CPython too: resuming
it would specialise the number of rows. docs/decisions/loops_with_breaks.md has the figures."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, NamedTuple

from tracer.bytecode import Program, outermost_loops, program, resumes_at
from tracer.variables.iteration import IteratorVariable

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator


#: In place of a step: the frame resumes inside the loop, so that CPython runs all of it.
WHOLE_FRAME = 0


class LoopStart(NamedTuple):
    """Where a frame came to its first instruction of a loop."""

    step: int
    operations: int  # of the graph, so far
    of_callees: int  # those that functions called by this frame have added


#: What lies between GET_ITER and FOR_ITER where a comprehension is inlined in the function around it.
_BEFORE_COMPREHENSION = frozenset({"LOAD_FAST_AND_CLEAR", "MAKE_CELL", "SWAP", "COPY", "BUILD_LIST", "BUILD_SET", "BUILD_MAP"})


def loop_head(program: Program, index: int) -> int:
    """The index of the FOR_ITER that takes the iterator which the GET_ITER at `index` makes; of another instruction, where it is
    for no loop."""
    index += 1
    while program[index].opname in _BEFORE_COMPREHENSION:
        index += 1
    return index


def begin_loop(frame: InstructionTranslator, index: int) -> None:
    """Notes that a frame is about to run a loop for the first time, given the index of an instruction of the loop."""
    loop = outermost_loops(frame.program).get(index)
    if loop is not None and loop not in frame.loops:
        frame.loops[loop] = LoopStart(frame.step, frame.output.operations, frame.operations_of_callees)


def count_operations(frame: InstructionTranslator, done: int) -> None:
    """Tells the caller of a frame that has returned how many operations it has added to the graph. Where CPython makes the call,
    a layer of torch that is a single operation is left to CPython, and no polyfill is called."""
    caller = frame.parent
    if caller is None or not done:
        return
    if frame.is_polyfill:
        done = frame.operations_of_callees
    elif done == 1 and str(frame.globals.get("__name__")).startswith("torch.nn."):
        done = 0
    caller.operations_of_callees += done


def step_before_loop(frame: InstructionTranslator | None, weighs_calls: bool = True) -> int | None:
    """The step to end the trace at, given the innermost frame at a graph break; None if no loop is left to CPython.
    `weighs_calls`: a loop that breaks itself is left to CPython if the functions that it calls do the work."""
    if frame is None:
        return None
    frames = frame.resumable()
    for outer in frames[:-1]:
        loop = _outermost_loop(outer)
        if loop is not None:
            return _step_before(outer, loop)
    innermost = frames[-1]
    loop = _outermost_loop(innermost)
    if weighs_calls and loop is not None and _calls_do_the_work(innermost, loop):
        return _step_before(innermost, loop)
    return _first_rows(innermost)


def _calls_do_the_work(frame: InstructionTranslator, loop: LoopStart) -> bool:
    """Whether at least half of the operations that a loop has recorded so far are those of functions that it calls."""
    of_callees = frame.operations_of_callees - loop.of_callees
    return of_callees > 0 and 2 * of_callees >= frame.output.operations - loop.operations


def _step_before(frame: InstructionTranslator, loop: LoopStart) -> int:
    """The step at which a loop began; WHOLE_FRAME if a resume function is the frame, and begins within the loop."""
    if frame.parent is None and resumes_at(frame.code) is not None:
        prologue = next(one.index for one in program(frame.code) if one.target is not None)
        if loop.step == prologue + 2:  # the first step is 1, and the last of the prologue is a jump
            return WHOLE_FRAME
    return loop.step


def step_of_first_call(frame: InstructionTranslator | None) -> int | None:
    """The step of the call that the root frame is in, if the graph has no operation before it. If CPython makes the call, the
    callee is a frame of its own, and its cache entries do not depend on other inputs of the root frame."""
    frames = [] if frame is None else frame.resumable()
    if len(frames) < 2:
        return None
    before = list(frames[1].output.graph.nodes)[: frames[1].nodes_before]
    return None if any(node.op != "placeholder" and not node.meta.get("pure") for node in before) else frames[0].step


def _outermost_loop(frame: InstructionTranslator) -> LoopStart | None:
    """The beginning of the outermost loop that a frame is in; None if it is in none."""
    if frame.code.co_flags & inspect.CO_GENERATOR:
        return None
    loop = outermost_loops(frame.program).get(frame.inst.index)
    return None if loop is None else frame.loops.get(loop)


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
