"""Nested tensors with the jagged layout: an operation on one is one node, and their ragged sizes are symbols."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nested import as_nested_tensor, masked_select, nested_tensor, nested_tensor_from_jagged
from torch.nested._internal.nested_tensor import NestedTensor

from tests.support.nested import ByParts, alike, captured_nested, check_nested, graphs_of, holed, jagged
from tracer import optimize

WEIGHT = torch.linspace(-1, 1, 4)
VALUES = torch.linspace(-1, 1, 20).reshape(5, 4)
OFFSETS = torch.tensor([0, 2, 5])


def one() -> Any:
    return [jagged(2, 3)]


def two() -> Any:
    return alike(2, 3)


def made() -> Any:
    return [VALUES.clone(), OFFSETS.clone()]


# -- operations --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fn",
    [
        lambda a: torch.sin(a),
        lambda a: a.relu().exp(),
        lambda a: -a,
        lambda a: a * 2 + 1,
        lambda a: 1 - a,
        lambda a: a * WEIGHT,
        lambda a: WEIGHT + a,
        lambda a: a > 0,
        lambda a: a.to(torch.float64),
        lambda a: a.clone().detach(),
        lambda a: a.sum(),
        lambda a: (a.sum(-1), a.sum(dim=1), a.mean(dim=1), a.sum(dim=(0, 1))),
        lambda a: F.layer_norm(a, (4,)),
        lambda a: F.softmax(a, dim=-1),
        lambda a: F.dropout(a, 0.5, training=False),
        lambda a: a @ torch.eye(4),
        lambda a: torch.ones_like(a) * a,
        lambda a: a.transpose(1, 2).transpose(1, 2),
        lambda a: a.unsqueeze(-1).squeeze(-1),
        lambda a: torch.cat([a, a], dim=-1),
        lambda a: a.chunk(2, dim=-1),
        lambda a: (a.narrow(-1, 0, 2), a[..., 0], a.cos().detach_()),
        lambda a: a.to_padded_tensor(0.0),
        lambda a: torch.nested.to_padded_tensor(a, 1.0, (2, 4, 4)),
        lambda a: torch.where(a > 0, a, -a),
        lambda a: a.masked_fill(a > 0, 0.0),
    ],
)
def test_an_operation_is_captured(fn: Any) -> None:
    captured_nested(fn, one)


def test_an_operation_on_two_that_share_offsets_is_captured() -> None:
    captured_nested(lambda a, b: a * b + a, two)


def test_an_operation_is_one_node() -> None:
    assert captured_nested(lambda a: F.layer_norm(a.sin(), (4,)), one).operations == ["sin", "layer_norm"]


def test_a_random_operation_draws_what_it_draws_in_cpython() -> None:
    captured_nested(lambda a: F.dropout(a, 0.5) + torch.rand_like(a), one)


def test_a_dense_tensor_is_spread_over_the_rows() -> None:
    captured_nested(lambda a, b: a * b, lambda: [jagged(2, 3), torch.linspace(0, 1, 8).reshape(2, 1, 4)])


def test_the_parts_of_one_are_tensors_of_the_graph() -> None:
    captured_nested(lambda a: (a.values() * 2, a.offsets().diff(), a.lengths(), a.offsets()), one)


def test_the_parts_of_a_result_are_tensors_of_the_graph() -> None:
    def fn(a: Any) -> Any:
        b = a * 2
        return b.values().sum(), b.offsets() is a.offsets(), b.offsets() + 1

    captured_nested(fn, one)


def test_one_with_lengths_of_its_own_is_captured() -> None:
    captured_nested(lambda a: (a.sin(), a.lengths(), a.offsets()), lambda: [holed()])


def test_rows_are_taken_apart_and_may_be_added_to_their_like() -> None:
    captured_nested(lambda a: [row.sum() + len(row) for row in a.unbind()], one)
    captured_nested(lambda a: [row * 2 for row in a], one)
    captured_nested(lambda a: a[1] * 2, one)


def test_metadata_is_answered_while_tracing() -> None:
    def fn(a: Any) -> Any:
        return a.dim(), a.is_nested, a.layout, a.dtype, a.size(0), a.shape[-1], a.numel(), a.is_contiguous(), len(a), a.sin()

    captured_nested(fn, one)


def test_writes_reach_the_program_s_tensor() -> None:
    def fn(a: Any) -> Any:
        a.mul_(2).add_(1)
        a += 1
        return a.sum()

    captured_nested(fn, one)


def test_a_write_before_a_failure_is_made_once() -> None:
    """CPython runs a call again whose graph fails, on the arguments as they were."""

    def fn(a: Any, at: Any) -> Any:
        a.mul_(2)
        return torch.ones(3)[at].sum() + a.sum()

    assert isinstance(check_nested(fn, lambda: [jagged(2, 3), torch.tensor([7])]).error, IndexError)


def test_an_error_of_an_operation_is_the_one_of_cpython() -> None:
    error = check_nested(lambda a: a.to_padded_tensor(0.0), lambda: [holed()]).error
    assert isinstance(error, RuntimeError) and "not supported for nested tensors with holes" in str(error)
    with pytest.raises(RuntimeError, match="cannot call binary pointwise function"):
        optimize()(lambda a, b: a + b)(*apart())


def test_what_a_tensor_is_padded_to_follows_from_what_it_remembers_of_its_lengths() -> None:
    """Without a known greatest length torch pads to the sum of all."""

    def fn(a: Any) -> Any:
        return a.to_padded_tensor(0.0).size(1), a.to_padded_tensor(0.0)

    known, unknown = [jagged(2, 3, cached=True)], [jagged(2, 3)]
    assert graphs_of(fn, known, unknown, known, unknown) == 2
    assert graphs_of(fn, *[[jagged(*rows, cached=True)] for rows in ((2, 3), (4, 5), (3, 7), (2, 9))], dynamic=True) == 1


def test_what_an_operation_remembers_of_lengths_is_remembered_by_those_that_share_it() -> None:
    def fn(a: Any) -> Any:
        b = a * 2
        a._get_min_seqlen()
        a._get_max_seqlen()
        return a.to_padded_tensor(0.0), b.to_padded_tensor(0.0)

    captured_nested(fn, one)
    captured_nested(fn, lambda: [nested_tensor_from_jagged(VALUES.clone(), OFFSETS.clone(), min_seqlen=2)])


def test_dicts_of_remembered_lengths_that_are_one_stay_one() -> None:
    def fn(a: Any, b: Any) -> Any:
        a._get_max_seqlen()
        return b.to_padded_tensor(0.0)

    def separate() -> Any:
        return [nested_tensor_from_jagged(VALUES.clone(), OFFSETS, min_seqlen=2) for _ in range(2)]

    def shared() -> Any:
        first = separate()[0]
        return [first, first * 2]

    captured_nested(fn, shared)
    captured_nested(fn, separate)
    assert graphs_of(fn, separate(), separate()) == 1
    captured_nested(lambda a, b: (fn(a, b), fn(b, a)), shared)


# -- made inside -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fn",
    [
        lambda v, o: nested_tensor_from_jagged(v, o) * 2,
        lambda v, o: nested_tensor_from_jagged(v, lengths=o.diff()).values(),
        lambda v, o: nested_tensor_from_jagged(v, o, min_seqlen=1, max_seqlen=4).to_padded_tensor(0.0),
        lambda v, o: nested_tensor([v, v[:2]], layout=torch.jagged) * 2,
        lambda v, o: as_nested_tensor([v, v[1:]], layout=torch.jagged).sin(),
        lambda v, o: as_nested_tensor(v.view(1, 5, 4), layout=torch.jagged).sum(dim=1),
        lambda v, o: NestedTensor(v, offsets=o) * 2,
        lambda v, o: nested_tensor_from_jagged(v, o) + nested_tensor_from_jagged(v * 2, o),
    ],
)
def test_one_that_is_made_inside_is_captured(fn: Any) -> None:
    captured_nested(fn, made)


def test_one_that_is_made_inside_meets_one_that_is_passed() -> None:
    captured_nested(lambda a, v: a + nested_tensor_from_jagged(v, a.offsets()), lambda: [jagged(2, 3), VALUES.clone()])

    def with_offsets_of_its_own() -> Any:
        offsets = OFFSETS.clone()
        return jagged(2, 3, offsets=offsets), VALUES.clone(), offsets

    captured_nested(lambda a, v, o: a + nested_tensor_from_jagged(v, o), with_offsets_of_its_own)
    captured_nested(lambda a, v, o: nested_tensor_from_jagged(v, o) + a, with_offsets_of_its_own)


def test_one_made_of_a_mask_is_captured_where_sizes_of_data_are(fullgraph: bool = True) -> None:
    program = optimize(fullgraph=fullgraph)(lambda v: masked_select(v, v > 0).values() * 2)
    assert torch.equal(program(VALUES), VALUES[VALUES > 0] * 2)


def test_the_strided_layout_breaks_the_graph() -> None:
    checked = check_nested(lambda v: nested_tensor([v, v[:2]]).sum() if v.sum() is None else v * 2, lambda: [VALUES.clone()])
    assert not checked.breaks
    checked = check_nested(lambda a, b: nested_tensor([a, b]).unbind()[0] + 1, lambda: [VALUES.clone(), VALUES[:2].clone()])
    assert checked.breaks


# -- modules and gradients ---------------------------------------------------------------------------------------------------

torch.manual_seed(0)
LINEAR, NORM = nn.Linear(4, 4), nn.LayerNorm(4)
EMBEDDING = nn.Embedding(10, 4)
PROJECTIONS = [nn.Linear(4, 8) for _ in range(3)]


def attention(a: Any, causal: bool = False) -> Any:
    q, k, v = (layer(a).unflatten(-1, (2, 4)).transpose(1, 2) for layer in PROJECTIONS)
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(-2)


def test_modules_are_captured() -> None:
    captured_nested(lambda a: LINEAR(NORM(a)).relu(), one)
    captured_nested(lambda a: nn.Sequential(LINEAR, nn.GELU(), nn.Dropout(0.0))(a), one)
    captured_nested(
        lambda i, o: LINEAR(EMBEDDING(nested_tensor_from_jagged(i, o))).sum(dim=1), lambda: [torch.arange(5), OFFSETS]
    )


@pytest.mark.parametrize("cached", [False, True])
def test_attention_is_captured(cached: bool) -> None:
    captured_nested(attention, lambda: [jagged(2, 3, cached=cached)])
    captured_nested(lambda a: attention(a).to_padded_tensor(0.0), lambda: [jagged(2, 3, cached=cached)])


def test_attention_without_a_kernel_fails_as_in_cpython() -> None:
    error = check_nested(lambda a: attention(a, causal=True), one).error
    lacks_driver = torch.backends.cuda.is_built() and not torch.cuda.is_available()  # asked for first from torch 2.14 on
    assert isinstance(error, RuntimeError)
    assert "No viable backend" in str(error) or (lacks_driver and "CUDA driver" in str(error))


def test_a_backward_pass_behind_the_graph_reaches_the_values() -> None:
    def gradients(run: Any) -> Any:
        values = VALUES.clone().requires_grad_()
        result = run(nested_tensor_from_jagged(values, OFFSETS))
        result.sum().backward()
        return values.grad

    def fn(a: Any) -> Any:
        return LINEAR(a).sin() * a

    assert torch.equal(gradients(fn), gradients(optimize(fullgraph=True)(fn)))
    assert torch.equal(gradients(attention), gradients(optimize(fullgraph=True)(attention)))


def test_a_backward_pass_reaches_a_nested_leaf() -> None:
    def gradient(run: Any) -> Any:
        leaf = jagged(2, 3).requires_grad_()
        run(leaf).values().sum().backward()
        return leaf.grad

    expected, seen = gradient(lambda a: (a * a).sin()), gradient(optimize(fullgraph=True)(lambda a: (a * a).sin()))
    assert seen.is_nested and torch.equal(expected.values(), seen.values())


def test_a_backward_pass_inside_is_captured() -> None:
    def fn(v: Any, o: Any) -> Any:
        v = v.detach().requires_grad_()
        (attention(LINEAR(nested_tensor_from_jagged(v, o))) ** 2).sum().backward()
        return v.grad

    def reset() -> None:
        for layer in (LINEAR, *PROJECTIONS):
            layer.zero_grad()

    captured_nested(fn, made, reset=reset)


def test_gradients_of_nested_tensors_are_nested() -> None:
    def fn(v: Any, o: Any) -> Any:
        leaf = nested_tensor_from_jagged(v, o).detach().requires_grad_()
        return torch.autograd.grad((leaf * leaf).sum(), [leaf])

    captured_nested(fn, made)


# -- ragged sizes ------------------------------------------------------------------------------------------------------------


def compared(a: Any, b: Any) -> Any:
    return a + b if a.shape == b.shape else a.sin()


def apart() -> Any:
    return [jagged(2, 3), jagged(2, 3)]


def test_ragged_sizes_are_equal_where_offsets_are_one_tensor() -> None:
    assert captured_nested(compared, two).operations == ["add"]
    assert captured_nested(compared, apart).operations == ["sin"]
    assert captured_nested(lambda a: (a.shape[1] == 5, a.shape[1] != a.shape[1], a.sin()), one).result[:2] == (False, False)


def test_other_relations_of_offsets_miss() -> None:
    assert graphs_of(compared, two(), apart(), two(), apart()) == 2
    assert graphs_of(compared, apart(), two(), apart()) == 2


def test_a_ragged_size_that_another_tensor_of_offsets_shares_is_that_one() -> None:
    """As PyTorch says of the offsets of one that was moved to another device and back."""
    from torch.nested._internal.nested_tensor import _tensor_symint_registry

    def registered() -> Any:
        first = jagged(2, 3)
        offsets = first.offsets().clone()
        _tensor_symint_registry[offsets] = _tensor_symint_registry[first.offsets()]
        return [first, jagged(2, 3, offsets=offsets)]

    assert captured_nested(compared, registered).operations == ["add"]
    assert graphs_of(compared, apart(), registered(), apart(), registered()) == 2
    passed = [registered() for _ in range(2)]
    calls = [[a, b.values(), b.offsets()] for a, b in passed]
    assert graphs_of(lambda a, v, o: compared(a, nested_tensor_from_jagged(v, o)), *calls) == 1


def test_shapes_are_arguments_and_results() -> None:
    captured_nested(lambda a: (a.shape, a.size(1), a.sin()), one)
    captured_nested(lambda a: a.view(a.shape[0], a.shape[1], 2, 2), one)
    captured_nested(lambda a: a.view(a.size(0), -1, 2, 2).flatten(2).reshape_as(a), one)
    captured_nested(lambda a: (a.stride(), a.shape[1] * 2 == a.stride(0), a.sin()), one)


def test_arithmetic_on_a_ragged_size_is_that_of_cpython() -> None:
    check_nested(lambda a: a.shape[1] + 1, one)
    check_nested(lambda a: a.shape[1] > 1, one)
    check_nested(lambda a: (a.shape[1] > 7, a.sin()), one)
    check_nested(lambda a: range(a.shape[1]), one)
    check_nested(lambda a: a.sin() if a.shape[1] else a, one)


def test_calls_with_other_rows_do_not_trace_again() -> None:
    rows = ((2, 3), (4, 5, 6), (1, 7, 2, 2), (3, 3))
    many = [[jagged(*each)] for each in rows]
    assert graphs_of(lambda a: a.sin() * 2, *many, dynamic=True) == 1
    assert graphs_of(lambda a: a.sin() * 2, *many) == 2
    assert graphs_of(compared, *[alike(*each) for each in rows], dynamic=True) == 1
    assert graphs_of(attention, *many, dynamic=True) == 1
    sizes = [[VALUES.repeat(times, 1), torch.arange(times + 1) * 5] for times in (2, 3, 4, 7)]
    assert graphs_of(lambda v, o: nested_tensor_from_jagged(v, o).sum(dim=1), *sizes, dynamic=True) == 1


def test_rows_taken_apart_depend_on_their_number_only() -> None:
    def fn(a: Any) -> Any:
        return [row.sum(0) for row in a.unbind()]

    calls = [[jagged(*rows)] for rows in ((2, 3), (4, 5), (1, 6), (2, 3, 4))]
    assert graphs_of(fn, *calls, dynamic=True) == 2


def test_graph_breaks_between_operations_hand_nested_tensors_over() -> None:
    def fn(a: Any) -> Any:
        b = a.sin()
        print(end="")
        id(b)
        return compared(b, a)

    check_nested(fn, one)


def test_the_comparison_of_the_tests_tells_ragged_sizes_apart() -> None:
    with pytest.raises(AssertionError, match="ragged size"):
        ByParts().sequence(two(), apart(), "args")
