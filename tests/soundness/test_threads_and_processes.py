"""Threads, forks, tracing hooks of Python, and torch.compile in the same process: nobody switches another one off."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import tracer
from tests.soundness.watching import Watched
from tests.support.graphs import Graphs
from tests.support.processes import run_python
from tracer.errors import InternalTracerError
from tracer.pipeline.traced_call import TracedCall

X = torch.randn(3)


def layer(x, n):
    return (x * n).relu() + n


def breaking(x, n):
    y = layer(x, n)
    print(end="")
    return layer(y, n + 1)


def in_threads(*functions):
    """Runs all at once, from a common start; raises what they raise."""
    start = threading.Barrier(len(functions))

    def run(fn):
        start.wait()
        return fn()

    with ThreadPoolExecutor(len(functions)) as pool:
        return [future.result(timeout=120) for future in [pool.submit(run, fn) for fn in functions]]


# --------------------------------------------------------------------------------------------- threads


def test_two_regions_in_two_threads():
    first, second = Watched(breaking, recompile_limit=64), Watched(layer, recompile_limit=64)

    def repeat(watched):
        for n in range(2, 60):
            assert torch.equal(watched.compiled(X, n), watched.plain(X, n))

    in_threads(lambda: repeat(first), lambda: repeat(second))
    assert first.graphs and second.graphs


def test_threads_that_miss_at_once_compile_once():
    compiled, missed = [], threading.Semaphore(0)

    def backend(gm, inputs):
        compiled.append(gm)
        for _ in range(4):  # until all are there
            assert missed.acquire(timeout=60)
        return gm

    fn = tracer.optimize(backend)(lambda x, n: x * n)
    remove = tracer.add_callback(lambda event: missed.release(), "miss")
    try:
        results = in_threads(*[lambda: fn(X, 3)] * 4)
    finally:
        remove()
    assert all(torch.equal(result, X * 3) for result in results)
    assert len(compiled) == 1


def test_a_thread_that_leaves_its_region_does_not_switch_off_another_one():
    inside, go_on = threading.Event(), threading.Event()
    traced_callees = Graphs()

    @tracer.disable
    def wait():
        inside.set()
        assert go_on.wait(60)

    def long(x):
        wait()
        return layer(x, 5)

    compiled = tracer.optimize(traced_callees.backend)(long)
    short = tracer.optimize()(lambda x: x + 1)

    def run_short():
        assert inside.wait(60)
        for _ in range(5):
            short(X)
        go_on.set()

    result, _ = in_threads(lambda: compiled(X), run_short)
    assert torch.equal(result, layer(X, 5)) and len(traced_callees) == 1


def test_regions_nested_in_regions_in_several_threads():
    def make(depth):
        inner = make(depth - 1) if depth else (lambda x: x + 1)

        def fn(x):
            print(end="")
            return inner(x) * 2

        return tracer.optimize()(fn)

    nested = [make(3) for _ in range(3)]
    expected = (X + 1) * 16

    def repeat(fn):
        for _ in range(20):
            assert torch.equal(fn(X), expected)

    in_threads(*[lambda fn=fn: repeat(fn) for fn in nested], lambda: repeat(nested[0]))


def test_one_function_called_by_many_threads_at_first():
    def slow(gm, inputs):
        time.sleep(0.05)
        return gm.forward

    compiled = tracer.optimize(slow)(breaking)
    results = in_threads(*[lambda: compiled(X, 3)] * 6)
    assert all(torch.equal(result, breaking(X, 3)) for result in results)
    assert len(tracer.region_of(compiled).region.entries(breaking.__code__)) >= 1


def test_grad_mode_and_config_of_a_thread_are_its_own():
    compiled = tracer.optimize()(lambda x: (x * 2).requires_grad)
    x = X.clone().requires_grad_()

    def with_grad():
        return [compiled(x) for _ in range(20)]

    def without():
        with torch.no_grad():
            return [compiled(x) for _ in range(20)]

    assert in_threads(with_grad, without) == [[True] * 20, [False] * 20]


def test_reset_while_others_call():
    compiled = tracer.optimize()(breaking)
    stop = threading.Event()

    def call():
        while not stop.is_set():
            assert torch.equal(compiled(X, 3), breaking(X, 3))

    def reset():
        for _ in range(10):
            tracer.reset()
            time.sleep(0.01)
        stop.set()

    in_threads(call, call, reset)


def test_a_stance_of_one_thread_does_not_reach_another():
    watched = Watched(layer)
    entered, leave = threading.Event(), threading.Event()

    def run_only():
        with tracer.run():
            entered.set()
            assert leave.wait(60)
            watched.compiled(X, 3)
            return watched.traces

    def normal():
        assert entered.wait(60)
        watched.compiled(X, 3)
        traces = watched.traces
        leave.set()
        return traces

    assert in_threads(run_only, normal) == [1, 1]


# --------------------------------------------------------------------------------------------- processes


def in_child(check) -> int:
    """The exit status of a forked child that runs `check`."""
    pid = os.fork()
    if pid == 0:
        try:
            check()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    raise TimeoutError("the child hangs")


@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_after_a_fork_the_child_serves_and_traces():
    torch.set_num_threads(1)
    served = Watched(breaking)
    served.compiled(X, 3)
    traces = served.traces

    def check():
        assert torch.equal(served.compiled(X, 3), breaking(X, 3))
        assert served.traces == traces
        assert torch.equal(served.compiled(X, 4), breaking(X, 4))
        fresh = Watched(lambda x, n: layer(x, n) * 2, dynamic=True)
        assert torch.equal(fresh.compiled(X, 5), layer(X, 5) * 2)
        if_branch = Watched(lambda x: x * 2 if x.shape[0] * 3 < 100 else x, dynamic=True)
        assert torch.equal(if_branch.compiled(torch.ones(7)), torch.ones(7) * 2)

    assert in_child(check) == 0
    assert torch.equal(served.compiled(X, 3), breaking(X, 3))


@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_fork_from_inside_a_region():
    torch.set_num_threads(1)
    statuses = []

    @tracer.disable
    def fork():
        statuses.append(in_child(lambda: tracer.optimize()(layer)(X, 3)))

    def fn(x):
        fork()
        return layer(x, 3)

    assert torch.equal(tracer.optimize()(fn)(X), layer(X, 3))
    assert statuses == [0]


# --------------------------------------------------------------------------------------------- torch.compile


BESIDE = """
import torch, tracer
tracer.config.suppress_errors = False
x = torch.randn(4)
graphs = {"torch": 0, "tracer": 0}

