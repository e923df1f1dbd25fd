"""An open-loop load: requests come when they are due, whether or not those before them are done, so that waiting is seen."""

from __future__ import annotations

import dataclasses
import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any


@dataclasses.dataclass
class Served:
    """What a load met: seconds from the moment at which each request was due to its end, results, and errors."""

    seconds: list[float]
    results: list[Any]
    errors: list[str] = dataclasses.field(default_factory=list)

    def percentile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    @classmethod
    def of_all(cls, runs: Sequence[Served]) -> Served:
        """As one run."""
        return cls(
            [each for run in runs for each in run.seconds],
            [each for run in runs for each in run.results],
            [each for run in runs for each in run.errors],
        )


def arrivals(rate: float, seconds: float, seed: int) -> list[float]:
    """Moments of a Poisson process of `rate` a second."""
    draw, moments, moment = random.Random(seed), [], 0.0
    while (moment := moment + draw.expovariate(rate)) < seconds:
        moments.append(moment)
    return moments


def open_loop(call: Callable[[int], Any], due: Sequence[float], threads: int) -> Served:
    """`call(i)` for each request, when it is due or as soon after as one of the threads is free."""
    served = Served([0.0] * len(due), [None] * len(due))
    turns = itertools.count()
    start = time.perf_counter() + 0.1

    def client() -> None:
        while (turn := next(turns)) < len(due):
            moment = start + due[turn]
            time.sleep(max(0.0, moment - time.perf_counter()))
            try:
                served.results[turn] = call(turn)
            except Exception as error:
                served.errors.append(f"{type(error).__name__}: {error}")
            served.seconds[turn] = time.perf_counter() - moment

    together(client, threads)
    return served


def capacity(call: Callable[[int], Any], threads: int, seconds: float) -> float:
    """Requests a second that the threads get done when each begins the next one at once."""
    turns, done = itertools.count(), itertools.count()
    start = time.perf_counter()

    def client() -> None:
        while time.perf_counter() < start + seconds:
            call(next(turns))
            next(done)

    together(client, threads)
    return next(done) / (time.perf_counter() - start)


def together(work: Callable[[], None], count: int) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
