"""What NumPy does about errors of floats (`np.seterr`), of which a graph reports none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tracer.graph_breaks import unsupported
from tracer.guards.arrays import NumpyErrorsMatch

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


def rely_on_errors(tx: Tracer) -> dict[str, str]:
    """Guards the settings of `np.seterr`. A graph reports no overflows and the like, so settings other than 'warn' and 'ignore'
    break the graph. Returns those where the program is now."""
    settings: dict[str, str] = tx.trace.torch_state.numpy_errors()
    if not set(settings.values()) <= {"warn", "ignore"}:
        unsupported("side-effect-call", name="np.seterr", value=settings)
    at_entry: Any = np.geterr()
    tx.guard(NumpyErrorsMatch(tuple(at_entry.items())))
    return settings
