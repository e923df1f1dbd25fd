"""Strides of results that have dims of size 0 or 1 are those that the operator gives when it runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.support import captured_made, check

OPERATIONS = {
    "a number": lambda y, z: y / 4,
    "a tensor without dims": lambda y, z: y + torch.tensor(3.0),
    "a constant to the left": lambda y, z: 2 - y,
    "floor division": lambda y, z: y // 2,
    "one operand": lambda y, z: torch.sigmoid(y),
    "two operands": lambda y, z: y * z,
    "another shape": lambda y, z: y - z[:1],
    "three operands": lambda y, z: torch.where(y > 0, y, z),
    "comparison": lambda y, z: y == 2,
    "bounds": lambda y, z: y.clamp(0, 1),
    "copy": lambda y, z: y.clone(),
}
LAYOUTS = {
    "a turned row": lambda: torch.ones(3, 1).t(),
    "a turned column": lambda: torch.ones(1, 3).t(),
    "empty": lambda: torch.ones(3, 0).t(),
    "empty in line": lambda: torch.empty(0, 1),
    "empty inside": lambda: torch.empty(2, 0, 1),
    "two small dims": lambda: torch.ones(1, 2, 1, 3).permute(3, 0, 1, 2),
    "a small dim inside": lambda: torch.ones(2, 3, 1).permute(1, 2, 0),
    "all small": lambda: torch.empty_strided((1, 1, 1), (7, 3, 5)).fill_(1.0),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tensors_made_like_another_have_its_strides(layout: str) -> None:
    def f(y: torch.Tensor) -> Any:
        made = torch.zeros_like(y), torch.rand_like(y), torch.full_like(y, 2.0), torch.ones_like(y, dtype=torch.int64)
        return [each.stride() for each in made]

    captured_made(f, lambda: ((LAYOUTS[layout](),), {}), dynamic=False)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_are_those_of_the_operator(layout: str, dynamic: bool) -> None:
    def f(y: torch.Tensor, z: torch.Tensor) -> Any:
        return [operation(y, z).stride() for operation in OPERATIONS.values()]

    captured_made(f, lambda: ((LAYOUTS[layout](), LAYOUTS[layout]().contiguous()), {}), dynamic=dynamic)


NOT_ALIKE = {
    "floor division": lambda x, y: x // y,
    "floor division by a tensor without dims": lambda x, y: x // torch.tensor(2.0),
    "rounded division": lambda x, y: torch.div(x, torch.tensor(2.0), rounding_mode="floor"),
    "sign": torch.copysign,
    "logic": torch.logical_and,
    "logarithm": torch.xlogy,
    "another shape": lambda x, y: x // y[:, :1].abs(),
    "filled": lambda x, y: x.masked_fill(y > 0, 1.0),
    "filled by a mask of another shape": lambda x, y: x.masked_fill(y[:, :1] > 0, 1.0),
    "normal numbers": torch.normal,
    "log-sigmoid": lambda x, y: torch.nn.functional.logsigmoid(x),
}


@pytest.mark.parametrize("name", NOT_ALIKE)
def test_operands_that_do_not_lie_alike(name: str) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        results = NOT_ALIKE[name](x, y), NOT_ALIKE[name](y, x)
        return [(each.stride(), each.is_contiguous()) for each in results]

    captured_made(f, lambda: ((torch.ones(3, 2, 4), torch.ones(4, 2, 3).permute(2, 1, 0)), {}), dynamic=False)


@pytest.mark.parametrize("strides", [(1, 7, 2), (2, 9, 1), (4, 4, 2), (1, 2, 2)])
def test_an_operand_without_gaps_gives_its_strides_to_the_result(strides: tuple[int, ...]) -> None:
    def f(x: torch.Tensor) -> Any:
        results = torch.sigmoid(x), x * x, torch.nn.functional.gelu(x), x.pow(2), torch.where(x > 0, x, x), x + 1
        return [each.stride() for each in results]

    captured_made(f, lambda: ((torch.empty_strided((2, 1, 2), strides).fill_(1.0),), {}), dynamic=False)


OF_CHANNELS = {
    "rows turned": lambda: torch.ones(2, 4, 3).transpose(1, 2),
    "channels last": lambda: torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "channels last in space": lambda: torch.ones(2, 3, 4, 5, 2).to(memory_format=torch.channels_last_3d),
    "turned around": lambda: torch.ones(5, 4, 3, 2).permute(3, 2, 1, 0),
    "with gaps": lambda: torch.ones(2, 3, 8)[..., ::2],
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", OF_CHANNELS)
def test_normalised_batches_are_contiguous_or_have_their_channels_last(layout: str, dynamic: bool) -> None:
    def f(x: torch.Tensor) -> Any:
        statistics = torch.zeros(3), torch.ones(3)
        results = (
            torch.nn.functional.batch_norm(x, *statistics),
            torch.nn.functional.batch_norm(x, *statistics, torch.ones(3), torch.zeros(3), training=True),
            torch.nn.functional.batch_norm(x, None, None, training=True),
            x.roll(1, 1),
        )
        return [(each.stride(), each.is_contiguous()) for each in results]

    captured_made(f, lambda: ((OF_CHANNELS[layout](),), {}), dynamic=dynamic)
    captured_made(f, lambda: ((OF_CHANNELS[layout]().requires_grad_(),), {}), dynamic=dynamic)


@pytest.mark.parametrize(
    "run", [lambda y, out: torch.add(y, 1, out=out), lambda y, out: torch.exp(y, out=out)], ids=["add", "exp"]
)
def test_out_that_is_resized_lies_as_a_new_result_would(run: Any) -> None:
    def f(y: torch.Tensor) -> Any:
        made = run(y, torch.empty(0))
        return made, made.stride(), made.is_contiguous()

    checked = check(f, torch.arange(6.0).reshape(2, 3).t())
    assert checked.breaks
    assert not check(f, torch.arange(6.0).reshape(2, 3)).breaks


def test_out_that_has_the_sizes_of_the_result_keeps_its_strides() -> None:
    def f(y: torch.Tensor) -> Any:
        made = torch.add(y, 1, out=torch.empty(3, 2))
        return made, made.stride()

    assert not check(f, torch.arange(6.0).reshape(2, 3).t()).breaks
