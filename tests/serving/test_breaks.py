"""Certificates through graph breaks: the part before, the resume functions, and what lies behind."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support.regions import entries

ROWS = "x: B, 4; B in 2..9"
BOTH = "x: B, S; B in 1..5; S in 1..6"


def of_rows():
    """Calls of the domain ROWS, with data of both signs."""
    return [sign * torch.rand(size, 4) for size in range(2, 10) for sign in (1, -1)]


def of_both():
    return [sign * torch.rand(rows, columns) for rows in range(1, 6) for columns in range(1, 7) for sign in (1, -1)]


def certified(fn, spec, example):
    compiled = tracer.compile(fn, shapes=spec)
    found = tracer.precompile(compiled, example=example)
    assert found.certified, found
    return compiled, found


def serves(fn, compiled, calls):
    """Seals the function and compares each call with eager. A miss is an error."""
    compiled.seal()
    for x in calls:
        wanted, seen = fn(x.clone()), compiled(x.clone())
        assert (wanted is None and seen is None) or torch.equal(wanted, seen)
    assert compiled.stats()["sealed_misses"] == 0 and compiled.stats()["certified"] and tracer.ready(compiled)


def branching_on_data(x):
    if x.sum() > 0:
        return x * 2
    return x.mean(0) - 1


def test_both_branches_on_data_are_certified_and_served_under_a_seal():
    compiled, found = certified(branching_on_data, ROWS, torch.ones(3, 4))
    assert [of.function.partition(".<")[2][:9] for of in found.behind] == ["resume at", "resume at"]
    assert "after test_breaks.py" in str(found) and len(entries(compiled)) == 3
    serves(branching_on_data, compiled, of_rows())


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        print("seen", y.shape)
        return y.relu() + x


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def forward(self, x):
        y = self.layer(x) * 2
        return y[:, 1:].sum(1)


def test_what_an_inlined_callee_returns_behind_its_break_goes_on_in_its_caller(capsys):
    model = Layers().eval()
    compiled, found = certified(model, ROWS, torch.ones(3, 4))
    assert {of.function.partition(".<")[0] for of in found.behind} == {"Layer.forward", "Layers.forward"}
    serves(model, compiled, of_rows())
    assert capsys.readouterr().out.count("seen torch.Size([9, 4])") == 4


@pytest.mark.usefixtures("capsys")
def test_a_model_that_changes_is_not_ready_though_the_change_shows_only_behind_the_break():
    class Late(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = 2.0

        def forward(self, x):
            y = x + 1
            print("half way")
            return y * self.scale

    model = Late()
    compiled, _ = certified(model, ROWS, torch.ones(3, 4))
    assert tracer.ready(compiled) and compiled.stats()["certified"]
    model.scale = 3.0
    unready = tracer.ready(compiled)
    assert not unready and "scale" in unready.reason and not compiled.stats()["certified"]
    model.scale = 2.0
    assert tracer.ready(compiled)


@tracer.disable
def unseen(x):
    return x


def test_what_cpython_calls_there_and_is_not_known_is_named_and_proves_nothing():
    def f(x):
        y = x.sum(1)
        unseen(y)
        return y + 1

    compiled = tracer.compile(f, shapes=ROWS)
    found = tracer.precompile(compiled, example=torch.ones(3, 4))
    assert found.status == "broken" and not found and not found.covering and found.share() == 0
    for words in ("disabled-function", "CPython calls unseen", "not known", "as two functions", 'on_miss="eager"'):
        assert words in found.reason, found.reason
    compiled(torch.ones(3, 4))
    assert not tracer.coverage(compiled, example=torch.ones(3, 4)) and not compiled.stats()["certified"]


def test_behind_graphs_that_another_backend_writes_anew_nothing_is_claimed():
    compiled = tracer.compile(branching_on_data, backend="aot_eager", shapes=ROWS)
    found = tracer.precompile(compiled, example=torch.ones(3, 4))
    assert found.status == "broken" and "the backend 'aot_eager'" in found.reason


@pytest.mark.usefixtures("capsys")
def test_what_the_program_changes_before_the_break_is_named():
    seen = []

    def f(x):
        y = x + len(seen)
        seen.append(1)
        print("changed")
        return y * len(seen)

    found = tracer.precompile(tracer.compile(f, shapes=ROWS), example=torch.ones(3, 4))
    assert found.status == "broken" and "the program changes" in found.reason and "before the break" in found.reason


def test_what_depends_on_data_behind_the_break_is_named():
    def f(x):
        total = float(x.sum())
        if total > 0:
            return x * 2
        return x * (2 if total < -3 else 3)

    found = tracer.precompile(tracer.compile(f, shapes=ROWS), example=torch.ones(3, 4))
    assert found.certified or ("known only at run time" in found.reason and not found.covering), found


@pytest.mark.usefixtures("capsys")
def test_how_calls_go_on_in_which_the_break_raises_is_said_not_to_be_covered():
    def f(x):
        with torch.no_grad():
            y = x * 2
            print("inside")
            z = y + 1
        return z + x

    compiled, found = certified(f, ROWS, torch.ones(3, 4))
    assert len(found.not_covered) == 1 and 'print("inside")' in found.not_covered[0] and "not covered:" in str(found)
    serves(f, compiled, of_rows())


def test_a_loop_while_data_say_so_is_certified_once_for_all_turns():
    def f(x):
        while x.sum() < 100:
            x = x.abs() * 2 + 1
        return x * 2

    compiled, _ = certified(f, ROWS, torch.ones(3, 4))
    serves(f, compiled, of_rows())
    assert len(entries(compiled)) <= 4


@pytest.mark.usefixtures("capsys")
def test_a_for_that_breaks_in_each_turn_is_not_certified_and_what_to_do_is_said():
    def turn(x):
        return x * 2

    def f(x, turn=turn):
        for _ in range(3):
            x = turn(x)
            print("turn")
        return x

    found = tracer.precompile(tracer.compile(f, shapes=ROWS), example=torch.ones(3, 4))
    assert found.status == "broken" and not found.covering
    assert "how far the `for` is that breaks in each turn (RangeIterator; make a turn a function, " in found.reason
    assert tracer.precompile(tracer.compile(turn, shapes=ROWS), example=torch.ones(3, 4)).certified


@pytest.mark.usefixtures("capsys")
def test_sizes_of_data_are_handed_over_as_sizes_that_may_be_any():
    def f(x):
        kept = x[x > 0.5]
        print("kept")
        return kept * 2

    compiled, _ = certified(f, ROWS, torch.ones(3, 4))
    serves(f, compiled, of_rows())


@pytest.mark.usefixtures("capsys")
def test_without_entries_for_what_is_behind_coverage_says_so_and_traces_nothing():
    def f(x):
        y = x + 1
        print("half way")
        return y * 2 if y.shape[0] < 6 else y * 3

    compiled = tracer.compile(f, shapes=ROWS)
    compiled(torch.ones(3, 4))
    made = len(entries(compiled))
    found = tracer.coverage(compiled, example=torch.ones(3, 4))
    assert found.status == "broken" and "has no entry for B = " in found.reason and len(entries(compiled)) == made
    assert tracer.precompile(compiled, example=torch.ones(3, 4))
    assert tracer.coverage(compiled, example=torch.ones(3, 4)).certified
    serves(f, compiled, of_rows())


def test_what_is_traced_behind_breaks_counts_among_max_entries():
    found = tracer.precompile(tracer.compile(branching_on_data, shapes=ROWS), example=torch.ones(3, 4), max_entries=2)
    assert found.status == "budget" and not found


@pytest.mark.usefixtures("capsys")
def test_a_contract_has_the_breaks_and_names_one_that_is_new():
    def before(x):
        return x * 2

    def after(x):
        y = x * 2
        print("new")
        return y

    old, new = (certified(fn, ROWS, torch.ones(3, 4))[0].contract() for fn in (before, after))
    assert [each["regions"] for each in new.data["breaks"]] == [["every shape"]] and old.data["breaks"] == []
    found = tracer.serving.contract.difference(old, new, ignore=("outputs", "rows"))
    assert found.status == "different" and 'print("new")' in str(found)
    assert not tracer.serving.contract.difference(new, new).changes


@pytest.mark.full
@pytest.mark.usefixtures("capsys")
def test_sizes_of_1_lists_views_and_layouts_are_handed_over_as_they_are():
    def parts(x):
        outs = [x + i for i in range(3)]
        about = {"a": outs, "n": x.shape[0] * 2}
        print("parts")
        return torch.cat(about["a"]) * about["n"]

    def turned(x):
        y = (x + 1).t()
        print("turned")
        return y.contiguous().view(-1) * 2

    def spread(x):
        y = x[:, None].expand(-1, 4, -1)
        print("spread")
        return y + 1

    def halves(x):
        first, second = x.chunk(2, 1) if x.shape[1] > 1 else (x, x)
        print("halves")
        return first.sum() + second.sum(0)

    def in_place(x):
        y = x.clone()
        z = y[:, :1]
        print("in place")
        z.mul_(2)
        return y + 1

    for fn in (parts, turned, spread, halves, in_place, branching_on_data):
        compiled, _ = certified(fn, BOTH, torch.ones(3, 5))
        serves(fn, compiled, of_both())


def of_either_rank(x):
    y = x.t()
    if x.sum() > 0:
        y = y.sum(0)
    print("either rank")
    return y * 2


def test_entries_of_a_resume_function_for_tensors_of_another_rank_serve_none_of_these_calls():
    compiled, _ = certified(of_either_rank, ROWS, torch.ones(3, 4))
    serves(of_either_rank, compiled, of_rows())
