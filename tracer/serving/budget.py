"""What the traces of one `precompile` may use together, and who is told of each."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from shapes.domain import point_text

if TYPE_CHECKING:
    from tracer.serving.coverage_result import Coverage


@dataclasses.dataclass
class Budget:
    """What all traces of one `precompile` may use together."""

    entries: int
    seconds: float | None
    report: Callable[[Coverage], None] | None
    started: float = dataclasses.field(default_factory=time.perf_counter)

    @property
    def ends(self) -> float:
        return float("inf") if self.seconds is None else self.started + self.seconds

    @property
    def is_late(self) -> bool:
        return time.perf_counter() > self.ends


def print_progress(now: Coverage) -> None:
    shown = "" if now.witness is None else f", next {point_text(now.witness)}"
    print(f"precompile: {len(now.covering)} entries, {100 * now.share():.0f}% of the shapes{shown}", file=sys.stderr)
