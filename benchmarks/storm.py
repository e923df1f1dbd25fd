"""What bad requests cost the good ones: clients of a sealed server, a third of whose requests are bad in six ways.

    python -m benchmarks.storm [--seconds 60] [--clients 16] [--load 0.5] [--layers 4] [--explain]

The same good requests come at the same moments with and without the bad ones; the two take turns in one process, so that a
machine that others use too is as slow for both. A client answers a refused request with the text of the error.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import tracer
from benchmarks.demo_models import build
from benchmarks.open_loop import Served, arrivals, capacity, open_loop

TURN = 2.0  # seconds
BATCHES, LENGTHS = (1, 8), (8, 64)
SPEC = f"input_ids: B, S; attention_mask: B, S; B in 1..{BATCHES[1]}; S in {LENGTHS[0]}..{LENGTHS[1]}"
LEAST_RATE, MOST_P99 = 0.9, 1.5  # of what they are without bad requests
ALONE, STORM = "good requests alone", "with half as many bad ones"

Inputs = dict[str, Any]


def dtype(inputs: Inputs) -> Inputs:
    return {**inputs, "attention_mask": inputs["attention_mask"].double()}


def rank(inputs: Inputs) -> Inputs:
    return {**inputs, "input_ids": inputs["input_ids"][0]}


def size(inputs: Inputs) -> Inputs:
    return {name: torch.cat([value] * (1 + BATCHES[1])) for name, value in inputs.items()}


def no_tensor(inputs: Inputs) -> Inputs:
    return {**inputs, "input_ids": None}


def keyword(inputs: Inputs) -> Inputs:
    return {**inputs, "attention_masks": inputs["attention_mask"]}


def strides(inputs: Inputs) -> Inputs:
    """Every other column of a wider tensor."""
    return {**inputs, "input_ids": inputs["input_ids"].repeat_interleave(2, 1)[:, ::2]}


BAD: tuple[Callable[[Inputs], Inputs], ...] = (dtype, rank, size, no_tensor, keyword, strides)


def good_inputs(seed: int) -> Inputs:
    draw = random.Random(seed)
    shape = draw.randint(*BATCHES), draw.randint(*LENGTHS)
    ids = torch.randint(1, 1000, shape, generator=torch.Generator().manual_seed(seed))
    return {"input_ids": ids, "attention_mask": torch.ones(shape, dtype=torch.int64)}


@dataclasses.dataclass(frozen=True)
class Refusal:
    """The answer to a request that was refused."""

    kind: str
    text: str


@dataclasses.dataclass
class Server:
    """A compiled model, and the way in which it answers a request."""

    model: Callable[..., Any]
    explain: bool = False  # whether a refused client is given the whole explanation

    def answer(self, inputs: Mapping[str, Any]) -> Any:
        try:
            with torch.no_grad():
                return self.model(**inputs)
        except tracer.exc.SealedError as error:
            return Refusal("sealed", error.explain() if self.explain else str(error))
        except TypeError as error:
            return Refusal("no such argument", str(error))


def sealed(model: torch.nn.Module, spec: str = SPEC, example: Inputs | None = None) -> Any:
    compiled = tracer.compile(model, shapes=spec)
    with torch.no_grad():
        certificate = tracer.precompile(compiled, kwargs=good_inputs(0) if example is None else example)
    assert certificate.certified, certificate
    compiled.seal()
    return compiled


def with_bad(good: Sequence[tuple[float, Inputs]], seconds: float, seed: int) -> list[tuple[float, Inputs, bool]]:
    """(moment, inputs, whether it is good), in order of time: among the good requests half as many bad ones."""
    draw = random.Random(seed)
    bad = [(draw.uniform(0, seconds), BAD[number % len(BAD)](good_inputs(number)), False) for number in range(len(good) // 2)]
    return sorted([*((moment, inputs, True) for moment, inputs in good), *bad], key=lambda each: each[0])


@dataclasses.dataclass
class Turn:
    """The good requests of one turn."""

    served: Served
    seconds: float  # from the first moment to the end of the last one

    @property
    def rate(self) -> float:
        return len(self.served.seconds) / self.seconds


def take_turn(server: Server, coming: Sequence[tuple[float, Inputs, bool]], clients: int, refused: Counter[str]) -> Turn:
    run = open_loop(lambda turn: server.answer(coming[turn][1]), [moment for moment, *_ in coming], clients)
    refused.update(each.kind for each in run.results if isinstance(each, Refusal))
    good = [index for index, (_, _, is_good) in enumerate(coming) if is_good]
    lost = [f"a good request was refused: {run.results[at].text}" for at in good if isinstance(run.results[at], Refusal)]
    served = Served([run.seconds[at] for at in good], [run.results[at] for at in good], [*run.errors, *lost])
    return Turn(served, max(coming[at][0] + run.seconds[at] for at in good))


@dataclasses.dataclass
class Found:
    """One measurement: the turns of each side."""

    sides: dict[str, list[Turn]]
    refused: Counter[str]
    rate: float

    def ratio(self, of: Callable[[Turn], float]) -> float:
        """Of the storm to the good requests alone: the median over turns."""
        return statistics.median([of(storm) / of(alone) for storm, alone in zip(self.sides[STORM], self.sides[ALONE])])

    @property
    def errors(self) -> list[str]:
        return [error for turns in self.sides.values() for turn in turns for error in turn.served.errors]

    def kept(self) -> bool:
        rate, p99 = self.ratio(lambda turn: turn.rate), self.ratio(lambda turn: turn.served.percentile(0.99))
        return not self.errors and rate >= LEAST_RATE and p99 <= MOST_P99


def measure(seconds: float, clients: int, load: float, layers: int, explain: bool) -> Found:
    """Turns of each side for so many seconds each."""
    torch.set_num_threads(1)
    server = Server(sealed(build("bert", layers, LENGTHS[1])), explain)
    warm = [good_inputs(seed) for seed in range(200)]
    rate = load * capacity(lambda turn: server.answer(warm[turn % len(warm)]), clients, TURN)
    found = Found({ALONE: [], STORM: []}, Counter(), rate)
    for number in range(max(1, round(seconds / TURN))):
        moments = arrivals(rate, TURN, seed=number)
        good = [(moment, good_inputs(1000 * number + index)) for index, moment in enumerate(moments)]
        found.sides[ALONE].append(take_turn(server, [(*each, True) for each in good], clients, found.refused))
        found.sides[STORM].append(take_turn(server, with_bad(good, TURN, number), clients, found.refused))
    return found


ENTRIES = 64


def tells_sizes_apart(x: torch.Tensor) -> torch.Tensor:
    for size in range(1, ENTRIES):
        if x.shape[0] == size:
            x = x + size
    return x * 2


def cost_of_refusals(rounds: int = 200) -> dict[str, float]:
    """Microseconds of a call that is refused, of each kind, by a function with 64 entries, sealed or not. Medians."""
    compiled = tracer.compile(tells_sizes_apart, shapes=f"x: B, _; B in 1..{ENTRIES}", recompile_limit=2 * ENTRIES)
    certificate = tracer.precompile(compiled, example=torch.ones(3, 4), max_entries=2 * ENTRIES)
    assert certificate.certified and len(certificate.covering) == ENTRIES, certificate
    outside = torch.ones(ENTRIES + 1, 4)
    costs = {"out of the domain, not sealed": _median_cost(compiled, outside, rounds)}
    compiled.seal()
    bad = {
        "dtype": torch.ones(3, 4, dtype=torch.float64),
        "rank": torch.ones(3),
        "out of the domain": outside,
        "no tensor": None,
        "strides": torch.ones(4, 3).t(),
    }
    return costs | {kind: _median_cost(compiled, value, rounds) for kind, value in bad.items()}


def _median_cost(compiled: Callable[..., Any], value: Any, rounds: int) -> float:
    spent = []
    for _ in range(rounds):
        started = time.perf_counter()
        try:
            compiled(value)
        except tracer.exc.TracerError:
            spent.append(1e6 * (time.perf_counter() - started))
    return statistics.median(spent) if spent else 0.0  # some strides may be served


def table(found: Found) -> Table:
    shown = Table(title="Good requests: milliseconds from due to done", title_justify="left")
    for heading in ("side", "requests", "a second", "p50", "p95", "p99", "most", "errors"):
        shown.add_column(heading, justify="left" if heading == "side" else "right")
    for side, turns in found.sides.items():
        whole = Served.of_all([turn.served for turn in turns])
        times = [f"{1e3 * whole.percentile(share):.0f}" for share in (0.5, 0.95, 0.99, 1.0)]
        rate = statistics.median([turn.rate for turn in turns])
        shown.add_row(side, str(len(whole.seconds)), f"{rate:.0f}", *times, str(len(whole.errors)))
    return shown


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--load", type=float, default=0.5, help="share of what the server can serve")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--explain", action="store_true", help="a refused request is answered with error.explain()")
    found = measure(**vars(parser.parse_args(argv)))
    console = Console()
    console.print(table(found))
    console.print(
        f"{sum(found.refused.values())} requests refused ({dict(found.refused)}). In the median turn the rate of good ones is "
        f"{found.ratio(lambda turn: turn.rate):.2f} of that alone, and their p99 "
        f"{found.ratio(lambda turn: turn.served.percentile(0.99)):.2f} times it."
    )
    costs = "; ".join(f"{kind} {microseconds:.0f}" for kind, microseconds in cost_of_refusals().items())
    console.print(f"Microseconds of a refused call, with {ENTRIES} entries: {costs}.")
    return 0 if found.kept() else 1


if __name__ == "__main__":
    sys.exit(main())
