"""Why a graph can end: one registry of reasons, each with a stable id, an explanation and a hint.

`unsupported(id, **details)` raises `Unsupported` for a registered reason. `catalogue` holds them by topic, and
`docs/graph_breaks.md` is generated from it (`python -m tools.generate_docs`).
"""

from tracer.graph_breaks import catalogue  # noqa: F401  (registers every reason)
from tracer.graph_breaks.reasons import GraphBreakReason, markdown, reason, reasons, register, topic, unsupported

__all__ = ["GraphBreakReason", "markdown", "reason", "reasons", "register", "topic", "unsupported"]
