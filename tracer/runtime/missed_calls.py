"""A call that no entry served, kept as metadata, and the words for it: in one line at little cost, or whole when asked for.

What a refused request costs is noting the metadata. Guards are asked about arguments that are made again of it, once for each
cause: the explanation is kept by the region for calls alike.
"""

from __future__ import annotations

import types
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shapes.domain import point_text
from tracer import _C, errors
from tracer.guards.manager import GuardFailure, gone
from tracer.guards.state import GlobalStateMatch
from tracer.metrics import counters
from tracer.runtime import log_texts
from tracer.runtime.call_metadata import NOT_KEPT, CallMetadata, NotKept
from tracer.runtime.guarded_code import entries_of
from tracer.runtime.thread_state import ThreadState
from tracer.sources.base import Source

if TYPE_CHECKING:
    from tracer.runtime.region_state import RegionState

MOST_EXPLAINED = 8  # entries of which an explanation says what fails; the last used first
MOST_KEPT = 64  # explanations that a region keeps
GONE = "the function that was called is gone, and its entries with it"


class Explanations:
    """The last explanations of one region, by cause."""

    def __init__(self) -> None:
        self._known: OrderedDict[Any, tuple[tuple[weakref.ref[_C.Entry], ...], str]] = OrderedDict()

    def get(self, cause: Any, entries: Sequence[_C.Entry]) -> str | None:
        references, text = self._known.get(cause, ((), None))
        return text if [reference() for reference in references] == list(entries) else None

    def keep(self, cause: Any, entries: Sequence[_C.Entry], text: str) -> None:
        self._known[cause] = tuple(map(weakref.ref, entries)), text
        while len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)

    def clear(self) -> None:
        self._known.clear()


