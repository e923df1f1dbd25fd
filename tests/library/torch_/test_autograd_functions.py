"""`autograd.Function`: traced through where no gradient can flow, and never with another result than eager's."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Function

from tests.support import breaks, captured, check

X = torch.linspace(-2, 2, 5)


class Cubed(Function):
    @staticmethod
    def forward(ctx, x, power=3):
        ctx.save_for_backward(x)
        ctx.power = power
        return x**ctx.power

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.power * x ** (ctx.power - 1) * 10, None


class Separate(Function):
    """Two results, an integer among the inputs, setup_context."""

    @staticmethod
    def forward(x, n=2):
        return x * n, x.argmax()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, n = inputs
        ctx.n = n
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad, _):
        return grad * ctx.n, None


def test_forward_is_captured_where_nothing_requires_grad():
    def program(x):
        return Cubed.apply(x) + 1

    assert captured(program, X).operations == ["_set_grad_enabled", "pow", "_set_grad_enabled", "add"]


def test_forward_is_captured_without_grad_mode():
    def program(x):
        with torch.no_grad():
            y = Cubed.apply(x, 2)
        return y, y.requires_grad

    captured(program, X.clone().requires_grad_())


def test_setup_context_and_its_defaults():
    captured(lambda x: Separate.apply(x), X)
    captured(lambda x: Separate.apply(x, n=5), X)
    check(lambda x: Separate.apply(x, m=5), X)


def test_gradients_are_those_of_backward():
    def program(x):
        return Cubed.apply(x * 2).sum()

    x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
    breaks(program, x)
    from tracer import optimize

    optimize()(program)(x).backward()
    program(y).backward()
    assert torch.equal(x.grad, y.grad)


class Needs(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * 2 if ctx.needs_input_grad[0] else y * 3


def test_needs_input_grad():
    with torch.no_grad():
        captured(lambda x, y: Needs.apply(x, y), X, X + 1)
        captured(lambda x, y: Needs.apply(x, y), X.clone().requires_grad_(), X + 1)


class Same(Function):
    @staticmethod
    def forward(ctx, x):
        return x


class Dirty(Function):
    @staticmethod
    def forward(ctx, x):
        x.add_(1)
        ctx.mark_dirty(x)
        return x


class Weighted(Function):
    weight = torch.nn.Parameter(torch.ones(5))

    @staticmethod
    def forward(ctx, x):
        return Weighted.weight


@pytest.mark.parametrize("function", [Same, Dirty, Weighted])
def test_an_input_or_a_parameter_that_is_returned_is_left_to_torch(function):
    def program(x):
        y = x * 2
        z = function.apply(y)
        return z, z is y, z.requires_grad, z._base is None

    breaks(program, X)


class Listed(Function):
    @staticmethod
    def forward(ctx, x, y):
        return [x + 1, y]


class Named(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.max(x, 0)


def test_lists_stay_lists_and_named_tuples_become_plain_ones():
    captured(lambda x: Listed.apply(x, 5), X)
    captured(lambda x: (type(Named.apply(x)) is tuple, *Named.apply(x)), X)


def test_context_that_escapes_breaks():
    kept = []

    class Escaping(Function):
        @staticmethod
        def forward(ctx, x):
            kept.append(type(ctx).__name__)
            return x + 1

    check(lambda x: Escaping.apply(x), X)


def test_parameters_that_forward_reads_do_not_make_the_result_require_grad():
    weight = torch.nn.Parameter(torch.ones(5))

    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            return x * weight

    captured(lambda x: (Scaled.apply(x), Scaled.apply(x).requires_grad, torch.is_grad_enabled()), X)


def test_an_exception_leaves_the_grad_mode_as_it_was():
    class Failing(Function):
        @staticmethod
        def forward(ctx, x):
            raise ValueError("no")

    def program(x):
        try:
            Failing.apply(x)
        except ValueError:
            pass
        return x + 1, torch.is_grad_enabled()

    check(program, X)
