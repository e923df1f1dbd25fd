"""What torch does at the moment, as only private names of it tell: dispatch keys of the thread, levels of forward AD."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad


def dispatch_state() -> tuple[Any, Any]:
    """The dispatch keys that this thread includes, and those that it excludes."""
    return torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()


def dual_level() -> int:
    """The number of the innermost level of forward AD that was entered in Python; -1 outside of all."""
    level: int = forward_ad._current_level
    return level


def leave_dual_levels(outer: int) -> None:
    """Leaves the levels of forward AD that were entered in the one with the number `outer`."""
    while dual_level() > outer:
        forward_ad.exit_dual_level()
