"""A write whose operands overlap in memory ends as in eager mode under every backend: in a result, or refused with what came
before it done."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tracer

ROWS = torch.arange(3)
PLACES = ROWS[:, None].expand(3, 3)

# What each does to one tensor with another: in place, into `out`, by copying, by index.
WRITES: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "add_": lambda a, b: a.add_(b),
    "addcmul_": lambda a, b: a.addcmul_(b, b),
    "lerp_": lambda a, b: a.lerp_(b, 0.5),
    "relu_": lambda a, b: a.relu_(),
    "add.out": lambda a, b: torch.add(b, 1, out=a),
    "copy_": lambda a, b: a.copy_(b),
    "setitem": lambda a, b: operator.setitem(a, slice(None), b),
    "index_add_": lambda a, b: a.index_add_(0, ROWS, b),
    "index_copy_": lambda a, b: a.index_copy_(0, ROWS, b),
    "index_reduce_": lambda a, b: a.index_reduce_(0, ROWS, b, "prod"),
    "put_": lambda a, b: a.put_(PLACES, b),
    "scatter_": lambda a, b: a.scatter_(0, PLACES, b),
    "scatter_add_": lambda a, b: a.scatter_add_(0, PLACES, b),
    "scatter_reduce_": lambda a, b: a.scatter_reduce_(0, PLACES, b, "sum"),
    "masked_fill_": lambda a, b: a.masked_fill_(b > 0, 1),
    "fill_": lambda a, b: a.fill_(2),
}

# Two tensors of (3, 3), made of a tensor of (4, 3).
PAIRS: dict[str, Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]] = {
    "the same": lambda w: (w[1:], w[1:]),
    "partly the same": lambda w: (w[1:], w[:-1]),
    "transposed": lambda w: (w[1:], w[1:].t()),
    "expanded": lambda w: (w[:1].expand(3, 3), w.sum() * torch.ones(3, 3)),
    "apart": lambda w: (w[1:], w.clone()[1:]),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("write", WRITES)
def test_a_write_over_what_is_read_ends_as_in_eager_mode(write: str, pair: str, backend: str):
    def fn(w: torch.Tensor) -> torch.Tensor:
        w.mul_(2)
        written, read = PAIRS[pair](w)
        WRITES[write](written, read)
        return w + 1

    traced, values = tracer.optimize(backend)(fn), torch.randn(4, 3)
    assert _outcome(traced, values) == _outcome(fn, values)


def _outcome(fn: Callable[[torch.Tensor], torch.Tensor], values: torch.Tensor) -> list[Any]:
    """The result or the error of a call with a copy of `values`, and what the copy is then."""
    w = values.clone()
    try:
        ended: Any = fn(w).tolist()
    except RuntimeError as error:
        ended = str(error)
    return [ended, w.tolist()]


def test_what_does_not_overlap_stays_in_one_graph():
    def fn(w: torch.Tensor) -> torch.Tensor:
        w[1::2].add_(w[:-1:2])
        w[1:2].mul_(w[:1])
        return w.add_(w)

    traced = tracer.optimize("aot_eager", fullgraph=True)(fn)
    expected, w = fn(torch.ones(4, 3)), torch.ones(4, 3)
    assert torch.equal(traced(w), expected)


def test_a_sparse_tensor_is_written_to_as_in_eager_mode():
    def fn(m: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return m.clone().mul_(2) @ x

    matrix, x = torch.eye(3).to_sparse(), torch.ones(3, 2)
    assert torch.equal(tracer.optimize("eager")(fn)(matrix, x), fn(matrix, x))


def test_a_write_to_an_expanded_tensor_breaks_the_graph_of_compilers_alone():
    def fn(w: torch.Tensor) -> torch.Tensor:
        w[:1].expand(3, 3).fill_(2)
        return w + 1

    assert torch.equal(tracer.optimize("eager", fullgraph=True)(fn)(torch.ones(2, 3)), fn(torch.ones(2, 3)))
    with pytest.raises(tracer.errors.Unsupported, match="writes to one element at several places"):
        tracer.optimize("aot_eager", fullgraph=True)(fn)(torch.ones(2, 3))


def test_the_error_that_a_whole_graph_is_refused_with_is_pytorchs():
    def fn(w: torch.Tensor) -> torch.Tensor:
        w[1:].add_(w[:-1])
        return w

    with pytest.raises(tracer.errors.TorchRuntimeError, match="refer to a single memory location"):
        tracer.optimize("aot_eager", fullgraph=True)(fn)(torch.ones(4, 3))


LISTS = {
    "the same twice": lambda x: [x, x],
    "a tensor and its rows": lambda x: [x, x[:1]],
    "rows that overlap": lambda x: [x[:2], x[1:]],
    "rows apart": lambda x: [x[0], x[1], x[2]],
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_tensors_is_written_to_one_after_the_other(name, backend):
    def fn(x):
        torch._foreach_add_(LISTS[name](x), 1)
        return x * 1

    traced = tracer.compile(fn, backend=backend)
    for _ in range(2):
        seen, expected = torch.zeros(3, 2), torch.zeros(3, 2)
        assert torch.equal(traced(seen), fn(expected)) and torch.equal(seen, expected)
    assert (traced.stats()["breaks"] == 0) is (backend == "eager" or name == "rows apart")
