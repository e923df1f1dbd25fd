"""Strides of results that PyTorch's rules for fake tensors say otherwise: the operators are asked, and each still has to be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map

from tests.support import captured_made
from tracer.graph.asked_strides import ASKED
from tracer.graph.fake_tensors import FakeWorld

aten = torch.ops.aten

def rows(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(x.shape[0])


CALLS: dict[Any, Any] = {
    aten._fft_c2r: lambda x: aten._fft_c2r(torch.complex(x, x), [0], 0, 4),
    aten._fft_r2c: lambda x: aten._fft_r2c(x, [0], 0, False),
    aten._log_softmax: lambda x: aten._log_softmax(x, -1, False),
    aten._prelu_kernel: lambda x: aten._prelu_kernel(x, torch.ones([1] * x.dim())),
    aten._unsafe_view: lambda x: aten._unsafe_view(x, list(x.shape)),
    aten.addr: lambda x: aten.addr(x, torch.ones(x.shape[0]), torch.ones(x.shape[1])),
    aten.binary_cross_entropy_with_logits: lambda x: aten.binary_cross_entropy_with_logits(x, x, None, None, 0),
    aten.channel_shuffle: lambda x: aten.channel_shuffle(x, 1),
    aten.complex: lambda x: aten.complex(x, x),
    aten.deg2rad: aten.deg2rad,
    aten.diag_embed: aten.diag_embed,
    aten.fill: lambda x: aten.fill(x, 3.0),
    aten.flip: lambda x: aten.flip(x, [0]),
    aten.frexp: aten.frexp,
    aten.glu: lambda x: aten.glu(x, 0),
    aten.hardshrink: aten.hardshrink,
    aten.hardtanh: aten.hardtanh,
    aten.huber_loss: lambda x: aten.huber_loss(x, x, 0),
    aten.im2col: lambda x: aten.im2col(x, [1, 1], [1, 1], [0, 0], [1, 1]),
    aten.index: lambda x: aten.index(x, [*[None] * (x.dim() - 1), torch.arange(1)]),
    aten.index_add: lambda x: aten.index_add(x, 0, rows(x), x),
    aten.index_copy: lambda x: aten.index_copy(x, 0, rows(x), x),
    aten.index_put: lambda x: aten.index_put(x, [rows(x)], x),
    aten.isin: lambda x: aten.isin(x, torch.ones(2)),
    aten.isinf: aten.isinf,
    aten.log_sigmoid_forward: aten.log_sigmoid_forward,
    aten.masked_fill: lambda x: aten.masked_fill(x, x > 0, 1.0),
    aten.nan_to_num: aten.nan_to_num,
    aten.native_batch_norm: lambda x: aten.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
    aten.native_channel_shuffle: lambda x: aten.native_channel_shuffle(x, 1),
    aten.native_group_norm: lambda x: aten.native_group_norm(
        x, None, None, x.shape[0], x.shape[1], x.numel() // max(x.shape[0] * x.shape[1], 1), 1, 1e-5
    ),
    aten.native_layer_norm: lambda x: aten.native_layer_norm(x, x.shape[-1:], None, None, 1e-5),
    aten.pixel_unshuffle: lambda x: aten.pixel_unshuffle(x, 1),
    aten.poisson: aten.poisson,
    aten.polar: lambda x: aten.polar(x, x),
    aten.pow: lambda x: aten.pow(2, x),
    aten.rad2deg: aten.rad2deg,
    aten.renorm: lambda x: aten.renorm(x, 2, 0, 1.0),
    aten.roll: lambda x: aten.roll(x, [1]),
    aten.rot90: aten.rot90,
    aten.rrelu_with_noise: lambda x: aten.rrelu_with_noise(x, torch.empty_like(x), 0.1, 0.3, True),
    aten.sort: aten.sort,
    aten.sum: lambda x: aten.sum(x, [0], True),
    aten.tril: aten.tril,
    aten.triu: aten.triu,
    aten.upsample_bicubic2d: lambda x: aten.upsample_bicubic2d(x, [8, 8], False),
    aten.upsample_bilinear2d: lambda x: aten.upsample_bilinear2d(x, [8, 8], False),
    aten.upsample_nearest2d: lambda x: aten.upsample_nearest2d(x, [8, 8]),
    aten.view: lambda x: aten.view(x, list(reversed(x.shape))),
}
LAYOUTS = {
    "a turned row": lambda: torch.ones(3, 1).t(),
    "a turned column": lambda: torch.ones(1, 3).t(),
    "empty": lambda: torch.ones(3, 0).t(),
    "empty and turned": lambda: torch.ones(0, 3).t(),
    "all small": lambda: torch.ones(8).as_strided((1, 1), (7, 3)),
    "turned": lambda: torch.ones(4, 2, 3).permute(1, 2, 0),
    "small dims outside": lambda: torch.ones(1, 2, 1).permute(2, 1, 0),
    "a dim without items": lambda: torch.ones(3, 1, 0).permute(2, 0, 1),
    "channels last": lambda: torch.ones(2, 4, 4, 5).to(memory_format=torch.channels_last),
    "one channel": lambda: torch.ones(2, 1, 4, 5).to(memory_format=torch.channels_last),
    "one pixel": lambda: torch.ones(2, 3, 1, 1).to(memory_format=torch.channels_last),
    "nothing of channels": lambda: torch.ones(0, 4, 4, 5).to(memory_format=torch.channels_last),
    "turned around": lambda: torch.ones(5, 4, 3, 2).permute(3, 2, 1, 0),
    "two small dims": lambda: torch.ones(1, 2, 1, 3).permute(3, 0, 1, 2),
}


def strides(result: Any) -> list[tuple[int, ...]]:
    return [leaf.stride() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def on_fakes(mode: Any, call: Any, x: torch.Tensor) -> list[tuple[int, ...]]:
    with mode:
        return strides(call(torch.empty_strided(x.shape, x.stride())))


def outcomes(packet: Any, world: Any) -> list[tuple[str, list[Any], list[Any], list[Any]]]:
    """By layout: what C gives, what the world says, and what PyTorch's rules say; without the layouts that C refuses."""
    found = []
    for name, make in LAYOUTS.items():
        x = make()
        try:
            with torch.no_grad():
                real = strides(CALLS[packet](x))
            plain = on_fakes(FakeTensorMode(), CALLS[packet], x)
        except Exception:
            continue
        found.append((name, real, on_fakes(world.fake_mode, CALLS[packet], x), plain))
    return found


