"""Elementwise operators on sizes that may be 0 or 1: no guard is recorded, and the results are those of eager."""

from __future__ import annotations

import pytest
import torch

from shapes import DimPolicy
from tests.graph.fakes import shape_at, strides_at, values_of_symbols
from tracer.graph.fakes.fake_tensors import FakeWorld
from tracer.operators.same_shape import is_computed_by_element
from tracer.sources.roots import LocalSource

PROGRAMS = [
    lambda x, y: x + y,
    lambda x, y: x * 2 - 1,
    lambda x, y: (x > y).to(torch.int64) + 1,
    lambda x, y: torch.where(x > 0, x, y).relu().sigmoid(),
    lambda x, y: x.clamp(0, 1) / 2.0,
    lambda x, y: torch.nn.functional.gelu(x) ** 2,
    lambda x, y: x.double() * y,
    lambda x, y: x.eq(1) & y.isnan(),
    lambda x, y: torch.lerp(x, y, 0.5),
    lambda x, y: (x * 2).add_(y).relu_().mul_(3),
]


def fake_result(program, tensors):
    world = FakeWorld(duck_shape=True, specialize_zero_one=False)
    fakes = [world.fakify(t, LocalSource(f"x{i}"), [DimPolicy.DUCK] * t.dim()) for i, t in enumerate(tensors)]
    return world, world.run(program, fakes)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("traced", [0, 1, 17])
def test_one_trace_serves_sizes_zero_and_one(program, traced):
    world, result = fake_result(lambda x: program(x, x.new_empty(x.shape)), [torch.empty(traced)])
    assert not world.env.guards
    for size in (0, 1, 2, 17):
        real = [torch.empty(size)]
        expected = program(real[0], real[0])
        values = values_of_symbols(world, real)
        assert shape_at(result, values) == tuple(expected.shape) and strides_at(result, values) == expected.stride()
        assert result.dtype == expected.dtype


def test_other_shapes_are_left_to_pytorch():
    world, result = fake_result(lambda x, y: x + y, [torch.empty(4, 1), torch.empty(4, 3)])
    assert world.env.guards and result.shape[1].node.hint == 3


def test_other_layouts_are_left_to_pytorch():
    def program(x, y):
        return (x.t() + y.t()) * 2

    world, result = fake_result(program, [torch.empty(5, 3), torch.empty(5, 3)])
    values = values_of_symbols(world, [torch.empty(5, 3), torch.empty(5, 3)])
    assert strides_at(result, values) == program(torch.empty(5, 3), torch.empty(5, 3)).stride()


def test_what_is_elementwise_is_told_by_the_schema():
    aten = torch.ops.aten
    assert is_computed_by_element(aten.add.Tensor) and is_computed_by_element(aten.relu.default)
    for other in (aten.add_.Tensor, aten.add.out, aten.sum.default, aten.bernoulli.default, aten.frexp.Tensor, aten.t.default):
        assert not is_computed_by_element(other)


def test_what_fails_in_place_fails_as_ever():
    with pytest.raises(RuntimeError, match="can't be cast"):
        fake_result(lambda x: x.long().add_(x), [torch.empty(4)])


def test_an_operation_in_place_gives_its_argument():
    def program(x):
        y = x * 2
        return y, y.add_(x)

    world, (first, second) = fake_result(program, [torch.empty(1)])
    assert second is first and not world.env.guards
