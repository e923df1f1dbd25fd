"""Streams, events and contexts of CUDA. Arguments become ready late, so that a wait that is lost shows in the results."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tracer
from tests.support.regions import entries

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
BACKENDS = ["eager", "aot_eager"]


@pytest.fixture
def side():
    return torch.cuda.Stream()


def late(rows):
    """A tensor that the current stream fills some 10 ms from now."""
    values, tensor = torch.randn(rows, 64, device="cuda"), torch.zeros(rows, 64, device="cuda")
    torch.cuda.synchronize()
    torch.cuda._sleep(20_000_000)
    return tensor.copy_(values)


def agree(program, backend, *others, fullgraph=True):
    """Whether a program gives the same traced, for several sizes and with another stream as the current one."""
    run = tracer.optimize(backend, fullgraph=fullgraph)(program)
    for current in (None, torch.cuda.Stream()):
        with torch.cuda.stream(current):
            before = torch.cuda.current_stream()
            for rows in (300, 500, 700):
                x = late(rows)
                want = program(x, *others)
                got = run(x, *others)
                assert torch.cuda.current_stream() == before
                torch.cuda.synchronize()
                torch.testing.assert_close(got, want)
    return run


@pytest.mark.parametrize("backend", BACKENDS)
def test_work_on_another_stream(backend, side):
    def fn(x):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = torch.tanh(x * 2)
        torch.cuda.current_stream().wait_stream(side)
        y.record_stream(torch.cuda.current_stream())
        return y + 1

    agree(fn, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_streams_and_events_made_inside(backend):
    def fn(x):
        stream, event = torch.cuda.Stream(), torch.cuda.Event()
        event.record()
        stream.wait_event(event)
        with stream:
            y = x * 2
        done = stream.record_event()
        torch.cuda.current_stream().wait_event(done)
        return y + 1

    agree(fn, backend)


def test_an_entry_serves_all_streams():
    def fn(x, stream):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = x * 2
        torch.cuda.current_stream().wait_stream(stream)
        return y + 1

    run = tracer.optimize(fullgraph=True)(fn)
    for _ in range(3):
        x = late(8)
        assert torch.equal(run(x, torch.cuda.Stream()), x * 2 + 1)
    assert len(entries(run)) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_weights_that_come_while_another_layer_runs(backend):
    class Offloaded(nn.Module):
        def __init__(self):
            super().__init__()
            self.stream = torch.cuda.Stream()
            self.weights = [torch.randn(64, 64).pin_memory() for _ in range(3)]

        def forward(self, x):
            current = torch.cuda.current_stream()
            for weight in self.weights:
                self.stream.wait_stream(current)
                with torch.cuda.stream(self.stream):
                    here = weight.to("cuda", non_blocking=True)
                current.wait_stream(self.stream)
                here.record_stream(current)
                x = torch.tanh(x @ here)
            return x

    agree(Offloaded().forward, backend)


def test_memory_is_not_given_away_while_another_stream_reads_it(side):
    def fn(x):
        current = torch.cuda.current_stream()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            y = x + 1
        current.wait_stream(side)
        z = x
        for _ in range(50):
            z = z @ x.mT @ x * 1e-3
        z = (z + y).clamp(-9, 9)
        with torch.cuda.stream(side):
            w = torch.zeros_like(x) - 1e3
        current.wait_stream(side)
        return z, w

    agree(fn, "eager")


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients(backend, side):
    def fn(x):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = torch.tanh(x @ x.mT) @ x
        torch.cuda.current_stream().wait_stream(side)
        return (y.sin() + x).sum()

    run = tracer.optimize(backend, fullgraph=True)(fn)
    for rows in (300, 500):
        values = late(rows)
        one, other = values.clone().requires_grad_(), values.clone().requires_grad_()
        fn(one).backward()
        run(other).backward()
        torch.cuda.synchronize()
        torch.testing.assert_close(other.grad, one.grad)


def test_a_break_inside_a_context(side):
    def fn(x):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 2
            print(end="")
            y = y + (torch.cuda.current_stream() == side)
        torch.cuda.current_stream().wait_stream(side)
        return y

    agree(fn, "eager", fullgraph=False)


def test_a_graph_that_is_captured(side):
    def fn(x):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 2
        torch.cuda.current_stream().wait_stream(side)
        return y + (2 if torch.cuda.is_current_stream_capturing() else 1)

    run = tracer.optimize(fullgraph=True)(fn)
    x = late(8)
    assert torch.equal(run(x), x * 2 + 1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run(x)
    x.fill_(3)
    graph.replay()
    assert torch.equal(captured, torch.full_like(x, 8))


def test_what_programs_ask_of_a_device():
    def fn(x):
        properties = torch.cuda.get_device_properties(x.device)
        with torch.cuda.device(x.device), torch.cuda.device_of(x):
            torch.cuda.set_device(torch.cuda.current_device())
            y = x * properties.multi_processor_count + torch.cuda.get_device_capability()[0]
        torch.cuda.synchronize()
        return y + torch.accelerator.current_device_index()

    run = agree(fn, "aot_eager")
    assert torch.cuda.current_device() == 0 and len(entries(run)) <= 2


def test_timing():
    def fn(x):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        y = x @ x.mT
        end.record()
        end.synchronize()
        return y, start.elapsed_time(end), end.query()

    _, milliseconds, ready = tracer.optimize("aot_eager", fullgraph=True)(fn)(late(500))
    assert milliseconds > 0 and ready is True
