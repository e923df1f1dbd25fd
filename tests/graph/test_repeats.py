"""Stretches of a sequence that occur several times."""

from __future__ import annotations

from tracer.graph.repeats import NEVER, Repeat, find_repeats

A, B = list(range(10, 30)), list(range(50, 64))


def found_in(tokens, prices=None, agree=lambda repeat: [repeat]):
    return find_repeats(tokens, prices or [0.0] * (len(tokens) + 1), agree)


def test_blocks_in_a_row_are_found_whole():
    assert found_in([1, 2, 3, *A * 12, 4, 5]) == [Repeat(tuple(range(3, 243, 20)), 20)]


def test_blocks_apart_are_found():
    assert found_in([*A, 1, *A, 2, 3, *A, 4]) == [Repeat((0, 21, 43), 20)]


def test_several_kinds_are_found_the_most_saving_first():
    assert found_in([*B * 5, 1, 2, *A * 6]) == [Repeat(tuple(range(72, 192, 20)), 20), Repeat(tuple(range(0, 70, 14)), 14)]


def test_what_occurs_once_or_is_short_is_not():
    assert not found_in(list(range(100)))
    assert not found_in([1, 2, 3, 0, 1, 2, 3])
    assert not found_in([])


def test_small_blocks_are_taken_together():
    (repeat,) = found_in([1, 2] * 100)
    assert repeat.length >= 8 and repeat.length * len(repeat.starts) >= 190


def test_blocks_in_a_row_begin_where_cuts_are_cheap():
    tokens = [*A[5:], *A * 5, *A[:5]]
    prices = [5.0] * (len(tokens) + 1)
    for place in range(2, len(prices), 20):
        prices[place] = 1.0
    assert found_in(tokens, prices) == [Repeat((2, 22, 42, 62, 82), 20)]


def test_a_cut_where_two_blocks_meet_is_paid_for_once():
    tokens = [1, *A * 12, 2]
    (repeat,) = found_in(tokens, [0.0, *[2.5] * (len(tokens) - 1), 0.0])
    assert repeat.length == len(A)  # not two in one, which half as many cuts would pay for if each counted twice


def test_no_cut_is_made_where_none_may_be():
    tokens = [0, *A * 4]
    prices = [NEVER if place % 20 == 1 else 1.0 for place in range(len(tokens) + 1)]
    for repeat in found_in(tokens, prices):
        assert all(prices[start] < NEVER and prices[start + repeat.length] < NEVER for start in repeat.starts)
    assert not found_in(tokens, [0.0, *[NEVER] * (len(tokens) - 1), 0.0])


def test_stretches_that_do_not_agree_are_left_out():
    assert found_in([1, *A * 4], agree=lambda repeat: [Repeat(repeat.starts[1:], repeat.length)]) == [Repeat((21, 41, 61), 20)]
