"""Random programs do under the tracer what they do in CPython."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fuzz import campaign, module_programs, tally, tensor_programs
from tests.fuzz.campaign import RESULT, Statistics, sample, write
from tests.fuzz.grammar import FEATURES
from tests.fuzz.observing import Observation
from tests.fuzz.programs import Program, generate
from tests.fuzz.running import run
from tests.fuzz.shrinking import shrunk

_FEW = range(900_000, 900_050)
_MANY = range(20_000)


@pytest.fixture(scope="module")
def few() -> Statistics:
    return sample(_FEW)


def test_programs_leave_the_same_behind(few: Statistics) -> None:
    assert not few.failures, "\n".join(f"seed {seed} differs in {kind}:\n{text}" for seed, kind, text in few.failures)


def test_most_programs_give_a_graph(few: Statistics) -> None:
    """Nine of ten do, of many (`Statistics.shortfalls`)."""
    assert few.with_graph >= 0.85 * few.programs


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
    monkeypatch.setattr(campaign, "KEPT", tmp_path)
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


# -- models of blocks that are alike -----------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 700), marks=pytest.mark.full)])
def test_models_whose_blocks_are_nearly_equal_do_what_they_do_in_eager(seeds: range) -> None:
    found = {seed: run(module_programs.generate(seed)) for seed in seeds}
    assert not {seed: verdict.difference for seed, verdict in found.items() if verdict.kind is not None}
    assert all(verdict.graphs for verdict in found.values())


# -- with compilers ----------------------------------------------------------------------------------------------


def differences(backend: str, seeds: range) -> list[str]:
    """Of programs of tensors from eager, where torch.compile agrees with eager."""
    found = []
    for seed in seeds:
        verdict = run(dataclasses.replace(tensor_programs.generate(seed), backend=backend))
        if verdict.kind is not None and not verdict.shared:
            found.append(f"seed {seed} differs in {verdict.kind}:\n{verdict.difference}")
    return found


def test_programs_of_tensors_compile_and_are_those_of_their_seed() -> None:
    for seed in range(300):
        program = tensor_programs.generate(seed)
        compile(program.source, "generated", "exec")
        assert program == tensor_programs.generate(seed)


@pytest.mark.parametrize("template", [text for text in tensor_programs._STATEMENTS if " = " in text or " += " in text])
def test_what_a_program_assigns_to_can_be_assigned_to(template: str) -> None:
    for seed in range(50):
        compile(tensor_programs._Writer(seed).named(template), "generated", "exec")


def test_programs_of_tensors_do_under_a_compiler_what_they_do_in_eager() -> None:
    assert not differences("aot_eager", range(4))


_WRONG_UNDER_COMPILERS = """
import torch, tracer

KEPT, LOG = [], []


def main(x):
    return "result", x * (FACTOR if COMPILING else 1.0)


def arguments(call):
    return (torch.ones(2),), {}
"""


@pytest.mark.parametrize(
    ("compiling", "factor", "backend", "kind", "shared"),
    [
        ("tracer.is_compiling()", "1.00001", "aot_eager", "result", False),
        ("torch.compiler.is_compiling()", "1.01", "aot_eager", "result", True),
        pytest.param("tracer.is_compiling()", "1.00001", "inductor", None, False, marks=pytest.mark.full),
    ],
)
def test_a_difference_is_told_from_rounding_and_from_one_of_torch_compile(
    compiling: str, factor: str, backend: str, kind: str | None, shared: bool
) -> None:
    source = _WRONG_UNDER_COMPILERS.replace("COMPILING", compiling).replace("FACTOR", factor)
    found = run(Program(0, source, Counter(), calls=1, dynamic=None, gradients=False, backend=backend))
    assert (found.kind, found.shared) == (kind, shared)


def test_values_that_are_nearly_equal_are_equal_where_compilers_round() -> None:
    def seen(value: torch.Tensor) -> list[object]:
        observation = Observation(exact=False)
        observation.see("x", value)
        return [line for line in observation.lines if "memory of" not in str(line)]

    x = torch.randn(3)
    assert seen(x) == seen(x * 1.00001) != seen(x * 1.01)
    assert seen(x) != seen(x.double()) and seen(torch.tensor([2])) != seen(torch.tensor([3]))
    assert seen(torch.tensor([float("nan")])) == seen(torch.tensor([float("nan")]))


@pytest.mark.full
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize(("backend", "seeds"), [("aot_eager", range(400)), ("inductor", range(40))])
def test_many_programs_of_tensors_differ_only_where_torch_compile_differs_too(backend: str, seeds: range) -> None:
    assert not differences(backend, seeds)


def test_a_tally_goes_on_where_it_stopped_and_runs_again_what_differed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[range, str]] = []
    differ = {900_003: "failures", 900_004: "shared"}

    def in_process(seeds: range, backend: str) -> dict[str, Any]:
        ran.append((seeds, backend))
        found = Statistics(programs=len(seeds), calls=2 * len(seeds))
        for seed in seeds:
            if seed in differ:
                getattr(found, differ[seed]).append((seed, "result", "expected 1 but saw 2"))
        return found.as_json()

    monkeypatch.setattr(tally, "in_process", in_process)
    for sources, last in (("one", 900_050), ("one", 900_100), ("two", 900_120)):
        monkeypatch.setattr(tally, "fingerprint", lambda sources=sources: sources)
        tally.Tally("aot_eager", tmp_path).carry_on(range(900_000, last))
        if last == 900_100:
            del differ[900_003]
    chunks = [range(900_000, 900_050), range(900_050, 900_100), range(900_003, 900_004), range(900_100, 900_120)]
    assert ran == [(chunk, "aot_eager") for chunk in chunks]
    assert "| aot_eager | 900000:900120 | 120 | 240 | 0 | 0 | 1 | 1 | 2 |" in tally.table([tally.Tally("aot_eager", tmp_path)])


@pytest.mark.parametrize("plain_dies", [True, False])
def test_a_program_that_ends_its_process_is_shared_if_it_does_so_without_a_tracer(
    monkeypatch: pytest.MonkeyPatch, plain_dies: bool
) -> None:
    def run_in_process(kind: str, *seeds: int, backend: str) -> subprocess.CompletedProcess[str]:
        dies = plain_dies if kind == "plain" else 900_002 in range(*seeds)
        gave = "" if dies or kind == "plain" else json.dumps(Statistics(programs=len(range(*seeds))).as_json())
        return subprocess.CompletedProcess([], -11 if dies else 0, gave, "")

    monkeypatch.setattr(campaign, "_run", run_in_process)
    found = campaign.in_process(range(900_000, 900_004), "aot_eager")
    assert found["programs"] == 4
    there, elsewhere = ("shared", "failures") if plain_dies else ("failures", "shared")
    assert [(seed, kind) for seed, kind, _ in found[there]] == [(900_002, "death")] and not found[elsewhere]


def test_a_sample_of_a_backend_is_one_of_programs_of_tensors() -> None:
    found = sample(range(3), "aot_eager")
    assert found.programs == 3 and set(found.features) <= {
        name for seed in range(3) for name in tensor_programs.generate(seed).used
    }
    assert not found.failures
