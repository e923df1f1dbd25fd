"""`config.verify_correctness`: compares the compiled graph with the graph run eagerly, on the traced inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from tracer.exc import BackendCompilerFailed


def verify(gm: torch.fx.GraphModule, compiled: Callable[..., Any], inputs: list[Any], backend: object) -> None:
    """Runs both on copies of the inputs, from the same random state. Raises BackendCompilerFailed if they differ, in
    results or in what they leave in the inputs."""
    state = torch.get_rng_state()
    eager_inputs, compiled_inputs = _copies(inputs), _copies(inputs)
    try:
        expected = gm.forward(*eager_inputs)
    except Exception:
        return  # the program will raise the same
    try:
        torch.set_rng_state(state)
        seen = compiled(*compiled_inputs)
        torch.testing.assert_close(list(seen), list(expected), equal_nan=True)
        torch.testing.assert_close(compiled_inputs, eager_inputs, equal_nan=True)
    except AssertionError as error:
        message = f"its result differs from that of the graph run eagerly: {error}"
        raise BackendCompilerFailed(backend, message) from error
    except Exception as error:
        raise BackendCompilerFailed(backend, error) from error
    finally:
        torch.set_rng_state(state)


def _copies(inputs: list[Any]) -> list[Any]:
    """Copies; those of tensors that share a storage share one too."""
    detached = [value.detach() if isinstance(value, torch.Tensor) else value for value in inputs]
    return [
        copied.requires_grad_(original.requires_grad) if isinstance(original, torch.Tensor) else original
        for copied, original in zip(copy.deepcopy(detached), inputs, strict=True)
    ]
