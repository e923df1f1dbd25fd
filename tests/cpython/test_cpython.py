"""CPython's own tests, with every frame offered to the tracer, or replaced by generated code, fail where CPython's fail.

A few modules run always; all of them, in both modes, with --full, which leaves `tests/results/cpython_VERSION.md`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cpython.known import KNOWN, OPEN, SLOW
from tests.cpython.running import MODULES, Run, differences, missing, run

VERSION = ".".join(map(str, sys.version_info[:2]))
RESULTS = Path(__file__).parents[1] / "results" / f"cpython_{VERSION}.md"
SECONDS = float(os.environ.get("CPYTHON_TESTS_SECONDS", "150"))  # for one module and mode
QUICK = ("test_funcattrs", "test_with")
SHARE = 0.7

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")


def compare(module: str, mode: str, seconds: float) -> tuple[Run, Run]:
    """The runs of a module in plain CPython and in `mode`; fails where they differ."""
    names = [f"-{name}" for name in (*KNOWN, *OPEN, *SLOW) if name.startswith(f"{module}.")]
    plain, other = run(module, "plain", names, seconds), run(module, mode, names, seconds)
    assert plain.outcomes and not plain.ended, plain.ended
    different = differences(plain, other)
    assert not different, "\n\n".join(f"{test}: {text[-2000:]}" for test, text in different.items())
    if other.frames is None:
        assert other.ended.startswith("it ran past"), f"during {other.last}: {other.ended}"
        assert other.outcomes, "not one test was reached"
    return plain, other


def share(frames: dict[str, Any]) -> str:
    return (
        f"{frames['converted']} of {frames['functions']} functions run from generated code "
        f"({frames['converted'] / max(frames['functions'], 1):.0%}); {frames['served']} of {frames['calls']} calls; "
        f"{frames['traces']} traces, {frames['given up']} given up"
    )


@pytest.mark.parametrize("module", QUICK)
def test_replaced_frames_pass_what_cpython_passes(module):
    _, forced = compare(module, "forced", 300)
    assert forced.frames is not None, forced.ended
    print(f"\n{module}: {share(forced.frames)}")
    assert forced.frames["converted"] >= SHARE * forced.frames["functions"]


def rows_of(table: str) -> dict[tuple[str, ...], str]:
    """The rows of a written table, by module and mode."""
    rows = [line for line in table.splitlines() if line.startswith("| test_")]
    return {tuple(row.strip("| ").split(" | ")[:2]): row for row in rows}


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """Lines of the table of results, written at the end. Those of modules that did not run stay as they are."""
    lines: list[str] = []
    yield lines
    RESULTS.parent.mkdir(exist_ok=True)
    head = [
        f"# The own tests of CPython {VERSION} under the tracer\n",
        "Written by `pytest --full tests/cpython`. `offered`: every frame is offered to the tracer; `forced`: each that can be",
        "converted is replaced (`config.convert_every_frame`). Share: functions with generated code. A module stops after",
        f"{SECONDS:.0f} seconds; what it has reached until then counts.\n",
        "| module | mode | ran | tests | reached | differ from CPython | functions | share | calls | served |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    before = RESULTS.read_text() if RESULTS.exists() else ""
    lines = list({**rows_of(before), **rows_of("\n".join(lines))}.values())
    left = ["\nLeft out, since they cannot pass:\n", *(f"- `{name}`: {why}." for name, why in KNOWN.items())]
    left += ["\nLeft out, since they take minutes:\n", *(f"- `{name}`: {why}." for name, why in SLOW.items())]
    bugs = ["\nLeft out, and bugs of the tracer:\n", *(f"- `{name}`: {why}." for name, why in OPEN.items())]
    RESULTS.write_text("\n".join([*head, *sorted(lines), *left, *bugs]) + "\n")


@pytest.mark.full
@pytest.mark.parametrize("mode", ["offered", "forced"])
@pytest.mark.parametrize("module", MODULES)
def test_no_frame_under_the_tracer_fails_where_cpython_does_not(module, mode, table):
    plain, other = compare(module, mode, SECONDS)
    frames = other.frames
    words = ["", "", "", ""]
    if frames is not None:
        print(f"\n{module}, {mode}: {share(frames)}")
        part = frames["converted"] / max(frames["functions"], 1)
        words = [str(frames["functions"]), f"{part:.0%}", str(frames["calls"]), str(frames["served"])]
    cells = [module, mode, time.strftime("%Y-%m-%d"), str(len(plain.outcomes)), str(len(other.outcomes)), "0", *words]
    table.append(f"| {' | '.join(cells)} |")
    if frames is not None and mode == "forced":
        assert frames["converted"] >= SHARE * frames["functions"], share(frames)


def test_the_tests_that_are_left_out_are_there_to_be_left_out():
    assert all(any(name.startswith(f"{module}.") for module in MODULES) for name in (*KNOWN, *OPEN, *SLOW))


def test_a_difference_is_told_and_a_test_that_was_not_reached_is_none():
    plain = Run({"a": ["passed"], "b": ["passed"], "c": ["failed"]}, {}, None, "")
    other = Run({"a": ["failed"], "b": [], "c": ["failed"]}, {"a": "why"}, None, "")
    assert differences(plain, other) == {"a": "['passed'] became ['failed']\nwhy"}


def test_a_row_of_the_table_is_known_by_its_module_and_mode():
    row = "| test_dict | forced | 2026-11-23 | 106 | 106 | 0 | 208 | 82% | 249705 | 77259 |"
    assert rows_of(f"# Head\n\n| module | mode |\n|---|---|\n{row}\n\n- `test_x`: no row.") == {("test_dict", "forced"): row}
