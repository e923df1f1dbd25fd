"""Operators on symbolic sizes, traced through the front door at several sizes: what eager gives, from one graph."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

import tracer
from tests.graph.operator_cases import BASE, CASES, DATA_DEPENDENT, OTHERS, Case
from tests.soundness.watching import Watched

AT = (BASE, *OTHERS[:3])
BREAKS = {"backward"}  # torch.autograd.grad


def marked(tensors: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """The dims that differ between two sets of inputs vary."""
    for tensor, other in zip(tensors, others, strict=True):
        dims = [dim for dim, (a, b) in enumerate(zip(tensor.shape, other.shape, strict=True)) if a != b]
        if dims:
            tracer.maybe_mark_dynamic(tensor, dims)
    return tensors


@pytest.mark.parametrize("case", [*CASES, *DATA_DEPENDENT], ids=lambda case: case.name)
def test_one_graph_serves_all_sizes(case: Case) -> None:
    with tracer.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        watched = Watched(case.run)
        for sizes in AT:
            watched(*marked(case.tensors(sizes), case.tensors(OTHERS[4])))
    if case.generic and case.name not in BREAKS:
        assert (watched.traces, len(watched.entries)) == (1, 1), watched.reasons
