"""Decoding of code objects into `Program`s of frozen `Instruction`s.

One pass over `co_code`: inline caches and EXTENDED_ARG are folded away, instructions for two locals
(STORE_FAST_LOAD_FAST) become two, loads that borrow (LOAD_FAST_BORROW) become plain ones, jump targets become
instruction indices, each instruction knows the exception handler that covers it. Programs are cached per code
object. Flow analysis lives in `stack_shape` and `liveness`, encoding in `assembler`.
"""

import dis
import functools
import inspect
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from tracer.bytecode.dialect import DIALECT
from tracer.bytecode.opcode_facts import BINARY_OPS, FACTS, Access
from tracer.bytecode.slots import argument_slots


@dataclass(frozen=True, slots=True)
class ExceptionEntry:
    """Where an exception goes: the stack is cut to `depth`, the offset pushed if `lasti`, then the exception."""

    target: int
    depth: int
    lasti: bool


@dataclass(slots=True, eq=False)
class _Draft:
    """Fields of an Instruction while it is being filled in (a frozen dataclass costs five times as much)."""

    #: Position in `Program.instructions`.
    index: int
    opcode: int
    opname: str
    #: The whole argument, EXTENDED_ARG folded in; None when the opcode takes none.
    arg: int | None
    #: What the argument means: constant, name, local or cell name, comparison or operator symbol;
    #: None for jumps; otherwise as `arg`.
    argval: Any
    #: Byte offset of the opcode itself, as in `frame.f_lasti`.
    offset: int
    #: Index of the instruction that a jump goes to.
    target: int | None
    positions: dis.Positions
    handler: ExceptionEntry | None


