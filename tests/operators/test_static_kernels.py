"""What operators give of fakes whose sizes are all ints is found by rules in C++, and lies as the real results do."""

from __future__ import annotations

import contextlib
import random
import warnings

import pytest
import torch
from torch.testing._internal import common_methods_invocations as database
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from shapes.policy import DimPolicy
from tracer.graph.fakes.fake_mode import FakeMode
from tracer.graph.fakes.fake_tensors import FakeWorld
from tracer.operators import static_kernels
from tracer.sources.roots import LocalSource

VIEWS = {
    "view": lambda x: x.view(6, 4),
    "view of nothing": lambda x: x[:0].view(0, 3, 4),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "transpose": lambda x: x.transpose(0, 2),
    "permute": lambda x: x.permute(2, 0, 1),
    "t": lambda x: x[0].t(),
    "slice with a step": lambda x: x[:, ::2, 1:],
    "select": lambda x: x.select(1, -1),
    "expand": lambda x: x.unsqueeze(1).expand(-1, 5, -1, -1),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 3), 5),
    "diagonal": lambda x: x.diagonal(1, 1, 2),
    "unfold": lambda x: x.unfold(2, 2, 1),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "of another dtype": lambda x: x.view(torch.int32),
    "real": lambda x: torch.complex(x, x).real,
    "conj": lambda x: torch.complex(x, x).conj(),
}


def described(tensor):
    lies = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
    return tensor.dtype, *lies, tensor.is_conj(), tensor.is_neg(), tensor._is_view()


@pytest.fixture
def asked(monkeypatch):
    """The operators for which PyTorch's rules were asked."""
    seen = []
    original = FakeMode._dispatch_impl

    def noted(self, func, types, args, kwargs):
        seen.append(func)
        return original(self, func, types, args, kwargs)

    monkeypatch.setattr(FakeMode, "_dispatch_impl", noted)
    return seen


@pytest.mark.parametrize("name", VIEWS)
def test_a_static_view_lies_as_the_real_one(name):
    real = torch.arange(24.0).view(2, 3, 4)
    world = FakeWorld()
    fake = world.fakify(real, LocalSource("x"), [DimPolicy.STATIC] * 3)
    assert described(world.run(VIEWS[name], (fake,))) == described(VIEWS[name](real))


def test_torchs_rules_are_not_asked_for_static_views(asked):
    world = FakeWorld()
    fake = world.fakify(torch.zeros(2, 3, 4), LocalSource("x"), [DimPolicy.STATIC] * 3)
    for name in ("view", "unsqueeze", "transpose", "permute", "slice with a step", "select", "expand", "as_strided"):
        world.run(VIEWS[name], (fake,))
    assert asked == []


def test_a_view_that_does_not_exist_raises_as_torchs_rule_does():
    world = FakeWorld()
    fake = world.fakify(torch.zeros(2, 3, 4), LocalSource("x"), [DimPolicy.STATIC] * 3)
    with pytest.raises(RuntimeError, match="invalid for input of size"):
        world.run(lambda x: x.view(5, 5), (fake,))
    with pytest.raises(IndexError):
        world.run(lambda x: x.select(1, 7), (fake,))


# -- other operators, as the database of PyTorch calls them -----------------------------------------------------------

aten = torch.ops.aten
SAMPLES = 4  # of each operator, dtype and layout


def of_database():
    """The operators of the database that have the name of a rule."""
    rules = {
        name.split("::")[1].split(".")[0]
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("shapetracer_meta::")
    }
    known = {"softmax": "_softmax", "log_softmax": "_log_softmax", "layer_norm": "native_layer_norm", "linear": "addmm"}
    rules |= {func._opname for func in (*static_kernels._FACTORIES, *static_kernels._COPIES)}
    plain = [(op, op.name.rpartition(".")[2]) for op in database.op_db if not op.variant_test_name]
    return [op for op, name in plain if known.get(name, name) in rules]


def fake_of(world, tensor):
    return world.fakify(tensor, LocalSource("x"), [DimPolicy.STATIC] * tensor.dim())


def in_another_layout(tensor, draw):
    """The same elements, with gaps or in another order of the dims."""
    if not tensor.dim() or tensor.layout is not torch.strided:
        return tensor
    if draw.random() < 0.5:
        order = draw.sample(range(tensor.dim()), tensor.dim())
        return tensor.permute(order).contiguous().permute([order.index(dim) for dim in range(tensor.dim())])
    spread = tensor.new_zeros([2 * size for size in tensor.shape])[tuple(slice(None, None, 2) for _ in tensor.shape)]
    return spread.copy_(tensor)


def torch_takes(world, func, args, kwargs):
    """Whether PyTorch's rule in Python has a result: what fails on data alone passes there as well."""
    try:
        world.fake_mode._dispatch_impl(func, (), args, kwargs)
    except Exception:
        return False
    return True


