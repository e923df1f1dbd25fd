"""Code objects put together by the Assembler run, and carry the positions and try ranges they were given."""

import dis
import inspect
import traceback
import types

import pytest

from tracer.bytecode import DIALECT, Assembler, AssemblyError, program
from tracer.bytecode.instructions import exception_table


def finish(assembler, argnames=(), freevars=(), **options):
    return assembler.finish("made", "test.made", __file__, 10, argnames, freevars, **options)


def function(assembler, argnames=(), closure=None, freevars=(), **options):
    cells = None if closure is None else tuple(types.CellType(value) for value in closure)
    return types.FunctionType(finish(assembler, argnames, freevars, **options), globals(), "made", None, cells)


CALL_WITH_NAMES = {
    (3, 11): ["KW_NAMES", "PRECALL", "CALL", "RETURN_VALUE"],
    (3, 12): ["LOAD_CONST", "KW_NAMES", "CALL", "RETURN_VALUE"],
    (3, 13): ["LOAD_CONST", "LOAD_CONST", "CALL_KW", "RETURN_VALUE"],
    (3, 14): ["LOAD_CONST", "LOAD_CONST", "CALL_KW", "RETURN_VALUE"],
}[DIALECT.version]


def test_a_call_with_positional_and_keyword_arguments():
    asm = Assembler()
    asm.load_callee(lambda: asm.load_const(dict))
    asm.load_fast("pairs")
    asm.load_const(1)
    asm.load_const(2)
    asm.call(3, ("a", "b"))
    asm.return_value()
    made = function(asm, ("pairs",))
    assert made([("c", 3)]) == {"c": 3, "a": 1, "b": 2}
    assert [i.opname for i in program(made.__code__)][-4:] == CALL_WITH_NAMES
    assert program(made.__code__)[0].opname == "RESUME"


def test_the_code_says_who_it_is():
    asm = Assembler()
    asm.load_fast("a")
    asm.return_value()
    code = finish(asm, ("a", "b"), docstring="A text.")
    assert (code.co_name, code.co_qualname, code.co_filename) == ("made", "test.made", __file__)
    assert (code.co_firstlineno, code.co_argcount, code.co_varnames) == (10, 2, ("a", "b"))
    assert code.co_flags == inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS | DIALECT.docstring_flag
    assert types.FunctionType(code, {}).__doc__ == "A text."
    assert types.FunctionType(finish(asm, ("a", "b")), {}).__doc__ is None
    assert code.co_stacksize == 1


def test_constants_keep_their_identity():
    one, other = [1], [1]
    big, same = 10**30, 10**30 + 0
    values = (one, other, (one,), 1, True, 1.0, 0.0, -0.0, None, "1", b"1", big, same, frozenset({1}), ...)
    asm = Assembler()
    for value in values:
        asm.load_const(value)
    asm.build_tuple(len(values))
    asm.return_value()
    got = function(asm)()
    assert all(a is b or (type(a), repr(a)) == (type(b), repr(b)) for a, b in zip(got, values))
    assert got[0] is one and got[1] is other and got[2][0] is one


def test_free_variables_come_in_order_and_cells_are_made():
    asm = Assembler()
    asm.load_deref("y")
    asm.load_deref("x")
    asm.load_closure("x")
    asm.load_deref("own")
    asm.load_const(5)
    asm.store_deref("own")
    asm.load_closure("own")
    asm.build_tuple(5)
    asm.return_value()
    made = function(asm, ("own",), ("ex", "why"), ("x", "y"), cellvars=("own",))
    y, x, cell, own, own_cell = made(3)
    assert (y, x, own) == ("why", "ex", 3)
    assert cell is made.__closure__[0] and own_cell.cell_contents == 5
    names = [i.opname for i in program(made.__code__)][:3]
    assert names == ["COPY_FREE_VARS", "MAKE_CELL", "RESUME"]
    assert made.__code__.co_flags & inspect.CO_NESTED


def test_jumps_choose_their_direction():
    asm = Assembler()
    loop, done = asm.label(), asm.label()
    asm.load_const(0)
    asm.store_fast("total")
    asm.place(loop)
    asm.load_fast("n")
    asm.truth()
    asm.emit("POP_JUMP_IF_FALSE", done)
    asm.load_fast("total")
    asm.load_fast("n")
    asm.emit("BINARY_OP", "+=")
    asm.store_fast("total")
    asm.load_fast("n")
    asm.load_const(1)
    asm.emit("BINARY_OP", "-")
    asm.store_fast("n")
    asm.load_fast("n")
    asm.load_const(-5)
    asm.emit("COMPARE_OP", ">")
    if DIALECT.version < (3, 12):  # from there on conditional jumps go forward only
        asm.emit("POP_JUMP_IF_TRUE", loop)
    else:
        asm.pop()
    asm.jump(loop)
    asm.place(done)
    asm.load_fast("total")
    asm.return_value()
    made = function(asm, ("n",))
    assert made(4) == 10
    names = {i.opname for i in program(made.__code__) if i.target is not None}
    conditional = {"POP_JUMP_IF_FALSE"}
    if DIALECT.version < (3, 12):
        conditional = {"POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_TRUE"}
    assert names == conditional | {"JUMP_BACKWARD"}


