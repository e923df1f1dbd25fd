"""Fake tensors of the program, and calls under its `FakeTensorMode`: captured as others are, with fake tensors for results."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

import tracer
from tests.support.graphs import Graphs, graphs_of
from tests.support.regions import entries


def described(value):
    return type(value), value.shape, value.stride(), value.dtype, value.device, value.requires_grad


def test_a_call_under_the_mode_is_one_graph():
    def fn(x):
        return torch.sin(x) * torch.randn(x.shape[1])

    compiled, graphs = graphs_of(fn)
    with FakeTensorMode():
        x = torch.ones(3, 4)
        assert described(compiled(x)) == described(fn(x))
    assert graphs.operations == 3


def test_the_entries_serve_the_next_mode_too_and_no_call_outside_of_one():
    compiled, graphs = graphs_of(lambda x: torch.sin(x) + 1)
    for _ in range(3):
        with FakeTensorMode():
            compiled(torch.ones(3))
    assert len(graphs) == 1
    assert torch.equal(compiled(torch.ones(3)), torch.sin(torch.ones(3)) + 1)
    assert len(graphs) == 2


def test_a_size_of_fake_tensors_that_varies_becomes_a_symbol():
    compiled, graphs = graphs_of(lambda x: x.sum(0) * x.shape[0])
    with FakeTensorMode():
        for size in (4, 5, 6, 7):
            assert compiled(torch.ones(size, 2)).shape == (2,)
    assert len(graphs) == 2


def test_fake_tensors_are_captured_where_no_mode_is_on():
    with FakeTensorMode():
        x = torch.ones(3, 4)

    def fn(x):
        y = x @ x.t()
        return y, type(y) is FakeTensor, type(torch.ones(2)) is FakeTensor, isinstance(y, torch.Tensor)

    compiled, graphs = graphs_of(fn)
    result, *kinds = compiled(x)
    assert described(result) == described(x @ x.t()) and kinds == [True, False, True]
    assert len(graphs) == 1


def test_what_a_program_computes_under_the_mode_is_a_fake_tensor_to_it():
    def fn(x):
        made = torch.ones(3)
        return type(x) is FakeTensor, type(made) is FakeTensor, type(x + made) is torch.Tensor, x + made

    compiled, graphs = graphs_of(fn)
    with FakeTensorMode():
        x = torch.ones(3)
        assert compiled(x)[:3] == fn(x)[:3] == (True, True, False)
    assert len(graphs) == 1


def test_a_module_with_fake_parameters_is_captured_with_its_gradients():
    with FakeTensorMode():
        module = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.BatchNorm1d(5))
        graphs = Graphs()
        loss = tracer.optimize(graphs.backend, fullgraph=True)(module)(torch.ones(3, 4)).sum()
        loss.backward()
    assert len(graphs) == 1
    assert [p.grad.shape for p in module.parameters()] == [p.shape for p in module.parameters()]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_no_kernel_of_a_backend_runs_on_tensors_without_data(backend):
    compiled = tracer.compile(lambda x: torch.relu(x) * 2, backend=backend, fullgraph=True)
    with FakeTensorMode() as mode:
        x = torch.ones(3)
        assert described(compiled(x)) == described(x)
    assert compiled(x).fake_mode is mode
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))


def test_a_backend_is_shown_the_graph_and_its_kernels_are_not_run():
    seen = []

    def backend(gm, example_inputs):
        seen.append(gm)
        return lambda *inputs: pytest.fail("the tensors have no data")

    compiled = tracer.optimize(backend)(torch.relu)
    with FakeTensorMode():
        assert compiled(torch.ones(3)).shape == (3,)
    assert len(seen) == 1


def test_the_device_that_a_fake_tensor_stands_for_is_guarded():
    compiled, graphs = graphs_of(lambda x: x + 1)
    with FakeTensorMode():
        for device in ("cpu", "meta", "cpu", "meta"):
            assert compiled(torch.ones(3, device=device)).device.type == device
    assert len(graphs) == 2


def test_what_only_fake_tensors_have_is_left_to_cpython():
    def fn(x):
        y = x * 2
        return y.fake_mode, y.fake_device

    compiled, graphs = graphs_of(fn)
    with FakeTensorMode() as mode:
        assert compiled(torch.ones(3)) == (mode, torch.device("cpu"))
    assert graphs.operations == 1


def test_data_that_a_fake_tensor_does_not_have_raise_as_they_do_in_cpython():
    for fn in (lambda x: (x * 2).numpy(), lambda x: x + 1 if x.sum() > 0 else x, lambda x: (x * 2).tolist()):
        compiled, _ = graphs_of(fn)
        with FakeTensorMode():
            x = torch.ones(3)
            with pytest.raises(Exception) as expected:  # whatever this version of torch raises
                fn(x)
            with pytest.raises(type(expected.value)):
                compiled(x)


def test_a_graph_break_under_the_mode_keeps_graphs_on_both_sides():
    def fn(x):
        y = x + 1
        tracer.graph_break()
        return y * 2

    compiled, graphs = graphs_of(fn)
    with FakeTensorMode():
        assert type(compiled(torch.ones(3))) is FakeTensor
    assert len(graphs) == 2


def test_the_shape_env_of_the_program_hears_what_is_asked_of_its_symbols():
    def fn(x):
        return x + 1 if x.shape[0] > x.shape[1] else x - 1

    compiled, shape_env, real = tracer.optimize("eager", fullgraph=True)(fn), ShapeEnv(), torch.ones(4, 3)
    with FakeTensorMode(shape_env=shape_env) as mode:
        every = StatelessSymbolicContext([DimDynamic.DYNAMIC, DimDynamic.DYNAMIC])
        fake = mode.from_tensor(real, symbolic_context=every)
        assert compiled(fake).shape == fake.shape
    assert len(shape_env.guards) == 1 and entries(compiled) == []


def test_an_export_under_the_mode_gives_a_module_for_fake_tensors():
    def fn(x):
        return x * torch.randn(3)

    with FakeTensorMode():
        x = torch.ones(3)
        for aten_graph in (False, True):
            module, _ = tracer.export(fn, aten_graph=aten_graph)(x)
            assert described(module(x)) == described(fn(x))
