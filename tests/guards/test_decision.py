"""The decision over entries never leaves out one that holds: it chooses as trying all of them would, the last hit first."""

from __future__ import annotations

import random
import sys
import types
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tracer
from tests.csrc.entries import entry, fresh
from tracer._C import WORD
from tracer.guards import decision as deciding
from tracer.guards.base import Guard
from tracer.guards.containers import LengthMatch
from tracer.guards.decision import LEAST, MOST, Feature, Word, decide
from tracer.guards.identity import BoolMatch, NoneMatch, TypeMatch
from tracer.guards.manager import CheckFunctionManager
from tracer.guards.shapes import ShapeLine
from tracer.guards.tensors import TensorMatch, tensor_spec
from tracer.guards.values import EqualsMatch
from tracer.runtime.guarded_code import decision_among
from tracer.sources.attributes import AttrSource
from tracer.sources.containers import ItemSource
from tracer.sources.roots import LocalSource
from tracer.sources.tensors import TensorSizeSource

X, N = LocalSource("x"), LocalSource("n")


def frame(x: Any, n: Any) -> None: ...


def line(template: str, *labels: Any) -> ShapeLine:
    """Of the sizes of x."""
    sizes = TensorSizeSource(X, 0), TensorSizeSource(X, 1)
    return ShapeLine(template, labels or sizes[: 1 + ("{1}" in template)])


def decision_over(per_entry: list[list[Guard]]) -> tuple[Any, list[Any]]:
    managers = [CheckFunctionManager(made, frame.__code__, globals()) for made in per_entry]
    entries = tuple([types.SimpleNamespace(manager=manager) for manager in managers])
    tests = [deciding.tests_of(manager.guards) for manager in managers]
    return decide(entries, tests, frame.__code__, globals()), list(entries)


def held(entry: Any, *args: Any) -> bool:
    try:
        return entry.manager.holds(entry.manager.check_fn(*args))
    except Exception:
        return False


# -------------------------------------------------------------------------------------------------- what guards demand


@pytest.mark.parametrize(
    ("template", "coefficients", "modulus", "interval"),
    [
        ("2 <= {0} <= 99", (1,), 0, (2, 99)),
        ("{0} < 8", (1,), 0, (LEAST, 7)),
        ("not_linear * {0} < 8", None, 0, None),
        ("{0}*{1} < 8", None, 0, None),
        ("2*{0} >= {1} + 3", (2, -1), 0, (3, MOST)),
        ("2*{0} >= 7", (1,), 0, (4, MOST)),
        ("-3*{0} > 7 - 4*{1}", (3, -4), 0, (LEAST, -8)),
        ("{0} % 8 == 0", (1,), 8, (0, 0)),
        ("{0} % 8 != 0", (1,), 8, (1, 7)),
        ("0 != {0} % 8", (1,), 8, (1, 7)),
        ("{0} != 3", None, 0, None),
        ("4*{0} == 6", (1,), 0, (0, -1)),
        ("{0} - {1} == 0", (1, -1), 0, (0, 0)),
        ("2*{0} + 4*{1} <= 9", (1, 2), 0, (LEAST, 4)),
    ],
)
def test_a_shape_expression_is_an_interval_of_a_linear_feature(
    template: str, coefficients: Any, modulus: int, interval: Any
) -> None:
    found = deciding.tests_of([line(template)])
    if coefficients is None:
        assert not found
    else:
        words = (Word(X, WORD.SIZE, 0), Word(X, WORD.SIZE, 1))
        terms = tuple(zip(coefficients, words))
        assert found == {Feature(terms, modulus): interval}


def test_guards_on_one_feature_leave_what_all_of_them_leave() -> None:
    (interval,) = deciding.tests_of([line("{0} <= 9"), line("3 <= {0}"), line("{0} <= 12")]).values()
    assert interval == (3, 9)


# -------------------------------------------------------------------------------------------------- the same choice

_SIZES = st.integers(0, 6)
_COMPARED = st.builds("{}*{{0}} {} {}*{{1}} + {}".format, st.integers(-2, 2),
                      st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), st.integers(-2, 2), st.integers(-4, 8))  # fmt: skip