class Instruction(_Draft):
    """One instruction of a program; immutable, compared by identity."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"instructions are frozen: cannot set {name!r} of {self}")

    @property
    def oparg(self) -> int:
        """The argument, of an opcode that takes one."""
        assert self.arg is not None
        return self.arg

    @property
    def line(self) -> int | None:
        return self.positions.lineno

    @property
    def final(self) -> bool:
        """Control never goes on to the next instruction."""
        return FACTS[self.opcode].final

    def __str__(self) -> str:
        if self.target is not None:
            return f"{self.index} {self.opname} to {self.target}"
        return f"{self.index} {self.opname}" + ("" if self.arg is None else f" {self.argval!r}")


@dataclass(slots=True, eq=False)
class Program:
    """A decoded code object. Does not keep the code alive (the cache would make it immortal)."""

    code_ref: Callable[[], CodeType | None]
    instructions: tuple[Instruction, ...]
    #: Indices that jumps or exception entries lead to.
    labels: frozenset[int]
    is_generator: bool
    #: Argument slots in order: positional, keyword-only, *args, **kwargs.
    argnames: tuple[str, ...]
    names: tuple[str, ...]
    varnames: tuple[str, ...]
    cellvars: tuple[str, ...]
    freevars: tuple[str, ...]
    #: Names of all fast locals, cells and free variables, as the interpreter indexes them.
    localsplus: tuple[str, ...]
    #: Indices in `localsplus` of cells and free variables. A local of an inlined comprehension may have the name of one.
    cell_slots: frozenset[int]
    #: Start offset of each instruction, its EXTENDED_ARG prefixes included.
    _starts: list[int]
    #: Results of analyses, keyed by the analysis.
    facts: dict[str, Any] = field(default_factory=dict)
    __weakref__: Any = field(init=False, repr=False)

    @property
    def code(self) -> CodeType:
        code = self.code_ref()
        if code is None:
            raise ReferenceError("the code object of this program was freed; hold the code while you use its program")
        return code

    def index_at(self, offset: int) -> int:
        """Index of the instruction that contains a byte offset (of its prefixes, opcode or caches); the first of two."""
        if not 0 <= offset:
            raise IndexError(f"no instruction at offset {offset}")
        return _index_at(self._starts, offset)

    def __len__(self) -> int:
        return len(self.instructions)

    def __getitem__(self, index: int) -> Instruction:
        return self.instructions[index]

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def __repr__(self) -> str:
        code = self.code_ref()
        return f"<Program of {code.co_qualname if code else 'freed code'}, {len(self.instructions)} instructions>"


_GENERATOR_FLAGS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_EXTENDED_ARG = dis.opmap["EXTENDED_ARG"]


_LOCAL = {Access.READ: "LOAD_FAST", Access.WRITE: "STORE_FAST"}
# Tables indexed by opcode number.
_READERS = [facts.argument for facts in FACTS]
_CACHES = [facts.caches for facts in FACTS]
_FLAGS = [facts.flags for facts in FACTS]
_BACKWARD = ["BACKWARD" in facts.name for facts in FACTS]
_PARTS = [[dis.opmap[_LOCAL[access]] for access in facts.locals] if facts.argument == "pair" else [] for facts in FACTS]
# A load that borrows relies on the instructions that follow it, which are others in code that is made from this.
_READ_AS = [dis.opmap["LOAD_FAST"] if name == "LOAD_FAST_BORROW" else opcode for opcode, name in enumerate(dis.opname[:256])]
_ABSOLUTE = [opcode in dis.hasjabs for opcode in range(256)]


def program(code: CodeType) -> Program:
    """The decoded form of a code object, cached for as long as the code lives."""
    key = id(code)
    known = _programs.get(key)
    if known is not None:
        return known
    decoded = _decode(code, weakref.ref(code, functools.partial(_forget, _programs, key)))
    _programs[key] = decoded
    return decoded


def _forget(programs: dict[int, Program], key: int, _: object) -> None:
    """Holds the dict itself: at the end of the process, code outlives the globals of this module."""
    programs.pop(key, None)


_programs: dict[int, Program] = {}


def docstring_of(code: CodeType) -> str | None:
    """What a function of this code has as its docstring when it is made."""
    first = code.co_consts[0] if code.co_consts else None
    is_marked = not DIALECT.docstring_flag or code.co_flags & DIALECT.docstring_flag
    return first if is_marked and isinstance(first, str) else None


def _decode(code: CodeType, code_ref: Callable[[], CodeType | None]) -> Program:
    varnames = code.co_varnames
    extra_cells = tuple(name for name in code.co_cellvars if name not in varnames)
    localsplus = varnames + extra_cells + code.co_freevars
    drafts, starts, jumps = _read_units(code, localsplus)
    index_of = {start: _index_at(starts, start) for start in starts}
    labels = set()
    for draft, offset in jumps:
        draft.target = index_of[offset]
        labels.add(draft.target)
    labels.update(_attach_handlers(code, drafts, starts, index_of))
    for draft in drafts:
        draft.__class__ = Instruction
    return Program(
        code_ref=code_ref,
        instructions=tuple(drafts),  # type: ignore[arg-type]  # their class was changed above
        labels=frozenset(labels),
        is_generator=bool(code.co_flags & _GENERATOR_FLAGS),
        argnames=argument_slots(code),
        names=code.co_names,
        varnames=varnames,
        cellvars=code.co_cellvars,
        freevars=code.co_freevars,
        localsplus=localsplus,
        cell_slots=frozenset(i for i, name in enumerate(localsplus) if i >= len(varnames) or name in code.co_cellvars),
        _starts=starts,
    )


def _read_units(code: CodeType, localsplus: tuple[str, ...]) -> tuple[list[_Draft], list[int], list[tuple[_Draft, int]]]:
    """Instructions without targets and handlers, their start offsets, and (jump, target offset) pairs."""
    raw = code.co_code
    names, consts = code.co_names, code.co_consts
    units = list(code.co_positions())
    units += [(None, None, None, None)] * (len(raw) // 2 - len(units))  # a table that the program has replaced may be shorter
    unit, positions = None, dis.Positions()
    opnames = dis.opname
    drafts: list[_Draft] = []
    starts: list[int] = []
    jumps: list[tuple[_Draft, int]] = []
    offset, end, start, extended = 0, len(raw), 0, 0
    while offset < end:
        opcode = _READ_AS[raw[offset]]
        if opcode == _EXTENDED_ARG:
            extended = (extended | raw[offset + 1]) << 8
            offset += 2
            continue
        kind = _READERS[opcode]
        arg = None if kind is None else raw[offset + 1] | extended
        following = offset + 2 + 2 * _CACHES[opcode]
        argval: Any = arg
        target = None
        if arg is not None:
            if kind == "local":
                argval = localsplus[arg]
            elif kind == "const":
                argval = consts[arg]
            elif kind == "name":
                argval = names[arg >> _FLAGS[opcode]]
            elif kind == "jump":
                argval = None
                target = 2 * arg if _ABSOLUTE[opcode] else following + (-2 * arg if _BACKWARD[opcode] else 2 * arg)
            elif kind == "binary":
                argval = BINARY_OPS[arg]
            elif kind == "compare":
                argval = dis.cmp_op[arg >> DIALECT.compare_shift]
        if units[offset >> 1] != unit:  # equal neighbours share one object
            unit = units[offset >> 1]
            positions = dis.Positions(*unit)
        if kind == "pair":
            assert arg is not None
            for part, slot in zip(_PARTS[opcode], (arg >> 4, arg & 15)):
                drafts.append(_Draft(len(drafts), part, opnames[part], slot, localsplus[slot], offset, None, positions, None))
                starts.append(start)
        else:
            draft = _Draft(len(drafts), opcode, opnames[opcode], arg, argval, offset, None, positions, None)
            drafts.append(draft)
            starts.append(start)
            if target is not None:
                jumps.append((draft, target))
        offset = start = following
        extended = 0
    return drafts, starts, jumps


def _index_at(starts: list[int], offset: int) -> int:
    """Index of the instruction that contains an offset; where one became two, of the first."""
    return bisect_left(starts, starts[bisect_right(starts, offset) - 1])


def _attach_handlers(code: CodeType, drafts: list[_Draft], starts: list[int], index_of: dict[int, int]) -> set[int]:
    """Give each instruction its exception entry; returns the indices of the handlers."""
    targets = set()
    for start, end, target, depth, lasti in exception_table(code):
        entry = ExceptionEntry(index_of[target], depth, lasti)
        targets.add(entry.target)
        # Ranges do not overlap (the compiler flattens nested ones); they may begin past EXTENDED_ARG prefixes.
        index = _index_at(starts, start)
        while index < len(drafts) and drafts[index].offset < end:
            drafts[index].handler = entry
            index += 1
    return targets


def exception_table(code: CodeType) -> Iterator[tuple[int, int, int, int, bool]]:
    """Rows (start, end, target, depth, lasti) of a code object, byte offsets, end exclusive.

    Format: CPython, Objects/exception_handling_notes.txt; each row is four big-endian varints of six bits.
    """
    table = code.co_exceptiontable
    position = 0

    def varint() -> int:
        nonlocal position
        byte = table[position]
        value = byte & 63
        while byte & 64:
            position += 1
            byte = table[position]
            value = value << 6 | byte & 63
        position += 1
        return value

    while position < len(table):
        start, length, target, packed = varint(), varint(), varint(), varint()
        yield 2 * start, 2 * (start + length), 2 * target, packed >> 1, bool(packed & 1)
