"""`sys.monitoring` (Python 3.12): code that is watched is traced as it was written, and gives the same results.

Lines whose operations a graph has captured do not run, and so have no events: as for `sys.settrace` in every version. But a
coverage tool is told of them when they are traced, and under a debugger the program runs as it was written."""

from __future__ import annotations

import contextlib
import sys

import pytest
import torch

import tracer

monitoring = getattr(sys, "monitoring", None)
pytestmark = pytest.mark.skipif(monitoring is None, reason="Python 3.12 brings sys.monitoring")
X = torch.ones(3)


def callee(x):
    tracer.graph_break()
    return x * 2


def program(x, count):
    total = x
    for index in range(count):
        if index % 2:
            total = total + callee(x)
        else:
            total = total - 1
    try:
        raise ValueError(f"{count}")
    except ValueError as error:
        total = total + len(str(error))
    for item in (x + number for number in [1, 2]):
        total = total + item
    return total


CODES = (program.__code__, callee.__code__)
EXPECTED = program(X, 4)


@contextlib.contextmanager
def watching(names, codes=None, answer=None, tool=monitoring and monitoring.PROFILER_ID):
    """Yields the events of this file that a tool sees, of all code or of `codes`, as (name, function, line if it has one)."""
    seen: list[tuple] = []
    events = [getattr(monitoring.events, name) for name in names]

    def callback_of(name):
        def callback(code, *rest):
            if code.co_filename == __file__:
                seen.append((name, code.co_name, rest[0] if name == "LINE" else None))
            return answer

        return callback

    monitoring.use_tool_id(tool, "test")
    for name, event in zip(names, events):
        monitoring.register_callback(tool, event, callback_of(name))
    try:
        if codes is None:
            monitoring.set_events(tool, sum(events))
        else:
            for code in codes:
                monitoring.set_local_events(tool, code, sum(events))
        yield seen
    finally:
        monitoring.set_events(tool, 0)
        for code in codes or ():
            monitoring.set_local_events(tool, code, 0)
        for event in events:
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)


EVERY = [
    "PY_START", "PY_RESUME", "PY_RETURN", "PY_YIELD", "PY_UNWIND", "PY_THROW", "CALL", "LINE", "INSTRUCTION", "JUMP", "BRANCH",
    "STOP_ITERATION", "RAISE", "EXCEPTION_HANDLED", "RERAISE",
]  # fmt: skip
LOCAL = ["PY_START", "PY_RETURN", "CALL", "LINE", "INSTRUCTION", "JUMP", "BRANCH"]


@pytest.mark.parametrize("when", ["before it is compiled", "afterwards"])
@pytest.mark.parametrize(("names", "codes"), [(EVERY, None), (["LINE"], None), (LOCAL, CODES)], ids=["all", "lines", "local"])
def test_watched_code_gives_the_same_results(names, codes, when):
    compiled = tracer.compile(program)
    if when == "afterwards":
        compiled(X, 4)
    with watching(names, codes):
        results = [compiled(X, 4), compiled(X, 4)]
    results.append(compiled(X, 4))
    assert all(torch.equal(result, EXPECTED) for result in results)
    assert all(entry.guarded_code is not None for entry in tracer.region_of(compiled).entries())


@pytest.mark.parametrize("again", [None, "disabled"])
def test_the_lines_that_run_are_lines_of_the_program(again):
    """As coverage asks for them: all of them, or each once. The code that stands for a function begins at its `def`."""
    answer = None if again is None else monitoring.DISABLE
    with watching(["LINE"], answer=answer) as expected:
        program(X, 4)
    monitoring.restart_events()
    compiled = tracer.compile(program)
    with watching(["LINE"], answer=answer) as seen:
        compiled(X, 4)
        compiled(X, 4)
    monitoring.restart_events()
    begins = {("LINE", code.co_name, code.co_firstlineno) for code in CODES}
    own = sys._getframe().f_code.co_name
    lines = {event for event in seen if event[1] != own}
    assert lines & set(expected) and lines <= {*begins, *expected}


