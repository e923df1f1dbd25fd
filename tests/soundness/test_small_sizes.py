"""Sizes 0 and 1 that are not traced on their own (`specialize_zero_one="by_need"`): results, strides and errors are eager's."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
import torch.nn.functional as F

import tracer
from tests.support.comparing import deep_copied
from tests.support.outcomes import Raised, outcome
from tracer import config

SIZES = (0, 1, 3)
PROGRAMS = {
    "elementwise": lambda x, y: (x * 2 + 1).relu().sin(),
    "sum and mean": lambda x, y: (x.sum(0), x.sum(1, keepdim=True), x.mean()),
    "broadcast": lambda x, y: x + y,
    "broadcast a column": lambda x, y: x - x.sum(1, keepdim=True),
    "matmul": lambda x, y: x @ y.t(),
    "softmax": lambda x, y: x.softmax(-1),
    "layer norm": lambda x, y: F.layer_norm(x, x.shape[1:]),
    "cat": lambda x, y: torch.cat([x, x * 2], 1),
    "stack": lambda x, y: torch.stack([x, x]).transpose(0, 2).contiguous(),
    "reshape": lambda x, y: x.reshape(-1) * 2,
    "view": lambda x, y: x.view(x.shape[1], x.shape[0]) + 1,
    "transpose": lambda x, y: (x.t() * 2, x.t().contiguous(), x.t().reshape(-1)),
    "expand": lambda x, y: x[:, None, :].expand(-1, 3, -1) * 2,
    "squeeze": lambda x, y: (x.squeeze(), x.squeeze(0), x.unsqueeze(1).squeeze(1)),
    "slices": lambda x, y: (x[1:], x[:, :-1], x[::2], x[:, :1] * x),
    "index": lambda x, y: x.index_select(0, torch.arange(x.shape[0])),
    "where": lambda x, y: torch.where(x > 0, x, x - 1),
    "max": lambda x, y: (x.amax(1), x.max(0).values) if x.shape[0] and x.shape[1] else x,
    "linear": lambda x, y: F.linear(x, torch.ones(3, x.shape[1]), torch.ones(3)),
    "in place": lambda x, y: x.clone().add_(1).mul_(x),
    "cumsum and flip": lambda x, y: (x.cumsum(0), x.flip(1), x.roll(1, 0)),
    "pad": lambda x, y: F.pad(x, (1, 2)),
    "new": lambda x, y: (torch.zeros_like(x), x.new_ones(x.shape[0] + 1), torch.arange(x.shape[1]), torch.full(x.shape, 2.0)),
    "copies": lambda x, y: (x.double(), x.t().double(), x.t().clone(), x.to(torch.int64) + 1),
    "numbers": lambda x, y: x * x.shape[0] + x.numel(),
    "chunk": lambda x, y: torch.cat(x.split(2), 0) if x.shape[0] else x,
    "channels": lambda x, y: F.relu(x[None, :, :, None].to(memory_format=torch.channels_last)) * 2,
    "einsum": lambda x, y: torch.einsum("ij,kj->ik", x, x),
    "strided": lambda x, y: (x[:, ::2] + 1, x.t()[1:] * 2, x.expand(3, *x.shape).transpose(0, 1) + 1),
    "attention": lambda x, y: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "std": lambda x, y: x.var(1) if x.shape[1] > 1 else x.sum(1),
    "topk": lambda x, y: x.topk(1, 1).values if x.shape[1] else x,
    "repeat": lambda x, y: (x.repeat(2, 1), x.tile(3), x.repeat_interleave(2, 0)),
    "diagonal": lambda x, y: (x.diagonal(), x.tril(), torch.outer(x.sum(1), x.sum(0))),
}


def leaves(value):
    return list(itertools.chain.from_iterable(map(leaves, value))) if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_size_is_special_that_the_program_does_not_tell_apart(name, declared):
    program = PROGRAMS[name]
    shapes = list(itertools.product(SIZES, repeat=2))
    random.Random(name).shuffle(shapes)
    spec = "x: B, S; y: C, S; B >= 0; C >= 0; S >= 0" if declared else None
    with config.patch(specialize_zero_one="by_need", suppress_errors=False):
        compiled = tracer.optimize("eager", dynamic=True, shapes=spec, recompile_limit=64)(program)
        for b, s in shapes:
            for c in dict.fromkeys((b, 1)):
                args = torch.randn(b, s), torch.randn(c, s)
                expected, seen = outcome(program, *deep_copied(args)), outcome(compiled, *args)
                if isinstance(expected, Raised) or isinstance(seen, Raised):
                    assert expected == seen, (b, s, c)
                    continue
                for a, e in zip(leaves(seen), leaves(expected), strict=True):
                    assert a.dtype == e.dtype and a.shape == e.shape and a.stride() == e.stride(), (b, s, c)
                    assert torch.equal(a.nan_to_num(), e.nan_to_num()), (b, s, c)


def entries_for(program, sizes=(0, 1, 17), count=6):
    with config.patch(specialize_zero_one="by_need", duck_shape=False):
        compiled = tracer.optimize("eager", dynamic=True)(program)
        for chosen in itertools.product(sizes, repeat=count):
            args = [torch.randn(size) for size in chosen]
            assert all(map(torch.equal, compiled(*args), program(*args)))
    return len(tracer.region_of(compiled).entries())


def test_a_program_that_never_asks_has_one_entry_for_all_combinations():
    assert entries_for(lambda a, b, c, d, e, f: (a * 2, b.sin() + 1, c.sum(), d.relu(), e > 0, f - 1)) == 1


def test_a_program_that_asks_once_has_two():
    def f(a, b, c, d, e, f):
        if c.shape[0] == 1:
            a = a + 1
        return a * 2, b.sin() + 1, c.sum(), d.relu(), e > 0, f - 1

    assert entries_for(f) == 2


def test_sizes_zero_and_one_are_special_unless_asked_for():
    compiled = tracer.optimize("eager", dynamic=True)(lambda x: x * 2)
    for size in (0, 1, 2, 17):
        compiled(torch.ones(size))
    assert len(tracer.region_of(compiled).entries()) == 3


def test_a_size_that_varied_down_to_one_stays_symbolic():
    with config.patch(specialize_zero_one="by_need"):
        compiled = tracer.optimize("eager")(lambda x: x * 2)
        for size in (7, 1, 0, 9):
            compiled(torch.ones(size))
    assert compiled.stats()["compiles"] == 2  # the second serves all of them, and the first is retired
    assert len(tracer.region_of(compiled).entries()) == 1


def test_other_words_are_refused():
    with pytest.raises(ValueError, match="'always', 'by_need'"):
        config.patch(specialize_zero_one="never")


def test_strides_of_results_are_asked_for_where_the_program_reads_them():
    def f(x):
        y = x + 0
        return y.stride(), x.t().clone().stride(), (x.relu() * x).t().stride(), y.t().dim_order()

    for shapes in (None, "x: B, S; B >= 0; S >= 0"):
        with config.patch(specialize_zero_one="by_need"):
            compiled = tracer.optimize("eager", dynamic=True, shapes=shapes, recompile_limit=64)(f)
            for shape in itertools.product((3, 0, 1, 4), repeat=2):
                assert compiled(torch.empty(shape)) == f(torch.empty(shape)), shape


def test_strides_that_nobody_reads_are_not_asked_for():
    with config.patch(specialize_zero_one="by_need"):
        compiled = tracer.optimize("eager", shapes="x: B, S; B >= 0; S >= 1")(lambda x: (x + 0, x.stride()))
        for shape in ((3, 4), (0, 1), (1, 1), (1, 7), (0, 3)):
            assert compiled(torch.empty(shape))[1] == torch.empty(shape).stride()
    assert compiled.stats()["compiles"] == 1


def turned_twice(x):
    once, again = x.t(), x.t()  # the second is made of what is known of the first
    copy = again.contiguous()  # of one row or column it is the tensor itself
    copy.add_(1)
    return once, copy.t(), x * 2


@pytest.mark.parametrize(
    "made",
    [
        lambda b, s: torch.zeros(b, s),
        lambda b, s: torch.zeros(b * s + 3)[3:].view(b, s),
        lambda b, s: torch.zeros(b, s) + 0,
    ],
    ids=["new", "behind the beginning of its memory", "computed"],
)
def test_a_copy_that_only_small_tensors_spare_is_made_for_others(made):
    spec = "x: B, S; B in 1..9; S in 1..9"
    compiled = tracer.optimize("eager", shapes=spec, recompile_limit=64)(turned_twice)
    for shape in itertools.product((1, 2, 3), repeat=2):
        seen, expected = compiled(made(*shape)), turned_twice(made(*shape))
        assert all(map(torch.equal, seen, expected)), shape
        assert [each.stride() for each in seen] == [each.stride() for each in expected], shape
