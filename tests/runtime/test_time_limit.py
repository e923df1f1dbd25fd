"""A trace or a backend that takes too long: the call runs in CPython with a message, and nothing is half installed."""

from __future__ import annotations

import os
import threading
import time
import warnings

import pytest
import torch

import tracer
from tests.support.programs import double
from tests.support.regions import entries
from tracer import config
from tracer.runtime import time_limit


class Slow:
    """A backend that waits, until it is let go."""

    def __init__(self):
        self.go = threading.Event()
        self.begun = 0
        self.threads = set()
        self.modes = []

    def __call__(self, gm, example_inputs):
        self.begun += 1
        self.threads.add(threading.current_thread().name)
        self.modes.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled(), config.recompile_limit))
        assert self.go.wait(30)
        return gm.forward


@pytest.fixture
def slow():
    backend = Slow()
    yield backend
    backend.go.set()
    while time_limit.is_compiling():
        time.sleep(0.01)


def test_a_backend_that_takes_too_long_is_given_up_and_its_result_thrown_away(slow):
    seen = []
    end = tracer.add_callback(seen.append, "timeout")
    tracer.optimize("eager")(double)(torch.ones(3))  # what a first trace loads takes longer
    made = tracer.optimize(slow, compile_timeout=1)(double)
    started = time.perf_counter()
    with pytest.warns(UserWarning, match=r"double .*took longer than the 1 seconds of compile_timeout; the backend was given up"):
        assert torch.equal(made(torch.ones(3)), torch.full((3,), 3.0))
    end()
    assert 1 <= time.perf_counter() - started < 10
    assert not entries(made) and [event.function for event in seen] == ["double"]
    slow.go.set()
    while time_limit.is_compiling():
        time.sleep(0.01)
    assert torch.equal(made(torch.ones(3)), torch.full((3,), 3.0))
    assert not entries(made) and slow.begun == 1
    stats = made.stats()
    assert (stats["timeouts"], stats["limit_hits"], stats["compiles"]) == (1, 1, 0)
    tracer.reset()
    assert torch.equal(made(torch.ones(3)), torch.full((3,), 3.0)) and len(entries(made)) == 1


def test_entries_that_are_there_serve_on(slow):
    slow.go.set()
    made = tracer.optimize(slow, compile_timeout=5)(double)
    made(torch.ones(3))
    slow.go.clear()
    with config.patch(compile_timeout=0.1), pytest.warns(UserWarning, match="compile_timeout"):
        tracer.region_of(made).compile_timeout = None
        assert torch.equal(made(torch.ones(2, 3)), torch.full((2, 3), 3.0))
    assert len(entries(made)) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(torch.ones(3))
        made(torch.ones(2, 3))
    assert made.stats()["hits"] == 1 and made.stats()["limit_hits"] == 1


def test_nothing_else_is_compiled_while_a_backend_that_was_given_up_still_runs(slow):
    made = tracer.optimize(slow, compile_timeout=0.1)(double)
    with pytest.warns(UserWarning, match="compile_timeout"):
        made(torch.ones(3))
    other = tracer.optimize("eager")(lambda x: x - 1)
    assert torch.equal(other(torch.ones(3)), torch.zeros(3))
    assert not entries(other) and other.stats()["limit_hits"] == 1
    slow.go.set()
    while time_limit.is_compiling():
        time.sleep(0.01)
    other(torch.ones(3))
    assert len(entries(other)) == 1


def test_a_backend_with_a_limit_runs_under_the_state_of_the_call_and_its_errors_are_the_same(slow):
    slow.go.set()
    made = tracer.optimize(slow, compile_timeout=20)(double)
    with torch.no_grad(), config.patch(recompile_limit=5):
        made(torch.ones(3))
    with torch.inference_mode():
        made(torch.ones(3))
    assert slow.modes == [(False, False, 5), (False, False, 8)] and slow.threads == {"tracer-backend"}
    assert torch.is_grad_enabled() and len(entries(made)) == 2

    def fails(gm, example_inputs):
        raise ValueError("of a backend")

    with pytest.raises(tracer.exc.BackendCompilerFailed, match="of a backend"):
        tracer.optimize(fails, compile_timeout=20)(double)(torch.ones(3))


def test_without_a_limit_a_backend_runs_on_the_thread_of_the_call(slow):
    slow.go.set()
    tracer.optimize(slow)(double)(torch.ones(3))
    assert slow.threads == {threading.current_thread().name}


