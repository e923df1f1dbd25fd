"""Operators that programs register with `torch.library` are one node each, with what they do to their arguments."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tracer
from tests.support import breaks, captured
from tests.support.graphs import Graphs
from tracer import optimize

X = torch.linspace(-1, 1, 6).reshape(2, 3)


@torch.library.custom_op("shapetracer_tests::sines", mutates_args=())
def sines(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.from_numpy(np.sin(x.detach().numpy()) * scale).to(x.dtype)


@sines.register_fake
def _(x, scale):
    return torch.empty_like(x)


def _save(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.scale = inputs[1]


sines.register_autograd(lambda ctx, gradient: (gradient * ctx.saved_tensors[0].cos() * ctx.scale, None), setup_context=_save)


@torch.library.custom_op("shapetracer_tests::add_rows", mutates_args=("target",))
def add_rows(target: torch.Tensor, row: torch.Tensor) -> None:
    target.numpy()[:] += row.numpy()


@torch.library.custom_op("shapetracer_tests::unknown", mutates_args=())
def without_fake(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@torch.compiler.allow_in_graph
def allowed(x):
    return x.sin() + 1


def test_an_operator_is_a_node():
    assert captured(lambda x: sines(x, 2.0) + 1, X).operations == ["sines.default", "add"]
    assert captured(lambda x: torch.ops.shapetracer_tests.sines(x, 2.0) + 1, X).operations == ["sines", "add"]


def test_an_operator_changes_its_arguments():
    def program(x, row):
        made = x * 2
        add_rows(made, row)
        add_rows(x, row)
        return made

    captured(program, X, X[0])


def test_gradients_of_an_operator():
    gradients = []
    for run in (sines, optimize("eager")(lambda x, scale: sines(x, scale))):
        x = X.clone().requires_grad_()
        run(x, 2.0).sum().backward()
        gradients.append(x.grad)
    assert torch.equal(*gradients)


def test_an_operator_without_a_fake_breaks_the_graph():
    breaks(lambda x: without_fake(x) * 2, X)


def test_an_allowed_function_is_captured():
    captured(lambda x: allowed(x) * 2, X)


@pytest.fixture
def two_overloads():
    """`whetstone::pick`, tagged as compliant for a tensor alone, and not for a tensor and a number."""
    with torch.library._scoped_library("whetstone", "FRAGMENT") as lib:
        tags = (torch.Tag.pt2_compliant_tag,)
        torch.library.define("whetstone::pick.tensor", "(Tensor x) -> Tensor", tags=tags, lib=lib)
        torch.library.define("whetstone::pick.int", "(Tensor x, int dim) -> Tensor", lib=lib)
        torch.library.impl("whetstone::pick.tensor", "CompositeImplicitAutograd", torch.sin, lib=lib)
        torch.library.impl("whetstone::pick.int", "CompositeImplicitAutograd", torch.sum, lib=lib)
        yield torch.ops.whetstone.pick


def test_operators_that_are_not_compliant_break_the_graph_where_that_is_asked_for(two_overloads):
    programs = [lambda x: two_overloads(x), lambda x: two_overloads(x, 0), lambda x: two_overloads.int(x, 0)]
    for program in programs:
        captured(program, torch.ones(3))
    with tracer.config.patch(only_allow_pt2_compliant_ops=True):
        captured(programs[0], torch.ones(3))
        captured(torch.sin, torch.ones(3))
        for program in programs[1:]:
            assert breaks(program, torch.ones(3)).break_ids == ["operator-not-compliant"]
        with pytest.raises(tracer.exc.Unsupported, match="failed to match"):
            tracer.compile(lambda x: two_overloads(x, x, x), fullgraph=True)(torch.ones(3))


def _pooled(x, kernel):
    return torch.ops.aten.max_pool2d_with_indices(x, kernel)[0], torch.ops.aten.sum.dim_IntList(x, kernel)


def test_a_number_may_stand_for_a_list_of_them_in_an_operator():
    graphs = Graphs()
    traced = optimize(graphs.backend, dynamic=True)(_pooled)
    for kernel in (1, 2, 3):
        x = torch.randn(2, 3, 6, 6)
        assert all(map(torch.equal, traced(x, kernel), _pooled(x, kernel)))
    assert len(graphs) == 3
