"""Every law where it holds, and the same form just beyond: what it becomes, exactly, and that Python computes the same."""

from __future__ import annotations

import ast
import functools
import itertools
import operator

import pytest

from shapes import ShapeEnv
from tests.shapes.algebra_programs import at, ints, sizes

NAMES = ["a", "b", "c", "x", "y", "z"]
SIZES, INTS = [2, 3, 5], [-3, 0, 2]
PYTHON = {
    "floordiv": operator.floordiv, "mod": operator.mod, "max": max, "min": min, "pow": operator.pow, "bitand": operator.and_,
    "bitor": operator.or_, "bitxor": operator.xor, "lshift": operator.lshift, "rshift": operator.rshift,
}  # fmt: skip
CASES = {
    "floordiv": [
        (("7", "2"), "3"), (("-7", "2"), "-4"), (("0", "x"), "0"),
        (("x", "-2"), "x // 2 - x"), (("x", "-y"), "-x // y"), (("x", "-2*y"), "-x // (2*y)"), (("x", "-y - z"), "x // (-y - z)"),
        (("x", "-y + z"), "x // (z - y)"), (("-x", "-3"), "x // 3"),
        (("x*y", "y"), "x"), (("a*a - b*b", "a + b"), "a - b"), (("2*x", "4"), "x // 2"),
        (("6*x + 3", "3"), "2*x + 1"), (("x*y + z", "y"), "x + z // y"),
        (("x*y + x*z + x", "y + z"), "(x*y + x*z + x) // (y + z)"),
        (("x + 7", "5"), "(x + 2) // 5 + 1"), (("x + 2", "5"), "(x + 2) // 5"), (("x + y", "x"), "y // x + 1"),
        (("a - 2", "a - 1"), "0"), (("a - 2", "a + b - 4"), "(a - 2) // (a + b - 4)"), (("a - 3", "a - 1"), "(a - 3) // (a - 1)"),
        (("a - 1", "a + 1"), "0"), (("a", "a + b"), "0"), (("x % 2 + 6", "y % 2 + 4"), "1"),
        (("x % 2 + 6", "y % 2 + 3"), "(x % 2 + 6) // (y % 2 + 3)"),
        (("4*x", "6*y"), "2*x // (3*y)"), (("a*x", "a*y"), "x // y"), (("2*a*x", "4*a*y"), "x // (2*y)"),
        (("a*a*x", "a*b"), "a*x // b"), (("a*a*x", "a*a*b"), "x // b"), (("x*y", "x*z"), "x*y // (x*z)"),
        (("2*x*y", "2*x*z"), "x*y // (x*z)"),
        (("a*x + a", "a*y + a*z"), "(x + 1) // (y + z)"), (("2*x + 2", "2*y + 4*z"), "(x + 1) // (2*z + y)"),
        (("3*x + 3", "2*y + 4*z"), "(3*x + 3) // (2*y + 4*z)"),
        (("x // a", "b"), "x // (a*b)"), (("x // y", "b"), "x // (b*y)"), (("x // a", "y"), "(x // a) // y"),
        (("x // 2", "3"), "x // 6"),
        (("x // a", "b - 1"), "x // (a*b - a)"), (("x // a", "b - 2"), "(x // a) // (b - 2)"), (("x % a", "b"), "(x % a) // b"),
    ],
    "mod": [
        (("7", "2"), "1"), (("-7", "2"), "1"), (("0", "x"), "0"),
        (("x", "-2"), "-(x % 2)"), (("x", "-y"), "-(-x % y)"), (("x", "-y - z"), "x % (-y - z)"),
        (("x*y", "y"), "0"), (("a*a - b*b", "a + b"), "0"), (("6*x + 4", "3"), "1"), (("x*y + z", "y"), "z % y"),
        (("x + 7", "5"), "(x + 2) % 5"),
        (("x*y + x*z + x", "y + z"), "(x*y + x*z + x) % (y + z)"),
        (("a - 2", "a - 1"), "a - 2"), (("a - 2", "a + b - 4"), "(a - 2) % (a + b - 4)"),
        (("x % 2 + 6", "y % 2 + 4"), "x % 2 - y % 2 + 2"),
        (("4*x", "6*y"), "2*(2*x % (3*y))"), (("a*x", "a*y"), "(x % y)*a"), (("x*y", "x*z"), "x*y % (x*z)"),
        (("a*a*x", "a*b"), "(a*x % b)*a"),
        (("2*a*x", "4*a*y"), "2*(x % (2*y))*a"), (("a*x + a", "a*y + a*z"), "((x + 1) % (y + z))*a"),
        (("x % a + y", "a"), "(x + y) % a"), (("3*(x % a) + y", "a"), "(3*x + y) % a"), (("x % 4 + y", "4"), "(x + y) % 4"),
        (("x % a + y", "b"), "(x % a + y) % b"), (("x // a + y", "a"), "(x // a + y) % a"),
        (("b*(x % a) + y", "a"), "((x % a)*b + y) % a"),
        (("z + x % a + y % a", "a"), "(x + y + z) % a"),
    ],
    "max": [
        (("a - 4", "-b"), "a - 4"), (("a - 3", "-b"), "a - 3"), (("a - 5", "-b"), "max(a - 5, -b)"),
        (("7", "2"), "7"), (("a", "2"), "a"), (("2", "a"), "a"), (("a", "3"), "max(3, a)"), (("3", "a"), "max(3, a)"),
        (("a", "1"), "a"), (("1", "a"), "a"),
        (("a + b", "a"), "a + b"), (("a", "a + b"), "a + b"), (("x", "x"), "x"), (("x", "y"), "max(x, y)"),
        (("y", "x"), "max(x, y)"),
        (("max(x, y)", "x"), "max(x, y)"), (("x", "max(x, y)"), "max(x, y)"), (("min(x, y)", "x"), "x"),
        (("x", "min(x, y)"), "x"),
        (("max(x, y)", "y"), "max(x, y)"), (("y", "min(x, y)"), "y"), (("max(x, y)", "z"), "max(z, max(x, y))"),
        (("x", "x % a"), "max(x, x % a)"),
        (("min(x, y)", "z"), "max(z, min(x, y))"), (("2*max(x, y)", "x"), "max(x, 2*max(x, y))"),
    ],
    "min": [
        (("a - 4", "-b"), "-b"), (("a - 3", "-b"), "-b"), (("a - 5", "-b"), "min(a - 5, -b)"),
        (("7", "2"), "2"), (("a", "2"), "2"), (("2", "a"), "2"), (("a", "3"), "min(3, a)"), (("3", "a"), "min(3, a)"),
        (("a", "1"), "1"), (("1", "a"), "1"),
        (("a + b", "a"), "a"), (("a", "a + b"), "a"), (("x", "x"), "x"), (("x", "y"), "min(x, y)"), (("y", "x"), "min(x, y)"),
        (("min(x, y)", "x"), "min(x, y)"), (("x", "min(x, y)"), "min(x, y)"), (("max(x, y)", "x"), "x"),
        (("x", "max(x, y)"), "x"),
        (("min(x, y)", "z"), "min(z, min(x, y))"), (("max(x, y)", "z"), "min(z, max(x, y))"),
    ],
    "pow": [
        (("2", "10"), "1024"), (("-3", "3"), "-27"), (("x", "0"), "1"), (("x", "1"), "x"), (("x", "2"), "x**2"),
        (("x + 1", "2"), "x**2 + 2*x + 1"),
        (("x", "8"), "x**8"), (("x*y", "8"), "x**8*y**8"), (("x*y*z", "8"), "pow(x*y*z, 8)"), (("x*x", "8"), "x**16"),
        (("2", "b"), "2**b"), (("a", "b"), "a**b"),
    ],
    "bitand": [
        (("12", "10"), "8"), (("x", "0"), "0"), (("0", "x"), "0"), (("x", "-1"), "x"), (("-1", "x"), "x"), (("x", "x"), "x"),
        (("y", "x"), "x & y"),
        (("x", "y"), "x & y"), (("x", "1"), "x % 2"), (("x", "7"), "x % 8"), (("7", "x"), "x % 8"),
        (("x + 5", "7"), "(x + 5) % 8"), (("7", "x + 5"), "(x + 5) % 8"),
        (("x", "6"), "6 & x"), (("6", "x"), "6 & x"), (("x", "-8"), "-8 & x"), (("x", "2"), "2 & x"),
        (("x + 5", "6"), "(x + 5) & 6"), (("6", "x + 5"), "(x + 5) & 6"),
        (("x - 5", "0"), "0"), (("x - 5", "-1"), "x - 5"), (("0", "x - 5"), "0"), (("-1", "x - 5"), "x - 5"),
        (("x + 5", "-1"), "x + 5"), (("-1", "x + 5"), "x + 5"),
    ],
    "bitor": [
        (("12", "10"), "14"), (("x", "0"), "x"), (("0", "x"), "x"), (("x", "-1"), "-1"), (("-1", "x"), "-1"),
        (("x", "x"), "x"), (("y", "x"), "x | y"),
        (("x", "y"), "x | y"), (("x", "1"), "1 | x"), (("x", "-2"), "-2 | x"), (("x - 5", "0"), "x - 5"),
        (("0", "x - 5"), "x - 5"), (("x + 5", "-1"), "-1"), (("-1", "x + 5"), "-1"),
    ],
    "bitxor": [
        (("12", "10"), "6"), (("-1", "5"), "-6"), (("5", "-1"), "-6"), (("x", "0"), "x"), (("0", "x"), "x"),
        (("x", "-1"), "-1 - x"), (("-1", "x"), "-1 - x"), (("x", "x"), "0"),
        (("y", "x"), "x ^ y"), (("x", "1"), "1 ^ x"), (("x", "-2"), "-2 ^ x"), (("x - 5", "-1"), "4 - x"),
        (("-1", "x - 5"), "4 - x"), (("x + 5", "0"), "x + 5"),
    ],
    "lshift": [(("3", "2"), "12"), (("x", "0"), "x"), (("x", "3"), "8*x"), (("x", "a"), "x << a")],
    "rshift": [
        (("x", "a"), "x >> a"), (("13", "2"), "3"),
        (("x", "0"), "x"), (("x", "3"), "x // 8"), (("x // 2", "1"), "x // 4"),
    ],
}  # fmt: skip