_REMAINDERS = st.builds("({{0}} + {}*{{1}}) % {} {} {}".format, st.integers(-2, 2), st.integers(1, 4),
                        st.sampled_from(["==", "!=", "<", ">="]), st.integers(-1, 4))  # fmt: skip
_TENSOR = TensorMatch(X, tensor_spec(torch.ones(2, 2), {0, 1}, None)._replace(strides=None))
_VALUES = st.sampled_from([0, 1, 2, -1, 2**70, True, False, None, 0.0, -0.0, 1.0, float("nan"), "a", "ab", torch.float32, (1, 2)])


def _of_n(value: Any) -> Guard:
    return EqualsMatch(N, value)


_GUARDS = st.one_of(
    _VALUES.map(_of_n),
    st.sampled_from([TypeMatch(N, cls) for cls in (int, float, str, tuple, list, dict)]),
    st.integers(0, 2).map(lambda length: LengthMatch(N, length)),
    st.sampled_from([NoneMatch(N), NoneMatch(N, False), BoolMatch(N, True)]),
    st.integers(0, 2).map(lambda value: EqualsMatch(ItemSource(N, 0), value)),
    st.integers(0, 2).map(lambda value: EqualsMatch(ItemSource(N, "a"), value)),
    st.integers(0, 2).map(lambda value: EqualsMatch(AttrSource(N, "a"), value)),
)


class Holder:
    def __init__(self, a: Any) -> None:
        self.a = a


def _argument(rng: random.Random) -> Any:
    choices = [0, 1, 2, -1, 2**70, True, False, None, 0.0, -0.0, 1.0, float("nan"), "".join(["a", "b"]), "a", torch.float32,
               (1, 2), [rng.randrange(3)], {"a": rng.randrange(3)}, {1: 2}, Holder(rng.randrange(3)), object(), ()]  # fmt: skip
    return rng.choice(choices)


def _tensor(rng: random.Random) -> Any:
    sizes = rng.randrange(7), rng.randrange(7)
    return rng.choice([torch.empty(sizes), torch.empty(sizes), torch.empty(sizes, dtype=torch.int32), torch.empty(3), 3, None,
                       torch.empty(sizes, requires_grad=True), torch.nn.Parameter(torch.empty(sizes))])  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.lists(st.one_of(_COMPARED, _REMAINDERS), max_size=3), st.lists(_GUARDS, max_size=2)), min_size=2,
             max_size=9),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_no_entry_that_holds_is_left_out(drawn: list[tuple[list[str], list[Guard]]], rng: random.Random) -> None:
    per_entry = [[_TENSOR, *[line(text) for text in texts], *of_n] for texts, of_n in drawn]
    decision, entries = decision_over(per_entry)
    for _ in range(40):
        args = _tensor(rng), _argument(rng)
        candidates = decision.candidates(*args)
        assert [entry for entry in candidates if held(entry, *args)] == [entry for entry in entries if held(entry, *args)]


@pytest.mark.parametrize("shapes", [500, pytest.param(1_000_000, marks=pytest.mark.full)])
def test_regions_of_two_sizes_are_told_apart_on_every_shape(shapes: int) -> None:
    """Batches in bands, sequences by divisibility and by a sum: each shape has one entry, and it is the only one tried."""
    per_entry = [
        [_TENSOR, line(f"{low} <= {{0}} <= {low + 7}"), line(f"{{1}} % 4 {sign} 0"), line(text)]
        for low in range(1, 64, 8)
        for sign in ("==", "!=")
        for text in ("{0} + {1} <= 100", "{0} + {1} > 100")
    ]
    decision, entries = decision_over(per_entry)
    rng = random.Random(0)
    base = torch.empty(1, 1)
    for _ in range(shapes):
        x = base.expand(rng.randrange(1, 65), rng.randrange(1, 200))
        (found,) = decision.candidates(x, None)
        assert held(found, x, None)


