"""Recompile limits, backends that fail, errors of the tracer itself: what then runs, and what is left behind."""

from __future__ import annotations

import threading
import warnings

import pytest
import torch

import tracer
from tests.soundness.watching import Watched
from tracer import config
from tracer.exc import (
    BackendCompilerFailed,
    FailOnRecompileLimitHit,
    InternalTracerError,
    InvalidBackend,
    RecompileError,
    TracerError,
    Unsupported,
)
from tracer.runtime.tracing_lock import TRACING

X = torch.randn(3)


def by_word(x, word):
    return x * len(word)


WORDS = ["a" * n for n in range(1, 30)]


# --------------------------------------------------------------------------------------------- limits


def test_past_the_limit_the_frame_runs_uncompiled_and_entries_still_hit():
    watched = Watched(by_word, recompile_limit=3)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for word in WORDS[:10]:
            watched(X, word)
    assert watched.traces == 3
    told = [str(w.message) for w in seen if "recompile_limit (3)" in str(w.message)]
    assert len(told) == 1 and "by_word" in told[0] and __file__ in told[0]
    for word in WORDS[:3]:
        assert f"L['word'] == '{word}'" in told[0]
    before = [entry.hits for entry in watched.entries]
    for word in WORDS[:3]:
        watched(X, word)
    assert sum(entry.hits for entry in watched.entries) == sum(before) + 3
    assert watched.traces == 3


def test_a_call_past_the_limit_waits_for_no_trace_of_another_thread(recwarn):
    watched = Watched(by_word, recompile_limit=2)
    for word in WORDS[:4]:
        watched(X, word)
    results = []
    request = threading.Thread(target=lambda: results.append(watched.compiled(X, WORDS[5])), daemon=True)
    with TRACING:
        request.start()
        request.join(timeout=60)
        assert torch.equal(results[0], by_word(X, WORDS[5]))
    assert watched.traces == 2


def test_the_limit_of_the_configuration(recwarn):
    watched = Watched(by_word)
    with config.patch(recompile_limit=2):
        for word in WORDS[:5]:
            watched(X, word)
        assert watched.traces == 2
    for word in WORDS[:5]:
        watched(X, word)
    assert watched.traces == 5


def test_callees_of_a_frame_past_its_limit_are_still_compiled(recwarn):
    def callee(x):
        return x.relu() + 1

    def outer(x, word):
        print(end="")
        return callee(x) * len(word)

    watched = Watched(outer, recompile_limit=2)
    for word in WORDS[:6]:
        watched(X, word)
    entries = watched.entries
    assert {entry.qualname.rpartition(".")[2] for entry in entries} >= {"outer"}


def test_error_on_recompile_raises_with_the_reason_and_changes_nothing():
    watched = Watched(by_word)
    watched(X, "a")
    with config.patch(error_on_recompile=True):
        with pytest.raises(RecompileError, match=r"L\['word'\] == 'a'  \(seen 'bb'\)"):
            watched.compiled(X, "bb")
        watched(X, "a")
    assert watched.traces == 1
    watched(X, "bb")
    assert watched.traces == 2


def test_fail_on_recompile_limit_hit():
    watched = Watched(by_word, recompile_limit=1)
    watched(X, "a")
    with config.patch(fail_on_recompile_limit_hit=True):
        for _ in range(2):
            with pytest.raises(FailOnRecompileLimitHit, match="by_word"):
                watched.compiled(X, "bb")
        watched(X, "a")


def test_a_frame_that_recompiles_for_ever_stays_right(recwarn):
    state = {"calls": 0}

    def fn(x):
        state["calls"] += 1
        return x * state["calls"]

    compiled = tracer.optimize()(fn)
    for n in range(1, 30):
        assert torch.equal(compiled(X), X * n)
    assert state["calls"] == 29


# --------------------------------------------------------------------------------------------- backends


