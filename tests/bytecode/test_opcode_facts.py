"""What is known of opcodes, against the running interpreter and against the opcode maps saved for other versions."""

from __future__ import annotations

import dis

import pytest

from tools.opcode_report import MAPS
from tracer.bytecode import live_names, program
from tracer.bytecode import opcode_facts as facts
from tracer.bytecode.opcode_facts import DIRECTED_JUMPS, FACTS, ROWS, Access, Row

VERSIONS = [tuple(map(int, version.split("."))) for version in sorted(MAPS)]
OPCODES = {name: number for name, number in dis.opmap.items() if number < 256}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.names)
def test_a_row_speaks_of_opcodes_that_its_versions_have(row):
    versions = [version for version in VERSIONS if row.since <= version < row.until]
    assert versions
    for version in versions:
        assert set(row.names.split()) <= set(MAPS["{}.{}".format(*version)]["opmap"]), version


@pytest.mark.parametrize("version", VERSIONS)
def test_an_opcode_has_one_row_in_each_version(version):
    for name in MAPS["{}.{}".format(*version)]["opmap"]:
        facts.row_of(name, version)  # an AssertionError names two


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.names)
def test_a_row_says_what_would_not_be_known_without_it(row):
    empty = Row(row.names, since=row.since, until=row.until)
    assert row != empty


def test_what_dis_shows_of_instructions_is_known():
    def shown(x):
        def inner():
            return x + total

        total = 0
        for item in x:
            total += item if item < 3 else -item
        del item
        return inner

    code = shown.__code__
    decoded = program(code)
    expected = [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]
    assert [i.opname for i in decoded] == [i.opname.replace("_BORROW", "") for i in expected]
    for ours, theirs in zip(decoded, expected):
        known = FACTS[ours.opcode]
        assert known.name == ours.opname
        assert (known.argument is None) == (theirs.arg is None)
        assert (known.argument == "jump") == (ours.target is not None)
    offsets = [2 * (1 + FACTS[i.opcode].caches) for i in decoded]
    starts = [i.offset for i in decoded]
    assert all(start + size == following for start, size, following in zip(starts, offsets, starts[1:]))


def test_every_net_effect_is_that_of_the_interpreter():
    for name, number in OPCODES.items():
        uses = FACTS[number].uses
        for arg in (0, 1, 2, 5) if uses is not None else ():
            if name == "RAISE_VARARGS" and arg > 2 or name == "BINARY_OP" and arg == 5:
                continue
            takes, leaves = uses(arg)
            flag = name == "LOAD_GLOBAL" and arg & 1  # emitted without its NULL
            assert leaves - takes == dis.stack_effect(number, arg if FACTS[number].argument else None) - flag, (name, arg)


def test_each_jump_that_has_a_direction_has_both():
    assert DIRECTED_JUMPS["JUMP"] == ("JUMP_FORWARD", "JUMP_BACKWARD")
    assert all(spelling in dis.opmap for pair in DIRECTED_JUMPS.values() for spelling in pair)


@pytest.mark.parametrize(
    ("name", "accesses"),
    [
        ("LOAD_FAST", (Access.READ,)),
        ("STORE_FAST", (Access.WRITE,)),
        ("STORE_FAST_LOAD_FAST", (Access.WRITE, Access.READ)),
        ("LOAD_FAST_BORROW_LOAD_FAST_BORROW", (Access.READ, Access.READ)),
        ("LOAD_FAST_CHECK", (Access.READ,)),
        ("TOUCH_LOCAL", (Access.READ,)),
    ],
)
def test_the_name_of_an_opcode_says_what_it_does_to_locals(monkeypatch, name, accesses):
    number = dis.opmap["LOAD_FAST"]
    monkeypatch.setattr(dis, "opname", [name if i == number else each for i, each in enumerate(dis.opname)])
    assert facts._facts_of(number).locals == accesses


def test_a_new_opcode_of_a_local_needs_one_row_at_most(monkeypatch):
    """As if this Python had another DELETE_FAST, which `ROWS` alone speaks of."""

    def fn(a):
        b = a
        del b

    number = dis.opmap["DELETE_FAST"]
    renamed = [name if i != number else "FORGET_LOCAL" for i, name in enumerate(dis.opname)]
    monkeypatch.setattr(dis, "opname", renamed)
    for rows, live in (((), {"b"}), ((Row("FORGET_LOCAL", local=Access.WRITE),), set())):
        monkeypatch.setattr(facts, "ROWS", (*ROWS, *rows))
        monkeypatch.setattr("tracer.bytecode.liveness.FACTS", tuple(map(facts._facts_of, range(256))))
        decoded = program(fn.__code__.replace())
        [at] = [i.index for i in decoded if i.opcode == number]
        assert set(live_names(decoded, at)) == live