def counting(name):
    def backend(gm, inputs):
        graphs[name] += 1
        return gm.forward
    return backend

def inner(x, n):
    return (x * n).relu()

def fn(x, n):
    y = inner(x, n)
    print(end="")
    return inner(y, n + 1) + 1

def check(compiled, name, more):
    before = graphs[name]
    for n in (2, 3, 2):
        assert torch.equal(compiled(x, n), fn(x, n)), name
    assert (graphs[name] > before) == more, (name, graphs, more)

ours, theirs = tracer.optimize(counting("tracer"))(fn), torch.compile(fn, backend=counting("torch"))
ORDER

# one inside the other, and one that runs while the other has frames open
def outer(x):
    print(end="")
    return theirs(x, 2) + ours(x, 2)

for wrap in (tracer.optimize(counting("tracer")), torch.compile(backend=counting("torch"))):
    for _ in range(2):
        assert torch.equal(wrap(outer)(x), outer(x))
assert torch.equal(torch.compile(inner, backend="eager")(x, 7), inner(x, 7))
torch._dynamo.reset()
assert torch.equal(theirs(x, 2), fn(x, 2)) and torch.equal(ours(x, 2), fn(x, 2))
tracer.reset()
assert torch.equal(theirs(x, 3), fn(x, 3)) and torch.equal(ours(x, 3), fn(x, 3))
print("fine")
"""

ORDERS = {
    "torch.compile first": 'check(theirs, "torch", True); check(ours, "tracer", True)',
    "the tracer first": 'check(ours, "tracer", True); check(theirs, "torch", True)',
}


@pytest.mark.parametrize("order", ORDERS)
def test_torch_compile_in_the_same_process(order):
    program = BESIDE.replace("ORDER", ORDERS[order] + '; check(ours, "tracer", False); check(theirs, "torch", False)')
    assert run_python(program).stdout == "fine\n"


# --------------------------------------------------------------------------------------------- sys.settrace and profilers


def events_of(install, fn):
    """(event, function, line) of what happens in this file while fn runs."""
    events = []

    def hook(frame, event, arg):
        if frame.f_code.co_filename == __file__ and not event.startswith("c_"):
            events.append((event, frame.f_code.co_name, frame.f_lineno))
        return hook

    install(hook)
    try:
        result = fn()
    finally:
        install(None)
    return result, events


@pytest.mark.parametrize("install", [sys.settrace, sys.setprofile])
@pytest.mark.parametrize("fn", [layer, breaking])
@pytest.mark.parametrize("warm", [False, True])
def test_trace_and_profile_functions_of_python(install, fn, warm):
    watched = Watched(fn)
    if warm:
        watched.compiled(X, 3)
    for _ in range(3):
        result, events = events_of(install, lambda: watched.compiled(X, 3))
        assert torch.equal(result, fn(X, 3))
        assert events
    traces = watched.traces
    assert torch.equal(watched.compiled(X, 3), fn(X, 3))
    assert watched.traces <= traces + 3
    hits = watched.hits
    watched.compiled(X, 3)
    assert watched.hits > hits


def test_a_profiler_of_torch():
    watched = Watched(breaking)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        assert torch.equal(watched.compiled(X, 3), breaking(X, 3))
        assert torch.equal(watched.compiled(X, 3), breaking(X, 3))
    assert any("relu" in event.key for event in profile.key_averages())


def test_cprofile_around_a_trace():
    import cProfile

    watched = Watched(breaking)
    profile = cProfile.Profile()
    result = profile.runcall(watched.compiled, X, 3)
    assert torch.equal(result, breaking(X, 3))


def test_a_debugger_that_steps_through():
    lines = []

    def stepping(frame, event, arg):
        if frame.f_code.co_filename == __file__:
            lines.append(frame.f_lineno)
            dict(frame.f_locals)  # what a debugger shows
        return stepping

    watched = Watched(breaking)
    for _ in range(2):
        sys.settrace(stepping)
        try:
            result = watched.compiled(X, 3)
        finally:
            sys.settrace(None)
        assert torch.equal(result, breaking(X, 3))
    assert lines


TABLE = {"first": 1}


def test_what_another_thread_changes_between_the_trace_and_its_check_is_left_to_cpython(monkeypatch):
    def f(x):
        return x + len(TABLE)

    asked, checked = threading.Event(), []
    whole = TracedCall.check_holds

    def check_holds(call, guarded):
        checked.append(len(TABLE))
        TABLE[len(TABLE)] = 0  # as the other thread would
        whole(call, guarded)

    other = threading.Thread(target=asked.wait)
    other.start()
    monkeypatch.setattr(TracedCall, "check_holds", check_holds)
    compiled = tracer.compile(f, backend="eager")
    try:
        with tracer.config.patch(suppress_errors=False):
            assert torch.equal(compiled(X), f(X))
            assert checked == [1, 2]  # it was tried once more
            asked.set()
            other.join()
            monkeypatch.setattr(sys, "_current_frames", lambda: {threading.get_ident(): None})  # nobody else is there
            with pytest.raises(InternalTracerError, match="do not hold"):
                compiled(X)
            monkeypatch.undo()
            assert torch.equal(compiled(X), f(X))
    finally:
        asked.set()
        while len(TABLE) > 1:
            TABLE.popitem()