def call_global(asm, name):
    asm.load_callee(lambda: asm.load_global(name))
    asm.call(0)
    asm.pop()


def fail_value():
    raise ValueError("inner")


def fail_key():
    raise KeyError("outer")


def test_try_ranges_nest():
    asm = Assembler()
    inner, outer = asm.label(), asm.label()
    asm.load_const("kept")
    first = asm.try_begin(outer)
    asm.load_const("dropped")
    call_global(asm, "int")
    second = asm.try_begin(inner, push_lasti=True)
    call_global(asm, "fail_value")
    asm.try_end(second)
    call_global(asm, "int")
    asm.load_const("not reached here")
    asm.return_value()
    asm.place(inner)  # kept, dropped, lasti, ValueError; still in the outer range
    call_global(asm, "fail_key")
    asm.try_end(first)
    asm.load_const("nor here")
    asm.return_value()
    asm.place(outer)  # kept, KeyError
    asm.build_tuple(2)
    asm.return_value()
    made = function(asm)
    kept, error = made()
    assert kept == "kept" and isinstance(error, KeyError)
    rows = list(exception_table(made.__code__))
    assert [(depth, lasti) for *_, depth, lasti in rows] == [(1, False), (2, True), (1, False)]
    ends = [end for _, end, *_ in rows]
    assert all(start >= end for (start, *_), end in zip(rows[1:], ends))
    assert made.__code__.co_stacksize == 6


def test_code_that_is_never_reached_is_dropped_with_its_ranges():
    asm = Assembler()
    handler, skipped = asm.label(), asm.label()
    asm.load_const(1)
    asm.jump(skipped)
    token = asm.try_begin(handler)
    asm.pop()
    asm.pop()
    asm.pop()
    asm.try_end(token)
    asm.place(skipped)
    asm.return_value()
    asm.place(handler)
    asm.return_value()
    made = function(asm)
    assert made() == 1
    assert "POP_TOP" not in [i.opname for i in program(made.__code__)]
    assert not made.__code__.co_exceptiontable


def test_a_range_entered_in_its_middle_keeps_the_shallowest_stack():
    asm = Assembler()
    handler, middle = asm.label(), asm.label()
    asm.load_const("kept")
    asm.jump(middle)
    token = asm.try_begin(handler)
    asm.pop()
    asm.place(middle)
    call_global(asm, "fail_value")
    asm.try_end(token)
    asm.return_value()
    asm.place(handler)
    asm.build_tuple(2)
    asm.return_value()
    kept, error = function(asm)()
    assert kept == "kept" and isinstance(error, ValueError)


def test_positions_appear_in_tracebacks():
    def sample(a):
        return a.missing + 1

    load = next(i for i in program(sample.__code__) if i.opname == "LOAD_ATTR")
    asm = Assembler()
    asm.load_fast("a")
    asm.set_position(load.positions)
    asm.load_attr("missing")
    asm.set_position(None)
    asm.return_value()
    made = function(asm, ("a",))
    with pytest.raises(AttributeError) as caught:
        made(3)
    entry = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert entry.line == "return a.missing + 1"
    assert (entry.lineno, entry.colno, entry.end_colno) == (load.line, 15, 24)
    assert program(made.__code__)[1].line == 10


@pytest.mark.parametrize("positions", [(7, None, None, None), (7, 3, 4, 5), (7, 7, 9, 2), (7, 9, 1, None), (7, 7, 300, 700)])
def test_strange_positions_of_generated_code_keep_the_line(positions):
    asm = Assembler()
    asm.set_position(dis.Positions(*positions))
    asm.load_const(1)
    asm.return_value()
    code = finish(asm)
    assert {i.line for i in program(code).instructions[1:]} == {7}
    assert types.FunctionType(code, {})() == 1


@pytest.mark.parametrize("columns", [(3, 127), (3, 128), (130, 140), (128, 255), (3, 256), (300, 700)])
def test_lines_after_a_long_line_are_right(columns):
    asm = Assembler()
    for line in (11, 12, 14):
        asm.set_position(dis.Positions(line, line, *columns))
        asm.load_const(line)
        asm.pop()
    asm.load_const(None)
    asm.return_value()
    code = finish(asm)
    assert [line for *_, line in code.co_lines()][-3:] == [11, 12, 14]
    assert {p[0] for p in code.co_positions()} == {10, 11, 12, 14}


def test_instructions_without_a_line_stay_without():
    asm = Assembler()
    asm.set_position(dis.Positions(None, None, None, None))
    asm.load_const(1)
    asm.return_value()
    assert [i.line for i in program(finish(asm))] == [10, None, None]


