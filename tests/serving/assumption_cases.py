"""Programs with a branch that their spec leaves open, each with the assumption on sizes that decides it; None where none does.

They were written after kinds of programs that people report of torch.compile and torch.export: masks and `nonzero` compared with
a capacity, detections that are truncated, tokens routed to experts, padding, buckets, reshapes whose parts have to fit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F


@dataclasses.dataclass(frozen=True)
class Case:
    """`expected`: the condition to be printed within `torch._check(...)`. `args`: from the sizes of the spec. `divides`: sizes
    alone decide the branch, so that it divides the domain and breaks nothing."""

    fn: Callable[..., Any]
    spec: str
    sizes: dict[str, int]
    args: Callable[..., tuple[Any, ...]]
    expected: str | None
    divides: bool = False


CASES: list[Case] = []


def case(spec: str, args: Callable[..., tuple[Any, ...]], expected: str | None, divides: bool = False, **sizes: int) -> Any:
    bounds = "".join(f"; {name} in 1..64" for name in sizes if f"{name} in" not in spec)

    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append(Case(fn, spec + bounds, sizes, args, expected, divides))
        return fn

    return add


def one(A: int) -> tuple[Any, ...]:
    return (torch.randn(A),)


def two(A: int, B: int) -> tuple[Any, ...]:
    return torch.randn(A), torch.randn(B)


def three(A: int, B: int, C: int) -> tuple[Any, ...]:
    return torch.randn(A), torch.randn(B), torch.randn(C)


def matrix_and_vector(A: int, B: int, C: int) -> tuple[Any, ...]:
    return torch.randn(A, B), torch.randn(C)


# -- what a mask keeps, compared with something that has a size --------------------------------------------------------


@case("x: A; buffer: B", two, "x.shape[0] <= buffer.shape[0]", A=3, B=8)
def kept_fits_the_buffer(x, buffer):
    kept = x[x > 0]
    if kept.shape[0] <= buffer.shape[0]:
        return kept.sum() + buffer.sum()
    return kept.sum() * 2


@case("x: A; buffer: B", two, "x.shape[0] <= buffer.shape[0]", A=3, B=8)
def kept_overflows_the_buffer(x, buffer):
    kept = x[x > 0]
    if kept.numel() > buffer.numel():
        kept = kept[: buffer.numel()]
    return kept * 2


@case("boxes: A, _; scores: A", lambda A: (torch.rand(A, 4), torch.rand(A)), "boxes.shape[0] <= 30", A=7)
def detections_truncated_to_a_constant(boxes, scores):
    found = boxes[scores > 0.5]
    if found.shape[0] > 30:
        found = found[:30]
    return found.sum(0)


@case("x: A; buffer: B", two, "x.shape[0] < buffer.shape[0]", A=3, B=8)
def room_for_one_more(x, buffer):
    kept = x[x > 0]
    if kept.shape[0] < buffer.shape[0]:
        return kept.sum() + buffer[-1]
    return kept.sum()


@case("x: A; buffer: B", two, "x.shape[0] + 2 <= buffer.shape[0]", A=3, B=8)
def two_marker_tokens_are_added(x, buffer):
    kept = torch.cat([torch.ones(1), x[x > 0], torch.ones(1)])
    if kept.shape[0] <= buffer.shape[0]:
        return kept.sum() - buffer.sum()
    return kept.sum()


@case("x: A; buffer: B", two, "2*x.shape[0] <= buffer.shape[0]", A=3, B=8)
def pairs_of_what_is_kept(x, buffer):
    kept = x[x > 0].repeat(2)
    if kept.shape[0] <= buffer.shape[0]:
        return kept.sum() - buffer.sum()
    return kept.sum()


@case("x: A; y: B; buffer: C", three, "x.shape[0] + y.shape[0] <= buffer.shape[0]", A=3, B=4, C=9)
def two_masks_together(x, y, buffer):
    both = torch.cat([x[x > 0], y[y > 0]])
    if both.shape[0] <= buffer.shape[0]:
        return both.sum() + buffer.sum()
    return both.sum()


@case("x: A, B; buffer: C", matrix_and_vector, "x.shape[0]*x.shape[1] <= buffer.shape[0]", A=3, B=4, C=20)
def elements_of_a_matrix(x, buffer):
    kept = x[x > 0]
    if kept.shape[0] <= buffer.shape[0]:
        return kept.sum() + buffer.sum()
    return kept.sum()


@case("x: A, _; buffer: B", lambda A, B: (torch.randn(A, 3), torch.randn(B)), "x.shape[0] <= buffer.shape[0]", A=3, B=8)
def rows_of_a_matrix(x, buffer):
    rows = x[x[:, 0] > 0]
    if rows.shape[0] <= buffer.shape[0]:
        return rows.sum() + buffer.sum()
    return rows.sum()


@case("x: A; buffer: B", two, "x.shape[0] <= buffer.shape[0]", A=3, B=8)
def indices_of_nonzero(x, buffer):
    where = (x > 0).nonzero().squeeze(1)
    if where.shape[0] > buffer.shape[0]:
        return x.sum()
    return x[where].sum() + buffer.sum()


@case("x: A; buffer: B", two, "x.shape[0] <= buffer.shape[0]", A=3, B=8)
def selected_by_a_mask(x, buffer):
    kept = torch.masked_select(x, x > 0)
    return kept + 1 if kept.shape[0] <= buffer.shape[0] else kept - 1


@case("x: A; buffer: B", two, "x.shape[0] <= buffer.shape[0]", A=3, B=8)
def distinct_values(x, buffer):
    found = torch.unique(x)
    if found.shape[0] <= buffer.shape[0]:
        return found.sum() + buffer.sum()
    return found.sum()


@case("x: A; buffer: B", two, "x.shape[0] <= buffer.shape[0]", A=3, B=8)
def runs_of_equal_values(x, buffer):
    found, counts = torch.unique_consecutive((x > 0).long(), return_counts=True)
    if found.shape[0] <= buffer.shape[0]:
        return counts * 2
    return counts


@case(
    "tokens: A, _; experts: B, _",
    lambda A, B: (torch.randn(A, 4), torch.randn(B, 4)),
    "tokens.shape[0] <= 2*experts.shape[0]",
    A=3,
    B=4,
)
def tokens_of_an_expert_within_its_capacity(tokens, experts):
    mine = tokens[tokens[:, 0] > 0]
    capacity = 2 * experts.shape[0]
    if mine.shape[0] > capacity:
        mine = mine[:capacity]
    return mine @ experts[0]


@case("x: A; buffer: B", two, "x.shape[0] <= 2*buffer.shape[0] + 1", A=3, B=8)
def half_of_what_is_kept(x, buffer):
    kept = x[x > 0]
    if kept.shape[0] // 2 <= buffer.shape[0]:
        return kept.sum() + buffer.sum()
    return kept.sum()


@case("x: A", one, "x.shape[0] <= 49", A=5)
def small_enough_for_the_fast_way(x):
    y = x[x > 0]
    if y.numel() < 50:
        return y.exp().sum()
    return y.sum()


@case("x: A; y: B", two, "x.shape[0] < y.shape[0]", A=3, B=8)
def kept_bound_by_another_name(x, y):
    n = y.shape[0]
    kept = x[x > 0]
    m = kept.shape[0]
    if m >= n:
        return kept.sum()
    return kept.sum() + y[m:].numel()


def _joined(kept, room):
    if kept.shape[0] <= room.shape[0]:
        return kept.sum() + room.sum()
    return kept.sum()


@case("x: A; buffer: B", two, "x.shape[0] <= buffer.shape[0]", A=3, B=8)
def asked_in_a_function_that_is_called(x, buffer):
    return _joined(x[x > 0], buffer)


@case("x: A; buffer: B", two, "x.shape[0] <= buffer.shape[0]", A=3, B=8)
def the_input_goes_by_its_own_name_no_more(x, buffer):
    x = x[x > 0]
    if x.shape[0] <= buffer.shape[0]:
        return x.sum() + buffer.sum()
    return x.sum()


@case(
    "batch['ids']: A; batch['room']: B",
    lambda A, B: ({"ids": torch.randn(A), "room": torch.randn(B)},),
    "batch['ids'].shape[0] <= batch['room'].shape[0]",
    A=3,
    B=8,
)
def sizes_inside_a_dict(batch):
    kept = batch["ids"][batch["ids"] > 0]
    if kept.shape[0] <= batch["room"].shape[0]:
        return kept * 2
    return kept


class _WithBuffer(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("room", torch.ones(size))


@case("x: A; model.room: B", lambda A, B: (_WithBuffer(B), torch.randn(A)), "x.shape[0] <= model.room.shape[0]", A=3, B=8)
def a_buffer_of_a_module(model, x):
    kept = x[x > 0]
    if kept.shape[0] <= model.room.shape[0]:
        return kept + 1
    return kept


@case("x: A; limit: B", lambda A, B: (torch.randn(A), B), "x.shape[0] <= limit", A=3, B=8)
def an_int_is_the_limit(x, limit):
    kept = x[x > 0]
    if kept.shape[0] <= limit:
        return kept * 2
    return kept


@case("x: A; n: _; y: B", lambda A, B: (torch.randn(A), torch.tensor(A), torch.randn(B)), "x.shape[0] <= y.shape[0]", A=3, B=8)
def a_length_that_was_checked_against_its_tensor(x, n, y):
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= x.shape[0])
    if k <= y.shape[0]:
        return y[:1] * k
    return x[:1] * k


@case("x: A; y: B", two, "x.shape[0] <= y.shape[0]", A=3, B=8)
def padded_to_the_larger(x, y):
    kept = x[x > 0]
    missing = y.shape[0] - kept.shape[0]
    if missing >= 0:
        return kept.sum() + missing
    return kept.sum()


@case("x: A; y: B; z: C", three, "x.shape[0] <= y.shape[0]", A=3, B=8, C=5)
def a_size_that_has_no_part_in_it(x, y, z):
    kept = x[x > 0]
    if kept.shape[0] <= y.shape[0]:
        return kept.sum() + z.sum()
    return kept.sum()


# -- where no assumption on sizes helps ----------------------------------------------------------------------------------


@case("x: A", one, None, A=3)
def nothing_was_kept(x):
    kept = x[x > 0]
    if kept.shape[0] == 0:
        return x.sum()
    return kept.sum()


@case("x: A; n: _", lambda A: (torch.randn(A), torch.tensor(2)), None, A=3)
def a_number_of_the_data(x, n):
    if n.item() > 5:
        return x + 1
    return x - 1


@case("x: A; n: _", lambda A: (torch.randn(A), torch.tensor(2)), None, A=3)
def a_place_in_a_tensor(x, n):
    k = n.item()
    if k < x.shape[0]:
        return x * k
    return x


@case("x: A; y: A", lambda A: (torch.randn(A), torch.randn(A)), None, A=3)
def two_masks_that_keep_as_many(x, y):
    a, b = x[x > 0], y[y > 0]
    if a.shape[0] == b.shape[0]:
        return a.sum() + b.sum()
    return a.sum()


@case("x: A", one, None, A=8)
def an_even_number_is_kept(x):
    kept = x[x > 0]
    if kept.shape[0] % 2 == 0:
        return kept.sum()
    return -kept.sum()


@case("x: A", one, None, A=8)
def more_than_half_is_kept(x):
    kept = x[x > 0]
    if 2 * kept.shape[0] > x.shape[0]:
        return kept.sum()
    return -kept.sum()


# -- where sizes alone decide: one region fewer ---------------------------------------------------------------------------


@case("x: A; y: B", two, "x.shape[0] <= y.shape[0]", divides=True, A=3, B=8)
def the_shorter_comes_first(x, y):
    if x.shape[0] > y.shape[0]:
        return x.sum() - y.sum()
    return x.sum() + y.sum()


@case("x: A", one, "x.shape[0] % 8 == 0", divides=True, A=16)
def padded_to_a_multiple(x):
    missing = -x.shape[0] % 8
    if missing:
        x = F.pad(x, (0, missing))
    return x.view(-1, 8).sum(0)


@case("x: A; y: B", two, "x.shape[0] == y.shape[0]", divides=True, A=4, B=4)
def of_one_length(x, y):
    if x.shape[0] == y.shape[0]:
        return x + y
    return x.sum() + y.sum()


@case("x: A, B", lambda A, B: (torch.randn(A, B),), "x.shape[0] >= 8", divides=True, A=16, B=2)
def enough_rows_whatever_their_length(x):
    if x.numel() >= 8 * x.shape[1]:
        return x.sum(0)
    return x.mean(0)


@case("x: A; y: B; z: C", three, "x.shape[0] + y.shape[0] <= z.shape[0]", divides=True, A=3, B=4, C=9)
def both_fit_into_the_third(x, y, z):
    if x.shape[0] + y.shape[0] <= z.shape[0]:
        return z[: x.shape[0] + y.shape[0]] + torch.cat([x, y])
    return torch.cat([x, y])


@case("x: A", one, "x.shape[0] <= 32", divides=True, A=5)
def long_inputs_in_two_parts(x):
    if x.shape[0] <= 32:
        return x.exp().sum()
    return x[:32].exp().sum() + x[32:].sum()


@case("x: A; y: B", two, "x.shape[0] % y.shape[0] == 0", divides=True, A=8, B=4)
def groups_of_the_other_length(x, y):
    if x.shape[0] % y.shape[0] == 0:
        return x.view(-1, y.shape[0]) + y
    return x.sum() + y


@case("x: A, B; y: C", matrix_and_vector, "x.shape[0]*x.shape[1] == y.shape[0]", divides=True, A=2, B=3, C=6)
def a_flat_copy(x, y):
    if x.numel() == y.shape[0]:
        return x.flatten() + y
    return x.sum() + y


@case("x: A", one, "x.shape[0] >= 2", divides=True, A=5)
def a_single_one_has_no_spread(x):
    if x.shape[0] == 1:
        return x * 0
    return (x - x.mean()) / x.std()
