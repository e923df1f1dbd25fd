"""Arguments that are views of what autograd has computed, which a program may write to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tracer

VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rows": lambda h: h[1:],
    "transposed": lambda h: h.t(),
    "of a view": lambda h: h[1:, None].squeeze(1),
    "whole": lambda h: h.view(-1),
}


def scaled_in_place(view: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    view.mul_(factor)
    return view.sin()


def gradients_of(run: Callable[..., torch.Tensor], view: Callable[[torch.Tensor], torch.Tensor]) -> list[Any]:
    leaf = torch.arange(12.0).view(4, 3).requires_grad_()
    base = leaf * 2
    result = run(view(base), torch.tensor(3.0))
    (result.sum() + base.sum()).backward()
    return [result.detach(), base.detach(), leaf.grad]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_of_a_result_is_written_to_in_one_graph(view: Any, dynamic: Any, backend: str) -> None:
    expected = gradients_of(scaled_in_place, view)
    traced = tracer.compile(scaled_in_place, backend=backend, dynamic=dynamic, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(gradients_of(traced, view), expected, rtol=0, atol=0)
    assert traced.stats()["compiles"] == 1


@pytest.mark.parametrize("view", [lambda h: h.unbind()[0], lambda h: h.split(2)[1]], ids=["unbind", "split"])
def test_one_of_several_views_raises_as_in_cpython(view: Any) -> None:
    for run in (scaled_in_place, tracer.compile(scaled_in_place)):
        with pytest.raises(RuntimeError, match="do not allow the output views to be modified inplace"):
            gradients_of(run, view)
