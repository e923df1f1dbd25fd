"""What debuggers, profilers and introspection see under the frame hook is what they see without it."""

from __future__ import annotations

import cProfile
import sys

import pytest

from tests.csrc.calls import callee, caller
from tests.csrc.entries import Recorder, entry, fresh
from tracer._C import Dispatcher, Region

pytestmark = pytest.mark.usefixtures("nothing_is_left_switched_on")


def test_settrace_sees_the_program_and_changes_nothing():
    events = []

    def trace(frame, event, arg):
        events.append((event, frame.f_code.co_name))
        return trace

    ask = Recorder()
    call = Dispatcher(Region(ask), fresh(caller))
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert call(1) == 4 and call(2) == 6
    finally:
        sys.settrace(before)
    assert [event for event in events if event[0] == "call" and event[1] in ("caller", "callee")] == [
        ("call", "caller"),
        ("call", "callee"),
    ] * 2
    assert "trace" not in ask.names
    assert ask.names.count("caller") == 2


def test_settrace_with_a_hit():
    lines = []

    def trace(frame, event, arg):
        if frame.f_code.co_name == "callee":
            lines.append(event)
        return trace

    call = Dispatcher(Region(Recorder(caller=entry(caller))), fresh(caller))
    call(1)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert call(1) == 4
    finally:
        sys.settrace(before)
    assert lines == ["call", "line", "return"]


def test_trace_and_profile_functions_may_be_switched_by_the_program():
    def f(x):
        sys.setprofile(lambda *args: None)
        x = callee(x)
        sys.setprofile(None)
        return callee(x)

    assert Dispatcher(Region(Recorder()), f)(1) == 3


def test_cprofile_counts_what_ran():
    call = Dispatcher(Region(Recorder(callee=entry(callee))), fresh(caller))
    profile = cProfile.Profile()
    profile.enable()
    try:
        assert [call(n) for n in range(10)] == [(n + 1) * 2 for n in range(10)]
    finally:
        profile.disable()
    assert any(entry.code.co_name == "callee" for entry in profile.getstats() if not isinstance(entry.code, str))


def test_finalizers_and_weakref_callbacks_run_under_the_hook():
    class Loud:
        def __del__(self):
            log.append("deleted")

    log: list[str] = []

    def f():
        Loud()
        return len(log)

    assert Dispatcher(Region(Recorder()), f)() == 1


def test_locals_and_frames_look_as_in_cpython():
    def f(a, *args, k=1, **kwargs):
        b = 2
        frame = sys._getframe()
        assert frame.f_code is f.__code__ and frame.f_back.f_code.co_name == here
        return sorted(locals())

    here = sys._getframe().f_code.co_name
    call = Dispatcher(Region(Recorder()), f)
    assert call(1, 2, z=3) == f(1, 2, z=3)
