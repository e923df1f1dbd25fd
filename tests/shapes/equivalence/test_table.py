"""What is emitted says what was recorded: by z3, by plain Python at sampled sizes, and with nothing to spare."""

import pytest
import sympy

from shapes.printing import group, python_source
from shapes.solver import equivalent, implies, prune
from tests.shapes.equivalence.checks import RLIMIT, disagreements, pruned
from tests.shapes.equivalence.table import all_sets, recorded_sets

SETS = all_sets()
FEW, MANY = 60, 10_000


def test_the_table_is_large_and_broad():
    assert len(SETS) >= 200 and len({guards.name for guards in SETS}) == len(SETS)
    assert all(guards.guards for guards in recorded_sets())
    for guards in SETS:
        assert guards.admits(guards.hints) and guards.holds(guards.hints) is True, guards.name


@pytest.mark.parametrize("guards", SETS, ids=[guards.name for guards in SETS])
def test_the_emitted_guards_hold_where_the_program_takes_the_traced_path(guards):
    wrong, inside, _ = disagreements(guards, FEW)
    assert not wrong
    assert inside


@pytest.mark.full
@pytest.mark.parametrize("guards", SETS, ids=[guards.name for guards in SETS])
def test_the_emitted_guards_hold_on_the_traced_path_at_ten_thousand_sizes(guards):
    wrong, inside, outside = disagreements(guards, MANY)
    assert not wrong
    assert inside + outside >= min(MANY, 1000) or len(guards.symbols) == 1


def test_emitted_and_recorded_are_proved_equivalent(record_property):
    """The share that is proved is reported, and for integers it is at least 95%."""
    verdicts = {}
    unknown = 0
    for guards in SETS:
        result = pruned(guards)
        unknown += result.unknown
        proved = equivalent(result.kept, guards.guards, guards.facts, rlimit=10 * RLIMIT)
        assert proved is not False, guards.name
        verdicts[guards] = bool(proved and result.certified)
    integers = [proved for guards, proved in verdicts.items() if guards.is_of_integers]
    share = sum(integers) / len(integers)
    record_property("share_proved", share)
    print(f"\n{sum(integers)} of {len(integers)} integer sets proved; {unknown} guards kept because z3 could not tell")
    assert share >= 0.95


def test_no_emitted_guard_is_implied_by_the_others():
    unknown = 0
    for guards in SETS:
        result = pruned(guards)
        implied = [
            guard
            for guard in result.kept
            if implies([other for other in result.kept if other is not guard], guard, guards.facts, rlimit=RLIMIT)
        ]
        assert len(implied) <= result.unknown, (guards.name, implied)
        unknown += result.unknown
    assert unknown <= len(SETS) * 0.05


def test_the_emitted_text_depends_on_the_guards_alone():
    for guards in SETS[::10]:
        names = {symbol: symbol.name for symbol in guards.symbols}
        texts = {
            tuple(python_source(line.expr, names) for line in group(prune(order, guards.facts).kept))
            for order in (guards.guards, guards.guards[::-1])
        }
        assert len(texts) == 1, guards.name


def test_a_dropped_guard_names_guards_that_imply_it():
    for guards in recorded_sets()[::4]:
        result = pruned(guards)
        for drop in result.dropped:
            by = [guards.guards[index] for index in drop.by]
            assert implies(by, drop.expr, guards.facts, rlimit=10 * RLIMIT), (guards.name, drop)


def test_symbols_of_a_set_are_its_sizes():
    for guards in SETS:
        used = set().union(*(sympy.sympify(guard).free_symbols for guard in guards.guards))
        assert used <= set(guards.symbols)
