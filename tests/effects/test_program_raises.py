"""What the program raises if data say so: its own exception, after all that it wrote before and nothing that it writes behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tracer

SMALL, LARGE = 3, (1 << 20) + 1  # elements: those of small tensors are copied before a call that may fail
GOOD, BAD = 1.0, float("nan")


def raises_first(total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    if torch.isnan(x.sum()):
        raise FloatingPointError(f"nan {x.shape[0]}")
    total.add_(x.sum())
    return x * 2


def raises_between(total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    total.add_(1)
    if torch.isnan(x.sum()):
        raise FloatingPointError("nan")
    total.mul_(2)
    return x * 2


def asserts(total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    total.add_(1)
    y = x.sum()
    assert y < 100, f"{y} is too much"
    total.add_(y)
    return x * 2


def handles_it(total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    try:
        if torch.isnan(x.sum()):
            raise FloatingPointError("nan")
        total.add_(x.sum())
    except FloatingPointError:
        total.sub_(1)
    return x * 2


def raises_for_a_number(total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    total.add_(1)
    if x.sum().item() != x.shape[0]:
        raise FloatingPointError("nan")
    total.mul_(2)
    return x * 2


PROGRAMS = [raises_first, raises_between, asserts, handles_it, raises_for_a_number]


def outcomes(fn: Callable[..., Any], *sizes: int) -> list[Any]:
    """For a good, a bad and a good call: what is returned or raised, and what is left in the tensor that is written to."""
    total = torch.zeros(sizes[0])
    found: list[Any] = []
    for number, value in enumerate((GOOD, BAD, GOOD)):
        total = total if len(sizes) == 1 else torch.zeros(sizes[number])
        try:
            result: Any = fn(total, torch.full((3,), value)).tolist()
        except (FloatingPointError, AssertionError) as error:
            result = repr(error)
        found.append((str(result), total[0].item(), total[-1].item()))
    return found


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@tracer.config.patch(capture_scalar_outputs=True)
def test_the_program_raises_its_own_exception_between_its_own_writes(program, backend):
    assert outcomes(tracer.compile(program, backend=backend, fullgraph=True), SMALL) == outcomes(program, SMALL)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@tracer.config.patch(capture_scalar_outputs=True)
def test_the_graph_breaks_at_a_raise_if_what_was_written_is_too_large_to_be_restored(program, backend):
    assert outcomes(tracer.compile(program, backend=backend), LARGE) == outcomes(program, LARGE)


def test_a_graph_that_runs_as_written_raises_before_a_write_of_any_size():
    program = tracer.compile(raises_first, backend="eager", fullgraph=True)
    assert outcomes(program, LARGE) == outcomes(raises_first, LARGE)


def test_a_compiled_graph_knows_no_order_between_a_raise_and_a_write():
    program = tracer.compile(raises_first, backend="aot_eager", fullgraph=True)
    with pytest.raises(tracer.exc.Unsupported, match="raise-after-change"):
        program(torch.zeros(LARGE), torch.ones(3))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@tracer.config.patch(capture_scalar_outputs=True)
def test_what_was_small_in_the_trace_is_restored_however_large_it_is_in_a_later_call(program, backend):
    sizes = (SMALL, LARGE, LARGE + 1)
    assert outcomes(tracer.compile(program, backend=backend, dynamic=True), *sizes) == outcomes(program, *sizes)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_inference_tensor_is_restored(backend):
    def program(total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return raises_between(total, x)

    def outcome(fn: Callable[..., Any]) -> list[Any]:
        with torch.inference_mode():
            total = torch.zeros(3)
        found = []
        for value in (GOOD, BAD, GOOD):
            try:
                fn(total, torch.full((3,), value))
            except FloatingPointError as error:
                found.append(str(error))
            found.append(total.tolist())
        return found

    assert outcome(tracer.compile(program, backend=backend)) == outcome(program)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_training_step_stops_at_a_loss_that_is_no_number(backend):
    def outcome(wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> tuple[list[str], list[torch.Tensor]]:
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            if not torch.isfinite(loss):
                raise FloatingPointError("the loss is not finite")
            optimizer.step()
            return loss.detach()

        compiled, raised, found = wrap(step), [], []
        for value in (GOOD, GOOD, BAD, GOOD):
            try:
                found.append(compiled(torch.full((4, 3), value)))
            except FloatingPointError as error:
                raised.append(str(error))
            found += [each.detach().clone() for each in model.parameters()]
        return raised, found

    (raised, found), (also_raised, expected) = outcome(lambda fn: tracer.compile(fn, backend=backend)), outcome(lambda fn: fn)
    assert raised == also_raised == ["the loss is not finite"]
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_autograd_has_kept_of_an_input_is_valid_after_the_program_has_raised(backend):
    weight, total = torch.ones(3, requires_grad=True), torch.ones(3)
    loss = (weight * total).sum()
    with pytest.raises(FloatingPointError):
        tracer.compile(raises_first, backend=backend)(total, torch.full((3,), BAD))
    assert total._version == 0
    loss.backward()
    assert torch.equal(weight.grad, torch.ones(3))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_elements_that_share_memory_are_not_restored_and_break_the_graph(backend):
    def outcome(fn: Callable[..., Any]) -> tuple[str, list[float]]:
        total = torch.zeros(1, 3).expand(2, 3)
        with pytest.raises(FloatingPointError) as raised:
            fn(total, torch.full((3,), BAD))
        return str(raised.value), total.tolist()

    assert outcome(tracer.compile(raises_first, backend=backend)) == outcome(raises_first)
