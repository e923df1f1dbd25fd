"""What differs between Python versions in the encoding of bytecode, as data.

A `Dialect` is one table per version; everything else asks the dialect of the running interpreter
(`DIALECT`) and never `sys.version_info`. `opcode_report` says what a version still lacks, given the
opcode map saved for it, without that interpreter at hand. Meaning of opcodes does not live here.
"""

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

_ARITHMETIC = ("+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^")
BINARY_OPS = _ARITHMETIC + tuple(f"{symbol}=" for symbol in _ARITHMETIC)
COMPARE_OPS = ("<", "<=", "==", "!=", ">", ">=")


@dataclass(frozen=True)
class Dialect:
    """Encoding facts of one Python version."""

    version: tuple[int, int]
    #: Inline cache entries (code units) that follow an instruction.
    inline_caches: Mapping[str, int]
    #: Symbol for each argument of BINARY_OP; `+=` for the in-place form.
    binary_ops: tuple[str, ...] = BINARY_OPS
    compare_ops: tuple[str, ...] = COMPARE_OPS
    #: COMPARE_OP: index into `compare_ops` is `arg >> compare_shift`; this bit asks for bool(result).
    compare_shift: int = 0
    compare_bool_bit: int = 0
    #: Opcodes whose name index is `arg >> shift`, the low bits being flags.
    name_shift: Mapping[str, int] = field(default_factory=lambda: {"LOAD_GLOBAL": 1})
    #: Opcodes whose lowest bit asks for a NULL beside the pushed value (LOAD_GLOBAL of a callee).
    null_flag: frozenset[str] = frozenset({"LOAD_GLOBAL"})
    #: Opcodes whose lowest bit turns an attribute load into a method load (two slots).
    method_flag: frozenset[str] = frozenset()
    #: Opcodes that load a method whatever their argument.
    method_loads: frozenset[str] = frozenset({"LOAD_METHOD"})
    #: True: a call finds [NULL, callable, *args]; False: [callable, NULL or self, *args].
    null_below_callable: bool = True
    #: Instructions of one call, in order; the one that carries keyword names precedes or replaces them.
    call_sequence: tuple[str, ...] = ("PRECALL", "CALL")
    keyword_names_prefix: str | None = "KW_NAMES"
    keyword_call: str | None = None
    #: Opcodes whose argument holds two fast locals, (arg >> 4, arg & 15).
    local_pairs: frozenset[str] = frozenset()
    #: Opcodes after which control never goes on to the next instruction (jumps included).
    final_ops: frozenset[str] = frozenset()
    #: Abstract jump of the assembler -> its (forward, backward) spelling.
    directed_jumps: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: Meanings of small integer arguments.
    intrinsics_1: tuple[str, ...] = ()
    intrinsics_2: tuple[str, ...] = ()
    common_constants: tuple[str, ...] = ()
    special_methods: tuple[str, ...] = ()
    #: Comprehensions of this version run inside the frame that contains them (PEP 709).
    inlined_comprehensions: bool = False


_FINAL = frozenset(
    {
        "RETURN_VALUE",
        "RAISE_VARARGS",
        "RERAISE",
        "JUMP_FORWARD",
        "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT",
        "INTERPRETER_EXIT",
    }
)

_CONDITIONS = ("TRUE", "FALSE", "NONE", "NOT_NONE")

PY311 = Dialect(
    version=(3, 11),
    inline_caches={
        "BINARY_SUBSCR": 4,
        "STORE_SUBSCR": 1,
        "UNPACK_SEQUENCE": 1,
        "STORE_ATTR": 4,
        "LOAD_ATTR": 4,
        "COMPARE_OP": 2,
        "LOAD_GLOBAL": 5,
        "BINARY_OP": 1,
        "LOAD_METHOD": 10,
        "PRECALL": 1,
        "CALL": 4,
    },
    final_ops=_FINAL,
    directed_jumps={
        "JUMP": ("JUMP_FORWARD", "JUMP_BACKWARD"),
        **{f"POP_JUMP_IF_{c}": (f"POP_JUMP_FORWARD_IF_{c}", f"POP_JUMP_BACKWARD_IF_{c}") for c in _CONDITIONS},
    },
)

