"""Most conditions of a program on its sizes follow from the others: their guards are dropped, and the rest means the same."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import sympy
import torch

import tracer
from shapes.printing import python_source

INT32 = 2**31


def of_indices(s0, s5, s8, s11):
    """The conditions of a kernel with 32-bit indices on each of four sizes, in order."""
    sizes = (s11, s8, s5, s0)
    return [
        *(size < INT32 for size in sizes),
        *(100 * size < INT32 for size in sizes),
        *(a < b for a, b in itertools.combinations(sizes, 2)),
    ]


def of_one_index(s0, s5, s8, s11):
    return [s5 < INT32, 100 * s5 < INT32, s11 < s8, s8 < s5, s5 < s0, s11 < s5, s8 < s0, s11 < s0, s11 + 1 < s0, 100 * s8 < INT32]


def of_products(s0, s5, s8, s11):
    products = (s5, s0, 8 * s0, s0 * s5, 4 * s0 * s5, 16 * s0 * s5, s0 * s5 + s0, s8 + s11)
    return [*(product < INT32 for product in products), s5 < s0, s5 <= s0, s8 < s0, s8 < s5, s11 < s5, s11 <= s8, s11 < 5 * s8]


CHAINS = [of_indices, of_one_index, of_products]


def recorded(chain):
    """The guards of an entry whose program decides all conditions of a chain, and how many there would be without dropping."""

    def program(*tensors):
        total = tensors[0].sum()
        if all([bool(condition) for condition in chain(*[tensor.shape[0] for tensor in tensors])]):
            total = total + 1
        return total

    tensors = [torch.ones(size) for size in (50, 40, 30, 20)]
    for tensor in tensors:
        tracer.mark_dynamic(tensor, 0)
    made = tracer.optimize("eager", fullgraph=True)(program)
    made(*tensors)
    record = tracer.region_of(made).entries()[0].guarded_code.shapes
    names = {symbol: f"s{re.search(r'[0-9]', label.name)[0]}" for symbol, label in record.places.items()}
    kept = [part for each in record.conditions for part in sympy.And.make_args(each.expr)]
    return [python_source(condition, names) for condition in kept], len(chain(50, 40, 30, 20)) + len(tensors)


def tuples(count, seed):
    """Half of them ordered as the chains want it, many at the borders; half of them anything."""
    draw = np.random.default_rng(seed)
    magnitude = 10.0 ** draw.uniform(0, 9.6, (count, 1))
    sizes = (draw.uniform(0, 1, (count, 4)) * magnitude).astype(np.int64)
    near = draw.choice([INT32, INT32 // 100, INT32 // 16, 46341, 2, 3], (count, 4)) + draw.integers(-2, 3, (count, 4))
    sizes = np.where(draw.uniform(0, 1, (count, 4)) < 0.15, near, sizes)
    ordered = -np.sort(-sizes, axis=1) + np.array([3, 2, 1, 0]) * draw.integers(0, 2, (count, 1))
    sizes = np.where(np.arange(count)[:, None] % 2 == 0, ordered, sizes)
    return np.maximum(sizes, 0).T.astype(object)  # Python's ints: products are larger than 64 bits


def everywhere(conditions):
    return np.logical_and.reduce([condition.astype(bool) for condition in conditions])


def agreeing(chain, count):
    """How many of the tuples satisfy all guards. Asserts that the remaining guards accept the same tuples."""
    kept, _ = recorded(chain)
    columns = tuples(count, seed=count)
    full = everywhere([*chain(*columns), *(column >= 2 for column in columns)])
    left = everywhere([eval(text, {f"s{index}": column for index, column in enumerate(columns)}) for text in kept])
    assert np.array_equal(full, left)
    return int(full.sum())


@pytest.mark.parametrize("chain", CHAINS)
def test_most_guards_of_a_chain_are_dropped(chain):
    kept, asked = recorded(chain)
    print(f"{chain.__name__}: {len(kept)} of {asked} guards are left: {kept}")
    assert 1 - len(kept) / asked >= 0.6


@pytest.mark.parametrize("chain", CHAINS)
def test_what_is_left_says_the_same(chain):
    assert 1000 < agreeing(chain, 20_000) < 19_000


@pytest.mark.full
@pytest.mark.parametrize("chain", CHAINS)
def test_what_is_left_says_the_same_of_a_million_sizes(chain):
    assert 50_000 < agreeing(chain, 1_000_000) < 950_000
