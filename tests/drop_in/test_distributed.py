"""DDP and FSDP2 on two processes: under `tracer.install()`, what is compiled trains to the weights of what is not."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import tracer
from tests.support.ranks import on_two_processes, small_model

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo"),
]


def sharded(module):
    for layer in (module[0], module[2]) if isinstance(module, torch.nn.Sequential) else ():
        fully_shard(layer)
    return fully_shard(module)


def in_place(module):
    module.compile()
    return module


WRAPPERS = {"ddp": DistributedDataParallel, "fsdp2": sharded}
COMPILED = {  # how -> what wraps and compiles
    "around": lambda wrap, module: torch.compile(wrap(module)),
    "inside": lambda wrap, module: wrap(torch.compile(module)),
    "in place": lambda wrap, module: wrap(in_place(module)),
}


def trained(module, rank):
    """The weights after a few steps with batches whose sizes vary, differently on each rank."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for step in range(4):
        random = torch.Generator().manual_seed(2 * step + rank)
        rows = 4 + step % 3 * (rank + 1)
        x, y = torch.randn(rows, 8, generator=random), torch.randint(0, 4, (rows,), generator=random)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(x), y).backward()
        optimizer.step()
    full = [each.full_tensor() if isinstance(each, DTensor) else each for each in module.parameters()]
    return torch.cat([each.detach().flatten() for each in full])


def work(rank):
    with tracer.install(backend="eager"):
        for kind, wrap in WRAPPERS.items():
            expected = trained(wrap(small_model()), rank)
            for how, compiled in COMPILED.items():
                torch._dynamo.reset()  # equal modules take over what others have compiled
                before = torch._dynamo.utils.counters["frames"]["ok"]
                torch.testing.assert_close(trained(compiled(wrap, small_model()), rank), expected, msg=f"{kind}, compiled {how}")
                assert torch._dynamo.utils.counters["frames"]["ok"] > before, f"{kind}, compiled {how}: nothing was traced"


def test_compiled_models_train_to_the_same_weights_on_two_processes():
    on_two_processes(work)
