"""Rules of operators that torch's own rules for fakes get wrong."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import check
from tests.support.comparing import Comparison
from tests.support.outcomes import outcome
from tests.support.regions import entries

CHOICES = [torch.max, torch.min, lambda x: torch.max(x, 0), lambda x: x.min(-1), lambda x: x.median(0), lambda x: x.mode()]


def written_before_the_choice(choose, x, count, seen):
    count.add_(1)
    seen.append(x.shape[0])
    return choose(x)


@pytest.mark.parametrize("choose", CHOICES)
def test_what_was_written_before_a_choice_among_no_elements_stays_written(choose):
    error = check(written_before_the_choice, choose, torch.ones(0), torch.tensor(1), []).error
    assert "Expected reduction dim" in str(error)


def caught(x):
    try:
        return x.max()
    except RuntimeError as error:
        first = str(error)
    try:
        return x.min(0)
    except IndexError as error:
        return first, str(error)


def test_a_choice_among_no_elements_raises_as_ever_where_the_program_catches_it():
    check(caught, torch.ones(0))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_no_elements_may_come_where_there_were_some(backend):
    compiled = tracer.optimize(backend, shapes="x: N; N in 0..4")(lambda x, count: (count.add_(1), x.max()))
    for size in (3, 0, 1, 4, 0):
        counts = torch.tensor(1), torch.tensor(1)
        wanted = outcome(lambda x, count: (count.add_(1), x.max()), torch.arange(float(size)), counts[0])
        seen = outcome(compiled, torch.arange(float(size)), counts[1])
        Comparison().same((wanted, counts[0]), (seen, counts[1]), f"size {size}")


def reads_at(x, place):
    return x[place.item()] * 2


def writes_at(x, place):
    x[place.item()] = 5.0
    return x * 1


def reads_in_vain(x, place):
    x[place.item()]
    return x * 2


def reads_at_a_tensor(x, place):
    return torch.select(x, 0, place) * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.full)])
@pytest.mark.parametrize("function", [reads_at, writes_at, reads_in_vain, reads_at_a_tensor])
def test_an_index_from_data_that_lies_outside_raises_as_in_eager(function, backend):
    made = tracer.compile(function, backend=backend, fullgraph=True)
    for place in map(torch.tensor, (1, -1, -3, 3, -4, 90)):
        expected = outcome(function, given := torch.arange(3.0), place)
        assert str(outcome(made, seen := torch.arange(3.0), place)) == str(expected)
        assert torch.equal(seen, given)


ROUNDED = {
    "by a number": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 2, -128, 127),
    "by tensors": lambda x: torch.fake_quantize_per_tensor_affine(x, torch.tensor(0.1), torch.tensor(2), -128, 127),
    "by channel": lambda x: torch.fake_quantize_per_channel_affine(x, torch.ones(3) / 9, torch.zeros(3).int(), 1, -128, 127),
}


@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize("change", [lambda x: x, lambda x: x[::2], lambda x: x.t().contiguous().t()])
def test_one_entry_rounds_for_all_sizes(name, change):
    traced = tracer.compile(lambda x: ROUNDED[name](change(x)), fullgraph=True, dynamic=True)
    for size in (4, 6, 9):
        ours, eagers = (torch.linspace(-20, 20, 3 * size).reshape(size, 3).requires_grad_() for _ in range(2))
        results = traced(ours), ROUNDED[name](change(eagers))
        for result in results:
            result.sum().backward()
        Comparison().same(*results, "result")
        Comparison().same(ours.grad, eagers.grad, "gradient")
    assert len(tracer.region_of(traced).entries()) == 1


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2])
def test_stacking_divides_no_sizes(dim):
    """A size of 1 is served by the entry of all others, whatever is asked of the result's layout, and it lies as in eager."""
    program = lambda x: torch.stack((x, x), dim).reshape(-1, 2).contiguous()
    compiled = tracer.optimize("eager", shapes="x: N, 3; N in 1..9")(program)
    for size in (4, 1, 2, 3):
        wanted, seen = (fn(torch.arange(3.0 * size).view(size, 3)) for fn in (program, compiled))
        assert torch.equal(wanted, seen) and wanted.stride() == seen.stride(), size
    assert len(entries(compiled)) == 1


def stacked_or_said(x, y):
    try:
        return torch.stack((x, y))
    except RuntimeError as error:
        return str(error)


def test_stacking_other_sizes_raises_as_ever():
    check(stacked_or_said, torch.ones(3, 2), torch.ones(3, 2))
    check(stacked_or_said, torch.ones(3, 2), torch.ones(4, 2))
    check(stacked_or_said, torch.ones(3, 2), torch.ones(3))
