"""Optimizers' steps in a traced function: one graph, and the parameters are eager's to the bit."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim import ASGD, LBFGS, SGD, Adafactor, Adagrad, Adam, Adamax, AdamW, NAdam, RAdam, RMSprop
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype as group_by_device_and_dtype

import tracer
from tests.support import captured, captured_made, check
from tests.support.graphs import Graphs
from tracer.api.callables import compiled
from tracer.api.settings import Settings

STEPS = {
    "SGD": (SGD, {}),
    "SGD with momentum": (SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "SGD foreach": (SGD, {"momentum": 0.9, "foreach": True}),
    "Adam": (Adam, {"amsgrad": True}),
    "Adam foreach": (Adam, {"foreach": True}),
    "AdamW": (AdamW, {}),
    "AdamW foreach": (AdamW, {"foreach": True, "maximize": True}),
    "AdamW fused": (AdamW, {"fused": True}),
    "RMSprop": (RMSprop, {"momentum": 0.9}),
    "Adagrad": (Adagrad, {}),
    "NAdam": (NAdam, {}),
    "Adamax": (Adamax, {}),
    "Adafactor": (Adafactor, {}),
}


def _trained(cls, options, decorate, warm):
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(3, 2)), torch.nn.Parameter(torch.randn(2))]
    optimizer = cls(parameters, lr=0.1, **options)

    def step(scale):
        for parameter in parameters:
            parameter.grad = parameter.detach() * scale
        optimizer.step()
        return scale + 1

    traced = decorate(step)
    for count in range(4):
        (step if warm and count == 0 else traced)(torch.tensor(count + 0.5))
    state = [value for held in optimizer.state.values() for value in held.values() if isinstance(value, torch.Tensor)]
    return [*parameters, *state]


@pytest.mark.parametrize("warm", [True, False], ids=["after a step", "from the first step on"])
@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_captured(name, warm):
    cls, options = STEPS[name]
    graphs, breaks = Graphs(), []

    def decorate(step):
        return compiled(step, Settings(backend=graphs.backend, name="check", hooks={"on_break": breaks.append}))

    expected = _trained(cls, options, lambda step: step, warm)
    seen = _trained(cls, options, decorate, warm)
    assert len(expected) == len(seen) and all(map(torch.equal, expected, seen))
    assert not breaks
    assert len(graphs) <= (1 if warm else 2)  # the first step makes the state


class Cautious(torch.optim.Optimizer):
    """An optimizer of the program's own, whose step reads data."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr, "largest": 1e-6})

    @torch.no_grad()
    def step(self, closure=None):
        group = self.param_groups[0]
        for parameter in group["params"]:
            state = self.state[parameter]
            if not state:
                state["mean"] = torch.zeros_like(parameter) if parameter.any() else torch.ones_like(parameter)
            state["mean"].mul_(0.9).add_(parameter.grad, alpha=0.1)
            group["largest"] = max(group["largest"], state["mean"].abs().max().item())
        for parameter in group["params"]:
            parameter.sub_(self.state[parameter]["mean"], alpha=group["lr"] / group["largest"])


@pytest.mark.parametrize("cls", [RAdam, ASGD, Cautious])
def test_a_step_that_decides_by_its_count_or_by_data_is_left_to_cpython(cls):
    graphs = Graphs()
    expected, seen = (_trained(cls, {}, decorate, True) for decorate in (lambda step: step, tracer.optimize(graphs.backend)))
    assert all(map(torch.equal, expected, seen))
    assert len(graphs) <= 3  # what makes the gradients, and one function of an optimizer that decides nothing


def test_the_closure_of_a_step_that_is_left_to_cpython_is_compiled():
    def trained(decorate):
        parameter = torch.nn.Parameter(torch.tensor([0.5, -1.0]))
        optimizer = LBFGS([parameter], line_search_fn="strong_wolfe")

        def closure():
            optimizer.zero_grad()
            loss = (parameter.square() * 1.3 + parameter).sum()
            loss.backward()
            return loss

        step = decorate(lambda: optimizer.step(closure))
        for _ in range(3):
            step()
        return parameter

    graphs = Graphs()
    assert torch.equal(trained(lambda step: step), trained(tracer.optimize(graphs.backend)))
    assert len(graphs) <= 5  # of the closure and of small functions of the optimizer; its loop would give sixty


def test_a_recorded_function_is_captured():
    def program(x):
        with torch.profiler.record_function("part"):
            return x + 1

    assert captured(program, torch.ones(3)).operations == ["add"]


def test_a_graph_break_in_a_recorded_function():
    def program(x):
        with torch.profiler.record_function("part"):
            y = x + 1
            print(end="")
            return y * 2

    check(program, torch.ones(3))


DTYPES = torch.float32, torch.float64
CLIPS = {
    "the norm": lambda parameters: clip_grad_norm_(parameters, 0.1),
    "the largest": lambda parameters: clip_grad_norm_(parameters, 0.1, float("inf"), error_if_nonfinite=True),
    "one by one": lambda parameters: clip_grad_norm_(parameters, 0.1, foreach=False),
    "values": lambda parameters: clip_grad_value_(parameters, 0.1),
}


@pytest.mark.parametrize("clip", CLIPS.values(), ids=CLIPS)
def test_clipped_gradients_of_two_dtypes(clip):
    def program(x, first, second):
        (x * first).double().mul(second).sum().backward()
        return clip([first, second, first])

    def make():
        return [torch.ones(3), *(torch.nn.Parameter(torch.arange(3.0, dtype=dtype) + 1) for dtype in DTYPES)], {}

    captured_made(program, make, as_written=True)  # a compiler would lose one of the writes to the first


def test_groups_by_device_and_dtype_keep_torchs_order():
    def program(x, y):
        return x + 1, group_by_device_and_dtype([[x, y, x], [None, y, x]], True), group_by_device_and_dtype([[x, y]])

    captured(program, torch.ones(2), torch.ones(3, dtype=torch.float64))