def test_a_callback_that_raises_ends_the_call():
    def callback(code, line):
        if code.co_name == "callee":
            raise KeyError("stop")

    compiled = tracer.compile(program)
    compiled(X, 4)
    tool = monitoring.PROFILER_ID
    monitoring.use_tool_id(tool, "test")
    monitoring.register_callback(tool, monitoring.events.LINE, callback)
    monitoring.set_events(tool, monitoring.events.LINE)
    try:
        with pytest.raises(KeyError, match="stop"):
            compiled(X, 4)
    finally:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, monitoring.events.LINE, None)
        monitoring.free_tool_id(tool)
    assert torch.equal(compiled(X, 4), EXPECTED)


def whole(x, flag):
    if flag:
        x = helped(x)
    else:
        x = x - 1
    items = [item + 1 for item in numbers(x)]
    return sum(items) + (
        x
    )  # fmt: skip


def helped(x):
    y = x * 2
    return y


def numbers(x):
    for number in range(2):
        yield x + number


def lines_covered(run, again=None):
    """What a tool sees that asks for the lines of each function as it starts, and for each line once."""
    tool, events = monitoring.COVERAGE_ID, monitoring.events
    seen, codes = set(), set()

    def started(code, offset):
        if code.co_filename == __file__ and code.co_name in ("whole", "helped", "numbers"):
            codes.add(code)
            monitoring.set_local_events(tool, code, events.LINE)
        return again

    monitoring.use_tool_id(tool, "test")
    monitoring.register_callback(tool, events.PY_START, started)
    monitoring.register_callback(tool, events.LINE, lambda code, line: seen.add((code, line)) or again)
    monitoring.set_events(tool, events.PY_START)
    try:
        run()
    finally:
        monitoring.set_events(tool, 0)
        for code in codes:
            monitoring.set_local_events(tool, code, 0)
        for event in (events.PY_START, events.LINE):
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
        monitoring.restart_events()
    return {(code.co_name, line) for code, line in seen if code in codes and line != code.co_firstlineno}


@pytest.mark.parametrize("again", [None, "disabled"])
@pytest.mark.parametrize("flag", [True, False])
def test_a_coverage_tool_is_told_of_the_lines_that_a_trace_captures(flag, again):
    again = again and monitoring.DISABLE
    compiled = tracer.compile(whole, fullgraph=True)
    expected = lines_covered(lambda: whole(X, flag), again)
    assert lines_covered(lambda: compiled(X, flag), again) == expected
    assert {name for name, _ in expected} == ({"whole", "numbers"} | ({"helped"} if flag else set()))


def test_a_coverage_tool_is_told_of_the_lines_before_a_break_and_sees_those_that_run():
    compiled = tracer.compile(program)
    with watching(["LINE"], tool=monitoring.COVERAGE_ID) as expected:
        program(X, 4)
    with watching(["LINE"], tool=monitoring.COVERAGE_ID) as seen:
        compiled(X, 4)
    assert {event for event in expected if event[1] != sys._getframe().f_code.co_name} <= set(seen)


@pytest.mark.parametrize("fn, args", [(program, (X, 4)), (whole, (X, True))])
def test_a_debugger_sees_the_program_as_it_was_written(fn, args):
    names = ["PY_START", "PY_RETURN", "PY_YIELD", "LINE", "CALL", "JUMP", "RAISE"]
    compiled = tracer.compile(fn)
    compiled(*args)

    def hits():
        return sum(entry.hits for entry in tracer.region_of(compiled).entries())

    entries, hit = len(tracer.region_of(compiled).entries()), hits()
    own = sys._getframe().f_code.co_name
    seen = []
    for called in (fn, compiled):
        with watching(names, tool=monitoring.DEBUGGER_ID) as events:
            result = called(*args)
        assert torch.equal(result, fn(*args))
        seen.append([event for event in events if event[1] not in (own, "watching")])
    assert seen[0] == seen[1] and ("LINE", fn.__name__, fn.__code__.co_firstlineno + 1) in seen[0]
    assert len(tracer.region_of(compiled).entries()) == entries
    assert hits() == hit
    compiled(*args)
    assert hits() > hit
