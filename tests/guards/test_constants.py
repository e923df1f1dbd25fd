"""EQUALS_MATCH: the exact type and the exact value of plain constants."""

import enum
import math
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.guards.helpers import X, holds, manager_of
from tracer.guards.constants import is_guardable_constant
from tracer.guards.identity import BoolMatch, NoneMatch
from tracer.guards.values import EqualsMatch
from tracer.sources.containers import ItemSource


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1


NAN = float("nan")
VALUES = [
    None, True, False, ..., NotImplemented, 0, 1, -1, 10**40, 0.0, -0.0, 1.0, 1.5, NAN, math.inf, -math.inf, 0j,
    complex(-0.0, 0.0), complex(0.0, -0.0), complex(NAN, 1), "", "a", "1", "x" * 500, b"", b"a", (), (1,), (True,),
    (1.0,), (1, 2), (0.0,), (-0.0,), (1, ("a", (None, 2.5))), tuple(range(30)), torch.Size([1]), torch.Size([1, 2]),
    frozenset(), frozenset({1}), frozenset({True}), frozenset({1, "a"}), range(0), range(1, 1), range(3),
    range(0, 3, 2),
    slice(None), slice(1), slice(True), slice(0, 5, 2), torch.float32, torch.float64, torch.strided, torch.sparse_coo,
    torch.contiguous_format, torch.channels_last, torch.device("cpu"), torch.device("cpu", 0), torch.device("meta"),
    torch.per_tensor_affine, Colour.RED, Colour.BLUE, Level.LOW, (Colour.RED, torch.float32), (NAN,),
]  # fmt: skip
IDS = [f"{index}-{type(v).__name__}" for index, v in enumerate(VALUES)]  # no text of a set, which differs between processes


@pytest.mark.parametrize("value", VALUES, ids=IDS)
def test_a_constant_matches_itself_and_no_other(value):
    guard = EqualsMatch(X, value)
    manager = manager_of(guard)
    for other in VALUES:
        assert manager.check_fn(other) is (other is value), (value, other, manager.exec_text)


def test_equal_values_made_apart_match():
    device = torch.device("cpu")
    for value in (float("1.5"), float("nan"), 10**40, "ab" * 200, (1, float("nan")), device, slice(0, 5, 2)):
        again = eval(repr(value), {"nan": float("nan"), "device": torch.device})
        assert holds(EqualsMatch(X, value), again)


def test_guards_are_equal_only_for_the_same_type_and_value():
    guards = {EqualsMatch(X, value) for value in VALUES}
    assert len(guards) == len(VALUES)
    assert EqualsMatch(X, 1) == EqualsMatch(X, 1, where=None) != EqualsMatch(X, True)
    assert EqualsMatch(X, float("nan")) == EqualsMatch(X, float("nan"))


def test_subclasses_of_plain_types_do_not_match_and_are_not_asked():
    class Text(str):
        def __eq__(self, other):
            raise RuntimeError("user code ran")

        __hash__ = str.__hash__

    class Number(int):
        __eq__ = __index__ = Text.__eq__

    class Pair(tuple):
        __eq__ = __len__ = __getitem__ = Text.__eq__

    assert not holds(EqualsMatch(X, "a"), Text("a"))
    assert not holds(EqualsMatch(X, 1), Number(1))
    assert not holds(EqualsMatch(X, (1, 2)), Pair((1, 2)))
    assert not holds(EqualsMatch(X, ("a",)), (Text("a"),))
    assert not holds(EqualsMatch(X, frozenset({"a"})), frozenset({Text("a")}))
    assert not any(map(is_guardable_constant, (Text("a"), Number(1), Pair((1,)), [1], {}, object(), (object(),))))


def test_what_is_no_plain_constant_is_refused():
    with pytest.raises(TypeError, match="list is not a plain constant"):
        EqualsMatch(X, [1])


def test_a_member_of_an_enum_is_not_kept_alive():
    member = enum.Enum("Dropped", "ONE").ONE
    guard, alive = EqualsMatch(X, member), weakref.ref(member)
    manager = manager_of(guard)
    assert manager.check_fn(member)
    del member
    import gc

    gc.collect()
    assert alive() is None and not manager.valid


def test_log_lines_are_those_of_the_reference_documents():
    assert EqualsMatch(X, "Hello").lines() == [f"___check_type_id(L['x'], {id(str)})", "L['x'] == 'Hello'"]
    assert EqualsMatch(X, None).lines() == ["L['x'] is None"]
    assert EqualsMatch(ItemSource(X, 0), "Hi").log_name() == "local 'x[0]' EQUALS_MATCH"


def test_the_explanation_has_expected_and_seen_value():
    failure = manager_of(EqualsMatch(X, "Hello")).explain(("Hi",))
    assert (failure.message, failure.expected, failure.seen) == ("L['x'] == 'Hello'", "'Hello'", "'Hi'")
    failure = manager_of(EqualsMatch(X, 3)).explain((True,))
    assert str(failure) == "type of L['x'] was int, is bool"


def test_the_check_reads_as_a_person_would_write_it():
    assert "if not (type(x) is str and x == 'Hello'): return False" in manager_of(EqualsMatch(X, "Hello")).exec_text
    assert "if not (x is None): return False" in manager_of(EqualsMatch(X, None)).exec_text


@given(st.one_of(st.integers(), st.floats(), st.text(), st.binary(), st.booleans(), st.complex_numbers()), st.data())
def test_any_scalar_matches_exactly_what_is_bit_for_bit_the_same(value, data):
    other = data.draw(st.one_of(st.just(value), st.integers(-2, 2), st.sampled_from([0.0, -0.0, NAN, 1.0, True, 1j])))
    assert holds(EqualsMatch(X, value), value)
    expected = type(other) is type(value) and repr(other) == repr(value)
    assert holds(EqualsMatch(X, value), other) is expected


nested = st.recursive(
    st.one_of(st.integers(-2, 2), st.booleans(), st.none(), st.floats(width=16), st.text(max_size=2)),
    lambda inner: st.one_of(st.tuples(inner), st.tuples(inner, inner), st.lists(inner, max_size=3).map(tuple)),
    max_leaves=12,
)


@given(nested, nested)
def test_nested_tuples_match_exactly_what_is_bit_for_bit_the_same(value, other):
    assert holds(EqualsMatch(X, value), value)
    assert holds(EqualsMatch(X, value), other) is (repr(value) == repr(other))


def test_none_and_bool():
    assert holds(NoneMatch(X), None) and not holds(NoneMatch(X), 0)
    assert holds(NoneMatch(X, is_none=False), 0) and not holds(NoneMatch(X, is_none=False), None)
    assert holds(BoolMatch(X, True), True) and not holds(BoolMatch(X, True), 1) and not holds(BoolMatch(X, False), True)
