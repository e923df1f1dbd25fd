"""The blocks of docs/serving.md run, in their order."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "serving.md"


def test_the_guide_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    names: dict = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
    shown = capsys.readouterr().out
    assert len(blocks) >= 6 and "certified" in shown and "dtype mismatch" in shown
    assert names["certificate"].certified and (tmp_path / "contract.json").exists()
