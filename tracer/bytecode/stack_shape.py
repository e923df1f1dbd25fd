"""The shape of a program's stack before each instruction, by forward dataflow.

Beside the depth this tells which slots hold a saved exception (what PUSH_EXC_INFO puts under the caught
exception and POP_EXCEPT later gives back to `sys.exc_info()`) and which hold a bytecode offset. Resume
functions need all of it.
"""

from dataclasses import dataclass

from tracer.bytecode.instructions import Instruction, Program
from tracer.bytecode.opcode_facts import FACTS
from tracer.bytecode.stack_depth import stack_effects


@dataclass(frozen=True, slots=True)
class StackShape:
    """The stack before an instruction. Positions count from the bottom."""

    depth: int
    #: Slots that save the exception state around each exception being handled, outermost first.
    saved: tuple[int, ...]
    #: (position, original) of slots that hold a copy of a saved slot, on the way to POP_EXCEPT.
    copies: tuple[tuple[int, int], ...]
    #: Slots that hold the offset of the instruction that raised, for RERAISE.
    offsets: tuple[int, ...]


_OFFSET = -1


@dataclass(frozen=True, slots=True)
class _State:
    #: 0 for ordinary values, _OFFSET, or 1 + the index of the PUSH_EXC_INFO that saved this slot.
    slots: tuple[int, ...]
    #: Marks of the exceptions being handled, outermost first.
    handled: tuple[int, ...]


def stack_shape(program: Program, index: int) -> StackShape | None:
    """The stack before instruction `index`; None where control never comes."""
    shapes = program.facts.get("stack_shapes")
    if shapes is None:
        shapes = program.facts["stack_shapes"] = tuple(map(_shape, _flow(program)))
    found: StackShape | None = shapes[index]
    return found


def _shape(state: _State | None) -> StackShape | None:
    if state is None:
        return None
    slots, handled = state.slots, state.handled
    saved = tuple(slots.index(mark) for mark in handled if mark in slots)
    copies = tuple(
        (position, slots.index(mark)) for position, mark in enumerate(slots) if mark in handled and slots.index(mark) != position
    )
    offsets = tuple(position for position, mark in enumerate(slots) if mark == _OFFSET)
    return StackShape(len(slots), saved, copies, offsets)


def _flow(program: Program) -> list[_State | None]:
    states: list[_State | None] = [None] * len(program)
    work = [(0, _State((), ()))]
    while work:
        index, state = work.pop()
        known = states[index]
        if known is not None:
            if len(known.slots) != len(state.slots):
                raise ValueError(f"{program!r}: two depths at {program[index]}: {known.slots} and {state.slots}")
            continue
        states[index] = state
        instruction = program[index]
        handler = instruction.handler
        if handler is not None and FACTS[instruction.opcode].raises:
            pushed = (_OFFSET, 0) if handler.lasti else (0,)
            work.append((handler.target, _State(state.slots[: handler.depth] + pushed, state.handled)))
        if instruction.target is not None:
            work.append((instruction.target, _after(state, instruction, jump=True)))
        if not instruction.final:
            work.append((index + 1, _after(state, instruction, jump=False)))
    return states


def _after(state: _State, instruction: Instruction, jump: bool) -> _State:
    slots, handled = state.slots, state.handled
    name, arg = instruction.opname, instruction.arg
    if name == "PUSH_EXC_INFO":
        mark = instruction.index + 1
        return _State((*slots[:-1], mark, 0), (*handled, mark))
    if name == "POP_EXCEPT":
        mark = slots[-1]
        return _State(slots[:-1], handled[: handled.index(mark)] if mark in handled else handled[:-1])
    if name == "COPY":
        assert arg is not None
        return _State((*slots, slots[-arg]), handled)
    if name == "SWAP":
        assert arg is not None
        swapped = list(slots)
        swapped[-1], swapped[-arg] = swapped[-arg], swapped[-1]
        return _State(tuple(swapped), handled)
    effect = stack_effects(instruction.opcode, arg)[jump]
    if effect < 0:
        return _State(slots[:effect], handled)
    return _State(slots + (0,) * effect, handled)
