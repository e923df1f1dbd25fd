"""Tensors declared as strided: all ways in which they may lie in memory are certified, and results lie as they do in eager."""

from __future__ import annotations

import itertools

import pytest
import torch

import tracer
from shapes.parsing import variable
from tests.serving.test_coverage import branching

SIZES = "B in 1..64; S in 1..64"
ANY = f"x: B, S strided; {SIZES}"
ONES = f"x: B, S strided R, T; B == 1 or R == S; S == 1 or T == 1; {SIZES}"  # contiguous, as torch sees it
EXAMPLE = torch.ones(3, 5)
PROGRAMS = {
    "elementwise": lambda x: x * 2,
    "broadcast": lambda x: x + torch.ones(x.shape[1]),
    "turned": lambda x: x.t() * 2,
    "copied": lambda x: x.clone(),
    "viewed": lambda x: x.view(-1),
    "cut": lambda x: x[:, 1:] * 2,
    "multiplied": lambda x: x @ x.t(),
    "given back": lambda x: x,
    "reads its strides": lambda x: (x * 2, x.stride(), (x + 1).stride(), x.is_contiguous()),
    "branches on its strides": lambda x: x * 2 if x.stride(0) > 9 else x + 1,
    "branches on its layout": lambda x: x.contiguous() if not x.is_contiguous() else x * 3,
    "branches on its sizes": branching,
}
QUICK = ("elementwise", "copied", "given back", "reads its strides", "branches on its strides")


def laid_out(sizes, strides):
    return torch.randn(6000).as_strided(sizes, strides)


def with_odd_ones(sizes, strides):
    """With these strides at dims of size 1, and contiguous ones at others."""
    return laid_out(sizes, [s if size == 1 else dense for size, s, dense in zip(sizes, strides, (sizes[1], 1))])


def leaves(value):
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [value]


def same(seen, expected):
    return len(leaves(seen)) == len(leaves(expected)) and all(
        torch.equal(a, b) and a.stride() == b.stride() if isinstance(b, torch.Tensor) else type(a) is type(b) and a == b
        for a, b in zip(leaves(seen), leaves(expected))
    )


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.full) for name in PROGRAMS])
def test_any_strides_of_dims_of_size_one_hit_and_give_what_eager_gives(name):
    made = tracer.optimize("eager")(PROGRAMS[name])
    found = tracer.precompile(made, ONES, EXAMPLE)
    assert found.certified, str(found)
    made.seal()
    for sizes in ((1, 4), (4, 1), (1, 1), (1, 64), (64, 1), (3, 5)):
        for strides in itertools.product((0, 1, 2, 7, 64, 4999), repeat=2):
            x = with_odd_ones(sizes, strides)
            assert same(made(x), PROGRAMS[name](x)), (sizes, x.stride())
    assert made.stats()["sealed_misses"] == 0 and tracer.coverage(made, example=EXAMPLE).certified


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.full) for name in PROGRAMS if name != "viewed"]
)
def test_any_strides_at_all_hit_and_give_what_eager_gives(name):
    made = tracer.optimize("eager")(PROGRAMS[name])
    found = tracer.precompile(made, ANY, EXAMPLE)
    assert found.certified, str(found)
    made.seal()
    for sizes in ((1, 4), (4, 1), (1, 1), (3, 5), (4, 4), (9, 5)):
        for strides in itertools.product((0, 1, 2, 4, 5, 9, 100), repeat=2):
            x = laid_out(sizes, strides)
            assert same(made(x), PROGRAMS[name](x)), (sizes, strides)
    assert made.stats()["sealed_misses"] == 0


@pytest.mark.parametrize("name", ["elementwise", "turned", "copied", "multiplied", "given back"])
def test_a_program_that_does_not_ask_how_its_argument_lies_needs_one_entry(name):
    made = tracer.optimize("eager")(PROGRAMS[name])
    assert tracer.precompile(made, ANY, EXAMPLE).certified
    assert len(tracer.region_of(made).entries()) == 1


def test_a_program_that_fails_for_some_strides_is_not_certified_for_any():
    made = tracer.optimize("eager")(PROGRAMS["viewed"])
    found = tracer.precompile(made, ANY, EXAMPLE)
    assert found.status == "broken" and not found and "x_stride_0" in str(found)


