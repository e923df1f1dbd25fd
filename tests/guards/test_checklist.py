"""Which guards C checks and which it leaves to Python: for any arguments, the answer is that of all guards checked in Python."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tracer
from tests.guards.test_decision import Holder, N, X, _argument, _tensor, frame, line
from tests.support import check
from tracer import _C
from tracer.guards.base import Guard
from tracer.guards.containers import DictKeysMatch, LengthMatch
from tracer.guards.identity import BoolMatch, Distinct, IdMatch, NoneMatch, TypeMatch
from tracer.guards.manager import CheckFunctionManager
from tracer.guards.state import GlobalStateMatch
from tracer.guards.tensors import LeafMatch, TensorMatch, tensor_spec
from tracer.guards.values import EqualsMatch
from tracer.sources.attributes import AttrSource
from tracer.sources.containers import ItemSource
from tracer.sources.roots import LocalSource
from tracer.sources.tensors import TensorSizeSource

_OBJECT = object()
_SPEC = tensor_spec(torch.ones(2, 3), {0, 1}, {0, 1})
_ON_N = [
    *[TypeMatch(N, cls) for cls in (int, float, str, bool, tuple, list, dict, Holder, torch.Tensor)],
    *[EqualsMatch(N, value) for value in (0, 1, -1, 2**70, True, None, 0.0, -0.0, 1.0, float("nan"), float("inf"), "a",
                                                "ab", torch.float32, (1, 2), torch.strided)],
    NoneMatch(N),
    NoneMatch(N, False),
    BoolMatch(N, False),
    IdMatch(N, len),
    EqualsMatch(ItemSource(N, 0), 1),
    EqualsMatch(ItemSource(N, -1), 2),
    EqualsMatch(ItemSource(N, "a"), 1),
    EqualsMatch(AttrSource(N, "a"), 1),
    EqualsMatch(AttrSource(N, "a"), "text"),
    IdMatch(AttrSource(N, "a"), _OBJECT),
]  # fmt: skip
_ON_TYPED = [
    *[(TypeMatch(N, cls), LengthMatch(N, n)) for cls in (list, tuple, dict) for n in range(3)],
    *[(TypeMatch(N, dict), DictKeysMatch.of(N, of)) for of in ({}, {"a": 1}, {"a": 1, "b": 2}, {1: 2})],
    (TypeMatch(N, int), line("2*{0} <= 3", N)),
    (TypeMatch(N, float), line("{0} <= 1", N)),
]
_ON_X = [
    TensorMatch(X, _SPEC),
    TensorMatch(X, tensor_spec(torch.ones(2, 3))),
    TensorMatch(X, tensor_spec(torch.nn.Parameter(torch.ones(2, 3)), {0}, {0})),
    LeafMatch(X, True),
    LeafMatch(X, False),
    Distinct((X, N)),
    *[line(text) for text in ("{0} <= 3", "{0} % 2 == 1", "2*{0} >= {1} + 1", "{0} == {1}", "{0} != 3",
                              "2 <= {0} <= 5 and {1} > 2", "{0}*{1} < 9", "{0} // 2 < 2", "({0} + {1}) % 3 != 0")],
]  # fmt: skip


def _values(rng: random.Random) -> tuple[Any, Any]:
    ones = torch.ones(2, 3)
    x = rng.choice([_tensor(rng), ones, torch.nn.Parameter(ones), ones.clone().requires_grad_() * 2])
    others = [{"a": 1, "b": 2}, {"b": 1, "a": 2}, {"".join("a"): 1}, Holder(_OBJECT), Holder("text"), len, x]
    n = rng.choice([_argument(rng), *others])
    return x, n


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from([*[(guard,) for guard in _ON_N], *_ON_TYPED]), max_size=2),
       st.lists(st.sampled_from(_ON_X), max_size=4), st.booleans(), st.randoms(use_true_random=False))  # fmt: skip
def test_the_list_says_what_all_guards_say(
    on_n: list[tuple[Guard, ...]], on_x: list[Guard], tensor: bool, rng: random.Random
) -> None:
    made = [*on_x, *[guard for some in on_n for guard in some], *([TensorMatch(X, _SPEC)] if tensor else [])]
    check_fn = CheckFunctionManager(made, frame.__code__, globals()).check_fn
    assert type(check_fn) is _C.Checklist
    for _ in range(25):
        args = _values(rng)
        assert _answer(check_fn, args) == _answer(check_fn.whole, args), args


def _answer(check_fn: Any, args: tuple[Any, ...]) -> bool:
    try:
        return check_fn(*args) is True
    except Exception:
        return False


@pytest.mark.parametrize("made", [
    [TypeMatch(N, int)], [EqualsMatch(N, 3)], [EqualsMatch(N, "text")], [EqualsMatch(N, 1.5)],
    [TypeMatch(N, dict), DictKeysMatch.of(N, {"a": 1})], [TypeMatch(N, list), LengthMatch(N, 2)],
    [TensorMatch(X, _SPEC), line("2 <= {0} < 9"), line("{0} % 8 == 0")], [Distinct((X, N))],
    [GlobalStateMatch(_C.GlobalState())], [NoneMatch(N)], [LeafMatch(X, True)],
])  # fmt: skip
def test_what_needs_no_python_asks_none(made: list[Guard]) -> None:
    check_fn = CheckFunctionManager(made, frame.__code__, globals()).check_fn
    assert check_fn.rest is None


def test_a_float_is_not_compared_as_an_int() -> None:
    made = [TypeMatch(N, float), line("{0} <= 1", N)]
    check_fn = CheckFunctionManager(made, frame.__code__, globals()).check_fn
    assert check_fn.rest is not None
    assert check_fn(None, 0.5) is True and check_fn(None, 1.5) is False


def test_the_slot_of_another_class_is_not_read() -> None:
    class Slotted:
        __slots__ = ("a", "b")

    class Other:
        a = Slotted.b  # a descriptor that refuses its instances

    check_fn = CheckFunctionManager([EqualsMatch(AttrSource(N, "a"), 1)], frame.__code__, globals()).check_fn
    assert _answer(check_fn, (None, Other())) is False
    filled = Slotted()
    filled.a = 1
    assert check_fn(None, filled) is True


def test_what_is_handed_out_is_what_was_checked() -> None:
    paths = (ItemSource(N, "w"), AttrSource(X, "a"))
    made = [TensorMatch(path, _SPEC) for path in paths]
    check_fn = CheckFunctionManager(made, frame.__code__, globals(), fetched=paths).check_fn
    w, a = torch.ones(2, 2), torch.zeros(5, 1)
    handed = check_fn(Holder(a), {"w": w})
    assert len(handed) == 2 and handed[0] is w and handed[1] is a
    assert check_fn(Holder(3), {"w": w}) is False
    assert [one is other for one, other in zip(check_fn.whole(Holder(a), {"w": w}), handed)] == [True, True]


@pytest.mark.parametrize("wrap", [lambda tensor: tensor, lambda tensor: [tensor], lambda tensor: {"key": (tensor,)}])
def test_an_argument_that_may_be_one_of_the_parameters_is_held_against_them(wrap: Any) -> None:
    def among(model: torch.nn.Module, argument: Any) -> torch.Tensor:
        while type(argument) in (list, tuple, dict):
            argument = argument["key"] if type(argument) is dict else argument[0]
        return sum(own * (2 if own is argument else 1) for own in model.parameters()) + argument  # type: ignore[return-value]

    model = torch.nn.Sequential(*[torch.nn.PReLU() for _ in range(12)])
    for other in (torch.nn.Parameter(torch.ones(1)), torch.ones(1)):
        compiled = tracer.compile(among)
        for argument in (other, model[3].weight, other, model[7].weight, model[3].weight):
            assert torch.equal(compiled(model, wrap(argument)), among(model, wrap(argument)))


def test_a_key_that_hashes_in_python_is_not_asked() -> None:
    asked: list[Any] = []

    class Key(str):
        def __hash__(self) -> int:
            asked.append(self)
            return hash("a")

        def __eq__(self, other: object) -> bool:
            asked.append(other)
            return True

    mapping = {Key("b"): 1}
    asked.clear()
    made = [TypeMatch(N, dict), DictKeysMatch.of(N, {"a": 1})]
    assert CheckFunctionManager(made, frame.__code__, globals()).check_fn(None, mapping) is False
    assert not asked


def test_inputs_below_arguments_reach_the_graph_as_they_are_at_the_call() -> None:
    def f(batch: dict[str, Any], holder: Any) -> torch.Tensor:
        return batch["x"] * holder.a + batch["items"][1].sum(0)

    for _ in range(3):
        batch = {"x": torch.randn(3), "items": [1, torch.randn(2, 3)]}
        check(f, batch, Holder(torch.randn(3)))


def test_sizes_are_read_of_the_tensors_of_the_call() -> None:
    sizes = (TensorSizeSource(ItemSource(N, 0), 1), TensorSizeSource(X, 0))
    made = [TensorMatch(ItemSource(N, 0), _SPEC), TensorMatch(X, _SPEC), line("{0} == 2*{1}", *sizes)]
    check_fn = CheckFunctionManager(made, frame.__code__, globals()).check_fn
    assert check_fn.rest is None
    assert check_fn(torch.ones(2, 1), (torch.ones(3, 4),)) is True
    assert check_fn(torch.ones(2, 1), (torch.ones(4, 3),)) is False
    assert check_fn(torch.ones(2, 1), ()) is False


def test_numbers_of_tensors_run_no_torch_function() -> None:
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError(function)

    plain = torch.ones(6, 4)[1:, ::2]
    for tensor in (plain, plain.as_subclass(Loud)):
        assert [_C.tensor_size(tensor, dim) for dim in (0, 1)] == [5, 2]
        assert [_C.tensor_stride(tensor, dim) for dim in (0, -1)] == [4, 2]
        assert _C.tensor_storage_offset(tensor) == 4
    with pytest.raises(IndexError):
        _C.tensor_size(plain, 2)
    with pytest.raises(TypeError):
        _C.tensor_size(plain)


def test_the_closure_is_read_behind_the_arguments() -> None:
    from tracer.sources.roots import FreeVarSource

    def make(value: Any) -> Any:
        def inner(x: Any) -> Any:
            return x, value

        return inner

    inner = make(3)
    check_fn = CheckFunctionManager(
        [EqualsMatch(FreeVarSource("value"), 3), TypeMatch(LocalSource("x"), int)], inner.__code__, globals()
    ).check_fn
    assert check_fn.rest is None
    assert check_fn(1, inner.__closure__) is True
    assert check_fn(1, make(4).__closure__) is False
