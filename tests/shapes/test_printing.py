"""Printed guards evaluate to exactly what the expression says, and read well."""

import subprocess
import sys

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from shapes import functions as f
from shapes.evaluation import evaluate
from shapes.printing import NAMESPACE, as_chain, group, natural, nice_sides, python_source
from tests.shapes import expressions as e
from tests.shapes.expressions import NAMES, RAISED, X, Y, Z, expression, outcome

SIZE = {X: "L['a'].size()[0]", Y: "L['b'].size()[1]"}


def printed_value(expr, values):
    """The value of the text of an expression."""
    scope = {NAMES[symbol]: value for symbol, value in values.items()}
    return eval(python_source(expr, NAMES), {**NAMESPACE}, scope)


READABLE = [
    (2 * X >= 16, "2*L['a'].size()[0] >= 16"),
    (sympy.Ge(2 * X - 16, 0), "2*L['a'].size()[0] >= 16"),
    (sympy.Ge(16 - X, 0), "L['a'].size()[0] <= 16"),
    (sympy.Lt(3, X), "3 < L['a'].size()[0]"),
    (X >= 2, "2 <= L['a'].size()[0]"),
    (X <= 2, "L['a'].size()[0] <= 2"),
    (sympy.Eq(f.PythonMod(X, 8), 0), "L['a'].size()[0] % 8 == 0"),
    (sympy.Eq(X, Y), "L['b'].size()[1] == L['a'].size()[0]"),
    (sympy.Ne(Y - X, 0), "L['b'].size()[1] != L['a'].size()[0]"),
    (sympy.Ge(X - Y - 1, 0), "L['a'].size()[0] > L['b'].size()[1]"),
    (sympy.Ge(X - Y - 3, 0), "L['a'].size()[0] >= L['b'].size()[1] + 3"),
    (sympy.Ge(X - Y + 3, 0), "L['a'].size()[0] + 3 >= L['b'].size()[1]"),
    (sympy.Le(X - Y, -1), "L['a'].size()[0] < L['b'].size()[1]"),
    (sympy.Ge(-X - Y + 16, 0), "L['a'].size()[0] + L['b'].size()[1] <= 16"),
    (sympy.Eq(7, X * Y), "L['a'].size()[0]*L['b'].size()[1] == 7"),
    (sympy.And(X >= 2, X <= 4096), "2 <= L['a'].size()[0] <= 4096"),
    (sympy.And(X > 2, X < 4096), "2 < L['a'].size()[0] < 4096"),
    (sympy.And(f.FloorDiv(X, 2) >= 2, f.FloorDiv(X, 2) <= 9), "2 <= L['a'].size()[0] // 2 <= 9"),
    (sympy.Or(X > 2, Y > 3), "2 < L['a'].size()[0] or 3 < L['b'].size()[1]"),
    (sympy.Eq(X * X * Y, 3 - 2 * Y), "L['a'].size()[0]**2*L['b'].size()[1] == 3 - 2*L['b'].size()[1]"),
]


@pytest.mark.parametrize(("expr", "text"), READABLE, ids=[text for _, text in READABLE])
def test_guards_read_as_a_person_would_write_them(expr, text):
    assert python_source(expr, SIZE) == text


def test_operators_that_bind_alike_keep_their_parentheses():
    assert python_source(f.FloorDiv(X, Y) * Z, NAMES) == "(x // y)*z"
    assert python_source(f.FloorDiv(X, f.FloorDiv(Y, Z)), NAMES) == "x // (y // z)"
    assert python_source(f.FloorDiv(f.PythonMod(X, Y), Z), NAMES) == "(x % y) // z"
    assert python_source(X - f.FloorDiv(Y, Z), NAMES) == "x - y // z"
    assert python_source(sympy.Pow(-X, f.Max(Y, 2), evaluate=False), NAMES) == "(-x)**max(2, y)"
    assert python_source(f.BitAnd(f.BitOr(X, Y), Z), NAMES) == "z & (x | y)"
    assert python_source(f.FloatAdd(0.5, f.FloatAdd(X, 1.5)), NAMES) == "0.5 + (x + 1.5)"


def test_symbols_of_a_missing_name_and_foreign_functions_are_errors():
    with pytest.raises(KeyError):
        python_source(X + Y, {X: "x"})
    with pytest.raises(TypeError, match="no Python form for sin"):
        python_source(sympy.sin(X), NAMES)


