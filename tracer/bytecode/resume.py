"""Resume functions: code that goes on in the middle of a function, given its stack and locals.

`resume_code` rebuilds the frame (stack, handled exceptions) in a prologue and jumps to the instruction; the
rest of the function follows, unchanged but for what has become unreachable. What the values are and how
the resume function is called is codegen's business.
"""

import dis
import inspect
import weakref
from types import CodeType
from typing import Literal

from bytecode import Label

from tracer.bytecode.assembler import FUNCTION_FLAGS, Assembler
from tracer.bytecode.dialect import DIALECT
from tracer.bytecode.instructions import ExceptionEntry, Instruction, Program, docstring_of, program
from tracer.bytecode.liveness import zero_argument_supers
from tracer.bytecode.opcode_facts import FACTS, Access
from tracer.bytecode.stack_shape import StackShape, stack_shape

_RESUMES = ".<resume at "  # in the qualified name: the plain one is what tracebacks show
_DROPPED = frozenset({"MAKE_CELL", "COPY_FREE_VARS", "RESUME"})
_FUTURES = 0xFFFF0000  # the bits of `from __future__` flags
_REFUSED = {
    inspect.CO_GENERATOR: "a generator",
    inspect.CO_COROUTINE: "a coroutine",
    inspect.CO_ASYNC_GENERATOR: "an asynchronous generator",
}

StackEntry = Literal["null", "value"]


class ResumeError(ValueError):
    """This code cannot be resumed there, or not with this stack."""


def callee_kinds() -> tuple[StackEntry, ...]:
    """How a callable and its NULL lie on the stack for a call."""
    return ("null", "value") if DIALECT.null_first else ("value", "null")


def resume_code(
    code: CodeType,
    index: int,
    stack: tuple[StackEntry, ...],
    locals: tuple[str, ...],
    *,
    exc_handled: tuple[int, ...] = (),
) -> CodeType:
    """Code of a function that continues `code` at instruction `index`.

    Arguments: one `___stack<i>` for each "value" of `stack`, bottom first, then `locals` by name; other fast
    locals are unbound. All cells travel as closure: co_freevars == code.co_cellvars + code.co_freevars. Where one of `locals` is
    among the cells, an inlined comprehension keeps a plain value in its place.

    Where `index` lies inside exception handlers, `exc_handled` names one stack position for each, outermost
    first, whose argument is the exception being handled there: either the slot that saves the previous
    exception (`stack_shape(...).saved`; its old value is not needed, the prologue's PUSH_EXC_INFO takes it from
    the thread), or, while the exception is still on the stack, the slot above, where it is. Values of slots that
    hold a bytecode offset (`stack_shape(...).offsets`) are ignored.

    The same request gives the same code object, for as long as `code` lives.

    ResumeError: generators, class bodies, an index never reached, a stack of another depth.
    """
    code, index = original_position(code, index)
    whole = program(code)
    made = whole.facts.setdefault("resume_codes", {})
    key = index, stack, locals, exc_handled
    if key not in made:
        made[key] = _assemble(code, whole, index, stack, locals, exc_handled)
    found: CodeType = made[key]
    return found


def suspended_generator(code: CodeType, index: int, stack: tuple[StackEntry, ...], locals: tuple[str, ...]) -> CodeType:
    """Code of a generator that begins at the YIELD_VALUE at `index` of `code`, a generator's.

    Its first item is the value on top of `stack`; then it stands where the original stands after that yield. Arguments
    and cells are as in `resume_code`, the names are the original's.
    """
    whole = program(code)
    made = whole.facts.setdefault("suspended_generators", {})
    key = index, stack, locals
    if key not in made:
        made[key] = _assemble(code, whole, index, stack, locals, (), generator=True)
    found: CodeType = made[key]
    return found


