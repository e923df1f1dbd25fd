"""`autograd.Function`: traced through where no gradient can flow, and never with another result than eager's."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.support import breaks, captured, check, check_made
from tests.support.comparing import Comparison
from tests.support.graphs import Graphs
from tests.support.leaves import leaf
from tracer import allow_in_graph, graph_break, optimize

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


def trained(program, *inputs):
    """Captured as one graph, the gradients are eager's: result, gradients."""
    checked = captured(program, *inputs)
    graphs = Graphs()
    decorated = optimize(graphs.backend, dynamic=None)(program)
    for call in range(3):
        size = 5 + call
        outcomes = []
        for run in (program, decorated):
            leaves = [tensor.detach().repeat(2)[:size].requires_grad_(tensor.requires_grad) for tensor in inputs]
            results = run(*leaves)
            results = results if isinstance(results, tuple) else (results,)
            sum(result.sum() * (n + 2) for n, result in enumerate(results) if result.requires_grad).backward()
            outcomes.append([*results, *(leaf.grad for leaf in leaves)])
        Comparison().same(*outcomes, f"call {call}")
    assert len(graphs) == 2
    return checked


def test_gradients_are_those_of_backward():
    checked = trained(lambda x: Cubed.apply(x * 2) + 1, leaf())
    assert checked.operations == ["mul", "run_traced_function", "add"]
    trained(lambda x: Cubed.apply(x, 2).relu(), leaf())


class Mixed(Function):
    """Two tensors and a number in, two tensors out; saves an input, a result and something between; reads a closure's tensor."""

    @staticmethod
    def forward(ctx, x, n, y):
        between = x.exp()
        first, second = between * y * n, (x > y).int()
        ctx.save_for_backward(x, first, between)
        ctx.n, ctx.shape, ctx.y = n, x.shape, y
        ctx.mark_non_differentiable(second)
        return first, second

    @staticmethod
    def backward(ctx, grad, _):
        x, first, between = ctx.saved_tensors
        assert ctx.needs_input_grad[1] is False
        return grad * first * ctx.shape[0], None, (grad * between * ctx.n + x) if ctx.needs_input_grad[2] else None


def test_several_inputs_and_results():
    trained(lambda x, y: Mixed.apply(x, 3, y), leaf(), leaf(1.0))
    trained(lambda x, y: Mixed.apply(x, 3, y), leaf(), X + 1)
    trained(lambda x, y: Mixed.apply(x, x.shape[0], x)[0] * y, leaf(), leaf(1.0))