def test_bounds_on_one_term_become_a_chain():
    lines = group([2 * X >= 16, X >= 2, sympy.Eq(f.PythonMod(X, 8), 0), X <= 4096, sympy.Eq(X, Y), X >= 2])
    assert [(python_source(line.expr, SIZE), line.members) for line in lines] == [
        ("2 <= L['a'].size()[0] <= 4096", (1, 3, 5)),
        ("L['a'].size()[0] % 8 == 0", (2,)),
        ("2*L['a'].size()[0] >= 16", (0,)),
        ("L['b'].size()[1] == L['a'].size()[0]", (4,)),
    ]


def test_grouping_does_not_depend_on_the_order_of_the_guards():
    guards = [X >= 2, X <= 9, Y < 3, sympy.Ne(X * Y, 1), sympy.Eq(Z, X), f.FloorDiv(X, 2) >= 1]
    texts = [line.expr for line in group(guards)]
    assert texts == [line.expr for line in group(guards[::-1])]


def test_several_bounds_on_one_side_are_all_said():
    lines = group([X >= 2, X >= 3, X <= 9, X <= 8])
    assert sympy.And(*(line.expr for line in lines)) == sympy.And(X >= 2, X >= 3, X <= 9, X <= 8)


def test_numbers_in_names_sort_as_numbers():
    assert sorted(["s10", "s2", "s1"], key=natural) == ["s1", "s2", "s10"]


def test_terms_change_sides_but_are_never_cancelled():
    quotient = f.FloorDiv(X, Y)
    left, operator, right = nice_sides(sympy.Ge(quotient + X, quotient, evaluate=False))
    assert (left, operator, right) == (quotient + X, ">=", quotient)  # at y == 0 this raises


def test_only_two_bounds_on_one_term_are_a_chain():
    assert as_chain(sympy.And(X >= 2, X <= 9)) is not None
    for other in (X >= 2, sympy.And(X >= 2, Y <= 9), sympy.And(X >= 2, sympy.Ne(X, 9)), sympy.And(X <= 2, X <= 9 - Y)):
        assert as_chain(other) is None


def _built(tree):
    return None if outcome(expression, tree) is RAISED else expression(tree)


@settings(max_examples=400, deadline=None)
@given(e.integer_trees | e.float_trees | e.rounded_trees | e.relation_trees, e.values)
def test_printing_then_evaluating_is_the_expression(tree, values):
    expr = _built(tree)
    if expr is not None:
        assert outcome(printed_value, expr, values) == outcome(evaluate, expr, values), python_source(expr, NAMES)


_connectives = st.recursive(
    e.small_relations.map(_built).filter(lambda built: built is not None),
    lambda children: (
        st.tuples(st.sampled_from([sympy.And, sympy.Or]), children, children).map(lambda t: t[0](*t[1:]))
        | children.map(sympy.Not)
    ),
    max_leaves=4,
)


@settings(max_examples=200, deadline=None)
@given(_connectives, e.values)
def test_booleans_short_circuit_alike_when_printed(expr, values):
    assert outcome(printed_value, expr, values) == outcome(evaluate, expr, values), python_source(expr, NAMES)


@settings(max_examples=200, deadline=None)
@given(st.lists(_connectives, max_size=5), e.values)
def test_grouped_lines_say_what_the_guards_say(guards, values):
    def holds(exprs):
        return all(outcome(evaluate, sympy.sympify(expr), values) == ("bool", True, 0) for expr in exprs)

    lines = group(guards)
    assert holds([line.expr for line in lines]) == holds(guards)
    assert {member for line in lines for member in line.members} == {
        i for i, guard in enumerate(guards) if guard is not sympy.true
    }


def test_the_text_is_the_same_in_every_process():
    program = (
        "import sympy; from shapes.functions import *; from shapes.printing import group, python_source\n"
        "x, y, z = sympy.symbols('x y z', integer=True)\n"
        "guards = [x*y + z >= 3, Max(x, y, z) < 9, sympy.Or(x > 1, y > 2, z > 3), x >= 2, x <= 9,"
        " sympy.Ne(BitAnd(x, y), FloorDiv(z, x))]\n"
        "print([python_source(line.expr, {x: 'x', y: 'y', z: 'z'}) for line in group(guards)])"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(p for p in sys.path if p)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(texts) == 1
