"""What differs between Python versions in the encoding of bytecode and no single opcode says, as data.

A `Dialect` is one table per version; everything else asks the dialect of the running interpreter (`DIALECT`), or what
`opcode_facts` knows of an opcode, and never `sys.version_info`. `opcode_report` says what a version still lacks, given the
opcode map saved for it, without that interpreter at hand. Meaning of opcodes does not live here.
"""

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Dialect:
    """How one Python version encodes comparisons, calls, loops and locals."""

    version: tuple[int, int]
    #: COMPARE_OP: the comparison is `dis.cmp_op[arg >> compare_shift]`.
    compare_shift: int = 0
    #: Instructions of one call, in order; the one that carries keyword names precedes or replaces them.
    call_sequence: tuple[str, ...] = ("PRECALL", "CALL")
    keyword_names_prefix: str | None = "KW_NAMES"
    keyword_call: str | None = None
    #: Instructions at the target of FOR_ITER that take the iterator, and an item that is not there, from the stack. They are
    #: there for specialised code: FOR_ITER itself jumps over them.
    loop_end: tuple[str, ...] = ()
    #: Whether the NULL of a call lies below the callee, and not between the callee and the arguments.
    null_first: bool = True
    #: Instruction that pushes a cell of the frame itself.
    load_cell: str = "LOAD_CLOSURE"
    #: Instruction without which conditional jumps and UNARY_NOT take only True and False; where there is none, any object.
    to_bool: str | None = None
    #: COMPARE_OP: this bit of the argument asks for True or False.
    compare_to_bool: int = 0
    #: LOAD_FAST trusts the compiler that the local is bound; this one does not.
    checked_load: str = "LOAD_FAST"
    #: The instruction of `container[key]`, with its argument.
    subscript: tuple[str, str | None] = ("BINARY_SUBSCR", None)
    #: CALL_FUNCTION_EX always takes keywords from the stack, NULL for none; it has no argument that tells.
    spread_takes_keywords: bool = False
    #: Whether the offset that an exception handler finds on the stack is an int object. If not, it is a number that only
    #: instructions made for it may take: to store it, or to hand it on, crashes.
    offsets_are_objects: bool = True
    #: The flag of code whose first constant is its docstring; 0 where any str in that place is.
    docstring_flag: int = 0


PY311 = Dialect(version=(3, 11))
PY312 = replace(
    PY311,
    version=(3, 12),
    compare_shift=4,
    call_sequence=("CALL",),
    loop_end=("END_FOR",),
    checked_load="LOAD_FAST_CHECK",
)
PY313 = replace(
    PY312,
    version=(3, 13),
    compare_shift=5,
    compare_to_bool=16,
    keyword_names_prefix=None,
    keyword_call="CALL_KW",
    null_first=False,
    loop_end=("END_FOR", "POP_TOP"),
    load_cell="LOAD_FAST",
    to_bool="TO_BOOL",
)
PY314 = replace(
    PY313,
    version=(3, 14),
    loop_end=("END_FOR", "POP_ITER"),
    subscript=("BINARY_OP", "[]"),
    spread_takes_keywords=True,
    offsets_are_objects=False,
    docstring_flag=0x4000000,
)

DIALECTS: Mapping[tuple[int, int], Dialect] = {d.version: d for d in (PY311, PY312, PY313, PY314)}


def dialect_of(version: tuple[int, int]) -> Dialect:
    """The dialect of a Python version; ImportError names the versions that have one."""
    try:
        return DIALECTS[version]
    except KeyError:
        known = ", ".join(f"{major}.{minor}" for major, minor in DIALECTS)
        raise ImportError(
            f"no bytecode dialect for Python {version[0]}.{version[1]}: known are {known}. "
            "Run with one of these, or add a table to tracer/bytecode/dialect.py."
        ) from None


#: The dialect of the running interpreter.
DIALECT = dialect_of(sys.version_info[:2])

#: Opcodes that exist only in the encoding, so that nobody handles them: the decoder folds them away, takes them apart or reads
#: others in their place (LOAD_FAST for LOAD_FAST_BORROW), or CPython runs them in frames of its own.
ENCODING_ONLY = frozenset(
    {
        "CACHE", "EXTENDED_ARG", "RESERVED", "INTERPRETER_EXIT", "ENTER_EXECUTOR", "EXIT_INIT_CHECK",
        "LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "LOAD_FAST_BORROW",
        "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
    }
)  # fmt: skip


@dataclass(frozen=True)
class OpcodeReport:
    """What a Python version has that the given handlers do not, and the other way round."""

    version: str
    #: In the version's map, handled by nobody.
    missing: tuple[str, ...]
    #: Handled, but not in the version's map (a handler whose version window ends before it).
    absent: tuple[str, ...]
    total: int

    def __str__(self) -> str:
        done = self.total - len(self.missing)
        lines = [f"Python {self.version}: {done} of {self.total} opcodes handled"]
        if self.missing:
            lines.append("  missing: " + ", ".join(self.missing))
        if self.absent:
            lines.append("  gone from this version: " + ", ".join(self.absent))
        return "\n".join(lines)


def opcode_report(opcode_map: Mapping, handled: Collection[str]) -> OpcodeReport:
    """Compare a saved opcode map ({"version": "3.12", "opmap": {name: number}}) with handled opcode names."""
    names = set(opcode_map["opmap"]) - ENCODING_ONLY
    return OpcodeReport(
        version=opcode_map["version"],
        missing=tuple(sorted(names.difference(handled))),
        absent=tuple(sorted(set(handled).difference(names, ENCODING_ONLY))),
        total=len(names),
    )
