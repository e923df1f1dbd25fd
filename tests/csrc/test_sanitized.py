"""What `make sanitize` promises: the extension under test is the instrumented one, and what it does wrong ends the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch  # noqa: F401  (before tracer._C)

from tracer import _C

pytestmark = pytest.mark.skipif(os.environ.get("TRACER_SANITIZE") != "1", reason="`make sanitize` runs these")


def test_the_extension_under_test_is_the_instrumented_one():
    assert _C.__file__ is not None
    library = Path(_C.__file__)
    assert library.is_relative_to(Path(__file__).parents[2])
    assert b"__asan_report_store" in library.read_bytes() and b"__ubsan_handle" in library.read_bytes()


def test_a_write_behind_the_end_of_memory_ends_the_process():
    program = "import ctypes; ctypes.memset(ctypes.create_string_buffer(8), 0, 1 << 20)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode != 0 and "AddressSanitizer: heap-buffer-overflow" in ran.stderr
