"""Streams, events, what waits for them, and ranges for a profiler. Those of the CPU do nothing, but torch knows which stream is
the current one; `test_streams_of_cuda.py` has what needs a device."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

import tracer
from tests.support import breaks, captured, captured_made
from tests.support.comparing import Comparison
from tests.support.regions import entries
from tracer.graph.operations.streams import _open, used_until_here

X = torch.arange(6.0).reshape(2, 3)
SIDE = torch.cpu.Stream()
SEEN: list[bool] = []


@torch.library.custom_op("streams_for_tests::noted", mutates_args=())
def noted(x: torch.Tensor) -> torch.Tensor:
    """Notes whether `SIDE` is the current stream where it runs."""
    SEEN.append(torch.cpu.current_stream() is SIDE)
    return x.clone()


@noted.register_fake
def _(x):
    return torch.empty_like(x)


def on_the_side(x):
    SIDE.wait_stream(torch.cpu.current_stream())
    first = noted(x)
    with torch.cpu.stream(SIDE):
        second = noted(x * 2)
    torch.cpu.current_stream().wait_stream(SIDE)
    return first + noted(second)


def made_inside(x):
    stream, event = torch.cpu.Stream(), torch.cpu.Event()
    event.record(stream)
    y = x.sin()
    stream.wait_event(event)
    event.wait(stream)
    event.synchronize()
    with torch.cpu.stream(stream):
        y = y + x
    torch.cpu.synchronize()
    return y.relu()


def generic(x):
    stream, event = torch.Stream(device="cpu"), torch.Event(device="cpu")
    return x + 1, type(stream).__name__, isinstance(event, torch.Event), stream is event, stream is None


def no_stream(x):
    with torch.cpu.stream(None):
        y = noted(x)
    return y + 1


def nested(x):
    with torch.cpu.stream(torch.cpu.Stream()):
        y = noted(x)
        with torch.cpu.stream(SIDE):
            y = noted(y + 1)
        y = noted(y)
    return noted(y)


def with_an_error_that_is_caught(x):
    try:
        with torch.cpu.stream(SIDE):
            y = noted(x)
            if x.shape[0] == 2:
                raise ValueError("two")
    except ValueError:
        y = noted(x) * 2
    return y


def without_gradients(x):
    with torch.no_grad():
        y = many(x)
        with torch.cpu.stream(SIDE):
            y = many(noted(y))
        y = many(y)
    return y + x


def in_inference_mode(x):
    with torch.inference_mode():
        y = many(x)
        with torch.cpu.stream(SIDE):
            y = many(noted(y))
        y = many(y)
    return y.clone()


def under_autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.mT
        with torch.cpu.stream(SIDE):
            y = noted(y) @ y
            with torch.autocast("cpu", enabled=False):
                y = many(y.float())
                torch.cpu.synchronize()
                y = y @ y.mT
        return (y @ y).float()


def many(x):
    return x.sin().cos().tanh().exp().sin().cos().tanh().exp().sin().cos().tanh().exp()


PROGRAMS = (on_the_side, made_inside, no_stream, nested, with_an_error_that_is_caught, without_gradients, in_inference_mode,
            under_autocast)  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda fn: fn.__name__)
def test_a_graph_runs_each_operation_under_the_stream_of_the_program(program, backend):
    run = tracer.optimize(backend, fullgraph=True)(program)
    for rows in (2, 3, 4):
        x = torch.randn(rows, 3)
        ends = []
        for each in (program, run):
            SEEN.clear()
            ends.append([each(x), *SEEN])
        Comparison().same(*ends, "results and the streams that were the current ones")
        assert torch.cpu.current_stream() is not SIDE and not _open.managers


def test_gradients_flow_through_pieces_of_a_graph():
    def fn(x):
        with torch.cpu.stream(SIDE):
            y = x.sin()
        torch.cpu.current_stream().wait_stream(SIDE)
        return (y * x).sum()

    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    tracer.optimize("aot_eager", fullgraph=True)(fn)(x).backward()
    fn(y).backward()
    assert torch.equal(x.grad, y.grad)


def test_nothing_is_entered_while_tracing():
    def fn(x):
        SEEN.append(torch.cpu.current_stream() is SIDE)
        with torch.cpu.stream(SIDE):
            return x + 1

    met = []
    tracer.optimize(lambda gm, inputs: met.append(torch.cpu.current_stream() is SIDE) or gm.forward)(fn)(X)
    assert met == [False] * len(met)


def test_streams_and_events_are_objects_of_a_call():
    captured(generic, X)

    def fn(x, stream, event):
        stream.wait_event(event)
        return x + 1

    run = tracer.optimize(fullgraph=True)(fn)
    for _ in range(3):
        run(X, torch.cpu.Stream(), torch.cpu.Event())
    assert len(entries(run)) == 1

    class Special(torch.cpu.Stream):
        pass

    with pytest.raises(tracer.errors.Unsupported, match="Special"):
        run(X, Special(), torch.cpu.Event())


def test_what_a_call_made_leaves_the_graph():
    class Lazy(nn.Module):
        stream = None

        def forward(self, x):
            if self.stream is None:
                self.stream = torch.cpu.Stream()
            self.event = torch.cpu.Event()
            self.event.record(self.stream)
            return x + 1, self.event.query(), self.event

    module = Lazy()
    run = tracer.optimize(fullgraph=True)(module.forward)
    _, answer, event = run(X)
    stream = module.stream
    assert type(stream) is torch.cpu.Stream and event is module.event and answer is True
    assert run(X)[2] is not event and module.stream is stream


def test_a_break_inside_a_context_enters_it_again():
    def fn(x):
        with torch.cpu.stream(SIDE):
            y = noted(x)
            SEEN.append(torch.cpu.current_stream() is SIDE)
            y = noted(y + 1)
        return noted(y)

    SEEN.clear()
    breaks(fn, X)
    run = tracer.optimize("aot_eager")(fn)
    for _ in range(2):
        SEEN.clear()
        run(X)
        assert SEEN == [True, True, True, False] and torch.cpu.current_stream() is not SIDE


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_graph_that_raises_leaves_its_contexts(backend):
    def fn(x, index):
        with torch.cpu.stream(SIDE), torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
            torch.cpu.synchronize()
            return x[index] + 1

    run = tracer.optimize(backend, fullgraph=True)(fn)
    run(X, torch.tensor([0, 1]))
    for _ in range(2):
        with pytest.raises(IndexError):
            run(X, torch.tensor([0, 9]))
        assert torch.cpu.current_stream() is not SIDE and not _open.managers
        assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")


def test_an_exception_of_the_program_leaves_its_contexts():
    def fn(x):
        with torch.cpu.stream(SIDE):
            y = x + 1
            if x.shape[0] > 1:
                raise ValueError("large")
        return y

    run = tracer.optimize()(fn)
    for _ in range(2):
        with pytest.raises(ValueError, match="large"):
            run(X)
        assert torch.cpu.current_stream() is not SIDE


def test_a_stream_that_a_cache_holds_is_the_same_at_each_call():
    @functools.cache
    def stream():
        return torch.cpu.Stream()

    def fn(x):
        with torch.cpu.stream(stream()):
            return current_noted(x)

    met = []

    @torch.library.custom_op("streams_for_tests::current_noted", mutates_args=())
    def current_noted(x: torch.Tensor) -> torch.Tensor:
        met.append(torch.cpu.current_stream())
        return x.clone()

    current_noted.register_fake(torch.empty_like)
    run = tracer.optimize("aot_eager")(fn)
    for _ in range(3):
        run(X)
    assert met == [stream()] * 3


def test_which_stream_it_is_breaks_the_graph():
    def equal(x):
        return x + 1 if torch.cpu.current_stream() == SIDE else x

    def same(x):
        return x + 1 if torch.cpu.current_stream() is SIDE else x

    for fn in (equal, same):
        breaks(fn, X)
        run = tracer.optimize()(fn)
        assert torch.equal(run(X), X)
        with torch.cpu.stream(SIDE):
            assert torch.equal(run(X), X + 1)


def test_what_an_event_answers_breaks_the_graph_where_it_is_used():
    def fn(x):
        event = torch.cpu.Event()
        event.record()
        return x + 1 if event.query() else x

    breaks(fn, X)


def test_tensors_that_streams_share_live_until_the_end():
    def fn(x):
        with torch.cpu.stream(SIDE):
            shared, alone = x + 1, x * 2
            alone = alone.sin()
        y = shared * 2
        torch.cpu.current_stream().wait_stream(SIDE)
        return y.cos() + 1, alone

    (graph,) = captured_made(fn, lambda: ((X,), {}), as_written=True).graphs
    kept = [node for node in graph.graph.nodes if node.target is used_until_here]
    assert [each.name for each in kept[0].all_input_nodes] == ["l_x_", "add"]


def test_memory_that_is_written_on_both_sides_of_a_switch_breaks_the_graph_for_compilers():
    def fn(x):
        made = torch.zeros(2, 3)
        made.add_(1)
        with torch.cpu.stream(SIDE):
            made.add_(x)
        return made * 2

    captured(fn, X)
    run = tracer.optimize("aot_eager")(fn)
    assert torch.equal(run(X), fn(X)) and torch.equal(run(X + 1), fn(X + 1))


def test_a_transform_sees_no_streams():
    def fn(x):
        def inner(row):
            torch.cpu.synchronize()
            return row + 1

        return torch.vmap(inner)(x)

    breaks(fn, X)


def test_a_module_of_a_device_is_asked_for_its_streams():
    def fn(x):
        device = torch.get_device_module(x.device.type)
        device.synchronize()
        with device.stream(device.Stream()):
            return x + 1

    captured(fn, X)


def test_entries_with_streams_are_saved(tmp_path):
    def fn(x, stream):
        with torch.cpu.stream(stream):
            y = x * 2
        torch.cpu.current_stream().wait_stream(stream)
        return y + 1

    for backend in ("eager", "aot_eager"):
        run = tracer.optimize(backend, fullgraph=True)(fn)
        run(X, SIDE)
        assert tracer.save(run, tmp_path / backend)
        again = tracer.optimize(backend, fullgraph=True)(fn)
        assert tracer.load(again, tmp_path / backend)
        assert torch.equal(again(X, SIDE), X * 2 + 1)


# -- ranges for a profiler -----------------------------------------------------------------------------------------------


@pytest.fixture
def ranges(monkeypatch):
    """What is pushed and popped, on a machine where torch may have no NVTX."""
    calls: list[str] = []
    monkeypatch.setattr("torch.cuda.nvtx._nvtx.rangePushA", lambda message: calls.append(message) or 0, raising=False)
    monkeypatch.setattr("torch.cuda.nvtx._nvtx.rangePop", lambda: calls.append("pop") or 0, raising=False)
    return calls


def ranged(x):
    torch.cuda.nvtx.range_push("outer")
    with torch.cuda.nvtx.range("inner {}", 1):
        y = x + 1
    torch.cuda.nvtx.range_pop()
    return y * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_ranges_are_pushed_and_popped_as_the_graph_runs(ranges, backend):
    run = tracer.optimize(backend, fullgraph=True)(ranged)
    for _ in range(2):
        ranges.clear()
        assert torch.equal(run(X), X * 2 + 2)
        assert ranges == ["outer", "inner 1", "pop", "pop"] and not _open.managers


def test_a_graph_that_raises_pops_its_ranges(ranges):
    def fn(x, index):
        torch.cuda.nvtx.range_push("all")
        y = x[index]
        torch.cuda.nvtx.range_pop()
        return y

    run = tracer.optimize(fullgraph=True)(fn)
    with pytest.raises(IndexError):
        run(X, torch.tensor(5))
    assert ranges == ["all", "pop", "all"]  # the program itself then raises at its own line


def test_a_range_may_end_behind_a_break(ranges):
    def fn(x):
        torch.cuda.nvtx.range_push("all")
        y = x + 1
        SEEN.append(True)
        print(end="")
        z = y * 2
        torch.cuda.nvtx.range_pop()
        return z

    run = tracer.optimize()(fn)
    for _ in range(2):
        ranges.clear()
        run(X)
        assert ranges == ["all", "pop"] and not _open.managers
