"""Code that raises where a resume function would go on: the blocks that are open there end as the program's own do, `with` by
`__exit__`, `try` by `finally` or an `except` that fits."""

from types import CodeType

from tracer.bytecode.instructions import ExceptionEntry, Instruction, Program
from tracer.bytecode.resume import raising_variant, resumed_position
from tracer.bytecode.stack_shape import stack_shape


def raising_code(resumed: CodeType) -> CodeType | None:
    """As a resume function of this code, but where that goes on it raises what the last cell of its closure holds, and empties
    the cell. That is one cell more than the resume function has. None if no block is open there, or the original is gone."""
    found = resumed_position(resumed)
    if found is None:
        return None
    whole, index = found
    handler = _handler(whole, index)
    return None if handler is None else raising_variant(resumed, handler)


def _handler(whole: Program, index: int) -> ExceptionEntry | None:
    """Where an exception goes that is raised before an instruction. Behind the last one of a block stands what ends the block on
    the usual way, and nothing covers that: there the block is still open, but no `except` of it is meant. A block that is about
    to begin has begun: `lock.acquire()` is to be followed by the `try`."""
    at = whole[index]
    while at.opname == "NOP":
        at = whole[at.index + 1]
    own = at.handler
    before = whole[index - 1] if index else None
    if before is None or before.final or before.handler is None or before.handler is own:
        return own
    shape, block = stack_shape(whole, index), before.handler
    is_open = shape is not None and block.depth <= shape.depth and (own is None or own.depth <= block.depth)
    return block if is_open and _ends_in_any_case(whole, block) else own


def _ends_in_any_case(whole: Program, block: ExceptionEntry) -> bool:
    """Whether the handler is that of a `with`, or a `finally`, and so runs whatever is raised; not an `except`."""
    first = whole[block.target]
    if first.opname != "PUSH_EXC_INFO":
        return True  # it restores the locals of an inlined comprehension, or the like
    at = whole[first.index + 1]
    if at.opname == "POP_TOP":
        return False  # `except:`
    return not _asks_for_a_class(whole, at)


def _asks_for_a_class(whole: Program, at: Instruction) -> bool:
    """Whether the first statement of a handler is the question `except X` asks; a `finally` begins with a whole statement."""
    base = stack_shape(whole, at.index)
    while base is not None:
        if at.opname in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH"):
            return True
        if at.final or at.index + 1 == len(whole):
            return False
        at = whole[at.index + 1]
        shape = stack_shape(whole, at.index)
        if shape is None or shape.depth <= base.depth:
            return False
    return False
