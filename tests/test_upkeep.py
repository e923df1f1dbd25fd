"""Entries are retired, merged or evicted, and each time that is said; what is not proved stays."""

from __future__ import annotations

import random
import warnings

import pytest
import torch

import tracer
from tracer import config
from tracer.runtime import upkeep


def entries(made):
    return tracer.region_of(made).entries()


def double(x):
    return x * 2 + 1


def by_length(x):
    return x.sum(0) * (3 if x.shape[1] == 5 else 2 if x.shape[1] % 2 else 1)


def keep(gm, example_inputs):
    return gm.forward


# -- retired -----------------------------------------------------------------------------------------------------------


def test_an_entry_is_retired_when_another_with_the_same_graph_serves_its_calls():
    gone = []
    made = tracer.optimize("eager", on_evict=gone.append)(double)
    for size in (3, 4, 3, 9):
        x = torch.randn(size, 2)
        assert torch.equal(made(x), double(x))
    assert len(entries(made)) == 1
    assert [(each.function, each.reason) for each in gone] == [("double", "covered")] and "size=[3, 2]" in gone[0].guards
    assert made.stats()["evictions"] == 1 and made.stats()["compiles"] == 2


def test_sizes_that_happened_to_be_equal_are_retired_too():
    made = tracer.optimize("eager", dynamic=True)(lambda x, y: (x.sum(), y.sum()))
    made(torch.ones(3), torch.ones(3))
    assert "L['y'].size()[0] == L['x'].size()[0]" in entries(made)[0].guarded_code.guards_text
    made(torch.ones(4), torch.ones(5))
    assert len(entries(made)) == 1


def test_hits_of_what_is_gone_are_counted():
    made = tracer.optimize("eager")(double)
    for size in (3, 3, 3, 4, 5):
        made(torch.ones(size))
    assert len(entries(made)) == 1 and made.stats()["hits"] == 3


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (lambda x, n: x * n, [(torch.ones(2), 3), (torch.ones(2), 4)]),  # another graph
        (lambda x, n: x * 2, [(torch.ones(2), 3), (torch.ones(2, dtype=torch.int64), 3)]),  # another dtype
        (lambda x, n: x * 2, [(torch.ones(3), 3), (torch.ones(1), 3)]),  # other shapes
        (lambda x, n: [x * 2, n], [(torch.ones(3), True), (torch.ones(3), "a")]),  # another type
    ],
)
def test_what_differs_stays(function, calls):
    made = tracer.optimize("eager")(function)
    for call in calls:
        made(*call)
    assert len(entries(made)) == 2 and not made.stats()["evictions"]


def test_what_a_compiler_makes_for_constant_sizes_stays():
    made = tracer.optimize(keep)(double)
    for size in (3, 4):
        made(torch.ones(size))
    assert len(entries(made)) == 2


def test_an_entry_of_another_state_of_the_process_stays():
    made = tracer.optimize("eager")(double)
    made(torch.ones(3))
    with torch.no_grad():
        made(torch.ones(4))
        made(torch.ones(5))
    assert len(entries(made)) == 2
    made(torch.ones(3))
    assert made.stats()["compiles"] == 2


