"""What is exported: the metrics, and their values, read from the counters that regions keep anyway.

What is compiled under one name is counted together: how many names there are is known from the program, how many objects is not.
Counts never fall, though entries are dropped and compiled functions die: what they had counted is kept here.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
import time
import types
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tracer import metrics
from tracer.metrics import Event, Histogram
from tracer.serving.readiness import still_certified

if TYPE_CHECKING:
    from tracer.runtime.missed_calls import MissedCall
    from tracer.runtime.region_state import RegionState

PREFIX = "shapetracer"
OTHER = "other"  # the reason of misses before the export began, and of those for which it was not looked for
MOST_CAUSES = 1024  # of which the reason is known
MOST_NEW_CAUSES = 50  # in a second: finding a reason takes some 0.2 ms, and bad requests are not to cost more than that


@dataclasses.dataclass
class Reading:
    """The values for all that was compiled under one name: what was counted, and `regions`, those that are alive."""

    function: str
    hits: int = 0
    misses: Counter[str] = dataclasses.field(default_factory=Counter)  # by reason
    compiles: Histogram = dataclasses.field(default_factory=Histogram)
    evictions: int = 0
    regions: tuple[RegionState, ...] = ()

    @property
    def entries(self) -> int:
        return sum(entry.valid for state in self.regions for entry in state.entries())

    @property
    def certified(self) -> bool:
        return all(state.coverage is not None and still_certified(state.coverage) for state in self.regions)

    @property
    def sealed(self) -> bool:
        return all(state.miss_handler is not None for state in self.regions)


class Metric(NamedTuple):
    """A metric: its name without the prefix, and its values in a reading, each with those of its labels."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str  # as OpenTelemetry has it: "s", or "{call}" for what is counted
    description: str
    values: Callable[[Reading], list[tuple[tuple[str, ...], Any]]]
    labels: tuple[str, ...] = ()  # beside "function"


def _one(value: Callable[[Reading], Any]) -> Callable[[Reading], list[tuple[tuple[str, ...], Any]]]:
    return lambda reading: [((), value(reading))]


METRICS = (
    Metric("hits", "counter", "{call}", "Calls that an entry served.", _one(lambda reading: reading.hits)),
    Metric(
        "misses",
        "counter",
        "{call}",
        "Calls that no entry served, by reason: no entry (there was none), undeclared (outside of the declared domain), guards, "
        "other (not looked for).",
        lambda reading: [((reason,), count) for reason, count in sorted(reading.misses.items())],
        labels=("reason",),
    ),
    Metric("compile.duration", "histogram", "s", "Seconds that each compile took.", _one(lambda reading: reading.compiles)),
    Metric("entries", "gauge", "{entry}", "Entries that there are.", _one(lambda reading: reading.entries)),
    Metric("evictions", "counter", "{entry}", "Entries that were evicted.", _one(lambda reading: reading.evictions)),
    Metric(
        "certified",
        "gauge",
        "",
        "1 if every declared shape is proved to have an entry, with the model as it is now.",
        _one(lambda reading: int(reading.certified)),
    ),
    Metric("sealed", "gauge", "", "1 if misses are not traced in their requests.", _one(lambda reading: int(reading.sealed))),
)


@dataclasses.dataclass
class _Known:
    """What one region had counted when it was last read."""

    name: str
    hits: int = 0
    evictions: int = 0
    compiles: Histogram = dataclasses.field(default_factory=Histogram)


class Readings:
    """Reads all regions, from `start` on. Misses are counted as they happen, because a miss is over when it is asked for."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._totals: dict[str, Reading] = {}  # by name; only what is counted is used
        self._known: weakref.WeakKeyDictionary[RegionState, _Known] = weakref.WeakKeyDictionary()
        self._reasons: OrderedDict[Any, str] = OrderedDict()  # cause of a miss -> reason
        self._second, self._new_causes = 0, 0
        _all.add(self)

    def after_fork(self) -> None:
        """In a forked child, where the thread that held the lock may be missing."""
        self._lock = threading.RLock()

    def start(self) -> Callable[[], None]:
        """Counts misses from now on; returns what ends that. Those of before have the reason "other"."""
        for state in _regions():
            self._total(state.name).misses[OTHER] += state.stats["miss"]
        return metrics.add_callback(self._on_miss, "miss")

    def read(self) -> list[Reading]:
        """The values now, one for each name under which something compiled is alive, in order of names."""
        with self._lock:
            named: dict[str, list[RegionState]] = {}
            for state in _regions():
                self._count(state)
                named.setdefault(state.name, []).append(state)
            return [self._reading(self._total(name), tuple(named[name])) for name in sorted(named)]

    def _reading(self, total: Reading, regions: tuple[RegionState, ...]) -> Reading:
        misses, compiles = Counter(total.misses), total.compiles.copy()
        return dataclasses.replace(total, misses=misses, compiles=compiles, regions=regions)

    def _total(self, name: str) -> Reading:
        return self._totals.setdefault(name, Reading(name))

    def _count(self, state: RegionState) -> None:
        """Adds what a region has counted since it was last read."""
        known = self._known.setdefault(state, _Known(state.name))
        total = self._total(state.name)
        hits, evictions = state.hits(), state.stats["evict"]
        total.hits += max(0, hits - known.hits)
        total.evictions += max(0, evictions - known.evictions)
        compiles = state.compiles.copy()
        total.compiles.add(compiles.since(known.compiles))
        known.hits, known.evictions, known.compiles = max(hits, known.hits), max(evictions, known.evictions), compiles

    # -- misses ------------------------------------------------------------------------------------------------------

    def _on_miss(self, event: Event) -> None:
        missed: MissedCall = event.about["missed"]
        with self._lock:
            self._total(event.region).misses[self._reason(missed)] += 1

    def _reason(self, missed: MissedCall) -> str:
        """Why a call missed, in a word. Found once for calls alike, and for so many others in a second."""
        cause = missed.cause()
        reason = self._reasons.get(cause)
        if reason is None:
            second = int(time.monotonic())
            self._second, self._new_causes = second, 1 + (self._new_causes if second == self._second else 0)
            if self._new_causes > MOST_NEW_CAUSES:
                return OTHER
            reason = self._reasons[cause] = missed.reason()
            if len(self._reasons) > MOST_CAUSES:
                self._reasons.popitem(last=False)
        return reason


def _regions() -> list[RegionState]:
    machinery: types.ModuleType | None = sys.modules.get("tracer.runtime.region_state")  # without it there is no region
    while machinery is not None:
        try:
            return list(machinery.ALL_REGIONS)
        except RuntimeError:  # another thread has compiled something meanwhile
            continue
    return []


_all: weakref.WeakSet[Readings] = weakref.WeakSet()


def _after_fork() -> None:
    for each in _all:
        each.after_fork()


os.register_at_fork(after_in_child=_after_fork)
