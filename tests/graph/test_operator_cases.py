"""Operators on fake tensors with symbolic sizes give what real tensors give, at the traced sizes and at others."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor

from tests.graph.fakes import guards_hold, leaves, make_fakes, shape_at, strides_at, values_of_symbols
from tests.graph.operator_cases import BASE, CASES, DATA_DEPENDENT, OTHERS, Case

FIXED_BY_PYTORCH = {"gru", "max_pool1d"}  # and not where they are traced, see tracer.operators.function_rules


def check_at(case: Case, world, outputs, tensors) -> None:
    values = values_of_symbols(world, tensors)
    for fake, real in zip(leaves(outputs), leaves(case.run(*tensors)), strict=True):
        if isinstance(real, torch.Tensor):
            assert isinstance(fake, FakeTensor)
            assert shape_at(fake, values) == tuple(real.shape)
            if real.numel() > 1:
                assert strides_at(fake, values) == real.stride()
            assert fake.dtype == real.dtype


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_operator_gives_the_sizes_of_eager(case: Case) -> None:
    tensors = case.tensors(BASE)
    world, fakes = make_fakes(tensors, case.tensors(OTHERS[0]))
    outputs = world.run(case.run, fakes)
    check_at(case, world, outputs, tensors)
    assert guards_hold(world, tensors)
    served = 0
    for sizes in OTHERS:
        other = case.tensors(sizes)
        if guards_hold(world, other):
            served += 1
            check_at(case, world, outputs, other)
    generic = case.generic and case.name not in FIXED_BY_PYTORCH
    assert served >= 2 or not generic, [guard.readable for guard in world.env.produce_guards()]


@pytest.mark.parametrize("case", DATA_DEPENDENT, ids=lambda case: case.name)
def test_operator_with_data_dependent_sizes(case: Case) -> None:
    tensors = case.tensors(BASE)
    world, fakes = make_fakes(tensors, case.tensors(OTHERS[0]))
    outputs = leaves(world.run(case.run, fakes))
    reals = leaves(case.run(*tensors))
    for fake, real in zip(outputs, reals, strict=True):
        if isinstance(real, torch.Tensor):
            assert fake.dtype == real.dtype and fake.dim() == real.dim()
    assert any(not symbol.backed for symbol in world.env.symbols())
