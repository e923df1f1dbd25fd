"""A full cache: what is evicted, what is pinned, and that each call which runs uncompiled is counted and logged."""

from __future__ import annotations

import random
import warnings

import pytest
import torch

import tracer
from tests.support.programs import double
from tests.support.regions import entries
from tracer import config


def by_length(x):
    return x.sum(0) * (3 if x.shape[1] == 5 else 2 if x.shape[1] % 2 else 1)


def by_number(x, n):
    return x * n if n < 100 else x - n


def test_what_was_used_last_longest_ago_goes_first():
    gone = []
    with config.patch(specialize_int=True):
        made = tracer.optimize("eager", capacity=3, on_evict=gone.append)(by_number)
        x = torch.ones(2)
        for n in (1, 2, 3, 1, 4):
            assert torch.equal(made(x, n), by_number(x, n))
        assert [each.reason for each in gone] == ["capacity"] and "L['n'] == 2" in gone[0].guards
        assert [tracer.why(made, x, n).hit for n in (1, 2, 3, 4)] == [True, False, True, True]


def test_a_storm_of_shapes_neither_exceeds_the_capacity_nor_ends_in_eager():
    seen = []
    end = tracer.add_callback(lambda event: seen.append(event.kind))
    try:
        with config.patch(specialize_int=True, recompile_limit=2), warnings.catch_warnings():
            warnings.simplefilter("error")
            made = tracer.optimize("eager", capacity=4)(by_number)
            draw = random.Random(0)
            for _ in range(60):
                n = draw.randrange(12)
                assert torch.equal(made(torch.ones(2), n), by_number(torch.ones(2), n))
                assert len(entries(made)) <= 4
    finally:
        end()
    stats = made.stats()
    assert stats["evictions"] == stats["compiles"] - 4 == seen.count("evict") and "limit" not in seen


def test_pinned_entries_stay_and_a_full_cache_says_that_a_call_runs_in_eager():
    with config.patch(specialize_int=True):
        made = tracer.optimize("eager", capacity=2)(by_number)
        x = torch.ones(2)
        for n in (1, 2):
            made(x, n)
        tracer.pin(made, x, 1)
        for n in (3, 4, 5):
            made(x, n)
        assert tracer.why(made, x, 1).hit and len(entries(made)) == 2
        tracer.pin(made, x, 5)
        with pytest.warns(UserWarning, match=r"capacity \(2\) used up by pinned entries"):
            assert torch.equal(made(x, 6), x * 6)
        made(x, 7)
        assert made.stats()["limit_hits"] == 2 and made.stats()["compiles"] == 5
        tracer.unpin(made, x, 5)
        made(x, 7)
        assert tracer.why(made, x, 7).hit and made.stats()["evictions"] == 4
        with pytest.raises(tracer.exc.UserError, match="no entry of by_number serves this call"):
            tracer.pin(made, x, 5)


def test_beyond_the_recompile_limit_each_call_in_eager_is_an_event():
    seen = []
    end = tracer.add_callback(lambda event: seen.append(event.kind), "limit")
    try:
        with config.patch(specialize_int=True, recompile_limit=2):
            made = tracer.optimize("eager")(by_number)
            with pytest.warns(UserWarning, match="recompile_limit"):
                for n in range(6):
                    made(torch.ones(2), n)
    finally:
        end()
    assert len(seen) == made.stats()["limit_hits"] == 4


def test_what_a_certificate_needs_is_pinned_and_a_capacity_below_it_is_said():
    spec, example = "x: B, S; B in 1..9; S in 1..9", torch.ones(2, 2)
    made = tracer.optimize("eager", capacity=2)(by_length)
    found = tracer.precompile(made, spec, example)
    assert found.status == "budget" and "capacity of 2" in found.reason and len(entries(made)) == 2
    made = tracer.optimize("eager", capacity=3)(by_length)
    assert tracer.precompile(made, spec, example) and made.stats()["certified"]
    with pytest.warns(UserWarning, match="pinned"):
        made(torch.ones(2, 2, dtype=torch.float64))
    assert made.stats()["certified"]
    entries(made)[0].valid = False
    assert not made.stats()["certified"]


