"""Shape domains: which sizes may come, and what a ShapeEnv makes of them."""

from __future__ import annotations

import dataclasses

import pytest

from shapes import ShapeEnv
from shapes.domain import Domain, OutsideDomain, Variable
from shapes.evaluation import evaluate
from shapes.guards import Why
from shapes.parsing import ParseError, parse_condition, parse_integer, variable


@dataclasses.dataclass(frozen=True)
class Place:
    name: str


B, S, N = variable("B"), variable("S"), variable("N")


def domain(*relations: str, **places: str) -> Domain:
    where = {name: parse_integer(text) for name, text in (places or {"x0": "B", "x1": "S"}).items()}
    return Domain((Variable("B", 1, 256), Variable("S", 8, 4096, 8)), where, tuple(map(parse_condition, relations)))


@pytest.mark.parametrize(
    ("text", "at", "value"),
    [
        ("B*2 + 1", 5, 11),
        ("-B // 3", 5, -2),
        ("(B + 3) % 4", 6, 1),
        ("max(B, 3, 4) - min(B, 2)", 5, 3),
        ("B << 2 | 1", 3, 13),
        ("abs(B - 9)", 4, 5),
        ("B if B > 3 else 7", 2, 7),
        ("B ** 2", 4, 16),
    ],
)
def test_integer_expressions_mean_what_python_computes(text, at, value):
    from shapes.evaluation import evaluate

    assert evaluate(parse_integer(text), {B: at}) == value == eval(text, {"B": at})


@pytest.mark.parametrize("text", ["1 <= B < 4", "B == 3 or not B % 2 == 0", "B != 3 and B > 1", "True"])
def test_conditions_mean_what_python_decides(text):
    from shapes.evaluation import evaluate

    for at in range(6):
        assert bool(evaluate(parse_condition(text), {B: at})) == eval(text, {"B": at})


@pytest.mark.parametrize("text", ["B / 2", "B +", "f(B)", "B[0]", "'B'", "1.5", "B if S else 1", "max()"])
def test_what_is_no_integer_expression_is_refused(text):
    with pytest.raises(ParseError):
        parse_integer(text)


def test_a_point_is_read_from_the_sizes_of_a_call():
    assert domain(x0="B", x1="S", y0="2*B + 1").point_of({"x0": 4, "x1": 16, "y0": 9}) == {B: 4, S: 16}


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"x0": 300, "x1": 16, "y0": 601}, "x0 is 300, but it was declared as 1 <= B <= 256"),
        ({"x0": 4, "x1": 12, "y0": 9}, "S % 8 == 0"),
        ({"x0": 4, "x1": 16, "y0": 8}, "y0 is 8, but it was declared as 2*B + 1, which is 9 for B = 4, S = 16"),
        ({"x0": 32, "x1": 16, "y0": 65}, "B <= S was declared, and does not hold for B = 32, S = 16"),
    ],
)
def test_sizes_outside_of_the_domain_are_told_apart(sizes, words):
    with pytest.raises(OutsideDomain) as told:
        domain("B <= S", x0="B", x1="S", y0="2*B + 1").point_of(sizes)
    assert words in str(told.value)


def test_a_size_that_stands_nowhere_alone_is_refused():
    with pytest.raises(ValueError, match="B is only used in expressions"):
        domain(x0="2*B", x1="S")


def test_an_undeclared_name_is_refused():
    with pytest.raises(ValueError, match="T in B <= T is not a declared size"):
        domain("B <= T")


def test_points_are_counted_where_that_is_easy():
    assert domain().points() == domain("B <= S").points() == 256 * 512


def test_samples_lie_in_the_domain_and_begin_with_its_corners():
    points = list(domain("B <= S").samples(50))
    assert len(points) == 50 and all(domain("B <= S").holds(point) for point in points)
    assert {B: 256, S: 4096} in points and {B: 1, S: 8} in points


@pytest.mark.parametrize(
    "fields", [{"min": -(2**70)}, {"min": 3, "max": 2}, {"min": 9, "max": 15, "multiple_of": 8}, {"multiple_of": 0}]
)
def test_contradictory_bounds_are_refused(fields):
    with pytest.raises(ValueError):
        Variable("B", **fields)


def declared(*relations: str, **places: str) -> tuple[ShapeEnv, dict]:
    env = ShapeEnv()
    of = domain(*relations, **places)
    sizes = of.sizes_at({B: 4, S: 16})
    env.declare(of, {name: (Place(name), size) for name, size in sizes.items()})
    return env, {name: env.create_size(size, Place(name)) for name, size in sizes.items()}


def test_what_a_domain_says_is_known_without_a_guard():
    env, size = declared("B <= S", x0="B", x1="S", y0="2*B + 1", y1="B")
    b, s = size["x0"], size["x1"]
    assert size["y1"] is b and size["y0"] is b * 2 + 1
    assert env.statically_known(env.algebra.relation("eq", s % 8, env.algebra.zero)) is True
    for condition in (b <= 256, b >= 1, b <= s, size["y0"] > b, s >= 8):
        assert env.statically_known(condition) is True
    assert all(guard.why is Why.DECLARED for guard in env.produce_guards())


def test_a_domain_is_checked_at_the_entry_once_each():
    env, _ = declared("B <= S", x0="B", x1="S", y0="2*B + 1")
    assert [guard.readable for guard in env.produce_guards()] == [
        "y0 == 2*x0 + 1",
        "1 <= x0 <= 256",
        "x1 <= 4096",
        "x1 % 8 == 0",
        "x1 >= x0",  # and with the line before 8 <= x1
    ]


def test_zero_and_one_are_no_constants_of_a_declared_size():
    env = ShapeEnv()
    env.declare(Domain((Variable("B", 0, 9),), {"x0": B}), {"x0": (Place("x0"), 1)})
    size = env.create_size(1, Place("x0"))
    assert not isinstance(size, int) and env.evaluate_expr(size < 5)
    assert [guard.readable for guard in env.produce_guards()] == ["x0 <= 4"]


def test_only_an_int_may_be_negative():
    below = Variable("N", -3, 9)
    assert below.count() == 13 and Domain((below,), {"n": N}, ints=frozenset({"n"})).point_of({"n": -3}) == {N: -3}
    for places in ({"x0": N}, {"n": N, "x0": N}):
        with pytest.raises(ValueError, match="min of N is -3, but N is the size of a dim"):
            Domain((below,), places, ints=frozenset({"n"}))


def test_an_int_has_64_bits_and_an_expression_over_sizes_may_be_one():
    domain = Domain((Variable("N"),), {"n": N, "m": 2 * N - 9}, ints=frozenset({"n", "m"}))
    assert not domain.holds({N: 2**63}) and domain.holds({N: 1}) and domain.point_of({"n": 1, "m": -7}) == {N: 1}


def test_what_a_variable_may_be_is_what_its_conditions_say():
    for each in (Variable("B", 2, 9), Variable("B", 0, multiple_of=3), Variable("B", -5, 5, 2), Variable("B", 1)):
        for value in range(-8, 12):
            assert each.may_be(value) is all(evaluate(condition, {each.symbol: value}) for condition in each.conditions())
