"""Whether a compiled graph does what its graph does when it is run eagerly: for `config.verify_correctness` and
`tracer.compare_with_eager`."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tracer.exc import BackendCompilerFailed

Compiled = Callable[..., Any]


def verify(gm: torch.fx.GraphModule, compiled: Compiled, inputs: list[Any], backend: object) -> None:
    """Runs both on copies of the inputs, from the same random state. Raises BackendCompilerFailed if they differ, in
    results or in what they leave in the inputs."""
    try:
        found = difference(gm, compiled, inputs)
    except Exception as error:
        raise BackendCompilerFailed(backend, error) from error
    if found:
        raise BackendCompilerFailed(backend, f"its result differs from that of the graph run eagerly: {found}")


def difference(gm: torch.fx.GraphModule, compiled: Compiled, inputs: Sequence[Any], *, gradients: bool = False) -> str:
    """What a compiled graph does otherwise than its graph, on copies of the inputs and from the random state of now; "" for
    nothing: results, what is left in the inputs, with `gradients` those of the inputs.

    Floats may differ by the tolerance of `torch.testing.assert_close`, and where they differ by more, as far as they are no
    farther from a run in float64 than twice what eager is. Raises what the compiled graph raises where eager does not.
    """
    state = torch.get_rng_state()
    try:
        try:
            expected = _outcome(gm.forward, copies_of(inputs), gradients)
        except Exception:
            return ""  # the program will raise the same
        torch.set_rng_state(state)
        seen = _outcome(compiled, copies_of(inputs), gradients)
        exact = functools.cache(functools.partial(_in_float64, gm, inputs, state, gradients))
        return next(filter(None, (_first_apart(part, values, seen[part], exact) for part, values in expected.items())), "")
    finally:
        torch.set_rng_state(state)


def copies_of(inputs: Sequence[Any]) -> list[Any]:
    """Copies; those of tensors that share a storage share one too, and a tensor that is given twice is one. Tensors that require
    gradients are leaves where theirs are."""
    tensors = {id(value): value for value in inputs if isinstance(value, torch.Tensor)}
    copied = copy.deepcopy([value.detach() for value in tensors.values()])
    copies = dict(zip(tensors, map(_as_differentiable, copied, tensors.values()), strict=True))
    return [copies.get(id(value), value) for value in inputs]


def _as_differentiable(copied: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
    copied.requires_grad_(original.requires_grad)
    return copied if original.is_leaf else copied.view_as(copied).clone(memory_format=torch.preserve_format)


def _outcome(function: Compiled, inputs: list[Any], gradients: bool) -> dict[str, list[Any]]:
    results = list(function(*inputs))
    found = {"result": results, "input": inputs}
    if gradients:
        found["gradient of input"] = _gradients(results, inputs)
    return found


def _gradients(results: list[Any], inputs: list[Any]) -> list[Any]:
    """Those of a sum of all results, each with weights of its own, so that no error of one hides behind another."""
    differentiable = [each for each in results if isinstance(each, torch.Tensor) and each.requires_grad]
    leaves = [each for each in inputs if isinstance(each, torch.Tensor) and each.requires_grad]
    if not differentiable or not leaves:
        return []
    weights = [
        torch.linspace(0.5, 1.5, each.numel(), dtype=torch.float64).reshape(each.shape).to(each) for each in differentiable
    ]
    return list(torch.autograd.grad(differentiable, leaves, weights, allow_unused=True))


def _in_float64(gm: torch.fx.GraphModule, inputs: Sequence[Any], state: torch.Tensor, gradients: bool) -> dict[str, list[Any]]:
    torch.set_rng_state(state)
    doubles = [
        each.double().detach().requires_grad_(each.requires_grad)
        if isinstance(each, torch.Tensor) and each.is_floating_point()
        else each
        for each in copies_of(inputs)
    ]
    return _outcome(gm.forward, doubles, gradients)


def _first_apart(part: str, expected: list[Any], seen: list[Any], exact: Callable[[], dict[str, list[Any]]]) -> str:
    if len(expected) != len(seen):
        return f"{len(seen)} {part}s in place of {len(expected)}"
    for at, (wanted, given) in enumerate(zip(expected, seen, strict=True)):
        try:
            torch.testing.assert_close(given, wanted, equal_nan=True)
        except AssertionError as error:
            if not _is_as_exact(given, wanted, lambda: exact()[part][at]):  # noqa: B023  (it is called at once)
                return f"{part} {at}: {error}"
    return ""


def _is_as_exact(given: Any, wanted: Any, exact: Callable[[], Any]) -> bool:
    """Whether floats that differ are no farther from a run in float64 than twice what eager is."""
    if not (isinstance(given, torch.Tensor) and given.is_floating_point()):
        return False
    if (given.shape, given.dtype) != (wanted.shape, wanted.dtype):
        return False
    try:
        reference = exact()
    except Exception:  # not all graphs run in float64
        return False
    finite = given.isfinite() & wanted.isfinite()
    if not torch.equal(given[~finite].nan_to_num(0.5), wanted[~finite].nan_to_num(0.5)):  # nan_to_num keeps the infinities apart
        return False
    errors = [(each.double() - reference)[finite].abs().max() for each in (given, wanted)]
    return bool(errors[0] <= 2 * errors[1])
