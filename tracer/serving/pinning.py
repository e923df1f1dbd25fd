"""`pin`, `unpin`, `compact`: entries that are never evicted, and fewer entries that serve the same calls."""

from __future__ import annotations

from typing import Any

from tracer.api.settings import compiled_region
from tracer.errors import UserError
from tracer.runtime import upkeep
from tracer.runtime.tracing_lock import TRACING
from tracer.serving.target import target_of


def pin(fn: Any, *args: Any, **kwargs: Any) -> None:
    """The entry that serves this call is not evicted when there are more entries than the capacity of the compiled function.

    The guards are checked as in a call: the entry is the one that the call would use. Nothing runs and nothing is traced.
    `precompile` pins the entries that it makes. Raises UserError if no entry serves the call.

    ```python
    compiled = tracer.compile(lambda x: x + 1, capacity=4)
    compiled(torch.ones(3))
    tracer.pin(compiled, torch.ones(3))
    tracer.unpin(compiled, torch.ones(3))
    ```
    """
    _set_pinned(fn, True, args, kwargs)


def unpin(fn: Any, *args: Any, **kwargs: Any) -> None:
    """Undoes `pin`, for the entry that serves this call.

    Raises UserError if none serves it. `pin` has an example.
    """
    _set_pinned(fn, False, args, kwargs)


def _set_pinned(fn: Any, pinned: bool, args: Any, kwargs: Any) -> None:
    target = target_of(fn)
    with TRACING:  # so that the entry is not evicted before it is pinned
        entry = target.lookup(args, kwargs)
        if entry is not None:
            entry.guarded_code.pinned = pinned
    if entry is None:
        raise UserError(
            f"no entry of {target.function.__qualname__} serves this call",
            hint="make it first, by a call or by precompile; tracer.why(fn, ...) says what misses.",
        )


def compact(fn: Any) -> int:
    """Drops entries that are not needed, and returns by how many their number fell.

    An entry is not needed if another one with the same graph is proved to serve all of its calls. Two entries with the same graph
    become one if one set of guards is proved to hold exactly where one of theirs does. A new entry is compared with the others
    when it is installed; this function compares all of them. Raises UserError for what was not compiled.

    ```python
    compiled = tracer.compile(lambda x: x + 1)
    compiled(torch.ones(3))
    assert tracer.compact(compiled) == 0
    ```
    """
    return upkeep.compact(compiled_region(fn))