class Failing:
    """A backend that fails in its own way until it is told to work."""

    def __init__(self, how):
        self.how = how
        self.works = False
        self.calls = 0

    def __call__(self, gm, inputs):
        self.calls += 1
        return gm.forward if self.works else self.how(gm)


def raise_error(gm):
    raise ValueError("no such target")


HOW = {"raises": raise_error, "returns None": lambda gm: None, "returns a number": lambda gm: 3}


@pytest.mark.parametrize("how", HOW)
def test_a_backend_that_fails_leaves_nothing_half_changed(how):
    backend = Failing(HOW[how])
    log = []

    def fn(x, items):
        items.append(1)
        log.append(2)
        return (x * 2).relu() + len(items)

    compiled = tracer.optimize(backend)(fn)
    items = []
    grad, rng = torch.is_grad_enabled(), torch.get_rng_state()
    for _ in range(2):
        with pytest.raises(BackendCompilerFailed, match="Failing"):
            compiled(X, items)
    assert items == [] and log == [] and tracer.region_of(compiled).entries() == []
    assert torch.is_grad_enabled() == grad and torch.equal(torch.get_rng_state(), rng)
    backend.works = True
    assert torch.equal(compiled(X, items), (X * 2).relu() + 1)
    assert items == [1] and log == [2] and backend.calls == 3


def test_the_error_of_the_backend_says_what_it_was():
    with pytest.raises(BackendCompilerFailed) as raised:
        tracer.optimize(Failing(raise_error))(lambda x: x * 2)(X)
    assert "no such target" in str(raised.value) and isinstance(raised.value.__cause__, ValueError)
    with pytest.raises(BackendCompilerFailed, match="returned None, not a callable"):
        tracer.optimize(Failing(lambda gm: None))(lambda x: x * 2)(X)


def test_a_backend_that_is_interrupted():
    def interrupt(gm):
        raise KeyboardInterrupt

    backend = Failing(interrupt)
    compiled = tracer.optimize(backend)(lambda x: x * 2)
    with config.patch(suppress_errors=True), pytest.raises(KeyboardInterrupt):
        compiled(X)
    backend.works = True
    assert torch.equal(compiled(X), X * 2)


def test_an_unknown_backend_is_refused_where_it_is_named():
    with pytest.raises(InvalidBackend, match="'inductr'") as raised:
        tracer.optimize("inductr")
    assert "inductor" in str(raised.value)


def test_a_backend_that_fails_behind_a_graph_break_has_run_the_first_part_once():
    backend = Failing(raise_error)
    seen = []

    def fn(x):
        y = x * 2
        seen.append("before")
        print(end="")
        seen.append("after")
        return y + 1

    class Second(Failing):
        def __call__(self, gm, inputs):
            self.calls += 1
            return gm.forward if self.calls == 1 or self.works else self.how(gm)

    backend = Second(raise_error)
    compiled = tracer.optimize(backend)(fn)
    with pytest.raises(BackendCompilerFailed):
        compiled(X)
    assert seen == ["before"]
    backend.works = True
    assert torch.equal(compiled(X), X * 2 + 1)
    assert seen == ["before", "before", "after"]


def test_a_compiled_graph_that_raises():
    def backend(gm, inputs):
        def run(*args):
            raise RuntimeError("the device is lost")

        return run

    compiled = tracer.optimize(backend)(lambda x: x * 2)
    assert torch.equal(compiled(X), X * 2)  # the frame runs in CPython instead, which does not fail


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("does_more", [False, True], ids=["the graph alone", "effects behind the graph"])
def test_an_interrupt_while_a_graph_runs_reaches_the_caller(error, does_more):
    interrupted = False

    def backend(gm, inputs):
        def run(*args):
            if interrupted:
                raise error
            return gm.forward(*args)

        return run

    def fn(x, seen):
        y = x * 2
        if does_more:
            seen.append(y)
        return y

    compiled = tracer.optimize(backend)(fn)
    for interrupted in (False, False, True, True, False):
        seen = []
        if interrupted:
            with pytest.raises(error):
                compiled(X, seen)
            assert not seen
        else:
            assert torch.equal(compiled(X, seen), X * 2) and len(seen) == does_more


