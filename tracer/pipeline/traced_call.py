"""The call that was traced, as the guards of its entry see it: what they read there, and whether they hold for it."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tracer import errors
from tracer.bytecode.slots import argument_slots
from tracer.effects import fake_modes
from tracer.effects.function_modes import put_back
from tracer.guards.base import Guard
from tracer.guards.state import GlobalStateMatch
from tracer.runtime.guarded_code import GuardedCode
from tracer.sources.base import FrameValues
from tracer.sources.roots import FunctionModeSource


class StaleGuards(Exception):
    """The guards of a trace do not hold for the very call that was traced."""


@dataclass(frozen=True)
class TracedCall:
    """`args`: the argument slots of the function. `modes`: torch-function modes that are on where it is called; `fake_mode`: the
    fake mode that is."""

    function: types.FunctionType
    args: tuple[Any, ...]
    modes: list[Any]
    fake_mode: Any

    def values(self) -> FrameValues:
        """What the sources of its guards are read from."""
        function = self.function
        slots = dict(zip(argument_slots(function.__code__), self.args, strict=True))
        return FrameValues.of(function.__code__, slots, function.__globals__, function.__closure__)

    def kept(self, guards: list[Guard], keeps: Callable[[list[Guard], FrameValues], Iterable[bool]] | None) -> list[Guard]:
        """The guards that the user's filter keeps. Those on what modes hold go with the one that says which modes are on."""
        if keeps is None:
            return guards
        offered = [guard for guard in guards if not _is_of_mode(guard)]
        with self._modes_on():
            answers = list(keeps(offered, self.values()))
        if len(answers) != len(offered):
            raise errors.UserError(f"guard_filter_fn was given {len(offered)} guards and answered for {len(answers)}")
        kept = {id(guard): guard for guard, keep in zip(offered, answers, strict=True) if keep}
        of_state = any(isinstance(guard, GlobalStateMatch) for guard in kept.values())
        return [guard for guard in guards if id(guard) in kept or (of_state and _is_of_mode(guard))]

    @contextlib.contextmanager
    def _modes_on(self) -> Iterator[None]:
        """Within, the modes are on that were taken off for the trace."""
        with fake_modes.within(self.fake_mode), put_back(self.modes):
            yield

    def check_holds(self, guarded: GuardedCode) -> None:
        """Raises StaleGuards if the guards do not hold for this call."""
        function, args = self.function, self.args
        positional = (*args, function.__closure__) if function.__code__.co_freevars else args
        with self._modes_on():
            holds = guarded.manager.holds(guarded.check_fn(*positional))
            failure = None if holds else guarded.manager.explain(args, function.__closure__)
        if not holds:
            raise StaleGuards(
                f"the guards of {function.__qualname__} do not hold for the call that they were made from: {failure}"
            )


def _is_of_mode(guard: Guard) -> bool:
    return any(isinstance(source.root(), FunctionModeSource) for source in guard.sources())
