"""Each model of the library against CPython, on the example rows."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

from tests.library.names import NAMES
from tests.support import check_made
from tracer import library
from tracer.discovery import import_modules
from tracer.protocol.models import models

import_modules(library)


def examples() -> dict[str, list[str]]:
    """The rows of examples.txt, by the name of the model."""
    sections: dict[str, list[str]] = {}
    rows: list[str] = []
    for line in (Path(__file__).parent / "examples.txt").read_text().splitlines():
        header = re.fullmatch(r"\[([\w.]+)(?:, (since|until) 3\.(\d+))?\]", line)
        if header is not None:
            name, window, minor = header.groups()
            is_here = window is None or (sys.version_info >= (3, int(minor))) is (window == "since")
            rows = sections.setdefault(name, []) if is_here else []
        elif line and not line.startswith("#") and line != "-":
            rows.append(line)
    return sections


EXAMPLES = examples()
ROWS = sorted({row for rows in EXAMPLES.values() for row in rows})


def name_of(function: object) -> str:
    owner = getattr(function, "__self__", None)
    owner = owner if isinstance(owner, type) else getattr(function, "__objclass__", function)
    return f"{owner.__module__}.{function.__qualname__}"


def test_every_model_has_an_example():
    named = {name_of(function) for function in models.table if callable(function) and hasattr(function, "__qualname__")}
    elsewhere = ("torch", "None.TensorBase", "tracer", "numpy")  # NumPy's have one model
    ours = {name for name in named if not name.startswith(elsewhere)}
    assert not ours - EXAMPLES.keys(), f"no example row: {sorted(ours - EXAMPLES.keys())}"
    assert not EXAMPLES.keys() - ours, f"no model: {sorted(EXAMPLES.keys() - ours)}"


def program(row: str):
    kind, _, expression = row.partition(": ") if row.startswith(("break: ", "raises: ")) else ("", "", row)
    if kind == "raises":
        text = f"def program(x, n):\n    try:\n        return x + 1, {expression}\n    except Exception as error:\n"
        text += "        return x + 2, type(error), str(error)"
    else:
        text = f"def program(x, n):\n    return x + 1, {expression}"
    names = dict(NAMES)
    exec(text, names)
    return kind, names["program"]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("row", ROWS)
def test_row(row, dynamic):
    kind, fn = program(row)
    checked = check_made(fn, lambda: ((torch.arange(3.0), 4), {}), dynamic=dynamic)
    if kind == "break":
        assert checked.breaks
    elif kind != "raises":
        assert not checked.breaks, "\n".join(map(str, checked.breaks))
        assert len(checked.graphs) == 1
    assert not checked.recompiles
