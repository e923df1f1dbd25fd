"""Tensors that are filled with random numbers from a generator of the program's own: `x.normal_(generator=g)`."""

from __future__ import annotations

from typing import Any

import torch

from tracer import _C

#: The methods that fill a tensor with numbers that depend on nothing in it.
FILLING = frozenset("normal_ uniform_ exponential_ geometric_ cauchy_ log_normal_ random_ bernoulli_".split())


def filled(
    generator: torch.Generator,
    method: str,
    args: tuple[Any, ...],
    kwargs: tuple[tuple[str, Any], ...],
    dtype: torch.dtype,
    device: torch.device,
    *sizes: int,
) -> torch.Tensor:
    """In the output code: a new tensor, filled as the method fills one. `library.torch_.generators` has the model of a call."""
    tensor = torch.empty(sizes, dtype=dtype, device=device)
    getattr(tensor, method)(*args, **dict(kwargs), generator=generator)
    return tensor


_C.never_trace(filled.__code__)
