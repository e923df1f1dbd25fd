"""torch's global state is left by a trace as it was found: the traced program's changes belong to its graph."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def preserve_global_state() -> Iterator[None]:
    grad = torch.is_grad_enabled()
    dtype = torch.get_default_dtype()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        yield
    finally:
        torch._C._set_grad_enabled(grad)
        torch.set_default_dtype(dtype)
        torch._C._set_deterministic_algorithms(deterministic, warn_only=warn_only)
