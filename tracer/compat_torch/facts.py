"""Facts about torch that differ between its versions: one function for each, which says what changed and when.

A fact is found by looking at torch where that is possible, and by torch's version only where it is not.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.utils import checkpoint


def apply_of_autograd_functions() -> Any:
    """What `F.apply` binds to the class F, a subclass of `torch.autograd.Function`: it is called with F first.

    Up to torch 2.13 it is a Python function, since 2.14 a class method written in C (torch/csrc/autograd/python_function.cpp).
    """
    found: Any = inspect.getattr_static(torch.autograd.Function, "apply")
    return found.__func__ if isinstance(found, classmethod) else found


def body_of_checkpoint() -> Any:
    """The Python function that does what `torch.utils.checkpoint.checkpoint` does; its code holds the texts of the warnings.

    Up to torch 2.13 it is that function itself, below a decorator, since 2.14 one that it hands all on to.
    """
    return getattr(checkpoint, "_checkpoint_impl", inspect.unwrap(checkpoint.checkpoint))
