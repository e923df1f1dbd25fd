"""What a trace in the background costs the requests that it runs beside: an open-loop load on many threads, and latencies.

    python -m benchmarks.beside_requests [--seconds 60] [--threads 32] [--novel 0.1] [--load 0.5]

Every shape needs an entry of its own here (`dynamic=False`), so that each novel one is a miss, and the worker traces all the
time. Against it stands such a load on the model itself, beside one thread that runs a Python loop. The two take turns in one
process, so that a machine that others use too is as slow for both.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import random
import statistics
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import tracer
from benchmarks.demo_models import Request, build
from benchmarks.open_loop import Served, arrivals, capacity, open_loop
from tracer.serving import background, sealing
from tracer.serving.target import target_of

KNOWN = 12  # shapes that are compiled before the load begins
BATCHES, LENGTHS = (1, 16), (8, 160)
TURN = 5.0  # seconds
EAGER, BUSY, TRACING = "eager", "eager, busy thread", "traced in the background"
MOST = 1.5  # times the p99 of eager beside a busy thread
Model = Callable[..., Any]


@dataclasses.dataclass
class Compared:
    """One measurement: the turns of each side, and what the worker did meanwhile."""

    rate: float
    sides: dict[str, list[Served]]
    compiles: int
    duplicates: int
    misses: int
    different: int

    def ratio(self) -> float:
        """p99 while the worker traces, over p99 of eager beside a busy thread: the median over turns."""
        turns = zip(self.sides[TRACING], self.sides[BUSY])
        return statistics.median([tracing.percentile(0.99) / busy.percentile(0.99) for tracing, busy in turns])

    def errors(self) -> list[str]:
        return Served.of_all([run for runs in self.sides.values() for run in runs]).errors

    def kept(self) -> bool:
        return not (self.errors() or self.duplicates or self.different) and self.compiles > 0 and self.ratio() <= MOST


def requests(seed: int, count: int, novel: float) -> list[Request]:
    """Known shapes, and now and then one that has not come before and does not come again."""
    draw = random.Random(seed)
    every = [(batch, length) for batch in range(BATCHES[0], BATCHES[1] + 1) for length in range(LENGTHS[0], LENGTHS[1] + 1)]
    shapes = random.Random(0).sample(every, len(every))
    known, others = shapes[:KNOWN], shapes[KNOWN:]
    draw.shuffle(others)
    fresh = iter(others)
    return [Request(*(next(fresh) if draw.random() < novel else draw.choice(known)), seed=index) for index in range(count)]


def serving(model: Model, inputs: Sequence[dict[str, torch.Tensor]]) -> Callable[[int], Any]:
    """A request by its number."""

    def call(turn: int) -> Any:
        with torch.no_grad():
            return model(**inputs[turn % len(inputs)])[0]

    return call


@contextlib.contextmanager
def busy_thread() -> Iterator[None]:
    """Beside it, another thread runs a loop in Python."""
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(range(100))

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def sealed(model: torch.nn.Module, known: Sequence[Request]) -> Any:
    """Compiled for the known shapes, each on its own; what else comes is traced in the background."""
    compiled = tracer.compile(model, dynamic=False, recompile_limit=1 << 20)
    with torch.no_grad():
        for request in known:
            compiled(**request.inputs())
    compiled.seal(on_miss="background")
    return compiled


def duplicates(compiled: Any, shapes: Sequence[Request]) -> int:
    """Entries beyond the first that serve one shape."""
    target = target_of(compiled)
    entries, more = target.entries(), 0
    with torch.no_grad():
        for request in {(each.batch, each.length): each for each in shapes}.values():
            slots = target.slots((), request.inputs())
            slots = (*slots, target.function.__closure__) if target.function.__code__.co_freevars else slots
            serving = [entry for entry in entries if entry.guarded_code.manager.holds(entry.check_fn(*slots))]
            more += max(0, len(serving) - 1)
    return more


def compare(seconds: float, threads: int, novel: float, load: float, layers: int) -> Compared:
    """Turns of each side until the sealed model has served for so many seconds."""
    torch.set_num_threads(1)
    tracer.config.accumulated_recompile_limit = 1 << 20
    model = build("bert", layers)
    warm = requests(1, 400, 0.0)
    rate = load * capacity(serving(model, [request.inputs() for request in warm]), threads, TURN)
    compiled = sealed(model, list({(each.batch, each.length): each for each in warm}.values()))
    entries = tracer.region_of(compiled).entries
    gc.collect()
    gc.freeze()  # as docs/serving.md advises: a full collection stops all threads, and is long where it looks at all of torch
    due = arrivals(rate, seconds, seed=2)
    coming = requests(3, len(due), novel)
    found = Compared(rate, {EAGER: [], BUSY: [], TRACING: []}, -len(entries()), 0, 0, 0)
    for turn in range(max(1, round(seconds / TURN))):
        now = [index for index, moment in enumerate(due) if turn * TURN <= moment < (turn + 1) * TURN]
        moments, inputs = [due[index] - turn * TURN for index in now], [coming[index].inputs() for index in now]
        eager = serving(model, inputs)
        found.sides[TRACING].append(run := open_loop(serving(compiled, inputs), moments, threads))
        found.different += sum(seen is not None and not torch.equal(eager(at), seen) for at, seen in enumerate(run.results))
        background.WORKER.forget()
        sealing.wait()
        with busy_thread():
            found.sides[BUSY].append(open_loop(eager, moments, threads))
        if turn % 4 == 0:
            found.sides[EAGER].append(open_loop(eager, moments, threads))
    found.compiles += len(entries())
    found.misses = tracer.region_of(compiled).stats["sealed miss"]
    found.duplicates = duplicates(compiled, [*warm, *coming])
    return found


def table(found: Compared) -> Table:
    shown = Table(title="Milliseconds from due to done", title_justify="left")
    for heading in ("side", "requests", "p50", "p95", "p99", "most", "errors"):
        shown.add_column(heading, justify="left" if heading == "side" else "right")
    for side, runs in found.sides.items():
        whole = Served.of_all(runs)
        times = [f"{1e3 * whole.percentile(share):.0f}" for share in (0.5, 0.95, 0.99, 1.0)]
        shown.add_row(side, str(len(whole.seconds)), *times, str(len(whole.errors)))
    return shown


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=32)
    parser.add_argument("--novel", type=float, default=0.1, help="share of requests with a shape that never came")
    parser.add_argument("--load", type=float, default=0.5, help="share of eager's capacity")
    parser.add_argument("--layers", type=int, default=2)
    options = parser.parse_args(argv)
    found = compare(**vars(options))
    console = Console()
    console.print(table(found))
    p99 = {side: " ".join(f"{1e3 * run.percentile(0.99):.0f}" for run in runs) for side, runs in found.sides.items()}
    console.print(
        f"{found.rate:.0f} requests/s, {options.threads} threads; {found.misses} misses, {found.compiles} compiles, "
        f"{found.duplicates} duplicates, {found.different} results differ from eager.\n"
        f"p99 by turn: {p99[TRACING]} ({TRACING}), {p99[BUSY]} ({BUSY}): {found.ratio():.2f} times it in the median turn."
    )
    return 0 if found.kept() else 1


if __name__ == "__main__":
    sys.exit(main())