def world():
    """An env with sizes a, b, c and ints x, y, z, and Python's operators on them."""
    env = ShapeEnv(duck_shape=False)
    symbols = [*sizes(env, [5, 7, 11]), *ints(env, [13, 17, 19])]
    algebra = env.algebra

    def lifted(kind):
        return lambda p, q: getattr(algebra, kind)(*(algebra.integer(e) if isinstance(e, int) else e for e in (p, q)))

    scope = {**dict(zip(NAMES, symbols, strict=True)), "max": lifted("maximum"), "min": lifted("minimum")}
    return algebra, symbols, scope


def expression(algebra, scope, text):
    value = eval(text, {**scope})
    return algebra.integer(value) if isinstance(value, int) else value


_INFIX = {
    ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "pow", ast.BitAnd: "bitand", ast.BitOr: "bitor", ast.BitXor: "bitxor",
    ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip
_PLAIN = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def written(algebra, scope, node):
    """The expression exactly as it is written: polynomials of atoms that no law has touched."""
    if isinstance(node, ast.Constant):
        return algebra.integer(node.value)
    if isinstance(node, ast.Name):
        return scope[node.id]
    if isinstance(node, ast.UnaryOp):
        return algebra.neg(written(algebra, scope, node.operand))
    if isinstance(node, ast.Call):
        args = [written(algebra, scope, arg) for arg in node.args]
        return algebra.function(node.func.id, *args)
    left, right = written(algebra, scope, node.left), written(algebra, scope, node.right)
    if type(node.op) in _PLAIN:
        return _PLAIN[type(node.op)](left, right)
    if isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant):
        return functools.reduce(operator.mul, [left] * node.right.value)
    return algebra.function(_INFIX[type(node.op)], left, right)


