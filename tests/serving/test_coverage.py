"""precompile and coverage: entries for every shape of a domain, with a proof; and what is said where there is none."""

from __future__ import annotations

import math
import time

import pytest
import torch

import tracer
from shapes.parsing import variable
from shapes.regions import SearchResult
from shapes.solver import Answer
from tracer.runtime.shape_spec import ShapeSpec
from tracer.serving import coverage as coverage_module

B, S = variable("B"), variable("S")


def branching(x):
    y = (x * 3 + 1).relu()
    if x.shape[0] <= 8:
        y = y - 1
    if x.shape[1] % 128 == 0:
        y = y * 2
    if x.shape[0] == 1:
        y = y.sin()
    return y.sum(1)


BY_HAND = {
    "B == 1 and S % 128 >= 1",
    "B == 1 and S % 128 == 0",
    "2 <= B <= 8 and S % 128 >= 1",
    "2 <= B <= 8 and S % 128 == 0",
    "9 <= B and S % 128 >= 1",
    "9 <= B and S % 128 == 0",
}
DOMAIN = "x: B, S; B in 1..256; S in 1..4096"


@pytest.fixture(scope="module")
def certified():
    compiled = tracer.optimize("eager")(branching)
    started = time.process_time()
    found = tracer.precompile(compiled, DOMAIN, torch.randn(4, 5))
    return compiled, found, time.process_time() - started


def test_a_certificate_has_the_regions_counted_by_hand(certified):
    compiled, found, seconds = certified
    assert found.certified and found and seconds < 60
    assert set(found.regions()) == BY_HAND
    assert len(tracer.region_of(compiled).entries()) == len(BY_HAND)


def test_sampled_shapes_of_a_certified_domain_hit_and_give_what_eager_gives(certified):
    compiled, found, _ = certified
    for point in found.domain.samples(150, seed=1):
        x = torch.randn(point[B], point[S])
        entry = compiled.lookup(x)
        assert entry is found.entry_at(B=point[B], S=point[S]).entry
        assert torch.equal(compiled(x), branching(x))
    assert len(tracer.region_of(compiled).entries()) == len(BY_HAND)


@pytest.mark.full
def test_every_pair_of_a_certified_domain_hits(certified):
    compiled, _, _ = certified
    lookup, empty = compiled.lookup, torch.empty
    assert all(lookup(empty(b, s)) is not None for b in range(1, 257) for s in range(1, 4097))


@pytest.mark.full
def test_ten_thousand_sampled_outputs_equal_eager(certified):
    compiled, found, _ = certified
    for point in found.domain.samples(10_000, seed=2):
        x = torch.randn(point[S]).expand(point[B], -1).contiguous()
        assert torch.equal(compiled(x), branching(x))


def test_coverage_gives_a_proof_or_a_shape_and_traces_nothing(certified):
    compiled, _, _ = certified
    assert tracer.coverage(compiled, DOMAIN, torch.randn(9, 9)).certified
    wider = tracer.coverage(compiled, "x: B, S; B in 1..300; S in 1..4096", torch.randn(9, 9))
    assert wider.status == "uncovered" and not wider and wider.witness[B] > 256
    assert wider.nearest({B: 300, S: 100}) == {B: 256, S: 100}
    assert len(tracer.region_of(compiled).entries()) == len(BY_HAND)


def test_a_certificate_names_the_lines_that_divide_the_domain(certified):
    text = str(certified[1])
    assert "certified (6 entries, 100% of the shapes" in text
    assert "if x.shape[1] % 128 == 0:" in text and "9 <= B and S % 128 == 0" in text


def test_what_was_declared_at_the_decoration_is_the_spec():
    compiled = tracer.optimize("eager", shapes="x: B; B in 2..9")(lambda x: x * 2)
    assert not tracer.coverage(compiled, example=torch.ones(3))
    assert tracer.precompile(compiled, example=torch.ones(3)).regions() == ["every shape"]


def test_entries_made_by_calls_count():
    compiled = tracer.optimize("eager", shapes=DOMAIN)(branching)
    for b in (1, 4, 40):
        for s in (100, 128):
            compiled(torch.randn(b, s))
    assert tracer.coverage(compiled, example=torch.randn(4, 5)).certified