def test_each_has_a_call_here():
    assert set(CALLS) == ASKED


@pytest.mark.parametrize("packet", sorted(CALLS, key=str), ids=str)
def test_strides_are_those_of_c_and_torch_has_not_mended_its_own(packet):
    found = outcomes(packet, FakeWorld())
    wrong = [(name, real, seen) for name, real, seen, _ in found if real != seen]
    assert not wrong
    assert any(real != plain for _, real, _, plain in found), "its rule is right now: take it out of the table"


def test_random_numbers_are_left_where_they_are():
    torch.manual_seed(0)
    state = torch.get_rng_state()
    on_fakes(FakeWorld().fake_mode, aten.poisson, LAYOUTS["turned"]())
    assert torch.equal(torch.get_rng_state(), state)


READ = {
    "a power": lambda x: 2**x,
    "sorted": lambda x: x.sort(0)[0],
    "bounded": lambda x: torch.nn.functional.relu6(x),
    "turned over": lambda x: x.flip(0),
    "put": lambda x: x.index_put((torch.arange(x.shape[0]),), x),
    "viewed": lambda x: x.view(list(reversed(x.shape))) if 1 in x.shape else x,
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", ["turned", "a turned row", "small dims outside", "channels last"])
def test_what_the_program_reads_of_them(layout, dynamic):
    def f(x):
        results = [make(x) for make in READ.values()]
        return [(y.stride(), y.is_contiguous(), y * 2 if y.is_contiguous() else y) for y in results]

    x = tree_map(torch.Tensor.detach, LAYOUTS[layout]())
    captured_made(f, lambda: ((x.clone(),), {}), dynamic=dynamic)
