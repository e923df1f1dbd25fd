"""Values of tensors that depend on constants alone: the program may branch on them, convert them and index with them."""

from __future__ import annotations

import pytest
import torch

from tests.support import breaks, captured


def test_a_branch_on_a_step_of_a_schedule_is_decided():
    def fn(x):
        steps = torch.linspace(1, 0, 4) ** 2
        steps = torch.cat([steps, steps.new_zeros([1])])
        for i in range(len(steps) - 1):
            if 0 <= steps[i] <= float("inf") and steps[i + 1] > 0:
                x = x + steps[i] * torch.randn_like(x)
        return x

    captured(fn, torch.ones(3))


def test_numbers_are_read_off_a_tensor_that_was_made_inside():
    def fn(x):
        steps = torch.arange(4)
        count = int(steps[2])
        return x.repeat(count), x * float(steps.float().mean()), [x] * steps[1], steps[1:].tolist(), steps.max().item()

    captured(fn, torch.ones(3))


def test_tensors_and_lists_are_cut_at_such_a_number():
    def fn(x):
        ends = torch.cumsum(torch.tensor([1, 2]), 0)
        return x[: ends[0]], x[ends[0] : ends[1]], [x, x + 1, x + 2, x + 3][ends[0] : ends[1]]

    captured(fn, torch.arange(4.0))


def test_sizes_that_such_values_decide_are_known():
    def fn(x, y):
        widths = torch.tensor([each.shape[-1] for each in (x, x, y)])
        start, parts = 0, []
        for end in torch.cumsum(torch.unique_consecutive(widths, return_counts=True)[1], 0):
            parts.append(torch.stack([x, x + 1, y.repeat(2)][start:end]))
            start = end
        return parts, [x + each for each in torch.unique(widths)], torch.nonzero(widths).shape

    captured(fn, torch.ones(4), torch.ones(2))


def test_a_module_is_called_with_another_such_value_by_each_layer():
    class Gated(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x, step):
            return self.linear(x) if step > 0.5 else -self.linear(x)

    layers = torch.nn.ModuleList([Gated() for _ in range(4)])

    def fn(x):
        steps = torch.linspace(1, 0, 4)
        for i, layer in enumerate(layers):
            x = layer(layers[0](x, steps[i]), steps[i])
        return x

    captured(fn, torch.ones(3))


def _random():
    return torch.rand(2)


def _unset():
    return torch.empty(2, dtype=torch.uint8)


def _written():
    steps = torch.linspace(1, 0, 2)
    steps[1] = 5
    return steps


@pytest.mark.parametrize("make", [_random, _unset, _written], ids=lambda make: make.__name__.strip("_"))
def test_other_values_are_not_decided(make):
    breaks(lambda x: x + 1 if make()[1] >= 0 else x - 1, torch.ones(2))


def test_a_value_that_is_written_after_it_was_asked_for_is_not_decided_again():
    def fn(x):
        steps = torch.linspace(1, 0, 3)
        before = float(steps[1])
        steps.mul_(4)
        return x * before if steps[1] > 1 else x

    breaks(fn, torch.ones(2))


def test_a_size_that_varies_decides_nothing():
    def fn(x):
        return x * 2 if torch.arange(x.shape[0]).sum() > 2 else x

    captured(fn, torch.ones(3))
    captured(fn, torch.ones(2))