def test_entries_for_other_calls_do_not_count():
    compiled = tracer.optimize("eager", shapes="x: B; B in 2..9")(lambda x, flag: x * 2 if flag else x)
    compiled(torch.ones(3), True)
    assert tracer.coverage(compiled, example=(torch.ones(3), True))
    other = tracer.coverage(compiled, example=(torch.ones(3), False))
    assert other.status == "uncovered" and "flag" in other.entries[0].refused
    assert not tracer.coverage(compiled, example=(torch.ones(3, dtype=torch.int64), True))
    assert not tracer.coverage(compiled, example=(torch.ones(3, requires_grad=True), True))


def test_relations_divisibility_and_computed_sizes_bound_what_has_to_be_covered():
    def f(x, y):
        if y.shape[0] > 2 * x.shape[0]:
            return x.sum() + y.sum()
        return x.sum()

    spec = "x: B, S; y: 2*B + 1; B in 1..64; S in 8..512 by 8; B <= S"
    found = tracer.precompile(tracer.optimize("eager")(f), spec, (torch.ones(2, 16), torch.ones(5)))
    assert found.regions() == ["every shape"]


def test_the_layout_of_the_example_is_that_of_the_calls():
    compiled = tracer.optimize("eager")(lambda x: x * 2 + 1)
    example = torch.ones(3, 4, 5, 6).to(memory_format=torch.channels_last)
    assert tracer.precompile(compiled, "x: B, _, H, W; H in 2..9; W in 2..9; B in 2..9", example)
    assert compiled.lookup(torch.ones(5, 4, 7, 3).to(memory_format=torch.channels_last)) is not None
    assert compiled.lookup(torch.ones(5, 4, 7, 3)) is None
    with pytest.raises(tracer.exc.UserError, match="is not contiguous"):
        tracer.coverage(compiled, "x: B, _, _, _", torch.ones(3, 4, 5, 12)[..., ::2])


def test_a_cut_out_tensor_with_strides_of_its_own_is_another_call_and_its_copy_is_none():
    compiled = tracer.optimize("eager")(lambda x: x * 2)
    assert tracer.precompile(compiled, "x: B, S; B in 1..9; S in 1..9", torch.ones(3, 4))
    cut = torch.ones(1, 9)[:, :1]
    assert cut.is_contiguous() and compiled.lookup(cut) is None and "stride" in str(tracer.why(compiled, cut))
    assert compiled.lookup(cut.clone(memory_format=torch.contiguous_format)) is not None


def test_modules_methods_and_partials_are_precompiled():
    import functools

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)

        def forward(self, x, scale=1):
            return self.linear(x).sum() * scale

        def method(self, x):
            return x.sum()

    model = Model()
    compiled = tracer.compile(model)
    spec = ShapeSpec({"x": {0: "B"}}, B=(1, 64))
    assert tracer.precompile(compiled, spec, torch.ones(2, 4))
    assert tracer.precompile(tracer.compile(model.method), spec, torch.ones(2, 4))
    assert tracer.precompile(functools.partial(compiled, scale=2), spec, kwargs={"x": torch.ones(2, 4)})
    assert tracer.coverage(tracer.compile_module(Model()), spec, torch.ones(2, 4)).status == "uncovered"
    with pytest.raises(tracer.exc.UserError, match="was not compiled"):
        tracer.precompile(Model(), spec, torch.ones(2, 4))


def test_parts_of_containers_vary_and_the_example_stays_as_it_is():
    def f(batch, extra):
        return batch["ids"].sum() + extra[0].sum()

    example = {"ids": torch.ones(2, 3), "kind": "a"}, (torch.ones(2),)
    compiled = tracer.optimize("eager")(f)
    assert tracer.precompile(compiled, {"batch": {"ids": ["B", "S"]}, "extra": [["B"]]}, example)
    assert example[0]["ids"].shape == (2, 3) and example[1][0].shape == (2,)
    assert compiled.lookup({"ids": torch.ones(7, 8), "kind": "b"}, (torch.ones(7),)) is not None


