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
