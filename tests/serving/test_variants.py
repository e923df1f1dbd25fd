"""Variants of a call: with a mask and without, a shorter list, prefill and decode; one certificate, one contract over all."""

from __future__ import annotations

import dataclasses
import random

import pytest
import torch

import tracer
from tests.support.regions import entries
from tracer.exc import ConstraintViolationError, SealedError, UserError

MASKED = "x: B, S; mask: B, S; B in 1..64; S in 1..64"


def pooled(x, mask=None):
    y = x * 2 if x.shape[0] <= 8 else x + 1
    return y.sum(1) if mask is None else (y * mask).sum(1)


def summed(xs):
    y = xs[0]
    for x in xs[1:]:
        y = y + x
    return y


def looked_up(batch):
    return batch["x"] * 2 if "mask" not in batch else batch["x"] * batch["mask"]


@dataclasses.dataclass
class State:
    x: torch.Tensor
    mask: torch.Tensor | None = None


def of_state(state):
    return state.x * 2 if state.mask is None else state.x * state.mask


X = torch.ones(3, 5)
ONE, TWO = {"xs": [["B"]], "B": (1, 8)}, {"xs": [["B"], ["B"]]}
KINDS = [
    (pooled, tracer.Variant((X,), spec=MASKED), tracer.Variant((X, X + 0), spec=MASKED)),
    (summed, tracer.Variant(([X],), spec={"xs": [["B", "S"]]}), tracer.Variant(([X, X + 0],), spec={"xs": [["B", "S"]] * 2})),
    (
        looked_up,
        tracer.Variant(({"x": X},), spec="batch['x']: B, S"),
        tracer.Variant(({"x": X, "mask": X + 0},), spec="batch['x']: B, S; batch['mask']: B, S"),
    ),
    (
        of_state,
        tracer.Variant((State(X),), spec="state.x: B, S; state.mask: B, S"),
        tracer.Variant((State(X, X + 0),), spec="state.x: B, S; state.mask: B, S"),
    ),
]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("fn", "one", "other"), KINDS, ids=lambda each: getattr(each, "__name__", ""))
def test_two_kinds_of_calls_are_certified_one_after_the_other_and_in_a_list(fn, one, other, turned):
    variants = [other, one] if turned else [one, other]
    made = tracer.compile(fn)
    for each in variants:
        assert tracer.precompile(made, each.spec, each.example).certified
        assert made.stats()["certified"]
    listed = tracer.compile(fn)
    found = tracer.precompile(listed, variants)
    assert found.certified and len(found.variants) == 2 and len(entries(listed)) == len(entries(made))
    again = tracer.coverage(made, variants)
    assert again.certified and len(again.covering) == len(found.covering)
    made.seal()
    for each in variants:
        assert torch.equal(made(*each.example), fn(*each.example))
    assert made.stats()["sealed_misses"] == 0


def masked_and_plain():
    made = tracer.compile(pooled, shapes=MASKED)
    found = tracer.precompile(made, [tracer.Variant((X,), name="plain"), tracer.Variant((X, X + 0), name="masked")])
    return made, found


def test_every_shape_of_every_variant_hits_and_equals_eager():
    made, found = masked_and_plain()
    assert found.certified and {each.name for each in found.variants} == {"plain", "masked"}
    made.seal()
    draw = random.Random(0)
    for _ in range(60):
        x = torch.randn(draw.choice((1, 8, 9, 64, draw.randint(1, 64))), draw.randint(1, 64))
        for args in ((x,), (x, torch.randn_like(x)), (x, None)):
            assert torch.equal(made(*args), pooled(*args))
    assert made.stats()["sealed_misses"] == 0 and made.stats()["compiles"] == 4


def test_the_result_says_each_variant_by_name():
    made, found = masked_and_plain()
    assert set(found.variant("plain").regions()) == {"B <= 8", "9 <= B"}
    text = str(found)
    assert text.startswith("certified: 2 variants, 4 entries") and "plain: " in text and "masked: " in text
    assert found.share() == 1.0 and found.stands and len(found.covering) == 4 and found.seconds > 0
    with pytest.raises(UserError, match="there is no variant 'other'") as told:
        found.variant("other")
    assert "'plain', 'masked'" in str(told.value)


