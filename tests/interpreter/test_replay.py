"""A module like one that was traced in the same trace is not traced again, and nobody can tell."""

from __future__ import annotations

import copy
import logging
import re

import pytest
import torch
from torch import nn

import tracer
from tests.interpreter.replay_programs import PROGRAMS, Block, Counting, Stack, X
from tracer import config
from tracer.interpreter.replay import Replay
from tracer.variables.builders.builder import VariableBuilder


@pytest.fixture(autouse=True, params=[True, False], ids=["grad", "no_grad"])
def gradients(request):
    with torch.set_grad_enabled(request.param):
        yield request.param


def seeded(make):
    torch.manual_seed(0)
    return make()


def described(example):
    if isinstance(example, torch.Tensor):
        return str(example.dtype), str(example.shape), str(example.stride()), example.requires_grad, example.is_leaf
    if isinstance(example, (tuple, list)):
        return [described(item) for item in example]
    return re.sub(r"zf\d{5,}", "zf", str(example))  # floats have other names in each compile


def nodes_of(gm):
    """What a backend can see of a graph."""
    return [
        (node.op, str(node.target), node.name, str(node.args), str(node.kwargs), described(node.meta.get("example_value")))
        + tuple((key, str(value)) for key, value in node.meta.items() if key != "example_value")
        for node in gm.graph.nodes
    ]


def traced(model, calls, dynamic=None, **settings):
    """What each call gives, the graphs, and the guards of the entries."""
    graphs = []

    def backend(gm, inputs):
        graphs.append(nodes_of(gm))
        return gm.forward

    tracer.reset()
    compiled = tracer.optimize(backend, dynamic=dynamic)(model)
    results = []
    with config.patch(**settings):
        for args in calls:
            torch.manual_seed(1)
            results.append(compiled(*args))
    entries = tracer.region_of(compiled).entries()
    return results, graphs, [{str(guard) for guard in entry.guarded_code.manager.guards} for entry in entries]


def leaves(value):
    return [value] if isinstance(value, torch.Tensor) else [leaf for item in value for leaf in leaves(item)]


@pytest.fixture
def replayed(caplog):
    """The calls that were replayed since it was asked last: `module as module`."""
    tracer.set_logs(replay=True)
    caplog.set_level(logging.INFO, "tracer")

    def answer():
        texts = [record.getMessage() for record in caplog.records]
        caplog.clear()
        assert not any(text.startswith("GIVEN UP") for text in texts), texts
        return [text for text in texts if text.startswith("REPLAYED")]

    yield answer
    tracer.set_logs(replay=False)


def begin(model):
    """The model as it is first, with its state outside of it set back."""
    Counting.calls = 0
    for module in model.modules():
        if "reset" in vars(module):
            module.reset()
    return copy.deepcopy(model)


def same_without(make, *calls, dynamic=None):
    """Whatever the program is, traces with and without replay have the same graphs and guards, and give what CPython gives."""
    model = seeded(make)
    expected, eager = [], begin(model)
    for args in calls:
        torch.manual_seed(1)
        expected.append(eager(*copy.deepcopy(args)))
    seen = [traced(begin(model), copy.deepcopy(calls), dynamic, replay=replay) for replay in (False, True)]
    for results, _, _ in seen:
        for one, other in zip(expected, results, strict=True):
            for a, b in zip(leaves(one), leaves(other), strict=True):
                assert torch.equal(a.nan_to_num(), b.nan_to_num())
    assert seen[0][1] == seen[1][1]
    assert seen[0][2] == seen[1][2]


def layers_replayed(lines):
    """The indices of the blocks that were replayed as a whole."""
    found = [line.partition(" ")[2].partition(" (")[0] for line in lines]
    return [int(name.rsplit("'", 2)[1]) for name in found if name.rpartition("._modules")[0].endswith("['blocks']")]


@pytest.mark.parametrize(("dynamic", "training"), [(None, False), (True, True)])
def test_equal_blocks_are_traced_once(replayed, dynamic, training):
    same_without(lambda: Stack(*(Block() for _ in range(5))).train(training), (X,), (X[:2],), dynamic=dynamic)
    assert set(layers_replayed(replayed())) == {2, 3, 4}  # the first is given an input of the graph


def test_it_can_be_switched_off(replayed):
    traced(Stack(Block(), Block()), [(X,)], replay=False)
    assert not replayed()


# -- two blocks that differ in one thing -----------------------------------------------------------------------------------


def change(**attributes):
    def apply(block):
        for name, value in attributes.items():
            setattr(block, name, value)

    return apply


def hooked(block):
    block.linear.register_forward_hook(lambda module, args, result: result + 1)


def hooked_before(block):
    block.norm.register_forward_pre_hook(lambda module, args: (args[0] * 2,))


def patched(block):
    block.forward = lambda x: block.linear(x) * 3


def patched_inside(block):
    block.linear.forward = lambda x: x * 3


def of_a_closure(number):
    def forward(x):
        return x * number

    return lambda block: setattr(block, "forward", forward)


def without_bias(block):
    block.linear.bias = None


def subclassed(block):
    class Other(nn.Linear):
        def forward(self, x):
            return super().forward(x) + 1

    block.linear = Other(4, 4)