def test_many_entries_of_one_constant_leave_one_to_try() -> None:
    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        return x + n

    call = tracer.compile(f, dynamic=False, recompile_limit=100)
    for n in range(40):
        call(torch.ones(2), n)
    state = tracer.region_of(call)
    assert state is not None
    entries = tuple(state.entries())
    decision = decision_among(entries)
    for n in range(40):
        assert len(decision.candidates(torch.ones(2), n)) == 1
        torch.testing.assert_close(call(torch.ones(2), n), torch.ones(2) + n)
    assert len(state.entries()) == 40


def test_among_entries_that_hold_the_last_hit_is_chosen() -> None:
    """Compared with a list of entries that moves each hit to its front."""
    rng = random.Random(1)
    ranges = [sorted(rng.sample(range(20), 2)) for _ in range(12)]
    made: list[Any] = []
    for low, high in ranges:
        manager = CheckFunctionManager([TypeMatch(N, int), line(f"{low} <= {{0}} <= {high}", N)], frame.__code__, globals())
        made.append(entry(lambda x, n: n, manager.check_fn))
        made[-1].guarded_code = types.SimpleNamespace(manager=manager)
    waiting = list(made)
    region = tracer._C.Region(lambda region, function, args: waiting.pop() if waiting else None, decision_among)
    function = fresh(frame)
    call = tracer._C.Dispatcher(region, function)
    order: list[Any] = []
    for _ in range(600):
        n = rng.randrange(20)
        expected = next((e for e in order if ranges[made.index(e)][0] <= n <= ranges[made.index(e)][1]), None)
        if expected is None:
            if waiting:
                order.insert(0, waiting[-1])
        else:
            order.remove(expected)
            order.insert(0, expected)
        call(None, n)
        assert region.entries() == order


def overlapping(count: int, rng: random.Random) -> list[list[str]]:
    """Guards of entries over two sizes, in Python's words: bands, sums and remainders, many of which hold at once."""
    made = []
    for _ in range(count):
        low, high = sorted(rng.sample(range(1, 65), 2))
        texts = [f"{{0}} >= {low}", f"{{0}} <= {high}"]
        if rng.random() < 0.7:
            texts.append(f"{{1}} % {(modulus := rng.choice((2, 3, 4, 8, 128)))} == {rng.randrange(modulus)}")
        if rng.random() < 0.5:
            texts.append(f"{rng.randint(1, 3)}*{{0}} {rng.choice('+-')} {{1}} {rng.choice(('<', '>='))} {rng.randrange(200)}")
        if rng.random() < 0.3:
            texts.append(f"({{0}}*{{1}}) % {rng.randint(2, 5)} != 0")  # of which the decision makes nothing
        made.append(texts)
    return made


@pytest.mark.parametrize("shapes", [2_000, pytest.param(1_000_000, marks=pytest.mark.full)])
def test_many_entries_choose_as_trying_them_in_turn_would(shapes: int) -> None:
    """64 overlapping entries, compared with NumPy: the first entry that holds, of a list that moves each hit to its front."""
    rng = random.Random(2)
    guarded = overlapping(64, rng)
    draw = np.random.default_rng(2)
    a, b = draw.integers(1, 65, shapes), draw.integers(1, 400, shapes)
    at = {"a": a, "b": b}
    holding = np.array([np.all([eval(text.format("a", "b"), at) for text in texts], axis=0) for texts in guarded])
    region = tracer._C.Region(lambda region, function, args: None, decision_among)
    function = fresh(frame)
    made = []
    for number, texts in enumerate(guarded):
        manager = CheckFunctionManager([_TENSOR, *map(line, texts)], frame.__code__, globals())
        made.append(entry(eval(f"lambda x, n: {number}"), manager.check_fn, globals=function.__globals__))
        made[-1].guarded_code = types.SimpleNamespace(manager=manager)
        region.install(function.__code__, function.__globals__, made[-1])
    call = tracer._C.Dispatcher(region, function)
    order = [made.index(each) for each in region.entries()]
    base, wrong, missed = torch.empty(1, 1), 0, 0
    for sizes, holds in zip(zip(a.tolist(), b.tolist()), np.ascontiguousarray(holding.T)):
        expected = next((each for each in order if holds[each]), None)
        if expected is None:
            missed += 1
        elif expected != order[0]:
            order.remove(expected)
            order.insert(0, expected)
        wrong += call(base.expand(sizes), None) != expected
    assert not wrong and 0 < missed < shapes / 2 and region.entries() == [made[each] for each in order]


