"""A trace or a backend that takes too long: the call runs in CPython, that is said, and nothing is half installed."""

from __future__ import annotations

import threading
import time
import warnings

import pytest
import torch

import tracer
from tracer import config, time_limit


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


def double(x):
    return x * 2 + 1


def entries(made):
    return tracer.region_of(made).entries()


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
    assert slow.modes == [(False, False, 5), (False, True, 8)] and slow.threads == {"tracer-backend"}
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


@pytest.mark.parametrize("seconds", [-1, "3", True])
def test_a_limit_is_a_number_of_seconds(seconds):
    with pytest.raises(tracer.exc.UserError, match="is no time"):
        tracer.optimize("eager", compile_timeout=seconds)


def test_the_setting_takes_whole_seconds():
    with config.patch(compile_timeout=3):
        assert config.compile_timeout == 3.0
    with pytest.raises(TypeError):
        config.patch(compile_timeout="3")
