"""Shapes declared of modules whose call is more than their forward: arguments keep the names that forward gives them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tracer

SPEC = "x: B, _; mask: B; B in 1..32"


class Scorer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        y = self.linear(x)
        if x.shape[0] <= 8:
            y = y + 1
        return y if mask is None else y * mask[:, None]


class Called(Scorer):
    def __call__(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        return super().__call__(x, mask) + 2


def hooked(model: Any) -> None:
    model.register_forward_hook(lambda module, args, result: result + 1)


def hooked_before(model: Any) -> None:
    model.register_forward_pre_hook(lambda module, args, kwargs: (args, kwargs), with_kwargs=True)


def patched(model: Any) -> None:
    model.forward = lambda x, mask=None: x * 5


def called_otherwise(model: Any) -> None:
    model.__class__ = Called


def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(size * 4.0).view(size, 4), torch.arange(float(size))


@pytest.mark.parametrize("change", [hooked, hooked_before, patched, called_otherwise])
@pytest.mark.parametrize("by_name", [False, True])
def test_a_certificate_of_a_module_that_runs_more_than_its_forward(change: Any, by_name: bool) -> None:
    def arguments(size: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        x, mask = batch(size)
        return ((x,), {"mask": mask}) if by_name else ((x, mask), {})

    model = Scorer().eval()
    compiled = tracer.compile(model, shapes=SPEC)
    args, kwargs = arguments(3)
    with torch.no_grad():
        before = tracer.precompile(compiled, example=args, kwargs=kwargs)
        change(model)
        after = tracer.coverage(compiled, example=args, kwargs=kwargs)
        assert before.certified and after.status == "uncovered"
        assert tracer.precompile(compiled, example=args, kwargs=kwargs).certified
        compiles = tracer.stats(compiled)["compiles"]
        for size in (1, 2, 8, 9, 32):
            args, kwargs = arguments(size)
            assert torch.equal(compiled(*args, **kwargs), model(*args, **kwargs))
        assert tracer.stats(compiled)["compiles"] == compiles
        with pytest.raises(tracer.exc.ConstraintViolationError, match="1 <= B <= 32"):
            args, kwargs = arguments(33)
            compiled(*args, **kwargs)


def test_an_argument_left_out_and_one_that_nobody_has() -> None:
    model = Scorer().eval()
    hooked(model)
    compiled = tracer.compile(model, shapes=SPEC)
    x, _ = batch(5)
    assert torch.equal(compiled(x), model(x))
    other = tracer.compile(model, shapes="z: B, _")
    with pytest.raises(tracer.exc.UserError, match="has no argument 'z'"):
        other(x)


def test_a_path_through_the_module_itself() -> None:
    class Cached(Scorer):
        def __init__(self) -> None:
            super().__init__()
            self.size = 4

        def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
            return super().forward(x) * self.size

    model = Cached().eval()
    hooked(model)
    compiled = tracer.compile(model, shapes="x: B, _; self.size: S; B in 1..8; S in 0..9")
    x, _ = batch(3)
    with torch.no_grad():
        assert tracer.precompile(compiled, example=(x,)).certified
        compiled.seal()
        for model.size in (0, 1, 4, 9):
            assert torch.equal(compiled(x), model(x))


def test_a_reset_while_entries_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """As another thread may do at any time."""
    from tracer.runtime import upkeep

    compiled = tracer.compile(lambda x: x * 2 if x.shape[0] > 4 else x, shapes="x: B; B in 1..8")
    retire_and_evict, resets = upkeep.retire_and_evict, [1]

    def settled(*args: Any) -> Any:
        found = retire_and_evict(*args)
        if resets:
            resets.pop()
            tracer.reset()
        return found

    monkeypatch.setattr(upkeep, "retire_and_evict", settled)
    assert tracer.precompile(compiled, example=(torch.ones(3),)).certified and not resets
