"""Random programs on inputs that lie in memory in random ways: results, their strides and what they share are those of eager."""

from __future__ import annotations

import random

import pytest
import torch

import tracer

SMALL = 5  # the largest size


def turned(x):
    return x.permute(*reversed(range(x.dim())))


STEPS = {
    "add": lambda x, y, seen: x + 1,
    "add both": lambda x, y, seen: x + y if x.shape == y.shape else x * 2,
    "first row": lambda x, y, seen: x * x[:1],
    "mean": lambda x, y, seen: x - x.mean(-1, keepdim=True),
    "sum": lambda x, y, seen: x + x.sum(0),
    "turn": lambda x, y, seen: turned(x),
    "new dim": lambda x, y, seen: x.unsqueeze(1) if x.dim() < 4 else x.squeeze(1),
    "flatten": lambda x, y, seen: x.reshape(-1, x.shape[-1]),
    "view": lambda x, y, seen: x.contiguous().view(x.shape[0], -1),
    "view as it is": lambda x, y, seen: x.view(-1, x.shape[-1]) if x.is_contiguous() else x,
    "contiguous": lambda x, y, seen: x.contiguous(),
    "clone": lambda x, y, seen: x.clone(),
    "like": lambda x, y, seen: torch.zeros_like(x) + x,
    "cut": lambda x, y, seen: x[1:] if x.shape[0] > 2 else x,
    "every other": lambda x, y, seen: x[..., ::2],
    "cat": lambda x, y, seen: torch.cat([x, x]),
    "softmax": lambda x, y, seen: x.softmax(-1),
    "where": lambda x, y, seen: torch.where(x > 0, x, -x),
    "to double": lambda x, y, seen: x.to(torch.float64),
    "in place": lambda x, y, seen: x.clone().mul_(2),
    "see strides": lambda x, y, seen: seen.append(x.stride()) or x,
    "see contiguous": lambda x, y, seen: seen.append(x.is_contiguous()) or x,
    "by stride": lambda x, y, seen: x * x.stride(0),
    "keep": lambda x, y, seen: seen.append(x) or x,
}


def program(chance):
    steps = [STEPS[name] for name in chance.choices(list(STEPS), k=chance.randint(3, 6))]

    def run(x, y):
        seen = []
        for step in steps:
            x = step(x, y, seen)
        return x, seen

    return run


def lying_somehow(chance, sizes):
    """A tensor of these sizes, that is a part of another one, turned or repeated."""
    rank = len(sizes)
    whole = torch.randn([size * chance.choice((1, 1, 2)) + chance.choice((0, 0, 3)) for size in sizes])
    way = chance.choice(("new", "cut", "cut", "turned", "repeated", "steps"))
    if way == "new":
        return torch.randn(sizes)
    if way == "steps":
        return whole[tuple([slice(0, size * 2, 2) for size in sizes])]
    part = whole[tuple([slice(0, size) for size in sizes])]
    if way == "turned":
        dims = chance.sample(range(rank), rank)
        return (
            whole.new_empty([sizes[dim] + 1 for dim in dims])
            .normal_()[tuple([slice(0, sizes[dim]) for dim in dims])]
            .permute([dims.index(dim) for dim in range(rank)])
        )
    if way == "repeated":
        dim = chance.randrange(rank)
        return part.narrow(dim, 0, 1).expand(sizes)
    return part


def outcome(fn, x, y):
    try:
        result, seen = fn(x, y)
    except (RuntimeError, ValueError, IndexError) as error:
        return type(error)
    return [described(each, x, y) for each in (result, *seen)]


def described(value, x, y):
    if not isinstance(value, torch.Tensor):
        return value
    own = value.untyped_storage().data_ptr()
    shared = [own == each.untyped_storage().data_ptr() for each in (x, y)]
    return value.tolist(), value.dtype, tuple(value.shape), value.stride(), value.is_contiguous(), shared


DECLARED = {2: "x: A, B strided; y: D, E strided", 3: "x: A, B, C strided; y: D, E, F strided"}


def try_programs(seed, count, calls, dynamic):
    """Returns how many calls were made, and how many of them an entry served."""
    chance = random.Random(seed)
    made, misses = 0, 0
    for number in range(count):
        fn, rank = program(chance), chance.choice((2, 2, 3))
        how = {"shapes": DECLARED[rank]} if dynamic == "declared" else {"dynamic": dynamic}
        compiled = tracer.compile(fn, recompile_limit=64, **how)
        varied = chance.random() < 0.3
        sizes = [chance.choice((1, 2, 3, SMALL)) for _ in range(rank)]
        for _ in range(calls):
            if varied:
                sizes = [chance.choice((1, 2, 3, SMALL)) for _ in range(rank)]
            x, y = lying_somehow(chance, sizes), lying_somehow(chance, sizes)
            seen, expected = outcome(compiled, x, y), outcome(fn, x, y)
            assert seen == expected, (seed, number, x.shape, x.stride(), y.shape, y.stride())
            made += 1
        misses += compiled.stats()["misses"]
    return made, made - misses


@pytest.mark.parametrize("dynamic", [None, True, "declared"])
@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 23))])
def test_programs_on_inputs_that_lie_somehow(seed, dynamic):
    calls, hits = try_programs(seed, 6, 16, dynamic)
    assert hits > calls // 10
