"""The registry of reasons for graph breaks, and how one is raised."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Any, NoReturn

from tracer.errors import TorchRuntimeError, Unsupported

_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class GraphBreakReason:
    """One kind of graph break: what a log, an error under fullgraph=True and the docs say about it."""

    id: str
    summary: str  # one line; `{name}` is filled in from the details where they have it
    explanation: str
    hint: str
    topic: str = "other"

    def title(self, details: dict[str, Any]) -> str:
        """The summary with the details filled in; a field without a detail is shown by its name."""
        return re.sub(r"\{(\w+)\}", lambda field: str(details.get(field[1], field[1])), self.summary)

    def __reduce__(self) -> tuple[Any, ...]:
        return GraphBreakReason, (self.id, self.summary, self.explanation, self.hint, self.topic)


_registry: dict[str, GraphBreakReason] = {}
_topics: dict[str, str] = {}


def topic(key: str, heading: str) -> str:
    """A heading of the docs page, under which reasons are registered."""
    _topics[key] = heading
    return key


def register(id: str, summary: str, explanation: str, hint: str, *, topic: str = "other") -> GraphBreakReason:
    """Adds a reason; an id is kebab-case and never registered twice."""
    if not _ID.fullmatch(id):
        raise ValueError(f"graph break id {id!r} is not kebab-case")
    if id in _registry:
        raise ValueError(f"graph break id {id!r} is registered twice")
    if topic not in _topics:
        raise ValueError(f"graph break id {id!r}: unknown topic {topic!r}")
    reason = _registry[id] = GraphBreakReason(id, summary, explanation, hint, topic)
    return reason


def reason(id: str) -> GraphBreakReason:
    """The reason with this id; KeyError names the nearest ones."""
    try:
        return _registry[id]
    except KeyError:
        near = ", ".join(difflib.get_close_matches(id, _registry)) or "none is close"
        raise KeyError(f"no graph break reason {id!r} in the registry (did you mean: {near}?)") from None


def reasons() -> tuple[GraphBreakReason, ...]:
    """All reasons, sorted by id."""
    return tuple(_registry[id] for id in sorted(_registry))


_ERRORS = {"operator-failed-in-trace": TorchRuntimeError}


def unsupported(
    reason_id: str,
    /,
    *,
    cause: BaseException | None = None,
    calls_instead: tuple[Any, Any] | None = None,
    relies_on: tuple[Any, ...] = (),
    break_step: int | None = None,
    undecided: Any = None,
    **details: Any,
) -> NoReturn:
    """Raises `Unsupported`. The loop that steps through the frame adds the user's stack with `error.at(stack)`.

    `calls_instead`: (function, other). The output code calls `other` in place of the function, which looks at its callers: some
    of them have no frame there. `relies_on`: guards under which the graph breaks; a call for which one fails may need no break.
    `break_step`: the step at which to break, if it is not the current one. `undecided`: the condition on sizes, of SymPy, that
    could not be decided.
    """
    error = _ERRORS.get(reason_id, Unsupported)
    raise error(  # in no local: the frame, which the traceback holds, would hold the error
        reason(reason_id),
        details,
        calls_instead=calls_instead,
        relies_on=relies_on,
        break_step=break_step,
        undecided=undecided,
    ) from cause


def markdown() -> str:
    """The text of docs/graph_breaks.md."""
    parts = [
        "# Graph breaks\n",
        "Where the tracer meets something that a graph cannot hold, the graph ends: CPython runs that one instruction,",
        "and a resume function traces the rest. With `fullgraph=True` this is an error with the same text,",
        "`tracer.exc.Unsupported`. `TRACER_LOGS=graph_breaks` shows each break with your stack, and `tracer.explain`",
        "counts them.\n",
        "Some branches depend on tensor data, but a relation between sizes would decide them. For these the text gives the",
        "weakest such relation as a line to paste:",
        "`Assumption: torch._check(x.shape[0] <= y.shape[0]) before script.py:7 in fn decides it`. With that line there is no",
        "break, and a call for which the relation does not hold raises. `error.assumption` holds the same text. It is empty if",
        "no relation of at most three sizes decides the branch. [serving.md](serving.md#assume) has an example.\n",
        "This page is generated from `tracer/graph_breaks/catalogue/`.\n",
    ]
    for key, heading in _topics.items():
        under = [entry for entry in reasons() if entry.topic == key]
        if under:
            parts.append(f"## {heading}\n")
        for entry in under:
            parts += [f"### {entry.id}\n", f"{entry.summary}.\n", f"{entry.explanation}\n"]
            parts += [f"**What to try.** {entry.hint}\n"]
    return "\n".join(parts)
