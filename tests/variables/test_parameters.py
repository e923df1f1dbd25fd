"""Parameters and buffers that a traced function makes: one graph; gradients, memory, classes and attributes are CPython's."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from tests.support import breaks, captured, captured_made, check
from tracer import optimize

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def described(x):
    p = nn.Parameter(torch.ones(4))
    frozen = nn.Parameter(torch.ones(4, dtype=torch.int32), requires_grad=False)
    both = [(type(q), isinstance(q, nn.Parameter), q.requires_grad, q.is_leaf, q.grad, q.grad_fn, q.shape) for q in (p, frozen)]
    return both, x * p


def returned(x):
    p = nn.Parameter(x.sin())
    return p * x, p


def of_an_argument(x):
    p = nn.Parameter(x)
    return p * 2, p


def without_data(x):
    return nn.Parameter(), x + 1


def that_share_memory(x):
    data = x.sin()
    p, q = nn.Parameter(data), nn.Parameter(data, requires_grad=False)
    with torch.no_grad():
        p.add_(1)
        q[0] = 3
    return p, q, data, p is q


def made_in_no_grad(x):
    with torch.no_grad():
        p = nn.Parameter(torch.ones(4))
        before = x * p
    return before, x * p, p


def turned(x):
    p = nn.Parameter(x.t())
    return p.stride(), p.is_contiguous(), p * 2, p


def with_an_attribute(x):
    p = nn.Parameter(torch.ones(4))
    p.tag = "own"
    return p, p.tag, x * p


def whose_gradient_is_taken(x):
    p, q = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))
    (x * p * q).sin().sum().backward(inputs=[p])
    return p.grad, q.grad, torch.autograd.grad((x * q).sum(), q), p, q


def whose_gradients_add_up(x):
    p = nn.Parameter(torch.ones(4))
    for _ in range(3):
        (x * p).sin().sum().backward()
    kept, p.grad = p.grad, None
    (x * p * p).sum().backward()
    return kept, p.grad, p


def in_a_layer(x):
    layer = nn.Linear(4, 2)
    return layer(x), layer


def in_layers(x):
    return nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.LayerNorm(4), nn.Linear(4, 2))(x)


def in_a_list(x):
    return sum(x * p for p in nn.ParameterList([nn.Parameter(torch.ones(4) * n) for n in range(3)]))


def in_a_closure(x):
    p = nn.Parameter(torch.ones(4))
    return (lambda y: y * p), x * p


def trained(x):
    layer = nn.Linear(4, 1)
    for _ in range(2):
        layer.zero_grad()
        layer(x).pow(2).mean().backward()
        with torch.no_grad():
            for p in layer.parameters():
                p.sub_(0.1 * p.grad)
    return layer


def with_buffers(x):
    module = nn.Module()
    module.b = nn.Buffer(torch.ones(4))
    module.register_buffer("c", x * 1, persistent=False)
    module.d = nn.Buffer(torch.zeros(4), persistent=False)
    return x * module.b + module.c, dict(module.named_buffers()), list(module.state_dict()), module.b.persistent


def that_requires_a_gradient_later(x):
    p = nn.Parameter(torch.ones(4), requires_grad=False).requires_grad_()
    (x * p).sum().backward()
    return p, p.grad


def frozen_and_written_and_thawed(x):
    p = nn.Parameter(torch.ones(4))
    p.requires_grad = False
    p.add_(1)
    before = x * p
    p.requires_grad_()
    (x * p).sum().backward()
    return before, x * p, p


def frozen(x):
    layer = nn.Linear(4, 2).requires_grad_(False)
    return layer(x), layer


def frozen_in_part(x):
    layer = nn.Linear(4, 2)
    layer.weight.requires_grad = False
    layer(x).sum().backward()
    return layer, layer.weight.grad


def given_other_data(x):
    p, q = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4))
    before, p.data = p.detach(), q.data
    with torch.no_grad():
        p.add_(1)
    before.add_(5)
    return before, p, q, x * p * q


def given_data_of_another_size(x):
    p = nn.Parameter(torch.ones(4))
    p.data = torch.ones(2, 3).t()
    (p * p).sum().backward()
    return p, p.grad, x + 1


def given_its_own_data(x):
    p = nn.Parameter(torch.ones(4))
    y = x * p
    p.data = p
    y.sum().backward()
    return y, p


def converted(x):
    layer = nn.Linear(4, 2)
    weight, state = layer.weight, layer.state_dict()
    same = layer.double()
    y = layer(x.double())
    y.sum().backward()
    return y, layer, same is layer, layer.weight is weight, state, weight.dtype


def converted_to_and_fro(x):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).to(torch.float64).half().float()
    return model.train()(x), model.float() is model, model


def initialised_in_apply(x):
    def initialise(module):
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.constant_(module.bias, 0.5)

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).apply(initialise).eval()
    return model(x), model, torch.rand(2)


def in_recurrent_layers(x):
    layers = nn.LSTM(4, 3, num_layers=2, dropout=0.5), nn.GRU(4, 3, bidirectional=True), nn.RNN(4, 3, batch_first=True)
    results = [layer(x[None]) for layer in layers]
    alive = all(watch() is weight for layer in layers for watch, weight in zip(layer._flat_weight_refs, layer._flat_weights))
    return results, layers, alive


def in_converted_and_copied_recurrent_layers(x):
    layer = nn.LSTM(4, 3).double()
    copied = copy.deepcopy(layer).float()
    layer(x[None].double())[0].sum().backward()
    layer.flatten_parameters()
    return layer, copied(x[None]), copied, layer.all_weights


def loaded(x):
    source, target = (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)) for _ in range(2))
    keys = target.load_state_dict(source.state_dict())
    return source(x), target(x), target, keys.missing_keys


CAPTURED = [
    described, returned, of_an_argument, without_data, that_share_memory, made_in_no_grad, turned, with_an_attribute,
    whose_gradient_is_taken, whose_gradients_add_up, in_a_layer, in_layers, in_a_list, in_a_closure, trained, with_buffers,
    that_requires_a_gradient_later, frozen_and_written_and_thawed, frozen, frozen_in_part, given_other_data,
    given_data_of_another_size, given_its_own_data, converted, converted_to_and_fro, initialised_in_apply, loaded,
    in_recurrent_layers, in_converted_and_copied_recurrent_layers,
]  # fmt: skip


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("program", CAPTURED, ids=lambda program: program.__name__)
def test_captured(program, requires_grad):
    captured(program, X.clone().requires_grad_(requires_grad))


def in_a_converted_layer(x):
    layer = nn.Linear(4, 2).double()
    return layer(x.double()), layer


def in_a_copied_layer(x):
    layer = copy.deepcopy(nn.Linear(4, 2)).requires_grad_(False).requires_grad_()
    return layer(x), layer


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [in_a_layer, in_a_converted_layer, in_a_copied_layer])
def test_gradients_arrive_at_a_parameter_that_was_returned(backend, program):
    results = []
    for run in (program, optimize(backend)(program)):
        torch.manual_seed(0)
        y, layer = run(X)
        y.pow(2).sum().backward()
        results.append([y, *layer.parameters(), *(p.grad for p in layer.parameters())])
    torch.testing.assert_close(results[1], results[0])
    assert type(layer.weight) is nn.Parameter


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_arrive_through_a_view_of_a_parameter_that_was_returned(backend):
    def program(x):
        p = nn.Parameter(torch.ones(4))
        with torch.no_grad():
            p.mul_(2)
        return p.view(2, 2), p[1:].t(), p, x + 1

    for run in (program, optimize(backend)(program)):
        view, part, p, _ = run(X)
        assert view.requires_grad and part.requires_grad and view.data_ptr() == p.data_ptr()
        (view.sum() + part.sum()).backward()
        assert p.grad.tolist() == [1, 2, 2, 2]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_view_of_a_parameter_that_was_returned_is_one_of_that_very_leaf(backend):
    def program(x):
        p = nn.Parameter(torch.ones(4))
        return p[1:], p, x + 1

    for run in (program, optimize(backend)(program)):
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
            run(X)[0].add_(1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_writes_to_a_parameter_that_was_returned_are_noticed_by_autograd(backend):
    def program(x):
        data = torch.ones(4)
        p = nn.Parameter(data)
        return (x * p).sum(), p, data

    x = X.clone().requires_grad_()
    for run in (program, optimize(backend)(program)):
        for write in (0, 1):  # to the parameter, to what it was made of
            loss, *tensors = run(x)
            versions = [tensor._version for tensor in tensors]
            with torch.no_grad():
                tensors[write].add_(1)
            assert [tensor._version for tensor in tensors] == [version + 1 for version in versions]
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()


def test_a_parameter_that_is_changed_after_it_was_read_has_no_gradient_behind_it():
    def program(x):
        p = nn.Parameter(torch.ones(4))
        y = x * p
        with torch.no_grad():
            p.mul_(3)
        return y

    for run in (program, optimize("eager")(program)):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            run(X.clone().requires_grad_()).sum().backward()


def test_parameters_of_a_module_are_exchanged():
    class Model(nn.Module):
        def forward(self, x):
            if not hasattr(self, "weight"):
                self.weight = nn.Parameter(torch.ones(x.shape[-1]) * 2)
            self.weight = nn.Parameter(self.weight * 3, requires_grad=self.weight.requires_grad)
            return x * self.weight

    checked = check(lambda model, x: model(x), Model(), X)
    assert not checked.breaks


def in_place(x):
    p = nn.Parameter(torch.ones(4))
    try:
        p.add_(1)
    except RuntimeError as error:
        return x, str(error)


def of_numbers_without_gradients(x):
    try:
        nn.Parameter(torch.ones(4, dtype=torch.int32))
    except RuntimeError as error:
        return x, str(error)


def in_inference_mode(x):
    with torch.inference_mode():
        p = nn.Parameter(torch.ones(4))
    return p, x + 1


def frozen_when_gradients_lead_to_it(x):
    p = nn.Parameter(torch.ones(4))
    y = x * p
    p.requires_grad_(False)
    y.sum().backward() if y.requires_grad else None
    return p, p.grad


def frozen_when_its_value_was_stored(x):
    y, p = torch.zeros(4), nn.Parameter(torch.ones(4))
    y[:] = p
    p.requires_grad_(False)
    return y, y.requires_grad, p


def thawed_when_it_has_a_view(x):
    p = nn.Parameter(torch.ones(4), requires_grad=False)
    view = p.view(2, 2)
    p.requires_grad_()
    return p, view, view.requires_grad


def given_other_data_when_gradients_lead_to_it(x):
    p = nn.Parameter(torch.ones(4))
    y = x * p
    p.data = torch.zeros(4)
    return y, p


def given_other_data_before_gradients_flow_through_it(x):
    p, q = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))
    y = x * p * q
    p.data = torch.zeros(4)  # which is what autograd multiplies the gradient of q by
    y.sum().backward()
    return p.grad, q.grad


def converted_when_it_has_a_gradient(x):
    p = nn.Parameter(torch.ones(4))
    p.grad = torch.ones(4)
    p.data = p.data.double()
    return p, p.grad


def given_data_that_have_no_gradient(x):
    p = nn.Parameter(torch.ones(4))
    try:
        p.data = torch.ones(4, dtype=torch.int32)
    except RuntimeError as error:
        return str(error), p


def written_to_with_a_history(x):
    p = nn.Parameter(torch.ones(4), requires_grad=False)
    p.mul_(x.sum().requires_grad_() * torch.ones((), requires_grad=True))
    return p, p.requires_grad, p.is_leaf


def written_to_with_a_history_through_a_view(x):
    p = nn.Parameter(torch.ones(4), requires_grad=False)
    p.view(2, 2).mul_(torch.ones((), requires_grad=True))
    return p, p.requires_grad, p.is_leaf


def in_a_recurrent_layer_with_another_weight(x):
    layer = nn.LSTM(4, 3)
    layer.weight_ih_l0 = nn.Parameter(torch.ones(12, 4))
    return layer._flat_weight_refs[0]() is None, layer(x[None]), layer


LEFT_TO_CPYTHON = [
    in_place, of_numbers_without_gradients, in_inference_mode, frozen_when_gradients_lead_to_it,
    frozen_when_its_value_was_stored, thawed_when_it_has_a_view, given_other_data_when_gradients_lead_to_it,
    given_other_data_before_gradients_flow_through_it, converted_when_it_has_a_gradient,
    given_data_that_have_no_gradient, written_to_with_a_history,
    written_to_with_a_history_through_a_view, in_a_recurrent_layer_with_another_weight,
]  # fmt: skip


@pytest.mark.parametrize("program", LEFT_TO_CPYTHON, ids=lambda program: program.__name__)
def test_left_to_cpython(program):
    breaks(program, X)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_parameters_have_sizes_that_are_computed_of_those_of_inputs(backend):
    def program(x, n):
        p, q = nn.Parameter(torch.ones(x.shape[0], 1)), nn.Parameter(torch.cat([x, x]).sin())
        layer = nn.Linear(x.shape[1], n + x.shape[0] // 2)
        (layer(x) * p).sum().backward()
        return p, q, layer.weight, (layer(x) * p).sum() + q.sum(), layer.weight.grad.clone()

    traced = optimize(backend, dynamic=True, fullgraph=True)(program)
    for rows, n in ((3, 4), (5, 6), (8, 2)):
        outcomes = []
        for run in (program, traced):
            torch.manual_seed(0)
            *parameters, loss, before = run(torch.arange(2.0 * rows).reshape(rows, 2), n)
            loss.backward()
            outcomes.append([parameters, loss, before, [p.grad for p in parameters]])
        torch.testing.assert_close(outcomes[1], outcomes[0])


def test_a_size_that_depends_on_data_breaks_the_graph():
    breaks(lambda x: nn.Parameter(x[: x.abs().sum().int().item()]), X)


def stored_as_what_it_is(module, value, x):
    module.x = value
    return list(module._buffers), list(module._parameters), "x" in module.__dict__, isinstance(value, nn.Buffer), x + 1


class Own(torch.Tensor):
    pass


@pytest.mark.parametrize("make", [nn.Buffer, nn.Parameter, torch.Tensor.clone, lambda data: nn.Parameter(data.as_subclass(Own))])
def test_what_a_module_stores_is_told_by_the_tensor_itself(make):
    captured_made(stored_as_what_it_is, lambda: ((nn.Module(), make(torch.ones(4)), X), {}))
