"""Dtypes that a kernel refuses are refused while tracing, in its own words."""
from __future__ import annotations

import pytest
import torch

from tests.support import captured, check
from tracer.graph.dtype_refusals import check_dtypes

F = torch.nn.functional
SINGLE, DOUBLE = torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float64)

REFUSED = [
    lambda x, y: x @ y,
    lambda x, y: F.linear(x, y),
    lambda x, y: torch.addmm(x, x, y),
]
REFUSED_BY_FAKES_TOO = [
    lambda x, y: torch.bmm(x[None], y[None]),
    lambda x, y: torch.mv(x, y[0]),
    lambda x, y: F.conv1d(x[None], y[:, :, None]),
    lambda x, y: torch.linalg.solve(x + torch.eye(2), y),
]
TAKEN = [
    lambda x, y: x + y,
    lambda x, y: torch.cat([x, y]),
    lambda x, y: torch.stack([x, y]),
    lambda x, y: torch.where(x > 0, x, y),
    lambda x, y: x.gather(0, y.long()),
    lambda x, y: F.embedding(y.long(), x),
    lambda x, y: x.masked_fill(y > 0, 2.0),
]


@pytest.mark.parametrize("program", REFUSED)
def test_what_a_kernel_refuses_raises_while_tracing(program):
    found = check(program, SINGLE, DOUBLE)
    assert isinstance(found.error, RuntimeError)
    assert not found.graphs


@pytest.mark.parametrize("program", REFUSED_BY_FAKES_TOO)
def test_what_the_fake_form_refuses_too_raises_as_ever(program):
    assert isinstance(check(program, SINGLE, DOUBLE).error, RuntimeError)


@pytest.mark.parametrize("program", TAKEN)
def test_what_a_kernel_takes_is_captured(program):
    captured(program, SINGLE, DOUBLE)


def test_an_operator_that_fails_on_one_element_for_another_reason_is_not_refused():
    check_dtypes(torch.ops.aten.embedding.default, (torch.ones(3, 2), torch.zeros(2, dtype=torch.int64)), {})
