"""Draws from a generator of the program's own whose probabilities the graph computes: `torch.multinomial(p, 1, generator=g)`.

The graph is given the state of the generator, and gives the state that the draw leaves, which the output code puts back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tracer.operators.kept_from_compilers import keep_from_compilers
from tracer.operators.meta import meta

Drawn = tuple[torch.Tensor, torch.Tensor]


def _drawn(function: Callable[..., torch.Tensor], state: torch.Tensor, args: Any, kwargs: Any) -> Drawn:
    generator = torch.Generator()
    generator.set_state(state)
    return function(*args, generator=generator, **kwargs), generator.get_state()


def multinomial(state: torch.Tensor, *args: Any, **kwargs: Any) -> Drawn:
    """(what `torch.multinomial` draws from a generator in this state, the state that this leaves)"""
    return _drawn(torch.multinomial, state, args, kwargs)


def bernoulli(state: torch.Tensor, *args: Any, **kwargs: Any) -> Drawn:
    """As `multinomial`."""
    return _drawn(torch.bernoulli, state, args, kwargs)


def poisson(state: torch.Tensor, *args: Any, **kwargs: Any) -> Drawn:
    """As `multinomial`."""
    return _drawn(torch.poisson, state, args, kwargs)


#: The function of the graph for each function of torch.
BY_DATA: dict[Any, Callable[..., Drawn]] = {torch.multinomial: multinomial, torch.bernoulli: bernoulli, torch.poisson: poisson}


def _rule(drawing: Callable[..., torch.Tensor]) -> Callable[..., Drawn]:
    def rule(function: Any, state: torch.Tensor, *args: Any, **kwargs: Any) -> Drawn:
        return drawing(*args, **kwargs), torch.empty_like(state)

    return rule


keep_from_compilers(*BY_DATA.values())
for _function, _by_data in BY_DATA.items():
    meta(_by_data)(_rule(_function))
