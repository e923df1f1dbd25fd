"""Layout questions on symbolic sizes: PyTorch's answers at the traced sizes, and wherever the guards hold."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shapes.printing import NAMESPACE
from tests.shapes.algebra_programs import examples
from tracer.graph.fakes.fake_tensors import FakeWorld
from tracer.operators.layout import answer
from tracer.sources.roots import LocalSource

QUESTIONS = {
    "contiguous": lambda t: t.is_contiguous(),
    "channels_last": lambda t: t.is_contiguous(memory_format=torch.channels_last),
    "dense": lambda t: torch.ops.aten.is_non_overlapping_and_dense.default(t),
}


def laid_out(sizes, order, step) -> torch.Tensor:
    """A tensor of these sizes whose dims lie in memory in this order, every `step`-th place of the last one."""
    permuted = torch.empty([sizes[dim] * (step if dim == order[-1] else 1) for dim in order])
    if step > 1:
        permuted = permuted[..., ::step]
    return permuted.permute([order.index(dim) for dim in range(len(sizes))])


@given(
    st.sampled_from(sorted(QUESTIONS)),
    st.tuples(*[st.integers(2, 5)] * 4),
    st.permutations(range(4)),
    st.sampled_from([1, 1, 2]),
)
@examples(80)
def test_answers_hold_wherever_the_guards_do(question, sizes, order, step) -> None:
    real = laid_out(sizes, order, step)
    world = FakeWorld(duck_shape=False)
    fake = world.fakify(real, LocalSource("x"))
    answer = bool(QUESTIONS[question](fake))
    assert answer == QUESTIONS[question](real)
    guards = [compile(guard.readable, "guard", "eval") for guard in world.env.produce_guards()]
    for others, other_order in itertools.product([(2, 2, 2, 2), (3, 2, 5, 4), (4, 5, 2, 3)], [order, (0, 1, 2, 3)]):
        other = laid_out(others, list(other_order), step)
        if all(eval(guard, {**NAMESPACE, "L": {"x": other}}) for guard in guards):
            assert QUESTIONS[question](other) == answer


@pytest.mark.parametrize("question", sorted(QUESTIONS))
def test_a_plain_input_is_answered_without_a_guard(question) -> None:
    world = FakeWorld()
    fake = world.fakify(torch.randn(4, 3, 5, 6), LocalSource("x"))
    QUESTIONS[question](fake)
    assert world.env.guards == []


_NAMES = {"contiguous": "contiguous", "channels_last": "channels_last_contiguous_2d", "dense": "non_overlapping_and_dense"}


@pytest.mark.parametrize("question", sorted(QUESTIONS))
def test_an_empty_tensor_has_channels_last_only_where_its_strides_say_so(question) -> None:
    world = FakeWorld()
    for real in (torch.empty(0, 3, 5, 6), torch.empty(0, 5, 6, 3).permute(0, 3, 1, 2), torch.empty(2, 0, 5, 6)):
        sizes, strides = ([world.torch_env.algebra.integer(number) for number in of] for of in (real.shape, real.stride()))
        assert answer(world.torch_env, _NAMES[question], sizes, strides).hint == QUESTIONS[question](real)
