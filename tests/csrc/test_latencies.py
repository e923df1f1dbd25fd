"""How long the runs of an entry took, which it notes from `time_runs()` on."""

from __future__ import annotations

import math
import time

from tests.csrc.entries import Recorder, entry, fresh
from tracer._C import Dispatcher, Region


def served(replacement):
    """A call that an entry serves, and the entry."""
    made = entry(replacement)
    function = fresh(lambda x: x)
    return Dispatcher(Region(Recorder(**{function.__name__: made})), function), made


def sleeping(x):
    time.sleep(x)
    return x


sleeping.__globals__["time"] = time


def test_nothing_is_noted_until_somebody_asks():
    call, made = served(sleeping)
    call(0.0)
    assert made.latencies is None


def test_each_run_is_counted_in_the_range_of_its_time():
    call, made = served(sleeping)
    made.time_runs()
    for seconds in (0.0, 0.0, 0.0, 0.02):
        call(seconds)
    made.time_runs()  # again: what is noted stays
    total, ranges = made.latencies
    assert sum(count for _, count in ranges) == 4 and total >= 0.02
    assert [bound for bound, _ in ranges] == sorted(bound for bound, _ in ranges)
    longest, count = ranges[-1]
    assert longest >= 0.02 and count >= 1 and ranges[0][0] < 0.02
    assert math.isfinite(longest)


def test_a_run_that_raises_is_counted():
    def failing(x):
        raise ValueError(x)

    call, made = served(failing)
    made.time_runs()
    for _ in range(2):
        try:
            call(1)
        except ValueError:
            pass
    assert sum(count for _, count in made.latencies[1]) == 2
