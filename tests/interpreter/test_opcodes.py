"""Every opcode has a handler, and every handler is run by a program."""

from __future__ import annotations

import opcode

import pytest
import torch

import tracer
from tests.interpreter.opcode_programs import PROGRAMS
from tests.support import captured
from tracer import logs
from tracer.bytecode import program as decoded
from tracer.bytecode.dialect import ENCODING_ONLY
from tracer.errors import Unsupported
from tracer.interpreter import opcodes
from tracer.interpreter.handlers import OPCODES

X = torch.linspace(-1, 1, 6).reshape(2, 3)
DECODED_AWAY = {"CACHE", "EXTENDED_ARG"}  # parts of other instructions


def opcodes_traced(program):
    """The opcodes that the tracer comes to in `program`, which breaks no graph and gives what it gives in CPython."""

    def fn(x):
        return x + 1, program(x)

    with logs.capture("trace") as records:
        captured(fn, X)
    return {record.text.split()[1] for record in records if record.text.startswith("  ")}  # those of `fn` are not indented


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_the_opcode_is_captured(name):
    assert name in opcodes_traced(PROGRAMS[name])


def test_the_programs_cover_every_opcode_that_has_a_handler():
    assert opcodes.load()  # which registers them
    here = {name for name, number in opcode.opmap.items() if number < 256 and not name.startswith("INSTRUMENTED_")}
    assert here - ENCODING_ONLY <= OPCODES.names()
    assert here - ENCODING_ONLY - set(OPCODES.breaks) == set(PROGRAMS)


def test_parts_of_instructions_are_no_instructions_of_their_own():
    lines = "\n".join(f"    y{n} = x + {n}" for n in range(300))
    names: dict = {}
    exec(f"def long(x):\n{lines}\n    return y299", names)
    assert opcode.opmap["EXTENDED_ARG"] in names["long"].__code__.co_code[::2]
    assert not DECODED_AWAY & {inst.opname for inst in decoded(names["long"].__code__).instructions}


@pytest.mark.parametrize("name", sorted(name for name in OPCODES.breaks if opcode.opmap.get(name, 256) < 256))
def test_an_opcode_of_frames_that_are_not_traced_breaks_the_graph(name):
    handler = opcodes.load()[opcode.opmap[name]]
    inst = next(iter(decoded((lambda: None).__code__).instructions))
    with pytest.raises(Unsupported, match="opcode"):
        handler(None, inst)


def _pair():
    return (1, 2)


def test_a_constant_tuple_is_one_object_each_time_that_it_is_loaded():
    def fn(x):
        pairs = [(1, 2), (1, 2), _pair(), _pair()]
        y = x + 1
        tracer.graph_break()
        return y * 2, pairs, pairs[0] is pairs[1], pairs[2] is pairs[3]

    traced = tracer.compile(fn)
    for run in (fn, traced, traced):
        _, pairs, *same = run(torch.ones(2))
        assert same == [True, True] and pairs[0] is pairs[1] and pairs[2] is pairs[3]
