"""Entries are retired, merged and evicted while other threads call: each call gets what eager gives, and each entry goes once."""

from __future__ import annotations

import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import tracer
from tests.support.programs import with_a_pointless_branch
from tracer import config


@pytest.fixture
def often():
    """Threads take turns as often as Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def drive(made, calls, beside, clients=4):
    """What threads that call got wrong while `beside` was done again and again."""
    stop = threading.Event()

    def client(seed):
        draw, wrong = random.Random(seed), []
        for _ in range(calls):
            x, n = torch.randn(draw.choice((2, 3, 9, 20, 40)), draw.choice((4, 9))), draw.randrange(3)
            if not torch.equal(made(x, n), with_a_pointless_branch(x, n)):
                wrong.append((tuple(x.shape), n))
        return wrong

    def upkeep():
        while not stop.is_set():
            beside()

    with ThreadPoolExecutor(clients + 1) as pool:
        busy = pool.submit(upkeep)
        try:
            found = [each.result(timeout=240) for each in [pool.submit(client, seed) for seed in range(clients)]]
        finally:
            stop.set()
        busy.result(timeout=60)
    return [each for of_one in found for each in of_one]


@pytest.mark.parametrize("capacity", [None, 4])
def test_entries_that_go_beside_requests_are_told_once_and_no_call_is_served_wrong(capacity, often):
    gone, ever = [], {}

    def note(event):
        ever[id(event.about["entry"])] = event.about["entry"]

    ends = [tracer.add_callback(lambda event: gone.append(event.about["entry"]), "evict")]
    ends += [tracer.add_callback(note, kind) for kind in ("compile", "merge")]
    try:
        with config.patch(specialize_int=True):
            made = tracer.optimize("eager", capacity=capacity, shapes="x: B, S; B in 1..64; S in 1..64")(with_a_pointless_branch)
            assert not drive(made, 60, made.compact)
    finally:
        for end in ends:
            end()
    there = {id(entry) for entry in tracer.region_of(made).entries()}
    assert gone and len(gone) == len({id(entry) for entry in gone}) == made.stats()["evictions"]
    assert not there & {id(entry) for entry in gone} and there | {id(entry) for entry in gone} == set(ever)


def test_a_sealed_function_misses_nothing_while_its_entries_are_merged(often):
    made = tracer.optimize("eager", shapes="x: B, S; n: N; B in 2..64; S in 2..64; N in 0..2")(with_a_pointless_branch)
    for shape in ((3, 4), (9, 4), (3, 9), (40, 4)):
        made(torch.ones(shape), 2)
    example = torch.ones(3, 4), 2
    before = tracer.coverage(made, example=example)
    made.seal()
    assert before.certified and len(before.covering) == 4 and not drive(made, 200, made.compact)
    after = tracer.coverage(made, example=example)
    assert after.certified and len(after.covering) == 2 and made.stats()["sealed_misses"] == 0


def test_threads_that_compact_at_once_leave_one_of_two_entries_that_cover_each_other(often):
    for _ in range(5):
        made = tracer.optimize("eager", shapes="x: B, S; n: N; B in 2..64; S in 2..64; N in 0..2")(with_a_pointless_branch)
        for shape in ((3, 4), (9, 4), (3, 9), (40, 4)):
            made(torch.ones(shape), 2)
        start = threading.Barrier(4)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: start.wait() is None or made.compact(), range(4)))
        assert tracer.coverage(made, example=(torch.ones(3, 4), 2)).certified
        assert made.stats()["evictions"] == 4 and len(tracer.region_of(made).entries()) == 2


def test_an_entry_that_precompile_makes_is_not_taken_away_before_it_is_pinned(often):
    for _ in range(3):
        made = tracer.optimize("eager", capacity=8, shapes="x: B, S; n: N; B in 2..64; S in 2..64; N in 0..2")(
            with_a_pointless_branch
        )
        stop = threading.Event()

        def upkeep():
            while not stop.is_set():
                made.compact()

        thread = threading.Thread(target=upkeep)
        thread.start()
        try:
            assert tracer.precompile(made, example=(torch.ones(3, 4), 2)).certified
        finally:
            stop.set()
            thread.join()
        assert tracer.coverage(made, example=(torch.ones(3, 4), 2)).certified
