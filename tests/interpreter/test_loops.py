"""A graph break in a loop: where a function that the loop calls breaks, or the loop is over the rows of a tensor, the trace ends
before the loop."""

from __future__ import annotations

import torch

import tracer
from tests.soundness.watching import Watched
from tests.support import breaks


class Layer(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
        self.calls = 0

    def forward(self, x):
        x = self.linear(x).relu() + 1
        tracer.graph_break()
        self.calls += 1
        return x * 2 + self.linear.bias


class Stack(torch.nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer(4) for _ in range(depth))

    def forward(self, x):
        x = x - 1
        for position, layer in enumerate(self.layers):
            x = torch.nn.functional.dropout(layer(x), 0.5, False) + position
        return x.sum() * 3


def test_one_entry_serves_the_turns_of_a_loop():
    stack = Stack(8)
    watched = Watched(stack)
    with torch.no_grad():
        for batch in (1, 2, 5, 16):
            watched(torch.randn(batch, 4))
    assert [layer.calls for layer in stack.layers] == [8] * 8
    assert watched.traces <= 2 * 3  # what comes before the loop, and the two halves of a layer; twice, for the sizes


def by_rows(x, lengths):
    longest = lengths.max().item()
    out = torch.zeros(len(x), longest)
    for index, (row, length) in enumerate(zip(x * 2, lengths)):
        out[index, : length.item()] = row[: length.item()]
    return out + 1


def test_a_loop_over_rows_serves_any_number_of_them():
    watched = Watched(by_rows)
    for batch in (1, 2, 5, 16, 3, 7):
        watched(torch.randn(batch, 6), torch.arange(batch) % 5 + 1)
    before = watched.traces
    for batch in (9, 4, 32):
        watched(torch.randn(batch, 6), torch.arange(batch) % 5 + 1)
    assert watched.traces == before


def scaled(x, log, factor):
    x = x * factor
    tracer.graph_break()
    log.append(factor)
    if factor == 7:
        raise ValueError(factor)
    return x + 1


def test_the_loop_goes_on_as_in_python():
    def fn(x, log):
        x = x + 1
        try:
            for factor in (1, 2, 3, 4, 7):
                if factor == 2:
                    continue
                with torch.no_grad():
                    x = scaled(x, log, factor)
                if factor == 4:
                    log.append("four")
            else:
                log.append("else")
        except ValueError as error:
            log.append(str(error))
        for outer in range(3):
            for inner in range(2):
                x = scaled(x, log, outer + inner)
                if inner == outer:
                    break
            else:
                log.append("inner else")
        return x * len(log), log

    breaks(fn, torch.ones(3), [])


def test_a_loop_may_draw_from_another_loop():
    def fn(x, log):
        factors = (factor for factor in [scaled(x, log, each).shape[0] for each in (1, 2)] if factor)
        for factor in factors:
            x = scaled(x, log, factor)
            if len(log) == 3:
                break
        return x, list(factors), sorted([3, 1, 2], key=lambda each: scaled(x, log, each).sum().item()), log

    breaks(fn, torch.ones(2), [])


def test_a_loop_under_what_the_program_has_switched():
    def fn(x, log):
        with torch.no_grad():
            for factor in (2, 3):
                x = scaled(x, log, factor)
                log.append(x.requires_grad)
        return scaled(x, log, 4), torch.is_grad_enabled(), log

    breaks(fn, torch.ones(2, requires_grad=True), [])


def test_a_layer_of_torch_that_is_one_operation_is_left_to_cpython():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([Layer(4), torch.nn.ReLU(), torch.nn.Tanh(), Layer(4)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    watched = Watched(Model())
    with torch.no_grad():
        watched(torch.randn(2, 4))
    assert watched.traces == 2


def test_a_loop_whose_calls_do_the_work_is_left_to_cpython():
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))

    def decode(x, steps):
        total, drawn = 0.0, []
        x = x * 2
        for step in range(steps):
            x = layer(x) + step
            total += x.sum().item()
        while len(drawn) < steps:
            x = layer(x)
            drawn.append(x.sum().item())
        return x, total, drawn

    watched = Watched(decode)
    with torch.no_grad():
        for steps in (6, 3, 8):
            watched(torch.randn(2, 4), steps)
    assert watched.traces == 3  # what comes before the loop, for one `steps` and for any, and the layer


def test_a_resume_function_within_such_a_loop_is_left_to_cpython():
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))

    def fn(x, steps, log):
        for step in range(steps):
            log.append(step)
            tracer.graph_break()
            x = layer(x)
        return x, log

    watched = Watched(lambda x, steps: fn(x, steps, []))
    with torch.no_grad():
        watched(torch.randn(2, 4), 6)
    assert watched.traces == 1


def test_a_while_loop_in_a_callee_ends_the_trace_before_it():
    def inner(x, log):
        while len(log) < 5:
            x = scaled(x, log, 2)
        return x

    def fn(x):
        log = []
        x = inner(x + 1, log)
        return x * len(log)

    watched = Watched(fn)
    watched(torch.ones(3))
    watched(torch.ones(3))
    assert watched.traces == 4  # before the loop, the halves of `scaled`, behind the loop
    breaks(fn, torch.ones(3))


def test_a_number_that_a_loop_changes_is_a_symbol_at_once():
    def newton(x):
        turns, total = 0, 1.5
        while True:
            y = x - (x * x - 2) / (2 * x)
            if (y - x).abs().max() < 1e-6 or turns > 50:
                break
            x, turns, total = y, turns + 1, total * 1.5
        return x * 3 + turns + total

    watched = Watched(newton)
    watched(torch.rand(5, dtype=torch.float64) + 1)
    assert watched.traces == 3  # to the first break, from there to the next, and from there to the end


def test_what_follows_a_loop_on_the_way_out_is_not_of_the_loop():
    def fn(x, log):
        for factor in (1, 2, 3):
            if factor == 2:
                x = scaled(x + 1, log, factor)
                return x * 2, log
            x = x - factor
        return x

    watched = Watched(lambda x: fn(x, []))
    watched(torch.ones(3))
    assert watched.traces == 3  # up to the break in `scaled`, from there to its end, and from there to the end of `fn`
    assert "sub" in watched.graphs[0].code and "mul" in watched.graphs[0].code


class Expert(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.inner(x))


class Mixture(torch.nn.Module):
    """Each expert is called with the rows that are routed to it, if there are any."""

    def __init__(self, experts):
        super().__init__()
        self.gate = torch.nn.Linear(4, experts)
        self.experts = torch.nn.ModuleList(Expert() for _ in range(experts))

    def forward(self, x):
        chosen = self.gate(x).argmax(-1)
        counts = torch.bincount(chosen, minlength=len(self.experts)).tolist()
        y = torch.zeros_like(x)
        for i in range(len(self.experts)):
            if counts[i] == 0:
                continue
            rows = torch.where(chosen == i)[0]
            y[rows] += self.experts[i](x[rows])
        return y


@torch.no_grad()
def test_a_loop_whose_turns_need_too_many_entries_is_left_to_cpython_and_what_it_calls_is_compiled(recwarn):
    torch.manual_seed(0)
    model = Mixture(6)
    compiled = tracer.compile(model, recompile_limit=4)
    for rows in range(20, 32):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=0)
    entries = [each for each in compiled.stats()["entries"] if each["function"] == "Expert.forward"]
    assert 1 <= len(entries) <= 3 and sum(each["hits"] for each in entries) > 20
    assert not [each for each in recwarn if "recompile_limit" in str(each.message)]
