"""`make profile CASE=...`: where the time of one case goes. `CASE=list` names them.

    python -m benchmarks.profile_case CASE [--dynamic] [--side own|torch] [--lines N] [--depth N]

Cold cases: cProfile of one trace, by time spent in each function itself and by room of the tracer. Warm cases: the text of
check_fn, and nanoseconds of the call, the dispatch and check_fn apart (C has no lines that cProfile could see).
"""

from __future__ import annotations

import argparse
import collections
import cProfile
import pstats
import sys
from pathlib import Path
from typing import Any

import torch

import tracer
from benchmarks import measuring, trace_cases
from benchmarks.bench import case_names
from benchmarks.warm_cases import CASES

ROOT = Path(__file__).parents[1]


def room(filename: str) -> str:
    """Where a function lives: a room of the tracer, or the package."""
    path = Path(filename)
    if path.is_relative_to(ROOT):
        return "/".join(path.relative_to(ROOT).parts[:2])
    for package in ("torch/_subclasses", "torch/_refs", "torch/_prims", "torch/_dynamo", "torch/fx", "torch"):
        if f"/site-packages/{package}/" in filename:
            return package
    return "builtins" if filename == "~" else "other Python"


def profile_trace(case: trace_cases.Traced, side: str, dynamic: bool, lines: int) -> None:
    decorate = measuring.own if side == "own" else measuring.theirs
    measuring._first_call(case, decorate, dynamic)
    measuring.forget()
    call = decorate(case.model, dynamic=dynamic)
    profile = cProfile.Profile()
    with torch.no_grad():
        profile.enable()
        call(*case.args, **case.kwargs)
        profile.disable()
    stats = pstats.Stats(profile)
    stats.sort_stats("tottime").print_stats(lines)
    rooms: dict[str, float] = collections.Counter()
    for (filename, _, _), (_, _, own_time, _, _) in stats.stats.items():  # type: ignore[attr-defined]
        rooms[room(filename)] += own_time
    print("seconds by room:")
    for name, seconds in sorted(rooms.items(), key=lambda item: -item[1])[:25]:
        print(f"  {seconds:8.3f}  {name}")


def profile_warm(name: str) -> None:
    made: list[Any] = []

    def noting(target: Any, **options: Any) -> Any:
        made.append(measuring.own(target, **options))
        return made[-1]

    CASES[name].make(noting)()
    state = tracer.region_of(made[0])
    for entry in [] if state is None else state.entries():
        print(entry.guarded_code.manager.exec_text)
    for key, value in measuring.warm(name, 15).items():
        print(f"{key:20} {value if not isinstance(value, float) else round(value, 3)}")


def main() -> int:
    arguments = argparse.ArgumentParser(prog="benchmarks.profile_case")
    arguments.add_argument("case")
    arguments.add_argument("--dynamic", action="store_true")
    arguments.add_argument("--side", choices=("own", "torch"), default="own")
    arguments.add_argument("--lines", type=int, default=40)
    arguments.add_argument("--depth", type=int)
    options = arguments.parse_args()
    measuring.quiet()
    kind, _, name = options.case.partition(":")
    if options.case not in case_names():
        print("the cases are:", *case_names(), sep="\n  ")
        return int(options.case != "list")
    if kind == "warm":
        profile_warm(name)
    elif kind == "loop":
        case = trace_cases.Traced(trace_cases.python_loop, (torch.ones(2), trace_cases.LOOP_STEPS))
        profile_trace(case, options.side, options.dynamic, options.lines)
    else:
        profile_trace(trace_cases.build(name, options.depth), options.side, options.dynamic, options.lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
