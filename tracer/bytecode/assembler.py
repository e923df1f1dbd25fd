"""Assembling code objects: a thin layer over the `bytecode` library.

The library encodes (caches, EXTENDED_ARG, positions, exception table). Added here: nested try ranges, stack
depths that survive unreachable code, constants kept by identity, jumps that pick their direction, cells and
free variables told apart at the end. What to emit is the caller's business.
"""

import contextlib
import dis
import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import CodeType
from typing import Any

from bytecode import BinaryOp, Bytecode, CellVar, Compare, CompilerFlags, FreeVar, Instr, Label, TryBegin, TryEnd
from bytecode.instr import CommonConstant, InstrLocation, Intrinsic1Op, Intrinsic2Op, SpecialMethod

from tracer.bytecode.dialect import DIALECT
from tracer.bytecode.instructions import Instruction
from tracer.bytecode.opcode_facts import BINARY_OPS, CELL_OPCODES, DIRECTED_JUMPS, FACTS
from tracer.bytecode.stack_depth import DepthError, measure

FUNCTION_FLAGS = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS
_COMPARE = dict(zip(dis.cmp_op, Compare, strict=False))
_BINARY = dict(zip(BINARY_OPS, BinaryOp, strict=False))
_CONST_OPS = frozenset(dis.opname[opcode] for opcode in dis.hasconst)
_CELL_OPS = frozenset(dis.opname[opcode] for opcode in CELL_OPCODES)
#: By opcode, the members of what enumeration the library takes as the argument.
_NUMBERED = {
    "CALL_INTRINSIC_1": Intrinsic1Op,
    "CALL_INTRINSIC_2": Intrinsic2Op,
    "LOAD_SPECIAL": SpecialMethod,
    "LOAD_COMMON_CONSTANT": CommonConstant,
}
#: Opcodes whose arguments the library does not take -> those that stand for them until `finish` puts them in place.
_STAND_INS = {"BUILD_INTERPOLATION": "BUILD_STRING"}
_ABSTRACT_JUMPS = {spelling: jump for jump, pair in DIRECTED_JUMPS.items() for spelling in (jump, *pair)}


class AssemblyError(ValueError):
    """The emitted instructions do not make a code object."""


@dataclass(eq=False, slots=True)
class _Const:
    """Stands in for a constant while the library merges constants by value."""

    value: Any


@dataclass(frozen=True, slots=True)
class _CellSlot:
    """The argument of an instruction for fast locals, where it is the place of a cell or free variable."""

    name: str


@dataclass(eq=False, slots=True)
class _TryRange:
    handler: Label
    lasti: bool
    depth: int | None
    #: Filled in by `finish`.
    handler_index: int = -1


@dataclass(eq=False, slots=True)
class _Op:
    opname: str
    arg: Any
    location: InstrLocation | None
    protection: _TryRange | None
    opcode: int = -1
    effect_arg: int | None = None
    target_index: int | None = None
    final: bool = False
    copied: bool = False

    def __str__(self) -> str:
        return self.opname if self.arg is None else f"{self.opname} {self.arg!r}"


@dataclass(eq=False, slots=True)
class _Layout:
    """Instructions in their final order, where each label stands, and what is known of the names."""

    ops: list[_Op]
    places: dict[Label, int]
    cellvars: tuple[str, ...]
    freevars: tuple[str, ...]
    starts: dict[int, list[Label]] = field(default_factory=dict)


