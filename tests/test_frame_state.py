"""What one code object remembers across its traces."""

from __future__ import annotations

import pytest
import torch

import tracer


def test_sizes_that_are_equal_by_chance_cost_no_entry_of_their_own_once_they_were_seen_to_differ() -> None:
    def fn(x, y):
        return x.sum() * y + x.shape[0] - x.shape[1]

    traced = tracer.compile(fn, dynamic=True)
    for rows, columns, others in ((4, 4, 7), (4, 5, 4), (3, 6, 5), (8, 8, 8), (6, 2, 2)):
        x, y = torch.ones(rows, columns), torch.ones(others)
        assert torch.equal(traced(x, y), fn(x, y))
    assert traced.stats()["compiles"] == 2


@pytest.mark.parametrize("first", [(3, 5), (2, 7)])
def test_an_entry_made_when_two_sizes_were_equal_by_chance_serves_others(first) -> None:
    def fn(x):
        return x * 2 + x.shape[0] - x.shape[1]

    traced = tracer.compile(fn)
    for sizes in (first, (4, 4)):  # static, then dynamic
        traced(torch.ones(sizes))
    for sizes in ((6, 8), (9, 9), (8, 6)):
        x = torch.ones(sizes)
        assert torch.equal(traced(x), fn(x))
    assert traced.stats()["compiles"] == 2


def test_sizes_that_were_always_equal_are_taken_to_be_equal() -> None:
    def fn(x, y):
        return x.sum() + y.sum()

    traced = tracer.compile(fn)
    for size in (3, 4):
        traced(torch.ones(size), torch.ones(size))
    assert "L['y'].size()[0] == L['x'].size()[0]" in tracer.region_of(traced).entries()[0].guarded_code.guards_text
    assert traced(torch.ones(5), torch.ones(6)) == 11
