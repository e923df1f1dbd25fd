"""`ready`: whether the entries that a certificate counts on still serve their calls, with the model as it is now.

A certificate keeps, for each entry, the metadata of one call that the entry serves, and the state of torch for which that was
proved. Asking is running check functions, which takes microseconds for each; what has changed is explained when it is read.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from types import CellType
from typing import TYPE_CHECKING, Any

import torch

from shapes.domain import point_text
from tracer import _C
from tracer.errors import UserError
from tracer.guards.manager import GuardFailure
from tracer.runtime.call_metadata import CallMetadata
from tracer.runtime.missed_calls import MOST_ENTRIES_EXPLAINED
from tracer.runtime.thread_state import ThreadState
from tracer.serving.calls import Family, TooLarge
from tracer.serving.target import Target, target_of

if TYPE_CHECKING:
    from tracer.serving.coverage_result import Coverage
    from tracer.serving.regions import Served


@dataclasses.dataclass(frozen=True, eq=False)
class Probe:
    """A call that an entry served when it was certified, as metadata."""

    entry: _C.Entry
    call: CallMetadata
    thread: ThreadState
    closure: tuple[CellType, ...] | None
    where: str

    def holds(self) -> bool | None:
        """Whether the entry would serve the call now; None if the call cannot be made again, as its objects are gone. To be asked
        under the probe's state of torch."""
        if not self.entry.valid:
            return False
        manager = self.entry.guarded_code.manager
        slots = self.call.slots()
        if not self.call.is_whole(slots):
            return None
        try:
            return bool(manager.holds(manager.check_fn(*slots, *([self.closure] if manager.code.co_freevars else []))))
        except Exception:  # a value that the guards read is gone
            return False

    def failure(self) -> GuardFailure | None:
        with self.thread.entered():
            found: GuardFailure | None = self.entry.guarded_code.manager.explain(self.call.slots(), self.closure)
            return found

    def __str__(self) -> str:
        return f"calls at {self.where} under {self.thread.text()}"


def probes_of(entries: Sequence[Served], calls: Family) -> tuple[Probe, ...]:
    """A probe for each entry that serves calls like the example, under the state of torch of this thread."""
    return tuple([probe for each in entries if (probe := _probe(each, calls)) is not None and probe.holds()])


def _probe(each: Served, calls: Family) -> Probe | None:
    point = calls.example if calls.copies_objects else each.witness  # copies die, and cannot be asked again
    if point is None or not calls.is_small(dict(point)) or not each.region.check(dict(point)):
        return None
    try:
        slots = calls.slots if calls.copies_objects else calls.at(dict(point))
    except TooLarge:
        return None
    return Probe(each.entry, CallMetadata(slots), ThreadState.now(), calls.function.__closure__, point_text(dict(point)))


@dataclasses.dataclass(frozen=True, eq=False)
class Readiness:
    """Whether calls of the certified domain are served now. True in a condition if they are. `modes`: those that it is about."""

    function: str
    coverage: Coverage | None
    failed: Probe | None = None
    example: MissedExample | None = None  # the example, where it misses
    modes: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        certified = self.coverage is not None and self.coverage.certified and self.coverage.stands
        return certified and self.failed is None and self.example is None

    def __bool__(self) -> bool:
        return self.ready

    @functools.cached_property
    def reason(self) -> str:
        """What has changed since it was certified, or why nothing is; empty if it is ready. Guards are explained when this is
        read, with the model as it is then."""
        if self.coverage is None:
            return "nothing is certified: call tracer.precompile, or tracer.coverage after tracer.load"
        if not self.coverage.certified:
            return f"it is not certified: its status is {self.coverage.status!r}. {self.coverage.reason}".rstrip()
        if not self.coverage.stands:
            return "entries that the certificate counts on are gone: something that they guard has died, or they were evicted"
        if self.failed is not None:
            failure = self.failed.failure()
            return f"{self.failed} are not served any more: {failure or 'it has changed back meanwhile'}"
        return "" if self.example is None else f"the example is not served: {self.example}"

    def __str__(self) -> str:
        if self.ready:
            return f"{self.function} is ready for calls under {', '.join(self.modes) or 'the modes of its certificate'}"
        return f"{self.function} is not ready: {self.reason}"

    __repr__ = __str__


