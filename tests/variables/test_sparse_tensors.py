"""Sparse matrices of the program as operands: captured, and cut out of graphs for compilers."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tracer
from tests.support import captured_made
from tests.support.comparing import Comparison

LAYOUTS = [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc]


def matrix(layout=torch.sparse_coo, rows=4, requires_grad=False):
    torch.manual_seed(0)
    dense = torch.rand(rows, rows)
    return torch.where(dense > 0.5, dense, 0.0).to_sparse(layout=layout).requires_grad_(requires_grad)


def transposed(adjacency, x):
    return adjacency.t() @ x.sin(), torch.transpose(adjacency, 0, 1).matmul(x) + 1


def added(adjacency, x):
    sums = torch.addmm(x, adjacency, x * 2), torch.sparse.addmm(x, adjacency, x)
    return *sums, torch.mv(adjacency, x[:, 0]), adjacency @ x[:, 1]


def measured(adjacency, x):
    size = adjacency.shape[0] + adjacency.size(1) + adjacency.dim()
    return x * size, adjacency.is_sparse, adjacency.layout, adjacency.dtype, adjacency.requires_grad, adjacency.to_dense().sum()


def passed_on(adjacency, x):
    return adjacency, x + 1


def multiplied(adjacency, x):
    return torch.sparse.mm(adjacency, x).relu(), torch.mm(adjacency, x) @ x.t()


PROGRAMS = [transposed, added, measured, passed_on, multiplied]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_operations_are_captured(fn, layout):
    if fn is added and layout is torch.sparse_csc:
        pytest.skip("torch has no sum with a product of this layout")
    a, x = matrix(layout), torch.rand(4, 3)
    for backend in ("eager", "aot_eager"):
        compiled = tracer.compile(fn, backend=backend, fullgraph=True)
        for _ in range(2):
            for seen, expected in zip(*(each if isinstance(each, tuple) else [each] for each in (compiled(a, x), fn(a, x)))):
                if isinstance(expected, torch.Tensor) and expected.layout is not torch.strided:
                    assert seen is expected
                else:
                    Comparison().same(expected, seen, "result")
        assert len(tracer.region_of(compiled).entries()) == 1


class Convolutions(nn.Module):
    """Two layers of a graph network."""

    def __init__(self, adjacency: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("adjacency", adjacency)
        self.first, self.second = nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.sparse.mm(self.adjacency, self.first(x)).relu()
        return F.log_softmax(self.adjacency @ self.second(hidden), dim=-1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.full)])
@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=str)
def test_a_graph_network_trains_in_one_trace(layout, backend):
    found = []
    for wrap in (lambda module: module, lambda module: tracer.compile_module(module, backend=backend, fullgraph=True)):
        adjacency = matrix(layout, 6, requires_grad=True)
        torch.manual_seed(1)
        module = Convolutions(adjacency)
        run = wrap(module)
        for _ in range(2):
            run(torch.linspace(0, 1, 30).reshape(6, 5)).square().sum().backward()
        found.append([p.grad for p in module.parameters()] + [adjacency.grad.to_dense()])
    torch.testing.assert_close(*found)


def test_compilers_are_given_what_lies_around_the_products():
    given = []

    def backend(gm, example_inputs):
        given.append({str(getattr(node.target, "__name__", node.target)) for node in gm.graph.nodes if node.op != "placeholder"})
        return gm.forward

    def fn(adjacency, x):
        return (torch.sparse.mm(adjacency, x.sin()) + 1).cos()

    compiled = tracer.compile(fn, backend=backend, fullgraph=True)
    a, x = matrix(), torch.rand(4, 3)
    assert torch.equal(compiled(a, x), fn(a, x))
    assert (
        len(given) == 2 and "sin" in given[0] and "cos" in given[1] and not any("mm" in name for names in given for name in names)
    )


def test_what_is_guarded():
    def fn(adjacency, x):
        return (adjacency @ x).sin()

    compiled = tracer.compile(fn)
    x = torch.rand(4, 3)
    others = [matrix(), matrix(torch.sparse_csr), matrix().double(), matrix(requires_grad=True), matrix().to_dense()]
    for count, a in enumerate(others, 1):
        x = x.to(a.dtype)
        again = a.detach().requires_grad_(a.requires_grad)
        assert torch.equal(compiled(a, x), fn(a, x)) and torch.equal(compiled(again, x), fn(a, x))
        assert len(tracer.region_of(compiled).entries()) == count


def test_matrices_of_sizes_that_vary_break_the_graph_and_the_rest_serves_all():
    def fn(adjacency, x):
        return (adjacency @ x.sin()).cos()

    compiled = tracer.compile(fn)
    for rows in range(3, 9):
        a, x = matrix(rows=rows), torch.rand(rows, 3)
        assert torch.equal(compiled(a, x), fn(a, x))
    assert len(tracer.region_of(compiled).entries()) < 6


def test_a_view_of_a_sparse_tensor_is_an_argument():
    captured_made(lambda a, x: a @ x, lambda: ((matrix().t(), torch.rand(4, 3)), {}), as_written=True)


def test_sizes_that_do_not_fit_raise_the_programs_error():
    compiled = tracer.compile(lambda a, x: torch.sparse.mm(a, x) * 2)
    with pytest.raises(RuntimeError, match="mat1|size"):
        compiled(matrix(), torch.rand(5, 3))
