"""The community zoo: what is counted of a row, and that a program is captured in forked processes."""

from __future__ import annotations

import math

import torch

from benchmarks import zoo_community, zoo_community_report
from benchmarks.zoo_community import Outcome, Row
from benchmarks.zoo_models.community import COMMUNITY
from benchmarks.zoo_models.registry import Model

WHOLE = Outcome(graphs=1)
BROKEN = Outcome(graphs=2, breaks=["here"])


def row(ours, theirs, name="a"):
    ways = zoo_community.WAYS
    return Row(name, "b", dict.fromkeys(ways, ours), dict.fromkeys(ways, theirs))


def test_a_row_is_as_good_as_it_captures():
    assert row(WHOLE, WHOLE).is_good and row(BROKEN, BROKEN).is_good and row(WHOLE, BROKEN).is_good
    assert row(BROKEN, WHOLE).captures_less == ["fullgraph", "default"]
    assert row(Outcome(graphs=1, recompiled=1), WHOLE).captures_less == ["dynamic"]
    assert not row(BROKEN, WHOLE).is_good


def test_a_difference_is_a_wrong_result_unless_torch_compile_has_it_too():
    assert row(Outcome(graphs=1, difference=1e-3), WHOLE).is_wrong
    assert row(Outcome(graphs=1, difference=math.nan), WHOLE).is_wrong
    assert row(Outcome(graphs=1, random_state_equal=False), Outcome(graphs=1, difference=1e-3)).is_wrong
    assert not row(Outcome(graphs=1, difference=1e-3), Outcome(graphs=1, difference=1e-3)).is_wrong


def test_a_refusal_is_an_error_only_by_default():
    refused = Outcome(error="Unsupported: a branch on data")
    assert row(refused, refused).has_error
    found = row(BROKEN, BROKEN)
    found.ours["fullgraph"] = refused
    assert not found.has_error
    found.ours["fullgraph"] = Outcome(error="AttributeError: no partition")
    assert found.has_error


def test_the_page_begins_with_what_torch_compile_captures_more_of():
    text = zoo_community_report.markdown(
        [row(WHOLE, WHOLE, "whole"), row(BROKEN, WHOLE, "broken"), Row("gone", "c", failure="no")]
    )
    assert text.index("| broken | b | fullgraph, default | here |") < text.index("| whole | b | yes / yes | 1 / 1 | 1+0 / 1+0 |")
    assert "| `fullgraph=True` | 1 | 2 |" in text and "gone" not in text


def test_a_program_is_captured_in_each_way():
    program = Model("program", "community", lambda: (lambda x: x * 2 + 1, lambda n: {"x": torch.randn(n, 2)}))
    found = zoo_community.run_one(program, ["ours"])
    assert {way: (outcome.graphs, outcome.recompiled, outcome.error) for way, outcome in found.ours.items()} == {
        "fullgraph": (1, 0, ""), "default": (1, 0, ""), "dynamic": (1, 0, ""),
    }  # fmt: skip
    assert found.is_good and all(outcome.is_equal for outcome in found.ours.values())


def test_a_program_that_raises_or_ends_its_process_is_a_failure():
    def raising(x):
        raise ValueError("no")

    found = zoo_community.run_one(Model("raising", "community", lambda: (raising, lambda n: {"x": n})), ["ours"])
    assert "ValueError: no" in found.failure and not found.is_good


def test_a_hundred_and_twenty_programs_of_forty_packages():
    assert len(COMMUNITY) >= 120
    assert len({model.needs for model in COMMUNITY.values()}) >= 40