class Assembler:
    """Collects instructions and turns them into a code object."""

    def __init__(self) -> None:
        self._ops: list[_Op] = []
        self._places: dict[Label, int] = {}
        self._ranges: list[_TryRange] = []
        self._location: InstrLocation | None = None
        self._locations: dict[tuple, InstrLocation] = {}
        self._consts: dict[Any, _Const] = {}
        self._fresh = itertools.count()
        #: Once finished: for each instruction of the code, which emit it came from (negative in the prologue).
        self.emitted: list[int] = []

    # Instructions

    def position(self) -> int:
        """How many instructions were emitted so far."""
        return len(self._ops)

    def since(self, position: int) -> list[tuple[str, Any]]:
        """The instructions that were emitted from a position on, with their arguments."""
        return [(op.opname, op.arg) for op in self._ops[position:]]

    def emit(self, opname: str, arg: Any = None) -> None:
        """Append an instruction.

        `arg` by kind: a constant (LOAD_CONST, KW_NAMES: any object, kept by identity), a name, (flag, name) where
        the low bits of the argument are flags (LOAD_GLOBAL; a bare name means none), a symbol ("+", "+=", "<"),
        (True, symbol) for a comparison that gives True or False, a Label, an int. Jumps may be
        written without a direction: JUMP, POP_JUMP_IF_TRUE.
        """
        protection = self._ranges[-1] if self._ranges else None
        self._ops.append(_Op(opname, arg, self._location, protection))

    def emit_copy(self, instruction: Instruction, target: Label | None = None) -> None:
        """Append an instruction of a decoded program, its position included; a jump goes to `target`."""
        arg = instruction.arg if target is None else target
        if target is None and instruction.argval is not arg:
            arg = instruction.argval
            flags = FACTS[instruction.opcode].flags
            if flags:
                arg = (*(bool(instruction.oparg >> bit & 1) for bit in range(flags)), arg)
            elif instruction.opname == "COMPARE_OP" and instruction.oparg & DIALECT.compare_to_bool:
                arg = (True, arg)
        self.set_position(instruction.positions)
        self.emit(instruction.opname, arg)
        self._ops[-1].copied = True

    def emit_on_cell(self, opname: str, name: str) -> None:
        """Append an instruction for fast locals (LOAD_FAST_AND_CLEAR, STORE_FAST) that works on the place of a cell or free
        variable itself: it takes, and leaves there, the cell, a plain value or NULL."""
        self.emit(opname, _CellSlot(name))

    def label(self) -> Label:
        return Label()

    def place(self, label: Label) -> None:
        """The label stands before the next instruction."""
        if label in self._places:
            raise AssemblyError("a label can stand in one place only")
        self._places[label] = len(self._ops)

    def set_position(self, positions: dis.Positions | None) -> None:
        """Source position of the instructions that follow; None: the first line of the code."""
        if positions is None:
            self._location = None
            return
        location = self._locations.get(positions)
        if location is None:
            location = self._locations[positions] = _location(positions)
        self._location = location

    def try_begin(self, handler: Label, push_lasti: bool = False, depth: int | None = None) -> _TryRange:
        """Exceptions from here to `try_end` go to `handler`; ranges nest, the innermost one counts.

        The handler finds the stack as deep as it was here (or `depth`), then the offset if `push_lasti`, then the
        exception.
        """
        token = _TryRange(handler, push_lasti, depth)
        self._ranges.append(token)
        return token

    def try_end(self, token: _TryRange) -> None:
        if not self._ranges or self._ranges[-1] is not token:
            raise AssemblyError("try ranges end in the reverse order of their begin")
        self._ranges.pop()

    def load_const(self, value: Any) -> None:
        self.emit("LOAD_CONST", value)

    def load_fast(self, name: str) -> None:
        self.emit("LOAD_FAST", name)

    def store_fast(self, name: str) -> None:
        self.emit("STORE_FAST", name)

    def delete_fast(self, name: str) -> None:
        self.emit("DELETE_FAST", name)

    def load_global(self, name: str) -> None:
        """-> global or builtin `name`"""
        self.emit("LOAD_GLOBAL", (False, name))

    def load_deref(self, name: str) -> None:
        """-> contents of a cell or free variable"""
        self.emit("LOAD_DEREF", name)

    def store_deref(self, name: str) -> None:
        self.emit("STORE_DEREF", name)

    def load_closure(self, name: str) -> None:
        """-> the cell itself"""
        if DIALECT.load_cell == "LOAD_CLOSURE":
            self.emit("LOAD_CLOSURE", name)
        else:
            self.emit_on_cell(DIALECT.load_cell, name)

    def load_attr(self, name: str) -> None:
        self.emit("LOAD_ATTR", name)

    def push_null(self) -> None:
        self.emit("PUSH_NULL")

    def load_callee(self, load: Callable[[], None]) -> None:
        """-> what a call takes below its arguments: NULL and the object that `load` pushes, in the order of this Python"""
        if DIALECT.null_first:
            self.push_null()
        load()
        if not DIALECT.null_first:
            self.push_null()

    def make_callee(self) -> None:
        """callable -> what a call takes below its arguments"""
        self.push_null()
        if DIALECT.null_first:
            self.swap(2)

    def call(self, nargs: int, kwnames: Sequence[str] = ()) -> None:
        """callee, args... -> result; `load_callee` or `make_callee` gives the first. The last `len(kwnames)` of
        `nargs` arguments are passed by keyword."""
        if kwnames:
            if DIALECT.keyword_call is not None:
                self.load_const(tuple(kwnames))
                self.emit(DIALECT.keyword_call, nargs)
                return
            assert DIALECT.keyword_names_prefix is not None
            self.emit(DIALECT.keyword_names_prefix, tuple(kwnames))
        for opname in DIALECT.call_sequence:
            self.emit(opname, nargs)

    def call_spread(self) -> None:
        """callee, iterable of arguments -> result"""
        if DIALECT.spread_takes_keywords:
            self.push_null()
            self.emit("CALL_FUNCTION_EX")
        else:
            self.emit("CALL_FUNCTION_EX", 0)

    def subscript(self) -> None:
        """container, key -> container[key]"""
        self.emit(*DIALECT.subscript)

    def build_tuple(self, count: int) -> None:
        self.emit("BUILD_TUPLE", count)

    def swap(self, depth: int) -> None:
        """Swap the top of the stack with the value at `depth` (1 is the top itself)."""
        if depth != 1:
            self.emit("SWAP", depth)

    def copy(self, depth: int) -> None:
        """Push the value at `depth` (1 is the top) once more."""
        self.emit("COPY", depth)

    def pop(self) -> None:
        self.emit("POP_TOP")

    def jump(self, label: Label) -> None:
        self.emit("JUMP", label)

    def jump_if_true(self, label: Label) -> None:
        """value ->, and a jump if it is true, whatever it is"""
        self.truth()
        self.emit("POP_JUMP_IF_TRUE", label)

    def truth(self) -> None:
        """value -> what a conditional jump takes"""
        if DIALECT.to_bool is not None:
            self.emit(DIALECT.to_bool)

    def return_value(self) -> None:
        self.emit("RETURN_VALUE")

    def fresh_local(self, prefix: str) -> str:
        """A local name that nothing else in this code has."""
        return f"___{prefix}_{next(self._fresh)}"

    # The code object

    def finish(
        self,
        name: str,
        qualname: str,
        filename: str,
        firstlineno: int,
        argnames: Sequence[str] = (),
        freevars: Sequence[str] = (),
        *,
        cellvars: Sequence[str] = (),
        flags: int = FUNCTION_FLAGS,
        docstring: str | None = None,
    ) -> CodeType:
        """The code object of a function with these positional arguments.

        Prologue (COPY_FREE_VARS, MAKE_CELL, RESUME) and stack size are added; instructions that control never
        reaches are dropped. AssemblyError names the instruction at fault.
        """
        if self._ranges:
            raise AssemblyError("a try range was begun and not ended")
        layout = self._lay_out(tuple(cellvars), tuple(freevars), firstlineno)
        depths, deepest = self._measure(layout)
        flags |= inspect.CO_NESTED if freevars else 0
        flags = flags & ~DIALECT.docstring_flag | (0 if docstring is None else DIALECT.docstring_flag)
        listing = Bytecode()
        listing.name, listing.qualname, listing.filename = name, qualname, filename
        listing.first_lineno = firstlineno
        listing.argnames = list(argnames)
        listing.argcount = len(argnames)
        listing.cellvars, listing.freevars = list(cellvars), list(freevars)
        listing.flags = CompilerFlags(flags)
        listing.docstring = self._const(docstring)
        listing.extend(self._listing(layout, depths))
        skipped = len(layout.ops) - len(self._ops)
        self.emitted = [index - skipped for index, depth in enumerate(depths) if depth is not None]
        code = listing.to_code(stacksize=max(deepest, 1), compute_exception_stack_depths=False)
        reached = (op for op, depth in zip(layout.ops, depths) if depth is not None)
        others = {i: op.opcode for i, op in enumerate(reached) if isinstance(op.arg, _CellSlot) or op.opname in _STAND_INS}
        raw = _renamed(code.co_code, others) if others else code.co_code
        found: CodeType = code.replace(co_code=raw, co_consts=tuple(const.value for const in code.co_consts))
        return found

    def _lay_out(self, cellvars: tuple[str, ...], freevars: tuple[str, ...], firstlineno: int) -> _Layout:
        start = InstrLocation(firstlineno, None, None, None)
        prologue = [_Op("COPY_FREE_VARS", len(freevars), start, None)] if freevars else []
        prologue += [_Op("MAKE_CELL", cell, start, None) for cell in cellvars]
        prologue.append(_Op("RESUME", 0, start, None))
        places = {label: index + len(prologue) for label, index in self._places.items()}
        layout = _Layout(prologue + self._ops, places, cellvars, freevars)
        for label, index in places.items():
            layout.starts.setdefault(index, []).append(label)
        for index, op in enumerate(layout.ops):
            self._complete(op, index, layout)
        return layout

    def _complete(self, op: _Op, index: int, layout: _Layout) -> None:
        """Fill in what the flow of depths asks for."""
        if isinstance(op.arg, Label):
            op.target_index = _place_of(op.arg, layout)
            forward = op.target_index > index
            jump = _ABSTRACT_JUMPS.get(op.opname)
            if jump is not None:
                op.opname = DIRECTED_JUMPS[jump][0 if forward else 1]
            elif forward == ("BACKWARD" in op.opname):
                raise AssemblyError(f"{op.opname} cannot jump {'forward' if forward else 'backward'}")
        opcode = dis.opmap.get(op.opname)
        if opcode is None:
            raise AssemblyError(f"Python {DIALECT.version[0]}.{DIALECT.version[1]} has no opcode {op.opname}")
        op.opcode = opcode
        op.final = FACTS[opcode].final
        if FACTS[opcode].argument is not None:
            op.effect_arg = _effect_arg(op)
        if op.protection is not None:
            op.protection.handler_index = _place_of(op.protection.handler, layout)

    def _measure(self, layout: _Layout) -> tuple[list[int | None], int]:
        try:
            return measure(layout.ops)
        except DepthError as error:
            around = layout.ops[max(0, error.index - 3) : error.index + 2]
            listing = "; ".join(map(str, around))
            raise AssemblyError(f"instruction {error.index}: {error}. Around it: {listing}") from None
        except ValueError as error:  # from dis.stack_effect: an argument too few or too many
            raise AssemblyError(str(error)) from None

    def _listing(self, layout: _Layout, depths: list[int | None]) -> list[Instr | Label | TryBegin | TryEnd]:
        """The reached instructions in the library's terms."""
        used = {op.arg for op, depth in zip(layout.ops, depths, strict=True) if depth is not None and op.target_index is not None}
        used.update(op.protection.handler for op in layout.ops if op.protection is not None)
        listing: list[Instr | Label | TryBegin | TryEnd] = []
        protection, begin = None, None
        for index, (op, depth) in enumerate(zip(layout.ops, depths, strict=True)):
            listing.extend(label for label in layout.starts.get(index, ()) if label in used)
            if depth is None:
                continue
            if op.protection is not protection:
                if begin is not None:
                    listing.append(TryEnd(begin))
                protection, begin = op.protection, None
                if protection is not None:
                    begin = TryBegin(protection.handler, protection.lasti, protection.depth)
                    listing.append(begin)
            listing.append(self._lower(op, layout))
        if begin is not None:
            listing.append(TryEnd(begin))
        return listing

    def _lower(self, op: _Op, layout: _Layout) -> Instr:
        location = op.location
        arg: Any = op.arg
        if op.opname in _CONST_OPS:
            return Instr(op.opname, self._const(arg), location=location)
        facts = FACTS[op.opcode]
        if facts.argument is None:
            return Instr(op.opname, location=location)
        if isinstance(arg, _CellSlot):  # the library takes no cell for these; `finish` puts the opcode in place
            return Instr("MAKE_CELL", _variable(op, arg.name, layout), location=location)
        if op.opname in _STAND_INS:
            return Instr(_STAND_INS[op.opname], arg, location=location)
        if op.opname == "LOAD_FAST" and not op.copied:
            return Instr(DIALECT.checked_load, arg, location=location)
        if op.opname in _CELL_OPS:
            arg = _variable(op, arg, layout)
        elif op.opname in _NUMBERED:
            arg = _numbered(_NUMBERED[op.opname], arg)
        elif op.opname == "COMPARE_OP":
            arg = _comparison(arg)
        elif op.opname == "BINARY_OP":
            arg = _BINARY[arg]
        elif facts.flags and isinstance(arg, str):
            arg = (*(False,) * facts.flags, arg)
        return Instr(op.opname, arg, location=location)

    def _const(self, value: Any) -> _Const:
        """One constant per object; equal plain values of one type are one object."""
        key = (type(value), value) if type(value) in (int, str, bytes, bool, type(None)) else id(value)
        const = self._consts.get(key)
        if const is None:
            const = self._consts[key] = _Const(value)
        return const


