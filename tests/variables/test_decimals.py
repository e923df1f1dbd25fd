"""`Decimal`: computed while tracing, in the context of the thread, whose flags are raised as in CPython."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal

import pytest
import torch

import tracer
from tests.support import breaks, captured, check
from tracer.guards.constants import constant_key, same_constant

X = torch.arange(3.0)
PRICE = Decimal("2.50")


@pytest.fixture(autouse=True)
def _own_context():
    with decimal.localcontext():
        yield


def test_decimals_are_computed():
    def fn(x):
        d = Decimal("1.1") + Decimal(2) * 3
        parts = d - 1, -d, abs(-d), d // 2, d % 2, d**2, 2 + d, 10 / Decimal(4), sum([d, PRICE]), max(d, PRICE)
        asked = d > 2, d == PRICE, bool(Decimal(0)), d.is_signed(), hash(d) == hash(Decimal("7.1"))
        numbers = float(d), int(d), round(d), round(d, 1), math.floor(d), math.ceil(d), math.sqrt(d)
        words = str(d), repr(d), f"{d:.3f}", f"{d!r:>20}", "%s" % d, "{:,}".format(Decimal(12345))
        return x * float(PRICE), parts, asked, numbers, words, {PRICE: 1}[Decimal("2.5")], sorted([d, PRICE])

    captured(fn, X)


def test_methods_of_decimals():
    def fn(x):
        rounded = Decimal("0.12345").quantize(Decimal("0.01"), rounding=decimal.ROUND_HALF_UP)
        return (
            x * float(rounded),
            rounded,
            PRICE.normalize(),
            PRICE.to_integral_value(),
            Decimal(2).sqrt(),
            Decimal.from_float(0.1),
        )

    captured(fn, X)


def test_equal_decimals_with_other_digits_are_told_apart():
    values = [Decimal(text) for text in ("2.5", "2.50", "-0", "0", "NaN", "sNaN", "Infinity")]
    assert all(same_constant(one, other) is (one is other) for one in values for other in values)
    assert len({constant_key(value) for value in values}) == len(values) and constant_key(Decimal(1)) != constant_key(1)


def test_a_global_decimal_is_guarded(monkeypatch):
    traced = tracer.compile(lambda x: (x + 1, PRICE))
    for text in ("2.50", "2.5", "sNaN", "3"):
        monkeypatch.setitem(globals(), "PRICE", Decimal(text))
        assert str(traced(X)[1]) == text


def test_a_decimal_that_the_caller_gives_is_left_to_cpython():
    breaks(lambda x, price: (x + 1, price * 2), X, PRICE)


def test_the_context_is_guarded():
    traced = tracer.compile(
        lambda x: (x + 1, Decimal(1) / 3, round(Decimal("2.345"), 2), f"{Decimal('2.5'):.0f}"), fullgraph=True
    )
    for precision, rounding in ((28, decimal.ROUND_HALF_EVEN), (4, decimal.ROUND_HALF_EVEN), (4, decimal.ROUND_UP)):
        decimal.getcontext().prec, decimal.getcontext().rounding = precision, rounding
        assert traced(X)[1:] == (Decimal(1) / 3, round(Decimal("2.345"), 2), f"{Decimal('2.5'):.0f}")


def test_flags_are_raised_at_each_call():
    traced = tracer.compile(lambda x: (x + 1, Decimal(1) / 3), fullgraph=True)
    context = decimal.getcontext()
    for _ in range(2):
        context.clear_flags()
        traced(X)
        assert [flag for flag, is_raised in context.flags.items() if is_raised] == [decimal.Inexact, decimal.Rounded]


def test_an_error_of_a_decimal_is_cpythons():
    def fn(x, by):
        try:
            return x * 2, Decimal(1) / by
        except decimal.DivisionByZero as error:
            return x + 1, str(error)

    check(lambda x: fn(x, Decimal(0)), X)
    captured(lambda x: fn(x, Decimal(2)), X)
