"""What the filter of guards is asked, and what its answer means."""

from __future__ import annotations

import pytest
import torch

import tracer


def without_numbers(guards):
    return [guard.kind != "EQUALS_MATCH" for guard in guards]


def test_a_filter_is_given_guards_and_says_which_to_keep():
    @tracer.optimize(guard_filter_fn=without_numbers)
    def added(x, flag):
        return x + 1 if flag == "one" else x + 2

    assert added(torch.ones(1), "one") == 2
    assert added(torch.ones(1), "two") == 2  # nothing checks it
    assert added(torch.ones(2), "two").tolist() == [3, 3]


def test_a_filter_that_answers_for_another_number_of_guards_is_an_error():
    @tracer.optimize(guard_filter_fn=lambda guards: [True])
    def added(x):
        return x + 1

    with pytest.raises(tracer.exc.UserError, match="guard_filter_fn was given .* guards and answered for 1"):
        added(torch.ones(1))
