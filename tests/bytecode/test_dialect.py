"""Dialects against the running interpreter and against the opcode maps saved for other versions."""

import ast
import dis
import inspect
import sys
import textwrap

import pytest

from tools.opcode_report import MAPS, changed, new, report
from tracer.bytecode import DIALECT, dialect_of, opcode_report
from tracer.bytecode.dialect import DIALECTS, ENCODING_ONLY
from tracer.interpreter.handlers import OPCODES


def test_every_dialect_has_an_opcode_map():
    assert sorted(MAPS) == sorted(f"{major}.{minor}" for major, minor in DIALECTS)


def test_the_running_interpreter_is_as_its_dialect_says():
    assert DIALECT.version == sys.version_info[:2]
    saved = MAPS[f"{DIALECT.version[0]}.{DIALECT.version[1]}"]
    own = {name: number for name, number in dis.opmap.items() if number < 256 and not name.startswith("INSTRUMENTED_")}
    assert own == saved["opmap"]


@pytest.mark.parametrize("version", sorted(MAPS))
def test_a_dialect_speaks_of_opcodes_that_its_version_has(version):
    major, minor = map(int, version.split("."))
    dialect = dialect_of((major, minor))
    names = set(MAPS[version]["opmap"])
    assert set(dialect.call_sequence) <= names
    assert {dialect.keyword_names_prefix, dialect.keyword_call} - {None} <= names


@pytest.mark.parametrize("version", sorted(MAPS))
def test_numbers_in_a_map_are_distinct(version):
    numbers = list(MAPS[version]["opmap"].values())
    assert len(numbers) == len(set(numbers)) and all(0 <= number < 256 for number in numbers)


def test_what_a_coming_version_lacks_is_told():
    handled = set(MAPS["3.11"]["opmap"]) - ENCODING_ONLY
    assert not opcode_report(MAPS["3.11"], handled).missing
    report = opcode_report(MAPS["3.12"], handled)
    assert {"LOAD_FAST_AND_CLEAR", "RETURN_CONST", "CALL_INTRINSIC_1", "LOAD_SUPER_ATTR"} <= set(report.missing)
    assert {"PRECALL", "LOAD_METHOD", "JUMP_IF_TRUE_OR_POP"} <= set(report.absent)
    assert f"{report.total - len(report.missing)} of {report.total} opcodes handled" in str(report)
    assert "LOAD_SMALL_INT" in opcode_report(MAPS["3.14"], handled).missing
    assert "LOAD_SMALL_INT" not in opcode_report(MAPS["3.13"], handled).missing


def test_an_unknown_version_is_refused():
    with pytest.raises(ImportError, match=r"no bytecode dialect for Python 3.9: known are 3.11, 3.12"):
        dialect_of((3, 9))


def test_every_opcode_of_this_python_is_handled_or_listed_as_a_break_with_its_reason():
    assert not any(report(version).missing for version in MAPS)
    assert set(OPCODES.breaks) <= {name for version in MAPS for name in MAPS[version]["opmap"]}
    assert all(why.strip() for why in OPCODES.breaks.values())
    here = {name for name in OPCODES.names() if dis.opmap.get(name, 256) < 256}
    breaking = {name for name in here if _always_breaks(name)}
    assert breaking == here & set(OPCODES.breaks), "a handler that does nothing but break is listed with `breaks(...)`"


def _always_breaks(name):
    """Whether the handler is nothing but one call of unsupported()."""
    handler = OPCODES.table()[dis.opmap[name]]
    text = ast.parse(textwrap.dedent(inspect.getsource(handler))).body[0].body
    statements = [node for node in text if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    calls = [node.value for node in statements if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
    return len(statements) == len(calls) == 1 and getattr(calls[0].func, "id", None) == "unsupported"


def test_the_report_on_a_coming_version_tells_new_opcodes_from_those_that_mean_something_else(monkeypatch):
    coming = {**MAPS["3.14"]["opmap"], "KW_NAMES": 250, "NEW_OPCODE": 251}
    monkeypatch.setitem(MAPS, "3.14", {"version": "3.14", "opmap": coming})
    monkeypatch.setattr(OPCODES, "_windows", {**OPCODES._windows, "KW_NAMES": [((3, 11), (3, 14), lambda tx, inst: None)]})
    assert (new("3.14"), changed("3.14")) == (["NEW_OPCODE"], ["KW_NAMES"])