PY312 = replace(
    PY311,
    version=(3, 12),
    inline_caches={
        "BINARY_SUBSCR": 1,
        "STORE_SUBSCR": 1,
        "UNPACK_SEQUENCE": 1,
        "FOR_ITER": 1,
        "STORE_ATTR": 4,
        "SEND": 1,
        "LOAD_ATTR": 9,
        "COMPARE_OP": 1,
        "LOAD_GLOBAL": 4,
        "BINARY_OP": 1,
        "LOAD_SUPER_ATTR": 1,
        "CALL": 3,
    },
    compare_shift=4,
    name_shift={"LOAD_GLOBAL": 1, "LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 2},
    method_flag=frozenset({"LOAD_ATTR", "LOAD_SUPER_ATTR"}),
    method_loads=frozenset(),
    call_sequence=("CALL",),
    final_ops=_FINAL | {"RETURN_CONST"},
    directed_jumps={"JUMP": ("JUMP_FORWARD", "JUMP_BACKWARD")},
    intrinsics_1=(
        "INTRINSIC_1_INVALID",
        "INTRINSIC_PRINT",
        "INTRINSIC_IMPORT_STAR",
        "INTRINSIC_STOPITERATION_ERROR",
        "INTRINSIC_ASYNC_GEN_WRAP",
        "INTRINSIC_UNARY_POSITIVE",
        "INTRINSIC_LIST_TO_TUPLE",
        "INTRINSIC_TYPEVAR",
        "INTRINSIC_PARAMSPEC",
        "INTRINSIC_TYPEVARTUPLE",
        "INTRINSIC_SUBSCRIPT_GENERIC",
        "INTRINSIC_TYPEALIAS",
    ),
    intrinsics_2=(
        "INTRINSIC_2_INVALID",
        "INTRINSIC_PREP_RERAISE_STAR",
        "INTRINSIC_TYPEVAR_WITH_BOUND",
        "INTRINSIC_TYPEVAR_WITH_CONSTRAINTS",
        "INTRINSIC_SET_FUNCTION_TYPE_PARAMS",
    ),
    inlined_comprehensions=True,
)

PY313 = replace(
    PY312,
    version=(3, 13),
    inline_caches={
        **PY312.inline_caches,
        "CONTAINS_OP": 1,
        "JUMP_BACKWARD": 1,
        "TO_BOOL": 3,
        **{f"POP_JUMP_IF_{c}": 1 for c in _CONDITIONS},
    },
    compare_shift=5,
    compare_bool_bit=16,
    null_below_callable=False,
    keyword_names_prefix=None,
    keyword_call="CALL_KW",
    local_pairs=frozenset({"LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"}),
    intrinsics_2=(*PY312.intrinsics_2, "INTRINSIC_SET_TYPEPARAM_DEFAULT"),
)

PY314 = replace(
    PY313,
    version=(3, 14),
    inline_caches={
        **{name: count for name, count in PY313.inline_caches.items() if name != "BINARY_SUBSCR"},
        "BINARY_OP": 5,
        "CALL_KW": 3,
    },
    binary_ops=(*BINARY_OPS, "[]"),
    local_pairs=PY313.local_pairs | {"LOAD_FAST_BORROW_LOAD_FAST_BORROW"},
    final_ops=_FINAL,
    common_constants=("AssertionError", "NotImplementedError", "tuple", "all", "any"),
    special_methods=("__enter__", "__exit__", "__aenter__", "__aexit__"),
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

#: Opcodes that exist only in the encoding: the decoder folds them away, so nobody handles them.
ENCODING_ONLY = frozenset({"CACHE", "EXTENDED_ARG", "RESERVED", "INTERPRETER_EXIT", "ENTER_EXECUTOR"})


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
