"""Programs in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def run_python(
    program: str, *arguments: Any, options: Sequence[str] = (), fails: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs `program`, which can import from this tree, and gives its status and what it wrote.

    Asserts that it ended well, or with `fails` that it did not. `options` are those of the interpreter, `arguments` the
    program's own, `environment` what it has besides the variables of this process."""
    command = [sys.executable, *options, "-c", textwrap.dedent(program), *map(str, arguments)]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=400, env=variables)
    assert (ran.returncode != 0) is fails, f"status {ran.returncode}\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
    return ran
