"""An error of the tracer behind a graph break ends the blocks that are open there."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch

import tracer
from tracer.api.blocks import SettingsOfBlock

X = torch.ones(2)
log: list[str] = []


@pytest.fixture(autouse=True)
def empty_log():
    log.clear()


class Block:
    def __init__(self, name="block"):
        self.name = name

    def __enter__(self):
        log.append(f"enter {self.name}")

    def __exit__(self, error, value, traceback):
        log.append(f"exit {self.name} {error and error.__name__}")
        return self.name == "swallows"


def fails_from(count):
    """A backend that fails at its graph of this number and at all later ones."""
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        if len(graphs) >= count:
            raise ValueError("not today")
        return gm.forward

    return backend


def failing(fn, *args, count=2):
    with pytest.raises(tracer.exc.BackendCompilerFailed, match="not today"):
        tracer.compile(fn, backend=fails_from(count))(*args)


def broken(x):
    tracer.graph_break()
    return x + 1


def in_a_block(x):
    with Block():
        x = broken(x + 1)
        x = x * 2
    return x


def at_the_end_of_a_block(x):
    with Block():
        x = x + 1
        tracer.graph_break()
    return x * 2


def returned_from_a_block(x):
    with Block():
        return broken(x + 1) * 2


def value_of_a_call_returned_from_a_block(x):
    with Block():
        return broken(x + 1)


def in_a_loop_in_a_block(x):
    with Block():
        for _ in range(2):
            x = broken(x * 2)
    return x


def in_a_callee_of_a_block(x):
    with Block():
        x = through(x)
    return x


def through(x):
    return broken(x + 1) * 2


@pytest.mark.parametrize(
    "fn",
    [
        in_a_block,
        at_the_end_of_a_block,
        returned_from_a_block,
        value_of_a_call_returned_from_a_block,
        in_a_loop_in_a_block,
        in_a_callee_of_a_block,
    ],
    ids=lambda fn: fn.__name__,
)
def test_with_ends_by_exit_wherever_the_break_is(fn):
    assert torch.equal(tracer.compile(fn)(X), fn(X))
    outcomes = set()
    for count in (1, 2, 3):
        log.clear()
        try:
            tracer.compile(fn, backend=fails_from(count))(X)
        except tracer.exc.BackendCompilerFailed:
            outcomes.add(tuple(log))
    assert outcomes <= {(), ("enter block", "exit block BackendCompilerFailed"), ("enter block", "exit block None")}
    assert outcomes - {()}


def test_blocks_end_from_the_innermost_out():
    def fn(x):
        with Block("outer"), Block("inner"):
            x = broken(x + 1)
            return x * 2

    failing(fn, X)
    assert log == ["enter outer", "enter inner", "exit inner BackendCompilerFailed", "exit outer BackendCompilerFailed"]


def test_a_block_that_swallows_exceptions_swallows_it():
    def fn(x):
        with Block("swallows"):
            x = broken(x + 1)
            return x * 2
        return "swallowed"

    assert tracer.compile(fn, backend=fails_from(2))(X) == "swallowed"


def test_torchs_modes_are_as_they_were():
    def fn(x):
        with torch.no_grad():
            x = broken(x + 1)
            return x * 2

    failing(fn, X)
    assert torch.is_grad_enabled()


def test_finally_runs_also_where_nothing_is_left_in_its_block():
    def in_it(x):
        try:
            x = broken(x + 1)
            return x * 2
        finally:
            log.append("finally")

    def behind_it(x):
        try:
            x = broken(x + 1)
        finally:
            log.append("finally")
        return x * 2

    for fn in (in_it, behind_it):
        log.clear()
        failing(fn, X)
        assert log == ["finally"]


def test_a_lock_is_released():
    lock = threading.Lock()

    def fn(x):
        lock.acquire()
        try:
            x = broken(x)
        finally:
            lock.release()
        return x

    compiled = tracer.compile(fn)
    compiled(X)
    with tracer.config.patch(error_on_recompile=True), pytest.raises(tracer.exc.RecompileError):
        compiled(torch.ones(2, 2))
    assert not lock.locked()


def test_except_catches_what_is_raised_in_its_block_and_not_what_comes_behind():
    def caught(x):
        try:
            x = broken(x + 1)
            x = x * 2
        except ArithmeticError:
            log.append("arithmetic")
        except Exception as error:
            return type(error).__name__
        return x

    def behind(x):
        x = x + 1
        try:
            tracer.graph_break()
        except Exception:
            log.append("caught")
        return x * 2

    def behind_all(x):
        x = x + 1
        try:
            tracer.graph_break()
        except:  # noqa: E722
            log.append("caught")
        return x * 2

    assert tracer.compile(caught, backend=fails_from(2))(X) == "BackendCompilerFailed"
    for fn in (behind, behind_all):
        failing(fn, X)
    assert log == []


def test_an_error_in_a_handler_keeps_what_was_handled():
    def fn(x):
        try:
            raise KeyError(1)
        except KeyError:
            with Block():
                x = broken(x + 1)
                return x * 2

    with pytest.raises(tracer.exc.BackendCompilerFailed) as caught:
        tracer.compile(fn, backend=fails_from(2))(X)
    assert log == ["enter block", "exit block BackendCompilerFailed"]
    assert caught.value.__traceback__ is not None


def test_what_ends_a_block_is_not_compiled_while_the_error_passes():
    class Computes(Block):
        def __exit__(self, *raised):
            log.append(float((X * 3).sum()))

    def fn(x):
        with Computes():
            x = through(x)
            return x * 2

    failing(fn, X)
    assert log[1:] == [6.0]


@pytest.mark.parametrize(
    "forbid, error",
    [
        (lambda compiled: compiled.seal(on_miss="error"), "SealedError"),
        (lambda compiled: tracer.set_stance("fail_on_recompile"), "RecompileError"),
    ],
    ids=["seal", "stance"],
)
def test_a_recompile_that_is_forbidden_behind_a_break_ends_the_blocks(forbid, error):
    def fn(x, n):
        with Block():
            tracer.graph_break()
            x = x * n
        return x

    compiled = tracer.compile(fn)
    compiled(X, 2)
    log.clear()
    forbid(compiled)
    try:
        with pytest.raises(tracer.exc.RecompileError):
            compiled(X, 3)
    finally:
        tracer.set_stance("default")
    assert log == ["enter block", f"exit block {error}"]


def test_settings_of_a_block_end_with_it_once():
    def fn(x):
        with SettingsOfBlock({"capture_scalar_outputs": True}):
            x = through(x)
            return x * 2

    with tracer.config.patch(capture_scalar_outputs=True):
        with SettingsOfBlock({"capture_scalar_outputs": False}):
            failing(fn, X)
            assert not tracer.config.capture_scalar_outputs
        assert tracer.config.capture_scalar_outputs


def test_what_was_raised_is_not_kept():
    class Marked(Exception):
        pass

    def backend(gm, example_inputs):
        if seen:
            raise Marked
        seen.append(gm)
        return gm.forward

    def fn(x):
        with Block():
            x = broken(x + 1)
            return x * 2

    seen: list[object] = []
    compiled = tracer.compile(fn, backend=backend)
    with pytest.raises(tracer.exc.BackendCompilerFailed) as caught:
        compiled(X)
    gone = weakref.ref(caught.value.inner_exception)
    del caught
    gc.collect()
    assert gone() is None


def test_later_calls_are_traced_again():
    graphs = []

    def fails_once(gm, example_inputs):
        graphs.append(gm)
        if len(graphs) == 2:
            raise ValueError("not today")
        return gm.forward

    compiled = tracer.compile(in_a_block, backend=fails_once)
    with pytest.raises(tracer.exc.BackendCompilerFailed):
        compiled(X)
    assert torch.equal(compiled(X), in_a_block(X)) and len(graphs) == 4
