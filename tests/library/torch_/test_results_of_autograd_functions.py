"""What functions of `autograd.Function` return and change besides new tensors: in the graph, with eager's gradients."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Function

from tests.support import breaks, captured
from tests.support.comparing import Comparison
from tests.support.leaves import leaf
from tracer import optimize

X = torch.linspace(-2, 2, 5)


def differentiated(program, make, backend="eager", over=lambda results: results, fullgraph=True):
    """What the program gives and the gradients that come of it, in CPython and under a backend."""
    outcomes = []
    for run in (program, optimize(backend, fullgraph=fullgraph)(program)):
        for _ in range(2):
            inputs = make()
            try:
                results = run(*inputs)
                tensors = [r for r in over(results) if isinstance(r, torch.Tensor) and r.requires_grad]
                sum(each.sum() * (n + 2) for n, each in enumerate(tensors)).backward()
            except Exception as error:
                results = type(error), str(error)
            outcomes.append([*results, *inputs, *(each.grad for each in inputs if each.is_leaf)])
    for outcome in outcomes[1:]:
        Comparison().same(outcomes[0], outcome, "program")
    return outcomes[0]


class Various(Function):
    """Results of many kinds: one that is no tensor is returned as it is, and gets no gradient."""

    @staticmethod
    def forward(ctx, x, n):
        return x * n, None, n, x.shape[0] * 2, (1, "two"), x > 0, x.shape

    @staticmethod
    def backward(ctx, grad, *others):
        assert [other is None for other in others] == [True] * 4 + [False, True]
        return grad * 7, None


class VariousOfSetup(Various):
    """The same with setup_context, and None in place of zeros for missing gradients."""

    @staticmethod
    def forward(x, n):
        return Various.forward(None, x, n)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[5])
        ctx.set_materialize_grads(False)
        ctx.n = output[2]

    @staticmethod
    def backward(ctx, grad, *others):
        assert others == (None,) * 6
        return grad * ctx.n, None


class Reshaping(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(5, 1)

    @staticmethod
    def backward(ctx, grad):
        return grad.view(5) * 3


class ReshapingBesides(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(5, 1), x * 2

    @staticmethod
    def backward(ctx, grad, other):
        return grad.view(5) * 3 + other * 5


class Same(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


class SameTwice(Function):
    @staticmethod
    def forward(ctx, x):
        return x, x

    @staticmethod
    def backward(ctx, grad, other):
        return grad * 2 + other * 3


class NewTwice(SameTwice):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        return y, y


class Dirty(Function):
    @staticmethod
    def forward(ctx, x, n=2):
        x.add_(1).mul_(n)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad, n=None):
        return grad * 7 + ctx.saved_tensors[0]


class DirtyOfSetup(Function):
    @staticmethod
    def forward(x, n):
        return x.mul_(n)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])
        ctx.n = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.n * 11, None


class Swapping(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x.add_(1), y.mul_(2))
        ctx.save_for_backward(x, y)
        return y, x

    @staticmethod
    def backward(ctx, grad, other):
        x, y = ctx.saved_tensors
        return other * y, grad * x


class Averaging(Function):
    """Writes to an input that it does not return."""

    @staticmethod
    def forward(ctx, x, mean):
        mean.mul_(0.9).add_(x.mean() * 0.1)
        ctx.save_for_backward(x)
        return x - mean

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0], None


class Hesitant(Function):
    """Its backward treats a missing gradient otherwise than zeros."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return x * 2, y * 3, x > y

    @staticmethod
    def backward(ctx, grad, other, nothing):
        if grad is None:
            return (None if other is None else other * 10), None
        return grad * 5, (grad * 6 if other is None else other * 7)


