"""A call that no entry served, kept as metadata, and the words for it: in one line at little cost, or whole when asked for.

`MissedCall` is made at a miss that is an error (`runtime.misses`, `serving.sealing`) and for callbacks that watch misses
(`runtime.events`). Making it costs the metadata only. Guards are asked later, perhaps on another thread, about arguments that are
made again from the metadata. The region keeps the explanation for later calls of the same kind.
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

MOST_ENTRIES_EXPLAINED = 8  # entries of which an explanation says what fails; the first are those used last
MOST_KEPT = 64  # explanations that a region keeps
GONE = "the function that was called is gone, and its entries with it"


class Explanations:
    """The last explanations of one region. An explanation is found again by its key (code, arguments, state of torch), as long as
    the entries that it speaks of are those that there are now."""

    def __init__(self) -> None:
        self._known: OrderedDict[Any, tuple[tuple[weakref.ref[_C.Entry], ...], str]] = OrderedDict()

    def get(self, key: Any, entries: Sequence[_C.Entry]) -> str | None:
        references, text = self._known.get(key, ((), None))
        return text if [reference() for reference in references] == list(entries) else None

    def keep(self, key: Any, entries: Sequence[_C.Entry], text: str) -> None:
        self._known[key] = tuple(map(weakref.ref, entries)), text
        while len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)

    def clear(self) -> None:
        self._known.clear()


class MissedCall:
    """What is known of a call that missed. It keeps neither the arguments nor the compiled object alive."""

    hint: str | None = None  # of a subclass: what to try; None leaves that to the error's default

    def __init__(self, region: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> None:
        """`args`: the values of the argument slots, as a frame has them: `*args` is one tuple, `**kwargs` one dict."""
        code = function.__code__
        self.name = f"{function.__qualname__} ({code.co_filename}:{code.co_firstlineno})"
        self.metadata = CallMetadata(args)
        self.torch_state = ThreadState.now()
        self.is_first = not entries_of(region.region, code, function.__globals__)  # no entry was there to miss
        self._region = weakref.ref(region)
        self._function = weakref.ref(function)

    def _resolved(self) -> tuple[RegionState, types.FunctionType, list[_C.Entry]] | None:
        """The region, the function and the entries that there are now; None if region or function has been freed."""
        region, function = self._region(), self._function()
        if region is None or function is None:
            return None
        return region, function, entries_of(region.region, function.__code__, function.__globals__)

    # -- in one line -------------------------------------------------------------------------------------------------

    def title(self) -> str:
        return f"no entry of {self.name} serves this call"

    def summary(self) -> tuple[str, str | None]:
        """One line that says what is wrong, and a hint. It looks at the declared domain, torch's state and the tensors among the
        arguments only, which takes microseconds; `explain` asks all guards."""
        found = self._resolved()
        if found is None:
            return f"{self.title()}: {GONE}", self.hint
        region, function, entries = found
        with self.torch_state.entered():
            args = self.metadata.slots()
            where, violation = self._point_or_violation(region, function, args)
            if violation is not None:
                return f"{self.title()}: {violation.message}", violation.hint or self.hint
            cause = None if self.is_first else _common_mismatch(entries, function, args)
        if self.is_first:
            dead = region.frame_state(function).dead_objects
            cause = str(gone(dead[-1])) if dead else "there was none"
        return f"{self.title()}{where}: {cause or 'explain() says which guards fail'}", self.hint

    def reason(self) -> str:
        """A word: "undeclared" for a call outside of the declared domain, "no entry" where there was none, else "guards"."""
        found = self._resolved()
        if found is not None:
            with self.torch_state.entered():
                if self._point_or_violation(*found[:2], self.metadata.slots())[1] is not None:
                    return "undeclared"
        return "no entry" if self.is_first else "guards"

    def _point_or_violation(
        self, region: RegionState, function: types.FunctionType, args: tuple[Any, ...]
    ) -> tuple[str, errors.UserError | None]:
        """The text `, at B = 9, S = 100` ("" where no sizes are declared) and None; or "" and the error for a call outside of the
        declared domain."""
        try:
            declared = region.declared_shapes(function, args)
            return "" if declared is None else f", at {point_text(declared.point())}", None
        except errors.UserError as error:
            return "", error

    def cause(self) -> tuple[Any, ...]:
        """A key: calls with the same one miss for the same reason, as long as entries and declarations stay. Recorders and
        exporters explain each cause once."""
        return self.name, self.is_first, self.metadata.key(), self.torch_state

    # -- whole -------------------------------------------------------------------------------------------------------

    def explain(self) -> str:
        """The guards that fail in each entry, and the nearest call that is covered, for `errors.RecompileError.explain`."""
        found = self._resolved()
        if found is None:
            return self.summary()[0]
        region, function, entries = found
        with self.torch_state.entered():
            args, closure = self.metadata.slots(), function.__closure__
            explained = entries[:MOST_ENTRIES_EXPLAINED]
            key = function.__code__, self.metadata.key(), self.torch_state
            # Guards also read long-lived objects, such as a module, which the key knows nothing of: a kept explanation
            # is right only where these are known to be unchanged.
            steady = all(entry.guarded_code.manager.groups_hold(args, closure) for entry in explained)
            text = region.explanations.get(key, entries) if steady else None
            if text is None:
                counters["explanations"]["made"] += 1
                text = self._explained(region, function, args, entries)
                if steady:
                    region.explanations.keep(key, entries, text)
        return text

    def failures(self) -> list[GuardFailure]:
        """The guarded objects that have died since the last trace, then the first guard that fails in each entry, of at most
        MOST_ENTRIES_EXPLAINED. Empty if the function is gone."""
        found = self._resolved()
        if found is None:
            return []
        with self.torch_state.entered():
            return _failures(found[0], found[1], self.metadata.slots(), found[2])

    def nearest_covered(self, region: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> str:
        """Words that `explain` puts behind its first line. A subclass that knows the coverage names the nearest covered call."""
        return ""

    def _explained(
        self, region: RegionState, function: types.FunctionType, args: tuple[Any, ...], entries: list[_C.Entry]
    ) -> str:
        where, violation = self._point_or_violation(region, function, args)
        if violation is not None:
            return f"{self.title()}: {violation}"
        failures = _failures(region, function, args, entries)
        lines = [f"    {line}" for failure in failures for line in log_texts.failure(failure)]
        if len(entries) > MOST_ENTRIES_EXPLAINED:
            lines.append(f"    and {len(entries) - MOST_ENTRIES_EXPLAINED} entries more")
        none = " none of those that are there now" if entries else " none, there is no entry"
        return "\n".join(
            [
                f"{self.title()}{where}{self.nearest_covered(region, function, args)}. Guards that fail:{'' if lines else none}",
                *lines,
            ]
        )


def _failures(
    region: RegionState, function: types.FunctionType, args: tuple[Any, ...], entries: list[_C.Entry]
) -> list[GuardFailure]:
    found = [_failure_of(entry, args, function) for entry in entries[:MOST_ENTRIES_EXPLAINED]]
    return [*map(gone, region.frame_state(function).dead_objects), *(each for each in found if each is not None)]


def _failure_of(entry: _C.Entry, args: tuple[Any, ...], function: types.FunctionType) -> GuardFailure | None:
    """As the entry's manager explains it. A guard on a value that the metadata does not have fails for that reason only, so the
    failure then says that the value was not kept."""
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
    """One line for the first mismatch of torch's state or of a tensor argument that every entry has; it names what up to four of
    them expect. None if no mismatch is common to all."""
    common: dict[str, list[GuardFailure]] | None = None  # the mismatch without what is expected -> the failure in each entry
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
    """The same text for failures that differ only in what their entries expect."""
    if isinstance(failure.guard, GlobalStateMatch):  # what entries take may differ in several modes
        return failure.guard.kind
    return failure.message.replace(f"expected {failure.expected},", "")
