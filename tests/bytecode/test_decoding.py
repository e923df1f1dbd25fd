"""Programs decoded by `tracer.bytecode.instructions`, held against the `dis` module."""

import ast
import asyncio.base_events
import collections
import dataclasses
import dis
import enum
import functools
import gc
import inspect
import json.decoder
import pickle
import re
import tarfile
import textwrap
import types
import typing
import unittest.mock
import weakref

import pytest

from tracer.bytecode import instructions as decoding
from tracer.bytecode import program
from tracer.bytecode.instructions import exception_table
from tracer.bytecode.opcode_facts import FACTS

MODULES = [
    ast,
    asyncio.base_events,
    collections,
    dataclasses,
    dis,
    enum,
    functools,
    inspect,
    json.decoder,
    pickle,
    tarfile,
    textwrap,
    typing,
    unittest.mock,
]


def code_objects(module):
    """Every code object of a module's source, nested ones too."""
    with open(module.__file__, encoding="utf-8") as file:
        pending = [compile(file.read(), module.__file__, "exec")]
    while pending:
        code = pending.pop()
        yield code
        pending.extend(const for const in code.co_consts if isinstance(const, types.CodeType))


def unborrowed(instruction):
    """LOAD_FAST_BORROW (Python 3.14) as LOAD_FAST."""
    name = instruction.opname.replace("_BORROW", "")
    return instruction if name == instruction.opname else instruction._replace(opname=name, opcode=dis.opmap[name])


def parts_of(instruction):
    """STORE_FAST_LOAD_FAST and the like (Python 3.13) as two."""
    instruction = unborrowed(instruction)
    names = re.findall("(?:LOAD|STORE)_FAST(?=_LOAD_|_STORE_|$)", instruction.opname)
    if len(names) < 2:
        return [instruction]
    places = instruction.arg >> 4, instruction.arg & 15
    return [
        instruction._replace(opname=name, opcode=dis.opmap[name], arg=place, argval=argval)
        for name, place, argval in zip(names, places, instruction.argval, strict=True)
    ]


