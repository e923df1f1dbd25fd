"""A build that cannot work says what is missing and what to do, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / "setup.py"

PRETEND_NO_TORCH = "import sys; sys.modules['torch'] = None"
PRETEND_OTHER_TORCH = "import torch; torch.__version__ = '2.9.1+cpu'"
PRETEND_OTHER_PYTHON = """
import sys, setuptools.command.build_ext
sys.version_info = (3, 99, 1, 'final', 0)
sys.version = '3.99.1 (main)'
"""
PRETEND_NO_HEADERS = """
import sysconfig
real = sysconfig.get_paths
sysconfig.get_paths = lambda *args, **kwargs: {**real(*args, **kwargs), 'include': '/nowhere'}
"""


def build(folder: Path, pretend: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `setup.py build_ext` with its results in `folder`, after the given lines of Python."""
    script = f"""{pretend}
import runpy, sys
sys.argv = ['setup.py', '-q', 'build_ext', '--force', '--build-lib', {str(folder)!r}]
runpy.run_path({str(SETUP)!r}, run_name='__main__')
"""
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=SETUP.parent,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    ("pretend", "environment", "words"),
    [
        (PRETEND_NO_TORCH, {}, "pip install torch==2.13.0"),
        (PRETEND_OTHER_TORCH, {}, "torch is 2.9.1+cpu; the extension is written for 2.13 and later"),
        (PRETEND_OTHER_PYTHON, {}, "this is cpython 3.99.1"),
        (PRETEND_NO_HEADERS, {}, f"python3.{sys.version_info.minor}-dev"),
        ("", {"CC": "no-such-cc", "CXX": "no-such-c++"}, "there is no C++ compiler ('no-such-c++' is not found)"),
        ("", {"CC": "false", "CXX": "false"}, "the compiler gave up"),
    ],
    ids=["no torch", "another torch", "another Python", "no headers", "no compiler", "a broken compiler"],
)
def test_a_build_that_cannot_work_says_so(tmp_path, pretend, environment, words):
    done = build(tmp_path, pretend, **environment)
    assert done.returncode != 0
    assert "shapetracer cannot be built: " in done.stderr and words in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
