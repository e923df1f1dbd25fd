"""Interleaved timing: the variants take turns, so that whatever else the machine does meets all of them alike."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping


def medians(variants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds per call of each variant: the median over `rounds`, in each of which every variant is called once."""
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for call in variants.values():
        call()
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            names = list(variants)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                start = time.perf_counter()
                variants[name]()
                seconds[name].append(time.perf_counter() - start)
    finally:
        gc.enable()
    return {name: statistics.median(values) for name, values in seconds.items()}


def first_call(call: Callable[[], object]) -> float:
    """Seconds that the first call takes above the second: the trace."""
    start = time.perf_counter()
    call()
    middle = time.perf_counter()
    call()
    return max(0.0, (middle - start) - (time.perf_counter() - middle))