def test_fresh_locals_differ():
    asm = Assembler()
    names = [asm.fresh_local("graph_out") for _ in range(3)]
    assert len(set(names)) == 3 and all(name.startswith("___graph_out") for name in names)


def test_instructions_of_a_program_can_be_copied():
    def sample(items, table):
        total = 0
        for item in items:
            if item is None or item <= 0:
                continue
            total += table.get(item, key_default) * len(items)
        return f"{total!r:>6}", [*items]

    asm = Assembler()
    decoded = program(sample.__code__)
    labels = {index: asm.label() for index in decoded.labels}
    for instruction in decoded.instructions[1:]:
        if instruction.index in labels:
            asm.place(labels[instruction.index])
        asm.emit_copy(instruction, labels.get(instruction.target))
    made = function(asm, ("items", "table"))
    arguments = [3, 0, None, 5], {3: 30}
    assert made(*arguments) == sample(*arguments)
    copied, written = (
        [(i.opname, i.target, i.argval, i.positions) for i in program(function.__code__)][1:] for function in (made, sample)
    )
    assert copied == written
    assert made.__code__.co_stacksize == sample.__code__.co_stacksize


key_default = 2


@pytest.mark.skipif(DIALECT.to_bool is None, reason="Python 3.13 brings comparisons that give True or False")
def test_a_comparison_that_is_copied_still_gives_true_or_false():
    class Answer:
        def __lt__(self, other):
            return "yes"

    def sample(a, b):
        return not a < b, a < b

    asm = Assembler()
    for instruction in program(sample.__code__).instructions[1:]:
        asm.emit_copy(instruction)
    made = function(asm, ("a", "b"))
    assert made(Answer(), 1) == (False, "yes")
    arguments = [[i.arg & 16 for i in program(f.__code__) if i.opname == "COMPARE_OP"] for f in (made, sample)]
    assert arguments == [[16, 0]] * 2


def test_a_jump_asks_any_object_for_its_truth():
    asm = Assembler()
    there = asm.label()
    asm.load_fast("x")
    asm.jump_if_true(there)
    asm.load_const("false")
    asm.return_value()
    asm.place(there)
    asm.load_const("true")
    asm.return_value()
    made = function(asm, ("x",))
    assert [made(value) for value in ([], [0], 0, 2, None, "x")] == ["false", "true", "false", "true", "false", "true"]


def test_a_callable_on_the_stack_can_be_called():
    asm = Assembler()
    asm.load_global("len")
    asm.make_callee()
    asm.load_fast("x")
    asm.call(1)
    asm.return_value()
    assert function(asm, ("x",))([1, 2]) == 2


def test_many_locals_and_long_jumps():
    asm = Assembler()
    end = asm.label()
    asm.load_fast("x")
    asm.emit("POP_JUMP_IF_NONE", end)
    for i in range(600):
        asm.load_const(i)
        asm.store_fast(f"v{i}")
    asm.load_fast("v599")
    asm.return_value()
    asm.place(end)
    asm.load_const("none")
    asm.return_value()
    made = function(asm, ("x",))
    assert (made(1), made(None)) == (599, "none")


def broken(build, match):
    asm = Assembler()
    with pytest.raises(AssemblyError, match=match):
        build(asm)
        finish(asm, ("a",))


def test_mistakes_are_named():
    broken(lambda asm: asm.pop(), "takes more from the stack than its 0 values. Around it: RESUME 0; POP_TOP")
    broken(lambda asm: asm.load_const(1), "runs off the end of the code")
    broken(lambda asm: asm.emit("ROT_TWO"), "has no opcode ROT_TWO")
    broken(lambda asm: asm.jump(asm.label()), "label that was never placed")
    broken(
        lambda asm: (asm.load_deref("nobody"), asm.return_value()),
        "'nobody', which is neither a cell nor a free variable",
    )
    broken(lambda asm: asm.try_begin(asm.label()), "begun and not ended")

    def two_places(asm):
        label = asm.label()
        asm.place(label)
        asm.place(label)

    def wrong_order(asm):
        first = asm.try_begin(asm.label())
        asm.try_begin(asm.label())
        asm.try_end(first)

    def two_depths(asm):
        label = asm.label()
        asm.load_fast("a")
        asm.emit("POP_JUMP_IF_TRUE", label)
        asm.load_const(1)
        asm.place(label)
        asm.load_const(2)
        asm.return_value()

    def wrong_direction(asm):
        label = asm.label()
        asm.emit("FOR_ITER", label)
        asm.place(label)
        asm.emit("SEND", label)

    broken(two_places, "one place only")
    broken(wrong_order, "reverse order")
    broken(two_depths, "a stack of 1 values on one path and 0 on another|0 values on one path and 1 on another")
    broken(wrong_direction, "SEND cannot jump backward")
