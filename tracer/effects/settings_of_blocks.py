"""Settings that traced code has for a block (`config.begin_setting`). They hold for the trace of the block. Only where the graph
breaks in it does the output code set them, for what runs behind the break."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer import config
from tracer.effects.deferred_calls import DeferredCall
from tracer.effects.log import Effects


class SettingsOfBlocks:
    """What one trace has changed, the innermost last. `changed`: called after each change."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._open: list[tuple[str, Any]] = []  # blocks that have begun in the trace and not ended
        self._ended = 0  # blocks that began before it, behind an earlier break, and ended in it

    def begin(self, name: str, value: Any) -> None:
        """Raises what `config.patch` raises for what is no setting."""
        config.begin_setting(name, value)
        self._open.append((name, value))
        self._changed()

    def end(self, effects: Effects) -> None:
        """The end of a block that began before the trace is one of the program, too."""
        if self._open:
            self._open.pop()
            config.end_setting()
        else:
            outside = config.before_block(2 * self._ended)  # of two for each that has ended, one was made here
            if outside is not None:
                config.begin_setting(*outside)
                self._ended += 1
            effects.defer(DeferredCall(config.end_setting, (), ()))
        self._changed()

    def go_on_behind(self, effects: Effects) -> None:
        """The graph breaks here: the open blocks go on behind it."""
        for name, value in self._open:
            effects.defer(DeferredCall(config.begin_setting, (name, value), ()))

    def close(self) -> None:
        """The trace has ended."""
        for _ in range(len(self._open) + self._ended):
            config.end_setting()
        self._open, self._ended = [], 0