def _assemble(
    code: CodeType,
    whole: Program,
    index: int,
    stack: tuple[StackEntry, ...],
    locals: tuple[str, ...],
    exc_handled: tuple[int, ...],
    generator: bool = False,
    raises_to: ExceptionEntry | None = None,
) -> CodeType:
    shape = _check(whole, index, stack, locals, exc_handled, generator)
    target = _call_start(whole, index)
    names = _argument_names(stack, locals)
    assembler = Assembler()
    assembler.set_position(whole[target].positions)
    # CPython takes a saved offset (in code units) on trust, and one of the original may lie outside this code: it
    # becomes that of the first instruction after COPY_FREE_VARS and RESUME, which has the position resumed at.
    cells = code.co_cellvars + code.co_freevars + (() if raises_to is None else (_RAISED,))
    offset = 2 if cells else 1
    if generator:
        assembler.emit("RETURN_GENERATOR")
        assembler.pop()
    _rebuild_stack(assembler, stack, shape, exc_handled, names, offset)
    for name in locals:
        if name in whole.cellvars:
            assembler.load_fast(name)
            assembler.delete_fast(name)
            assembler.emit_on_cell("STORE_FAST", name)
    labels = {at: assembler.label() for at in whole.labels | {target}}
    if raises_to is not None:
        token = assembler.try_begin(labels[raises_to.target], raises_to.lasti, raises_to.depth)
        assembler.load_deref(_RAISED)
        assembler.emit("DELETE_DEREF", _RAISED)  # the cell outlives the exception, whose traceback holds this frame
        assembler.emit("RAISE_VARARGS", 1)
        assembler.try_end(token)
    assembler.jump(labels[target])
    origins = _copy_body(assembler, whole, labels)
    resumed = assembler.finish(
        code.co_name,
        code.co_qualname if generator else _qualified_name(code, whole[target]),
        code.co_filename,
        code.co_firstlineno,
        tuple(names.values()) + locals,
        cells,
        flags=FUNCTION_FLAGS | code.co_flags & (_FUTURES | inspect.CO_NESTED | inspect.CO_GENERATOR),
        docstring=docstring_of(code),
    )
    request = index, stack, locals, exc_handled
    _remember_origin(resumed, code, [origins.get(position) for position in assembler.emitted], request)
    return resumed


def resumed_position(resumed: CodeType) -> tuple[Program, int] | None:
    """The function that the user wrote, and the instruction of it at which a resume function goes on; None if it is gone."""
    known = _origins.get(id(resumed))
    original = None if known is None else known[1]()
    return None if known is None or original is None else (program(original), known[3][0])


def raising_variant(resumed: CodeType, handler: ExceptionEntry) -> CodeType:
    """A resume function of the same arguments that raises, under `handler`, what its last cell holds, before it goes on."""
    _, original, _, request = _origins[id(resumed)]
    code = original()
    assert code is not None
    whole = program(code)
    made = whole.facts.setdefault("raising_variants", {})
    if (request, handler) not in made:
        made[request, handler] = _assemble(code, whole, *request, raises_to=handler)
    found: CodeType = made[request, handler]
    return found


_RAISED = "___raised"
_Request = tuple[int, tuple[StackEntry, ...], tuple[str, ...], tuple[int, ...]]  # the parameters of `resume_code`
# id of a resume function's code -> (reference to it, reference to the original, index in that of each instruction, the request)
_origins: dict[int, tuple[weakref.ref[CodeType], weakref.ref[CodeType], list[int | None], _Request]] = {}


def is_resume_name(code: CodeType) -> bool:
    """Whether this is the code of a resume function, or the output code of one."""
    return _RESUMES in code.co_qualname


def function_name(code: CodeType) -> str:
    """`f`, or `f.<resume at line 7>` for a resume function of it."""
    _, *resumes = code.co_qualname.partition(_RESUMES)
    return code.co_name + "".join(resumes)


def is_resume_code(code: CodeType) -> bool:
    known = _origins.get(id(code))
    return known is not None and known[0]() is code


def resumes_at(code: CodeType) -> int | None:
    """The index of the instruction at which a resume function goes on, after its prologue; None for other code."""
    if not is_resume_code(code):
        return None
    return next(one.target for one in program(code) if one.target is not None)