class BesideTheRealOnes(TorchDispatchMode):
    """Each operator that runs within is tried on fakes of its arguments first."""

    def __init__(self):
        super().__init__()
        self.asked, self.answered, self.only_here = set(), set(), []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, world = kwargs or {}, FakeWorld()
        if static_kernels._rule_in_c(func) is None and func not in static_kernels._FACTORIES:
            return func(*args, **kwargs)
        fakes = tree_map_only(torch.Tensor, lambda tensor: fake_of(world, tensor), (args, kwargs))
        result = static_kernels.static_result(world.fake_mode, func, *fakes)
        self.asked.add(func)
        try:
            real = func(*args, **kwargs)
        except Exception:
            if result is not None and not torch_takes(world, func, *fakes):
                self.only_here.append(func)
            raise
        if result is not None:
            self.answered.add(func)
            assert [described(each) for each in tree_leaves(result)] == [described(each) for each in tree_leaves(real)], func
            assert all(each.device == other.device for each, other in zip(tree_leaves(result), tree_leaves(real)))
        return real


def run_samples(op, dtype, draw):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for count, sample in enumerate(op.sample_inputs("cpu", dtype)):
            if count == SAMPLES:
                return
            for change in (lambda tensor: tensor, lambda tensor: in_another_layout(tensor, draw)):
                args, kwargs = tree_map_only(torch.Tensor, change, ((sample.input, *sample.args), dict(sample.kwargs)))
                op.op(*args, **kwargs)


@pytest.mark.parametrize("op", of_database(), ids=lambda op: op.name)
def test_results_on_fakes_are_like_the_real_ones(op):
    draw = random.Random(op.name)
    with BesideTheRealOnes():
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
            if dtype in op.supported_dtypes("cpu"):
                run_samples(op, dtype, draw)


@pytest.mark.parametrize("op", [op for op in of_database() if op.error_inputs_func], ids=lambda op: op.name)
def test_what_torch_refuses_is_refused(op):
    for wrong in op.error_inputs("cpu"):
        sample = wrong.sample_input
        with BesideTheRealOnes() as mode, contextlib.suppress(RuntimeError, TypeError, ValueError, IndexError):
            op.op(sample.input, *sample.args, **sample.kwargs)
        assert not mode.only_here


def test_the_operators_of_a_transformer_have_rules():
    tokens, weight, mask = torch.arange(6).view(2, 3), torch.randn(8, 4), torch.ones(2, 3, dtype=torch.bool)
    with BesideTheRealOnes() as mode:
        hidden = torch.nn.functional.embedding(tokens, weight) * 2.0 + torch.arange(3, 7)
        hidden = torch.nn.functional.layer_norm(hidden, (4,), torch.ones(4), torch.zeros(4))
        hidden = torch.nn.functional.gelu(torch.nn.functional.linear(hidden, torch.randn(4, 4), torch.randn(4)))
        hidden = torch.where(mask[..., None], hidden, torch.zeros(())).softmax(-1) @ torch.randn(2, 4, 3)
        torch.cat([hidden[..., 1:].neg(), hidden.cos()], -1).to(torch.float64)
        hidden[torch.tensor([1, 0])].mean(-1, keepdim=True).rsqrt().pow(2).clone()
    assert mode.asked == mode.answered
    of_all = {aten.embedding.default, aten.native_layer_norm.default, aten.addmm.default, aten.where.self, aten.bmm.default}
    assert mode.answered >= of_all | {aten.index.Tensor, aten._to_copy.default, aten.cat.default, aten.arange.start}


def test_numbers_count_less_than_tensors_where_dtypes_are_found():
    world = FakeWorld()
    small = fake_of(world, torch.zeros(3, dtype=torch.int8))
    results = [(small, 2), (small, 2.0), (small, True), (fake_of(world, torch.zeros(3, dtype=torch.float16)), 2.0)]
    found = [static_kernels.static_result(world.fake_mode, aten.mul.Tensor, args, {}).dtype for args in results]
    assert found == [torch.int8, torch.float32, torch.int8, torch.float16]


def test_what_is_not_plain_is_left_to_torch():
    world = FakeWorld()
    plain, conjugate = fake_of(world, torch.zeros(3)), fake_of(world, torch.zeros(3, dtype=torch.complex64).conj())
    cases = [
        (aten.mul.Tensor, (conjugate, plain), {}),
        (aten.index.Tensor, (plain, [fake_of(world, torch.ones(3, dtype=torch.bool))]), {}),
        (aten.arange.default, (3.5,), {"device": torch.device("cpu")}),
        (aten.arange.default, (3,), {"device": torch.device("meta")}),
        (aten._to_copy.default, (plain,), {"device": torch.device("meta")}),
        (aten.add_.Tensor, (plain, plain), {}),
    ]
    for func, args, kwargs in cases:
        assert static_kernels.static_result(world.fake_mode, func, args, kwargs) is None, func


def test_torchs_rules_are_not_asked_for_what_has_a_rule_in_c(asked):
    world = FakeWorld()
    fake = fake_of(world, torch.zeros(2, 3, 4))
    world.run(lambda x: torch.cat([(x * 2 + 1).tanh(), x.to(torch.float64)]).sum(-1) >= torch.zeros(3), (fake,))
    assert asked == []
