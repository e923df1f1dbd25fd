"""What README.md lists is what there is."""

from __future__ import annotations

import re
from pathlib import Path

from tracer import exc

README = (Path(__file__).parents[2] / "README.md").read_text()


def listed_after(words: str) -> set[str]:
    """The names in the first code span behind `words` that holds a list."""
    found = re.search(r"`([^`]*,[^`]*)`", README[README.index(words) + len(words) :])
    assert found is not None
    return {name.strip() for name in found[1].split(",")}


def test_every_error_is_listed():
    assert listed_after("**Errors** are in `tracer.exc`:") == set(exc.__all__)