def _remember_origin(resumed: CodeType, code: CodeType, indices: list[int | None], request: _Request) -> None:
    key = id(resumed)
    forget = weakref.ref(resumed, lambda _, origins=_origins: origins.pop(key, None))  # type: ignore[misc]  # mypy reads no defaults of lambdas
    _origins[key] = forget, weakref.ref(code), indices, request


def original_position(code: CodeType, index: int) -> tuple[CodeType, int]:
    """The function that the user wrote, and where in it an instruction of one of its resume functions stands.

    Resuming a resume function is resuming the function itself, so that a loop which breaks at every turn has one resume
    function, not one a turn."""
    known = _origins.get(id(code))
    if known is not None:
        original, origin = known[1](), known[2][index]
        if original is not None and origin is not None:
            return original, origin
    return code, index


def _check(
    whole: Program,
    index: int,
    stack: tuple[StackEntry, ...],
    locals: tuple[str, ...],
    exc_handled: tuple[int, ...],
    generator: bool,
) -> StackShape:
    code = whole.code
    where = f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
    for flag, kind in _REFUSED.items():
        if code.co_flags & flag and not (generator and flag == inspect.CO_GENERATOR):
            raise ResumeError(f"{where} is {kind}: its frame lives on elsewhere and cannot be resumed in a new one")
    if not code.co_flags & inspect.CO_OPTIMIZED:
        raise ResumeError(f"{where} is a module or class body, which has no fast locals to resume with")
    if not 0 <= index < len(whole):
        raise ResumeError(f"{where} has {len(whole)} instructions, no instruction {index}")
    shape = stack_shape(whole, index)
    if shape is None:
        raise ResumeError(f"{where}: instruction {whole[index]} is never reached")
    if shape.depth != len(stack):
        raise ResumeError(f"{where}: {whole[index]} runs on a stack of {shape.depth} values, {len(stack)} were given")
    wrong = sorted(set(locals).difference(whole.varnames) | set(locals).intersection(whole.cellvars) - _plain_in_cells(whole))
    if wrong:
        raise ResumeError(f"{where}: not fast locals: {', '.join(wrong)} (cells arrive through the closure)")
    if not len(exc_handled) == len(shape.saved) or any(
        at not in (slot, slot + 1) for at, slot in zip(exc_handled, shape.saved, strict=True)
    ):
        raise ResumeError(
            f"{where}: {whole[index]} runs while exceptions saved at stack positions {shape.saved} are handled; "
            f"exc_handled must name them (or the slots above), not {exc_handled}"
        )
    return shape


def _plain_in_cells(whole: Program) -> set[str]:
    """The cells in whose place an inlined comprehension may keep a plain value."""
    writes = (each for each in whole if any(Access.WRITE in access for access in FACTS[each.opcode].locals))
    return {each.argval for each in writes if each.arg in whole.cell_slots}


def _call_start(whole: Program, index: int) -> int:
    """The first of the instructions that make one call (KW_NAMES, PRECALL, CALL): they are not torn apart.

    Until the last they leave the stack as it is, apart from unpacking a bound method: running them again is right.
    """
    parts = (DIALECT.keyword_names_prefix, *DIALECT.call_sequence[:-1])
    if whole[index].opname in DIALECT.call_sequence:
        while index > 0 and whole[index - 1].opname in parts:
            index -= 1
    return index


def _argument_names(stack: tuple[StackEntry, ...], locals: tuple[str, ...]) -> dict[int, str]:
    """Stack position -> argument name; distinct from all locals, which may come from a resume function too."""
    positions = [position for position, entry in enumerate(stack) if entry == "value"]
    prefix = "___stack"
    while any(name.startswith(prefix) for name in locals):
        prefix = "_" + prefix
    return {position: f"{prefix}{i}" for i, position in enumerate(positions)}


def is_stack_argument(name: str) -> bool:
    """Whether a resume function has this argument only to put it on its stack."""
    return name.startswith("___") and name.lstrip("_").startswith("stack")


def _qualified_name(code: CodeType, at: Instruction) -> str:
    """`f` becomes `f.<resume at line 7>`, once."""
    return f"{code.co_qualname.partition(_RESUMES)[0]}{_RESUMES}line {at.line}>"