def test_what_is_not_declared_as_strided_lies_as_the_example_does():
    made = tracer.optimize("eager")(lambda x: x * 2)
    assert tracer.precompile(made, f"x: B, S; {SIZES}", EXAMPLE).certified
    assert made.lookup(laid_out((1, 4), (9, 1))) is None
    found = tracer.coverage(made, ANY, EXAMPLE)
    assert found.status == "uncovered" and not found and not made.stats()["certified"]
    assert any(symbol.name in ("x_stride_0", "x_stride_1") for symbol in found.witness) and "x_stride_" in str(found)


def test_one_trace_serves_all_odd_strides_that_come():
    made = tracer.optimize("eager", shapes=f"x: B, S; {SIZES}")(lambda x: x * 2)
    for stride in (9, 13, 40, 5000):
        x = laid_out((1, 4), (stride, 1))
        assert same(made(x), x * 2)
    assert made.stats()["compiles"] == 1


def test_a_declared_stride_is_checked_at_each_call():
    made = tracer.optimize("eager", shapes=f"x: B, S strided R, 1; R >= S; R in 8..64 by 8; {SIZES}")(lambda x: x * 2)
    for strides in ((8, 1), (16, 1), (64, 1)):
        x = laid_out((3, 5), strides)
        assert same(made(x), x * 2)
    assert made.stats()["compiles"] == 1
    for strides, words in (((8, 2), "stride()[1] is 2, but it was declared as 1"), ((12, 1), "R % 8 == 0"), ((72, 1), "R <= 64")):
        with pytest.raises(tracer.exc.ConstraintViolationError) as told:
            made(laid_out((3, 5), strides))
        assert words in str(told.value)


def test_parts_of_arguments_may_be_strided():
    def f(batch, mask):
        return batch["ids"] * 2 + mask.sum()

    spec = "batch['ids']: B, _, S strided; mask: B; B in 2..9; S in 2..9"
    made = tracer.optimize("eager")(f)
    example = {"ids": torch.ones(3, 1, 5)}, torch.ones(3)
    assert tracer.precompile(made, spec, example).certified
    made.seal()
    ids = torch.randn(4, 3, 6)[:, :1].transpose(0, 1).contiguous().transpose(0, 1)
    assert ids.stride() == (6, 24, 1)
    assert same(made({"ids": ids}, torch.ones(4)), f({"ids": ids}, torch.ones(4)))
    assert made.lookup({"ids": torch.ones(4, 1, 6)}, torch.ones(4)) is not None


def test_what_is_not_proved_of_strides_is_not_claimed(monkeypatch):
    from shapes.regions import SearchResult
    from tracer.serving import coverage

    monkeypatch.setattr(coverage, "find_uncovered", lambda *args, **options: SearchResult("unknown"))
    made = tracer.optimize("eager")(lambda x: x * 2)
    found = tracer.precompile(made, ANY, EXAMPLE)
    assert found.status == "unknown" and not found and not made.stats()["certified"]


def test_a_program_that_tells_every_stride_apart_ends_with_the_budget():
    def f(x):
        return x * 2 if x.stride(0) in (5, 6, 7) else [x * n for n in range(x.stride(0))][-1:]

    made = tracer.optimize("eager")(f)
    found = tracer.precompile(made, "x: B, 4 strided; B in 1..2", torch.ones(2, 4), max_entries=4)
    assert found.status == "budget" and not found and variable("x_stride_0") in found.witness


def test_a_contract_says_what_was_strided():
    made = tracer.optimize("eager")(lambda x: x * 2)
    tracer.precompile(made, f"x: B, S strided R, _; {SIZES}", EXAMPLE)
    contract = made.contract()
    again = tracer.optimize("eager")(lambda x: x * 2)
    assert tracer.precompile(again, contract.spec(), EXAMPLE).certified
    assert again.contract().domain() == contract.domain() and len(contract.domain().strides) == 2
    assert again.lookup(torch.randn(5, 3).t()) is not None


@pytest.mark.full
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compilers_are_given_strides(backend):
    def f(x):
        return (x * 2 + 1).clone(), x.t() * 3

    made = tracer.optimize(backend)(f)
    assert tracer.precompile(made, "x: B, S strided R, T; B in 1..8; S in 2..8; T in 1..2; R in 1..90", EXAMPLE).certified
    made.seal()
    for sizes, strides in itertools.product(((1, 4), (3, 5), (1, 8), (8, 8)), ((9, 1), (8, 2), (1, 1), (33, 1), (1, 2))):
        x = laid_out(sizes, strides)
        assert same(made(x), f(x)), (sizes, strides)
