"""The first answer of a process whose predecessor has compiled the same model with Inductor and kept it.

    python -m benchmarks.second_process SIDE FOLDER [--depth N]

runs one process of SIDE (`own` or `torch`) that keeps what it compiles in FOLDER, and prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BAR = 2.0


def second_process(depth: int | None = None) -> dict[str, Any]:
    """A row for the table of `make bench`."""
    with tempfile.TemporaryDirectory() as folder:
        second = {}
        for side in ("own", "torch"):
            _run(side, folder, depth)
            second[side] = _run(side, folder, depth)
    own = second["own"]
    nothing_is_done_again = own["frames"] == 0 and own["graphs"] == 0
    return {
        "kind": "second process",
        "case": "BERT, Inductor",
        "own_frames": own["frames"],
        "own_compiles": own["graphs"],
        "torch_compiles": second["torch"]["graphs"],
        "own_s": own["seconds"],
        "torch_s": second["torch"]["seconds"],
        "ratio": own["seconds"],
        "bar": BAR if nothing_is_done_again else 0.0,
    }


def _run(side: str, folder: str, depth: int | None) -> dict[str, float]:
    """One process, which finds the caches of `folder` and no others."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(Path(folder) / f"inductor-{side}")}
    if side == "own":
        environment["TRACER_CACHE_DIR"] = str(Path(folder) / "entries")
    command = [sys.executable, "-m", "benchmarks.second_process", side, folder]
    if depth is not None:
        command += ["--depth", str(depth)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def first_answer(side: str, depth: int | None) -> dict[str, float]:
    """Seconds of importing the tracer, decorating and the first call, and what was traced and compiled for it. The model and what
    it needs are there before."""
    import torch

    from benchmarks import trace_cases

    torch.manual_seed(0)
    case = trace_cases.build("bert", depth)
    start = time.perf_counter()
    with torch.no_grad():
        if side == "own":
            import tracer

            call: Any = tracer.compile(case.model, backend="inductor")
        else:
            call = torch.compile(case.model)
        call(*case.args, **case.kwargs)
    seconds = time.perf_counter() - start
    if side == "own":
        return {"seconds": seconds, "frames": tracer.stats(call)["compiles"], "graphs": tracer.counters["stats"]["unique_graphs"]}
    counters = torch._dynamo.utils.counters
    return {"seconds": seconds, "frames": counters["frames"]["ok"], "graphs": counters["stats"]["unique_graphs"]}


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(prog="benchmarks.second_process")
    arguments.add_argument("side", choices=("own", "torch"))
    arguments.add_argument("folder")
    arguments.add_argument("--depth", type=int)
    options = arguments.parse_args()
    print(json.dumps(first_answer(options.side, options.depth)))
