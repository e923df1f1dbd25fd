"""Torch's two settings for the ranks of a distributed program, which are `config.agree_across_ranks` here:
`torch._dynamo.config.enable_compiler_collectives` is "at_misses", `torch.compiler.set_enable_guard_collectives` "at_calls"."""

from __future__ import annotations

import torch

from tracer import config as ours
from tracer.drop_in.replacements import Replacement
from tracer.drop_in.settings import listeners
from tracer.drop_in.torchs import config as theirs
from tracer.runtime import agreement
from tracer.runtime.region_state import ALL_REGIONS

_COLLECTIVES = "enable_compiler_collectives"
_set_guard_collectives = torch.compiler.set_enable_guard_collectives


class RanksAgree:
    """While installed, our setting is what torch's two say, also if they were set before. Afterwards ours is as it was."""

    def begin(self) -> RanksAgree:
        self._before = ours.agree_across_ranks
        self._at_calls = _set_guard_collectives(False)  # returns what was set
        _set_guard_collectives(self._at_calls)
        self._at_misses = bool(theirs.enable_compiler_collectives)
        listeners[_COLLECTIVES] = self._hear
        if self._at_calls or self._at_misses:
            self._say()
        return self

    def set_enable_guard_collectives(self, enabled: bool) -> bool:
        """As torch's: returns what was set before. It holds for what is compiled already, too."""
        self._at_calls = bool(enabled)
        before: bool = _set_guard_collectives(enabled)
        self._say()
        return before

    def _hear(self, value: object) -> None:
        self._at_misses = bool(value)
        self._say()

    def _say(self) -> None:
        ours.agree_across_ranks = (
            agreement.AT_CALLS if self._at_calls else agreement.AT_MISSES if self._at_misses else agreement.NEVER
        )
        for state in list(ALL_REGIONS) if self._at_calls else ():
            state.region.agree = agreement.on_call

    def replacement(self) -> Replacement:
        return Replacement(torch.compiler, "set_enable_guard_collectives", self.set_enable_guard_collectives)

    def take_back(self) -> None:
        listeners.pop(_COLLECTIVES)
        ours.agree_across_ranks = self._before