# -- what is not proved ------------------------------------------------------------------------------------------


def unsolvable(x):
    if x.shape[0] ** 3 + x.shape[1] ** 3 == x.shape[2] ** 3 + 1:
        return x + 1
    return x + 2


def test_what_z3_cannot_tell_is_unknown_and_not_claimed():
    found = tracer.precompile(
        tracer.optimize("eager")(unsolvable), "x: X, Y, Z; X >= 2; Y >= 2; Z >= 2", torch.ones(2, 3, 4), rlimit=2000
    )
    assert found.status in ("unknown", "certified")
    if found.status == "unknown":
        assert not found and "the solver cannot tell" in found.reason


def test_every_unknown_of_the_solver_is_said(monkeypatch):
    compiled = tracer.optimize("eager")(branching)
    unbounded = "x: B, S; B in 1..256"
    assert tracer.precompile(compiled, unbounded, torch.randn(4, 5))
    monkeypatch.setattr("shapes.solver.satisfy", lambda *args, **options: Answer("unknown"))
    found = tracer.coverage(compiled, unbounded, torch.randn(4, 5))
    assert found.status == "unknown" and not found and found.witness is None and "cannot tell" in found.reason


def test_few_shapes_are_proved_without_the_solver(monkeypatch):
    monkeypatch.setattr("shapes.solver.satisfy", lambda *args, **options: Answer("unknown"))
    found = tracer.precompile(tracer.optimize("eager")(branching), "x: B, S; B in 1..16; S in 1..300", torch.randn(4, 5))
    assert found and len(found.covering) == 6


def test_guards_on_floats_are_covered():
    def f(x):
        return torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]) * math.sqrt(x.shape[1])

    found = tracer.precompile(tracer.optimize("eager")(f), "x: B, S; B in 1..64; S in 1..128", torch.randn(4, 5))
    assert found, str(found)


def test_an_unknown_of_the_last_question_is_said(monkeypatch):
    compiled = tracer.optimize("eager")(branching)
    tracer.precompile(compiled, DOMAIN, torch.randn(4, 5))
    monkeypatch.setattr(coverage_module, "find_uncovered", lambda *args, **options: SearchResult("unknown"))
    for ask in (tracer.coverage, tracer.precompile):
        found = ask(compiled, DOMAIN, torch.randn(4, 5))
        assert found.status == "unknown" and not found


def test_a_proof_that_check_functions_contradict_is_an_error(monkeypatch):
    compiled = tracer.optimize("eager", shapes=DOMAIN)(branching)
    compiled(torch.randn(4, 5))
    monkeypatch.setattr(coverage_module, "find_uncovered", lambda *args, **options: SearchResult("unsat"))
    with pytest.raises(tracer.exc.InternalTracerError, match="proved to have an entry"):
        tracer.coverage(compiled, example=torch.randn(4, 5))


def test_a_program_that_fixes_sizes_ends_with_the_budget():
    def f(x):
        for _ in range(x.shape[0]):
            x = x + 1
        return x

    found = tracer.precompile(tracer.optimize("eager")(f), "x: B; B in 1..100", torch.ones(3), max_entries=5)
    assert found.status == "budget" and not found and "max_entries=5 was reached" in found.reason
    assert len(found.covering) == 5 and 0 < found.share() < 0.2 and found.witness is not None


def test_time_that_is_spent_ends_it_without_a_claim():
    found = tracer.precompile(tracer.optimize("eager")(branching), DOMAIN, torch.randn(4, 5), max_seconds=0.0)
    assert found.status == "budget" and not found and found.share() == 0


def test_a_graph_break_is_said_and_proves_nothing():
    def f(x):
        x = x.sum(1)
        unseen(x)
        return x + 1

    found = tracer.precompile(tracer.optimize("eager")(f), "x: B, S; B in 2..9; S in 2..9", torch.ones(3, 3))
    assert found.status == "broken" and not found and "tracer.disable" in found.reason and not found.covering


