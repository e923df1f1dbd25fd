"""`many_calls(fn, calls)`: one program, called with different arguments in turn, run by CPython and traced; everything
observable is compared after each call, random state and gradients too."""

from __future__ import annotations

import copy
import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tests.support.checking import Traced
from tests.support.comparing import Comparison, deep_copied
from tracer.api.callables import compiled
from tracer.api.settings import Settings
from tracer.errors import TracerError


@dataclasses.dataclass
class Calls(Traced):
    """What the tracer made of the program in all calls."""

    results: list[Any] = dataclasses.field(default_factory=list)


def many_calls(
    fn: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    *,
    dynamic: bool | None = None,
    backward: bool = False,
    parameters: Callable[[Any], Any] | None = None,
) -> Calls:
    """`fn` is a function or a module; a module is copied, so that both sides have their own state.

    With `backward`, the sum of the floating results is differentiated outside of the region after each call.
    """
    traced = Calls()

    def keep(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        traced.graphs.append(gm)
        return gm.forward

    eager = copy.deepcopy(fn) if isinstance(fn, torch.nn.Module) else fn
    settings = Settings(backend=keep, dynamic=dynamic, name="calls", hooks={"on_break": traced.breaks.append})
    region = compiled(fn, settings)
    for number, args in enumerate(calls):
        expected = _outcome(eager, args, number, backward)
        seen = _outcome(region, args, number, backward)
        if isinstance(seen[0], TracerError) or type(seen[0]) is not type(expected[0]) and isinstance(seen[0], Exception):
            raise seen[0]
        Comparison().same(expected, seen, f"call[{number}]")
        if isinstance(fn, torch.nn.Module):
            state = [list(_state(module)) for module in (eager, fn)]
            Comparison().same(state[0], state[1], f"state after call[{number}]")
        traced.results.append(seen[0])
    return traced


def _outcome(fn: Callable[..., Any], args: tuple[Any, ...], seed: int, backward: bool) -> list[Any]:
    args = deep_copied(args)
    torch.manual_seed(seed)
    random.seed(seed)
    try:
        result = fn(*args)
    except Exception as error:
        return [error, args]
    if backward:
        differentiable(result).backward()
    return [result, args, torch.get_rng_state(), random.random(), torch.is_grad_enabled()]


def differentiable(result: Any) -> torch.Tensor:
    """A number that depends on every floating tensor of a result."""
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    return sum((leaf.float().pow(2).sum() for leaf in leaves if leaf.requires_grad), torch.zeros((), requires_grad=True))  # type: ignore[return-value]


def _state(module: torch.nn.Module) -> Any:
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        yield name, tensor.detach(), tensor.grad


def one_graph(fn: Callable[..., Any], *args: Any, **options: Any) -> Calls:
    """One call gives one graph without a break, and a second one none more."""
    traced = many_calls(fn, [args, args], **options)
    assert not traced.breaks, "\n".join(map(str, traced.breaks))
    assert len(traced.graphs) == 1, f"{len(traced.graphs)} graphs"
    return traced
