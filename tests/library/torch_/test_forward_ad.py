"""`torch.autograd.forward_ad` in the traced program: a level is captured as a whole, with the tangents and errors of CPython."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import func, nn
from torch.autograd import forward_ad

import tracer
from tests.support import breaks, captured, captured_made, check, check_made
from tests.support.graphs import Graphs

X = torch.arange(12.0).view(3, 4) / 7
T = torch.linspace(-1, 1, 12).view(3, 4)
BACKENDS = ("eager", "aot_eager")


def _unpacked(function):
    """A program: the function between `make_dual` and `unpack_dual`."""

    def program(x, t):
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(function(forward_ad.make_dual(x, t), x))

    return program


def _write_to_view(d, x):
    d = d * 1
    d[0].mul_(3)
    return d


def _write_of_dual(d, x):
    made = torch.zeros_like(x)
    made[1] = d[1]
    made.add_(x)
    return made


def _copy_of_part(d, x):
    made = x.clone()
    made[1:].copy_(d[1:])
    return made


def _branch_on_type(d, x):
    unpacked = forward_ad.unpack_dual(d)
    assert type(unpacked) is forward_ad.UnpackedDualTensor and unpacked._fields == ("primal", "tangent")
    return unpacked.primal * d + unpacked.tangent


FUNCTIONS = {
    "arithmetic": lambda d, x: d.sin() * d + 2,
    "a view": lambda d, x: d.t()[1:].reshape(-1),
    "a write to a view": _write_to_view,
    "a dual tensor written to a plain one": _write_of_dual,
    "copy_ of a part": _copy_of_part,
    "what is unpacked": _branch_on_type,
    "products": lambda d, x: torch.softmax(d @ x.t() @ d, -1),
    "reductions": lambda d, x: d.var(0) + d.amax(0) + d.norm(),
    "beside plain ones": lambda d, x: torch.stack([x, d]).where(x > 1, 0),
    "layers": lambda d, x: nn.functional.gelu(nn.functional.layer_norm(torch.cat([d, x], 1), (8,))),
    "convolution": lambda d, x: nn.functional.max_pool1d(nn.functional.conv1d(d[None], torch.ones(2, 3, 2)), 2),
    "batch norm": lambda d, x: nn.functional.batch_norm(d, None, None, x[0], x[1], True),
    "without a tangent": lambda d, x: d.detach() + x,
    "complex": lambda d, x: torch.complex(d, x).exp().abs(),
    "once more plain": lambda d, x: x.sin() + x.sin(),
}

# With symbolic sizes, torch's own rule for the tangents fails, by which AOTAutograd works.
REFUSED_BY_COMPILERS = ("a dual tensor written to a plain one", "copy_ of a part")


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_operations_on_dual_tensors_are_captured(name, dynamic):
    captured_made(_unpacked(FUNCTIONS[name]), lambda: ((X.clone(), T.clone()), {}), dynamic=dynamic, as_written=True)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_operations_on_dual_tensors_are_compiled(name, dynamic):
    program = _unpacked(FUNCTIONS[name])
    fullgraph = not dynamic or name not in REFUSED_BY_COMPILERS
    result = tracer.optimize("aot_eager", fullgraph=fullgraph, dynamic=dynamic)(program)(X.clone(), T.clone())
    torch.testing.assert_close(tuple(result), tuple(program(X.clone(), T.clone())))


def test_what_a_write_changes_of_a_tangent_is_changed_in_the_argument():
    def program(x, t):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, t)
            dual.mul_(3)
            return forward_ad.unpack_dual(dual).tangent is t, forward_ad.unpack_dual(dual).primal is x

    captured(program, X.clone(), T.clone())
    for backend in BACKENDS:
        arguments = [[X.clone(), T.clone()] for _ in range(2)]
        program(*arguments[0])
        tracer.optimize(backend, fullgraph=True)(program)(*arguments[1])
        assert all(torch.equal(*pair) for pair in zip(*arguments))


def test_tangents_end_with_their_level():
    def program(x, t):
        seen = [x.sin()]
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, t)
            seen += [forward_ad.unpack_dual(x.sin()).tangent, *forward_ad.unpack_dual(dual.sin())]
        with forward_ad.dual_level():
            seen += [forward_ad.unpack_dual(dual).tangent, *forward_ad.unpack_dual(forward_ad.make_dual(t, x).sin())]
        return seen, dual, forward_ad.unpack_dual(dual)

    captured(program, X, T)


def test_levels_are_entered_and_left_by_functions_and_decorators():
    def program(x, t):
        level = forward_ad.enter_dual_level()
        first = forward_ad.unpack_dual(forward_ad.make_dual(x, t, level=level).exp(), level=level)
        forward_ad.exit_dual_level(level=level)

        @forward_ad.dual_level()
        def second(x, t):
            return forward_ad.unpack_dual(forward_ad.make_dual(x, t).exp())

        return level, first, second(t, x), second(x, x)

    captured(program, X, T)


# -- modules and gradients -----------------------------------------------------------------------------------------------


def _layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 3))


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_are_made_dual_by_hand(backend):
    def program(model, x):
        saved = dict(model.named_parameters())
        with forward_ad.dual_level():
            for name, parameter in saved.items():
                delattr(model, name)
                setattr(model, name, forward_ad.make_dual(parameter, torch.ones_like(parameter) * 2))
            tangent = forward_ad.unpack_dual(model(x)).tangent
        for name, parameter in saved.items():
            delattr(model, name)
            setattr(model, name, parameter)
        return tangent

    model = nn.Linear(4, 3)
    expected = program(model, X)
    traced = tracer.optimize(backend, fullgraph=True)(program)
    assert torch.equal(traced(model, X), expected) and torch.equal(traced(model, X), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_are_made_dual_for_a_functional_call(backend):
    model, tangents = _layers(), {}
    tangents = {name: torch.rand_like(parameter) for name, parameter in model.named_parameters()}

    def program(x):
        with forward_ad.dual_level():
            duals = {name: forward_ad.make_dual(p, tangents[name]) for name, p in model.named_parameters()}
            return forward_ad.unpack_dual(func.functional_call(model, duals, x))

    expected = program(X)
    result = tracer.optimize(backend, fullgraph=True)(program)(X)
    torch.testing.assert_close(tuple(result), tuple(expected))


def test_a_module_that_is_called_outside_of_a_level_and_inside():
    model = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(4)])

    def program(x, t):
        before = model(x)
        with forward_ad.dual_level():
            inside = forward_ad.unpack_dual(model(forward_ad.make_dual(x, t)))
        return before, inside, model(x)

    captured(program, X, T)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_flow_through_tangents(backend):
    def program(x, t):
        x, t = x.detach().requires_grad_(), t.detach().requires_grad_()
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, t)
            loss = (dual.sin() ** 3).sum()
            (gradient,) = torch.autograd.grad(loss, dual, create_graph=True)
            product = forward_ad.unpack_dual(gradient).tangent  # of the Hessian and t
            loss, tangent = forward_ad.unpack_dual(loss)
        return loss, product, torch.autograd.grad(tangent, (x, t))

    expected = program(X, T)
    result = tracer.optimize(backend, fullgraph=True)(program)(X, T)
    torch.testing.assert_close(result, expected)


def test_a_backward_pass_behind_the_level():
    model = _layers()

    def program(x, t):
        with forward_ad.dual_level():
            tangent = forward_ad.unpack_dual(model(forward_ad.make_dual(x, t)).sum()).tangent
        tangent.backward()
        return [parameter.grad for parameter in model.parameters()]

    check_made(program, lambda: ((X, T), {}), reset=model.zero_grad, as_written=True)


def test_a_leaf_with_a_gradient_is_made_dual():
    captured_made(_unpacked(lambda d, x: d.sin() * x), lambda: ((X.clone().requires_grad_(), T), {}))


# -- errors, and what breaks the graph -----------------------------------------------------------------------------------


def _errors(make):
    def program(x, t):
        try:
            with forward_ad.dual_level():
                return forward_ad.unpack_dual(make(x, t))
        except (RuntimeError, ValueError) as error:
            return type(error), str(error), x + 1

    return program


def _nested(x, t):
    with forward_ad.dual_level():
        return x


RAISED = {
    "a level in a level": _nested,
    "whole numbers": lambda x, t: forward_ad.make_dual(x.long(), t),
    "a whole tangent": lambda x, t: forward_ad.make_dual(x, t.long()),
    "no such level": lambda x, t: forward_ad.exit_dual_level(level=3),
}
RAISED_BY_C = {
    "another size": lambda x, t: forward_ad.make_dual(x, t[0]),
    "a real tangent of a complex tensor": lambda x, t: forward_ad.make_dual(torch.complex(x, t), t),
    "torch.func.jvp inside": lambda x, t: func.jvp(torch.sin, (x,), (t,))[0],
}


@pytest.mark.parametrize("name", RAISED)
def test_errors_are_captured(name):
    captured(_errors(RAISED[name]), X, T)


@pytest.mark.parametrize("name", RAISED_BY_C)
def test_errors_of_c_are_those_of_cpython(name):
    check(_errors(RAISED_BY_C[name]), X, T)


def test_without_a_level():
    def program(x, t):
        unpacked = forward_ad.unpack_dual(x)
        try:
            forward_ad.make_dual(x, t)
        except RuntimeError as error:
            return unpacked, str(error), x + 1

    captured(program, X, T)


def test_an_error_leaves_the_level():
    def program(x, t):
        try:
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(x, t).sin()
                raise ValueError("inside")
        except ValueError:
            return forward_ad.unpack_dual(dual)

    captured(program, X, T)


def test_an_error_of_the_graph_leaves_the_level():
    def program(x, t, i):
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(forward_ad.make_dual(x, t)[i])

    for backend in BACKENDS:
        traced = tracer.optimize(backend)(program)
        traced(X, T, torch.tensor([0, 1]))
        with pytest.raises(IndexError):
            traced(X, T, torch.tensor([0, 9]))
        with forward_ad.dual_level():
            pass


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_break_inside_of_a_level_leaves_the_whole_level_to_cpython(backend):
    def program(x, t):
        y = x + 1
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(y, t).sin()
            tracer.graph_break()
            unpacked = forward_ad.unpack_dual(dual * 2)
        return unpacked, y * 2

    assert breaks(program, X, T).break_ids[0] == "explicit-graph-break"
    primal, tangent = tracer.optimize(backend)(program)(X, T)[0]
    assert torch.equal(tangent, (X + 1).cos() * T * 2) and torch.equal(primal, (X + 1).sin() * 2)


def test_a_frame_that_ends_inside_of_a_level():
    def program(x, t):
        forward_ad.enter_dual_level()
        return forward_ad.make_dual(x, t).sin()

    traced = tracer.optimize("eager")(program)
    try:
        assert torch.equal(forward_ad.unpack_dual(traced(X, T)).tangent, X.cos() * T)
    finally:
        forward_ad.exit_dual_level()
    with pytest.raises(tracer.exc.Unsupported, match="open-dual-level"):
        tracer.optimize("eager", fullgraph=True)(program)(X, T)


# -- levels that are open at the call ------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_function_that_is_called_inside_of_a_level(backend):
    graphs = Graphs()
    model = _layers().eval()
    traced = tracer.optimize(graphs.backend if backend == "eager" else backend)(model)
    for _ in range(2):
        plain = traced(X)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(X, T)
            seen = forward_ad.unpack_dual(traced(dual))
            expected = forward_ad.unpack_dual(model(dual))
            assert torch.equal(seen.primal, expected.primal) and torch.equal(seen.tangent, expected.tangent)
        assert torch.allclose(plain, seen.primal)


def test_a_level_of_another_thread_takes_nothing_from_a_call():
    traced = tracer.optimize("eager")(lambda x: x.sin() + 1)
    traced(X)
    entered, done = threading.Event(), threading.Event()

    def other():
        with forward_ad.dual_level():
            entered.set()
            done.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait(10)
    assert torch.equal(traced(X), X.sin() + 1)
    done.set()
    thread.join()


def test_a_backend_that_fails_in_a_level_leaves_no_level_open():
    def fails(gm, inputs):
        for node in gm.graph.nodes:
            if node.op == "call_function":
                node.target(*[]) if node.target.__name__ == "enter_dual_level" else None
        raise RuntimeError("in the level")

    traced = tracer.optimize(fails)(lambda x, t: _unpacked(FUNCTIONS["arithmetic"])(x, t))
    primal, tangent = traced(X, T)
    assert torch.equal(primal, X.sin() * X + 2) and tangent is not None
    with forward_ad.dual_level():
        pass
