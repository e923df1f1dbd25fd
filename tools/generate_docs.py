"""Writes the pages of docs/ that are generated from the code: `python -m tools.generate_docs [--check]`.

With --check nothing is written, and the exit status says whether a page is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools import opcode_report
from tracer import config, graph_breaks, logs
from tracer.report import records

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "docs/graph_breaks.md": graph_breaks.markdown,
    "docs/opcodes.md": opcode_report.markdown,
    "docs/config.md": lambda: f"{config.markdown()}\n{logs.markdown()}\n{records.markdown()}",
}


def stale_pages() -> dict[Path, str]:
    """Page -> the text that it should have, for the pages that differ."""
    texts = {ROOT / page: make() for page, make in PAGES.items()}
    return {page: text for page, text in texts.items() if not page.exists() or page.read_text() != text}


def main(arguments: list[str]) -> int:
    stale = stale_pages()
    for page, text in stale.items():
        print(f"{'out of date' if '--check' in arguments else 'wrote'}: {page.relative_to(ROOT)}")
        if "--check" not in arguments:
            page.write_text(text)
    return int("--check" in arguments and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
