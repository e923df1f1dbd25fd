"""Graph breaks of a frame as a whole: what cannot be guarded, traces that are too long, bugs of the tracer."""

from __future__ import annotations

from tracer.graph_breaks.reasons import register, topic

TOPIC = topic("guards", "Guards and frames")
register(
    "unguardable",
    "{value} cannot be guarded",
    "An entry for it could not tell, without running user code, whether it is still valid.",
    "pass a value of a plain type, or make it a global that does not change.",
    topic=TOPIC,
)
register(
    "trace-too-long",
    "The trace grew past {value} instructions",
    "A Python loop is unrolled; this one seems not to end.",
    "write the loop with tensor operations, or decorate its body.",
    topic=TOPIC,
)
register(
    "internal-error",
    "A bug of the tracer: {error}",
    "The frame runs in CPython, as if it had not been decorated.",
    "please report it with the program that shows it.",
    topic=TOPIC,
)
