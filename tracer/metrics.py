"""`counters` of this process, such as `tracer.counters["frames"]["total"]`, and callbacks on events.

Any module may count. `tracer.reset()` does not reset the counters; `counters.clear()` does.
"""

from __future__ import annotations

import bisect
import itertools
import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple


class Counters(MutableMapping[str, Counter[str]]):
    """kind -> what was counted of it; a kind that is asked for is there."""

    def __init__(self) -> None:
        self._kinds: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def __getitem__(self, kind: str) -> Counter[str]:
        return self._kinds[kind]

    def __setitem__(self, kind: str, counted: Counter[str]) -> None:
        self._kinds[kind] = counted

    def __delitem__(self, kind: str) -> None:
        del self._kinds[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def __repr__(self) -> str:
        return repr(dict(self._kinds))

    def keep_in(self, kinds: defaultdict[str, Counter[str]]) -> None:
        """From now on counts in `kinds`, to which what was counted so far is added."""
        for kind, counted in self._kinds.items():
            kinds[kind].update(counted)
        self._kinds = kinds


counters = Counters()

EVENTS = (
    "compile", "merge", "load", "share", "recompile", "break", "miss", "skip", "limit", "evict", "timeout",
    "certificate", "seal", "unseal",
)  # fmt: skip
MAKING = ("compile", "merge", "load", "share")  # the events that make an entry
log = logging.getLogger("tracer")


COMPILE_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)  # seconds


class Histogram:
    """Counts of values by ranges, each up to one of `bounds`, and one more beyond the last; and their sum."""

    def __init__(self, bounds: Sequence[float] = COMPILE_BOUNDS) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def note(self, value: float) -> None:
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.sum += value

    def copy(self) -> Histogram:
        made = Histogram(self.bounds)
        made.counts, made.sum = list(self.counts), self.sum
        return made

    def since(self, earlier: Histogram) -> Histogram:
        """What was noted after an earlier copy was made."""
        made = Histogram(self.bounds)
        made.counts = [now - before for now, before in zip(self.counts, earlier.counts)]
        made.sum = self.sum - earlier.sum
        return made

    def add(self, other: Histogram) -> None:
        """Takes over what another one, of the same bounds, has counted."""
        self.counts = [one + more for one, more in zip(self.counts, other.counts)]
        self.sum += other.sum

    def cumulative(self) -> list[tuple[float, int]]:
        """(bound, count of all values up to it); the last bound is infinite."""
        return list(zip((*self.bounds, float("inf")), itertools.accumulate(self.counts)))


class Input(NamedTuple):
    """A tensor or an int among the arguments of a call, without data: `L['x']`, `torch.float32`, `(4, 5)`. Of an int that is an
    argument itself, `value` is the int, as a size; ints in containers are data."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None = None
    value: int | None = None

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.name}: {self.dtype if self.value is None else self.value}"
        return f"{self.name}: {self.dtype.removeprefix('torch.')}{list(self.shape)}"


class Event:
    """Something that happened in a region: data that may be kept, printed and pickled, and no value that the program computes
    with.

    `kind` is one of EVENTS: "merge" is an entry made of two, "load" one from a file, "share" one taken over from the region of an
    equal module, "skip" a frame left to CPython for good, "limit" a miss beyond the recompile limit, "certificate" the result of
    a `precompile` or `coverage` (`reason` is its status).
    `detail` says what happened, in words. `seconds` is what a compile took. `reason`
    is a word to count by: of a miss, "no entry", "undeclared" (outside of the declared domain) or "guards". `policy` is what is
    done about a miss: "trace", "error", "eager" or "background", or the stance of the thread. `entry` is the name of the entry's
    graph, `inputs` describes the arguments of the call, `thread` is the name of the thread on which it happened.
    """

    __slots__ = ("_detail", "_reason", "about", "entry", "function", "inputs", "kind", "policy", "region", "seconds", "thread")

    def __init__(
        self,
        kind: str,
        region: str,
        function: str,
        detail: str | Callable[[], str],
        seconds: float = 0.0,
        about: Mapping[str, Any] = MappingProxyType({}),
        *,
        reason: str | Callable[[], str] = "",
        policy: str = "",
        entry: str = "",
        inputs: tuple[Input, ...] = (),
        thread: str = "",
    ) -> None:
        """`detail` and `reason` may be found when they are asked for. `about`: objects, for callbacks of the tracer, which must
        not keep them."""
        self.kind, self.region, self.function, self.seconds, self.about = kind, region, function, seconds, about
        self.policy, self.entry, self.inputs = policy, entry, inputs
        self.thread = thread or threading.current_thread().name
        self._detail, self._reason = detail, reason

    @property
    def detail(self) -> str:
        if not isinstance(self._detail, str):
            self._detail = self._detail()
        return self._detail

    @property
    def reason(self) -> str:
        if not isinstance(self._reason, str):
            self._reason = self._reason()
        return self._reason

    def data(self) -> dict[str, Any]:
        """All of it, in plain values."""
        names = ("kind", "region", "function", "detail", "seconds", "reason", "policy", "entry", "inputs", "thread")
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        return f"Event({', '.join(f'{name}={value!r}' for name, value in self.data().items() if value)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _event_of, (self.data(),)


def _event_of(data: dict[str, Any]) -> Event:
    return Event(**data)


Watch = Callable[[Any, Any], Callable[..., Any]]  # (RegionState, GuardedCode) -> the check_fn to put in the entry
watch: Watch | None = None  # set to see the calls that hit; without it, a hit runs no Python code of the tracer but check_fn
listeners: list[tuple[str | None, Callable[[Event], None]]] = []  # (kind, or None for all; callback)


def add_callback(callback: Callable[[Event], None], kind: str | None = None) -> Callable[[], None]:
    """Calls back with an `Event` whenever something of this kind (all, by default) happens; returns what ends that.

    What a callback raises is logged, and goes no further. It is called on the thread where it happened, and is not to
    call compiled functions.
    Kinds: `compile, merge, load, recompile, break, miss, skip, limit, evict, timeout, certificate, seal, unseal`; ValueError for
    another.

    ```python
    seen = []
    stop = tracer.add_callback(seen.append, "compile")
    tracer.compile(lambda x: x + 1)(torch.ones(2))
    stop()
    assert seen[0].kind == "compile" and seen[0].seconds > 0
    ```
    """
    if kind is not None and kind not in EVENTS:
        raise ValueError(f"there is no event {kind!r}; there are {', '.join(EVENTS)}")
    listener = (kind, callback)
    listeners.append(listener)

    def remove() -> None:
        if listener in listeners:
            listeners.remove(listener)

    return remove


def notify(event: Event) -> None:
    """Calls the callbacks for an event; logs what they raise."""
    for kind, callback in list(listeners):
        if kind is None or kind == event.kind:
            try:
                callback(event)
            except Exception:
                log.exception("a callback on %s failed", event.kind)