class Careless(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


class Nothing(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return None


def in_turn(x, mean):
    first = Averaging.apply(x * 1, mean)
    return first, mean * 2, Averaging.apply(first, mean)


def dirty_part(x):
    y = x * 1
    part = y[:2]
    same = Dirty.apply(part) is part
    return y.exp(), part, same


def dirty_twice(x):
    y = x * 1
    z = Dirty.apply(DirtyOfSetup.apply(y, 3))
    return y * 2, z is y, y.requires_grad


def dirty_that_required_none(x):
    y = torch.zeros(5)
    first, second = Swapping.apply(y, x * 1)
    return y * 2, first, second is y, y.requires_grad


OF_ONE = {
    "results that are no tensors": lambda x: Various.apply(x * 1, 3),
    "the same with setup_context": lambda x: VariousOfSetup.apply(x * 1, 3),
    "a view": lambda x: (Reshaping.apply(x * 1),),
    "a view of a leaf": lambda x: (Reshaping.apply(x),),
    "a view, and more": lambda x: ReshapingBesides.apply(x * 1),
    "part of an input that is handed on": lambda x: (Same.apply(x * 1)[1:],),
    "a new tensor twice": lambda x: (*NewTwice.apply(x * 1), x),
    "an input that is written to": dirty_twice,
    "part of one": dirty_part,
    "one that required no gradient": dirty_that_required_none,
    "an operation on no gradient": lambda x: (Nothing.apply(Careless.apply(x * 1)) + x,),
}
OF_TWO = {
    "two that are written to": lambda x, y: Swapping.apply(x * 1, y * 1),
    "statistics": lambda x, y: (*in_turn(x, y.detach()), y),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", OF_ONE)
def test_what_a_function_may_return_and_change(name, backend):
    if name == "an operation on no gradient" and backend != "eager":
        pytest.skip("fails where it is compiled, not where it is differentiated")
    differentiated(OF_ONE[name], lambda: (leaf(),), backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", OF_TWO)
def test_what_a_function_of_two_may_change(name, backend):
    differentiated(OF_TWO[name], lambda: (leaf(), leaf(1.0)), backend)


def test_functions_that_need_no_gradient_may_return_and_change_the_same():
    captured(lambda x: (Various.apply(x * 1, 3), Reshaping.apply(x * 1), Same.apply(x) is x), X)
    captured(lambda x: (Dirty.apply(x) is x, DirtyOfSetup.apply(x, 2)), X)
    with torch.no_grad():
        captured(lambda x: (Same.apply(x), Same.apply(x).requires_grad, Same.apply(x) is x), leaf())
        breaks(lambda x: Dirty.apply(x), leaf())


@pytest.mark.parametrize("kept", [(0,), (1,), (0, 1)])
def test_gradients_that_do_not_come_are_told_from_zeros(kept):
    def program(x, y):
        return Hesitant.apply(x, y)

    outcome = differentiated(program, lambda: (leaf(), leaf(1.0)), over=lambda results: [results[n] for n in kept])
    assert (outcome[-1] is None) == (kept == (1,))
    breaks(program, leaf(), leaf(1.0))  # compilers fill in zeros


def test_a_backward_that_raises_does_so_when_gradients_come():
    class Failing(Careless):
        @staticmethod
        def backward(ctx, grad):
            raise ValueError("not today")

    def program(x):
        y = Failing.apply(x * 1)
        return (y,)

    assert differentiated(program, lambda: (leaf(),))[:2] == [ValueError, "not today"]
    assert differentiated(lambda x: (Function.apply(x),), lambda: (leaf(),), fullgraph=False)[0] is NotImplementedError
    assert torch.equal(optimize("aot_eager")(program)(leaf())[0], X * 2)


def of_something_between(x):
    y = x * 1
    return Same.apply(y), y


ALIASES = {
    "of something between": of_something_between,
    "parts of it": lambda x: (lambda y: (Reshaping.apply(y)[0], y[1:]))(x * 1),
    "twice": lambda x: SameTwice.apply(x * 1),
    "part of an input": lambda x: (Same.apply(x)[1:], x),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", ALIASES)
def test_gradients_pass_through_functions_whose_results_share_memory(name, backend):
    differentiated(ALIASES[name], lambda: (leaf(),), backend, fullgraph=backend == "eager")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_dirty_tensor_with_a_history_that_existed_before(backend):
    def program(y, x):
        return (Dirty.apply(y),)

    def make():
        x = leaf()
        return x * 2, x

    differentiated(program, make, backend, fullgraph=backend == "eager")


class Passing(Function):
    """Its backward returns the first gradient as it is."""

    @staticmethod
    def backward(ctx, grad, *others):
        return grad


class TwoSizes(Function):
    @staticmethod
    def forward(ctx, x):
        x.t_()
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad.t()


class Holding(Passing):
    @staticmethod
    def forward(ctx, x):
        return x * 2, [x + 1]


class SavingNumbers(Passing):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, 3)
        return x * 2


class SavingWhatItReturns(Function):
    @staticmethod
    def forward(x):
        return x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class DirtyWithoutReturn(Passing):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x.add_(1))
        return x * 2


@pytest.mark.parametrize(
    "function", [TwoSizes, Holding, SavingNumbers, SavingWhatItReturns, DirtyWithoutReturn], ids=lambda each: each.__name__
)
def test_what_torch_refuses_or_does_another_way_breaks_the_graph(function):
    breaks(lambda x: function.apply((x * 1).view(5, 1)), leaf())