def test_a_backend_that_calls_decorated_functions():
    inner = tracer.optimize()(lambda x: x + 1)

    def backend(gm, inputs):
        assert torch.equal(inner(X), X + 1)
        return lambda *args: [inner(out) for out in gm.forward(*args)]

    compiled = tracer.optimize(backend)(lambda x: x * 2)
    for _ in range(3):
        assert torch.equal(compiled(X), X * 2 + 1)


# --------------------------------------------------------------------------------------------- errors of the tracer


@pytest.fixture
def broken_tracer(monkeypatch):
    """The handler of BINARY_OP raises the error that it is given."""
    from tracer.interpreter import translator

    def break_with(error):
        def handler(tx, inst):
            raise error

        import dis

        handlers = list(translator._handlers())
        handlers[dis.opmap["BINARY_OP"]] = handler
        monkeypatch.setattr(translator, "_handlers", lambda: tuple(handlers))

    return break_with


def test_a_bug_of_the_tracer_is_a_warning_and_the_frame_runs(broken_tracer):
    broken_tracer(ZeroDivisionError("a bug"))
    items = []

    def fn(x):
        items.append(1)
        return x * 2

    compiled = tracer.optimize()(fn)
    with config.patch(suppress_errors=True), pytest.warns(UserWarning, match="ZeroDivisionError: a bug"):
        assert torch.equal(compiled(X), X * 2)
    assert items == [1]
    with config.patch(suppress_errors=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(compiled(X), X * 2)  # not tried again, not told again


def test_without_suppression_the_bug_is_shown(broken_tracer):
    broken_tracer(ZeroDivisionError("a bug"))
    with config.patch(suppress_errors=False), pytest.raises((ZeroDivisionError, InternalTracerError), match="a bug"):
        tracer.optimize()(lambda x: x * 2)(X)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_meant_for_the_process_is_never_swallowed(error, broken_tracer, monkeypatch):
    broken_tracer(error())
    compiled = tracer.optimize()(lambda x: x * 2)
    with config.patch(suppress_errors=True):
        for _ in range(2):
            with pytest.raises(error):
                compiled(X)
    monkeypatch.undo()
    assert torch.equal(compiled(X), X * 2)


def test_fullgraph_raises_with_reason_line_and_hint():
    def fn(x):
        y = x * 2
        print("never")
        return y

    compiled = tracer.optimize(fullgraph=True)(fn)
    with config.patch(suppress_errors=True):
        for _ in range(2):
            with pytest.raises(Unsupported) as raised:
                compiled(X)
    text = str(raised.value)
    assert f'"{__file__}", line {fn.__code__.co_firstlineno + 2}' in text and "Hint" in text and "print" in text
    assert isinstance(raised.value, TracerError)


def test_a_guard_that_cannot_be_read_is_a_miss():
    class Holder:
        pass

    holder = Holder()
    holder.by = 2
    watched = Watched(lambda x, h: x * h.by if hasattr(h, "by") else x)
    watched(X, holder)
    watched(X, 3)
    watched(X, None)
    del holder.by
    watched(X, holder)


def test_an_exception_of_the_program_is_the_programs_own():
    def fn(x, n):
        items = [1]
        if n:
            raise ValueError(f"n is {n}")
        return x * items[n]

    watched = Watched(fn)
    assert watched(X, 0) is not None
    for n in (1, 2):
        error = watched(X, n)
        assert isinstance(error, ValueError)
    frames = []
    try:
        watched.compiled(X, 3)
    except ValueError as raised:
        traceback = raised.__traceback__
        while traceback is not None:
            frames.append((traceback.tb_frame.f_code.co_name, traceback.tb_lineno))
            traceback = traceback.tb_next
    assert frames[-1] == ("fn", fn.__code__.co_firstlineno + 3)
