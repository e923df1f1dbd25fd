"""docs/examples/piecewise_backend.py: a backend in the manner of vLLM's, which knows torch.compile only."""

from __future__ import annotations

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "piecewise_backend.py"


def test_the_example_compiles_each_piece_for_any_size_and_for_two(capsys):
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        "1 entry, 4 pieces; compiled:",
        "   4 for any size",
        "   8 for one size",
    ]
