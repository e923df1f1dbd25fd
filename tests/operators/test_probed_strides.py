"""Strides of results that PyTorch's rules for fake tensors give wrongly: each of these operators is run to find them, and has to
be."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map

from tests.support import captured_made
from tracer import config, optimize, region_of
from tracer.graph.fakes.fake_mode import FakeMode
from tracer.graph.fakes.fake_tensors import FakeWorld
from tracer.operators import strides as strides_by_rule
from tracer.operators import table
from tracer.operators.facts import facts_of

aten = torch.ops.aten


def rows(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(x.shape[0])


def normalised(packet: Any, *options: Any) -> Any:
    return lambda x: packet(x, None, None, torch.zeros(x.shape[1]), torch.ones(x.shape[1]), *options, 0.1, 1e-5)


CALLS: dict[Any, Any] = {
    aten._batch_norm_with_update: lambda x: aten._batch_norm_with_update(
        x, *[torch.ones(x.shape[1]) for _ in range(4)], 0.1, 1e-5
    )[:3],
    aten._fft_c2c: lambda x: aten._fft_c2c(torch.complex(x, x), [1, 2], 0, True),
    aten._fft_c2r: lambda x: aten._fft_c2r(torch.complex(x, x), [0], 0, 4),
    aten._fft_r2c: lambda x: aten._fft_r2c(x, [0], 0, False),
    aten._log_softmax: lambda x: aten._log_softmax(x, -1, False),
    aten._native_batch_norm_legit: normalised(aten._native_batch_norm_legit, True),
    aten._native_batch_norm_legit_no_training: normalised(aten._native_batch_norm_legit_no_training),
    aten._prelu_kernel: lambda x: aten._prelu_kernel(x, torch.ones([1] * x.dim())),
    aten._unsafe_view: lambda x: aten._unsafe_view(x, list(x.shape)),
    aten._upsample_nearest_exact2d: lambda x: aten._upsample_nearest_exact2d(x, [8, 8]),
    aten.addr: lambda x: aten.addr(x, torch.ones(x.shape[0]), torch.ones(x.shape[1])),
    aten.amax: lambda x: aten.amax(x, [1], True),
    aten.amin: lambda x: aten.amin(x, [1], True),
    aten.aminmax: lambda x: aten.aminmax(x, dim=1, keepdim=True),
    aten.binary_cross_entropy_with_logits: lambda x: aten.binary_cross_entropy_with_logits(x, x, None, None, 0),
    aten.channel_shuffle: lambda x: aten.channel_shuffle(x, 1),
    aten.complex: lambda x: aten.complex(x, x),
    aten.convolution: lambda x: aten.convolution(
        x, torch.ones(x.shape[1], 1, 1, 1), None, [1, 1], [0, 0], [1, 1], True, [0, 0], x.shape[1]
    ),
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
    aten.native_dropout_backward: lambda x: aten.native_dropout_backward(x, x > 0, 2.0),
    aten.native_group_norm: lambda x: aten.native_group_norm(
        x, None, None, x.shape[0], x.shape[1], x.numel() // max(x.shape[0] * x.shape[1], 1), 1, 1e-5
    ),
    aten.native_layer_norm: lambda x: aten.native_layer_norm(x, x.shape[-1:], None, None, 1e-5),
    aten.pixel_unshuffle: lambda x: aten.pixel_unshuffle(x, 1),
    aten.poisson: aten.poisson,
    aten.polar: lambda x: aten.polar(x, x),
    aten.pow: lambda x: aten.pow(2, x),
    aten.rad2deg: aten.rad2deg,
    aten.reflection_pad3d: lambda x: aten.reflection_pad3d(x, [1] * 6),
    aten.renorm: lambda x: aten.renorm(x, 2, 0, 1.0),
    aten.replication_pad3d: lambda x: aten.replication_pad3d(x, [1] * 6),
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
    aten.upsample_trilinear3d: lambda x: aten.upsample_trilinear3d(x, [8, 8, 8], False),
    aten.var: lambda x: aten.var(x, [1], keepdim=True),
    aten.var_mean: lambda x: aten.var_mean(x, [1], keepdim=True),
    aten.view: lambda x: aten.view(x, list(reversed(x.shape))),
}
# These have no row: a probe finds that they keep to no rule.
ELEMENTWISE = set("deg2rad frexp hardshrink hardtanh isinf masked_fill nan_to_num native_dropout_backward pow rad2deg".split())
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
    "emptied rows": lambda: torch.ones(3, 4, 2)[..., :0],
    "repeated rows": lambda: torch.ones(1, 3).expand(4, 3),
    "one item of a row": lambda: torch.ones(1, 8)[0, :1].as_strided((1,), (2,)),
    "three small dims": lambda: torch.ones(5, 1, 1).as_strided((5, 1, 1), (1, 1, 1)),
    "one column of seven": lambda: torch.ones(5, 6, 7)[..., :1],
    "channels last in space": lambda: torch.ones(2, 3, 4, 4, 4).to(memory_format=torch.channels_last_3d),
    "one channel in space": lambda: torch.ones(2, 1, 4, 4, 4).as_strided((2, 1, 4, 4, 4), (64, 1, 16, 4, 1)),
}


def strides(result: Any) -> list[tuple[int, ...]]:
    return [leaf.stride() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def on_fakes(mode: Any, call: Any, x: torch.Tensor) -> list[tuple[int, ...]]:
    with mode:
        return strides(call(torch.empty_strided(x.shape, x.stride())))


@contextlib.contextmanager
def unasked_of(packet: Any, monkeypatch: Any) -> Any:
    """Within, the table does not say that the operator is run for its strides."""
    name = packet.__name__
    with monkeypatch.context() as patch:
        patch.setitem(table.ROWS, name, table.ROWS.get(name, table.NO_ROW)._replace(layout=""))
        patch.setattr(strides_by_rule, "with_probed_strides", lambda asker, func, args, kwargs, result: result)
        patch.setattr(FakeMode, "cache_of_static_sizes", {})
        facts_of.cache_clear()
        yield
    facts_of.cache_clear()


def outcomes(packet: Any, monkeypatch: Any) -> list[tuple[str, Any, Any, Any, Any]]:
    """For each layout: the strides in C, those of the tracer, and those of the tracer and of PyTorch's fake mode without running
    the operator. Layouts on which C raises are left out."""
    found = []
    for name, make in LAYOUTS.items():
        x = make()
        try:
            with torch.no_grad():
                real = strides(CALLS[packet](x))
            asked = on_fakes(FakeWorld().fake_mode, CALLS[packet], x)
            plain = on_fakes(FakeTensorMode(), CALLS[packet], x)
            with unasked_of(packet, monkeypatch):
                unasked = on_fakes(FakeWorld().fake_mode, CALLS[packet], x)
        except Exception:
            continue
        found.append((name, real, asked, unasked, plain))
    return found


def test_each_has_a_call_here():
    asked = {name for name, row in table.ROWS.items() if row.layout}
    assert {packet.__name__ for packet in CALLS} == asked | ELEMENTWISE


@pytest.mark.parametrize("packet", sorted(CALLS, key=str), ids=str)
def test_strides_are_those_of_c_and_would_be_others_unasked(packet, monkeypatch):
    found = outcomes(packet, monkeypatch)
    wrong = [(name, real, asked) for name, real, asked, *_ in found if real != asked]
    assert not wrong
    assert any(real != said for _, real, _, *unasked in found for said in unasked), "take it out of the table"


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


FUNCTIONS = {
    "nearest": lambda x: F.interpolate(x, (3, 4)),
    "nearest by a factor": lambda x: F.interpolate(x, scale_factor=2.0),
    "bilinear": lambda x: F.interpolate(x, (3, 4), mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, (3, 4), mode="bicubic", align_corners=True),
    "sampled": lambda x: F.grid_sample(x, torch.ones(x.shape[0], 2, 3, 2), align_corners=False),
    "upsampled": lambda x: F.upsample_nearest(x, (3, 4)),
    "shrunk": F.hardshrink,
    "shrunk by a method": lambda x: x.hardshrink(0.2),
    "repeated": lambda x: x[0, 0, 0].expand(1, 2, 1, x.shape[3]),
    "made alike": lambda x: torch.broadcast_tensors(x[0, 0, 0], torch.ones(1, 2, 1))[0],
    "taken from a number": lambda x: torch.rsub(x, torch.ones(x.shape[3])),
    "normalised": lambda x: F.batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1]), training=True),
    "normalised as before": lambda x: F.batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1])),
}
IMAGES = {
    "channels last": lambda: torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "one channel": lambda: torch.ones(2, 1, 4, 5).as_strided((2, 1, 4, 5), (20, 1, 5, 1)),
    "one pixel": lambda: torch.ones(2, 3, 1, 1).as_strided((2, 3, 1, 1), (3, 1, 3, 3)),
    "turned around": lambda: torch.ones(5, 4, 3, 2).permute(3, 2, 1, 0),
    "one turned around": lambda: torch.ones(5, 4, 3, 1).permute(3, 2, 1, 0),
}


@pytest.mark.filterwarnings("ignore:.*upsample_nearest")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", IMAGES)
def test_functions_that_pytorch_computes_of_other_operators(layout, dynamic):
    def f(x):
        results = [make(x) for make in FUNCTIONS.values()]
        return results, [y.stride() for y in results]

    for grad in (False, True):
        captured_made(f, lambda: ((IMAGES[layout]().requires_grad_(grad),), {}), dynamic=dynamic)


ORDERS = {
    "a transform": lambda y: torch.fft.rfft(y, dim=0),
    "turned over": lambda y: y.flip(0),
    "put": lambda y: y.index_put((torch.arange(2),), torch.ones(())),
}


@pytest.mark.parametrize("read", [lambda y: y.stride(), lambda y: y.transpose(0, 2).is_contiguous()], ids=["all", "one question"])
@pytest.mark.parametrize("name", ORDERS)
def test_where_sizes_say_in_which_order_dims_lie_each_order_has_its_own_trace(name, read):
    def f(x, a, b):
        y = x.as_strided((2, 3, 4), (a.shape[0], 3, b.shape[0]))
        return read(ORDERS[name](y))

    compiled = optimize("eager", dynamic=True)(f)
    for sizes in ((5, 40), (40, 5), (8, 2), (6, 50), (50, 6)):
        args = torch.ones(256), *map(torch.ones, sizes)
        assert compiled(*args) == f(*args), sizes
    assert len(region_of(compiled).entries()) == 3


SMALL = {
    "added by index": lambda x: x.index_add(0, torch.arange(x.shape[0]), x),
    "put by index": lambda x: x.index_put((torch.arange(x.shape[0]),), x),
    "sorted": lambda x: x.sort(0)[0],
    "without numbers that are none": torch.nan_to_num,
    "normalised": lambda x: x.log_softmax(0),
}


@pytest.mark.parametrize("name", SMALL)
def test_sizes_that_turn_out_to_be_zero_or_one_are_asked_for(name):
    def f(x):
        return SMALL[name](x.t()).stride()

    with config.patch(specialize_zero_one="by_need"):
        compiled = optimize("eager", dynamic=True, recompile_limit=64)(f)
        for shape in itertools.product((3, 0, 1, 7), repeat=2):
            assert compiled(torch.ones(shape)) == f(torch.ones(shape)), shape


def test_all_results_of_log_sigmoid_are_contiguous():
    def f(x):
        return [each.stride() for each in aten.log_sigmoid_forward(x.t())]

    for dynamic in (False, True):
        captured_made(f, lambda: ((torch.ones(3, 4),), {}), dynamic=dynamic)


def test_a_view_of_another_dtype_has_that_dtype_however_it_lies() -> None:
    def f(x: torch.Tensor) -> Any:
        bits = x.view(torch.int32)
        return bits, bits.dtype, bits.stride(), bits.float()

    compiled = optimize("eager")(f)
    for x in (torch.ones(2, 2), torch.ones(2, 2).t(), torch.ones(2, 3).t(), torch.ones(4, 3)[1:].t()):
        expected, seen = f(x), compiled(x)
        assert seen[1:3] == expected[1:3]
        assert seen[3].dtype is torch.float32
        assert torch.equal(seen[0], expected[0]) and torch.equal(seen[3], expected[3])
