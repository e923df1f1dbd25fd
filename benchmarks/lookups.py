"""What finding the entry of a call costs among many entries, beside one entry alone: `lookup`, which runs no graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

import tracer
from benchmarks.measuring import MANY_ENTRIES, Call, cpu_seconds

ENTRIES = 64
SLOWEST = 8  # of these are timed again
ROUNDS_OF_THE_SLOWEST = 3  # times as many as at first
BAR = 1.5  # times one entry alone, for the call whose entry is found last
Calls = Sequence[tuple[Any, ...]]


def _constants() -> tuple[Any, Calls]:
    x = torch.ones(4)
    return tracer.compile(lambda x, n: x + n, dynamic=False, recompile_limit=MANY_ENTRIES), [(x, n) for n in range(ENTRIES)]


def _sizes() -> tuple[Any, Calls]:
    return tracer.compile(lambda x: x + 1, dynamic=False, recompile_limit=MANY_ENTRIES), [
        (torch.ones(n),) for n in range(2, 2 + ENTRIES)
    ]


def _regions() -> tuple[Any, Calls]:
    """Sixteen bands of batches, each with four classes of lengths."""

    def f(x: torch.Tensor) -> torch.Tensor:
        for band in range(1, 16):
            if x.shape[0] <= 8 * band:
                x = x + band
                break
        for rest in range(3):
            if x.shape[1] % 4 == rest:
                x = x * (rest + 2)
                break
        return x

    compiled = tracer.compile(f, shapes="x: B, S; B in 1..128; S in 1..4096", recompile_limit=MANY_ENTRIES)
    return compiled, [(torch.ones(8 * band + 3, 8 + rest),) for band in range(16) for rest in range(4)]


MAKERS: dict[str, Callable[[], tuple[Any, Calls]]] = {"constant": _constants, "size": _sizes, "region of two sizes": _regions}


def _looking(make: Callable[[], tuple[Any, Calls]], entries: int) -> list[Call]:
    compiled, calls = make()
    for args in calls[:entries]:
        compiled(*args)
    state = tracer.region_of(compiled)
    if state is None or len(state.entries()) != entries:
        raise AssertionError(f"{entries} entries were to be made")
    return [functools.partial(compiled.lookup, *args) for args in calls[:entries]]


def _nanoseconds(among: dict[int, Call], alone: Call, rounds: int) -> tuple[dict[int, float], float]:
    """Of each call among many, and of the one alone, less those of a builtin that does nothing."""
    baseline, single = -1, -2
    seconds = cpu_seconds({baseline: functools.partial(id, None), single: alone, **among}, rounds)
    least = seconds.pop(baseline)
    own = {key: 1e9 * (value - least) for key, value in seconds.items()}
    return own, own.pop(single)


def lookup(name: str, rounds: int) -> dict[str, Any]:
    """Nanoseconds of a `lookup`. The worst of many medians is the one with the most noise, so the slowest are timed again."""
    among = dict(enumerate(_looking(MAKERS[name], ENTRIES)))
    (alone,) = _looking(MAKERS[name], 1)
    times, _ = _nanoseconds(among, alone, rounds)
    slowest = sorted(times, key=lambda at: times[at])[-SLOWEST:]
    again, alone_ns = _nanoseconds({at: among[at] for at in slowest}, alone, ROUNDS_OF_THE_SLOWEST * rounds)
    worst = max(again.values())
    return {
        "kind": "lookup",
        "case": f"{ENTRIES} entries by {name}",
        "alone_ns": alone_ns,
        "mean_ns": sum(times.values()) / len(times),
        "worst_ns": worst,
        "ratio": worst / alone_ns,
        "bar": BAR,
    }
