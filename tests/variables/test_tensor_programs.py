"""What programs do with tensors: each function is traced at fixed and at symbolic sizes and compared with eager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import tracer
from tests.library.torch_.many_calls import many_calls

CAPTURED: dict[str, Callable[..., Any]] = {}
BREAKS: dict[str, tuple[Callable[..., Any], set[str]]] = {}


def expect_captured(fn):
    """One graph for the first shape, one for all others."""
    CAPTURED[fn.__name__] = fn
    return fn


def expect_breaks(*ids):
    def register(fn):
        BREAKS[fn.__name__] = (fn, set(ids))
        return fn

    return register


# -- writing -----------------------------------------------------------------------------------------------------------


@expect_captured
def writes_to_an_input(x, y):
    x.add_(1)
    x *= 2
    x[0] = y[1]
    x[1:3, 2] = 5.0
    return x


@expect_captured
def writes_through_a_view(x, y):
    row = x[1]
    row.mul_(2)
    return row, x.sum()


@expect_captured
def out_of_a_new_tensor(x, y):
    z = torch.empty(x.shape)
    returned = torch.add(x, y, out=z)
    return z, returned is z


@expect_captured
def out_of_an_input(x, y):
    returned = torch.add(x, y, out=x)
    return returned is x


@expect_captured
def out_that_grows(x, y):
    z = torch.empty(0)
    torch.add(x, y, out=z)
    return z


@expect_captured
def item_assignment(x, y):
    z = x.clone()
    z[0] = 1
    z[:, 1] = y[:, 2]
    z[torch.tensor([0, 1])] = y[:2]
    z[z > 0] = 0
    z[..., 0] = torch.tensor(4.0)
    z[1:, 2:4] = y[1:, :2]
    z[0, 0] += 1
    z[:2] *= 2
    z[0] = torch.arange(6)
    z[: x.size(0) // 2] = 3
    return z


@expect_captured
def metadata_of_a_new_tensor_changes(x, y):
    z = x + 1
    z.t_()
    z.unsqueeze_(0)
    return z, z.shape


@expect_captured
def foreach(x, y):
    torch._foreach_add_([x, y], 1.0)
    return torch._foreach_mul([x, y], 2.0)


# -- reading -----------------------------------------------------------------------------------------------------------


@expect_captured
def metadata(x, y):
    z = x + 1
    return (
        z, x.shape, x.size(), x.size(0), x.size(-1), x.size(dim=1), x.stride(), x.stride(1), x.dim(), x.ndim, x.numel(),
        x.nelement(), len(x), x.dtype, x.device, x.layout, x.requires_grad, x.is_leaf, x.is_cuda, x.element_size(),
        x.itemsize, x.nbytes, x.is_contiguous(), x.T.is_contiguous(), x.is_floating_point(), x.is_complex(), x.type(),
        x.grad, x.grad_fn, x.is_sparse, x.is_same_size(y), x.is_inference(), x.get_device(),
    )  # fmt: skip


@expect_captured
def views(x, y):
    return (
        x.T, x.mT, x.H, x.real, x.data, x.view(-1), x.view(x.size(0), 2, -1), x.reshape(-1, 3), x.expand(2, *x.shape),
        x[None], x[..., None], x.unsqueeze(0), x.transpose(0, 1), x.permute(1, 0), x.narrow(0, 1, 2), x.chunk(2, 1),
        x.split(2, 1), x.unbind(1), x.detach(), x.view_as(y), x.view(torch.int32),
    )  # fmt: skip


@expect_captured
def conversions(x, y):
    return (
        x.to(torch.float64), x.to(x.device), x.half(), x.int(), x.type(torch.int8), x.type_as(y), x.to(y), x.double(),
        x.bool(), x.to("cpu", torch.float16), x.cpu(), x.float() is x, x.contiguous() is x, x.T.contiguous(),
        x.to(torch.float32) is x,
    )  # fmt: skip


@expect_captured
def made_inside(x, y):
    return (
        x.new_zeros(3), x.new_ones((2, 2)), x.new_full((2,), 7), x.new_empty(2).shape, x.new_tensor([1, 2]),
        torch.zeros_like(x), torch.arange(x.size(0)), torch.full((2,), 3), torch.tensor([1.0, 2.0]), torch.tensor(3),
        torch.eye(3), torch.linspace(0, 1, 5), torch.zeros(x.size(0), 2), torch.ones(x.shape), torch.as_tensor([1, 2]),
        torch.as_tensor(x) is x, torch.tensor([[1, 2], [3, 4]], dtype=torch.int8), torch.tensor([x.size(0), 1]),
    )  # fmt: skip


@expect_captured
def indexing(x, y):
    i = torch.tensor([0, 2])
    return (
        x[0], x[0, 1], x[-1], x[:, 1], x[1:3], x[::2], x[..., 1], x[None, 0], x[i], x[i, i], x[[0, 1]], x[(0, 1)],
        x[:, [0, 2]], x[True], x[x.size(0) - 1], x[: x.size(0) // 2], x[i, :, None], x[torch.tensor(1)], x[slice(1, 2)],
        x[:, torch.tensor([True, False, True, False, True, False]).nonzero] if False else x[..., -1:],
    )  # fmt: skip


@expect_captured
def comparisons(x, y):
    z = x > 0
    return (
        z, x == None, x != None, x is None, x == "a", x != "a", x <= y, (x == y).all(), 1 < x, x == 1.5, x is x,  # noqa: E711
        x is not y, None == x, x == [1], x is y.T,  # noqa: E711
    )  # fmt: skip


@expect_captured
def operators(x, y):
    return (
        x + y, x - 1, 2 - x, x * 2.0, 1 / x, x // 2, x % 2, 2**x, x**2, -x, abs(x), +x, x @ y.T, ~(x > 0),
        (x > 0) & (y > 0), (x > 0) | (y > 0), (x > 0) ^ (y > 0), 7 // (x + 10), 5 % (x + 10), x.int() << 1, x.int() >> 1,
        pow(x, 2), x / y, True + x, x * x.size(0), x.size(0) - x, x + (1 + 2j), x.__rsub__(1), x.__add__(y),
    )  # fmt: skip


@expect_captured
def unbound_methods(x, y):
    return (
        torch.Tensor.add(x, y), torch.Tensor.sum(x, 0), torch.Tensor.split(x, 2, 1), torch.Tensor.__add__(x, y),
        torch.Tensor.size(x, 0), list(map(torch.Tensor.sum, [x, y])),
    )  # fmt: skip


@expect_captured
def reductions_and_searches(x, y):
    largest = x.max(1)
    return (
        x.sum(), x.mean(0), largest, largest.values, largest.indices, largest[0], x.sort().indices, x.topk(2)[0], x.std(),
        x.norm(), x.clamp(min=0), x.masked_fill(x > 0, 1.0), x.where(x > 0, y), x.softmax(-1), x.cumsum(0),
        x.gather(1, torch.zeros(x.size(0), 2, dtype=torch.long)), x.index_select(0, torch.tensor([0, 1])), x.flip(0),
        x.roll(1, 0), x.repeat(2, 1), x.tril(), x.diagonal(), x.argmax(), x.matmul(y.T), x.var(unbiased=False),
        x.logsumexp(0), x.aminmax(), x.kthvalue(2), x.mode(), x.unfold(0, 2, 1), x.any(), x.all(dim=1), x.prod(),
    )  # fmt: skip


@expect_captured
def joining(x, y):
    return (
        torch.einsum("ij,kj->ik", x, y), torch.cat([x, y]), torch.stack((x, y), 1), torch.tensordot(x, y.T, 1),
        torch.cdist(x, y), torch.meshgrid(x[0], y[0], indexing="ij"), torch.broadcast_tensors(x, y[0]),
        torch.split(x, [1, 5], 1), torch.chunk(x, 2, 1), torch.block_diag(x, y), torch.cat((x, y), dim=-1), torch.hstack([x, y]),
        torch.where(x > 0, x, 0.0), F.pad(x, (1, 2)), F.one_hot(torch.tensor([0, 2]), 3),
    )  # fmt: skip


@expect_captured
def sizes_as_numbers(x, y):
    rows, columns = x.shape
    return (
        x.view(rows * columns), x.shape[0] * 2, x.shape == y.shape, x.shape[1:], x.shape + (3,), list(x.shape),
        x.shape.numel(), columns == 6, tuple(x.shape), x.size()[-1], max(rows, columns), columns // rows, -rows,
        rows > 0, isinstance(rows, int), x.new_zeros(rows, columns * 2).shape, torch.Size([1, rows]), columns in x.shape,
    )  # fmt: skip


@expect_captured
def dtypes_and_devices(x, y):
    return (
        x * 1, torch.finfo(x.dtype).min, torch.iinfo(torch.int32).max, torch.promote_types(x.dtype, torch.float64),
        torch.result_type(x, 1), torch.can_cast(torch.int, torch.float), torch.float32.is_floating_point,
        torch.device("cpu"), torch.device("cpu", 0).index, x.dtype == torch.float32, x.dtype.itemsize,
        torch.is_floating_point(x), torch.numel(x), torch.Size([1, 2]), torch.get_default_dtype(), x.device.type,
        torch.device("cpu") == x.device, torch.is_complex(x), str(x.dtype), f"{x.device}",
    )  # fmt: skip


@expect_captured
def types_of_tensors(x, y):
    return (
        x + 1, type(x), isinstance(x, torch.Tensor), isinstance(x, torch.nn.Parameter), x.__class__, torch.is_tensor(x),
        torch.is_tensor(3), type(x) is torch.Tensor, isinstance(x, (int, torch.Tensor)), hasattr(x, "foo"),
        getattr(x, "bar", 3), hasattr(x, "sum"), callable(x), torch.overrides.has_torch_function((x,)),
    )  # fmt: skip


@expect_captured
def attributes_of_a_new_tensor(x, y):
    z = x + 1
    z.foo = 3
    z.bar = y
    return z.foo, z


@expect_captured
def attributes_of_an_input(x, y):
    x.foo = [1]
    x.foo.append(2)
    return x * 1, x


@expect_captured
def gradient_of_an_input_is_set(x, y):
    x.grad = y * 2
    return x.grad


@expect_captured
def tensors_as_keys_and_members(x, y):
    d = {x: 1}
    return x + 1, d[x], x in d, y in d, x in [x, y]


@expect_captured
def random_numbers(x, y):
    return (
        torch.rand(3), torch.randn_like(x), torch.randint(0, 5, (3,)), x.clone().uniform_(), x.clone().normal_(),
        torch.bernoulli(torch.full((3,), 0.5)), torch.randperm(5), F.dropout(x, 0.5), torch.multinomial(x.softmax(1), 2),
        torch.randn(x.size(0), generator=None), x.clone().exponential_(), torch.normal(x, 1.0),
    )  # fmt: skip


@expect_captured
def requires_grad_of_a_new_tensor(x, y):
    z = x * 1
    z.requires_grad_()
    w = (z * 2).detach()
    w.requires_grad = True
    return (z * 2).detach(), z.requires_grad, w.requires_grad, w.data


@expect_captured
def facts_by_check(x, y):
    torch._check(x.size(0) > 2)
    torch._check(x.size(1) == 6, lambda: "six columns")
    return x + 1


@expect_captured
def data_known_now(x, y):
    two = torch.tensor(2)
    return x + two.item(), 1 if torch.tensor(3) > 2 else 0, x * int(two)


# -- what ends the graph -----------------------------------------------------------------------------------------------


@expect_breaks("tensor-item")
def item(x, y):
    return x.sum().item() + 1


@expect_breaks("data-dependent-method")
def tolist(x, y):
    return (x + 1).tolist()


@expect_breaks("data-dependent-operator")
def nonzero(x, y):
    return (x + 1).nonzero()


@expect_breaks("data-dependent-operator")
def mask(x, y):
    return x[x > 0] * 2


@expect_breaks("data-dependent-operator")
def where_of_one(x, y):
    return torch.where(x > 0)


@expect_breaks("data-dependent-method", "data-dependent-branch", "tensor-item")
def python_numbers(x, y):
    return float(x.sum()), int(x.sum()), bool(x.sum())


@expect_breaks("data-dependent-branch")
def branch(x, y):
    return x if x.sum() > 0 else y


@expect_breaks("data-dependent-branch")
def member_by_value(x, y):
    return 1.0 in x + 1


@expect_breaks("unsupported-method")
def resize(x, y):
    z = x.clone()
    z.resize_(2, 2)
    return z.shape


@expect_breaks("mutation-of-input")
def metadata_of_an_input_changes(x, y):
    z = x + 1
    x.t_()
    return x, z


@expect_breaks("mutation-of-input")
def input_starts_to_require_grad(x, y):
    x.requires_grad_()
    return x * 2


@expect_breaks("mutation-of-input", "autograd-in-trace")
def input_gets_a_history(x, y):
    x.mul_((y * 1).requires_grad_())
    return x * 2


@expect_captured
def data_is_set(x, y):
    x.data = y
    return x + 1


@expect_breaks("mutation-of-input", "autograd-in-trace")
def backward(x, y):
    z = (x.requires_grad_() * y).sum()
    z.backward()
    return x.grad


@expect_captured
def hook(x, y):
    z = x * 1
    z.requires_grad_()
    z.register_hook(lambda grad: grad * 2)
    return z * 1


@expect_breaks("data-dependent-method")
def to_numpy_and_on(x, y):
    return (x + 1).numpy().tolist()


@expect_captured
def numpy_scalar(x, y):
    return x * np.float64(2.0)


@expect_captured
def parameter(x, y):
    return torch.nn.Parameter(x) * 2


@expect_breaks("operator-failed-in-trace")
def shapes_do_not_fit(x, y):
    return (x + 1) @ y


@expect_breaks("operator-failed-in-trace")
def caught(x, y):
    try:
        return x.view(5)
    except RuntimeError:
        return x + 1


@expect_breaks("data-dependent-operator")
def equality_of_data(x, y):
    return torch.equal(x, y), x.equal(x), torch.allclose(x, y)


@expect_breaks("unsupported-operator", "unsupported-builtin")
def divmod_of_a_tensor(x, y):
    return divmod(x, 2)


def inputs(rows: int) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(rows)
    return torch.randn(rows, 6, generator=generator), torch.randn(rows, 6, generator=generator)


CALLS = [inputs(4), inputs(4), inputs(5), inputs(7)]


@pytest.mark.parametrize("dynamic", [None, True], ids=["automatic", "dynamic"])
@pytest.mark.parametrize("name", CAPTURED)
def test_captured(name, dynamic):
    traced = many_calls(CAPTURED[name], CALLS, dynamic=dynamic)
    assert not traced.breaks, "\n".join(map(str, traced.breaks))
    assert len(traced.graphs) == (1 if dynamic else 2)


@pytest.mark.parametrize("name", BREAKS)
def test_breaks_and_agrees(name):
    fn, ids = BREAKS[name]
    traced = many_calls(fn, CALLS[:3])
    assert traced.breaks and set(traced.break_ids) <= ids, traced.break_ids


def test_static_loop_over_rows_traces_each_length():
    def loop(x, y):
        total = 0
        for row in x:
            total = total + row.sum()
        return total

    traced = many_calls(loop, CALLS)
    assert not traced.breaks and len(traced.graphs) == 3


def test_conversion_to_what_a_tensor_is_leaves_no_operation():
    def fn(x, y):
        return x.to(torch.float32).float().contiguous() + 1

    assert many_calls(fn, CALLS[:1]).operations == ["add"]


def test_a_copy_is_a_copy():
    def fn(x, y):
        z = copy.copy(x)
        z += 1
        return z, copy.deepcopy(y)

    many_calls(fn, CALLS[:2])


def test_numbers_are_captured_where_the_graph_must_not_break():
    def program(x, y):
        numbers = [number * 2 for number in y.tolist()]
        return numbers, x.sum().item() + 1, 3 in y, x.shape[0] in y

    traced = tracer.compile(program, fullgraph=True, recompile_limit=1)
    with tracer.config.patch(error_on_recompile=True):
        for y in (torch.tensor([3, 1]), torch.tensor([5, 2])):
            x = torch.randn(2)
            assert traced(x, y) == program(x, y)
