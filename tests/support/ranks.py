"""Programs of two processes (torch.distributed over gloo)."""

from __future__ import annotations

import datetime
import os
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def on_two_processes(work: Callable[[int], Any]) -> tuple[Any, Any]:
    """What `work(rank)`, a function of a module, gives on rank 0 and on rank 1."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    results = mp.get_context("spawn").SimpleQueue()
    mp.spawn(_start, args=(port, work, results), nprocs=2)
    found = dict([results.get(), results.get()])
    return found[0], found[1]


def _start(rank: int, port: int, work: Callable[[int], Any], results: Any) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=120))
    results.put((rank, work(rank)))
    leave()


def leave() -> NoReturn:
    """End this process of the group, with success.

    torch's functional collectives keep the group alive, traced or not, and with it threads of gloo. One that wants the GIL while
    the interpreter ends is unwound through C++ that allows no exception, which aborts the process now and then.
    """
    dist.barrier()  # or the one that is done closes connections that the other still reads from
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)


def small_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
