"""Which sizes share a symbol, and what is remembered of earlier calls."""

from __future__ import annotations

from shapes import ShapeEnv, SizeHistory
from shapes.policy import DuckSymbols
from tests.shapes.algebra_programs import Named


def sizes_after(earlier: list[dict[str, tuple[int, ...]]], now: tuple[int, ...]) -> list[object]:
    """The sizes of x in a trace after earlier calls."""
    history = SizeHistory()
    for call in (*earlier, {"x": now}):
        history.begin()
        for place, sizes in call.items():
            history.observe(place, sizes)
    env = ShapeEnv(past=lambda label: history.past("x", int(label.name)))
    return [env.create_size(size, Named(str(dim))) for dim, size in enumerate(now)]


def test_equal_sizes_share_a_symbol_where_nothing_was_seen_before() -> None:
    a, b = sizes_after([], (4, 4))
    assert a is b


def test_sizes_that_were_equal_in_every_call_share_a_symbol() -> None:
    a, b = sizes_after([{"x": (3, 3)}, {"x": (7, 7)}], (4, 4))
    assert a is b


def test_sizes_that_an_earlier_call_told_apart_have_a_symbol_each() -> None:
    a, b, c = sizes_after([{"x": (3, 5, 3)}, {"x": (4, 4, 4)}], (6, 6, 6))
    assert a is c and a is not b


def test_what_one_twin_has_seen_holds_of_the_others() -> None:
    """b was seen beside a alone, c beside b's value: all three cannot be one."""
    twins, symbols = DuckSymbols(), ShapeEnv()
    symbols.create_size(4, Named("a"))
    (a,) = symbols.symbols()
    twins.add(a, 4, (3, None))
    assert twins.find(4, (None, 5)) is a
    assert twins.find(4, (3, 6)) is None
    assert twins.find(4, (3, 5)) is a


def test_another_rank_and_a_place_not_met_tell_nothing() -> None:
    a, b = sizes_after([{"x": (3,)}, {"y": (1, 2)}], (4, 4))
    assert a is b


def test_what_lies_long_back_is_forgotten() -> None:
    history = SizeHistory()
    for size in range(100):
        history.begin()
        history.observe("x", (size,))
    assert len(history.past("x", 0)) < 100 and history.past("x", 0)[-1] == 99


def of_calls(*calls: dict[str, tuple[object, ...]]) -> SizeHistory:
    history = SizeHistory()
    for call in calls:
        history.repeat(call)
    return history


def test_what_differs_from_what_another_process_sees_varies() -> None:
    here, there = of_calls({"x": (4, 8), "n": (3,)}), of_calls({"x": (5, 8), "n": (3,), "y": (1,)})
    assert here.hear([there.told()])
    assert here.told().varying == {"x": [0]}
    assert here.seen["x"] == (4, 8)  # the call that is traced is the last one


def test_what_has_varied_in_another_process_varies() -> None:
    here, there = of_calls({"x": (4, 8)}), of_calls({"x": (5, 8)}, {"x": (4, 8)})
    assert here.hear([there.told()])
    assert here.told().varying == {"x": [0]}


def test_a_process_that_sees_the_same_changes_nothing() -> None:
    here, there = of_calls({"x": (4, 8)}), of_calls({"x": (4, 8), "z": (2,)})
    assert not here.hear([there.told()])
    assert here.told().varying == {}


def test_values_that_vary_on_both_sides_change_nothing() -> None:
    here, there = of_calls({"x": (4, 8)}, {"x": (6, 8)}), of_calls({"x": (5, 8)}, {"x": (9, 8)})
    assert not here.hear([there.told()])


def test_equal_values_that_differ_in_another_process_share_no_symbol() -> None:
    here, there = of_calls({"x": (3, 3)}, {"x": (4, 4)}), of_calls({"x": (3, 3)}, {"x": (5, 6)})
    assert here.hear([there.told()])
    assert here.past("x", 0) != here.past("x", 1)


def test_a_tensor_of_another_rank_in_another_process_tells_nothing() -> None:
    here, there = of_calls({"x": (4, 8)}, {"x": (6, 8)}), of_calls({"x": (4, 8, 3)})
    assert not here.hear([there.told()])
    assert here.told().varying == {"x": [0]}
