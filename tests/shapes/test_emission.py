"""Emitted guards: readable, minimal, and in two forms that agree."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from shapes import DimPolicy, ShapeEnv, Why
from shapes.evaluation import evaluate
from tests.shapes.algebra_programs import Named, build, examples, readable, trees

D = DimPolicy.DYNAMIC
A, B = Named("L['a'].size()[0]"), Named("L['b'].size()[0]")


def test_duck_shaped_sizes_as_the_reference_shows_them() -> None:
    env = ShapeEnv()
    env.create_size(8, A)
    env.create_size(8, B)
    assert readable(env) == ["L['b'].size()[0] == L['a'].size()[0]", "2 <= L['a'].size()[0]"]


def test_a_guard_met_in_the_trace_keeps_the_form_in_which_it_was_recorded() -> None:
    env = ShapeEnv(where=lambda: "line 5")
    a = env.create_size(8, A)
    assert not env.evaluate_expr(a * 2 < 16)
    (guard,) = env.produce_guards()
    assert guard.readable == "8 <= L['a'].size()[0]"
    assert guard.recorded == "2*L['a'].size()[0] >= 16"
    assert guard.where == "line 5"


def test_bounds_on_both_sides_are_one_chain() -> None:
    env = ShapeEnv()
    a = env.create_size(8, A)
    env.evaluate_expr(a <= 4096)
    env.evaluate_expr((a % 8).eq(0))
    assert readable(env) == ["2 <= L['a'].size()[0] <= 4096", "L['a'].size()[0] % 8 == 0"]


def test_the_executable_form_reads_values_where_it_is_told() -> None:
    env = ShapeEnv()
    a = env.create_size(8, A)
    b = env.create_size(16, B, D)
    env.evaluate_expr(b.eq(2 * a))
    names = {A.name: "a0", B.name: "b0"}
    texts = [guard.executable(lambda label: names[label.name]) for guard in env.produce_guards()]
    assert all(eval(text, {"a0": 5, "b0": 10}) for text in texts)
    assert not all(eval(text, {"a0": 5, "b0": 11}) for text in texts)


def test_an_implied_guard_is_dropped_and_its_cause_stays() -> None:
    env = ShapeEnv(duck_shape=False)
    a, b = env.create_size(100, A), env.create_size(50, B)
    env.evaluate_expr(b * 100 < 2**31)
    env.evaluate_expr(a > b)
    env.evaluate_expr(a < 200)
    env.evaluate_expr(a * b < 2**31)
    assert readable(env) == ["L['a'].size()[0] <= 199", "2 <= L['b'].size()[0]", "L['a'].size()[0] > L['b'].size()[0]"]


def test_unpruned_guards_can_be_asked_for() -> None:
    env = ShapeEnv(duck_shape=False)
    a, b = env.create_size(100, A), env.create_size(50, B)
    env.evaluate_expr(a > b)
    assert len(env.produce_guards(prune=False)) == 3
    assert len(env.produce_guards()) == 2


def test_a_stride_bound_to_a_size_is_checked() -> None:
    env = ShapeEnv()
    a = env.create_size(8, A)
    env.bind(Named("L['a'].stride()[0]"), a * 3)
    guards = env.produce_guards()
    assert [guard.readable for guard in guards] == ["L['a'].stride()[0] == 3*L['a'].size()[0]", "2 <= L['a'].size()[0]"]
    assert guards[0].why is Why.LAYOUT


def test_symbols_born_in_the_trace_are_not_checked_at_the_entry() -> None:
    env = ShapeEnv()
    u = env.create_unbacked_int()
    env.assume(u > 3)
    assert readable(env) == []


def test_a_guard_tells_what_was_asked_of_a_symbol_that_is_not_checked() -> None:
    env = ShapeEnv()
    a, u = env.create_size(8, A), env.create_unbacked_int(0)
    env.assume(u.eq(0))
    assert env.evaluate_expr((a + u).ne(5))
    guard = env.produce_guards()[-1]
    assert (guard.readable, guard.recorded) == ("L['a'].size()[0] != 5", "L['a'].size()[0] + u0 != 5")


RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")
relations = st.tuples(st.sampled_from(RELATIONS), trees(3, max_leaves=4), trees(3, max_leaves=4))


@given(st.lists(st.integers(2, 9), min_size=3, max_size=3), st.lists(relations, min_size=1, max_size=5))
@examples(60)
def test_emitted_guards_accept_exactly_what_was_recorded(hints, told) -> None:
    env = ShapeEnv()
    labels = [Named(f"x[{i}]") for i in range(3)]
    symbols = [env.create_size(hint, label) for hint, label in zip(hints, labels, strict=True)]
    for op, left, right in told:
        try:
            condition = env.algebra.relation(op, build(env, left, symbols), build(env, right, symbols))
            env.evaluate_expr(condition)
        except ZeroDivisionError:
            continue
    emitted = [compile(guard.readable, "guard", "eval") for guard in env.produce_guards()]
    recorded = env.recorded_guards()
    names = {label.name: i for i, label in enumerate(labels)}
    places = {}
    for symbol in env.symbols():
        places[symbol.sympy] = names[symbol.labels[0].name]
        for alias, label in zip(aliases_of(recorded, symbol), symbol.labels[1:], strict=True):
            places[alias] = names[label.name]
    for x in itertools.product((0, 1, 2, 3, 5, 8), repeat=3):
        values = {symbol: x[place] for symbol, place in places.items()}
        assert accepts(emitted, x) == holds(recorded, values), (x, env.produce_guards())


def aliases_of(recorded, symbol):
    found = {s for condition in recorded for s in condition.free_symbols if s.name.startswith(f"{symbol.name}_")}
    return sorted(found, key=lambda s: s.name)


def accepts(emitted, x) -> bool:
    try:
        return all(eval(code, {"x": x}) for code in emitted)
    except (ZeroDivisionError, ValueError):
        return False


def holds(recorded, values) -> bool:
    try:
        return all(evaluate(condition, values) for condition in recorded)
    except (ZeroDivisionError, ValueError):
        return False
