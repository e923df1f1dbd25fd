"""Log artifacts: each is a logger `tracer.<artifact>` of the standard library that can be switched on and off.

`TRACER_LOGS=graph_code,guards` at import, or `set_logs(graph_code=True)`. A text is made only if its artifact is on:
`emit("graph", lambda: ...)`. Most texts are in `runtime.log_texts`.
"""

from __future__ import annotations

import difflib
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TextIO

ARTIFACTS: dict[str, str] = {
    "graph": "each graph as a table of its nodes",
    "graph_code": "each graph as Python code, with the user's file and line above each operation",
    "graph_sizes": "sizes of the tensors in each graph, symbolic and concrete",
    "guards": "the guards of each entry, with the line that caused each, and check_fn",
    "recompiles": "why an entry did not match and a frame is traced again",
    "cache": "what is kept in `config.cache_dir`, and why files there, or entries, are not used",
    "sharing": "each entry that a region takes over from a twin, and the guard that stands in the way of each other one",
    "repeated": "for each graph, which equal blocks a compiler is given once (`config.repeated`), or why none",
    "replay": "each call of a module that is not traced, because one like it was, and why others are traced",
    "evictions": "each entry that is dropped, and why",
    "bytecode": "original and modified bytecode of each frame",
    "graph_breaks": "each graph break with its reason and the user's stack",
    "trace": "each instruction as it is traced, with the stack",
    "dynamic": "symbols as they are made, and shape guards as they are added",
    "side_effects": "the mutations that generated code replays",
}
VARIABLE = "TRACER_LOGS"

_root = logging.getLogger("tracer")
_loggers = {name: logging.getLogger(f"tracer.{name}") for name in ARTIFACTS}
_switches = threading.Lock()
_on: frozenset[str] = frozenset()


def is_on(artifact: str) -> bool:
    """Whether the artifact is switched on."""
    return artifact in _on


def emit(artifact: str, text: str | Callable[[], str]) -> None:
    """Logs a text if the artifact is on. A text given as a function is made only then."""
    if artifact in _on:
        _loggers[artifact].info("%s", text if isinstance(text, str) else text())


def set_logs(*, all: bool | None = None, **artifacts: bool) -> None:
    """Switches artifacts on or off: `set_logs(graph=True, guards=True)`, `set_logs(all=False)`; others stay.

    Raises ValueError for an artifact that there is not, with the nearest names.

    ```python
    tracer.set_logs(graph_code=True)
    tracer.compile(lambda x: x + 1)(torch.ones(3))
    tracer.set_logs(all=False)
    ```
    """
    for name in artifacts:
        if name not in ARTIFACTS:
            raise ValueError(_unknown(name))
    global _on
    with _switches:
        on = set(_on) if all is None else set(ARTIFACTS) if all else set()
        for name, wanted in artifacts.items():
            (on.add if wanted else on.discard)(name)
        for name, logger in _loggers.items():
            logger.setLevel(logging.INFO if name in on else logging.NOTSET)
        _on = frozenset(on)


def markdown() -> str:
    """The part of docs/config.md on logs."""
    lines = [
        "# Logs\n",
        f"`{VARIABLE}=graph_code,guards` in the environment, or `tracer.logs.set_logs(graph_code=True, guards=True)`;",
        "`all` means every artifact, `-name` switches one off. Each is a logger of the standard library,",
        "`tracer.<artifact>`, whose records go to stderr unless the program has set up logging of its own.\n",
        "| Artifact | What it shows |",
        "|---|---|",
    ]
    return "\n".join([*lines, *[f"| `{name}` | {doc} |" for name, doc in ARTIFACTS.items()]]) + "\n"


def enabled() -> frozenset[str]:
    """The artifacts that are on."""
    return _on


def parse(text: str) -> dict[str, bool]:
    """`"graph,+guards,-trace"` or `"all"` -> switches; ValueError names the known artifacts."""
    wanted: dict[str, bool] = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        name = word.lstrip("+-")
        if name == "all":
            wanted.update(dict.fromkeys(ARTIFACTS, not word.startswith("-")))
        elif name in ARTIFACTS:
            wanted[name] = not word.startswith("-")
        else:
            raise ValueError(_unknown(name))
    return wanted


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, ARTIFACTS)
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"no log artifact {name!r}{meant or '.'} Known: {', '.join(ARTIFACTS)}, all"


class Record(NamedTuple):
    """One text, as `capture` gives it."""

    artifact: str
    text: str


@contextmanager
def capture(*artifacts: str) -> Iterator[list[Record]]:
    """Collects what this thread emits to these artifacts (all, if none is named); they are on meanwhile."""
    names = artifacts or tuple(ARTIFACTS)
    before = _on
    records: list[Record] = []
    collector = _Collector(records, frozenset(names))
    set_logs(**dict.fromkeys(names, True))
    _root.addHandler(collector)
    try:
        yield records
    finally:
        _root.removeHandler(collector)
        set_logs(**{name: name in before for name in names})


class _Collector(logging.Handler):
    def __init__(self, records: list[Record], artifacts: frozenset[str]) -> None:
        super().__init__()
        self.records = records
        self.artifacts = artifacts
        self.thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        artifact = record.name.removeprefix("tracer.")
        if artifact in self.artifacts and record.thread == self.thread:
            self.records.append(Record(artifact, record.getMessage()))


class _ToStderr(logging.StreamHandler):
    """Writes to whatever sys.stderr is now; silent where the program has set up logging of its own."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    def filter(self, record: logging.LogRecord) -> bool:
        wanted = record.levelno >= logging.WARNING or record.name.removeprefix("tracer.") in _on
        return wanted and not logging.getLogger().handlers


_root.addHandler(_ToStderr())
set_logs(**parse(os.environ.get(VARIABLE, "")))
