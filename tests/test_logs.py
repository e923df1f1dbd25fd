"""Logs: switches, where records go, and the texts as the reference documents show them."""

import dis
import logging
import subprocess
import sys

import pytest
import torch

from tests.guards.helpers import X, frame, manager_of
from tracer import graph_breaks, logs
from tracer.errors import Unsupported
from tracer.guards.identity import FunctionMatch, TypeMatch
from tracer.guards.shapes import ShapeLine
from tracer.guards.tensors import TensorMatch, tensor_spec
from tracer.guards.values import EqualsMatch
from tracer.interpreter.translator import trace_line
from tracer.locations import UserLocation
from tracer.runtime import log_texts
from tracer.sources.roots import GlobalSource
from tracer.sources.tensors import TensorSizeSource

HERE = UserLocation(__file__, 1, "fn")
FIRST_LINE = '"""Logs: switches, where records go, and the texts as the reference documents show them."""'


@pytest.fixture(autouse=True)
def switches_are_restored():
    before = logs.enabled()
    yield
    logs.set_logs(all=False, **dict.fromkeys(before, True))


def test_what_is_off_is_not_even_made():
    logs.set_logs(all=False)
    logs.emit("graph", lambda: pytest.fail("made although nobody listens"))
    logs.set_logs(graph=True)
    assert logs.is_on("graph") and not logs.is_on("guards")
    logs.set_logs(guards=True, graph=False)
    assert logs.enabled() == {"guards"}


def test_all_and_its_exceptions():
    logs.set_logs(all=True, trace=False)
    assert logs.enabled() == set(logs.ARTIFACTS) - {"trace"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("graph,+guards", {"graph": True, "guards": True}),
        (" graph , -guards ,", {"graph": True, "guards": False}),
        ("all,-trace", {**dict.fromkeys(logs.ARTIFACTS, True), "trace": False}),
    ],
)
def test_the_form_of_the_environment_variable(text, expected):
    assert logs.parse(text) == expected


def test_unknown_artifacts_are_told():
    with pytest.raises(ValueError, match="did you mean guards"):
        logs.parse("gaurds")
    with pytest.raises(ValueError, match="no log artifact 'x'"):
        logs.set_logs(x=True)


def test_records_go_through_the_stdlib(caplog):
    logs.set_logs(graph=True)
    logs.emit("graph", "100% of a graph")
    assert [(r.name, r.getMessage()) for r in caplog.records] == [("tracer.graph", "100% of a graph")]


def test_capture_collects_and_leaves_the_switches_as_they_were():
    logs.set_logs(all=False, trace=True)
    with logs.capture("graph", "trace") as records:
        logs.emit("graph", lambda: "g")
        logs.emit("trace", "t")
        logs.emit("guards", "not asked for")
    assert records == [("graph", "g"), ("trace", "t")] and logs.enabled() == {"trace"}


PROGRAM = """
import importlib, logging, sys
{setup}
logs = importlib.import_module("tracer.logs")
logs.emit("graph", "a graph"); logs.emit("guards", "a guard")
logging.getLogger("tracer.elsewhere").warning("a warning")
"""


@pytest.mark.parametrize(
    ("setup", "expected"),
    [
        ("", ["a graph", "a warning"]),
        ("logging.basicConfig(format='%(name)s:%(message)s')", ["tracer.graph:a graph", "tracer.elsewhere:a warning"]),
    ],
    ids=["plain", "with logging of the program"],
)
def test_each_record_is_shown_once(setup, expected):
    command = [sys.executable, "-c", PROGRAM.format(setup=setup)]
    environment = {"TRACER_LOGS": "graph", "PYTHONPATH": ".", "PATH": ""}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0 and result.stderr.splitlines() == expected, result.stderr


# --------------------------------------------------------------------------------------------- texts


def toy_graph():
    graph = torch.fx.Graph()
    a, s = graph.placeholder("l_a_"), graph.placeholder("l_n_")
    a.meta["example_value"], s.meta["example_value"] = torch.ones(4, 3), 3
    one = graph.call_function(torch.abs, (a,))
    two = graph.call_method("mul", (one, s))
    one.meta.update(example_value=torch.ones(4, 3), location=HERE)
    two.meta.update(example_value=torch.ones(4), stack_trace=f'  File "{__file__}", line 1, in fn\n    x\n')
    graph.output((two,))
    return graph


def test_a_graph_as_a_table():
    lines = log_texts.graph_table(toy_graph(), "__compiled_fn_0").splitlines()
    assert lines[:2] == ["TRACED GRAPH", " __compiled_fn_0"]
    assert lines[2].split() == ["opcode", "name", "target", "args", "kwargs"] and set(lines[3]) == {"-", " "}
    assert lines[4].split() == ["placeholder", "l_a_", "l_a_", "()", "{}"]
    assert lines[-1].split() == ["output", "output", "output", "((mul,),)", "{}"]