def _place_of(label: Label, layout: _Layout) -> int:
    index = layout.places.get(label)
    if index is None:
        raise AssemblyError("a jump or try range refers to a label that was never placed")
    return index


def _effect_arg(op: _Op) -> int:
    if isinstance(op.arg, int) and op.opname not in _CONST_OPS:
        return op.arg
    if isinstance(op.arg, tuple) and FACTS[op.opcode].flags:
        return sum(flag << bit for bit, flag in enumerate(op.arg[:-1]))
    return 0


def _renamed(raw: bytes, opcodes: dict[int, int]) -> bytes:
    """Code whose instructions at these indices have other opcodes, with the same arguments."""
    code, offset, index = bytearray(raw), 0, 0
    while offset < len(code):
        opcode = code[offset]
        if opcode == dis.EXTENDED_ARG:
            offset += 2
            continue
        if index in opcodes:
            code[offset] = opcodes[index]
        offset += 2 + 2 * FACTS[opcode].caches
        index += 1
    return bytes(code)


def _numbered(members: type[IntEnum], number: int) -> IntEnum:
    """The library takes members of its enumerations, which may end before those of CPython do. Others are members of no name."""
    if number in members.__members__.values():
        return members(number)
    made = int.__new__(members, number)
    made._value_ = number
    return made


def _comparison(arg: str | tuple[bool, str]) -> Compare:
    if isinstance(arg, str):
        return _COMPARE[arg]
    to_bool, symbol = arg
    return Compare(_COMPARE[symbol] | DIALECT.compare_to_bool * to_bool)


def _variable(op: _Op, name: str, layout: _Layout) -> CellVar | FreeVar:
    if name in layout.freevars:
        return FreeVar(name)
    if name in layout.cellvars:
        return CellVar(name)
    raise AssemblyError(f"{op.opname} of {op.arg!r}, which is neither a cell nor a free variable of this code")


def _location(positions: dis.Positions) -> InstrLocation:
    """Positions as the library takes them: it miswrites columns from 128 to 255, and so the lines that follow, and refuses
    ends before their beginnings, which generated syntax trees have. There the line alone is kept."""
    line, end_line, column, end_column = positions
    if column is not None and end_column is not None and not (line == end_line and 128 <= max(column, end_column) < 256):
        with contextlib.suppress(ValueError):
            return InstrLocation(line, end_line, column, end_column)
    return InstrLocation(line, None, None, None)
