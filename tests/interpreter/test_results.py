"""What operations of the graph give, as values of the program: tensors, sizes, numbers and the containers around them."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import breaks, captured
from tests.support.graphs import Graphs

X = torch.linspace(-1, 1, 12).reshape(3, 4)
RESULTS = {
    "a tensor": lambda x: x.sin(),
    "a named tuple": lambda x: (torch.max(x, 0), torch.max(x, 0).indices),
    "a tuple": lambda x: torch.frexp(x),
    "a tuple of tensors": lambda x: (x.split(2, 1), x.unbind()),
    "a list": lambda x: torch.broadcast_tensors(x, x[0]),
    "a size": lambda x: (x.size(), type(x.size()) is torch.Size, x.size()[1:]),
    "a number": lambda x: (x.dim(), x.numel(), x.element_size(), x.stride()),
    "a truth value": lambda x: (x.is_floating_point(), x.is_contiguous()),
    "a dtype and a device": lambda x: (x.dtype, x.device, torch.result_type(x, 1)),
    "the input itself": lambda x: (x.contiguous() is x, x.to(torch.float32) is x, x.add_(1) is x),
    "a view of the input": lambda x: x.view(-1)[1:],
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_has_the_class_and_the_contents_that_torch_gives(name):
    captured(lambda x: (x + 1, RESULTS[name](x)), X)


def test_sizes_of_results_are_symbols_where_those_of_the_inputs_are():
    def fn(x):
        y = torch.cat([x, x])
        return y * y.shape[0], y.shape

    graphs = Graphs()
    traced = tracer.optimize(graphs.backend, dynamic=True)(fn)
    for rows in (3, 5, 8):
        x = torch.randn(rows, 4)
        assert torch.equal(traced(x)[0], fn(x)[0]) and traced(x)[1] == (2 * rows, 4)
    assert len(graphs) == 1


def test_a_result_that_no_fake_stands_for_breaks_the_graph():
    breaks(lambda x: (x + 1).to_sparse().to_dense(), X)


IN_PLACE_ON_LISTS = {
    "a list": lambda tensors: torch._foreach_mul_(tensors, 2),
    "a list by name": lambda tensors: torch._foreach_copy_(self=tensors, src=[tensor + 1 for tensor in tensors]),
    "a tuple": lambda tensors: torch._foreach_zero_(tuple(tensors)),
}


@pytest.mark.parametrize("name", IN_PLACE_ON_LISTS)
def test_an_operation_in_place_on_a_list_gives_the_list(name):
    def fn(x, y):
        tensors = [x, y]
        given = IN_PLACE_ON_LISTS[name](tensors)
        if given is tensors:
            given.append(x + 1)
        return given, type(given), given is tensors, tensors

    captured(fn, X, X + 1)


def test_a_list_that_a_function_of_the_graph_returns_can_be_changed():
    @tracer.allow_in_graph
    def same(tensors):
        return tensors

    def fn(x):
        given = same([x, x + 1])
        given.append(x.sin())
        return given

    captured(fn, X)