class MissedCall:
    """What is known of a call that missed. It keeps neither the arguments nor the compiled object alive."""

    hint: str | None = None

    def __init__(self, region: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> None:
        code = function.__code__
        self.name = f"{function.__qualname__} ({code.co_filename}:{code.co_firstlineno})"
        self.call = CallMetadata(args)
        self.thread = ThreadState.now()
        self.is_first = not entries_of(region.region, code, function.__globals__)
        self._region = weakref.ref(region)
        self._function = weakref.ref(function)

    def found(self) -> tuple[RegionState, types.FunctionType, list[_C.Entry]] | None:
        """The region, the function and the entries that there are now; None if they are gone."""
        region, function = self._region(), self._function()
        if region is None or function is None:
            return None
        return region, function, entries_of(region.region, function.__code__, function.__globals__)

    # -- in one line -------------------------------------------------------------------------------------------------

    def title(self) -> str:
        return f"no entry of {self.name} serves this call"

    def summary(self) -> tuple[str, str | None]:
        """What is wrong, as far as the declared domain, torch's state and the tensors among the arguments tell, and a hint."""
        found = self.found()
        if found is None:
            return f"{self.title()}: {GONE}", self.hint
        region, function, entries = found
        with self.thread.entered():
            args = self.call.slots()
            where, violation = self._place(region, function, args)
            if violation is not None:
                return f"{self.title()}: {violation.message}", violation.hint or self.hint
            cause = None if self.is_first else _common_mismatch(entries, function, args)
        if self.is_first:
            dead = region.frame_state(function).dead_objects
            cause = str(gone(dead[-1])) if dead else "there was none"
        return f"{self.title()}{where}: {cause or 'explain() says which guards fail'}", self.hint

    def reason(self) -> str:
        """A word: "undeclared" for a call outside of the declared domain, "no entry" where there was none, else "guards"."""
        found = self.found()
        if found is not None:
            with self.thread.entered():
                if self._place(*found[:2], self.call.slots())[1] is not None:
                    return "undeclared"
        return "no entry" if self.is_first else "guards"

    def _place(
        self, region: RegionState, function: types.FunctionType, args: tuple[Any, ...]
    ) -> tuple[str, errors.UserError | None]:
        """`, at B = 9, S = 100` in a declared domain, or what of the declaration does not hold."""
        try:
            declared = region.declared_shapes(function, args)
            return "" if declared is None else f", at {point_text(declared.point())}", None
        except errors.UserError as error:
            return "", error

    def cause(self) -> tuple[Any, ...]:
        """Hashable; calls with the same one miss for the same reason, as long as entries and declarations stay."""
        return self.name, self.is_first, self.call.key(), self.thread

    # -- whole -------------------------------------------------------------------------------------------------------

    def explain(self) -> str:
        """The guards that fail in each entry, and what `near` adds."""
        found = self.found()
        if found is None:
            return self.summary()[0]
        region, function, entries = found
        with self.thread.entered():
            args, closure = self.call.slots(), function.__closure__
            explained = entries[:MOST_EXPLAINED]
            cause = function.__code__, self.call.key(), self.thread
            steady = all(entry.guarded_code.manager.groups_hold(args, closure) for entry in explained)
            text = region.explanations.get(cause, entries) if steady else None
            if text is None:
                counters["explanations"]["made"] += 1
                text = self._explained(region, function, args, entries)
                if steady:
                    region.explanations.keep(cause, entries, text)
        return text

    def failures(self) -> list[GuardFailure]:
        """The guard that fails in each entry (of the eight last used), and what has died. Empty if the function is gone."""
        found = self.found()
        if found is None:
            return []
        with self.thread.entered():
            return _failures(found[0], found[1], self.call.slots(), found[2])

    def near(self, region: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> str:
        """The nearest call that is covered, in words, where that is known."""
        return ""

    def _explained(
        self, region: RegionState, function: types.FunctionType, args: tuple[Any, ...], entries: list[_C.Entry]
    ) -> str:
        where, violation = self._place(region, function, args)
        if violation is not None:
            return f"{self.title()}: {violation}"
        failures = _failures(region, function, args, entries)
        lines = [f"    {line}" for failure in failures for line in log_texts.failure(failure)]
        if len(entries) > MOST_EXPLAINED:
            lines.append(f"    and {len(entries) - MOST_EXPLAINED} entries more")
        none = " none of those that are there now" if entries else " none, there is no entry"
        return "\n".join(
            [f"{self.title()}{where}{self.near(region, function, args)}. Guards that fail:{'' if lines else none}", *lines]
        )


def _failures(
    region: RegionState, function: types.FunctionType, args: tuple[Any, ...], entries: list[_C.Entry]
) -> list[GuardFailure]:
    found = [_failure_of(entry, args, function) for entry in entries[:MOST_EXPLAINED]]
    return [*map(gone, region.frame_state(function).dead_objects), *(each for each in found if each is not None)]


def _failure_of(entry: _C.Entry, args: tuple[Any, ...], function: types.FunctionType) -> GuardFailure | None:
    """As the entry's manager explains it, but for values of which nothing was kept."""
    manager = entry.guarded_code.manager
    failure: GuardFailure | None = manager.explain(args, function.__closure__)
    if failure is None or failure.guard is None:
        return failure
    values = manager.frame_values(args, function.__closure__)
    for source in failure.guard.sources():
        step: Source | None = source
        while step is not None:
            try:
                if step.get(values) is NOT_KEPT:
                    text = f"the value of {step.name} was not kept; call tracer.why with these arguments to see it"
                    return GuardFailure(None, text, "", "")
            except Exception:  # what lies behind it cannot be read
                pass
            step = step.base
    return failure


def _common_mismatch(entries: Sequence[_C.Entry], function: types.FunctionType, args: tuple[Any, ...]) -> str | None:
    """The first mismatch of torch's state, or of a tensor argument, that all entries have, with what they take; None if there is
    none."""
    common: dict[str, list[GuardFailure]] | None = None  # words that tell the mismatch -> that of each entry
    for entry in entries:
        found = entry.guarded_code.manager.explain_arguments(args, function.__closure__)
        here = {_without_expected(failure): failure for failure in found if not failure.seen.endswith(NotKept.__name__)}
        before = dict.fromkeys(here, ()) if common is None else common
        common = {words: [*failures, here[words]] for words, failures in before.items() if words in here}
    if not common:
        return None
    first, *others = next(iter(common.values()))
    expected = list(dict.fromkeys(failure.expected for failure in (first, *others)))
    shown = " or ".join([*expected[:4], *(["others"] if len(expected) > 4 else [])])
    return first.message.replace(f"expected {first.expected}", f"expected {shown}")


def _without_expected(failure: GuardFailure) -> str:
    if isinstance(failure.guard, GlobalStateMatch):  # what entries take may differ in several modes
        return failure.guard.kind
    return failure.message.replace(f"expected {failure.expected},", "")
