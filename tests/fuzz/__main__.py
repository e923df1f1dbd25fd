"""Programs by their seeds.

  python -m tests.fuzz 0:1000          runs them, prints the first difference of each that has one
  python -m tests.fuzz show 7          prints one program and what became of it
  python -m tests.fuzz shrink 7 8      the shortest programs that show the same difference
  python -m tests.fuzz report 0:20000  runs them, a process on each processor, and leaves tests/results/fuzz.md;
                                       `report 0:20000 1` takes one

With --backend NAME (`eager`, `aot_eager`, `inductor`) they are programs of tensors, compiled by that backend. A difference that
torch.compile shows with the same backend is called "shared". `--backend inductor --minutes 30` runs programs for that long,
from a seed that nobody has tried. `--backend aot_eager tally 910000:930000` runs those that have not run yet (--minutes bounds
that, too), keeps what they gave in tests/results/fuzz_aot_eager.jsonl, and leaves the table in tests/results/fuzz_compilers.md.
With --modules they are models of blocks that are equal, or nearly. `--newer-syntax 0:4000` runs those of these programs that use
syntax newer than Python 3.11's. The exit status is 1 where a program differs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import resource
import sys
import time
from collections.abc import Callable, Iterable
from itertools import count

from tests.fuzz import module_programs, programs, tensor_programs
from tests.fuzz.campaign import sample, write
from tests.fuzz.features import newer_syntax
from tests.fuzz.programs import Program
from tests.fuzz.running import run, run_plain
from tests.fuzz.shrinking import shrunk
from tests.fuzz.tally import COMPILERS_RESULT, Tally, table

_BACKENDS = ("eager", "aot_eager", "inductor")
_MOST_MEMORY = 8 << 30


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "words", nargs="*", metavar="SEEDS | show SEED | shrink SEED ... | report SEEDS [PROCESSES] | tally SEEDS"
    )
    parser.add_argument("--backend", choices=_BACKENDS)
    parser.add_argument("--modules", action="store_true")
    parser.add_argument("--newer-syntax", action="store_true")
    parser.add_argument("--minutes", type=float)
    found = parser.parse_args(args)
    if found.words[:1] not in (["report"], ["tally"]):  # whose processes limit themselves
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    generate = _generator(found.backend, found.modules)
    match found.words:
        case ["show", seed]:
            program = generate(int(seed))
            verdict = run(program)
            print(program.body, verdict, verdict.difference, sep="\n")
        case ["plain", seed]:
            run_plain(generate(int(seed)))
        case ["shrink", *seeds]:
            for seed in seeds:
                _shrink(generate(int(seed)))
        case ["chunk", first, last]:
            print(json.dumps(sample(range(int(first), int(last)), found.backend).as_json()))
        case ["report", seeds, *processes]:
            shortfalls = write(_seeds(seeds), *map(int, processes)).shortfalls()
            print("\n".join(shortfalls))
            return int(bool(shortfalls))
        case ["tally", seeds] if found.backend is not None:
            Tally(found.backend).carry_on(_seeds(seeds), found.minutes)
            COMPILERS_RESULT.write_text(table([tally for tally in map(Tally, _BACKENDS) if tally.records()]))
        case [seeds]:
            wanted = map(generate, _seeds(seeds))
            if found.newer_syntax:
                wanted = filter(lambda program: newer_syntax.NAMES & set(program.used), wanted)
            return int(_run(wanted, found.minutes) > 0)
        case [] if found.minutes is not None:
            return int(_run(map(generate, count(random.SystemRandom().randrange(1 << 40))), found.minutes) > 0)
        case _:
            parser.print_help()
    return 0


def _generator(backend: str | None, modules: bool) -> Callable[[int], Program]:
    generate = module_programs.generate if modules else programs.generate if backend is None else tensor_programs.generate
    return lambda seed: dataclasses.replace(generate(seed), backend=backend)


def _seeds(text: str) -> range:
    first, last = map(int, text.split(":"))
    return range(first, last)


def _shrink(program: Program) -> None:
    first = run(program)
    if first.kind is None:
        print(program.seed, "has no difference")
        return

    def fails(candidate: Program) -> bool:
        verdict = run(candidate)
        return (verdict.kind, verdict.shared) == (first.kind, first.shared) and verdict.raised <= first.raised

    short = shrunk(program, fails)
    print(f"# seed {program.seed}, {program.calls} calls, dynamic={program.dynamic}, gradients={program.gradients}")
    print(short.source, first.kind, run(short).difference, sep="\n", flush=True)


def _run(found: Iterable[Program], minutes: float | None) -> int:
    """Prints the difference of each program that has one; how many have."""
    started, ran, failed, shared, graphs, broken = time.time(), 0, 0, 0, 0, 0
    for program in found:
        if minutes is not None and time.time() - started > 60 * minutes:
            break
        verdict = run(program)
        ran += 1
        graphs += verdict.graphs > 0
        broken += bool(verdict.breaks)
        if verdict.kind is not None:
            failed += 1
            shared += verdict.shared
            alike = " (shared)" if verdict.shared else ""
            print(f"{program.seed} {verdict.kind}{alike}", "\n".join(verdict.difference.splitlines()[-6:])[:900], flush=True)
    took = f"{time.time() - started:.0f} s"
    print(f"{ran} programs, {failed} differ, {shared} of them shared, {graphs} with a graph, {broken} with a break, {took}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
