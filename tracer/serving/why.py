"""`why` and `stats`: which entry serves a call, or which guard fails in each; and counts of events."""

from __future__ import annotations

import dataclasses
from typing import Any

from shapes.domain import Domain, Point, point_text
from shapes.regions import nearest
from tracer import _C
from tracer.api.settings import compiled_region
from tracer.errors import UserError
from tracer.guards.manager import GuardFailure
from tracer.serving.calls import Calls
from tracer.serving.readiness import still_certified
from tracer.serving.regions import served
from tracer.serving.target import Target, target_of


@dataclasses.dataclass(frozen=True, eq=False)
class Miss:
    """An entry that does not serve the call: the first guard that fails, with the value it expects and the one it saw."""

    entry: _C.Entry
    failure: GuardFailure

    def __str__(self) -> str:
        place = f"\n      from {self.failure.where.with_code()}" if self.failure.where is not None else ""
        wanted = f"\n      would hold for {self.failure.expected}" if self.failure.expected not in ("", "true") else ""
        return f"{self.failure}{wanted}{place}"


@dataclasses.dataclass(frozen=True, eq=False)
class Why:
    """Why a call hits or misses. True in a condition if it hits."""

    function: str
    entry: _C.Entry | None
    misses: tuple[Miss, ...]
    outside: str = ""  # what was declared and does not hold
    domain: Domain | None = None
    point: Point | None = None
    nearest: Point | None = None  # another shape than that of the call
    alike: Miss | None = None  # of an entry that serves its shape: what fails is no guard on sizes

    @property
    def hit(self) -> bool:
        return self.entry is not None

    def __bool__(self) -> bool:
        return self.hit

    def __str__(self) -> str:
        where = "" if self.point is None else f" at {point_text(self.point)}"
        if self.entry is not None:
            kind = "" if self.entry.code is not None else ", which leaves it to CPython"
            guards = "".join(f"\n    {line}" for line in self.entry.guarded_code.guards_text.splitlines())
            return f"{self.function}: hit{where}, by an entry with {self.entry.hits} hits before{kind}. Its guards:{guards}"
        lines = [f"{self.function}: miss{where}"]
        if self.outside:
            lines.append(f"  {self.outside}")
        if not self.misses:
            lines.append("  there is no entry yet")
        lines += [f"  entry {number}: {miss}" for number, miss in enumerate(self.misses)]
        if self.nearest is not None:
            lines.append(f"  nearest covered shape: {point_text(self.nearest)}")
        if self.alike is not None:
            lines.append(f"  its shape is covered: the difference is not in a size{self.alike.failure.instead()}")
        return "\n".join(lines)

    __repr__ = __str__


def why(fn: Any, *args: Any, **kwargs: Any) -> Why:
    """Why a call of `fn` with these arguments hits or misses; nothing is run or traced.

    For each entry that does not serve it: the guard that fails, the user's line that made it, and the value that would hold; with
    declared shapes also the nearest shape that is covered. Raises UserError for what was not compiled or cannot be called so.

    ```python
    compiled = tracer.compile(lambda x: x + 1)
    compiled(torch.ones(3))
    assert tracer.why(compiled, torch.zeros(3)).hit
    print(tracer.why(compiled, torch.zeros(4)))
    ```
    """
    target = target_of(fn)
    slots = target.slots(args, kwargs)
    name = target.function.__qualname__
    entry = target.lookup(args, kwargs)
    point = domain = near = None
    outside = ""
    misses = () if entry is not None else tuple(_misses(target, slots))
    alike = None
    if target.state.shapes is not None:
        try:
            calls = Calls(target.state.shapes, target.function, slots)
            domain, point = calls.domain, calls.example
            if entry is None:
                near, alike = _nearest_covered(target, calls, misses)
        except UserError as error:
            outside = error.message
    return Why(name, entry, misses, outside, domain, point, near, alike)


def _misses(target: Target, slots: tuple[Any, ...]) -> list[Miss]:
    found = []
    for entry in target.entries():
        failure = entry.guarded_code.manager.explain(slots, target.function.__closure__)
        if failure is not None:
            found.append(Miss(entry, failure))
    return found


def _nearest_covered(target: Target, calls: Calls, misses: tuple[Miss, ...]) -> tuple[Point | None, Miss | None]:
    """The nearest shape that an entry covers, whatever other guards fail for this call. Where an entry covers its very shape:
    None, and what that entry misses."""
    regions = {entry: served(entry, calls).region for entry in target.entries()}
    alike = next((miss for miss in misses if miss.entry in regions and regions[miss.entry].check(calls.example)), None)
    if alike is not None or not regions:
        return None, alike
    return nearest(calls.domain, list(regions.values()), calls.example), None


def stats(fn: Any) -> dict[str, Any]:
    """What happened to a compiled object so far: counts, and for each entry its function, hits and kind.

    Raises UserError for what was not compiled.

    ```python
    compiled = tracer.compile(lambda x: x + 1)
    compiled(torch.ones(3))
    assert tracer.stats(compiled)["compiles"] == 1
    ```
    """
    state = compiled_region(fn)
    entries = state.entries()
    return {
        "region": state.name,
        "hits": state.hits(),
        **{f"{name}s" if name != "miss" else "misses": state.stats[name] for name in ("miss", "compile", "recompile", "break")},
        "evictions": state.stats["evict"],
        "limit_hits": state.stats["limit"],
        "timeouts": state.stats["timeout"],
        "skips": state.stats["skip"],
        "sealed_misses": state.stats["sealed miss"],
        "undeclared": state.stats["undeclared"],
        "seconds_compiling": state.compile_seconds,
        "certified": state.coverage is not None and still_certified(state.coverage),
        "entries": list(map(_entry_record, entries)),
    }


def _entry_record(entry: _C.Entry) -> dict[str, Any]:
    guarded = entry.guarded_code
    return {
        "function": entry.qualname,
        "hits": entry.hits,
        "graph": guarded.graph_name,
        "broken": guarded.broken,
        "pinned": guarded.pinned,
    }
