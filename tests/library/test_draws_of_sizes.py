"""Random numbers whose count, or whose range, follows from sizes of the call: one entry serves all sizes."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

import tracer
from tests.support import check, check_made
from tests.support.comparing import Comparison


def drawn_alike(fn, sizes=(4, 6, 9), entries=2):
    """`fn` run by CPython and traced from the same state, for tensors of several sizes, in few entries."""
    traced = tracer.compile(fn, fullgraph=True)
    for size in sizes:
        x = torch.arange(float(size))
        outcomes = []
        for function in (fn, traced):
            random.seed(7)
            np.random.seed(7)
            rng = np.random.default_rng(7)
            result = function(x.clone(), rng)
            outcomes.append((result, rng.bit_generator.state["state"], np.random.random(), random.random()))
        Comparison().same(*outcomes, "result")
    assert len(tracer.region_of(traced).entries()) <= entries


DRAWS = [
    "np.random.rand(len(x))", "np.random.randn(*x.shape)", "np.random.randn(2, len(x))", "np.random.uniform(0, 1, len(x))",
    "np.random.normal(size=x.shape)", "np.random.normal(0, 1, [len(x), 3])", "np.random.permutation(len(x))",
    "np.random.randint(0, len(x), 3)", "np.random.randint(len(x), size=len(x))", "np.random.choice(len(x), 2, replace=False)",
    "np.random.choice(len(x), len(x) - 1, replace=False)", "np.random.randint(0, len(x))", "random.randint(0, len(x) - 1)",
    "random.randrange(len(x))", "random.randrange(1, len(x))", "rng.standard_normal(x.shape)", "rng.random(2 * len(x) + 1)",
    "rng.integers(0, 9, size=len(x))", "rng.permutation(len(x))", "rng.choice(len(x), size=2, replace=False)",
    "rng.choice(len(x))", "rng.triangular(0, 1, 2, (len(x), len(x)))",
]  # fmt: skip


@pytest.mark.parametrize("draw", DRAWS)
def test_one_entry_draws_for_all_sizes(draw):
    names = {"np": np, "random": random}
    exec(f"def f(x, rng):\n    first = {draw}\n    return x * 2, first, {draw}, type(first)", names)
    drawn_alike(names["f"])


def test_rows_are_taken_in_random_order():
    drawn_alike(lambda x, rng: x[torch.from_numpy(rng.permutation(len(x)))] + x[np.random.permutation(x.shape[0])])


def test_an_array_is_shuffled_in_place():
    def f(x, rng):
        places, rows = np.arange(x.shape[0]), x.numpy().reshape(-1, 1) * 1
        rng.shuffle(places)
        np.random.shuffle(rows)
        return x[places], rows, places

    drawn_alike(f)


def test_sizes_of_which_a_draw_raises_are_left_to_cpython():
    def f(x):
        return x + 1, np.random.choice(len(x), 5, replace=False).shape, np.random.randint(0, len(x) - 3)

    traced = tracer.compile(f)
    for size in (8, 9, 11):
        assert traced(torch.ones(size))[1] == (5,)
    for size in (4, 3, 2):
        with pytest.raises(ValueError, match="larger|low >= high"):
            traced(torch.ones(size))
    check(f, torch.ones(2))


REFUSED = [
    "np.random.seed(len(x))", "np.random.normal(len(x), 1)", "np.random.randint(0, len(x), 3, np.int8)",
    "np.random.choice(len(x), (2, 2), replace=False)", "np.random.beta(len(x), 2)", "np.random.binomial(len(x), 0.5)",
]  # fmt: skip


@pytest.mark.parametrize("draw", REFUSED)
def test_other_numbers_that_vary_are_left_to_cpython(draw):
    names = {"np": np}
    exec(f"def f(x):\n    return x * 2, {draw}, np.random.random()", names)
    checked = check_made(names["f"], lambda: ((torch.ones(4),), {}), dynamic=True, reset=lambda: np.random.seed(3))
    assert "random-state" in checked.break_ids


SEEDED = {
    "torch.Generator": lambda x, seed: torch.randn(3, generator=torch.Generator().manual_seed(seed)) + x,
    "default_rng": lambda x, seed: x + torch.from_numpy(np.random.default_rng(seed).random(3)),
    "RandomState": lambda x, seed: (x + np.random.RandomState(seed).rand(), np.random.RandomState(seed + 1).permutation(len(x))),
    "random.Random": lambda x, seed: x + random.Random(seed).random(),
}


@pytest.mark.parametrize("name", SEEDED)
def test_one_entry_serves_all_seeds(name):
    fn = SEEDED[name]
    traced = tracer.compile(fn, fullgraph=True)
    for seed in (3, 5, 7, 99, 2**31):
        Comparison().same(fn(torch.ones(3), seed), traced(torch.ones(3), seed), "result")
    assert len(tracer.region_of(traced).entries()) <= 2  # the first may be retired


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
@pytest.mark.parametrize("seed", [-1, 2**32, -(2**40)])
def test_a_seed_that_is_refused_raises_as_ever(make, seed):
    traced = tracer.compile(lambda x, number: x + make(number).uniform())
    for number in (3, 5, seed):
        check(lambda x: x + make(number).uniform(), torch.ones(2))
        try:
            expected = torch.ones(2) + make(number).uniform()
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)[:9]):
                traced(torch.ones(2), number)
        else:
            assert torch.equal(traced(torch.ones(2), number), expected)
