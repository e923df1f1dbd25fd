"""What finding the entry of a call costs among many entries, beside one entry alone: `lookup`, which runs no graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

import tracer
from benchmarks.measuring import MANY_ENTRIES, Call, cpu_seconds

ENTRIES = 64
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


def lookup(name: str, rounds: int) -> dict[str, Any]:
    """Nanoseconds of `lookup`, less those of a builtin that does nothing."""
    among = _looking(MAKERS[name], ENTRIES)
    (alone,) = _looking(MAKERS[name], 1)
    variants = {"nothing": functools.partial(id, None), "alone": alone, **{str(at): call for at, call in enumerate(among)}}
    seconds = cpu_seconds(variants, rounds)
    own = {key: 1e9 * (value - seconds["nothing"]) for key, value in seconds.items()}
    times = [own[str(at)] for at in range(ENTRIES)]
    return {
        "kind": "lookup",
        "case": f"{ENTRIES} entries by {name}",
        "alone_ns": own["alone"],
        "mean_ns": sum(times) / len(times),
        "worst_ns": max(times),
        "ratio": max(times) / own["alone"],
        "bar": BAR,
    }