@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
def test_compilers_of_torch_work_within_a_limit(backend):
    made = tracer.optimize(backend, compile_timeout=60.0)(lambda x: (x * 2).sin().sum())
    x = torch.ones(3, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    made(x).backward()
    (y * 2).sin().sum().backward()
    assert torch.equal(x.grad, y.grad) and len(entries(made)) == 1


def loops(x):
    for _ in range(200_000):
        x = x + 1
    return x


def counts(x):
    n = 0
    while n < 10_000_000:
        n += 1
    return x + n


@pytest.mark.parametrize(("function", "x"), [(loops, torch.zeros(2)), (counts, torch.zeros(2, dtype=torch.int64))])
def test_a_trace_that_takes_too_long_is_given_up(function, x):
    made = tracer.optimize("eager", compile_timeout=0.2)(function)
    started = time.perf_counter()
    with pytest.warns(UserWarning, match="the trace was given up"):
        result = made(x)
    assert time.perf_counter() - started < 30
    assert torch.equal(result, function(x)) and not entries(made)
    assert made.stats()["timeouts"] == 1 and not time_limit.is_compiling()


def test_a_trace_that_is_given_up_leaves_the_programs_state_alone():
    log = []

    def f(x):
        log.append(1)
        with torch.no_grad():
            return loops(x), torch.is_grad_enabled()

    made = tracer.optimize("eager", compile_timeout=0.2)(f)
    with pytest.warns(UserWarning, match="compile_timeout"):
        assert made(torch.ones(1))[1] is False
    assert log == [1] and torch.is_grad_enabled()


def test_a_certificate_ends_where_a_compile_takes_too_long(slow):
    made = tracer.optimize(slow, compile_timeout=0.2)(double)
    found = tracer.precompile(made, "x: B; B in 1..64", torch.ones(3))
    assert found.status == "budget" and not found and "compile_timeout" in found.reason and not entries(made)


def test_background_traces_are_limited_too(slow):
    from tracer.serving import sealing

    made = tracer.optimize(slow, shapes="x: B; B in 2..64", compile_timeout=0.2)(double)
    made.seal(on_miss="background")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(made(torch.ones(3)), torch.full((3,), 3.0))
        assert sealing.wait(30)
    assert not entries(made) and made.stats()["timeouts"] == 1


# -- what else goes on -----------------------------------------------------------------------------------------------------


def test_a_backend_that_calls_what_is_compiled_itself_has_it_traced_as_without_a_limit():
    inner = tracer.optimize("eager")(lambda x: x + 1)

    def backend(gm, example_inputs):
        assert torch.equal(inner(torch.ones(2)), torch.full((2,), 2.0))
        return gm.forward

    for seconds in (0, 20):
        inner_before, started = len(entries(inner)), time.perf_counter()
        made = tracer.optimize(backend, compile_timeout=seconds)(double)
        assert torch.equal(made(torch.ones(3)), torch.full((3,), 3.0))
        assert len(entries(made)) == 1 and len(entries(inner)) == 1 >= inner_before
        assert time.perf_counter() - started < 15
        tracer.region_of(inner).reset()


def test_a_backend_that_was_given_up_traces_nothing_beside_others():
    go, ended = threading.Event(), threading.Event()
    inner = tracer.optimize("eager")(lambda x: x + 1)

    def backend(gm, example_inputs):
        assert go.wait(30)
        inner(torch.ones(2))
        ended.set()
        return gm.forward

    made = tracer.optimize(backend, compile_timeout=0.2)(double)
    with pytest.warns(UserWarning, match="compile_timeout"):
        made(torch.ones(3))
    go.set()
    assert ended.wait(30)
    while time_limit.is_compiling():
        time.sleep(0.01)
    assert not entries(inner) and inner.stats()["limit_hits"] == 1


def test_a_limit_within_a_limit_gives_up_what_took_too_long(slow):
    inner = tracer.optimize(slow, compile_timeout=0.2)(lambda x: x + 1)

    def backend(gm, example_inputs):
        inner(torch.ones(2))
        return gm.forward

    made = tracer.optimize(backend, compile_timeout=30)(double)
    with pytest.warns(UserWarning, match="compile_timeout"):
        assert torch.equal(made(torch.ones(3)), torch.full((3,), 3.0))
    assert len(entries(made)) == 1 and not entries(inner)


def test_nothing_is_precompiled_while_a_backend_that_was_given_up_still_runs(slow):
    made = tracer.optimize(slow, compile_timeout=0.1)(double)
    with pytest.warns(UserWarning, match="compile_timeout"):
        made(torch.ones(3))
    other = tracer.optimize("eager")(double)
    found = tracer.precompile(other, "x: B; B in 1..64", torch.ones(3))
    assert found.status == "budget" and "still running" in found.reason and not entries(other)


def test_an_interrupt_leaves_the_backend_behind_and_nothing_half_installed(slow, monkeypatch):
    real = threading.Event.wait

    def interrupted(self, timeout=None):
        if threading.current_thread() is threading.main_thread() and timeout is not None and 10 < timeout < 20:
            raise KeyboardInterrupt
        return real(self, timeout)

    made = tracer.optimize(slow, compile_timeout=15)(double)
    monkeypatch.setattr(threading.Event, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made(torch.ones(3))
    assert time_limit.is_compiling() and not entries(made)
    monkeypatch.undo()
    slow.go.set()
    while time_limit.is_compiling():
        time.sleep(0.01)
    made(torch.ones(3))
    assert len(entries(made)) == 1


def test_where_no_thread_can_be_started_there_is_no_limit(slow, monkeypatch):
    slow.go.set()
    monkeypatch.setattr(threading.Thread, "start", lambda self: (_ for _ in ()).throw(RuntimeError("can't start new thread")))
    made = tracer.optimize(slow, compile_timeout=5)(double)
    made(torch.ones(3))
    assert len(entries(made)) == 1 and slow.threads == {threading.current_thread().name}


def test_a_backend_that_ends_just_when_its_time_is_up_has_either_an_entry_or_a_warning():
    tracer.optimize("eager")(double)(torch.ones(3))  # what a first trace loads takes longer
    for step in range(12):

        def backend(gm, example_inputs):
            time.sleep(0.05)
            return gm.forward

        made = tracer.optimize(backend, compile_timeout=0.045 + 0.002 * step)(double)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert torch.equal(made(torch.ones(3)), torch.full((3,), 3.0))
        timeouts = made.stats()["timeouts"]
        assert (len(entries(made)), len(told), timeouts) in ((1, 0, 0), (0, 1, 1))
        while time_limit.is_compiling():
            time.sleep(0.001)


def test_threads_that_compile_at_once_get_right_results_and_each_one_entry(slow):
    slow.go.set()
    made = [tracer.optimize(slow, compile_timeout=60)(lambda x, n=n: x * n) for n in range(8)]
    wrong = []

    def call(index):
        for _ in range(3):
            if not torch.equal(made[index](torch.ones(3)), torch.full((3,), float(index))):
                wrong.append(index)

    threads = [threading.Thread(target=call, args=(index % 8,)) for index in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and all(len(entries(each)) == 1 for each in made)


def asks(x):
    for size in (3, 5, 7, 9):
        if x.shape[0] * x.shape[1] % size == 1 and x.shape[0] < 100 * size:
            x = x + size
    return x


def test_what_z3_is_asked_when_the_time_is_up_is_not_known_and_guards_stay(monkeypatch):
    from shapes import solver
    from tracer.pipeline import convert_frame

    x = torch.ones(2, 2)
    usual = tracer.optimize("eager", dynamic=True)(asks)
    usual(x)
    real = convert_frame.FrameConversion._compile

    def late(self, *args, **kwargs):
        compiled = real(self, *args, **kwargs)
        self.limit.ends = 0  # as if it had taken that long
        solver.problem._deadline.set(0.0)
        return compiled

    monkeypatch.setattr(convert_frame.FrameConversion, "_compile", late)
    made = tracer.optimize("eager", dynamic=True, compile_timeout=60)(asks)
    assert torch.equal(made(x), asks(x)) and len(entries(made)) == 1
    monkeypatch.undo()
    count = [each[0].guarded_code.guards_text.count("size()") for each in (entries(usual), entries(made))]
    assert count[1] >= count[0]
    for shape in ((2, 2), (3, 3), (2, 5), (300, 2), (11, 11)):
        x = torch.randn(*shape)
        assert torch.equal(made(x), asks(x))


def test_a_certificate_whose_time_is_up_while_z3_is_asked_says_so(monkeypatch):
    from tracer.serving import coverage

    made = tracer.optimize("eager")(asks)
    real = coverage._Search.check

    def late(self, *_):
        time.sleep(1.0)
        return real(self)

    monkeypatch.setattr(coverage._Search, "check", late)
    found = tracer.precompile(made, "x: B, S; B in 1..100000; S in 1..100000", torch.ones(3, 3), max_seconds=0.9)
    assert found.status == "budget" and not found


@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_child_that_is_forked_while_another_thread_traces_can_trace():
    begun, go = threading.Event(), threading.Event()

    def backend(gm, example_inputs):
        begun.set()
        assert go.wait(30)
        return gm.forward

    thread = threading.Thread(target=tracer.optimize(backend)(double), args=(torch.ones(3),))
    thread.start()
    assert begun.wait(30)
    pid = os.fork()
    if pid == 0:
        made = tracer.optimize("eager")(lambda x: x - 1)
        right = torch.equal(made(torch.ones(3)), torch.zeros(3)) and len(entries(made)) == 1
        os._exit(0 if right else 1)
    go.set()
    thread.join()
    ends = time.perf_counter() + 60
    while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0 and time.perf_counter() < ends:
        time.sleep(0.02)
    if ended[0] == 0:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    assert ended[0] == pid and ended[1] == 0


@pytest.mark.parametrize("seconds", [-1, "3", True])
def test_a_limit_is_a_number_of_seconds(seconds):
    with pytest.raises(tracer.exc.UserError, match="is not a time"):
        tracer.optimize("eager", compile_timeout=seconds)


def test_the_setting_takes_whole_seconds():
    with config.patch(compile_timeout=3):
        assert config.compile_timeout == 3.0
    with pytest.raises(TypeError):
        config.patch(compile_timeout="3")


def test_a_pause_takes_no_time_of_the_limit():
    limit = time_limit.TimeLimit(60.0)
    ends = limit.ends
    with limit.paused():
        time.sleep(0.01)
    assert limit.ends - ends >= 0.01
