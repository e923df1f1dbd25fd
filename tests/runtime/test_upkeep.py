"""Entries are retired, merged or evicted, each time with a message; an entry without a proof stays."""

from __future__ import annotations

import random
import warnings

import pytest
import torch

import tracer
from shapes.solver.problem import RLIMIT
from shapes.solver.terms import Terms
from tests.support.programs import double, with_a_pointless_branch
from tests.support.regions import entries
from tracer import config
from tracer.runtime import upkeep


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


# -- told ----------------------------------------------------------------------------------------------------------------


def told_everywhere(caplog, drive):
    """The evictions as each of the log, the callback and the counters reports them, and all entries that there ever were."""
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
        made = tracer.optimize("eager", on_evict=note, capacity=5, shapes="x: B, S; B in 1..64; S in 1..64")(
            with_a_pointless_branch
        )
        draw = random.Random(0)
        for turn in range(120):
            x, n = torch.randn(draw.choice((1, 3, 9, 20, 40)), draw.choice((4, 9))), draw.randrange(3)
            assert torch.equal(made(x, n), with_a_pointless_branch(x, n))
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


# -- the solver's time -------------------------------------------------------------------------------------------------


def riddles(x):
    """Whether a sum of cubes is a cube and so much more is a riddle for z3. The graph is that of `plain`."""
    a, b, c = x.shape
    for n in range(30):
        if a**3 + b**3 == c**3 + 9 * n + 4:
            x = x + n
    return x * 2


def plain(x):
    for n in range(2):
        if x.shape[0] > 100 + n:
            x = x + n
    return x * 2


def odd_riddles(x):
    a, b, c = x.shape
    for n in range(30):
        if a % 2 and a**3 + b**3 == c**3 + 9 * n + 4:
            x = x + n
    return x * 2


@pytest.fixture
def asked(monkeypatch):
    """One item for each question that reaches z3."""
    found, check = [], Terms.check
    monkeypatch.setattr(Terms, "check", lambda self, *args: found.append(1) or check(self, *args))
    return found


def test_one_budget_serves_all_guards_of_one_piece_of_upkeep(asked, monkeypatch):
    monkeypatch.setattr("shapes.solver.problem.BUDGET", 2 * RLIMIT)
    made, other = [tracer.optimize("eager", dynamic=True)(function) for function in (riddles, plain)]
    for each in (made, other):
        each(torch.ones(3, 4, 5))
    assert len(asked) < 15  # else two for each of 30 guards
    asked.clear()
    upkeep.retire_and_evict(tracer.region_of(made), riddles, entries(made)[0], entries(other))
    assert entries(other)[0].valid and 2 <= len(asked) < 10


def test_one_budget_serves_a_whole_merge(asked, monkeypatch):
    monkeypatch.setattr("shapes.solver.problem.BUDGET", 2 * RLIMIT)
    made = tracer.optimize("eager", dynamic=True)(odd_riddles)
    for sizes in ((3, 4, 5), (4, 5, 6)):
        made(torch.ones(sizes))
    asked.clear()
    assert tracer.compact(made) == 0 and 2 <= len(asked) < 25
