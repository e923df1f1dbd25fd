"""CPython's own tests, plain and under the tracer, and how the two differ."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MODULES = (
    "test_grammar", "test_generators", "test_contextlib", "test_dataclasses", "test_functools", "test_itertools",
    "test_collections", "test_dict", "test_list", "test_set", "test_deque", "test_exceptions", "test_with", "test_scope",
    "test_funcattrs", "test_descr", "test_enum", "test_patma", "test_unpack_ex", "test_fstring", "test_json", "test_re",
    "test_copy", "test_weakref",
    *(("test_type_params",) if sys.version_info >= (3, 12) else ()),
    *(("test_tstring",) if sys.version_info >= (3, 14) else ()),
)  # fmt: skip


def missing() -> str | None:
    """Why CPython's tests cannot be run here; None if they can."""
    if importlib.util.find_spec("test") is None or importlib.util.find_spec("test.test_grammar") is None:
        return "this interpreter was installed without its own tests (the package `test`)"
    return None


@dataclasses.dataclass
class Run:
    """What one process said: how each test ended, and what became of the frames (None if it did not come to its end)."""

    outcomes: dict[str, list[str]]
    texts: dict[str, str]
    frames: dict[str, Any] | None
    ended: str  # how the process ended, if not as it should

    @property
    def last(self) -> str:
        """The test that ran at the end."""
        return next(reversed(self.outcomes), "")


def run(module: str, mode: str, names: list[str], seconds: float) -> Run:
    """Runs a module's tests in a process of their own (see `one_module`)."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        report.touch()
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "REPORT": str(report), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.cpython.one_module", module, mode, *names]
        try:
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds)
            ended = "" if done.returncode == 0 else f"exit status {done.returncode}: {done.stderr[-3000:]}"
        except subprocess.TimeoutExpired:
            ended = f"it ran past {seconds:.0f} seconds"
        lines = report.read_text().splitlines()
    found = Run({}, {}, None, ended)
    for line in map(json.loads, lines):
        if "test" not in line:
            found.frames = line
            continue
        outcomes = found.outcomes.setdefault(line["test"], [])
        if line["outcome"] != "begun":
            outcomes.append(line["outcome"])
            found.texts[line["test"]] = found.texts.get(line["test"], "") + line["text"]
    return found


def differences(plain: Run, other: Run) -> dict[str, str]:
    """The tests that came to another end than in plain CPython, with what they said. Those not reached are left out."""
    return {
        test: f"{plain.outcomes.get(test)} became {outcomes}\n{other.texts.get(test, '')}"
        for test, outcomes in other.outcomes.items()
        if outcomes and outcomes != plain.outcomes.get(test)
    }
