"""Which local variables matter from an instruction on: backward dataflow over a program's fast locals.

Cells are not counted (they travel as closure). A handler's needs count wherever its range may raise. What is found is kept in
`program.facts`, since each break in a program asks again.

The code at a graph break hands live locals to the resume function and drops the others (`codegen.breaking`,
`codegen.generators`). `opcode_facts` says which
locals an opcode reads and writes.
"""

from tracer.bytecode.dialect import DIALECT
from tracer.bytecode.instructions import Instruction, Program
from tracer.bytecode.opcode_facts import FACTS, Access

#: Functions that see all locals of their caller.
_LOOKS_AT_LOCALS = frozenset({"locals", "vars", "eval", "exec", "dir", "breakpoint"})


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
    return _names(program, bits[index])


def overwritten_names(program: Program, index: int) -> frozenset[str]:
    """Fast locals that are not read any more, but get another value on some way from instruction `index` on: what they hold
    now dies then."""
    facts = program.facts
    live_names(program, index)  # finds the facts
    if facts["live_bits"] is None:
        return frozenset()
    if "written_bits" not in facts:
        writes = _reads_and_writes(program)[1]
        facts["written_bits"] = _backwards(program, writes, [0] * len(program))
    return _names(program, facts["written_bits"][index] & ~facts["live_bits"][index])


def _names(program: Program, bits: int) -> frozenset[str]:
    known: dict[int, frozenset[str]] = program.facts["live_sets"]
    names = known.get(bits)
    if names is None:
        names = known[bits] = frozenset(name for i, name in enumerate(program.varnames) if bits >> i & 1)
    return names


def _sees_all_locals(program: Program) -> bool:
    return not _LOOKS_AT_LOCALS.isdisjoint(program.names) and any(
        instruction.argval in _LOOKS_AT_LOCALS for instruction in program if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    )


def zero_argument_supers(program: Program) -> frozenset[int]:
    """Indices of the calls `super()`, at the first instruction after the callee was loaded.

    These read the first argument of the frame without naming it, so that it is live there; resume functions (`resume`) ask for
    the same calls, because they have other first arguments.
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
    return _backwards(program, *_reads_and_writes(program))


def _backwards(program: Program, adds: list[int], removes: list[int]) -> list[int]:
    """What holds before each instruction: what it adds, and what holds after it, without what it removes."""
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
            value = adds[index] | out & ~removes[index]
            if instruction.handler is not None:
                value |= live[instruction.handler.target]
            if value != live[index]:
                live[index] = value
                changed = True
    return live


def written_name(instruction: Instruction) -> str | None:
    """The fast local that an instruction writes."""
    accesses = FACTS[instruction.opcode].locals
    return instruction.argval if accesses and Access.WRITE in accesses[0] else None


def _reads_and_writes(program: Program) -> tuple[list[int], list[int]]:
    bit = {name: 1 << i for i, name in enumerate(program.varnames)}
    reads, writes = [0] * len(program), [0] * len(program)
    for instruction in program:
        accesses = FACTS[instruction.opcode].locals
        if not accesses:
            continue
        (access,) = accesses
        name = instruction.argval
        if instruction.arg in program.cell_slots:
            continue
        if Access.READ in access:
            reads[instruction.index] |= bit[name]
        if Access.WRITE in access:
            writes[instruction.index] |= bit[name]
    for start in zero_argument_supers(program):
        if program.argnames[0] not in program.cellvars:
            for index in range(start, start + len(DIALECT.call_sequence)):
                reads[index] |= bit[program.argnames[0]]
    return reads, writes
