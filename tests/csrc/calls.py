"""Functions that tests of the frame hook call, with a region active or not."""

from __future__ import annotations

from tracer._C import swap_active


def run_under(region, function, *args):
    """Calls `function` with the region active: its frame and those it calls are offered."""
    before = swap_active(region)
    try:
        return function(*args)
    finally:
        swap_active(before)


def callee(x):
    return x + 1


def caller(x):
    return callee(x) * 2
