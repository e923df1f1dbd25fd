"""Small programs that tests share."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import torch

import tracer


def program(text: str) -> Callable[..., Any]:
    """The function `fn` of a program that is given as text, for syntax that not every Python has."""
    namespace: dict[str, Any] = {"torch": torch, "tracer": tracer, "__name__": __name__}
    exec(compile(textwrap.dedent(text), "<program>", "exec", dont_inherit=True), namespace)
    return namespace["fn"]


def double(x):
    return x * 2 + 1


def with_a_pointless_branch(x, n):
    """Two branches, of which the graphs show the second alone."""
    if x.shape[0] <= 8 and x.shape[1] <= 7:
        pass
    return (x * 2 if x.shape[0] < 30 else x + 1) * n
