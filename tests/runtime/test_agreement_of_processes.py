"""`config.agree_across_ranks` on two processes: ranks that see different sizes make the same entries."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tracer
from tests.support.ranks import on_two_processes, small_model

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo"),
]


def trained(module, rows):
    """The weights after one step for each number of rows."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for step, count in enumerate(rows):
        random = torch.Generator().manual_seed(2 * step + dist.get_rank())
        x, y = torch.randn(count, 8, generator=random), torch.randint(0, 4, (count,), generator=random)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(x), y).backward()
        optimizer.step()
    return torch.cat([each.detach().flatten() for each in module.parameters()])


def compiled_and_trained(agree, rows):
    """How often it was compiled, and the graphs of its entries; the weights are those of the model that is not compiled."""
    expected = trained(DistributedDataParallel(small_model()), rows)
    tracer.reset()
    with tracer.config.patch(agree_across_ranks=agree):
        compiled = tracer.optimize()(small_model())
        torch.testing.assert_close(trained(DistributedDataParallel(compiled), rows), expected)
    region = tracer.region_of(compiled)
    return region.stats["compile"], [entry.guarded_code.graph.code for entry in region.entries()]


def train_where_one_rank_sees_other_sizes_later(rank):
    rows = ([4, 4, 4, 4], [4, 4, 6, 9])[rank]
    return {agree: compiled_and_trained(agree, rows) for agree in ("never", "at_calls")}


def test_a_rank_that_misses_makes_all_ranks_compile():
    first, second = on_two_processes(train_where_one_rank_sees_other_sizes_later)
    assert (first["never"][0], second["never"][0]) == (1, 2)
    assert first["at_calls"] == second["at_calls"]
    assert first["at_calls"][0] == 2


def train_with_another_size_on_each_rank(rank):
    rows = ([4, 4, 5], [6, 7, 6])[rank]
    return {agree: compiled_and_trained(agree, rows) for agree in ("never", "at_misses", "at_calls")}


def test_sizes_that_differ_between_ranks_are_symbols_in_the_first_trace_of_each():
    first, second = on_two_processes(train_with_another_size_on_each_rank)
    assert first["never"][0] == second["never"][0] == 2
    assert first["at_misses"] == second["at_misses"] == first["at_calls"] == second["at_calls"]
    assert first["at_misses"][0] == 1


class Counted(torch.nn.Module):
    """Reads a number that the program keeps, and breaks the graph."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.scale = 1 + dist.get_rank()

    def forward(self, x):
        x = self.linear(x) * self.scale
        tracer.graph_break()
        return x.sum(0) + x.shape[0]


def break_the_graph(rank):
    counted, rows = Counted(), ([4, 4, 4, 8, 4], [4, 5, 5, 5, 6])[rank]
    compiled = tracer.compile_module(Counted())
    compiled.load_state_dict(counted.state_dict())
    with tracer.config.patch(agree_across_ranks="at_calls"):
        for count in rows:
            compiled.scale = counted.scale = counted.scale + 2
            x = torch.randn(count, 8)
            torch.testing.assert_close(compiled(x), counted(x))
    region = tracer.region_of(compiled)
    return dict(region.stats), sorted(each.guarded_code.graph.code for each in region.entries())  # of codes in no set order


def test_the_parts_of_a_frame_that_breaks_agree_as_well():
    first, second = on_two_processes(break_the_graph)
    assert first[1] == second[1]
    assert first[0]["compile"] == second[0]["compile"]


def call_on_one_rank_only(rank):
    def double(x):
        return 2 * x

    found = []
    with tracer.config.patch(agree_across_ranks="at_calls", agree_timeout=2.0), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        compiled = tracer.optimize()(double)
        for count in (2, 2, 3) if rank == 0 else (2,):
            found.append(compiled(torch.ones(count)).tolist())
        dist.barrier()
        found.append(compiled(torch.ones(4)).tolist())
    assert found[-1] == [2, 2, 2, 2]
    return [str(each.message) for each in told if "did not come" in str(each.message)]


def test_a_rank_that_does_not_come_is_waited_for_once():
    first, second = on_two_processes(call_on_one_rank_only)
    assert len(first) == 1 and "ranks" in first[0] and "double" in first[0] and "agree_timeout" in first[0]
    assert len(second) <= 1
