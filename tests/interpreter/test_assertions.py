"""`assert` on what only the data decides: a test in the graph, and the program's own AssertionError where it fails."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.interpreter import asserting
from tests.support import breaks, captured, check
from tests.support.outcomes import outcome
from tracer import config


def test_an_assertion_on_a_tensor_is_part_of_the_graph():
    assert "_assert_async" in captured(asserting.first_is_three, torch.tensor([3.0, 4.0])).operations


def test_an_assertion_that_fails_raises_the_programs_error():
    error = check(asserting.first_is_three, torch.tensor([2.0, 4.0])).error
    assert type(error) is AssertionError
    assert str(error) == "the first is to be 3"


def test_an_assertion_without_a_message_is_captured_too():
    captured(asserting.positive, torch.ones(2))
    assert type(check(asserting.positive, -torch.ones(2)).error) is AssertionError


def test_an_assertion_between_writes_leaves_what_was_written_before_it():
    captured(asserting.between_writes, torch.ones(2))
    assert type(check(asserting.between_writes, -5 * torch.ones(2)).error) is AssertionError


@pytest.mark.parametrize("sign", [1, -1])
def test_an_assertion_that_fails_can_be_caught_by_the_program(sign):
    checked = check(asserting.caught, sign * torch.ones(2))
    assert not checked.breaks
    assert len(checked.graphs) == 1


def test_a_message_that_is_worked_out_is_so_by_the_program_itself():
    captured(asserting.with_a_text, torch.ones(2))
    assert str(check(asserting.with_a_text, -torch.ones(2)).error) == "torch.Size([2])"


RAISING = (
    asserting.raises_below,
    asserting.raises_above,
    asserting.raised_and_caught,
    asserting.raises_after_a_write,
    asserting.raises_in_a_loop,
    asserting.without_gradients,
)


@pytest.mark.parametrize("fn", RAISING)
@pytest.mark.parametrize("value", [-4.0, 4.0])
def test_a_raise_that_the_data_decides_on_is_a_test_in_the_graph(fn, value):
    checked = check(fn, torch.full((2, 2), value))
    assert not checked.breaks
    assert "_assert_async" in checked.operations


def test_a_branch_that_may_return_is_no_test():
    assert breaks(asserting.returns_or_raises, torch.ones(2)).break_ids == ["data-dependent-branch"]


def test_an_assertion_on_many_elements_is_ambiguous_as_ever():
    assert type(breaks(asserting.of_many, torch.ones(2)).error) is RuntimeError


@pytest.mark.parametrize("sign", [1, -1])
def test_a_check_of_all_elements_is_part_of_the_graph(sign):
    found = check(asserting.all_checked, sign * torch.ones(2, 3))
    assert not found.breaks
    assert (found.error is None) == (sign == 1)


def test_a_check_of_all_elements_of_no_booleans_raises_as_ever():
    assert type(check(asserting.all_checked_of_no_booleans, torch.ones(2)).error) is TypeError


NUMBERS = {
    asserting.number_below_a_size: [(torch.arange(4.0), torch.tensor(n)) for n in (2, 3, 4, 0)],
    asserting.raises_for_many: [(torch.tensor([1.0] * n + [-1.0]),) for n in (2, 4, 1, 3)],
    asserting.raises_for_a_number_that_is_zero: [(torch.ones(2), torch.tensor(n)) for n in (2, 0, 1)],
}


@pytest.mark.parametrize("fn", NUMBERS, ids=lambda fn: fn.__name__)
def test_a_raise_that_a_number_of_the_data_decides_on_is_checked_when_the_graph_runs(fn):
    with config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        compiled = tracer.optimize("eager", dynamic=True)(fn)
        for args in NUMBERS[fn]:
            expected, seen = outcome(fn, *args), outcome(compiled, *args)
            assert torch.equal(expected, seen) if isinstance(expected, torch.Tensor) else expected == seen
    assert compiled.stats()["breaks"] == 0 and compiled.stats()["compiles"] == 1