TABLE = [(kind, args, text) for kind, cases in CASES.items() for args, text in cases]


@pytest.mark.parametrize(("kind", "args", "text"), TABLE, ids=[f"{kind}-{args}" for kind, args, _ in TABLE])
def test_a_law_gives_just_this(kind, args, text):
    algebra, symbols, scope = world()
    result = algebra.apply(kind, *(expression(algebra, scope, arg) for arg in args))
    assert result is written(algebra, scope, ast.parse(text, mode="eval").body), algebra.show(result)
    for values in itertools.product(*[SIZES] * 3, *[INTS] * 3):
        here = {**dict(zip(NAMES, values, strict=True)), "max": max, "min": min}
        try:
            expected = PYTHON[kind](*(eval(arg, here) for arg in args))
        except (ZeroDivisionError, ValueError):
            continue
        assert at(result, symbols, values) == expected, values


def test_what_raises_for_all_values_raises_when_built():
    algebra, _, scope = world()
    for kind, args, error in [
        ("floordiv", ("x", "0"), ZeroDivisionError), ("mod", ("x", "0"), ZeroDivisionError),
        ("floordiv", ("7", "0"), ZeroDivisionError), ("mod", ("7", "0"), ZeroDivisionError),
        ("lshift", ("x", "-1"), ValueError), ("rshift", ("x", "-1"), ValueError), ("pow", ("x", "-1"), ValueError),
        ("pow", ("2", "-1"), ValueError), ("lshift", ("3", "-2"), ValueError),
    ]:  # fmt: skip
        with pytest.raises(error):
            algebra.apply(kind, *(expression(algebra, scope, arg) for arg in args))


def test_powers_that_would_be_huge_stay_powers():
    algebra, _, scope = world()

    def is_power(base, exponent):
        atom = algebra.power(expression(algebra, scope, base), algebra.integer(exponent)).single_atom()
        return atom is not None and atom.kind == "pow"

    assert is_power("x", 9) and not is_power("x", 8)  # by the exponent
    assert is_power("x**3", 6) and not is_power("x**3", 5) and not is_power("x**4", 4)  # by the degree
    assert is_power("x + y + z + a + b", 7) and not is_power("x + y + z + a + b", 6)  # by the terms: 330 and 210 of 256
    assert not is_power("x + y + z + a + b + 1", 5) and is_power("x + y + z + a + b + c + 1", 5)  # 252 and 462