def ready(fn: Any, example: Any = None, *, kwargs: Mapping[str, Any] | None = None) -> Readiness:
    """Whether the entries of `fn` still serve the calls that were certified, with the model as it is now: a health check.

    The guards of each entry of the certificate are checked against a call that the entry served, under the modes that were
    certified, whatever the mode of this thread. With an `example` (arguments, as for `precompile`) that call is checked as well.
    This takes some 10 µs for each entry. If an entry does not serve its call any more (after `model.to(...)`, `model.train()`, a
    new hook, a changed attribute), `reason` says what changed. Nothing is run or traced. Raises UserError if `fn` was not
    compiled, or cannot be called with these arguments.

    ```python
    model = torch.nn.Linear(4, 2).eval()
    compiled = tracer.compile(model, shapes="input: B, _; B in 1..64")
    tracer.precompile(compiled, example=torch.ones(3, 4))
    assert tracer.ready(compiled)
    model.to(torch.bfloat16)
    assert "dtype mismatch" in tracer.ready(compiled).reason
    ```
    """
    target = target_of(fn)
    found: Coverage | None = target.state.coverage
    failed = None if found is None or not found.certified else changed(found)
    states = dict.fromkeys(probe.thread for probe in found.probes) if found is not None else {}
    missed = None
    if example is not None or kwargs:
        args, keywords = arguments(example if example is not None else (), kwargs)
        missed = _missed_example(target, args, keywords, tuple(states) or (ThreadState.now(),))
    modes = tuple([state.text() for state in states])
    return Readiness(target.function.__qualname__, found, failed, missed, modes)


def changed(found: Coverage) -> Probe | None:
    """The first probe of a certificate that does not hold any more."""
    for state in dict.fromkeys(probe.thread for probe in found.probes):
        with state.entered():
            failed = next((probe for probe in found.probes if probe.thread == state and probe.holds() is False), None)
        if failed is not None:
            return failed
    return None


def still_certified(found: Coverage) -> bool:
    """Whether a result is a certificate that holds with the model as it is now."""
    return found.certified and found.stands and changed(found) is None


def _missed_example(
    target: Target, args: Sequence[Any], kwargs: Mapping[str, Any], states: Sequence[ThreadState]
) -> MissedExample | None:
    """Why a call misses under one of these states, in words found when they are read; None if it hits under all."""
    for state in states:
        with state.entered():
            here, keywords = as_made_here(args), as_made_here(kwargs)
            target.slots(here, keywords)
            if target.lookup(here, keywords) is None:
                return MissedExample(target, here, keywords, state)
    return None


@dataclasses.dataclass(frozen=True, eq=False)
class MissedExample:
    """An example that misses under a state of torch."""

    target: Target
    args: Any
    kwargs: Any
    state: ThreadState

    def __str__(self) -> str:
        with self.state.entered():
            slots = self.target.slots(self.args, self.kwargs)
            entries = self.target.entries()[:MOST_ENTRIES_EXPLAINED]
            closure = self.target.function.__closure__
            failures = [entry.guarded_code.manager.explain(slots, closure) for entry in entries]
        words = dict.fromkeys(str(failure) for failure in failures if failure is not None)
        return "; ".join(words) or "there is no entry"


def as_made_here(value: Any, inference: bool | None = None) -> Any:
    """The same with tensors as they are made in the mode of this thread: inference tensors, or plain ones. `inference`: which of
    both, whatever the mode is."""
    cls = type(value)
    wanted = torch.is_inference_mode_enabled() if inference is None else inference
    if cls is torch.Tensor and value.is_inference() != wanted:
        with torch.inference_mode(wanted):
            return value.clone()
    if cls in (list, tuple):
        return cls([as_made_here(item, inference) for item in value])
    return {key: as_made_here(item, inference) for key, item in value.items()} if cls is dict else value


def arguments(example: Any, kwargs: Mapping[str, Any] | None) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The positional and the keyword arguments that a user means by an example."""
    if isinstance(example, torch.Tensor):
        example = (example,)
    if isinstance(example, Mapping):
        return (), {**example, **(kwargs or {})}
    if not isinstance(example, Sequence):
        raise UserError(f"example={example!r} is not a tuple of arguments", hint="write example=(x,) or kwargs={'x': x}.")
    return tuple(example), kwargs or {}


__all__ = ["Probe", "Readiness", "arguments", "as_made_here", "changed", "probes_of", "ready", "still_certified"]
