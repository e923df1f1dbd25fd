"""`counters` of this process, such as `tracer.counters["frames"]["total"]`, and callbacks on events.

Any module may count. `tracer.reset()` does not reset the counters; `counters.clear()` does.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)

EVENTS = ("compile", "merge", "load", "recompile", "break", "miss", "skip", "limit", "evict", "timeout")
log = logging.getLogger("tracer")


class Event(NamedTuple):
    """Something that happened in a region. `kind` is one of EVENTS: "merge" is an entry made of two, "load" one from a file,
    "skip" a frame left to CPython for good, "limit" a miss beyond the recompile limit. `seconds` is what a compile took."""

    kind: str
    region: str
    function: str
    detail: str
    seconds: float
    about: Mapping[str, Any] = MappingProxyType({})  # objects, for callbacks of the tracer; a callback must not keep them


Watch = Callable[[Any, Any], Callable[..., Any]]  # (RegionState, GuardedCode) -> the check_fn to put in the entry
watch: Watch | None = None  # set to see the calls that hit; without it, a hit runs no Python code of the tracer but check_fn
listeners: list[tuple[str | None, Callable[[Event], None]]] = []  # (kind, or None for all; callback)


def add_callback(callback: Callable[[Event], None], kind: str | None = None) -> Callable[[], None]:
    """Calls back with an `Event` whenever something of this kind (all, by default) happens; returns what ends that.

    What a callback raises is logged, and goes no further. It is called on the thread where it happened, and is not to
    call compiled functions.
    Kinds: `compile, merge, load, recompile, break, miss, skip, limit, evict, timeout`; ValueError for another.

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
