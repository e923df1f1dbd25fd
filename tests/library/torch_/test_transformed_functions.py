"""`autograd.Function` under transforms of torch.func: its forward and its backward are graphs there too, with eager's results."""

from __future__ import annotations

import pytest
import torch
from torch import func, vmap
from torch.autograd import Function

from tests.support import breaks, captured
from tracer import optimize

X = torch.linspace(-2, 2, 12).reshape(4, 3)
W = torch.linspace(0.5, 1.5, 3)


class Scaled(Function):
    """A number among the inputs, a result that has no gradient, gradients only where they are needed. Both gradients are wrong on
    purpose, so that they differ from those that autograd would find by itself."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, y, k):
        return x.exp() * y * k, (x + y).argmax()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y, ctx.k = inputs
        ctx.save_for_backward(x, y, output[0])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        x, _, out = ctx.saved_tensors
        first = grad * out * 10 if ctx.needs_input_grad[0] else None
        return first, grad * x.exp() * ctx.k * 7 if ctx.needs_input_grad[1] else None, None


class Summed(Function):
    """Keeps a shape, and a tensor that it makes for backward."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.shape, ctx.cosine = inputs[0].shape, inputs[0].cos()

    @staticmethod
    def backward(ctx, grad):
        return grad.expand(ctx.shape) * ctx.cosine * 3


class WithoutRule(Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return grad * 5 * ctx.saved_tensors[0]


class WithJvp(Function):
    """Two inputs, and another result for jvp and for backward than the derivative."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x.exp() * y, y.view_as(y)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(*inputs, output[0])
        ctx.save_for_backward(inputs[0], output[0])
        ctx.factor = 2

    @staticmethod
    def jvp(ctx, first, second):
        x, y, out = ctx.saved_tensors
        return out * first * 3 + x.exp() * second, second * ctx.factor * y.sin()

    @staticmethod
    def backward(ctx, grad, _):
        x, out = ctx.saved_tensors
        return grad * out * 5, grad * x.exp()


class MakesForJvp(Function):
    """Its setup_context computes what jvp and backward read."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        slope = inputs[0] ** 2 * 3
        ctx.save_for_backward(slope)
        ctx.save_for_forward(slope)

    @staticmethod
    def jvp(ctx, tangent):
        return ctx.saved_tensors[0] * tangent

    @staticmethod
    def backward(ctx, grad):
        return ctx.saved_tensors[0] * grad


class RaisesInJvp(WithJvp):
    @staticmethod
    def jvp(ctx, first, second):
        raise ValueError("no tangents")


class SavesWhatItReturns(Function):
    @staticmethod
    def forward(x, y):
        return x * y, y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, first, second):
        return first, second


class WithoutSetup(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad


def _exponential(x, y):
    return WithJvp.apply(x, y)[0].sum()


def _scaled(x, y):
    return Scaled.apply(x, y, 3)[0].sum()


PROGRAMS = {
    "grad": lambda x: func.grad(_scaled)(x, x + 1),
    "grad of the second": lambda x: func.grad(_scaled, argnums=1)(x, x + 1),
    "grad of both": lambda x: func.grad(_scaled, argnums=(0, 1))(x, x + 1),
    "grad in grad": lambda x: func.grad(lambda a: func.grad(lambda b: _scaled(a, b))(a).sum())(x),
    "grad where another level wants the other input": lambda x: func.grad(
        lambda a: func.grad(lambda b: Scaled.apply(a, b, 2)[0].sum())(a * 2).sum() + _scaled(a, W)
    )(x),
    "gradients per sample": lambda x: vmap(func.grad(_scaled), in_dims=(0, None))(x, x[0]),
    "vmap": lambda x: vmap(lambda a: Scaled.apply(a, x[0], 2))(x),
    "jacrev": lambda x: func.jacrev(lambda a: Scaled.apply(a, a * 2, 2)[0])(x),
    "jacrev without a rule for vmap": lambda x: func.jacrev(lambda a: WithoutRule.apply(a))(x[0]),
    "vjp": lambda x: func.vjp(lambda a: WithoutRule.apply(a), x)[1](x),
    "what setup_context makes": lambda x: vmap(func.grad(lambda a: Summed.apply(a) * 2))(x),
    "jacrev of what setup_context makes": lambda x: func.jacrev(lambda a: Summed.apply(a) * a)(x[0]),
    "jvp": lambda x: func.jvp(WithJvp.apply, (x, x + 1), (x.cos(), x.sin())),
    "jvp of one input": lambda x: func.jvp(lambda a: WithJvp.apply(x.sin(), a), (x,), (x,)),
    "jvp where no input has a tangent": lambda x: func.jvp(lambda a: a * WithJvp.apply(x, x)[0], (x,), (x,)),
    "jvp in jvp": lambda x: func.jvp(lambda a: func.jvp(lambda b: WithJvp.apply(b, a)[0], (a,), (x,))[1], (x,), (x + 1,)),
    "grad of jvp": lambda x: func.grad(lambda a: func.jvp(lambda b: WithJvp.apply(b, x)[0], (a,), (x,))[1].sum())(x),
    "jvp of grad": lambda x: func.jvp(func.grad(_exponential), (x, x + 1), (x, x)),
    "jacfwd": lambda x: func.jacfwd(lambda a: WithJvp.apply(a, x[0])[0])(x[1]),
    "hessian": lambda x: func.hessian(_exponential)(x[0], x[1]),
    "jvp in vmap": lambda x: vmap(lambda a: func.jvp(lambda b: WithJvp.apply(b, a)[0], (a,), (a + 1,)))(x),
    "what setup_context makes for jvp": lambda x: func.jvp(MakesForJvp.apply, (x,), (x + 1,)),
    "hessian of what setup_context makes": lambda x: func.hessian(lambda a: MakesForJvp.apply(a).sum())(x[0]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_captured_under_a_transform(name):
    assert captured(PROGRAMS[name], X).operations.count("call_transformed") == 1


LEFT_TO_CPYTHON = {
    "no rule for jvp": lambda x: func.jvp(lambda a: WithoutRule.apply(a), (x,), (x,)),
    "vmap without a rule": lambda x: vmap(lambda a: WithoutRule.apply(a))(x),
    "a jvp that raises": lambda x: func.jvp(lambda a: a + RaisesInJvp.apply(x, x)[0], (x,), (x,)),
    "jvp of an input that is saved and returned": lambda x: func.jvp(SavesWhatItReturns.apply, (x, x), (x, x)),
    "vmap in jvp": lambda x: func.jvp(lambda a: vmap(WithJvp.apply)(a, x), (x,), (x + 1,)),
    "no setup_context": lambda x: func.grad(lambda a: WithoutSetup.apply(a).sum())(x),
}


@pytest.mark.parametrize("name", LEFT_TO_CPYTHON)
def test_a_transform_with_a_rule_of_its_own_breaks(name):
    assert breaks(LEFT_TO_CPYTHON[name], X).break_ids[0] == "autograd-in-trace"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", ["gradients per sample", "vmap", "grad where another level wants the other input"])
def test_gradients_pass_through_at_every_size(name, backend):
    program = PROGRAMS[name]
    traced = optimize(backend, dynamic=True)(program)
    for rows in (4, 7):
        gradients = []
        for run in (program, traced):
            x = torch.linspace(-1, 1, rows * 3).reshape(rows, 3).requires_grad_()
            result = run(x)
            (result[0] if isinstance(result, tuple) else result).sum().backward()
            gradients.append(x.grad)
        torch.testing.assert_close(*gradients)
