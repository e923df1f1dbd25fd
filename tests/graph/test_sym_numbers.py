"""torch.SymInt, SymFloat and SymBool over own nodes compute what Python's int, float and bool compute."""

from __future__ import annotations

import copy
import math
import operator

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    guard_or_false,
    guard_or_true,
    statically_known_true,
    sym_and,
    sym_eq,
    sym_or,
)
from torch.utils._sympy.functions import IsNonOverlappingAndDenseIndicator

from shapes.evaluation import evaluate
from tests.graph.fakes import readable
from tests.shapes.algebra_programs import examples
from tracer.graph.fakes.fake_tensors import FakeWorld, expr_of, is_symbolic, symbols_in
from tracer.operators.layout import hint
from tracer.sources.roots import LocalSource

BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "divmod": divmod,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
BITS = {"&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift}
UNARY = {
    "-": operator.neg,
    "+": operator.pos,
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,
    "round_1": lambda x: round(x, 1),
    "round_tens": lambda x: round(x, -1),
    "bool": bool,
    "int": int,
}
ints = st.integers(-50, 50)
floats = st.floats(-50, 50).map(lambda x: round(x, 3) + 0.0)


def attempt(function, *args):
    try:
        result = function(*args)
    except (ZeroDivisionError, ValueError, OverflowError) as error:
        return type(error)
    return "complex" if isinstance(result, complex) else result


def assert_computes(world, symbolic, expected, values) -> None:
    if isinstance(expected, tuple):
        assert isinstance(symbolic, tuple)
        for each, number in zip(symbolic, expected, strict=True):
            assert_computes(world, each, number, values)
        return
    value = hint(symbolic)
    assert value == expected and type(value) is type(expected), (symbolic, value, expected)
    if is_symbolic(symbolic):
        assert evaluate(symbolic.node._expr, values) == expected


@given(st.sampled_from(sorted(BINARY)), st.one_of(ints, floats), st.one_of(ints, floats), st.booleans())
@examples(100)
def test_binary_operators(op, a, b, both) -> None:
    expected = attempt(BINARY[op], a, b)
    assume(expected != "complex")
    world = FakeWorld()
    x, y = number(world, a, "a"), number(world, b, "b") if both else b
    symbolic = attempt(BINARY[op], x, y)
    if isinstance(expected, type):
        assert symbolic is expected
        return
    assert_computes(world, symbolic, expected, values_of(world))
    if not both:
        assert_computes(world, attempt(BINARY[op], y, x), attempt(BINARY[op], b, a), values_of(world)) if reversible(
            op, b, a
        ) else None


def reversible(op, a, b) -> bool:
    result = attempt(BINARY[op], a, b)
    return not isinstance(result, type) and result != "complex"


@given(st.sampled_from(sorted(BITS)), ints, st.integers(0, 12), st.booleans())
@examples(60)
def test_bit_operators(op, a, b, both) -> None:
    world = FakeWorld()
    x, y = number(world, a, "a"), number(world, b, "b") if both else b
    assert_computes(world, BITS[op](x, y), BITS[op](a, b), values_of(world))


@given(st.sampled_from(sorted(UNARY)), st.one_of(ints, floats))
@examples(60)
def test_unary_operators(op, a) -> None:
    world = FakeWorld()
    assert_computes(world, UNARY[op](number(world, a, "a")), UNARY[op](a), values_of(world))


def number(world: FakeWorld, value, name: str):
    source = LocalSource(name)
    return world.symint(value, source) if isinstance(value, int) else world.symfloat(value, source)


def values_of(world: FakeWorld):
    return {symbol.sympy: symbol.hint for symbol in world.env.symbols()}


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


@pytest.fixture
def sizes(world: FakeWorld):
    return world.fakify(torch.randn(5, 7), LocalSource("x")).shape


def test_helpers_of_pytorch(world, sizes) -> None:
    a, b = sizes
    assert statically_known_true(a >= 2) and not statically_known_true(a > 3)
    assert not guard_or_false(a > 6) and guard_or_true(a > 3)
    assert hint(torch.sym_max(a, 6)) == 6 and hint(torch.sym_min(a, b)) == 5
    assert hint(torch.sym_sum([a, b, 3])) == 15
    assert hint(torch.sym_not(a > 3)) is False
    assert hint(torch.sym_float(a)) == 5.0 and isinstance(torch.sym_float(a), torch.SymFloat)
    assert torch.sym_int(a) is a
    assert hint(torch.sym_ite(a > 100, a, b)) == 7
    assert hint(sym_and(a > 3, b > 100)) is False and hint(sym_or(a > 3, b > 100)) is True
    assert hint(sym_eq((a, 3), (b, 3))) is False
    assert hint(torch._sym_sqrt(a)) == math.sqrt(5)


def test_sizes_fold_to_constants(sizes) -> None:
    a, b = sizes
    assert type(a - a) is int and a - a == 0
    assert type(a * b // b) is torch.SymInt and str(a * b // b) == "s0"
    assert (a * b) % b == 0
    assert (a == a) is True
    assert (a == a + 1) is False


def test_an_equality_shows_in_all_sizes(world, sizes) -> None:
    a, b = sizes
    if a == b:
        raise AssertionError
    if b == a + 2:
        assert str(b) == "s0 + 2"
        assert symbols_in(b) == [expr_of(a)]


def test_using_an_int_as_a_constant_specialises_it(world) -> None:
    n = world.symint(3, LocalSource("n"))
    assert list(range(n)) == [0, 1, 2]
    assert n.node.maybe_as_int() == 3
    assert f"{n}" == "3"
    assert readable(world) == ["L['n'] == 3"]


def test_the_truth_of_a_float_is_whether_it_is_zero(world) -> None:
    x = world.symfloat(0.5, LocalSource("x"))
    assert bool(x)
    assert readable(world) == ["not L['x'] == 0.0"] or readable(world) == ["L['x'] != 0.0"]


def test_division_relies_on_the_divisor_not_being_zero(world) -> None:
    n, m = world.symint(7, LocalSource("n")), world.symint(3, LocalSource("m"))
    assert hint(n // m) == 2
    assert readable(world) == ["L['m'] != 0"]


def test_division_by_zero_raises(world) -> None:
    n, m = world.symint(7, LocalSource("n")), world.symint(0, LocalSource("m"))
    for divide in (operator.floordiv, operator.mod, operator.truediv):
        with pytest.raises(ZeroDivisionError):
            divide(n, m)
    assert readable(world) == ["L['m'] == 0"]


def test_booleans(world, sizes) -> None:
    a, b = sizes
    yes, no = a > 3, b > 100
    assert hint(yes & no) is False and hint(yes | no) is True
    assert hint(yes == no) is False
    assert hint(torch.sym_float(yes)) == 1.0
    assert readable(world)[-2:] == ["2 <= L['x'].size()[0]", "2 <= L['x'].size()[1]"]  # nothing was decided


def test_sizes_of_another_trace_are_refused(sizes) -> None:
    other = FakeWorld().fakify(torch.randn(4), LocalSource("y")).shape[0]
    with pytest.raises(ValueError, match="different traces"):
        other + sizes[0]


def test_copies_and_hashes(sizes) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(sizes[0])
    assert str(copy.copy(sizes[0])) == "s0"


def test_decisions_on_data_raise_what_pytorch_catches(world) -> None:
    u = world.torch_env.create_unbacked_symint()
    with pytest.raises(GuardOnDataDependentSymNode, match="torch._check"):
        bool(u > 3)
    with pytest.raises(GuardOnDataDependentSymNode):
        int(u)
    assert guard_or_false(u == 3) is False and guard_or_true(u == 3) is True
    torch._check(u >= 2)
    torch._check(u < 10)
    assert statically_known_true(u <= 9) and statically_known_true(u > 0)
    assert [str(each.sympy) for each in world.env.runtime_asserts] == ["u0 >= 2", "u0 <= 9"]
    assert symbols_in(u) == [expr_of(u)]


def test_a_check_that_fails_raises_its_message(world, sizes) -> None:
    with pytest.raises(RuntimeError, match="too small"):
        torch._check(sizes[0] > 100, lambda: "too small")


LAYOUTS = [
    (2, 3, 3, 1), (2, 3, 1, 2), (2, 3, 1, 1), (1, 3, 7, 1), (3, 1, 1, 9), (2, 3, 4, 12, 4, 1), (2, 3, 4, 1, 8, 2),
    (2, 3, 4, 6, 2, 1), (5, 1), (5, 2),
]  # fmt: skip


@pytest.mark.parametrize("numbers", LAYOUTS)
def test_what_torch_says_of_dense_memory_is_an_expression(numbers):
    env = FakeWorld().env
    symbols = [env.create_int(number, LocalSource(f"n{i}")) for i, number in enumerate(numbers)]
    asked = IsNonOverlappingAndDenseIndicator(*(symbol.sympy for symbol in symbols))
    assert env.hint_of(env.algebra.from_sympy(asked)) == IsNonOverlappingAndDenseIndicator(*numbers)
