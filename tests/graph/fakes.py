"""Helpers: fakes with a symbol for every dim that differs between two sets of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from shapes import DimPolicy
from shapes.evaluation import evaluate
from shapes.printing import NAMESPACE
from tracer.graph.fakes.fake_tensors import FakeWorld
from tracer.graph.symbols.sym_node import SYM_TYPES
from tracer.sources.roots import LocalSource


def dynamic_dims(tensor: torch.Tensor, other: torch.Tensor) -> list[DimPolicy]:
    return [DimPolicy.STATIC if a == b else DimPolicy.DUCK for a, b in zip(tensor.shape, other.shape, strict=True)]


def make_fakes(
    tensors: Sequence[torch.Tensor], others: Sequence[torch.Tensor], world: FakeWorld | None = None
) -> tuple[FakeWorld, list[torch.Tensor]]:
    world = world or FakeWorld()
    fakes = [
        world.fakify(tensor, LocalSource(f"x{i}"), dynamic_dims(tensor, other))
        for i, (tensor, other) in enumerate(zip(tensors, others, strict=True))
    ]
    return world, fakes


def leaves(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def values_of_symbols(world: FakeWorld, tensors: Sequence[torch.Tensor]) -> dict[Any, int]:
    """The value of each symbol, read from real inputs at its first label."""
    places = {f"x{i}": tensor for i, tensor in enumerate(tensors)}
    return {s.sympy: eval(s.label.name, {"L": places}) for s in world.env.symbols() if s.label is not None}


def guards_hold(world: FakeWorld, tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the emitted guards accept real inputs."""
    places = {f"x{i}": tensor for i, tensor in enumerate(tensors)}
    return all(eval(guard.readable, {**NAMESPACE, "L": places}) for guard in world.env.produce_guards())


def at(number: Any, values: dict[Any, int]) -> int:
    return int(evaluate(number.node.expr, values)) if isinstance(number, SYM_TYPES) else number


def shape_at(tensor: torch.Tensor, values: dict[Any, int]) -> tuple[int, ...]:
    return tuple(at(size, values) for size in tensor.shape)


def strides_at(tensor: torch.Tensor, values: dict[Any, int]) -> tuple[int, ...]:
    return tuple(at(stride, values) for stride in tensor.stride())


def readable(world: FakeWorld) -> list[str]:
    return [guard.readable for guard in world.env.produce_guards()]
