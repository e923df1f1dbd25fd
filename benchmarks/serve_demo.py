"""`make serve-demo`: the LitServe example under load, then the same server with the model uncompiled, and with torch.compile.

    python -m benchmarks.serve_demo [--seconds 10] [--rate 40] [--clients 24]

Each server has processes of its own, one after the other, and is given the same requests: bursts of sequences of random
lengths, open loop. Of the first, what its /metrics says after the load is shown. The exit status says whether everything held: no
error, logits as those of the model called alone, no compile under load, and metrics that say so.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.open_loop import Served, arrivals, open_loop

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
COMPILERS = ("tracer", "eager", "torch.compile")
LONGEST_START, LONGEST_END = 300.0, 60.0  # seconds
MOST_IN_A_BURST = 12
WARMING = 20  # requests that are not measured, one after the other
SAME = 1e-4  # batches are padded, and sums over another length are rounded in another way


class Server:
    """An example as a process of its own, with those that it starts: listens within the block, is gone after it."""

    def __init__(self, script: str, *options: str, path: str = "/predict", health: str = "/health", ready: str = "") -> None:
        """`ready`: what it prints once it is."""
        self.port = _free_port()
        self.path, self.health, self.ready = path, health, ready
        self.command = [sys.executable, str(EXAMPLES / script), "--port", str(self.port), *options]
        self.local = threading.local()

    def __enter__(self) -> Server:
        self.output = tempfile.TemporaryFile("w+")
        root = str(EXAMPLES.parents[1])
        paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        with _interruptible():
            self.process = subprocess.Popen(
                self.command,
                stdout=self.output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
                start_new_session=True,  # a key that interrupts this program interrupts it when its turn comes
            )
        end = time.monotonic() + LONGEST_START
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise RuntimeError(f"the server did not start:\n{self.told()}")
            time.sleep(0.2)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Asks it to end; what has not ended after a while is killed, and noted in `left`."""
        started = _descendants(self.process.pid)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(LONGEST_END)
        except subprocess.TimeoutExpired:
            started.add(self.process.pid)
        end = time.monotonic() + LONGEST_END
        while (left := set(filter(_is_alive, started))) and time.monotonic() < end:
            time.sleep(0.2)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        self.left = left
        self.process.wait()

    def told(self) -> str:
        """What it printed."""
        return os.pread(self.output.fileno(), 1 << 20, 0).decode(errors="replace")

    def _answers(self) -> bool:
        if self.ready and self.ready not in self.told():
            return False
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
            connection.request("GET", self.health)
            return connection.getresponse().status == 200
        except OSError:
            return False

    def ask(self, tokens: Sequence[int]) -> tuple[int, Any]:
        """Status and answer; each thread has a connection of its own."""
        if not hasattr(self.local, "connection"):
            self.local.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection = self.local.connection
        connection.request("POST", self.path, json.dumps({"tokens": list(tokens)}), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    def classify(self, tokens: Sequence[int]) -> dict[str, Any]:
        status, answer = self.ask(tokens)
        if status != 200:
            raise RuntimeError(f"status {status}: {answer}")
        return answer


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Processes that are started within hear SIGINT. A shell has the programs that it runs in the background ignore it, and these
    would ignore it, too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _descendants(pid: int) -> set[int]:
    """The processes that it started, and those that these did."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(line.split()[0]): int(line.split()[1]) for line in listed.splitlines()}
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found and child not in found}:
        found |= more
    return found - {pid}


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@dataclasses.dataclass
class Load:
    """What comes: sequences of token ids, and when each is due."""

    sequences: list[list[int]]
    due: list[float]

    @classmethod
    def random(cls, rate: float, seconds: float, seed: int = 0) -> Load:
        """Bursts, so that the server makes batches of many sizes; mostly short sequences, now and then the longest."""
        draw = random.Random(seed)
        due = []
        for moment in arrivals(2 * rate / (1 + MOST_IN_A_BURST), seconds, seed):
            due += [moment] * draw.randint(1, MOST_IN_A_BURST)
        lengths = [max(1, min(256, round(draw.lognormvariate(3.5, 1.0)))) for _ in due]
        return cls([[draw.randrange(1000) for _ in range(length)] for length in lengths], due)


@dataclasses.dataclass
class Row:
    """One server: the latencies, the shapes of its batches, and what it compiled before and under load."""

    compiler: str
    served: Served
    batches: int
    before: int
    recompiles: int
    difference: float
    metrics: dict[str, float]  # what its /metrics says after the load, by name with labels; empty where there is none

    def kept(self) -> bool:
        if self.served.errors or self.difference > SAME:
            return False
        return self.compiler != "tracer" or (self.recompiles == 0 and self.metrics_say_so())

    def metrics_say_so(self) -> bool:
        """Whether the metrics are those of a certified, sealed model of which no call missed."""
        totals: Counter[str] = Counter()
        for name, value in self.metrics.items():
            totals[name.partition("{")[0]] += value
        as_they_are = totals["shapetracer_certified"] == totals["shapetracer_sealed"] == 1
        return as_they_are and totals["shapetracer_hits_total"] > 0 and totals["shapetracer_misses_total"] == 0


def measure(compiler: str, load: Load, expected: Sequence[torch.Tensor], clients: int) -> Row:
    port = _free_port()
    reports = ["--metrics-port", str(port)] if compiler == "tracer" else []
    with Server("litserve_classifier.py", "--compiler", compiler, *reports) as server:
        before = max(server.classify(load.sequences[0])["compiles"] for _ in range(WARMING))  # sockets and threads, too
        served = open_loop(lambda turn: server.classify(load.sequences[turn]), load.due, clients)
        metrics = scraped(port) if reports else {}
    answers = [(answer, logits) for answer, logits in zip(served.results, expected) if answer is not None]
    differences = [float((torch.tensor(answer["logits"]) - logits).abs().max()) for answer, logits in answers]
    after = max([answer["compiles"] for answer, _ in answers], default=before)
    shapes = {tuple(answer["batch"]) for answer, _ in answers}
    return Row(compiler, served, len(shapes), before, after - before, max(differences, default=float("inf")), metrics)


def scraped(port: int) -> dict[str, float]:
    """What a server says of compiled models at /metrics: `shapetracer_hits_total{function="..."}` -> 1200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    told = (line.rpartition(" ") for line in lines if line.startswith("shapetracer_"))
    return {name: float(value) for name, _, value in told}


def eager_logits(load: Load) -> list[torch.Tensor]:
    """Of each sequence alone, in this process."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        from classifier import build, padded
    finally:
        sys.path.remove(str(EXAMPLES))
    model = build()
    with torch.no_grad():
        return [model(**padded([sequence]))[0][0] for sequence in load.sequences]


def table(rows: Sequence[Row]) -> Table:
    shown = Table(title="LitServe under load: milliseconds from due to answered", title_justify="left")
    headings = ("server", "requests", "batch shapes", "p50", "p95", "p99", "compiled before", "recompiles", "errors", "max diff")
    for heading in headings:
        shown.add_column(heading, justify="left" if heading == "server" else "right")
    for row in rows:
        times = [f"{1e3 * row.served.percentile(share):.0f}" for share in (0.5, 0.95, 0.99)]
        counts = [row.before, row.recompiles, len(row.served.errors)]
        shown.add_row(
            row.compiler, str(len(row.served.seconds)), str(row.batches), *times, *map(str, counts), f"{row.difference:.1e}"
        )
    return shown


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=40.0, help="requests a second")
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compilers", nargs="+", choices=COMPILERS, default=COMPILERS)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    load = Load.random(options.rate, options.seconds, options.seed)
    expected = eager_logits(load)
    console = Console(width=120)
    rows = []
    for compiler in options.compilers:
        console.print(f"{compiler}: {len(load.due)} requests by {options.clients} clients ...")
        rows.append(measure(compiler, load, expected, options.clients))
    console.print(table(rows))
    for row in rows:
        if row.metrics:
            console.print(f"GET /metrics of {row.compiler}, after the load (buckets of compiles left out):")
            shown = [f"  {name} {value:g}" for name, value in row.metrics.items() if "_bucket{" not in name]
            console.print("\n".join(shown), markup=False, highlight=False, soft_wrap=True)
    for row in rows:
        for error in dict.fromkeys(row.served.errors):
            console.print(f"{row.compiler}: {error}", style="red")
    kept = all(row.kept() for row in rows)
    console.print("No request waited for a compile; logits equal eager's." if kept else "[red]Not everything held.[/red]")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
