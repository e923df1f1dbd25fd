"""`python -m tests.fuzz`: programs by their seeds.

0:1000          runs them, prints the first difference of each that has one
show 7          prints one program and what became of it
shrink 7 8      the shortest programs that show the same difference
report 0:20000  runs them, one process for each processor, and leaves tests/results/fuzz.md; `report 0:20000 1` takes one
"""

from __future__ import annotations

import json
import resource
import sys
import time

from tests.fuzz.campaign import sample, write
from tests.fuzz.programs import PRELUDE, Program, generate
from tests.fuzz.running import run
from tests.fuzz.shrinking import shrunk

_MOST_MEMORY = 8 << 30


def main(args: list[str]) -> None:
    if args[:1] != ["report"]:  # whose processes limit themselves
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    match args:
        case ["show", seed]:
            program = generate(int(seed))
            verdict = run(program)
            print(program.source[len(PRELUDE) :], verdict, verdict.difference, sep="\n")
        case ["shrink", *seeds]:
            for seed in seeds:
                _shrink(int(seed))
        case ["chunk", first, last]:
            print(json.dumps(sample(range(int(first), int(last))).as_json()))
        case ["report", seeds, *processes]:
            print("\n".join(write(_seeds(seeds), *map(int, processes)).shortfalls()))
        case [seeds]:
            _run(_seeds(seeds))
        case _:
            print(__doc__)


def _seeds(text: str) -> range:
    first, last = map(int, text.split(":"))
    return range(first, last)


def _shrink(seed: int) -> None:
    program = generate(seed)
    first = run(program)
    if first.kind is None:
        print(seed, "has no difference")
        return

    def fails(candidate: Program) -> bool:
        verdict = run(candidate)
        return verdict.kind == first.kind and verdict.raised <= first.raised

    short = shrunk(program, fails)
    print(f"# seed {seed}, {program.calls} calls, dynamic={program.dynamic}, gradients={program.gradients}")
    print(short.source, first.kind, run(short).difference, sep="\n", flush=True)


def _run(seeds: range) -> None:
    started, failed, graphs, broken = time.time(), 0, 0, 0
    for seed in seeds:
        verdict = run(generate(seed))
        graphs += verdict.graphs > 0
        broken += bool(verdict.breaks)
        if verdict.kind is not None:
            failed += 1
            print(seed, verdict.kind, "\n".join(verdict.difference.splitlines()[-4:])[:600], flush=True)
    print(f"{len(seeds)} programs, {failed} differ, {graphs} with a graph, {broken} with a break, {time.time() - started:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
