"""Random programs do under the tracer what they do in CPython."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz import campaign
from tests.fuzz.campaign import RESULT, Statistics, sample, write
from tests.fuzz.grammar import FEATURES
from tests.fuzz.programs import Program, generate
from tests.fuzz.running import run
from tests.fuzz.shrinking import shrunk

_FEW = range(900_000, 900_080)
_MANY = range(20_000)


@pytest.fixture(scope="module")
def few() -> Statistics:
    return sample(_FEW)


def test_programs_leave_the_same_behind(few: Statistics) -> None:
    assert not few.failures, "\n".join(f"seed {seed} differs in {kind}:\n{text}" for seed, kind, text in few.failures)


def test_nine_of_ten_programs_give_a_graph(few: Statistics) -> None:
    assert few.with_graph >= 0.9 * few.programs


def test_half_of_the_programs_break_the_graph(few: Statistics) -> None:
    assert few.with_break >= 0.5 * few.programs


def test_every_feature_is_met() -> None:
    met = {name for seed in range(600) for name in generate(seed).used}
    assert not set(FEATURES) - met


def test_a_seed_gives_one_program() -> None:
    assert generate(5) == generate(5)
    assert generate(5).source != generate(6).source


_DIFFERS = """
import tracer

KEPT, LOG = [], []


def helper(x):
    return x + 1


def main(x, *, xs):
    for i in range(3):
        x = helper(x) * i
        xs.append(i)
    if xs:
        LOG.append(tracer.is_compiling())
    else:
        LOG.append(1)
    return x, xs


def arguments(call):
    import torch

    return (torch.ones(2),), {"xs": [call]}
"""


def test_a_difference_is_seen_and_its_program_made_short() -> None:
    program = Program(0, _DIFFERS, Counter(), calls=2, dynamic=None, gradients=False)
    found = run(program)
    assert found.kind == "LOG"
    short = shrunk(program, lambda candidate: run(candidate).kind == found.kind)
    assert "is_compiling" in short.source
    assert "helper" not in short.source and "else" not in short.source


def test_a_campaign_finds_in_processes_what_a_sample_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "_KEPT", tmp_path)
    seeds = range(900_000, 900_004)
    found, expected = campaign.campaign(seeds, 1), sample(seeds)
    again = campaign.campaign(seeds, 1)  # from what was kept
    assert again == found and found.seconds > 0
    assert (found.programs, found.calls, found.features) == (expected.programs, expected.calls, expected.features)


@pytest.mark.full
@pytest.mark.timeout(6 * 3600)
def test_twenty_thousand_programs_leave_the_same_behind() -> None:
    found = write(_MANY)
    assert not found.shortfalls(), "\n".join(found.shortfalls()[:20])
    assert RESULT.exists()
