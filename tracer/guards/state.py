"""Guards on state of the process: whatever outside of the program's values changes what a trace would record."""

from __future__ import annotations

import abc
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind, shown
from tracer.guards.demands import Demand, State

if TYPE_CHECKING:
    from tracer.guards.implication import Known


@guard_kind
class GlobalStateMatch(Guard):
    """Grad and inference mode, autocast, default dtype and device, deterministic flags, modes, functorch level.

    `snapshot` is a `_C.GlobalState` taken before the trace.
    """

    snapshot: Any
    kind: ClassVar[str] = "GLOBAL_STATE"
    told: ClassVar[bool] = True

    def demands(self) -> tuple[Demand, ...]:
        return (State(self.snapshot),)

    def lines(self) -> list[str]:
        return ["___global_state()"]

    def shows_data(self) -> bool:
        return False

    def explain(self, *seen: Any) -> Mismatch:
        changes = self.snapshot.changes()
        words = "; ".join(changes) or "it is as it was"
        return Mismatch(f"global state changed: {words}", "the state at the trace", words)

    def follows_from(self, known: Known) -> bool:
        return self.snapshot.check() and any(each.snapshot.check() for each in known.of(GlobalStateMatch))

    def _fields(self) -> tuple[Any, ...]:
        return (id(self.snapshot),)


@guard_kind
class AbcRegistryMatch(Guard):
    """No class was registered with any abstract base class since the check was made. (What is registered while tracing are
    the classes of modules that the trace loads.)"""

    kind: ClassVar[str] = "ABC_REGISTRY"

    def check(self, code: CheckScope) -> str | None:
        return f"{code.const(abc.get_cache_token, 'abc_token')}() == {abc.get_cache_token()}"

    def lines(self) -> list[str]:
        return ["abc.get_cache_token() is what it was"]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch("a class was registered with an abstract base class", "as before", f"token {abc.get_cache_token()}")

    def follows_from(self, known: Known) -> bool:
        return False  # the token was read when the check was made, and is not kept


@guard_kind
class WarningFiltersMatch(Guard):
    """The filters of `warnings` are those of the trace."""

    filters: tuple[Any, ...]
    kind: ClassVar[str] = "WARNING_FILTERS"

    def check(self, code: CheckScope) -> str | None:
        return f"{code.const(self.hold, 'warning_filters')}()"

    def hold(self) -> bool:
        return tuple(warnings.filters) == self.filters

    def lines(self) -> list[str]:
        return ["warnings.filters are what they were"]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch("the filters of warnings have changed", str(len(self.filters)), str(len(warnings.filters)))

    def follows_from(self, known: Known) -> bool:
        return self.hold() and any(each.hold() for each in known.of(WarningFiltersMatch))

    def _fields(self) -> tuple[Any, ...]:
        return (len(self.filters),)


@guard_kind
class AnswerMatch(Guard):
    """A function, called without arguments, returns what it returned while tracing."""

    question: Callable[[], Any]
    answer: Any  # hashable: a list is given as a tuple
    kind: ClassVar[str] = "ANSWER_MATCH"

    def check(self, code: CheckScope) -> str | None:
        ask = f"{code.const(self.question, 'ask')}()"
        return f"{f'(*{ask},)' if type(self.answer) is tuple else ask} == {self.answer!r}"

    def lines(self) -> list[str]:
        return [f"{self.question.__name__}() == {self.answer!r}"]

    def explain(self, *seen: Any) -> Mismatch:
        now = shown(self.question())
        return Mismatch(f"{self.question.__name__}() changed", shown(self.answer), now)
