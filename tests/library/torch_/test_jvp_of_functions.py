"""The jvp of an `autograd.Function` under forward AD is traced where an input has a tangent, and gives what CPython gives."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Function, forward_ad

import tracer
from tests.support import breaks, captured, check

X = torch.linspace(-2, 2, 6)
T = torch.linspace(0, 1, 6)


class Exponential(Function):
    """As in PyTorch's documentation, with a wrong factor, by which its jvp can be told from what forward would give."""

    @staticmethod
    def forward(ctx, x):
        ctx.result = x.exp()
        return ctx.result

    @staticmethod
    def jvp(ctx, tangent):
        tangent = 10 * tangent * ctx.result
        del ctx.result
        return tangent


class Two(Function):
    @staticmethod
    def forward(ctx, a, n, b):
        ctx.save_for_forward(a, b)
        ctx.save_for_backward(a)
        ctx.n = n
        return a * b, a + n

    @staticmethod
    def jvp(ctx, of_a, of_n, of_b):
        assert of_n is None
        a, b = ctx.saved_tensors
        return of_a * b * 10 + of_b * a, of_a * ctx.n

    @staticmethod
    def backward(ctx, of_product, of_sum):
        (a,) = ctx.saved_tensors
        return of_product * 7, None, of_sum * a


class Materializing(Function):
    materializes = False

    @staticmethod
    def forward(ctx, a, b):
        ctx.set_materialize_grads(False)
        return a + b, a.argmax()

    @staticmethod
    def jvp(ctx, of_a, of_b):
        return of_a * 3 if of_b is None else of_b * 5, None


class WithSetup(Function):
    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return tangent * x.cos() * 3


class WithoutJvp(Function):
    @staticmethod
    def forward(ctx, x):
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Storing(Exponential):
    @staticmethod
    def jvp(ctx, tangent):
        ctx.kept = tangent
        return tangent


def _unpacked(function):
    def program(x, t):
        with forward_ad.dual_level():
            found = function(forward_ad.make_dual(x, t), x)
            return [forward_ad.unpack_dual(each) for each in (found if isinstance(found, tuple) else (found,))]

    return program


PROGRAMS = {
    "one result": lambda d, x: Exponential.apply(d),
    "two results": lambda d, x: Two.apply(d, 3, x),
    "another input": lambda d, x: Two.apply(x, 2, d),
    "tangents that are None": lambda d, x: Materializing.apply(d, x)[0],
    "with setup_context": lambda d, x: WithSetup.apply(d),
    "without tangents": lambda d, x: WithoutJvp.apply(x) + d,
    "one behind the other": lambda d, x: Exponential.apply(WithSetup.apply(d)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_jvp_is_captured(name):
    captured(_unpacked(PROGRAMS[name]), X, T)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_jvp_is_compiled(name):
    program = _unpacked(PROGRAMS[name])
    result = tracer.optimize("aot_eager", fullgraph=True)(program)(X, T)
    torch.testing.assert_close([tuple(pair) for pair in result], [tuple(pair) for pair in program(X, T)])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_jvp_beside_a_backward(backend):
    def program(x, t):
        x = x.detach().requires_grad_()
        with forward_ad.dual_level():
            product, total = Two.apply(forward_ad.make_dual(x, t), 3, x * 2)
            product, total = forward_ad.unpack_dual(product), forward_ad.unpack_dual(total)
        loss = product.primal.sum() + (product.tangent * 3).sum() + total.primal.sum()
        return (*product, *total, *torch.autograd.grad(loss, x))

    expected = program(X, T)
    torch.testing.assert_close(tracer.optimize(backend, fullgraph=True)(program)(X, T), expected)


def test_a_class_without_jvp_raises_as_in_cpython():
    assert isinstance(check(_unpacked(lambda d, x: WithoutJvp.apply(d)), X, T).error, NotImplementedError)


def test_a_jvp_that_stores_something_for_backward_breaks_the_graph():
    breaks(_unpacked(lambda d, x: Storing.apply(d)), X, T)
