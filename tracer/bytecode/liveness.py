"""Which local variables matter from an instruction on: backward dataflow over a program's fast locals.

Cells are not counted (they travel as closure). A handler's needs count wherever its range may raise.
"""

from tracer.bytecode.dialect import DIALECT
from tracer.bytecode.instructions import Program

#: Functions that see all locals of their caller.
_LOOKS_AT_LOCALS = frozenset({"locals", "vars", "eval", "exec", "dir", "breakpoint"})

_READS = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_FAST_AND_CLEAR", "DELETE_FAST"})
_WRITES = frozenset({"STORE_FAST", "LOAD_FAST_AND_CLEAR", "DELETE_FAST"})


def live_names(program: Program, index: int) -> frozenset[str]:
    """Fast locals (not cells) that may be read before they are written from instruction `index` on.

    All of them where the code can look at its locals as a whole.
    """
    facts = program.facts
    if "live_bits" not in facts:
        facts["live_bits"] = None if _sees_all_locals(program) else _flow(program)
        facts["live_sets"] = {}
    bits = facts["live_bits"]
    if bits is None:
        return frozenset(program.varnames).difference(program.cellvars)
    key = bits[index]
    names = facts["live_sets"].get(key)
    if names is None:
        names = frozenset(name for i, name in enumerate(program.varnames) if key >> i & 1)
        facts["live_sets"][key] = names
    return names


def _sees_all_locals(program: Program) -> bool:
    return not _LOOKS_AT_LOCALS.isdisjoint(program.names) and any(
        instruction.argval in _LOOKS_AT_LOCALS
        for instruction in program
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    )


def zero_argument_supers(program: Program) -> frozenset[int]:
    """Indices of the calls `super()`, at the first instruction after the callee was loaded.

    These read the first argument of the frame without naming it.
    """
    if "super" not in program.names or "__class__" not in program.freevars or not program.argnames:
        return frozenset()
    calls = set()
    for load in program:
        if load.opname == "LOAD_GLOBAL" and load.argval == "super":
            call = program[load.index + 1]
            if call.opname == DIALECT.call_sequence[0] and call.arg == 0:
                calls.add(call.index)
    return frozenset(calls)


def _flow(program: Program) -> list[int]:
    """Live-in sets as bit masks over `program.varnames`."""
    reads, writes = _reads_and_writes(program)
    count = len(program)
    live = [0] * count
    changed = True
    while changed:
        changed = False
        for index in range(count - 1, -1, -1):
            instruction = program[index]
            out = 0
            if not instruction.final:
                out = live[index + 1]
            if instruction.target is not None:
                out |= live[instruction.target]
            value = reads[index] | out & ~writes[index]
            if instruction.handler is not None:
                value |= live[instruction.handler.target]
            if value != live[index]:
                live[index] = value
                changed = True
    return live


def _reads_and_writes(program: Program) -> tuple[list[int], list[int]]:
    bit = {name: 1 << i for i, name in enumerate(program.varnames)}
    reads, writes = [0] * len(program), [0] * len(program)
    for instruction in program:
        name = instruction.opname
        if "FAST" not in name:
            continue
        if type(instruction.argval) is tuple:  # two operations in one, such as STORE_FAST_LOAD_FAST
            _pair(instruction.index, name, instruction.argval, bit, reads, writes)
            continue
        if name in _READS:
            reads[instruction.index] = bit[instruction.argval]
        if name in _WRITES:
            writes[instruction.index] = bit[instruction.argval]
    for start in zero_argument_supers(program):
        if program.argnames[0] not in program.cellvars:
            for index in range(start, start + len(DIALECT.call_sequence)):
                reads[index] |= bit[program.argnames[0]]
    return reads, writes


def _pair(
    index: int, name: str, names: tuple[str, str], bit: dict[str, int], reads: list[int], writes: list[int]
) -> None:
    """Effects of a super-instruction: its first half is executed first."""
    second = "STORE" if "_STORE_" in name else "LOAD"
    for verb, local in zip((name.split("_")[0], second), names):
        if verb == "STORE":
            writes[index] |= bit[local]
        elif not writes[index] & bit[local]:
            reads[index] |= bit[local]
