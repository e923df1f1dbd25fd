"""Subscripts by integers that lie in tensors of no dims, which torch reads off: views, without a graph break. Of a graph that a
compiler does not take, there is a second trace, with breaks."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import captured_made, check
from tests.support.comparing import Comparison

TABLE = torch.arange(24.0).reshape(6, 4)


def written(table, at):
    table[at] = 9
    row = table[at - 1]
    row.add_(1)
    table[at, 1:] *= 2
    return table, row


def stepped(table, at):
    x = torch.ones(4)
    for _ in range(3):
        x = x * table[at]
        at = (at + 1) % len(table)
    return x


READ = {
    "a row": lambda table, at: table[at],
    "a column": lambda table, at: table[:, at],
    "among others": lambda table, at: (table[None, at, 1:], table[..., at, None], table[at, at], table[1, at]),
    "of a list": lambda table, at: table[torch.tensor([1, 3])[at // 3]],
    "computed": lambda table, at: table[(at * 0.5).round().long() + 1] * 2,
    "a negative one": lambda table, at: table[-at - 1],
    "written to": written,
    "step by step": stepped,
    "beside an index that is a tensor": lambda table, at: table[at, torch.tensor([0, 2])],
    "a mask": lambda table, at: (table[at > 1], table[:1, (at * 0).to(torch.uint8)[None].bool().repeat(4)]),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", READ)
def test_the_result_is_that_of_the_number(name, backend):
    traced = tracer.compile(READ[name], backend=backend)
    for size in (6, 6, 8, 9):
        for at in (torch.tensor(2), torch.tensor(3, dtype=torch.int32), torch.tensor(0)):
            tables = [torch.arange(4.0 * size).reshape(size, 4) for _ in range(2)]
            Comparison().same(READ[name](tables[0], at.clone()), traced(tables[1], at.clone()), "result")
            Comparison().same(tables[0], tables[1], "table")


@pytest.mark.parametrize("name", [name for name in READ if name not in ("beside an index that is a tensor", "a mask")])
def test_no_graph_breaks(name):
    captured_made(READ[name], lambda: ((TABLE.clone(), torch.tensor(2)), {}), as_written=True)


def step(alphas, at, x, noise):
    """A step of a scheduler of diffusers."""
    now, before = alphas[at], torch.where(at > 0, alphas[at - 1], torch.ones(()))
    return (x - (1 - now).sqrt() * noise) / now.sqrt() * before


def attend(cache, keys, at, x):
    """Attention that writes the keys of one place into a cache."""
    cache[:, at] = keys
    return (x @ cache.mT).softmax(-1) @ cache


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.full)])
def test_compilers_have_one_graph_for_all_indices(backend):
    stepped_by, attended = (tracer.compile(fn, backend=backend, dynamic=True) for fn in (step, attend))
    seen = tracer.counters["graph_break"].total()
    for size in (5, 7):
        for at in (2, 0, 1):
            args = torch.rand(size).clamp(0.1), torch.tensor(at), torch.rand(size), torch.rand(size)
            Comparison().same(step(*args), stepped_by(*args), "step")
            cache, keys, x = torch.rand(2, size, 4), torch.rand(2, 4), torch.rand(2, 3, 4)
            ours = cache.clone()
            Comparison().same(attend(cache, keys, torch.tensor(at), x), attended(ours, keys, torch.tensor(at), x), "attended")
            assert torch.equal(cache, ours)
    assert tracer.counters["graph_break"].total() == seen
    assert len(tracer.region_of(stepped_by).entries()) == len(tracer.region_of(attended).entries()) == 1


def test_a_row_of_a_graph_for_a_compiler_is_a_view_with_a_gradient():
    row_of = tracer.compile(lambda table, at: table[at], backend="aot_eager")
    table = TABLE.clone()
    row_of(table, torch.tensor(2)).zero_()
    assert not table[2].any() and table[1].any()
    table.requires_grad_()
    row_of(table, torch.tensor(3)).sum().backward()
    assert table.grad[3].eq(1).all() and table.grad.sum() == 4


def test_what_a_compiler_does_not_take_breaks_at_the_index():
    refused = []

    def refuses(gm, example_inputs):
        if any(node.target == "item" or "item" in str(node.target) for node in gm.graph.nodes):
            refused.append(gm)
            raise NotImplementedError("no numbers out of tensors")
        return gm.forward

    traced = tracer.compile(lambda table, at: table.sin()[at] * 2, backend=refuses)
    for at in (1, 2):
        assert torch.equal(traced(TABLE, torch.tensor(at)), TABLE.sin()[at] * 2)
    assert len(refused) == 1


def test_a_row_is_a_view_with_a_gradient():
    def fn(table, at):
        row = table[at]
        return row, torch.autograd.grad((row * table[at - 1]).sum(), table)[0]

    captured_made(fn, lambda: ((TABLE.clone().requires_grad_(), torch.tensor(2)), {}), as_written=True)
    row = tracer.compile(lambda table, at: table[at])(table := TABLE.clone(), torch.tensor(2))
    row.zero_()
    assert not table[2].any() and row._base is table


def test_an_index_out_of_range_raises_where_it_stands():
    def fn(table, at, said):
        said.append("read")
        try:
            return table[at]
        except IndexError as error:
            said.append(str(error))
            return table[at - 5]

    traced = tracer.compile(fn)
    for at in (1, 2, 7, -8 + 5):
        ours, cpythons = [], []
        expected = fn(TABLE, torch.tensor(at), cpythons)
        assert torch.equal(traced(TABLE, torch.tensor(at), ours), expected) and ours == cpythons
    check(lambda table, at: table[at], TABLE, torch.tensor(6))


def test_transforms_index_each_sample():
    def fn(table, places):
        return torch.vmap(lambda at: table[at] * 2)(places), torch.func.grad(lambda t: t[places[0]].sum())(table)

    check(fn, TABLE, torch.tensor([1, 4, 2]))


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_columns_at_a_place_that_lies_in_a_tensor_are_written(backend, dynamic):
    def enqueue(queue, place, keys):
        at, count = int(place), keys.shape[0]
        queue[:, at : at + count] = keys.T
        place[0] = (at + count) % queue.shape[1]
        return queue.sum()

    traced = tracer.compile(enqueue, backend=backend, fullgraph=True, dynamic=dynamic)
    (ours, at), (theirs, there) = ((torch.zeros(4, 8), torch.zeros(1, dtype=torch.long)) for _ in range(2))
    for i in range(6):
        keys = torch.full((2, 4), float(i + 1))
        Comparison().same((enqueue(theirs, there, keys), theirs, there), (traced(ours, at, keys), ours, at), "queue")
    assert len(tracer.region_of(traced).entries()) == 1
    at.fill_(7)
    before = ours.clone()
    with pytest.raises(RuntimeError, match="match"):
        traced(ours, at, keys)
    assert torch.equal(before, ours) and at == 7
