"""A decorated function beside the plain one: each call is compared, and how often it was traced is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import tracer
from tests.support.comparing import Comparison
from tracer import logs

Args = tuple[Any, ...]


class Watched:
    """`fn` under the tracer. `Watched(fn)(x)` checks one call; `traces` counts graphs, `entries` what is cached."""

    def __init__(self, fn: Any, plain: Any = None, **options: Any) -> None:
        self.plain = fn if plain is None else plain
        self.graphs: list[torch.fx.GraphModule] = []
        self.reasons: list[str] = []
        self.compiled = tracer.optimize(self.compiler, **options)(fn)

    def compiler(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(gm)
        return gm.forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls both on the very same arguments (which `fn` must leave as they are) and compares."""
        expected = seeded_outcome(self.plain, args, kwargs)
        with logs.capture("recompiles") as records:
            seen = seeded_outcome(self.compiled, args, kwargs)
        self.reasons += [record.text for record in records]
        if isinstance(seen, BaseException) and type(seen) is not type(expected):
            raise seen
        Comparison().same(expected, seen, "result")
        return seen

    @property
    def traces(self) -> int:
        return len(self.graphs)

    @property
    def entries(self) -> list[Any]:
        return tracer.region_of(self.compiled).entries()

    @property
    def codes(self) -> list[str]:
        """What is cached code of."""
        return sorted(code.co_qualname for code in tracer.region_of(self.compiled).region.codes())

    @property
    def hits(self) -> int:
        return sum(entry.hits for entry in self.entries)


def seeded_outcome(fn: Callable[..., Any], args: Args, kwargs: dict[str, Any]) -> Any:
    """The result, or the exception itself, whose traceback is compared, too."""
    torch.manual_seed(0)
    try:
        return fn(*args, **kwargs)
    except Exception as error:
        return error


def noticed(fn: Any, args: Args, change: Callable[[], Any], after: Args | None = None) -> Watched:
    """`fn` is traced, hits, then `change()` happens: the next call gives what plain Python gives, by a new trace."""
    watched = traced(fn, args)
    before = watched.traces, len(watched.entries)
    codes = watched.codes
    change()
    watched(*(args if after is None else after))
    assert (watched.traces, len(watched.entries)) != before, "the change was not noticed"
    assert watched.reasons or watched.codes != codes, "nothing says why"
    watched(*(args if after is None else after))
    return watched


def unharmed(fn: Any, args: Args, change: Callable[[], Any], after: Args | None = None) -> Watched:
    """As `noticed`, for a change that the entry serves as well: it hits, and the result is right."""
    watched = traced(fn, args)
    before = watched.traces
    change()
    hits = watched.hits
    watched(*(args if after is None else after))
    assert watched.traces == before, watched.reasons[-1:]
    assert watched.hits > hits
    return watched


def traced(fn: Any, args: Args) -> Watched:
    watched = Watched(fn)
    watched(*args)
    traces = watched.traces
    watched(*args)
    assert traces > 0 and watched.traces == traces, "no warm entry to begin with"
    return watched