def _rebuild_stack(
    assembler: Assembler,
    stack: tuple[StackEntry, ...],
    shape: StackShape,
    exc_handled: tuple[int, ...],
    names: dict[int, str],
    offset: int,
) -> None:
    """Push the stack from the arguments, which are dropped afterwards so that nothing lives longer than it did."""
    handled = dict(zip(shape.saved, exc_handled))
    copies = dict(shape.copies)
    for position, entry in enumerate(stack):
        if position in handled:
            if handled[position] not in names:
                raise ResumeError(f"the exception handled at stack position {handled[position]} was given as NULL")
            assembler.load_fast(names[handled[position]])
            assembler.emit("PUSH_EXC_INFO")
            assembler.pop()
        elif position in copies:
            assembler.copy(position - copies[position])
        elif position in shape.offsets:
            _push_offset(assembler, offset)
        elif entry == "null":
            assembler.push_null()
        else:
            assembler.load_fast(names[position])
    for name in names.values():
        assembler.delete_fast(name)


def _push_offset(assembler: Assembler, offset: int) -> None:
    """-> what RERAISE takes as the offset of the instruction that raised"""
    if DIALECT.offsets_are_objects:
        assembler.load_const(offset)
        return
    handler = assembler.label()
    token = assembler.try_begin(handler, push_lasti=True)
    assembler.load_const(StopIteration)
    assembler.emit("RAISE_VARARGS", 1)  # here, so that the position is the one resumed at
    assembler.try_end(token)
    assembler.place(handler)
    assembler.pop()


def _copy_body(assembler: Assembler, whole: Program, labels: dict[int, Label]) -> dict[int, int]:
    """The instructions of the original, each under its own exception entry: position emitted at -> index there."""
    origins: dict[int, int] = {}
    supers = zero_argument_supers(whole)
    current: ExceptionEntry | None = None
    token = None
    super_calls: frozenset[int] = frozenset()
    start = next((instruction.index for instruction in whole if instruction.opname == "RESUME"), len(whole))
    for instruction in whole:
        if instruction.handler is not current:
            if token is not None:
                assembler.try_end(token)
            current, token = instruction.handler, None
            if current is not None:
                token = assembler.try_begin(labels[current.target], current.lasti, current.depth)
        if instruction.index in labels:
            assembler.place(labels[instruction.index])
        if instruction.index in supers:
            _pass_super_arguments(assembler, whole, instruction.positions)
            super_calls = frozenset(range(instruction.index, instruction.index + len(DIALECT.call_sequence)))
        if instruction.opname in _DROPPED and instruction.index <= start:
            assembler.set_position(instruction.positions)
            assembler.emit("NOP")
        elif instruction.index in super_calls:
            assembler.set_position(instruction.positions)
            assembler.emit(instruction.opname, 2)
        elif instruction.opname == "LOAD_SUPER_ATTR":  # has loaded both, but lets `super()` look for them
            assembler.set_position(instruction.positions)
            origins[assembler.position()] = instruction.index
            assembler.emit(instruction.opname, (bool(instruction.oparg & 1), True, instruction.argval))
        elif FACTS[instruction.opcode].locals and instruction.arg in whole.cell_slots:
            assembler.set_position(instruction.positions)
            origins[assembler.position()] = instruction.index
            assembler.emit_on_cell(instruction.opname, instruction.argval)
        else:
            target = None if instruction.target is None else labels[instruction.target]
            origins[assembler.position()] = instruction.index
            assembler.emit_copy(instruction, target)
    if token is not None:
        assembler.try_end(token)
    return origins


def _pass_super_arguments(assembler: Assembler, whole: Program, positions: dis.Positions) -> None:
    """`super()` reads the frame's first argument, which has another place here: it becomes `super(__class__, self)`."""
    first = whole.argnames[0]
    assembler.set_position(positions)
    assembler.load_deref("__class__")
    if first in whole.cellvars:
        assembler.load_deref(first)
    else:
        assembler.load_fast(first)