def test_a_decision_that_fails_is_reported_and_every_entry_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    made = [entry(lambda x, n: n, lambda x, n, wanted=wanted: n == wanted) for wanted in range(3)]
    region = tracer._C.Region(lambda region, function, args: made[args[1]], lambda entries: 1 // 0)
    call = tracer._C.Dispatcher(region, fresh(frame))
    assert [call(None, n) for n in (0, 1, 2, 0, 1)] == [0, 1, 2, 0, 1]
    assert len(region.entries()) == 3
    assert {hooked.exc_type for hooked in reported} == {ZeroDivisionError}


# -------------------------------------------------------------------------------------------------- what a lookup costs


def steps_of(nodes: tuple[Any, ...]) -> tuple[int, int]:
    """In the worst case: how many features a walk from the root reads, and with how many numbers it compares these."""

    def below(index: int) -> tuple[int, int]:
        feature, starts, items, absent, unknown = nodes[index]
        if feature < 0:
            return 0, 0
        worst = [below(child) for child in {*items, absent, unknown}]
        return 1 + max(reads for reads, _ in worst), len(starts).bit_length() + max(compared for _, compared in worst)

    return below(len(nodes) - 1)


def by_constant(count: int) -> tuple[list[list[Guard]], list[tuple[Any, Any]]]:
    return [[EqualsMatch(N, value)] for value in range(count)], [(None, value) for value in range(count)]


def by_size(count: int) -> tuple[list[list[Guard]], list[tuple[Any, Any]]]:
    made: list[list[Guard]] = [[_TENSOR, line(f"{{0}} == {value}")] for value in range(count)]
    return made, [(torch.empty(value, 2), None) for value in range(count)]


def by_region(count: int) -> tuple[list[list[Guard]], list[tuple[Any, Any]]]:
    """Bands of one size, each with four classes of the other."""
    regions = [(low, rest) for low in range(1, 2 * count, 8) for rest in range(4)]
    made: list[list[Guard]] = [
        [_TENSOR, line(f"{low} <= {{0}} <= {low + 7}"), line(f"{{1}} % 4 == {rest}")] for low, rest in regions
    ]
    return made, [(torch.empty(low + rest, 8 + rest), None) for low, rest in regions]


@pytest.mark.parametrize("kind", [by_constant, by_size, by_region])
def test_among_64_entries_each_lookup_asks_one(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Besides, a lookup reads a few words of the arguments and makes a binary search for each."""
    per_entry, calls = kind(64)
    assert len(per_entry) == len(calls) == 64
    asked: list[int] = []
    region = tracer._C.Region(lambda region, function, args: None, decision_among)
    function = fresh(frame)
    for number, made in enumerate(per_entry):
        manager = CheckFunctionManager(made, frame.__code__, globals())
        counting = entry(eval(f"lambda x, n: {number}"), lambda x, n, check=manager.check_fn, number=number: (
            asked.append(number) or check(x, n)), globals=function.__globals__)  # fmt: skip
        counting.guarded_code = types.SimpleNamespace(manager=manager)
        region.install(function.__code__, function.__globals__, counting)
    plans: list[Any] = []

    def noting(*plan: Any) -> Any:
        plans.append(plan)
        return tracer._C.Decision(*plan)

    monkeypatch.setattr(deciding, "_C", types.SimpleNamespace(Decision=noting))
    call = tracer._C.Dispatcher(region, function)
    for number, args in enumerate(calls):
        assert call(*args) == number and call.lookup(*args) is not None
    assert asked == [number for number in range(64) for _ in range(2)]
    assert len(plans) == 1
    reads, compared = steps_of(plans[0][-1])
    assert reads <= 2 and compared <= 8
