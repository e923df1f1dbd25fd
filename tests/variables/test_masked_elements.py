"""Elements that a mask selects, and that are set again at the places that it selects: the graph does not need their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tracer
from tests.support.checking import check, check_made


def set_from_another(x: Any, y: Any) -> Any:
    mask = x > 0
    x[mask] = y[mask]
    return x


def set_by_equal_masks(x: Any, y: Any) -> Any:
    x[y > 0.5] = y[y > 0.5]
    return x


def scale(x: Any, y: Any) -> Any:
    mask = y > 0
    x[mask] *= 2
    x[~mask] /= 4
    return x


def add_elements(x: Any, y: Any) -> Any:
    mask = y.abs() > 0.5
    x[mask] += y[mask] * 2 - 1
    return x


def compute_with_names(x: Any, y: Any) -> Any:
    mask = (x > 0) & (y > 0)
    part, other = x[mask], y[mask].clamp(max=0.5)
    part = -part + other.abs()
    part -= 1
    x[mask] = part
    return x.sum() + x


def choose_rows(x: Any, y: Any) -> Any:
    rows = x.sum(1) > 0
    x[rows] = y[rows] * y[0] + x[rows]
    return x


def set_shifted_view(x: Any, y: Any) -> Any:
    mask = y[1:] > 0
    x[1:][mask] = x[:-1][mask]
    return x


def set_in_function(x: Any, y: Any) -> Any:
    def put(target: Any, mask: Any, values: Any) -> None:
        target[mask] = values

    mask = y < 0
    put(x, mask, y[mask].to(torch.float64).float())
    return x


def set_comparisons(x: Any, y: Any) -> Any:
    mask, flags = x > 0, torch.zeros(x.shape, dtype=torch.bool)
    flags[mask] = x[mask] > y[mask]
    return flags


def set_with_number(x: Any, y: Any) -> Any:
    mask, factor = x > 0, y.mean()
    x[mask] = x[mask] * factor + x.shape[0]
    return x


WHOLE = [
    set_from_another,
    set_by_equal_masks,
    scale,
    add_elements,
    compute_with_names,
    choose_rows,
    set_shifted_view,
    set_in_function,
    set_comparisons,
    set_with_number,
]


def tensors(rows: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(rows)
    return torch.randn(rows, 4), torch.randn(rows, 4)


@pytest.mark.parametrize("program", WHOLE, ids=lambda program: program.__name__)
def test_elements_that_return_to_their_places_are_in_one_graph(program):
    checked = check(program, *tensors())
    assert not checked.breaks and len(checked.graphs) == 1


@pytest.mark.parametrize("program", WHOLE, ids=lambda program: program.__name__)
def test_elements_of_sizes_that_vary_are_in_one_graph(program):
    compiled = tracer.compile(program, backend="aot_eager", dynamic=True, fullgraph=True)
    for rows in (5, 2, 7):
        (x, y), (also_x, also_y) = tensors(rows), tensors(rows)
        assert torch.equal(compiled(x, y), program(also_x, also_y)) and torch.equal(x, also_x) and torch.equal(y, also_y)


@pytest.mark.parametrize("program", [each for each in WHOLE if each is not set_comparisons], ids=lambda program: program.__name__)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_are_those_of_the_elements(program, backend):
    def gradients(fn: Callable[..., Any]) -> tuple[torch.Tensor, ...]:
        x, y = (each.requires_grad_() for each in tensors())
        fn(x, y).square().sum().backward()
        return x.grad, y.grad

    def of_copy(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return program(x * 1, y)

    fullgraph = program not in (choose_rows, set_with_number)  # which use one tensor with a gradient for all elements
    traced = gradients(tracer.compile(of_copy, backend=backend, fullgraph=fullgraph))
    torch.testing.assert_close(traced, gradients(of_copy))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_elements_that_are_not_selected_have_no_part_in_gradients(backend):
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        mask = y != 0
        result = torch.zeros(3)
        result[mask] = x[mask] / y[mask]
        return result

    def gradients(fn: Callable[..., Any]) -> tuple[torch.Tensor, ...]:
        x, y = torch.tensor([1.0, 0.0, 2.0], requires_grad=True), torch.tensor([2.0, 0.0, 0.0], requires_grad=True)
        fn(x, y).sum().backward()
        return x.grad, y.grad

    traced = gradients(tracer.compile(program, backend=backend, fullgraph=True))
    assert all(map(torch.equal, traced, gradients(program)))


def read_alone(x: Any, y: Any) -> Any:
    return x[x > 0].sum()


def count(x: Any, y: Any) -> Any:
    return len(x[x > 0]), x[x > 0].shape


def iterate(x: Any, y: Any) -> Any:
    return [row * 2 for row in x[x > 0]]


def set_by_other_mask(x: Any, y: Any) -> Any:
    mask, other = x > 0, x.flip(0) > 0
    x[other] = y[mask]
    return x


def set_behind_a_write_to_the_source(x: Any, y: Any) -> Any:
    mask = x > 0
    part = y[mask]
    y.add_(1)
    x[mask] = part
    return x


def set_behind_a_write_to_the_mask(x: Any, y: Any) -> Any:
    mask = x > 0
    part = y[mask]
    mask[0] = True
    x[mask.clone()[:0].any() | (x > 0)] = part
    return x


def set_by_a_mask_of_changed_values(x: Any, y: Any) -> Any:
    part = y[y.abs() > 0]
    y.mul_(1)
    x[y.abs() > 0] = part
    return x


def keep_the_elements(x: Any, y: Any) -> Any:
    mask = x > 0
    part = y[mask]
    x[mask] = part
    return x, part


def change_an_alias(x: Any, y: Any) -> Any:
    mask = x > 0
    part = y[mask]
    also = part.float()
    part += 1
    x[mask] = also
    return x


def change_what_is_no_selection(x: Any, y: Any) -> Any:
    mask, row = x[:, 0] > 10, torch.zeros(4)
    row += x[mask][:1].sum()
    return row


def round_them(x: Any, y: Any) -> Any:
    mask = x > 0
    x[mask] = torch.exp(y[mask])
    return x


def store_other_type(x: Any, y: Any) -> Any:
    mask = x > 0
    x[mask] = y[mask].double()
    return x


OTHERS = [
    read_alone,
    count,
    iterate,
    set_by_other_mask,
    set_behind_a_write_to_the_source,
    set_behind_a_write_to_the_mask,
    set_by_a_mask_of_changed_values,
    keep_the_elements,
    change_an_alias,
    change_what_is_no_selection,
    round_them,
    store_other_type,
]


@pytest.mark.parametrize("program", OTHERS, ids=lambda program: program.__name__)
def test_other_uses_give_what_cpython_gives(program):
    check(program, *tensors())


@pytest.mark.parametrize(
    "program", [read_alone, count, iterate, round_them, keep_the_elements], ids=lambda program: program.__name__
)
def test_a_use_of_the_elements_alone_breaks_the_graph_at_the_subscript(program):
    assert "data-dependent-operator" in check(program, *tensors()).break_ids


def test_elements_read_without_gradients_have_none():
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        mask = y > 0
        with torch.no_grad():
            part = y[mask] * 2
        result = x * 1
        result[mask] = part
        result.sum().backward()
        return result.detach()

    check_made(program, lambda: (tuple(each.requires_grad_() for each in tensors()), {}))


def test_a_loop_that_sets_elements_is_one_graph():
    def farthest_points(points: torch.Tensor) -> torch.Tensor:
        batch, number, _ = points.shape
        found = torch.zeros(batch, 4, dtype=torch.long)
        distance = torch.full((batch, number), 1e10)
        farthest, rows = torch.zeros(batch, dtype=torch.long), torch.arange(batch)
        for i in range(4):
            found[:, i] = farthest
            new = (points - points[rows, farthest].unsqueeze(1)).square().sum(-1)
            nearer = new < distance
            distance[nearer] = new[nearer]
            farthest = distance.max(-1)[1]
        return found

    checked = check(farthest_points, torch.randn(2, 9, 3))
    assert not checked.breaks and len(checked.graphs) == 1


def scale_kept(x: Any, y: Any) -> Any:
    mask, result = x > 0, torch.ones(5, 4)
    result[mask] = result[mask] * y[mask]
    result[mask] /= y[mask]
    part = x[mask] * y[mask]
    x.add_(1)
    result[mask] = part**2
    return result


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_gradient_does_not_need_what_is_written_to_afterwards(backend):
    def gradient(fn: Callable[..., Any]) -> torch.Tensor:
        x, y = tensors()
        y.requires_grad_()
        fn(x, y).sum().backward()
        return y.grad

    torch.testing.assert_close(gradient(tracer.compile(scale_kept, backend=backend)), gradient(scale_kept))


def set_windows(x: Any, y: Any) -> Any:
    windows, mask = x.view(-1).unfold(0, 3, 1), torch.zeros(18, 3, dtype=torch.bool)
    mask[0, 2] = True
    windows[mask] = windows[mask] * 2
    return x


def set_by_its_own_values(x: Any, y: Any) -> Any:
    flags = x > 0
    flags[flags] = (y > 0)[flags]
    return flags


def update_statistics_between(x: Any, y: Any) -> Any:
    mean, result = torch.tensor([-1.0, 1.0, 1.0, -1.0]), torch.zeros(4)
    part = y[0][mean > 0]
    torch.nn.functional.batch_norm(-mean.expand(5, 4) * 30, mean, torch.ones(4), training=True)
    result[mean > 0] = part
    return result


def change_in_place_between(x: Any, y: Any) -> Any:
    source, result = y[0] * 1, torch.zeros(4)
    part = x[0][source > 0]
    torch.nn.functional.leaky_relu(source, -1.0, inplace=True)
    result[source > 0] = part
    return result


def change_as_array_between(x: Any, y: Any) -> Any:
    source, result = torch.tensor([1.0, -1.0, 2.0, -2.0]), torch.zeros(4)
    part = x[0][source > 0]
    array = source.numpy()
    array *= -1
    result[source > 0] = part
    return result


def change_in_vmap_between(x: Any, y: Any) -> Any:
    source, result = torch.tensor([1.0, -1.0, 2.0, -2.0]), torch.zeros(4)
    part = x[0][source > 0]
    torch.func.vmap(lambda each: each.neg_())(source)
    result[source > 0] = part
    return result


def change_array_of_the_source(x: Any, y: Any) -> Any:
    mask = x > 0
    part = y[mask]
    array = y.numpy()
    array *= -1
    x[mask] = part
    return x


def mask_by_products_of_other_types(x: Any, y: Any) -> Any:
    square, result = x[:4, :4], torch.zeros(4, 4)
    with torch.autocast("cpu", torch.bfloat16):
        part = y[:4][(square @ square) > 0.1]
    result[(square @ square) > 0.1] = part
    return result


def mask_by_signs_of_zero(x: Any, y: Any) -> Any:
    a, result = torch.tensor([1.0, 2.0, -1.0, -2.0]), torch.zeros(4)
    result[(a / 0.0) > 0] = y[0][(a / -0.0) > 0]
    return result


CHANGED = [
    set_windows,
    set_by_its_own_values,
    update_statistics_between,
    change_in_place_between,
    change_as_array_between,
    change_in_vmap_between,
    change_array_of_the_source,
    mask_by_products_of_other_types,
    mask_by_signs_of_zero,
]


@pytest.mark.parametrize("program", CHANGED, ids=lambda program: program.__name__)
def test_masks_and_memory_that_are_not_what_they_seem(program):
    check(program, *tensors())


def test_parameters_are_read_and_written_in_one_graph():
    def program(weight: torch.nn.Parameter, other: torch.nn.Parameter) -> None:
        mask = other > 0
        with torch.no_grad():
            weight[mask] = other[mask] * 2

    checked = check_made(program, lambda: (tuple(map(torch.nn.Parameter, tensors())), {}))
    assert not checked.breaks


def test_what_autograd_keeps_of_elements_is_not_changed():
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        mask = x > 0
        part, result = x[mask], torch.zeros(5, 4)
        result[mask] = part * y[mask]
        part += 1
        return result.sum()

    def error(fn: Callable[..., Any]) -> str:
        x, y = (each.requires_grad_() for each in tensors())
        with pytest.raises(RuntimeError) as raised:
            fn(x, y).backward()
        return str(raised.value)[:60]

    assert error(tracer.compile(program)) == error(program)
