"""Which line of the program had each effect, for the log `side_effects`; noted only while somebody listens."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from tracer import logs
from tracer.locations import UserLocation

DescribedEffect = tuple[str, tuple[UserLocation, ...]]  # an effect in words, and the lines that had it, in their order


class EffectPlaces:
    """The lines that had each effect. `where` gives the line that is traced now."""

    def __init__(self, where: Callable[[], UserLocation | None]) -> None:
        self._where = where
        self._of: dict[Hashable, dict[UserLocation, None]] = {}

    def note(self, *effect: Hashable) -> None:
        if logs.is_on("side_effects"):
            place = self._where()
            if place is not None:
                self._of.setdefault(effect, {})[place] = None

    def with_lines(self, words: str, *effect: Hashable) -> DescribedEffect:
        """The description of an effect, with the lines that had it."""
        return words, tuple(self._of.get(effect, ()))

    def __contains__(self, effect: tuple[Hashable, ...]) -> bool:
        return effect in self._of