def frozen(block):
    block.linear.weight.requires_grad_(False)


def strided(block):
    block.linear.weight = nn.Parameter(torch.randn(4, 4).t())


def wider(block):
    block.linear, block.norm = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 4)), nn.LayerNorm(4)


def with_dropout(block):
    block.norm = nn.Dropout(0.5)


DIFFERENCES = [
    change(scale=3.0), change(scale=2), change(scale=-2.0), change(scale=torch.tensor(2.0)), change(flag=True), change(flag=0),
    change(extra=1), change(scale=float("inf")), change(norm=nn.Identity()), change(norm=nn.LayerNorm(4, eps=0.1)),
    change(linear=nn.Linear(4, 4, bias=False)), hooked, hooked_before, patched, patched_inside, of_a_closure(2), without_bias,
    subclassed, frozen, strided, wider, with_dropout, lambda block: block.eval(), lambda block: block.norm.eval(),
    lambda block: block.register_buffer("extra", torch.ones(4)), lambda block: vars(block).update(flag=vars(block).pop("flag")),
]  # fmt: skip


def sparing(cases, step):
    """All cases, of which every step-th is run by default."""
    return [case if index % step == 0 else pytest.param(case, marks=pytest.mark.full) for index, case in enumerate(cases)]


@pytest.mark.parametrize("differ", sparing(DIFFERENCES, 5))
@pytest.mark.parametrize("position", [pytest.param(1, marks=pytest.mark.full), 2])
def test_a_block_that_differs_is_not_taken_for_an_equal_one(differ, position):
    def make():
        stack = Stack(*(Block() for _ in range(4)))
        differ(stack.blocks[position])
        return stack

    same_without(make, (X,), (X[:2],))


@config.patch(replay=True)
@pytest.mark.parametrize("differ", sparing(DIFFERENCES, 9))
def test_an_entry_notices_a_change_of_a_block_that_was_replayed(differ):
    model = seeded(lambda: Stack(*(Block() for _ in range(3))))
    compiled = tracer.compile(model, backend="eager")
    compiled(X)
    differ(model.blocks[2])
    torch.manual_seed(1)
    expected = model.forward(X)
    torch.manual_seed(1)
    assert torch.equal(compiled(X).nan_to_num(), expected.nan_to_num())


@pytest.mark.parametrize("dynamic", [None, pytest.param(True, marks=pytest.mark.full)])
@pytest.mark.parametrize("program", sparing(PROGRAMS, 4))
def test_programs_are_traced_as_without_replay(replayed, program, dynamic):
    same_without(PROGRAMS[program], (X,), (X[:2],), dynamic=dynamic)
    replayed()


def test_a_block_is_replayed_beside_changes_of_what_it_cannot_have_read(replayed):
    same_without(PROGRAMS["memories"], (X,), (X,))
    assert sum("['rest'] (" in line for line in replayed()) >= 4  # of two entries


def test_a_block_that_has_read_what_changes_is_traced_again(replayed):
    same_without(PROGRAMS["a memory of all"], (X,), (X[:2],))
    assert not layers_replayed(replayed())


# -- what was met in a replay is wrapped when something asks for it -----------------------------------------------------------


class LookingBack(Stack):
    """Asks for parts of blocks that were replayed: by another path, to read, to compare and to change them."""

    def __init__(self, *blocks):
        super().__init__(*blocks)
        self.linear_again, self.norm_again, self.attributes = blocks[3].linear, blocks[-1].norm, vars(blocks[3])

    def forward(self, x):
        x = super().forward(x)
        x = self.linear_again(x) + self.blocks[4].linear.in_features
        if self.blocks[-1].norm is self.norm_again:
            x = x * self.attributes["scale"]
        self.blocks[3].norm.calls = 1
        self.blocks[4].linear._buffers.update(last=x)
        del self.blocks[4].linear._buffers["last"]
        return x, [x * len(name) for name, _ in self.blocks[3].named_children()]


def test_parts_of_a_replayed_block_are_known_by_other_paths(replayed):
    same_without(lambda: LookingBack(*(Block() for _ in range(6))), (X,), (X[:2],))
    assert set(layers_replayed(replayed())) == {2, 3, 4, 5}


def test_objects_of_a_replayed_block_that_nothing_asks_for_are_not_wrapped(monkeypatch):
    wrapped, wrap = [], VariableBuilder._variable

    def noted(self, tx, value, source):
        wrapped.append(source.name)
        return wrap(self, tx, value, source)

    monkeypatch.setattr(VariableBuilder, "_variable", noted)
    traced(Stack(*(Block() for _ in range(5))), [(X,)], replay=True)
    of_block = [[name for name in wrapped if f"['{index}']" in name] for index in (1, 4)]
    assert any(name.endswith("_parameters") for name in of_block[0])
    assert not any(name.endswith("_parameters") for name in of_block[1])
    assert any(name.endswith("['weight']") for name in of_block[1])


def test_a_part_that_cannot_be_wrapped_ends_the_replay(monkeypatch, replayed):
    def fail(self, value, source):
        raise self._given_up(ValueError(source.name))

    monkeypatch.setattr(Replay, "_wrap", fail)
    same_without(lambda: LookingBack(*(Block() for _ in range(6))), (X,))