def test_evictions_are_logged_and_a_callback_that_fails_harms_nothing(caplog):
    def fails(eviction):
        raise ValueError("no")

    tracer.set_logs(evictions=True)
    try:
        made = tracer.optimize("eager", on_evict=fails)(double)
        for size in (3, 4, 5):
            made(torch.ones(size))
    finally:
        tracer.set_logs(evictions=False)
    assert "another entry with the same graph serves all that it served" in caplog.text
    assert "on_evict of double failed" in caplog.text


@pytest.mark.parametrize("capacity", [0, -1, 2.5, "3", True])
def test_a_capacity_is_a_number_of_entries(capacity):
    with pytest.raises(tracer.exc.UserError, match="is not a number of entries"):
        tracer.optimize("eager", capacity=capacity)


def test_resume_functions_are_bounded_too():
    def f(x, n):
        x = x + 1
        tracer.graph_break()
        return x * n

    with config.patch(specialize_int=True):
        made = tracer.optimize("eager", capacity=2)(f)
        for n in (2, 3, 4, 5, 2):
            assert torch.equal(made(torch.ones(2), n), torch.ones(2) * 2 * n)
    assert len(entries(made)) <= 4


def by_limit(made, n):
    made(torch.ones(2), n)


def by_capacity(made, n):
    made(torch.ones(2), n)
    if tracer.why(made, torch.ones(2), n).hit:
        tracer.pin(made, torch.ones(2), n)


def by_seal(made, n):
    if tracer.region_of(made).miss_handler is None:
        made.seal("eager")
    made(torch.ones(2), n)


@pytest.mark.parametrize(
    ("settings", "call", "number", "event"),
    [
        ({"recompile_limit": 1}, by_limit, "limit_hits", "limit"),
        ({"capacity": 1}, by_capacity, "limit_hits", "limit"),
        ({"compile_timeout": 1e-9}, by_limit, "limit_hits", "limit"),
        ({}, by_seal, "sealed_misses", "miss"),
    ],
)
def test_each_call_that_runs_uncompiled_is_counted_and_told_and_the_first_warns(settings, call, number, event):
    seen = []
    with config.patch(specialize_int=True), warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        made = tracer.optimize("eager", **settings)(by_number)
        call(made, 0)
        before = made.stats()[number]
        end = tracer.add_callback(lambda told: seen.append(told.kind))
        try:
            for n in (1, 2, 3):
                call(made, n)
        finally:
            end()
    assert [kind for kind in seen if kind == event] == [event] * 3 and made.stats()[number] == before + 3
    assert len([each for each in shown if "uncompiled" in str(each.message)]) == 1


def test_a_frame_that_is_left_to_cpython_for_good_is_counted_and_told():
    def introspective(x):
        return sorted(eval("locals()"))

    seen = []
    end = tracer.add_callback(seen.append, "skip")
    try:
        made = tracer.optimize("eager")(introspective)
        for _ in range(3):
            assert made(torch.ones(2)) == ["x"]
    finally:
        end()
    assert made.stats()["skips"] == len(seen) == 1 and seen[0].detail


def test_a_frame_that_the_tracer_fails_on_is_counted_and_told(monkeypatch):
    def fails(self):
        raise RuntimeError("of ours")

    monkeypatch.setattr("tracer.pipeline.convert_frame.FrameConversion.entry", fails)
    seen = []
    end = tracer.add_callback(seen.append, "skip")
    try:
        with config.patch(suppress_errors=True), pytest.warns(UserWarning, match="of ours"):
            made = tracer.optimize("eager")(double)
            assert torch.equal(made(torch.ones(2)), double(torch.ones(2)))
    finally:
        end()
    assert made.stats()["skips"] == len(seen) == 1 and "of ours" in seen[0].detail
