"""`python -m tests.fuzz 0:1000` runs the programs of these seeds; `show 7` prints one; `shrink 7` makes it short."""

from __future__ import annotations

import resource
import sys
import time

from tests.fuzz.programs import PRELUDE, Program, generate
from tests.fuzz.running import run
from tests.fuzz.shrinking import shrunk


_MOST_MEMORY = 8 << 30


def main(args: list[str]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    if args[0] == "show":
        program = generate(int(args[1]))
        print(program.source[len(PRELUDE) :])
        verdict = run(program)
        print(verdict.kind, verdict.difference, dict(verdict.breaks), verdict.graphs)
    elif args[0] == "shrink":
        for seed in args[1:]:
            _shrink(int(seed))
    else:
        first, last = map(int, args[0].split(":"))
        _sample(range(first, last))


def _shrink(seed: int) -> None:
    program = generate(seed)
    first = run(program)
    kind = first.kind
    if kind is None:
        print(seed, "has no difference")
        return

    def fails(candidate: Program) -> bool:
        try:
            verdict = run(candidate)
        except Exception:
            return False  # no program any more
        return verdict.kind == kind and verdict.raised <= first.raised

    short = shrunk(program, fails)
    print(f"---- seed {seed}, {program.calls} calls, dynamic {program.dynamic}, gradients {program.gradients}")
    print(short.source)
    print(kind, run(short).difference, flush=True)


def _sample(seeds: range) -> None:
    started, failed, graphs, broken = time.time(), 0, 0, 0
    for seed in seeds:
        verdict = run(generate(seed))
        graphs += verdict.graphs > 0
        broken += bool(verdict.breaks)
        if verdict.kind is not None:
            failed += 1
            print(seed, verdict.kind, "\n".join(verdict.difference.splitlines()[-4:])[:600], flush=True)
    print(f"{len(seeds)} programs, {failed} differ, {graphs} with a graph, {broken} with a break, {time.time() - started:.0f} s")


main(sys.argv[1:])
