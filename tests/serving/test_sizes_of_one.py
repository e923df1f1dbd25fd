"""Dims of size 1 with strides of their own: served where that was asked for, and results lie as they do in eager."""

from __future__ import annotations

import itertools

import pytest
import torch

import tracer
from shapes.parsing import variable
from tests.serving.test_coverage import branching

SPEC = "x: B, S; B in 1..64; S in 1..64"
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
    """With these strides at dims of size 1."""
    dense = (sizes[1], 1)
    return torch.randn(9000).as_strided(sizes, [s if size == 1 else d for size, s, d in zip(sizes, strides, dense)])


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
    found = tracer.precompile(made, SPEC, EXAMPLE, strides_of_one=True)
    assert found.certified, str(found)
    made.seal()
    for sizes in ((1, 4), (4, 1), (1, 1), (1, 64), (64, 1), (3, 5)):
        for strides in itertools.product((0, 1, 2, 7, 64, 4999), repeat=2):
            x = laid_out(sizes, strides)
            assert same(made(x), PROGRAMS[name](x)), (sizes, x.stride())
    assert made.stats()["sealed_misses"] == 0 and tracer.coverage(made, example=EXAMPLE, strides_of_one=True).certified


def test_a_program_that_asks_nothing_of_its_argument_needs_an_entry_for_each_choice_of_odd_dims():
    made = tracer.optimize("eager")(lambda x: x)
    assert tracer.precompile(made, SPEC, EXAMPLE, strides_of_one=True)
    assert len(tracer.region_of(made).entries()) == 1  # the one for two such dims serves the others too
    assert made.lookup(laid_out((1, 1), (9, 7))) is not None and made.lookup(torch.ones(3, 5)) is not None


def test_without_being_asked_for_they_are_other_calls_and_coverage_names_one():
    made = tracer.optimize("eager")(lambda x: x * 2)
    assert tracer.precompile(made, SPEC, EXAMPLE).certified and len(tracer.region_of(made).entries()) == 1
    assert made.lookup(laid_out((1, 4), (9, 1))) is None
    found = tracer.coverage(made, example=EXAMPLE, strides_of_one=True)
    assert found.status == "uncovered" and not found and not made.stats()["certified"]
    assert any(symbol.name in ("x_stride_0", "x_stride_1") for symbol in found.witness) and "x_stride_" in str(found)
    assert tracer.coverage(made, example=EXAMPLE).certified


def test_one_trace_serves_all_odd_strides_that_come():
    made = tracer.optimize("eager", shapes=SPEC)(lambda x: x * 2)
    for stride in (9, 13, 40, 5000):
        x = laid_out((1, 4), (stride, 1))
        assert same(made(x), x * 2)
    assert made.stats()["compiles"] == 1


def test_sizes_that_are_fixed_at_one_and_parts_of_arguments_count():
    def f(batch, mask):
        return batch["ids"] * 2 + mask.sum()

    spec = "batch['ids']: B, _, S; mask: B; B in 2..9; S in 2..9"
    made = tracer.optimize("eager")(f)
    example = {"ids": torch.ones(3, 1, 5)}, torch.ones(3)
    assert tracer.precompile(made, spec, example, strides_of_one=True).certified
    made.seal()
    ids = torch.randn(4, 3, 6)[:, :1].transpose(0, 1).contiguous().transpose(0, 1)
    assert ids.stride() == (6, 24, 1)
    assert same(made({"ids": ids}, torch.ones(4)), f({"ids": ids}, torch.ones(4)))
    assert made.lookup({"ids": torch.ones(4, 1, 6)}, torch.ones(4)) is not None


def test_what_is_not_proved_of_odd_strides_is_not_claimed(monkeypatch):
    from shapes.regions import SearchResult
    from tracer.serving import coverage

    real = coverage.find_uncovered

    def silent(domain, regions, **options):
        odd = any("stride" in each.name for each in domain.variables)
        return SearchResult("unknown") if odd else real(domain, regions, **options)

    monkeypatch.setattr(coverage, "find_uncovered", silent)
    made = tracer.optimize("eager")(lambda x: x * 2)
    found = tracer.precompile(made, SPEC, EXAMPLE, strides_of_one=True)
    assert found.status == "unknown" and not found and not made.stats()["certified"]


def test_a_program_that_tells_every_stride_apart_ends_with_the_budget():
    def f(x):
        return x * 2 if x.stride(0) in (5, 6, 7) else [x * n for n in range(x.stride(0))][-1:]

    made = tracer.optimize("eager")(f)
    found = tracer.precompile(made, "x: B, 4; B in 1..2", torch.ones(2, 4), strides_of_one=True, max_entries=4)
    assert found.status == "budget" and not found and variable("x_stride_0") in found.witness


def test_too_many_sizes_that_may_be_one_are_refused():
    made = tracer.optimize("eager")(lambda x: x * 2)
    with pytest.raises(tracer.exc.UserError, match="5 sizes may be 1: A, B, C, D, E"):
        tracer.precompile(made, "x: A, B, C, D, E", torch.ones(2, 2, 2, 2, 2), strides_of_one=True)


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.full)])
def test_compilers_are_given_odd_strides(backend):
    def f(x):
        return (x * 2 + 1).clone(), x.t() * 3

    made = tracer.optimize(backend)(f)
    assert tracer.precompile(made, "x: B, S; B in 1..8; S in 2..8", EXAMPLE, strides_of_one=True).certified
    made.seal()
    for sizes, strides in itertools.product(((1, 4), (3, 5), (1, 8)), ((9, 1), (0, 1), (1, 1), (33, 1))):
        x = laid_out(sizes, strides)
        for seen, expected in zip(made(x), f(x)):
            torch.testing.assert_close(seen, expected)
