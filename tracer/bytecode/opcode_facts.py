"""What is known of each opcode of the running Python without knowing what it means: how its argument is packed, where control
goes after it, which fast locals it reads and writes, what it takes from the stack.

`dis` and `opcode` say most of that, and the names of opcodes say which locals are meant. `ROWS` holds what neither says: one row
for each opcode that needs one, and none for the others. What differs between versions of Python beyond single opcodes is in
`dialect`; the meaning of opcodes is in `interpreter.opcodes`.
"""

import dis
import enum
import opcode
import re
import sys
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

Version = tuple[int, int]
#: How many values an instruction takes from the stack and how many it leaves, given its argument.
StackUse = Callable[[int], tuple[int, int]]


class Access(enum.Flag):
    """What an opcode does to a fast local."""

    READ = enum.auto()
    WRITE = enum.auto()


def moves(takes: int, leaves: int) -> StackUse:
    """The stack use of an opcode that always takes and leaves as many values."""
    return lambda arg: (takes, leaves)


@dataclass(frozen=True)
class Row:
    """What `dis` does not tell of some opcodes, in the versions of Python from `since` until before `until`."""

    names: str
    #: Where the graph breaks at such an instruction, it is emitted again as it stands, on these values. None: it is not, or by a
    #: function of its own in `codegen.instruction`.
    uses: StackUse | None = None
    _: KW_ONLY
    since: Version = (3, 11)
    until: Version = (99, 0)
    #: How many low bits of the argument are flags; the rest is the index of a name.
    flags: int = 0
    #: Control never goes on to the next instruction.
    final: bool = False
    #: False: it raises no exception, so that its handler is not a way on.
    raises: bool = True
    #: What it does to the local that its argument names, where the opcode's name does not tell.
    local: Access | None = None
    #: False: CPython does not go where its argument leads, whatever `dis` says.
    jumps: bool = True


ROWS: tuple[Row, ...] = (
    Row("LOAD_GLOBAL", moves(0, 1), flags=1),
    Row("LOAD_ATTR", moves(1, 1), until=(3, 12)),
    Row("LOAD_ATTR", flags=1, since=(3, 12)),
    Row("LOAD_SUPER_ATTR", flags=2, since=(3, 12)),
    Row("DELETE_FAST", local=Access.READ | Access.WRITE),  # it raises where the local is unbound
    Row("LOAD_FAST_AND_CLEAR", local=Access.READ | Access.WRITE, raises=False, since=(3, 12)),
    Row("RETURN_VALUE RERAISE JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT", final=True),
    Row("RETURN_CONST", final=True, since=(3, 12), until=(3, 14)),
    Row("INTERPRETER_EXIT", final=True, since=(3, 12)),
    Row("JUMP_FORWARD", final=True, raises=False),
    Row("RAISE_VARARGS", lambda arg: (arg, 0), final=True),
    Row("PUSH_EXC_INFO POP_EXCEPT COPY SWAP POP_TOP PUSH_NULL STORE_FAST NOP", raises=False),
    Row("LOAD_CONST", moves(0, 1), raises=False),
    Row("END_FOR END_SEND", raises=False, since=(3, 12)),
    Row("POP_ITER NOT_TAKEN", raises=False, since=(3, 14)),
    Row("LOAD_SMALL_INT LOAD_COMMON_CONSTANT", moves(0, 1), raises=False, since=(3, 14)),
    Row("END_ASYNC_FOR", jumps=False, since=(3, 14)),  # it leads back to the SEND of the loop, for sys.monitoring
    Row("LOAD_BUILD_CLASS", moves(0, 1)),
    Row("LOAD_ASSERTION_ERROR", moves(0, 1), until=(3, 14)),
    Row("UNARY_NEGATIVE UNARY_NOT UNARY_INVERT GET_ITER", moves(1, 1)),
    Row("UNARY_POSITIVE LIST_TO_TUPLE", moves(1, 1), until=(3, 12)),
    Row("BINARY_OP COMPARE_OP IS_OP CONTAINS_OP IMPORT_NAME", moves(2, 1)),
    Row("BINARY_SUBSCR", moves(2, 1), until=(3, 14)),
    Row("BEFORE_WITH", moves(1, 2), until=(3, 14)),
    Row("GET_LEN", moves(1, 2)),
    Row("DELETE_GLOBAL", moves(0, 0)),
    Row("STORE_GLOBAL DELETE_ATTR", moves(1, 0)),
    Row("STORE_ATTR DELETE_SUBSCR", moves(2, 0)),
    Row("STORE_SUBSCR", moves(3, 0)),
    Row("BINARY_SLICE", moves(3, 1), since=(3, 12)),
    Row("STORE_SLICE", moves(4, 0), since=(3, 12)),
    Row("CALL_INTRINSIC_1", moves(1, 1), since=(3, 12)),
    Row("CALL_INTRINSIC_2", moves(2, 1), since=(3, 12)),
    Row("UNPACK_SEQUENCE", lambda arg: (1, arg)),
    Row("UNPACK_EX", lambda arg: (1, (arg & 0xFF) + 1 + (arg >> 8))),
    Row("BUILD_SET BUILD_STRING BUILD_LIST BUILD_TUPLE", lambda arg: (arg, 1)),
    Row("BUILD_MAP", lambda arg: (2 * arg, 1)),
    Row("TO_BOOL CONVERT_VALUE FORMAT_SIMPLE", moves(1, 1), since=(3, 13)),
    Row("FORMAT_WITH_SPEC", moves(2, 1), since=(3, 13)),
    Row("CALL_KW", lambda arg: (arg + 3, 1), since=(3, 13)),
    Row("FORMAT_VALUE", lambda arg: (2 if arg & 4 else 1, 1), until=(3, 13)),
    Row("CALL_FUNCTION_EX", lambda arg: (4 if arg & 1 else 3, 1), until=(3, 14)),
    Row("CALL_FUNCTION_EX", moves(4, 1), since=(3, 14)),
    Row("BUILD_TEMPLATE", moves(2, 1), since=(3, 14)),
    Row("BUILD_INTERPOLATION", lambda arg: (2 + (arg & 1), 1), since=(3, 14)),
    Row("LIST_EXTEND SET_UPDATE DICT_UPDATE SET_ADD LIST_APPEND", lambda arg: (arg + 1, arg)),
    Row("MAP_ADD", lambda arg: (arg + 2, arg)),
)


