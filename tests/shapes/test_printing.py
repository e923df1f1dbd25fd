"""Printed guards evaluate to exactly what the expression says, and read well."""

import subprocess
import sys

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from shapes import sympy_functions as f
from shapes.evaluation import evaluate
from shapes.printing import NAMESPACE, as_chain, group, natural, python_source, readable_sides, relation_source
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


S2, S10 = sympy.symbols("s2 s10", integer=True)
FLAG = sympy.Symbol("p")
TEXTS = [
    (f.Where(X > 3, X, Y) + 1, "(x if 3 < x else y) + 1"),
    (f.Where(f.Where(X > 1, X, Y) > 2, f.Where(Y > 1, X, 0), f.Where(Y > 2, 3, X)),
     "(x if 1 < y else 0) if (x if 1 < x else y) > 2 else 3 if 2 < y else x"),
    (sympy.ITE(X > 3, Y > 1, Y > 2), "1 < y if 3 < x else 2 < y"),
    (sympy.Eq(sympy.Mod(X, 3, evaluate=False), 1), "x % 3 == 1"),
    (sympy.Max(X, Y) - sympy.Min(X, Z), "max(x, y) - min(x, z)"),
    (f.Max(X, 2) * f.Min(Y, 3, Z), "max(2, x)*min(3, y, z)"),
    (sympy.Abs(X - Y) <= 3, "abs(x - y) <= 3"),
    (f.float_constant(float("inf")), "float('inf')"),
    (f.FloatAdd(X, f.float_constant(float("-inf"))), "x + float('-inf')"),
    (f.float_constant(float("nan")), "float('nan')"),
    (f.float_constant(-0.0), "-0.0"),
    (f.FloatMul(f.float_constant(-2.5), X), "-2.5 * x"),
    (f.TrueDiv(f.float_constant(-2.5), f.float_constant(-1.5)), "1.6666666666666667"),
    (sympy.Pow(sympy.Integer(-2), f.Max(X, 1), evaluate=False), "(-2)**max(1, x)"),
    (f.Pow(X, Y), "x**y"),
    (f.Pow(-X, -Y), "(-x)**-y"),
    (f.Pow(f.FloatNeg(f.ToFloat(X)), Y), "(-float(x))**y"),
    (f.Pow(f.TrueDiv(X, Y), f.TrueDiv(Y, 2)), "(x / y)**(y / 2)"),
    (f.FloorDiv(Z, -X), "z // -x"),
    (f.FloorDiv(Z, -X * Y), "z // (-x*y)"),
    (f.FloorDiv(Z, 2 * X), "z // (2*x)"),
    (f.FloorDiv(-X, Z), "-x // z"),
    (f.FloorDiv(-3, Z), "-3 // z"),
    (f.PythonMod(Z, -3), "z % -3"),
    (f.PythonMod(X + Y, Z + 1), "(x + y) % (z + 1)"),
    (f.FloorDiv(f.FloorDiv(X, Y), Z), "(x // y) // z"),
    (f.FloorDiv(2 * X * Y, Z), "2*x*y // z"),
    (-f.FloorDiv(X, Y) - f.PythonMod(X, Y), "-(x % y) - x // y"),
    (-2 * f.FloorDiv(X, Y) * Z, "-2*(x // y)*z"),
    (X - 2 * f.PythonMod(X, Y), "x - 2*(x % y)"),
    (X * (Y + Z), "(y + z)*x"),
    (-X * (Y - Z), "-(y - z)*x"),
    ((X + Y) ** 2, "(x + y)**2"),
    (-(X ** 2), "-x**2"),
    ((-X) ** 3, "-x**3"),
    (2 * X ** 2 * Y - Y * Z + 3 * X - 7, "2*x**2*y + 3*x - y*z - 7"),
    (7 - X, "7 - x"),
    (7 - X * Y - Z, "7 - x*y - z"),
    (-X - Y, "-x - y"),
    (X - Y + 7, "x - y + 7"),
    (Z + Y * X + X ** 2 * Y + X ** 3 + 1, "x**2*y + x**3 + x*y + z + 1"),
    (S10 + S2, "s2 + s10"),
    (S10 * S2, "s2*s10"),
    (f.LShift(X, Y), "x << y"),
    (f.RShift(X + 1, Y), "x + 1 >> y"),
    (f.LShift(f.LShift(X, Y), Z), "(x << y) << z"),
    (f.LShift(X, f.RShift(Y, Z)), "x << (y >> z)"),
    (f.BitAnd(f.LShift(X, Y), Z), "z & (x << y)"),
    (f.BitAnd(f.BitOr(X, Y), Z), "z & (x | y)"),
    (f.BitOr(f.BitAnd(X, Y), f.BitXor(Y, Z)), "(x & y) | (y ^ z)"),
    (f.BitAnd(X + 1, Y) + 1, "(y & (x + 1)) + 1"),
    (sympy.Eq(f.BitAnd(X, Y), 0), "x & y == 0"),
    (f.TrueDiv(X, f.TrueDiv(Y, Z)), "x / (y / z)"),
    (f.TrueDiv(f.TrueDiv(X, Y), Z), "x / y / z"),
    (f.FloatAdd(f.TrueDiv(X, Y), f.FloatNeg(f.TrueDiv(Y, X))), "x / y + -(y / x)"),
    (f.FloatMul(f.FloatAdd(X, f.TrueDiv(Y, 2)), f.FloatMod(f.ToFloat(X), Y)),
     "(x + y / 2) * (float(x) % y)"),
    (f.FloatFloorDiv(f.FloatMul(f.ToFloat(X), Y), f.FloatAbs(f.TrueDiv(X, 2))),
     "float(x) * y // abs(x / 2)"),
    (f.RoundDecimal(f.TrueDiv(X, 3), 2), "round(x / 3, 2)"),
    (f.FloorToInt(f.TrueDiv(X, 3)) + f.CeilToInt(f.TrueDiv(X, 3)), "math.ceil(x / 3) + math.floor(x / 3)"),
    (f.TruncToInt(f.TrueDiv(X, 3)) - f.RoundToInt(f.TrueDiv(X, 3)), "math.trunc(x / 3) - round(x / 3)"),
    (sympy.Add(X, f.float_constant(0.5)) * Y, "y*(0.5 + x)"),
    (sympy.Mul(f.float_constant(0.5), X, Y), "0.5*x*y"),
    (sympy.Add(f.TrueDiv(X, 2), -2 * Y, evaluate=False), "x / 2 - 2*y"),
    (sympy.true, "True"),
    (sympy.false, "False"),
    (sympy.And(X > 2, sympy.Or(Y > 3, Z > 4)), "(3 < y or 4 < z) and 2 < x"),
    (sympy.Or(X > 2, sympy.And(Y > 3, Z > 4)), "3 < y and 4 < z or 2 < x"),
    (sympy.Not(sympy.And(X > 2, Y > 3, evaluate=False), evaluate=False), "not (2 < x and 3 < y)"),
    (sympy.Not(sympy.Eq(f.TrueDiv(X, 2), 1), evaluate=False), "not x / 2 == 1"),
    (sympy.And(sympy.Not(f.TrueDiv(X, 2) < 1, evaluate=False), X > 1), "not x / 2 < 1 and 1 < x"),
    (sympy.And(FLAG, sympy.Not(FLAG, evaluate=False), evaluate=False), "p and not p"),
    (sympy.Eq(X > 2, Y > 3, evaluate=False), "(2 < x) == (3 < y)"),
    (sympy.Ne(X, Y), "y != x"),
    (sympy.Eq(X, 2 * Y), "x == 2*y"),
    (sympy.Eq(2 * X, Y), "2*x == y"),
    (sympy.Eq(X + 1, Y + 1), "x + 1 == y + 1"),
    (sympy.Ge(5, X * Y), "x*y <= 5"),
    (sympy.Gt(f.TrueDiv(X, 2), 1.5), "x / 2 > 1.5"),
    (sympy.Lt(1.5, f.TrueDiv(X, 2)), "x / 2 > 1.5"),
    (sympy.Ge(X, 1.5), "1.5 <= x"),
    (sympy.Ge(X - Y, 0), "x >= y"),
    (sympy.Ge(X - Y, 1), "x > y"),
    (sympy.Ge(X - Y, 2), "x >= y + 2"),
    (sympy.Ge(X - Y, -1), "x + 1 >= y"),
    (sympy.Gt(X - Y, 1), "x > y + 1"),
    (sympy.Gt(X - Y, 0), "x > y"),
    (sympy.Le(X - Y, 1), "x <= y + 1"),
    (sympy.Le(X - Y, 0), "x <= y"),
    (sympy.Le(X - Y, -1), "x < y"),
    (sympy.Le(X - Y, -2), "x + 2 <= y"),
    (sympy.Lt(X - Y, -1), "x + 1 < y"),
    (sympy.Lt(X - Y, 1), "x < y + 1"),
    (sympy.Eq(X - Y, 1), "x == y + 1"),
    (sympy.Eq(X - Y, -1), "x + 1 == y"),
    (sympy.Ne(X - Y, 3), "x != y + 3"),
    (sympy.Eq(2 - X, 0), "x == 2"),
    (sympy.Lt(-X, -4), "4 < x"),
    (sympy.Le(3 - X - Y, 1), "x + y >= 2"),
    (sympy.Gt(X + 3, 7), "4 < x"),
    (sympy.And(X > 2, 9 > X), "2 < x < 9"),
    (sympy.And(sympy.Ge(X - 2, 0), sympy.Ge(9 - X, 0)), "2 <= x <= 9"),
    (sympy.And(X + Y >= 2, X + Y <= 4), "2 <= x + y <= 4"),
    (sympy.And(X >= 2, sympy.Ne(X, 4)), "2 <= x and x != 4"),
    (sympy.And(X >= 1.5, X <= 4), "1.5 <= x <= 4"),
    (sympy.And(f.TrueDiv(X, 2) > 1, f.TrueDiv(X, 2) < 4), "1 < x / 2 < 4"),
    (sympy.And(X >= 2, X <= 9, Y > 1), "2 <= x and x <= 9 and 1 < y"),
    (sympy.Ne(7, X * Y), "x*y != 7"),
    (f.LShift(f.FloorDiv(X, Y), Z), "x // y << z"),
    (f.Pow(2, Y), "2**y"),
    (5 * Z + X * Y, "x*y + 5*z"),
    (sympy.Pow(X, f.Max(Y, 1), evaluate=False) + X, "x + x**max(1, y)"),
    (sympy.Add(X, -0.5 * Y, evaluate=False), "x - 0.5*y"),
    (sympy.Ge(sympy.Add(f.TrueDiv(X, 2), -Y, evaluate=False), 1, evaluate=False), "x / 2 - y >= 1"),
    (sympy.Ge(X, 1), "1 <= x"),
    (sympy.Ge(X + Y, 1), "x + y >= 1"),
    (sympy.Ge(X + Y, -3), "x + y >= -3"),
]  # fmt: skip


