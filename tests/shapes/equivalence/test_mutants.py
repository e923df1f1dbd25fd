"""Small mistakes in the simplifier, the translator and the printer are noticed, or listed with why they are none."""

import pytest

from tests.shapes.equivalence import hunting, mutants
from tests.shapes.equivalence.survivors import listed

EVERY = 50  # of the default run; any number of it would do


def everything() -> list[mutants.Mutant]:
    return [mutant for module in mutants.MODULES for mutant in mutants.mutants(module)]


def not_noticed(chosen: list[mutants.Mutant]) -> tuple[list[str], list[hunting.Outcome]]:
    """Survivors that the list does not know, and all outcomes. Fails if the code as it is does not pass."""
    outcomes = hunting.hunt(chosen)
    assert len(outcomes) == len(chosen)
    return [outcome.mutant.name for outcome in outcomes if outcome.survives and outcome.mutant.name not in listed()], outcomes


def test_there_are_mutants_of_every_kind():
    names = [mutant.name for mutant in everything()]
    assert len(names) == len(set(names)) > 1000
    for change in (" -> a.defined - b.defined", "'<' -> '<='", "16 -> 17", "without ", "-> if False", " -> pass", "and"):
        assert any(change in name for name in names), change


@pytest.mark.timeout(1200)
def test_every_mutant_of_a_sample_is_noticed_or_listed():
    survivors, _ = not_noticed(everything()[::EVERY])
    assert survivors == []


@pytest.mark.full
@pytest.mark.timeout(14400)
def test_every_mutant_is_noticed_or_listed():
    survivors, outcomes = not_noticed(everything())
    hunting.write_results(outcomes)
    assert survivors == []


def test_a_mutant_that_changes_nothing_survives_and_one_that_hangs_does_not():
    """The hunt itself: what is noticed is noticed for its mistake."""
    mutant = next(m for m in mutants.mutants("shapes.printing") if m.place.endswith(".natural"))
    same = mutant._replace(replacement=mutant.target)
    function = next(node for node in mutant.tree.body if getattr(node, "name", "") == "natural")
    hanging = mutant._replace(target=function.body[-1], replacement=mutants.parsed("while True: pass"))
    outcomes = hunting.hunt([same, hanging])
    assert [outcome.survives for outcome in outcomes] == [True, False]


def test_the_listed_survivors_are_mutants_and_have_a_reason():
    names = {mutant.name for mutant in everything()}
    for name, reason in listed().items():
        assert reason.strip(), name
        assert name in names, f"no such mutant: {name}"