def test_one_variant_that_is_not_covered_is_the_status_of_all():
    made = tracer.compile(pooled, shapes=MASKED)
    assert tracer.precompile(made, example=X).certified
    found = tracer.coverage(made, [(X,), (X, X + 0)])
    assert not found and found.status == "uncovered" and found.witness and found.first_gap.name == "1"
    assert found.variant("0").certified
    assert made.stats()["certified"]  # a question about other calls says nothing against what is certified


def test_budgets_are_of_all_variants_together():
    made = tracer.compile(pooled, shapes=MASKED)
    found = tracer.precompile(made, [(X,), (X, X + 0)], max_seconds=0.0)
    assert [each.status for each in found.variants] == ["budget", "budget"] and not made.stats()["certified"]


def test_the_same_kind_of_call_again_takes_the_place_of_the_first():
    made = tracer.compile(pooled)
    tracer.precompile(made, "x: B, S; B in 1..8; S in 1..8", X)
    tracer.precompile(made, "x: B, S; B in 1..4; S in 1..4", torch.ones(2, 2))
    with pytest.raises(ConstraintViolationError, match="declared as 1 <= B <= 4"):
        made(torch.ones(5, 70))
    assert made.contract().data["domain"]["sizes"][0]["max"] == 4


def test_each_variant_has_a_domain_of_its_own():
    made = tracer.compile(pooled)
    plain = tracer.Variant((X,), spec="x: B, S; B in 1..4; S in 1..64")
    narrow = torch.ones(3, 4)
    masked = tracer.Variant((narrow, narrow + 0), spec="x: B, S; mask: B, S; B in 1..64; S in 1..4")
    assert tracer.precompile(made, [plain, masked]).certified
    made(torch.ones(4, 64)), made(torch.ones(64, 4), torch.ones(64, 4))
    assert made.stats()["compiles"] == len(entries(made))
    with pytest.raises(ConstraintViolationError, match="declared as 1 <= B <= 4"):
        made(torch.ones(5, 4))
    made.seal()
    with pytest.raises(SealedError, match="declared as 1 <= S <= 4"):
        made(torch.ones(5, 5), torch.ones(5, 5))


def test_another_dtype_or_mode_is_another_variant():
    made = tracer.compile(pooled, shapes=MASKED)
    assert tracer.precompile(made, [(X,), (X.double(),)]).certified
    with torch.no_grad():
        assert tracer.precompile(made, example=X).certified
    assert len(made.contract().data["variants"]) == 3 and made.stats()["certified"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "there is no variant"),
        ([tracer.Variant((X,), name="a"), tracer.Variant((X, X), name="a")], "two variants are named 'a'"),
        ([3], "is not a tuple of arguments"),
        ([tracer.Variant((X,), spec="x: B, S; BB in 1..8")], "BB is no dim"),
        ([tracer.Variant((X,), spec="z: B")], "has no argument 'z'"),
    ],
)
def test_a_list_that_cannot_be_read_changes_nothing(given, words):
    made = tracer.compile(pooled, shapes=MASKED)
    with pytest.raises(UserError, match=words):
        tracer.precompile(made, [*([(X,)] if given else []), *given])
    assert not entries(made) and not made.stats()["certified"]
    with pytest.raises(UserError, match="an example beside it"):
        tracer.precompile(made, [(X,)], X)


def test_variants_are_loaded_and_certified_without_a_trace(tmp_path):
    made, _ = masked_and_plain()
    assert made.save(tmp_path / "file").saved == 4
    other = tracer.compile(pooled, shapes=MASKED)
    assert other.load(tmp_path / "file").loaded == 4
    assert tracer.coverage(other, [(X,), (X, X + 0)]).certified and other.stats()["certified"]
    assert other.stats()["compiles"] == 0


def test_specs_of_several_kinds_of_calls_are_declared_in_a_list():
    made = tracer.compile(pooled, shapes=["x: B, S; B in 1..4", "x: B, S; mask: B, S; S in 1..4"])
    for args in ((torch.ones(4, 64),), (torch.ones(64, 4), torch.ones(64, 4))):
        assert torch.equal(made(*args), pooled(*args))
    with pytest.raises(ConstraintViolationError, match="declared as 1 <= S <= 4"):
        made(torch.ones(5, 5), torch.ones(5, 5))
