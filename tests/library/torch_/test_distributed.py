"""torch.distributed between two processes: functional collectives are in the graph, the others break it."""
from __future__ import annotations

import socket

import torch.multiprocessing as mp

from tests.library.torch_ import collectives


def test_collectives_between_two_processes() -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    mp.spawn(collectives.work, args=(port,), nprocs=2)
