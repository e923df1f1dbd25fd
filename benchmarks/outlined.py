"""The first answer under Inductor, with equal blocks compiled once, beside torch.compile; caches are empty.

    python -m benchmarks.outlined SIDE MODEL [--depth N]

runs one process of SIDE (`outline`, `flat` or `torch`) and prints JSON.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
from typing import Any

MODELS = ("bert", "llama", "t5")
BAR = 0.35


def outlined(model: str, depth: int | None = None) -> dict[str, Any]:
    """A row for the table of `make bench`."""
    own, torch = _run("outline", model, depth), _run("torch", model, depth)
    return {
        "kind": "outline",
        "case": f"{model}, Inductor",
        "own_s": own["seconds"],
        "torch_s": torch["seconds"],
        "own_with_children_s": own["seconds"] + own["children"],
        "torch_with_children_s": torch["seconds"] + torch["children"],
        "ratio": own["seconds"] / torch["seconds"],
        "bar": BAR,
    }


def _run(side: str, model: str, depth: int | None) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.outlined", side, model]
    if depth is not None:
        command += ["--depth", str(depth)]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def first_answer(side: str, model: str, depth: int | None) -> dict[str, float]:
    """CPU seconds of the decoration and the first call, and those of the processes that it started. Sources are compiled to
    bytecode before, as pip does with what it installs, torch among it: else 1.3 s of a first call are spent on that."""
    for package in ("tracer", "shapes"):
        compileall.compile_dir(pathlib.Path(__file__).parents[1] / package, quiet=1)
    import torch

    import tracer
    from benchmarks import trace_cases

    case = trace_cases.build(model, depth)
    own, children = _cpu(resource.RUSAGE_SELF), _cpu(resource.RUSAGE_CHILDREN)
    with torch.no_grad():
        compiled: Any = (
            torch.compile(case.model) if side == "torch" else tracer.compile(case.model, backend="inductor", repeated=side)
        )
        compiled(*case.args, **case.kwargs)
    return {"seconds": _cpu(resource.RUSAGE_SELF) - own, "children": _cpu(resource.RUSAGE_CHILDREN) - children}


def _cpu(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=("outline", "flat", "torch"))
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--depth", type=int)
    given = parser.parse_args()
    print(json.dumps(first_answer(given.side, given.model, given.depth)))


if __name__ == "__main__":
    main()
