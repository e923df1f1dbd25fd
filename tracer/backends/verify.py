"""`config.verify_correctness`: what a backend made of a graph is compared with the graph run eagerly, on the traced inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tracer.exc import BackendCompilerFailed


def verify(gm: torch.fx.GraphModule, compiled: Callable[..., Any], inputs: list[Any]) -> None:
    """Runs both on copies of the inputs, from the same random state. Raises BackendCompilerFailed where they differ."""
    state = torch.get_rng_state()
    try:
        expected = gm.forward(*_copies(inputs))
        torch.set_rng_state(state)
        seen = compiled(*_copies(inputs))
    finally:
        torch.set_rng_state(state)
    try:
        torch.testing.assert_close(list(seen), list(expected), equal_nan=True)
    except AssertionError as error:
        raise BackendCompilerFailed(compiled, f"its result differs from that of the graph run eagerly: {error}") from error


def _copies(inputs: list[Any]) -> list[Any]:
    return [_copy(value) if isinstance(value, torch.Tensor) else value for value in inputs]


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
