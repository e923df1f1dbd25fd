"""Functions that take containers apart by a description of them. They belong to torch.fx, and are traced through all the same:
exported graphs call them."""
from __future__ import annotations

import types

from torch.fx import _pytree

from tracer.library.registry import transparent

transparent(
    *[
        function
        for function in vars(_pytree).values()
        if isinstance(function, types.FunctionType) and function.__module__ == _pytree.__name__
    ]
)
