"""Runs the tests of the C extension under gcc's address and undefined-behaviour sanitizers: `make sanitize`.

The extension is built with TRACER_SANITIZE=1 into build/sanitized/, beside copies of the packages and the tests, so that the
build in the tree stays as it is. Arguments are handed on to pytest in place of the usual tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "build" / "sanitized"
TESTS = ["tests/csrc", "tests/guards", "tests/soundness/test_threads_and_processes.py"]
COPIED = ["tests", "csrc", "setup.py", "pyproject.toml"]

ADDRESS = ":".join(
    [
        # CPython and torch leave much unfreed when a process ends, on purpose. tests/csrc/test_leaks.py counts what is ours.
        "detect_leaks=0",
        # Each thread would need its own shadow stacks; tests start many threads.
        "detect_stack_use_after_return=0",
    ]
)
UNDEFINED = "halt_on_error=1:print_stacktrace=1"


def runtime_library(name: str) -> str:
    """The path of a library of the compiler, which has to be loaded before Python itself is."""
    compiler = os.environ.get("CC", "gcc")
    path = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(path):
        raise SystemExit(f"{compiler} has no {name}; install the libraries of its sanitizers (on Debian: libasan and libubsan).")
    return path


def build() -> None:
    # setuptools keeps files that seem newer than their sources, and files whose sources are gone.
    for copied in PLACE.rglob("*.py"):
        copied.unlink()
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build", "--build-lib", str(PLACE)],
        cwd=ROOT,
        env={**os.environ, "TRACER_SANITIZE": "1"},
        check=True,
    )
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, PLACE / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "results")
            )
        else:
            shutil.copy2(ROOT / name, PLACE / name)


def environment() -> dict[str, str]:
    """That of a process which loads the sanitized extension."""
    return {
        **os.environ,
        "TRACER_SANITIZE": "1",  # tests ask for it
        "LD_PRELOAD": " ".join(map(runtime_library, ["libasan.so", "libubsan.so", "libstdc++.so"])),
        "ASAN_OPTIONS": ADDRESS,
        "UBSAN_OPTIONS": UNDEFINED,
        "PYTHONMALLOC": "malloc",  # CPython's own allocator would hide where an object ends and when it is freed
        "PYTHONPATH": str(PLACE),
    }


def main(arguments: list[str]) -> int:
    environ = environment()
    build()
    # What a sanitizer writes as it ends the process would be lost in a file of pytest's.
    options = ["--rootdir=.", "-p", "no:cacheprovider", "--capture=sys"]
    command = [sys.executable, "-m", "pytest", *options, *(arguments or TESTS)]
    return subprocess.run(command, cwd=PLACE, env=environ).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
