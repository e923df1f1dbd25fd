"""The same for the guards of real traces: what the env emits is what the program decided."""

import pytest

from shapes.solver import equivalent, implies
from tests.shapes.equivalence.checks import trace_disagreements
from tests.shapes.equivalence.table import recorded_sets
from tests.shapes.equivalence.traced import trace, traces

SETS = recorded_sets()
FEW, MANY = 40, 10_000
RLIMIT = 100_000


@pytest.mark.parametrize("guards", SETS, ids=[guards.name for guards in SETS])
def test_what_the_env_emits_holds_where_the_program_takes_the_traced_path(guards):
    found = trace(guards)
    assert found.decisions == guards.decisions
    wrong, inside = trace_disagreements(found, FEW)
    assert not wrong, [text.readable for text in found.texts]
    assert inside


@pytest.mark.full
@pytest.mark.parametrize("guards", SETS, ids=[guards.name for guards in SETS])
def test_what_the_env_emits_holds_on_the_traced_path_at_ten_thousand_sizes(guards):
    wrong, _ = trace_disagreements(trace(guards), MANY)
    assert not wrong


def test_what_the_env_emits_is_proved_equivalent_to_what_it_recorded():
    shares = _proved(lambda found: [found.to_names(condition) for condition in found.env.recorded_guards()])
    print(f"\n{sum(shares)} of {len(shares)} traces of integers proved")
    assert sum(shares) / len(shares) >= 0.95


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.full)])
def test_what_the_env_emits_is_proved_equivalent_to_what_the_program_asked(every):
    """The recorded conditions were not simplified by the env, so the proof is harder than in test_table."""
    shares = _proved(lambda found: found.guards.guards, every)
    print(f"\n{sum(shares)} of {len(shares)} traces of integers proved against what was asked")
    assert sum(shares) / len(shares) >= 0.9


def _proved(recorded, every: int = 1) -> list[bool]:
    verdicts = []
    for found in traces()[::every]:
        if found.guards.is_of_integers:
            emitted = [found.to_names(text.condition) for text in found.texts]
            proved = equivalent(emitted, recorded(found), found.guards.facts, rlimit=RLIMIT)
            assert proved is not False, found.guards.name
            verdicts.append(bool(proved))
    return verdicts


def test_the_env_emits_nothing_that_the_rest_implies():
    spare = []
    for found in traces():
        emitted = [found.to_names(text.condition) for text in found.texts]
        for guard in emitted:
            if implies([other for other in emitted if other is not guard], guard, rlimit=2 * RLIMIT):
                spare.append((found.guards.name, guard))
    assert not spare
