"""An itertools.count that exists before a call, such as one that numbers objects, is advanced as CPython advances it."""

from __future__ import annotations

import itertools

import pytest
import torch

import tracer


class Request:
    numbers = itertools.count()

    def __init__(self, x):
        self.number, self.x = next(Request.numbers), x


def numbered(x):
    first, second = Request(x), Request(x)
    return first.x * 2, first.number, second.number


def test_objects_are_numbered_by_one_entry():
    Request.numbers = itertools.count()
    traced = tracer.compile(numbered, fullgraph=True)
    assert [traced(torch.ones(2))[1:] for _ in range(5)] == [(2 * i, 2 * i + 1) for i in range(5)]
    assert repr(Request.numbers) == "count(10)"
    assert len(tracer.region_of(traced).entries()) == 2  # the counter is a constant until it has changed


def taken(x, count):
    return x * 2, next(count), [number for number, _ in zip(count, range(2))]


COUNTS = {
    "plain": (),
    "from a number": (7,),
    "with a step": (-3, 2),
    "backwards": (3, -1),
    "standing still": (3, 0),
    "of large ints": (2**64, 3),
    "beyond C's ints": (2**63 - 2,),
    "of floats": (0.5,),
    "of bools": (True, True),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_that_are_arguments(name):
    ours, theirs = itertools.count(*COUNTS[name]), itertools.count(*COUNTS[name])
    traced = tracer.compile(taken)
    for _ in range(4):
        expected, seen = taken(torch.ones(1), theirs)[1:], traced(torch.ones(1), ours)[1:]
        assert expected == seen and type(expected[0]) is type(seen[0])
        assert repr(ours) == repr(theirs)


def test_a_loop_over_a_count_goes_on_behind_a_break():
    def program(x, steps):
        log = []
        for step in itertools.count(1):
            x = x + step
            log.append(x.sum().item())
            if step >= steps:
                return x, log
        return None

    traced = tracer.compile(program)
    for steps in (3, 4, 5):
        expected, seen = program(torch.zeros(2), steps), traced(torch.zeros(2), steps)
        assert torch.equal(expected[0], seen[0]) and expected[1] == seen[1]