def test_a_function_called_in_a_loop_and_by_another():
    class Outer(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return Cubed.apply(x) + 1

        @staticmethod
        def backward(ctx, grad):
            return Cubed.apply(grad) * ctx.saved_tensors[0]

    def program(x):
        for _ in range(3):
            x = Cubed.apply(x) * 0.1
        return Outer.apply(x)

    trained(program, leaf())


def test_the_gradient_of_the_gradient():
    def program(x):
        return Cubed.apply(x).sum()

    seconds = []
    for run in (program, optimize()(program)):
        x = leaf()
        (first,) = torch.autograd.grad(run(x), x, create_graph=True)
        seconds.append(torch.autograd.grad(first.sum(), x)[0])
    assert torch.equal(*seconds)


def test_what_was_saved_must_not_change_before_backward():
    def program(x):
        y = x * 2
        return y, Cubed.apply(y)

    for run in (program, optimize()(program)):
        y, z = run(leaf())
        y.detach().add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()


class Storing(Function):
    kept: list = []

    @staticmethod
    def forward(ctx, x):
        Storing.kept.append(x.shape)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad


class StoringInBackward(Function):
    kept: list = []

    @staticmethod
    def forward(ctx, x):
        ctx.list = [1]
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        StoringInBackward.kept.append(2)
        ctx.list.append(1)
        return grad * len(ctx.list)


@pytest.mark.parametrize("function", [Storing, StoringInBackward])
def test_effects_are_left_to_torch(function):
    def program(x):
        return function.apply(x * 1)

    breaks(program, leaf())
    gradients = []
    for run in (program, optimize()(program)):
        x = leaf()
        y = run(x)
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        gradients.append(x.grad)
    assert torch.equal(*gradients)


@pytest.mark.parametrize("backend", ["aot_eager"])
def test_a_compiling_backend(backend):
    def program(x, y):
        return Mixed.apply(x * 2, 3, y)[0].relu()

    decorated = optimize(backend)(program)
    for size in (5, 7, 4):
        outcomes = []
        for run in (program, decorated):
            x, y = (torch.linspace(-1, 1, size) + offset for offset in (0.0, 0.5))
            x.requires_grad_(), y.requires_grad_()
            run(x, y).sum().backward()
            outcomes.append((x.grad, y.grad))
        torch.testing.assert_close(*outcomes)


class Needs(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * 2 if ctx.needs_input_grad[0] else y * 3


def test_needs_input_grad():
    with torch.no_grad():
        captured(lambda x, y: Needs.apply(x, y), X, X + 1)
        captured(lambda x, y: Needs.apply(x, y), X.clone().requires_grad_(), X + 1)


class Weighted(Function):
    weight = torch.nn.Parameter(torch.ones(5))

    @staticmethod
    def forward(ctx, x):
        return Weighted.weight


def test_a_parameter_that_is_returned_is_left_to_torch():
    def renew():
        Weighted.weight = torch.nn.Parameter(torch.ones(5))

    assert check_made(lambda x: Weighted.apply(x * 2), lambda: ((X,), {}), reset=renew).breaks


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


KEPT: dict = {}


class Appending(Function):
    @staticmethod
    def forward(ctx, x):
        KEPT["box"].items.append(1)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        KEPT["box"].items.append(2)
        return grad


class Box:
    pass


def filled_box(items):
    box = Box()
    box.items = items
    KEPT["box"] = box


def test_an_object_that_only_a_global_and_an_attribute_lead_to_existed_before_too():
    def program(x):
        filled_box([0])
        return Appending.apply(x * 1)

    outcomes = []
    for run in (program, optimize()(program)):
        x = leaf()
        result = run(x)
        before = list(KEPT["box"].items)
        result.sum().backward()
        outcomes.append((before, list(KEPT["box"].items), x.grad))
    Comparison().same(*outcomes, "program")
    assert outcomes[0][0] == [0, 1] and outcomes[0][1] == [0, 1, 2]


class Halving(Function):
    """Returns an input itself and a new tensor; saves both inputs."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return y, x * y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, other):
        x, y = ctx.saved_tensors
        return other * y, grad * 0.5 + other * x


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_input_that_is_handed_on_is_a_view_of_it(backend):
    def program(x, y):
        same, new = Halving.apply(x, y)
        return same * 2 + new, same

    traced = optimize(backend, fullgraph=True)(program)
    for wanted in (True, False):
        outcomes = []
        for run in (program, traced):
            x, y = (tensor.requires_grad_(wanted) for tensor in (X.clone(), X + 1))
            result, same = run(x, y)
            assert same is not y and same.data_ptr() == y.data_ptr() and same._is_view()
            if wanted:
                (result.sum() + 3 * same.sum()).backward()
            outcomes.append([result, same, x.grad, y.grad])
        assert all(a is b if a is None else torch.equal(a, b) for a, b in zip(*outcomes))


def test_a_function_that_is_allowed_in_the_graph_is_one_operation():
    @allow_in_graph
    class Opaque(Function):
        @staticmethod
        def forward(ctx, x):
            graph_break()
            ctx.n = x.size(0)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.n

    assert captured(lambda x: Opaque.apply(x) + 1, leaf()).operations == ["Opaque", "add"]
    x = leaf()
    optimize()(Opaque.apply)(x).sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 5))


def test_the_history_of_a_result_is_called_as_in_eager():
    def program(x):
        y, _ = Halving.apply(x, x + 1)
        graph_break()
        return y.grad_fn.name(), type(y.grad_fn).__name__

    assert check(program, leaf()).result == ("HalvingBackward", "HalvingBackward")


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_apply_of_an_instance_is_that_of_the_class():
    class Doubled(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    captured(lambda x: Doubled().apply(x), leaf(X))


class _Frees(Function):
    """A reversible block: backward drops what forward has kept."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.kept, ctx.factor, ctx.rest = x.detach() * 2, factor, [1]
        return x * x * factor

    @staticmethod
    def backward(ctx, grad):
        kept = ctx.kept
        del ctx.kept
        ctx.rest = None
        ctx.was_here = True
        return grad * kept * ctx.factor, None


class _Counts(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.passes = 0
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        ctx.passes += 1
        return grad * ctx.passes


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backward_may_free_what_its_context_keeps(backend):
    x, expected = leaf(X), leaf(X)
    optimize(backend, fullgraph=True)(lambda x, factor: _Frees.apply(x, factor))(x, 3).sum().backward()
    _Frees.apply(expected, 3).sum().backward()
    assert torch.equal(x.grad, expected.grad)


def test_a_context_that_the_next_pass_finds_changed_is_left_to_torch():
    def counted(x):
        return _Counts.apply(x)

    for call in (optimize()(counted), counted):
        x = leaf(X)
        result = call(x).sum()
        result.backward(retain_graph=True)
        result.backward()
        assert torch.equal(x.grad, torch.full_like(x, 3))
    assert "an attribute of its context" in str(breaks(counted, leaf(X)).breaks[0])
