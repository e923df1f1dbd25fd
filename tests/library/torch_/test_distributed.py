"""torch.distributed between two processes: functional collectives are in the graph, the others break it."""

from __future__ import annotations

import pathlib

import torch.multiprocessing as mp

from tests.library.torch_ import collectives


def test_collectives_between_two_processes(tmp_path: pathlib.Path) -> None:
    mp.spawn(collectives.work, args=(str(tmp_path / "meeting"),), nprocs=2)
