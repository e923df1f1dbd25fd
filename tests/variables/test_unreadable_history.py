"""A view whose history autograd refuses to read, because its base was written to since, raises no error of the tracer."""

from __future__ import annotations

import pytest
import torch

import tracer


def _view_with_a_base_written_since() -> torch.Tensor:
    """One of several views made by one operator: from then on autograd raises when asked for its `grad_fn`."""
    base = torch.ones(3, 4, requires_grad=True) * 1
    row = base.unbind(0)[0]
    base.mul_(2)
    return row


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_function_that_only_asks_for_its_size_runs(backend: str):
    def fn(x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        return x * row.shape[0]

    row = _view_with_a_base_written_since()
    with pytest.raises(RuntimeError, match="is a view and its base"):
        row.grad_fn
    with tracer.config.patch(suppress_errors=False):
        assert torch.equal(tracer.optimize(backend)(fn)(torch.ones(2), row), torch.full((2,), 4.0))


def test_what_eager_mode_raises_for_it_is_raised():
    def fn(row: torch.Tensor) -> torch.Tensor:
        return row.mul_(2)

    with pytest.raises(RuntimeError, match="Such functions do not allow the output views"):
        tracer.optimize("eager")(fn)(_view_with_a_base_written_since())