@pytest.mark.parametrize(("expr", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_every_construct_has_its_text(expr, text):
    names = {**NAMES, S2: "s2", S10: "s10", FLAG: "p"}
    assert python_source(expr, names) == text
    values = {X: 3, Y: 2, Z: 5, S2: 7, S10: 11, FLAG: True}
    scope = {name: values[symbol] for symbol, name in names.items()}
    assert outcome(eval, text, {**NAMESPACE}, scope) == outcome(evaluate, expr, values)


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


def test_lines_come_from_the_simple_to_the_involved():
    guards = [
        sympy.Eq(X, Y), X * Y * Z > 4, Y <= 9, sympy.Eq(f.PythonMod(S2, 8), 0), S10 >= 3, S2 >= 4, X >= 2, X <= 9,
        sympy.Ne(S2, 7), Y + Z >= 5, Y + Z <= 8, X > Y, 2 * X >= 7, sympy.true, sympy.And(S2 <= 8, Z > 1),
        X * f.FloorDiv(X, 2) >= 9, sympy.Abs(Y) >= 3,
    ]  # fmt: skip
    names = {**NAMES, S2: "s2", S10: "s10"}
    lines = group(guards)
    assert [python_source(line.expr, names) for line in lines] == [
        "4 <= s2 <= 8", "2 <= x <= 9", "s2 != 7", "3 <= s10", "y <= 9", "1 < z", "s2 % 8 == 0", "2*x >= 7", "(x // 2)*x >= 9",
        "abs(y) >= 3",
        "5 <= y + z <= 8", "y == x", "x > y", "x*y*z > 4",
    ]  # fmt: skip
    assert lines[0].members == (5, 14)


def test_of_two_lines_alike_the_shorter_comes_first():
    for first, second in [(sympy.Abs(X) >= 3, 2 * X >= 7), (3 * X < 20, f.FloorDiv(X, 2) * X >= 9)]:
        assert [line.expr for line in group([second, first])] == [line.expr for line in group([first, second])] == [first, second]


def test_strict_and_other_bounds_merge():
    names = {**NAMES}
    for low, high, text in [(X > 2, X < 9, "2 < x < 9"), (X >= 2, X < 9, "2 <= x < 9"), (X > 2, X <= 9, "2 < x <= 9")]:
        assert [python_source(line.expr, names) for line in group([high, low])] == [text]
    assert len(group([X >= Y, X <= 4])) == 2


def test_several_bounds_on_one_side_are_all_said():
    lines = group([X >= 2, X >= 3, X <= 9, X <= 8])
    assert sympy.And(*(line.expr for line in lines)) == sympy.And(X >= 2, X >= 3, X <= 9, X <= 8)


def test_numbers_in_names_sort_as_numbers():
    assert sorted(["s10", "s2", "s1"], key=natural) == ["s1", "s2", "s10"]


def test_terms_change_sides_but_are_never_cancelled():
    quotient = f.FloorDiv(X, Y)
    left, operator, right = readable_sides(sympy.Ge(quotient + X, quotient, evaluate=False))
    assert (left, operator, right) == (quotient + X, ">=", quotient)  # at y == 0 this raises


def test_only_two_bounds_on_one_term_are_a_chain():
    assert as_chain(sympy.And(X >= 2, X <= 9)) is not None
    others = [
        X >= 2,
        sympy.Or(X <= 2, X >= 9),
        sympy.And(X >= 2, X <= 9, Y > 1),
        sympy.And(X >= 2, Y <= 9),
        sympy.And(X >= 2, sympy.Ne(X, 9)),
        sympy.And(X <= 2, X <= 9 - Y),
    ]
    for other in others:
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
        "import sympy; from shapes.sympy_functions import *; from shapes.printing import group, python_source\n"
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


def test_the_sides_of_a_relation_stay_where_they_are():
    names = {X: "x", Y: "y"}
    assert relation_source(sympy.Ge(X, Y + 1, evaluate=False), names) == "x >= y + 1"
    assert relation_source(sympy.And(X > 2, Y > 3), names) == python_source(sympy.And(X > 2, Y > 3), names)