@dataclass(frozen=True, slots=True)
class OpcodeFacts:
    """What is known of one opcode, from `dis` and from its row."""

    name: str
    #: Which table the argument indexes: const, name, local, pair (of locals), compare, binary; or jump, plain. None: no argument.
    argument: str | None
    #: Code units of inline caches after the instruction.
    caches: int
    #: What happens to each of the locals that the argument names, in the order of execution.
    locals: tuple[Access, ...]
    flags: int
    final: bool
    raises: bool
    uses: StackUse | None


def row_of(name: str, version: Version) -> Row:
    """The row of an opcode in a version of Python; an empty one where it needs none."""
    found = [row for row in ROWS if name in row.names.split() and row.since <= version < row.until]
    assert len(found) <= 1, f"two rows for {name} in one version of Python"
    return found[0] if found else Row(name)


_ACCESS = {"LOAD": Access.READ, "STORE": Access.WRITE}
#: Those whose argument is the place of a cell. Python 3.14 lists LOAD_DEREF among those of locals.
CELL_OPCODES = frozenset({*dis.hasfree, *(number for number in dis.haslocal if "FAST" not in dis.opname[number])})


def _locals(number: int, row: Row) -> tuple[Access, ...]:
    """LOAD_FAST reads, STORE_FAST writes, STORE_FAST_LOAD_FAST does one and then the other; any other opcode of a local is taken
    to read it, which is never wrong: it keeps the value alive."""
    if number not in dis.haslocal or number in CELL_OPCODES:
        return ()
    if row.local is not None:
        return (row.local,)
    return tuple(_ACCESS[verb] for verb in re.findall("(LOAD|STORE)_FAST", dis.opname[number])) or (Access.READ,)


def _argument(number: int, row: Row, locals: tuple[Access, ...]) -> str | None:
    has_argument = getattr(dis, "hasarg", None)  # Python 3.12
    if number not in has_argument if has_argument is not None else number < dis.HAVE_ARGUMENT:
        return None
    if number in dis.hasjrel or number in dis.hasjabs:
        return "jump" if row.jumps else "plain"
    if number in dis.hasconst:
        return "const"
    if number in dis.hasname:
        return "name"
    if locals or number in CELL_OPCODES:
        return "pair" if len(locals) == 2 else "local"
    if number in dis.hascompare:
        return "compare"
    return "binary" if dis.opname[number] == "BINARY_OP" else "plain"


def _caches(number: int) -> int:
    entries = vars(opcode)["_inline_cache_entries"]  # by number before Python 3.13, by name from there on
    count: int = entries.get(dis.opname[number], 0) if isinstance(entries, dict) else entries[number]
    return count


def _facts_of(number: int) -> OpcodeFacts:
    name = dis.opname[number]
    row = row_of(name, sys.version_info[:2])
    locals = _locals(number, row)
    argument = _argument(number, row, locals)
    return OpcodeFacts(name, argument, _caches(number), locals, row.flags, row.final, row.raises, row.uses)


#: By opcode number, of the running Python.
FACTS = tuple(_facts_of(number) for number in range(256))

#: Abstract jump of the assembler -> its (forward, backward) spelling: JUMP, POP_JUMP_IF_TRUE.
DIRECTED_JUMPS = {
    name.replace("_FORWARD", ""): (name, name.replace("_FORWARD", "_BACKWARD")) for name in dis.opmap if "JUMP_FORWARD" in name
}

#: Symbol for each argument of BINARY_OP; `+=` for the in-place form.
BINARY_OPS: tuple[str, ...] = tuple(symbol for _, symbol in vars(opcode)["_nb_ops"])