def test_a_graph_as_code_with_the_users_line_above_each_operation():
    assert log_texts.graph_code(toy_graph(), "__compiled_fn_0").splitlines() == [
        "TRACED GRAPH",
        " ===== __compiled_fn_0 =====",
        "def forward(self, l_a_: torch.Tensor, l_n_: int):",
        f"    # File: {__file__}:1, code: {FIRST_LINE}",
        "    abs_1 = torch.abs(l_a_)",
        "    mul = abs_1.mul(l_n_)",
        "    return (mul,)",
    ]


def test_sizes_of_a_graph():
    assert log_texts.graph_sizes(toy_graph(), "__compiled_fn_1").splitlines() == [
        "TRACED GRAPH TENSOR SIZES",
        "===== __compiled_fn_1 =====",
        "l_a_: (4, 3)",
        "l_a_ (concrete): (4, 3)",
        "abs_1: (4, 3)",
        "abs_1 (concrete): (4, 3)",
        "mul: (4,)",
        "mul (concrete): (4,)",
    ]


def test_bytecode_is_what_dis_shows():
    lines = log_texts.bytecode("ORIGINAL BYTECODE", frame.__code__).splitlines()
    assert lines[0] == f"ORIGINAL BYTECODE frame helpers.py line {frame.__code__.co_firstlineno}"
    assert len([line for line in lines[1:] if line.strip()]) == len(list(dis.get_instructions(frame)))


def test_trace_lines():
    stack = ["ConstantVariable(1)", "TensorVariable()"]
    assert trace_line("LOAD_GLOBAL", "y", stack) == f"TRACE LOAD_GLOBAL y [{', '.join(stack)}]"
    assert trace_line("RETURN_VALUE", None, [], depth=1) == "  TRACE RETURN_VALUE []"


def test_side_effects_with_the_lines_that_had_them():
    told = [("change of list L['items']", (HERE,)), ("store global N", ())]
    assert log_texts.side_effects(frame.__code__, told).splitlines() == [
        f"SIDE EFFECTS: frame helpers.py:{frame.__code__.co_firstlineno}",
        " - change of list L['items']",
        f"      at {HERE.with_code()}",
        " - store global N",
    ]


def test_guards_with_the_line_that_caused_each_and_the_recorded_form():
    shape = ShapeLine("{0} >= 8", (TensorSizeSource(X, 0),), "2*s0 >= 16", where=HERE)
    manager = manager_of(TensorMatch(X, tensor_spec(torch.ones(9), [0])), shape)
    text = log_texts.guards_text(manager)
    assert text.startswith("GUARDS: frame helpers.py:")
    assert "L['x'].size()[0] >= 8" in text and f"# {HERE.with_code()}; recorded as 2*s0 >= 16" in text
    assert text.endswith(manager.exec_text)


def test_the_list_of_guards_by_kind():
    guards = [TensorMatch(X, tensor_spec(torch.ones(1))), FunctionMatch(GlobalSource("torch"), torch)]
    assert log_texts.guard_list(guards) == "GUARDS:\n - local 'x' TENSOR_MATCH\n - global 'torch' FUNCTION_MATCH"


def test_a_recompile_with_its_reason():
    manager = manager_of(TypeMatch(X, str), EqualsMatch(X, "Hello", where=HERE))
    text = log_texts.recompile(frame.__code__, [manager.explain(("Hi",)), "another reason"])
    assert text.splitlines() == [
        f"Recompiling function frame in helpers.py:{frame.__code__.co_firstlineno}",
        "    triggered by the following guard failure(s):",
        "    - L['x'] == 'Hello'  (seen 'Hi')",
        f"      guard made at {HERE.with_code()}",
        "    - another reason",
    ]


def test_a_shape_guard_as_it_is_added():
    assert log_texts.shape_guard_added("2*s0 >= 16", UserLocation("script.py", 5, "fn")) == (
        "eval 2*s0 >= 16 [guard added] at script.py:5 in fn"
    )


def test_a_graph_break_with_reason_and_stack():
    error = Unsupported(graph_breaks.reason("data-dependent-branch"), {"value": "b.sum() < 0"}, stack=[HERE])
    lines = log_texts.graph_break(error).splitlines()
    assert lines[0] == f"Graph break in user code at {__file__}:1"
    assert lines[1] == "Reason: Branch on the value of a tensor (b.sum() < 0) [data-dependent-branch]"
    assert lines[-2:] == [f'  File "{__file__}", line 1, in fn', f"    {FIRST_LINE}"]


def test_no_handler_but_ours_is_added():
    assert [type(h).__name__ for h in logging.getLogger("tracer").handlers] == ["_ToStderr"]
