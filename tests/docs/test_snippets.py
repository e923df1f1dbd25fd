"""The blocks of Python in README.md, docs/ and the other pages run: each page is one program, in a process of its own.

A block without a language directly below a block of Python is what the program prints there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks_of(page: Path) -> list[tuple[str, int, str]]:
    """(language, line of the page at which it begins, text) of each fenced block."""
    text = page.read_text()
    return [(found[1], text.count("\n", 0, found.start()) + 2, found[2]) for found in BLOCK.finditer(text)]


def program_of(page: Path) -> str:
    """Each block at the lines that it has on the page, so that tracebacks show where it stands."""
    lines: list[str] = []
    for language, line, text in blocks_of(page):
        if language == "python":
            lines += [""] * (line - 1 - len(lines)) + text.splitlines()
    return "\n".join(lines) + "\n"


def shown_outputs(page: Path) -> list[str]:
    return re.findall(r"^```python\n(?:.*\n)*?```\n\s*^```\n((?:.*\n)*?)```$", page.read_text(), re.MULTILINE)


WITH_PYTHON = [page for page in PAGES if any(language == "python" for language, *_ in blocks_of(page))]


def test_pages_with_programs_are_found():
    assert {"README.md", "backends.md", "serving.md", "extend.md"} <= {page.name for page in WITH_PYTHON}


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in WITH_PYTHON])
def test_the_program_of_a_page_runs(page, tmp_path):
    program = tmp_path / page.with_suffix(".py").name
    program.write_text(program_of(page))
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, program], cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{page.relative_to(ROOT)}\n{done.stderr}"
    for output in shown_outputs(page):
        assert output in done.stdout