def check_against_dis(code):
    decoded = program(code)
    expected = [part for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG" for part in parts_of(i)]
    assert len(decoded) == len(expected)
    for mine, theirs in zip(decoded, expected, strict=True):
        assert (mine.opcode, mine.opname, mine.arg, mine.offset) == (
            theirs.opcode,
            theirs.opname,
            theirs.arg,
            theirs.offset,
        )
        assert mine.positions == theirs.positions
        if theirs.opname == "END_ASYNC_FOR":  # leads nowhere, whatever dis says of it in Python 3.14
            assert mine.target is None
        elif theirs.opcode in dis.hasjrel or theirs.opcode in dis.hasjabs:
            assert mine.argval is None
            assert decoded.index_at(theirs.argval) == mine.target
        elif theirs.opname == "BINARY_OP":
            assert mine.argval == theirs.argrepr
        elif theirs.opname == "KW_NAMES":
            assert mine.argval is code.co_consts[mine.arg]
        elif theirs.opname not in ("FORMAT_VALUE", "CONVERT_VALUE", "MAKE_FUNCTION", "LOAD_COMMON_CONSTANT", "LOAD_SPECIAL"):
            assert mine.argval is theirs.argval or mine.argval == theirs.argval
    return decoded, expected


def check_handlers(code, decoded):
    rows = list(exception_table(code))
    for instruction in decoded:
        inside = [row for row in rows if row[0] <= instruction.offset < row[1]]
        if not inside:
            assert instruction.handler is None
            continue
        (_, _, target, depth, lasti) = inside[0]
        assert instruction.handler.target == decoded.index_at(target)
        assert (instruction.handler.depth, instruction.handler.lasti) == (depth, lasti)
        assert instruction.handler.target in decoded.labels


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_decodes_the_standard_library_as_dis_does(module):
    for code in code_objects(module):
        decoded, expected = check_against_dis(code)
        check_handlers(code, decoded)
        targets = {decoded.index_at(i.offset) for i in expected if i.is_jump_target}
        assert targets <= decoded.labels


def test_a_jump_onto_an_extended_arg_prefix_reaches_the_folded_instruction():
    lines = ["def f(a):", "    while a:"] + [f"        a.x{i} = a.y{i}" for i in range(300)] + ["    return a"]
    namespace = {}
    exec("\n".join(lines), namespace)
    decoded, expected = check_against_dis(namespace["f"].__code__)
    assert any(i.arg is not None and i.arg > 255 for i in decoded)
    starts = {start for start in decoded._starts}
    jumps = [i for i in expected if i.opcode in dis.hasjrel]
    assert jumps and all(jump.argval in starts for jump in jumps)
    opcode_offsets = {i.offset for i in decoded}
    assert any(start not in opcode_offsets for start in starts), "no instruction with a prefix"


def test_argument_slots_come_in_order():
    def f(a, b, /, c, *args, d, e=1, **kwargs):
        local = a
        return local

    assert program(f.__code__).argnames == ("a", "b", "c", "d", "e", "args", "kwargs")


def test_cells_and_free_variables_have_their_names():
    def outer(x):
        y = 1

        def inner():
            return x + y

        return inner

    names = {i.opname: i.argval for i in program(outer.__code__) if i.opname == "STORE_DEREF"}
    assert names == {"STORE_DEREF": "y"}
    inner = outer(1).__code__
    assert [i.argval for i in program(inner) if i.opname == "LOAD_DEREF"] == ["x", "y"]


def test_instructions_are_frozen():
    instruction = program(check_against_dis.__code__)[0]
    with pytest.raises(AttributeError, match="frozen"):
        instruction.arg = 3
    assert not hasattr(instruction, "__dict__")


def test_a_program_is_decoded_once_and_dies_with_its_code():
    namespace = {}
    exec("def f(): return 1", namespace)
    code = namespace.pop("f").__code__
    first = program(code)
    assert program(code) is first and first.code is code
    equal = code.replace()
    assert equal == code and program(equal) is not first
    key, watch = id(code), weakref.ref(code)
    del code, namespace
    gc.collect()
    assert watch() is None
    assert decoding._programs.get(key) is not first
    with pytest.raises(ReferenceError, match="was freed"):
        _ = first.code


def test_generators_are_marked():
    def generator():
        yield 1

    async def coroutine():
        return 1

    assert program(generator.__code__).is_generator
    assert program(coroutine.__code__).is_generator
    assert not program(test_generators_are_marked.__code__).is_generator


def test_index_at_finds_caches_and_prefixes():
    def f(a):
        return a.b.c

    decoded = program(f.__code__)
    for instruction in decoded:
        size = 2 + 2 * FACTS[instruction.opcode].caches
        for offset in range(instruction.offset, instruction.offset + size):
            assert decoded.index_at(offset) == instruction.index


def test_instructions_say_what_they_are():
    def f(a):
        return 7 if a is None else 8

    shown = [str(i) for i in program(f.__code__)]
    assert "1 LOAD_FAST 'a'" in shown
    jumps = ("POP_JUMP_FORWARD_IF_NOT_NONE to 5", "POP_JUMP_IF_NOT_NONE to 5", "POP_JUMP_IF_NOT_NONE to 6")
    assert any(f"2 {jump}" in shown for jump in jumps)


def test_code_that_has_run_decodes_as_before():
    """CPython rewrites the instructions of warm code in place; `co_code` undoes it."""

    def warm(items):
        return [item.real + len(items) for item in items if item > 1]

    before = [(i.opname, i.arg) for i in program(warm.__code__)]
    for _ in range(200):
        warm([1, 2, 3])
    decoding._programs.pop(id(warm.__code__))
    assert [(i.opname, i.arg) for i in program(warm.__code__)] == before


def test_a_table_of_lines_that_is_shorter_than_the_code():
    def function():
        return [1, 2, 3][0]

    short = function.__code__.replace(co_linetable=b"")
    read = list(decoding.program(short))
    assert [instruction.opcode for instruction in read] == [one.opcode for one in decoding.program(function.__code__)]
    assert all(instruction.positions.lineno is None for instruction in read)
