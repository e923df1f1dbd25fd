"""Graphs with nested tensors under torch's compilers, which take those apart."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nested import nested_tensor_from_jagged

import tracer
from tests.support.nested import ByParts, alike, captured_nested, holed, jagged
from tracer.graph.same_graph import layout_of

OFFSETS = torch.tensor([0, 2, 5])
torch.manual_seed(0)
LINEAR, NORM = nn.Linear(4, 4), nn.LayerNorm(4)


def values() -> torch.Tensor:
    return torch.linspace(-1, 1, 20).reshape(5, 4)


class Compiled(ByParts):
    """What a compiler makes remembers lengths in a dict of its own."""

    def _seqlens(self, expected: Any, seen: Any, path: str) -> None:
        mine, theirs = ({name: len(kept) for name, kept in each._metadata_cache.items()} for each in (expected, seen))
        assert mine == theirs, path


def checked(fn: Any, *calls: Any, backend: str = "aot_eager", fullgraph: bool = True, dynamic: bool | None = None) -> int:
    """Compares each call with CPython's: results and arguments. A call is a function that makes the arguments. Returns the number
    of traces."""
    compiled = tracer.compile(fn, backend=backend, fullgraph=fullgraph, dynamic=dynamic)
    for make in calls:
        mine, theirs = list(make()), list(make())
        comparison = ByParts() if backend == "eager" else Compiled()
        expected, seen = fn(*mine), compiled(*theirs)
        comparison.sequence(mine, theirs, "args")
        comparison.same(expected, seen, "result")
    region = tracer.region_of(compiled)
    assert region is not None
    return int(region.stats["miss"])


def gradients(run: Any) -> Any:
    leaf = values().requires_grad_()
    run(nested_tensor_from_jagged(leaf, OFFSETS)).values().pow(2).sum().backward()
    return leaf.grad


@pytest.mark.parametrize(
    "fn",
    [
        lambda a: a.sin() * 2,
        lambda a: LINEAR(NORM(a)),
        lambda a: (a.sum(-1), a.sum(dim=1), a.mean(dim=1), a.sum()),
        lambda a: a.to_padded_tensor(0.0).sum(1),
        lambda a: [row.sum(0) for row in a.unbind()],
        lambda a: a.view(a.size(0), -1, 2, 2).flatten(2),
        lambda a: (a.offsets().diff(), a.values() + 1),
        lambda a: (a.shape, a.shape[1], a * 2),
        lambda a: a * 2 if a.shape[1] == a.size(1) else a,
    ],
)
def test_a_program_is_compiled_whole(fn: Any) -> None:
    calls = [lambda rows=rows: [jagged(*rows)] for rows in ((2, 3), (4, 5), (3, 7))]
    assert checked(fn, *calls, dynamic=True) == 1


def test_relations_of_offsets_are_told_apart() -> None:
    def fn(a: Any, b: Any) -> Any:
        return a + b if a.shape == b.shape else a.sin()

    assert checked(fn, lambda: alike(2, 3), lambda: [jagged(2, 3), jagged(2, 3)], lambda: alike(2, 3)) == 2


def test_one_that_is_made_inside_meets_one_that_is_passed() -> None:
    def fn(a: Any, v: Any, o: Any) -> Any:
        return a + nested_tensor_from_jagged(v, a.offsets()), nested_tensor_from_jagged(v, o) * a

    def make() -> Any:
        offsets = OFFSETS.clone()
        return [jagged(2, 3, offsets=offsets), values(), offsets]

    assert checked(fn, make, make) == 1


def test_one_with_lengths_of_its_own_is_compiled() -> None:
    assert checked(lambda a: a.sin(), lambda: [holed()], lambda: [holed()]) == 1


@pytest.mark.parametrize("first", [0, 1, 2])
def test_what_was_compiled_for_other_parts_is_not_used_again(first: int) -> None:
    """The graph is the same one, but a compiler has taken apart what the first call gave."""

    def plain() -> Any:
        offsets = torch.arange(4) * 10
        return [nested_tensor_from_jagged(torch.linspace(0, 1, 120).reshape(30, 4), offsets)]

    def remembering() -> Any:
        return [nested_tensor_from_jagged(plain()[0].values(), torch.arange(4) * 10, min_seqlen=10, max_seqlen=10)]

    calls = [plain, lambda: [holed()], remembering]
    for backend in ("aot_eager", "eager"):
        checked(lambda a: a.sin() * 2, *calls[first:], *calls[:first], backend=backend, dynamic=True)


@pytest.mark.parametrize("fn", [lambda a: (a * a).sin(), lambda a: LINEAR(NORM(a)) + a])
def test_a_backward_pass_is_compiled(fn: Any) -> None:
    torch.testing.assert_close(gradients(tracer.compile(fn, backend="aot_eager", fullgraph=True)), gradients(fn))


def test_inductor_compiles_what_is_computed_of_the_values() -> None:
    def fn(a: Any) -> Any:
        return (a.sin() * 2 + 1).cos()

    torch.testing.assert_close(gradients(tracer.compile(fn, backend="inductor", fullgraph=True)), gradients(fn))


def test_what_compilers_do_not_support_runs_as_it_is_written() -> None:
    """torch has no backward of a sum over the ragged dim, and a compiler makes the backward pass at once."""

    def fn(a: Any) -> Any:
        return LINEAR(a).sum(dim=1)

    with pytest.warns(UserWarning, match="runs as it is, without the backend"):
        checked(fn, lambda: [jagged(2, 3)])


def test_attention_by_matrix_products_is_left_to_cpython() -> None:
    def fn(a: Any) -> Any:
        q = a.unflatten(-1, (2, 2)).transpose(1, 2)
        return torch.nn.functional.scaled_dot_product_attention(q, q, q) * 2

    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*runs as it is")
        checked(fn, lambda: [jagged(2, 3)], fullgraph=False)


def written_beside(a: Any, v: Any) -> Any:
    a.mul_(2)
    return v.sum()


def written_below(a: Any, v: Any) -> Any:
    v.mul_(2)
    return a.sum()


def written_twice(a: Any, v: Any) -> Any:
    a.mul_(2)
    before = v + 1
    a.add_(1)
    return before, a * 2


def written_through_its_values(a: Any, v: Any) -> Any:
    a.values().mul_(3)
    return a.sum()


def written_behind_a_read_of_its_values(a: Any, v: Any) -> Any:
    inner = a._values
    a.mul_(2)
    return inner.sum()


WRITES = [written_beside, written_below, written_twice, written_through_its_values, written_behind_a_read_of_its_values]


@pytest.mark.parametrize("fn", WRITES)
@pytest.mark.parametrize("part", [True, False])
def test_writes_to_memory_that_is_shared_with_a_nested_tensor_are_seen(fn: Any, part: bool) -> None:
    def make() -> Any:
        base = values()
        return [nested_tensor_from_jagged(base if part else base[:], OFFSETS.clone()), base]

    checked(fn, make, make, fullgraph=False)
    checked(fn, make, make, backend="eager")


def test_a_write_to_a_nested_tensor_alone_is_compiled() -> None:
    def fn(a: Any) -> Any:
        a.mul_(2)
        return a.sum()

    checked(fn, lambda: [jagged(2, 3)], lambda: [jagged(2, 3)])


def test_the_layout_of_a_graph_tells_the_parts_of_nested_tensors_apart() -> None:
    def layout(make: Any) -> Any:
        return layout_of(captured_nested(lambda a: a.sin(), make).graphs[0], lambda expr: expr)

    plain, again = (layout(lambda: [jagged(2, 3)]) for _ in range(2))
    assert str(plain) == str(again)
    others = [[jagged(2, 3, cached=True)], [holed(2)], [jagged(2, 3).transpose(1, 2)]]
    assert all(str(layout(lambda made=made: made)) != str(plain) for made in others)
