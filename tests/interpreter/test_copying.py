"""Operations of a block that is replayed are copied: what a backend sees of the values beside the nodes."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.interpreter.replay_programs import Block, Gathering, Stack, X


class Viewing(Block):
    def forward(self, x):
        return (self.linear(x) + x.t().t()).relu()


class Splitting(Block):
    def forward(self, x):
        first, second = self.linear(x).chunk(2, dim=-1)
        return torch.cat((second, first), dim=-1)


class ReturningView(Block):
    def forward(self, x):
        return self.linear(x).relu()[:, :4]


class WritingOnTheSide(Block):
    def forward(self, x):
        marked = torch.zeros(4)
        marked[0] = 1
        return self.linear(x).relu() + marked


class ViewingParameters(Block):
    def forward(self, x):
        return (x @ self.linear.weight.t()).relu() + 1


def examples(model, target, gradients=False):
    """The fake values of the nodes with this target, and those of the graph's results."""
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm.forward

    with torch.set_grad_enabled(gradients):
        result, expected = tracer.compile(model, backend=backend)(X), model.forward(X)
    assert all(map(torch.equal, result, expected))
    [gm] = graphs
    nodes = [node for node in gm.graph.nodes if getattr(node.target, "__name__", node.target) == target]
    returned = gm.graph.output_node().args[0]
    return [node.meta["example_value"] for node in nodes], [node.meta["example_value"] for node in returned]


def storages(fakes):
    return {fake.untyped_storage()._cdata for fake in fakes}


def test_values_inside_of_a_block_share_a_description_and_results_do_not():
    inside, results = examples(Gathering(*(Block() for _ in range(5))), "linear")
    assert len(inside) == 5 and len(storages(inside)) < 4
    assert len(results) == 5 and len(storages(results)) == 5
    assert storages(inside).isdisjoint(storages(results))


def test_views_of_an_argument_lie_in_its_memory():
    views, results = examples(Gathering(*(Viewing() for _ in range(5))), "t")
    assert len(views) == 10 and len(storages(views)) == 5
    assert storages(views[2:]) == storages(results[:-1])


def test_with_gradients_nothing_is_shared():
    inside, results = examples(Gathering(*(Block() for _ in range(5))), "linear", gradients=True)
    assert len(storages(inside)) == 5 and all(result.requires_grad for result in results)


def test_what_a_block_writes_to_is_its_own_and_the_rest_shares_a_description():
    written, results = examples(Gathering(*(WritingOnTheSide() for _ in range(5))), "zeros")
    assert len(written) == 5 and len(storages(written)) == 5 and len(storages(results)) == 5
    inside, _ = examples(Gathering(*(WritingOnTheSide() for _ in range(5))), "linear")
    assert len(inside) == 5 and len(storages(inside)) < 4


def test_views_of_parameters_do_not_keep_the_rest_from_sharing_a_description():
    """They require gradients, also where nothing is differentiated."""
    views, _ = examples(Gathering(*(ViewingParameters() for _ in range(5))), "t")
    assert len(storages(views)) == 5 and all(view.requires_grad for view in views)
    inside, _ = examples(Gathering(*(ViewingParameters() for _ in range(5))), "matmul")
    assert len(inside) == 5 and len(storages(inside)) < 4


@pytest.mark.parametrize("block", [Splitting, ReturningView])
def test_results_that_are_views_are_views_of_their_own_block(block):
    made, results = examples(Gathering(*(block() for _ in range(5))), "linear")
    assert len(made) == 5 and len(storages(results)) == 5


def test_a_block_of_replayed_blocks_is_copied():
    inside, results = examples(Gathering(*(Stack(Block(), Block(), Block()) for _ in range(4))), "linear")
    assert len(inside) == 12 and len(storages(inside)) < 10 and len(storages(results)) == 4


def test_blocks_are_traced_in_inference_mode():
    """Its tensors have no version counter, by which it is told whether a tensor was written to."""
    for model in (Stack(*(Block() for _ in range(4))), Gathering(*(Block() for _ in range(5)))):
        with torch.inference_mode(), tracer.config.patch(suppress_errors=False):
            compiled = tracer.compile(model, fullgraph=True)
            result, expected = compiled(X), model.forward(X)
        assert all(map(torch.equal, result, expected))
        assert len(tracer.region_of(compiled).entries()) == 1
