"""Operators on symbolic sizes: what is run on fake tensors, and on which inputs.

The inputs of a case are made from named sizes; a dim that changes with them is dynamic. `generic=False`: the operator
has to specialise the sizes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F

BASE = {"a": 5, "b": 7, "c": 9, "d": 11, "e": 4, "h": 20, "w": 24, "s": 6, "m": 13}
OTHERS = (
    {"a": 6, "b": 8, "c": 10, "d": 12, "e": 14, "h": 22, "w": 26, "s": 9, "m": 15},
    {"a": 12, "b": 9, "c": 7, "d": 13, "e": 8, "h": 40, "w": 48, "s": 10, "m": 11},
    {"a": 3, "b": 4, "c": 2, "d": 6, "e": 5, "h": 17, "w": 19, "s": 8, "m": 7},
    {"a": 2, "b": 2, "c": 2, "d": 2, "e": 2, "h": 32, "w": 32, "s": 3, "m": 3},
    {"a": 31, "b": 17, "c": 23, "d": 29, "e": 37, "h": 41, "w": 43, "s": 47, "m": 53},
    {"a": 64, "b": 64, "c": 64, "d": 64, "e": 64, "h": 64, "w": 64, "s": 64, "m": 64},
)
Sizes = Any


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    inputs: Callable[[Sizes], tuple[torch.Tensor, ...]]
    run: Callable[..., Any]
    generic: bool = True

    def tensors(self, sizes: dict[str, int]) -> tuple[torch.Tensor, ...]:
        torch.manual_seed(0)
        made = self.inputs(SimpleNamespace(**sizes))
        return made if isinstance(made, tuple) else (made,)


def two(n: Sizes) -> Any:
    return (torch.randn(n.a, n.b),)


def three(n: Sizes) -> Any:
    return (torch.randn(n.e, n.s, 8),)


def image(n: Sizes) -> Any:
    return (torch.randn(n.a, 3, n.h, n.w),)


def heads(n: Sizes) -> Any:
    return (torch.randn(n.a, 2, n.c, 8),)


def index(n: Sizes) -> Any:
    return torch.randint(0, 2, (n.s,))


def recurrent_weights(gates: int) -> tuple[torch.Tensor, ...]:
    rows = gates * 16
    return torch.randn(rows, 8), torch.randn(rows, 16), torch.randn(rows), torch.randn(rows)


def lstm(a: torch.Tensor, *weights: torch.Tensor) -> Any:
    state = torch.zeros(1, a.shape[0], 16)
    return torch.lstm(a, (state, state), list(weights), True, 1, 0.0, False, False, True)


def gru(a: torch.Tensor, *weights: torch.Tensor) -> Any:
    return torch.gru(a, torch.zeros(1, a.shape[0], 16), list(weights), True, 1, 0.0, False, False, True)


def fold_back(a: torch.Tensor) -> torch.Tensor:
    return F.fold(F.unfold(a, (3, 3), padding=1), a.shape[2:], (3, 3), padding=1)


def bags(i: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.embedding_bag(i, w, torch.arange(0, i.shape[0], 2))


CASES = [
    Case("matmul", lambda n: (torch.randn(n.a, n.b), torch.randn(n.b, n.c)), lambda a, b: a @ b),
    Case("add_same_symbol", lambda n: (torch.randn(n.a, n.b), torch.randn(n.a, n.b)), lambda a, b: a + b),
    Case("add_broadcast_one", lambda n: (torch.randn(n.a, n.b), torch.randn(1, n.b)), lambda a, b: a + b),
    Case("view_flat", two, lambda a: a.view(-1)),
    Case("view_heads", three, lambda a: a.view(a.shape[0], a.shape[1], 2, a.shape[2] // 2).transpose(1, 2)),
    Case("reshape_transposed", three, lambda a: a.transpose(0, 1).reshape(a.shape[1], -1)),
    Case("flatten", three, lambda a: a.flatten(1)),
    Case("cat", lambda n: (torch.randn(n.a, n.b), torch.randn(n.d, n.b)), lambda a, b: torch.cat([a, b], 0)),
    Case("stack", two, lambda a: torch.stack([a, a], 0)),
    Case("conv2d", lambda n: (*image(n), torch.randn(8, 3, 3, 3)), lambda a, w: F.conv2d(a, w, stride=2, padding=1)),
    Case(
        "conv2d_channels_last",
        lambda n: (image(n)[0].to(memory_format=torch.channels_last), torch.randn(8, 3, 3, 3)),
        lambda a, w: F.conv2d(a, w, padding=1),
    ),
    Case("conv1d", lambda n: (torch.randn(n.a, 3, n.h), torch.randn(6, 3, 5)), lambda a, w: F.conv1d(a, w, dilation=2)),
    Case(
        "conv_transpose2d",
        lambda n: (*image(n), torch.randn(3, 4, 3, 3)),
        lambda a, w: F.conv_transpose2d(a, w, stride=2, output_padding=1),
    ),
    Case("max_pool2d", image, lambda a: F.max_pool2d(a, 2)),
    Case("avg_pool2d", image, lambda a: F.avg_pool2d(a, 3, stride=2, ceil_mode=True)),
    Case("batch_norm", image, lambda a: F.batch_norm(a, torch.zeros(3), torch.ones(3), training=True)),
    Case("layer_norm", three, lambda a: F.layer_norm(a, (8,))),
    Case("layer_norm_symbolic", two, lambda a: F.layer_norm(a, a.shape[-1:])),
    Case("group_norm", lambda n: (torch.randn(n.a, 6, n.h),), lambda a: F.group_norm(a, 3)),
    Case("softmax", three, lambda a: a.softmax(-1)),
    Case("sdpa", heads, lambda a: F.scaled_dot_product_attention(a, a, a)),
    Case("sdpa_causal", heads, lambda a: F.scaled_dot_product_attention(a, a, a, is_causal=True)),
    Case(
        "sdpa_mask",
        lambda n: (*heads(n), torch.ones(n.a, 1, n.c, n.c, dtype=torch.bool)),
        lambda a, mask: F.scaled_dot_product_attention(a, a, a, attn_mask=mask),
    ),
    Case("expand", two, lambda a: a[:, None].expand(a.shape[0], 4, a.shape[1])),
    Case("slice_constants", two, lambda a: a[1:3, :-1]),
    Case("slice_symbolic", two, lambda a: a[: a.shape[0] - 1]),
    Case("slice_past_the_end", two, lambda a: a[:100]),
    Case("index_last", two, lambda a: a[-1]),
    Case("index_tensor", lambda n: (*two(n), index(n)), lambda a, i: a[i]),
    Case("index_two_tensors", lambda n: (*two(n), index(n)), lambda a, i: a[i, i]),
    Case("index_select", lambda n: (*two(n), index(n)), lambda a, i: a.index_select(1, i)),
    Case("gather", two, lambda a: a.gather(1, torch.zeros(a.shape[0], 2, dtype=torch.long))),
    Case("scatter", two, lambda a: a.scatter(1, torch.zeros(a.shape[0], 1, dtype=torch.long), 1.0)),
    Case("arange", two, lambda a: torch.arange(a.shape[0])),
    Case("arange_step", two, lambda a: torch.arange(1, a.shape[0] + 1, 2)),
    Case("factories", two, lambda a: (torch.zeros(a.shape[0], 3), torch.full((a.shape[1],), 2.0), torch.eye(a.shape[0]))),
    Case("split", two, lambda a: a.split(2, 0), generic=False),
    Case("split_symbolic_sizes", two, lambda a: a.split([2, a.shape[1] - 2], 1)),
    Case("chunk", lambda n: (torch.randn(n.a, 8),), lambda a: a.chunk(2, 1)),
    Case("chunk_symbolic", lambda n: (torch.randn(n.a, n.h),), lambda a: a.chunk(2, 1)),
    Case("unbind", lambda n: (torch.randn(5, n.b),), lambda a: a.unbind(0)),
    Case("interpolate_scale_2", image, lambda a: F.interpolate(a, scale_factor=2)),
    Case(
        "interpolate_size",
        image,
        lambda a: F.interpolate(a, size=(a.shape[2] * 2, a.shape[3] // 2), mode="bilinear"),
    ),
    Case("interpolate_bicubic", image, lambda a: F.interpolate(a, scale_factor=1.5, mode="bicubic")),
    Case("interpolate_half", image, lambda a: F.interpolate(a, scale_factor=0.5, mode="bilinear", align_corners=False)),
    Case("einsum", lambda n: (torch.randn(n.a, n.b), torch.randn(n.b, n.c)), lambda a, b: torch.einsum("ij,jk->ik", a, b)),
    Case(
        "einsum_attention",
        lambda n: (torch.randn(n.a, 2, n.c, 8), torch.randn(n.a, 2, n.m, 8)),
        lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b),
    ),
    Case("embedding", lambda n: (torch.randint(0, 9, (n.e, n.s)), torch.randn(9, 8)), F.embedding),
    Case(
        "embedding_bag",
        lambda n: (torch.randint(0, 9, (n.e, n.s)), torch.randn(9, 8)),
        lambda i, w: F.embedding_bag(i, w),
    ),
    Case("cross_entropy", lambda n: (torch.randn(n.a, 7), torch.randint(0, 7, (n.a,))), F.cross_entropy),
    Case("cumsum_sort", two, lambda a: (a.cumsum(0), a.sort(1)[0])),
    Case("topk", two, lambda a: a.topk(2, 1)[0]),
    Case("topk_symbolic", two, lambda a: a.topk(a.shape[1] - 1, 1)[0]),
    Case("mean_var", two, lambda a: (a.mean(0), a.var(1))),
    Case("pad", two, lambda a: F.pad(a, (1, 2))),
    Case("pad_symbolic", two, lambda a: F.pad(a, (0, a.shape[0]))),
    Case("pad_reflect", image, lambda a: F.pad(a, (1, 2, 2, 1), mode="reflect")),
    Case("tril", two, lambda a: torch.tril(torch.ones(a.shape[0], a.shape[0]))),
    Case("where_masked_fill", two, lambda a: torch.where(a > 0, a, 0).masked_fill(a < 0, -1.0)),
    Case("repeat", two, lambda a: a.repeat(2, 3)),
    Case("roll_flip", two, lambda a: a.roll(1, 0).flip(1)),
    Case("unfold", two, lambda a: a.unfold(0, 2, 1)),
    Case("unfold_image", image, lambda a: F.unfold(a, (3, 3), stride=2)),
    Case("adaptive_pool_one", image, lambda a: F.adaptive_avg_pool2d(a, (1, 1))),
    Case("size_arithmetic", two, lambda a: torch.zeros(max(a.shape[0], 3), a.shape[1] % 4 + 1, a.shape[0] ** 2)),
    Case("true_division", two, lambda a: a * (1 / a.shape[0]) + a.shape[0] ** 0.5),
    Case(
        "sym_max_min",
        two,
        lambda a: torch.zeros(torch.sym_max(a.shape[0], 4), torch.sym_min(a.shape[1], a.shape[0])),
    ),
    Case("sym_ite", two, lambda a: torch.zeros(torch.sym_ite(a.shape[0] > 3, a.shape[1], a.shape[0]))),
    Case("sym_sum", two, lambda a: torch.zeros(torch.sym_sum([a.shape[0], a.shape[1], 3]))),
    Case("floor_of_float", two, lambda a: torch.zeros(math.floor(a.shape[0] * 1.5))),
    Case("in_place", two, lambda a: a.clone().add_(1).t_()),
    Case("as_strided", two, lambda a: a.as_strided((a.shape[0] - 1, 2), (a.stride(0), 1))),
    Case("one_hot", lambda n: (torch.randint(0, 4, (n.s,)),), lambda i: F.one_hot(i, 5)),
    Case("lstm", lambda n: (*three(n), *recurrent_weights(4)), lstm),
    Case("gru", lambda n: (*three(n), *recurrent_weights(3)), gru),
    Case(
        "conv_transpose1d",
        lambda n: (torch.randn(n.a, 3, n.h), torch.randn(3, 4, 5)),
        lambda a, w: F.conv_transpose1d(a, w, stride=3),
    ),
    Case(
        "conv3d",
        lambda n: (torch.randn(2, 3, n.s, n.h, 9), torch.randn(4, 3, 2, 3, 3)),
        lambda a, w: F.conv3d(a, w, padding=1),
    ),
    Case("max_pool1d", lambda n: (torch.randn(n.a, 3, n.h),), lambda a: F.max_pool1d(a, 3, stride=2, padding=1)),
    Case("avg_pool3d", lambda n: (torch.randn(2, 3, n.s, n.h, 9),), lambda a: F.avg_pool3d(a, 2)),
    Case("lp_pool2d", image, lambda a: F.lp_pool2d(a, 2, 3)),
    Case("batch_norm_eval", image, lambda a: F.batch_norm(a, torch.zeros(3), torch.ones(3))),
    Case("instance_norm", image, lambda a: F.instance_norm(a)),
    Case("interpolate_nearest", image, lambda a: F.interpolate(a, scale_factor=(1.5, 2.0))),
    Case(
        "interpolate_linear",
        lambda n: (torch.randn(n.a, 3, n.h),),
        lambda a: F.interpolate(a, scale_factor=2.5, mode="linear"),
    ),
    Case("unfold_symbolic", two, lambda a: a.unfold(1, a.shape[1] - 1, 1), generic=False),
    Case("fold", lambda n: (torch.randn(n.a, 3, n.h, n.w),), fold_back),
    Case("as_strided_windows", two, lambda a: a.as_strided((a.shape[0] - 1, 2, a.shape[1]), (a.stride(0), a.stride(0), 1))),
    Case("split_two_symbolic_sizes", two, lambda a: a.split([a.shape[0] // 2, a.shape[0] - a.shape[0] // 2], 0)),
    Case("narrow_symbolic", two, lambda a: a.narrow(0, 1, a.shape[0] - 1)),
    Case("repeat_interleave_number", two, lambda a: a.repeat_interleave(3, dim=1)),
    Case("repeat_symbolic", two, lambda a: a.repeat(a.shape[1], 1)),
    Case("pad_circular", image, lambda a: F.pad(a, (1, 2, 2, 1), mode="circular")),
    Case("einsum_trace", lambda n: (torch.randn(n.a, n.a),), lambda a: torch.einsum("ii->i", a)),
    Case("embedding_bag_offsets", lambda n: (torch.randint(0, 9, (n.s,)), torch.randn(9, 8)), bags),
    Case("one_hot_symbolic", lambda n: (torch.randint(0, 2, (n.s,)),), lambda i: F.one_hot(i, i.shape[0]), generic=False),
    Case("kthvalue", two, lambda a: a.kthvalue(a.shape[1] - 1, 1)[0]),
    Case(
        "backward",
        lambda n: (torch.randn(n.a, n.b, requires_grad=True), torch.randn(n.b, n.c, requires_grad=True)),
        lambda a, b: torch.autograd.grad((a @ b).relu().sum(), [a, b]),
    ),
    Case("bmm_transposed", three, lambda a: torch.bmm(a, a.mT)),
    Case("linear", lambda n: (*three(n), torch.randn(16, 8)), F.linear),
    Case("squeeze_unsqueeze", two, lambda a: a.unsqueeze(1).squeeze()),
    Case("movedim_contiguous", three, lambda a: a.movedim(0, 2).contiguous()),
    Case("meshgrid", two, lambda a: torch.meshgrid(torch.arange(a.shape[0]), torch.arange(a.shape[1]), indexing="ij")),
    Case("pixel_shuffle", lambda n: (torch.randn(n.a, 8, n.h, n.w),), lambda a: F.pixel_shuffle(a, 2)),
    Case("glu", lambda n: (torch.randn(n.a, 2 * n.b),), lambda a: F.glu(a, -1)),
    Case("norm_cdist", two, lambda a: (a.norm(dim=1), torch.cdist(a, a))),
    Case("conv_then_view", image, lambda a: F.max_pool2d(a, 4).flatten(2).transpose(1, 2).contiguous()),
]

DATA_DEPENDENT = [
    Case("nonzero", two, lambda a: a.nonzero()),
    Case("nonzero_used", two, lambda a: a.nonzero()[:, 0] + 1),
    Case("mask_index", two, lambda a: a[a > 0]),
    Case("masked_select", two, lambda a: a.masked_select(a > 0)),
    Case("item_bool", lambda n: index(n), lambda i: (i > 3).any().item()),
    Case("unique", lambda n: index(n), lambda i: i.unique()),
    Case("repeat_interleave", lambda n: (torch.randn(n.s, 3), index(n)), lambda a, i: a.repeat_interleave(i, dim=0)),
    Case("bincount", lambda n: index(n), lambda i: i.bincount()),
    Case("item_int", lambda n: index(n), lambda i: i * i.sum().item()),
    Case("item_float", two, lambda a: a * a.sum().item()),
    Case("tolist", lambda n: torch.randint(0, 9, (3,)), lambda i: [i * number for number in i.tolist()]),
    Case("nonzero_as_tuple", two, lambda a: a.nonzero(as_tuple=True)),
    Case("argwhere", two, lambda a: torch.argwhere(a > 0)),
    Case("where_of_a_condition", two, lambda a: torch.where(a > 0)),
    Case("unique_with_counts", lambda n: index(n), lambda i: torch.unique(i, return_inverse=True, return_counts=True)),
    Case("unique_consecutive", lambda n: index(n), lambda i: torch.unique_consecutive(i)),
    Case("size_from_an_item", lambda n: index(n), lambda i: torch.zeros(i.sum().item()) + 1),
]
