"""Small mistakes in the simplifier, the translator and the printer are noticed, or listed with why they are none."""

import os

import pytest

from tests.shapes.equivalence import mutants

FEW = 6


def everything() -> list[mutants.Mutant]:
    return [mutant for module in mutants.MODULES for mutant in mutants.mutants(module)]


@pytest.mark.parametrize("module", ["shapes.simplify", "shapes.solver.translate", "shapes.printing", "shapes.solver.pruning"])
def test_the_code_as_it_is_passes_the_battery(module):
    _, status = os.waitpid(mutants.start(None, module), 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_there_are_mutants_of_every_kind():
    names = [mutant.name for mutant in everything()]
    assert len(names) == len(set(names)) > 1000
    for change in (" -> a.defined - b.defined", "'<' -> '<='", "16 -> 17", "without ", "-> if False", " -> pass", "and"):
        assert any(change in name for name in names), change


def test_most_mutants_of_a_sample_are_noticed():
    """The full run asks for all; not every survivor is looked into yet, so that a sample may hold a few."""
    known = mutants.listed()
    chosen = [mutant for mutant in everything() if not mutants.is_listed(mutant.name, known)]
    assert len(mutants.survivors(chosen[:: len(chosen) // FEW])) <= FEW // 2


@pytest.mark.full
@pytest.mark.timeout(7200)
def test_every_mutant_is_noticed_or_listed():
    known = mutants.listed()
    alive = mutants.survivors(everything())
    unlisted = [name for name in alive if not mutants.is_listed(name, known)]
    print(f"\n{len(everything())} mutants, {len(alive)} survive, {len(alive) - len(unlisted)} of them listed")
    assert unlisted == []


def test_the_listed_survivors_are_mutants_and_have_a_reason():
    names = [mutant.name for mutant in everything()]
    for name, reason in mutants.listed().items():
        assert reason.strip(), name
        assert any(mutants.is_listed(mutant, {name: reason}) for mutant in names), f"no such mutant: {name}"