def test_an_entry_of_other_filters_of_warnings_stays():
    def f(x):
        warnings.warn("odd", stacklevel=2)
        return x * 2

    made = tracer.optimize("eager")(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made(torch.ones(3))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with pytest.warns(UserWarning, match="odd"):
            made(torch.ones(4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made(torch.ones(3))


def test_what_the_solver_cannot_tell_stays(monkeypatch):
    monkeypatch.setattr("tracer.runtime.upkeep.solver.implies", lambda *args, **options: None)
    made = tracer.optimize("eager")(double)
    for size in (3, 4):
        made(torch.ones(size))
    assert len(entries(made)) == 2 and tracer.compact(made) == 0


# -- merged ------------------------------------------------------------------------------------------------------------


def pointless(x):
    if x.shape[0] <= 8 and x.shape[1] <= 7:
        pass
    return x * 2 + 1


def test_a_certificate_has_no_more_entries_than_graphs():
    made = tracer.optimize("eager")(pointless)
    found = tracer.precompile(made, "x: B, S; B in 1..64; S in 1..64", torch.ones(3, 4))
    assert found.certified and found.regions() == ["every shape"] and len(entries(made)) == 1
    made.seal()
    for shape in ((1, 1), (8, 7), (9, 7), (64, 64), (3, 6)):
        x = torch.randn(*shape)
        assert torch.equal(made(x), pointless(x))
    assert tracer.coverage(made, example=torch.ones(3, 4)).certified


def test_the_contract_of_a_merged_entry_tells_sizes_of_outputs_in_declared_names():
    made = tracer.optimize("eager")(pointless)
    tracer.precompile(made, "x: B, S; B in 1..64; S in 1..64", torch.ones(3, 4))
    (region,) = made.contract().data["regions"]
    assert region["outputs"] == [["B", "S"]] and region["rows"] == {"B": "independent", "S": "independent"}


def test_merged_guards_say_what_either_said():
    def f(x):
        if x.shape[0] > 30:
            pass
        elif x.shape[0] > 9:
            x = x + 1
        elif x.shape[0] > 4:
            pass
        return x * 2

    made = tracer.optimize("eager")(f)
    found = tracer.precompile(made, "x: B; B in 1..64", torch.ones(3))
    assert set(found.regions()) == {"B <= 9", "10 <= B <= 30", "31 <= B"}
    for size in range(1, 65):
        x = torch.randn(size)
        assert torch.equal(made(x), f(x))
    assert made.stats()["compiles"] == 4


def test_regions_that_are_no_conjunction_together_stay():
    def f(x):
        return x + 1 if 8 < x.shape[0] <= 16 else x * 2

    made = tracer.optimize("eager")(f)
    found = tracer.precompile(made, "x: B; B in 1..64", torch.ones(3))
    assert set(found.regions()) == {"B <= 8", "9 <= B <= 16", "17 <= B"}


def steps(x):
    for k in range(30):
        if x.shape[0] % 31 == k:
            break
    return x * 2


def rooms(x):
    for k in range(4):
        if x.shape[0] <= 8 * (k + 1):
            break
    for k in range(4):
        if x.shape[1] <= 64 * (k + 1):
            break
    return x * 2


def test_many_entries_with_one_graph_are_told_apart_by_a_call_of_each_and_not_by_proofs(monkeypatch):
    asked = []
    made = tracer.optimize("eager", shapes="x: B; B in 2..64", capacity=64)(steps)
    for size in range(2, 33):
        made(torch.ones(size))
    assert len(entries(made)) == 31
    for name in ("implies", "satisfy"):
        real = getattr(upkeep.solver, name)
        monkeypatch.setattr(upkeep.solver, name, lambda *args, real=real, **options: asked.append(1) or real(*args, **options))
    assert made.compact() == 0 and len(asked) < 31


def test_a_grid_of_entries_with_one_graph_becomes_one():
    made = tracer.optimize("eager")(rooms)
    found = tracer.precompile(made, "x: B, S; B in 1..100; S in 1..500", torch.ones(3, 4))
    assert found.certified and found.regions() == ["every shape"] and made.stats()["compiles"] >= 25
    made.seal()
    for shape in ((1, 1), (8, 64), (9, 65), (100, 500), (33, 3)):
        assert torch.equal(made(torch.ones(*shape)), torch.full(shape, 2.0))


def test_how_much_is_proved_in_one_go_is_bounded(monkeypatch):
    made = tracer.optimize("eager", shapes="x: B, S; B in 1..64; S in 1..64")(pointless)
    for shape in ((3, 4), (9, 4), (3, 9)):
        made(torch.ones(*shape))
    monkeypatch.setattr(upkeep, "MOST_PROOFS", 0)
    assert made.compact() == 0 and len(entries(made)) == 3


def test_results_that_the_code_makes_of_sizes_are_not_merged():
    def f(x):
        return x * 2, "small" if x.shape[0] <= 8 else "large"

    made = tracer.optimize("eager")(f)
    assert len(tracer.precompile(made, "x: B; B in 1..64", torch.ones(3)).covering) == 2
    assert made(torch.ones(8))[1] == "small" and made(torch.ones(9))[1] == "large"


def test_a_merge_that_is_not_proved_is_not_made(monkeypatch):
    made = tracer.optimize("eager", shapes="x: B, S; B in 1..64; S in 1..64")(pointless)
    for shape in ((3, 4), (9, 4), (3, 9)):
        made(torch.ones(*shape))
    satisfy = upkeep.solver.satisfy
    monkeypatch.setattr("tracer.runtime.upkeep.solver.satisfy", lambda *args, **options: upkeep.solver.Answer("unknown"))
    assert made.compact() == 0 and len(entries(made)) == 3
    monkeypatch.setattr("tracer.runtime.upkeep.solver.satisfy", satisfy)
    assert made.compact() == 2 and len(entries(made)) == 1


def test_closures_and_fetched_inputs_outlive_a_merge():
    offset = torch.ones(4)

    def f(x):
        if x.shape[0] <= 8:
            pass
        return x + offset

    made = tracer.optimize("eager", shapes="x: B, _; B in 1..64")(f)
    for size in (3, 9):
        made(torch.ones(size, 4))
    assert made.compact() == 1
    for size in (2, 8, 9, 64):
        x = torch.randn(size, 4)
        assert torch.equal(made(x), f(x))
    assert made.stats()["compiles"] == 2
    offset = torch.zeros(4)
    assert torch.equal(made(torch.ones(2, 4)), torch.ones(2, 4))


# -- bounded -----------------------------------------------------------------------------------------------------------


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
    with pytest.raises(tracer.exc.UserError, match="is no number of entries"):
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


# -- told ----------------------------------------------------------------------------------------------------------------


def told_everywhere(caplog, drive):
    """What each of the ways to be told says was evicted, and the entries that there ever were."""
    by_callback, by_event, ever = [], [], {}

    def note(event):
        ever[id(event.about["entry"])] = event.about["entry"]

    ends = [
        tracer.add_callback(lambda event: by_event.append(event.about["entry"]), "evict"),
        *(tracer.add_callback(note, kind) for kind in ("compile", "merge")),
    ]
    tracer.set_logs(evictions=True)
    try:
        made = drive(by_callback.append)
    finally:
        tracer.set_logs(evictions=False)
        for end in ends:
            end()
    assert len(by_callback) == len(by_event) == made.stats()["evictions"] == caplog.text.count("evicted an entry of")
    return made, by_callback, by_event, ever


def test_each_entry_that_there_was_is_there_or_was_told_to_be_gone_once(caplog):
    def drive(note):
        made = tracer.optimize("eager", on_evict=note, capacity=5, shapes="x: B, S; B in 1..64; S in 1..64")(mixed)
        draw = random.Random(0)
        for turn in range(120):
            x, n = torch.randn(draw.choice((1, 3, 9, 20, 40)), draw.choice((4, 9))), draw.randrange(3)
            assert torch.equal(made(x, n), mixed(x, n))
            if turn % 40 == 20:
                made.compact()
        return made

    with config.patch(specialize_int=True):
        made, by_callback, by_event, ever = told_everywhere(caplog, drive)
    assert {each.reason for each in by_callback} == {"capacity", "merged"}
    there = {id(entry) for entry in entries(made)}
    gone = [id(entry) for entry in by_event]
    assert len(gone) == len(set(gone)) and not there & set(gone) and there | set(gone) == set(ever)
    assert made.stats()["hits"] == sum(entry.hits for entry in ever.values())


def mixed(x, n):
    if x.shape[0] <= 8 and x.shape[1] <= 7:  # of which the graph shows nothing
        pass
    return (x * 2 if x.shape[0] < 30 else x + 1) * n


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
        return sorted(locals())

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
