"""Rules of operators that torch's own rules for fakes get wrong."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import check
from tests.support.comparing import Comparison
from tests.support.outcomes import outcome

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
