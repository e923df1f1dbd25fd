"""Opcode handlers are registered for windows of Python versions."""

from __future__ import annotations

import opcode
import sys

import pytest

from tracer.interpreter.handlers import OpcodeRegistry

NOW = sys.version_info[:2]
NEXT = (NOW[0], NOW[1] + 1)


def first(tx, inst):
    pass


def second(tx, inst):
    pass


def test_a_handler_serves_the_versions_of_its_window():
    registry = OpcodeRegistry()
    registry.register("NOP", until=NEXT)(first)
    registry.register("NOP", since=NEXT)(second)
    assert registry.table()[opcode.opmap["NOP"]] is first
    assert registry.names(NOW) == registry.names(NEXT) == {"NOP"}


def test_two_handlers_of_one_opcode_in_one_version_are_an_error():
    registry = OpcodeRegistry()
    registry.register("NOP")(first)
    with pytest.raises(ValueError, match="two handlers for NOP"):
        registry.register("POP_TOP", "NOP", since=NEXT)(second)


def test_an_opcode_whose_window_has_ended_has_changed():
    registry = OpcodeRegistry()
    registry.register("NOP", until=NEXT)(first)
    registry.register("POP_TOP")(first)
    assert registry.changed_since(NEXT) == {"NOP"} and registry.changed_since(NOW) == set()
    assert registry.names(NEXT) == {"POP_TOP"}


def test_an_opcode_of_another_version_is_in_no_table():
    registry = OpcodeRegistry()
    registry.register("AN_OPCODE_OF_THE_FUTURE")(first)
    assert first not in registry.table()


def test_an_opcode_at_which_every_graph_breaks_says_why():
    registry = OpcodeRegistry()
    registry.break_at("NOP", why="nothing is done")
    assert registry.breaks == {"NOP": "nothing is done"} and registry.names() == {"NOP"}