def test_shapes_that_the_program_refuses_are_covered_by_an_entry_that_lets_it():
    def f(x):
        if x.shape[0] > 50:
            raise ValueError("too many")
        return x * 2

    compiled = tracer.optimize("eager")(f)
    found = tracer.precompile(compiled, "x: B; B in 2..100", torch.ones(3))
    assert found and {each.kind: each.region.text(found.domain) for each in found.covering} == {
        "graph": "B <= 50",
        "python": "51 <= B",
    }
    with pytest.raises(ValueError, match="too many"):
        compiled(torch.ones(60))


def test_progress_is_told_before_each_trace():
    seen = []
    tracer.precompile(tracer.optimize("eager")(branching), DOMAIN, torch.randn(4, 5), progress=seen.append)
    assert [len(now.covering) for now in seen] == list(range(7))
    shares = [now.share() for now in seen]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"spec": DOMAIN}, "cannot be called"),
        ({"example": torch.ones(3)}, "no shapes were declared"),
        ({"spec": DOMAIN, "example": 3}, "is not a tuple of arguments"),
        ({"spec": "x: B, S; B in 1..2", "example": torch.ones(3, 3)}, "is 3, but it was declared as 1 <= B <= 2"),
    ],
)
def test_what_does_not_fit_together_is_refused(arguments, words):
    with pytest.raises(tracer.exc.UserError, match=words):
        tracer.precompile(tracer.optimize("eager")(branching), **arguments)


def test_shapes_that_no_memory_holds_are_said():
    def f(x):
        return x * 2 if x.shape[0] < 2**50 else x + 1

    found = tracer.precompile(tracer.optimize("eager")(f), "x: B", torch.ones(3))
    assert found.status == "refused" and not found and found.witness[B] >= 2**50 and "there is no x of shape" in found.reason


def test_a_break_is_told_with_its_line_what_is_behind_it_and_what_to_do():
    broken = tracer.optimize("eager")(breaks)
    found = tracer.precompile(broken, "x: B, S; B in 1..64; S in 1..64", torch.ones(3, 5))
    assert found.status == "broken" and not found and not found.covering
    for words in ("tracer.disable", "CPython calls unseen", "as two functions", 'on_miss="eager"'):
        assert words in found.reason, found.reason
    again = tracer.coverage(broken, example=torch.ones(3, 5))
    assert again.status in ("broken", "uncovered") and not again
    broken(torch.ones(3, 5))
    assert not tracer.coverage(broken, example=torch.ones(3, 5))


def test_a_shape_whose_calls_break_is_told_from_one_that_has_no_entry():
    compiled = tracer.optimize("eager", shapes="x: B; B in 2..64")(breaks_when_large)
    for size in (3, 9):
        compiled(torch.ones(size))
    found = tracer.coverage(compiled, example=torch.ones(3))
    assert found.status == "broken" and found.witness[B] > 8 and "tracer.disable" in found.reason


@tracer.disable
def unseen(x):
    return x


def breaks(x):
    y = x.sum(1)
    unseen(y)
    return y + 1


def breaks_when_large(x):
    x = x + 1
    if x.shape[0] > 8:
        unseen(x)
    return x * 2


def plain_sum(x, y):
    return x + y * x.storage_offset() if x is not y else x


@pytest.mark.parametrize(
    ("example", "words"),
    [
        (lambda x: (x, x), "x"),  # one object
        (lambda x: (x[1:], x[:3]), "storage"),
        (lambda x: (x[:1, :1], x[:1, :1].clone()), "stride"),
    ],
    ids=["one object twice", "behind the beginning of its memory", "strides of its own"],
)
def test_nothing_is_claimed_of_calls_like_an_example_that_finds_no_entry_itself(example, words):
    spec = "x: B, S; y: B, S; B in 1..9; S in 1..9"
    made = tracer.optimize("eager")(plain_sum)
    found = tracer.precompile(made, spec, example(torch.ones(4, 4)))
    assert found.status == "refused" and not found and not made.stats()["certified"]
    assert "The example itself finds no entry" in found.reason and words in found.reason
    assert tracer.coverage(made, spec, (torch.ones(3, 4), torch.ones(3, 4))).certified
