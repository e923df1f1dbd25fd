"""What `test_distributed` runs in each of two processes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from tests.support import ranks
from tracer.api.callables import compiled
from tracer.api.settings import Settings


def reduced(x: torch.Tensor) -> Any:
    return functional.all_reduce(x * 2, "sum", dist.group.WORLD) + 1


def gathered(x: torch.Tensor) -> Any:
    return functional.all_gather_tensor(x + 1, 0, dist.group.WORLD).sum(0)


def scattered(x: torch.Tensor) -> Any:
    return functional.reduce_scatter_tensor(x + 1, "sum", 0, dist.group.WORLD) * 1


def sent_to_all(x: torch.Tensor) -> Any:
    return functional.broadcast(x * 2, 0, dist.group.WORLD) + 1


def who_is_asked(x: torch.Tensor) -> Any:
    return x * dist.get_rank() + dist.get_world_size()


def reduced_in_place(x: torch.Tensor) -> Any:
    y = x * 2
    dist.all_reduce(y)
    return y + 1


def gathered_into_a_list(x: torch.Tensor) -> Any:
    parts = [torch.empty_like(x) for _ in range(2)]
    dist.all_gather(parts, x)
    return parts[0] + parts[1]


def work(rank: int, meeting: str) -> None:
    """They meet at a file: a port that was free a moment ago may be another's when it is bound."""
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    for fn in (reduced, gathered, scattered, sent_to_all, who_is_asked, reduced_in_place, gathered_into_a_list):
        breaks: list[Any] = []
        traced = compiled(fn, Settings(backend="eager", hooks={"on_break": breaks.append}))
        x = torch.arange(4.0).reshape(4, 1) + rank * 10
        expected = fn(x.clone())
        for _ in range(2):
            assert torch.equal(traced(x.clone()), expected), fn.__name__
        assert bool(breaks) is (fn in (reduced_in_place, gathered_into_a_list)), (fn.__name__, breaks)
    ranks.leave()
