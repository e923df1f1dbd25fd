"""Functions of the math module on numbers that may be symbolic, where PyTorch has none. A graph calls them."""

from __future__ import annotations

import math
from typing import Any

import torch


def exp(number: Any) -> Any:
    """e to the power of a number.

    >>> exp(0.0)
    1.0
    """
    return torch.SymFloat(number.node.sym_exp()) if isinstance(number, (torch.SymInt, torch.SymFloat)) else math.exp(number)


def log(number: Any) -> Any:
    """The natural logarithm of a number above 0.

    >>> log(1.0)
    0.0
    """
    return torch.SymFloat(number.node.sym_log()) if isinstance(number, (torch.SymInt, torch.SymFloat)) else math.log(number)
