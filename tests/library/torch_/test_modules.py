"""What modules are made of beside layers: containers, buffers, hooks, attributes, parametrisations, modes."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import tracer
from tests.library.torch_.many_calls import many_calls

CAPTURED: dict[str, type[nn.Module]] = {}
BREAKS: dict[str, type[nn.Module]] = {}


def expect_captured(cls):
    CAPTURED[cls.__name__] = cls
    return cls


def expect_breaks(cls):
    BREAKS[cls.__name__] = cls
    return cls


class WithLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)


class WithList(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(4)])


@expect_captured
class ModuleListByIndexSliceAndLoop(WithList):
    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        for layer in self.layers[1:3]:
            x = layer(x)
        for index, layer in enumerate(self.layers):
            x = layer(x) * index
        for left, right in zip(self.layers, self.layers[1:]):
            x = left(x) + right(x)
        return self.layers[-1](x) + len(self.layers) + self.layers[0].in_features


@expect_captured
class ModuleDict(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.ReLU()})

    def forward(self, x):
        x = self.parts["a"](x)
        for _, part in self.parts.items():
            x = part(x)
        for key in self.parts:
            x = self.parts[key](x)
        for part in self.parts.values():
            x = part(x)
        if "b" in self.parts:
            x = x + len(self.parts)
        return x, list(self.parts.keys())


@expect_captured
class ParameterContainers(nn.Module):
    def __init__(self):
        super().__init__()
        self.list = nn.ParameterList([nn.Parameter(torch.randn(4)) for _ in range(3)])
        self.dict = nn.ParameterDict({"a": nn.Parameter(torch.randn(4))})

    def forward(self, x):
        for parameter in self.list:
            x = x + parameter
        return x * self.list[0] + self.dict["a"] + len(self.list)


@expect_captured
class SequentialParts(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 4)))

    def forward(self, x):
        return self.parts[0](x) + self.parts(x) + self.parts[-1](x)


@expect_captured
class BuffersWrittenTo(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(4), persistent=False)

    def forward(self, x):
        self.count += 1
        self.mean.mul_(0.9).add_(x.mean(0).detach() * 0.1)
        return x - self.mean + self.count


@expect_captured
class BufferReplaced(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean = self.mean * 0.9 + x.detach().mean(0) * 0.1
        return x - self.mean


@expect_captured
class ForwardHooks(WithLinear):
    def __init__(self):
        super().__init__()
        self.linear.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        self.linear.register_forward_hook(lambda module, args, output: output * 2)
        self.linear.register_forward_hook(lambda module, args, kwargs, output: output - 1, with_kwargs=True)

    def forward(self, x):
        return self.linear(x)


@expect_captured
class HooksWithKeywords(WithLinear):
    def __init__(self):
        super().__init__()
        self.linear.register_forward_pre_hook(
            lambda module, args, kwargs: (args, {"input": kwargs["input"] + 1}), with_kwargs=True
        )

    def forward(self, x):
        return self.linear(input=x)


@expect_captured
class TiedWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.output = nn.Linear(4, 5, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, x):
        return self.output(self.embedding(x.long().abs() % 5))


@expect_captured
class WalksItself(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x):
        total = 0
        for name, parameter in self.named_parameters():
            total = total + parameter.sum() * len(name)
        for child in self.children():
            x = child(x)
        for name, _ in self.named_modules():
            total = total + len(name)
        return x * total + sum(parameter.numel() for parameter in self.parameters())


@expect_captured
class AttributesOfAllKinds(WithLinear):
    def __init__(self):
        super().__init__()
        self.scale = 2.0
        self.flag = True
        self.activation = F.gelu
        self.config = {"a": 1, "b": [1, 2]}
        self.missing = None

    def forward(self, x):
        if self.training and self.flag:
            x = x * self.scale
        if hasattr(self, "other"):
            x = x + 1
        zero = 0 if getattr(self, "missing", None) is None else 1
        return self.activation(self.linear(x)) * self.config["a"] + self.config["b"][1] + zero


@expect_captured
class MethodsOfAllKinds(WithLinear):
    @property
    def weight(self):
        return self.linear.weight

    @staticmethod
    def plus_one(x):
        return x + 1

    @classmethod
    def double(cls, x):
        return x * 2

    def forward(self, x):
        return self.double(self.plus_one(x @ self.weight.T))


@expect_captured
class CallsOfAllKinds(WithLinear):
    def forward(self, x):
        return self.linear.forward(x) + self.linear.__call__(x) + nn.Module.__call__(self.linear, x)


class OwnCall(nn.Linear):
    def __call__(self, x):
        return super().__call__(x) * 2


@expect_captured
class CallOverridden(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = OwnCall(4, 4)

    def forward(self, x):
        return self.linear(x)


@expect_captured
class WeightNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))

    def forward(self, x):
        return self.linear(x)


@expect_captured
class SpectralNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))

    def forward(self, x):
        return self.linear(x)


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).mT


@expect_captured
class CachedParametrization(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.utils.parametrize.register_parametrization(nn.Linear(4, 4), "weight", Symmetric())

    def forward(self, x):
        with nn.utils.parametrize.cached():
            return self.linear(x) + self.linear(x * 2) + len(nn.utils.parametrize._cache)


@expect_captured
class Checkpointed(WithLinear):
    def forward(self, x):
        return checkpoint(self.linear, x, use_reentrant=False) + checkpoint(F.dropout, x, 0.5, use_reentrant=False)


@expect_captured
class DecoratedMethod(WithLinear):
    @torch.no_grad()
    def frozen(self, x):
        return self.linear(x)

    def forward(self, x):
        return self.frozen(x) + self.linear(x)


@expect_captured
class RandomByMode(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(x) + F.dropout(x, 0.3, training=self.training) + x


@expect_captured
class ModeChangedInside(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        self.dropout.eval()
        y = self.dropout(x)
        self.dropout.train()
        return y + self.dropout(x)


@expect_captured
class MadeInside(nn.Module):
    def forward(self, x):
        return nn.ReLU()(x) + nn.Identity()(x) + nn.Softmax(dim=-1)(x)


@expect_captured
class StructuredOutput(WithLinear):
    def forward(self, x):
        return {"a": self.linear(x), "b": (x, [x + 1]), "c": None, "d": 3}


@expect_captured
class Detaching(WithLinear):
    def forward(self, x):
        y = self.linear(x)
        weight = self.linear.weight
        return y, y.detach(), y.data, y.requires_grad, weight.requires_grad, weight.is_leaf, weight.data.sum()


@expect_captured
class LazyInitialised(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.LazyLinear(4)
        self(torch.randn(2, 4))

    def forward(self, x):
        return self.linear(x)


@expect_captured
class GradientInside(WithLinear):
    def forward(self, x):
        return torch.autograd.grad(self.linear(x).sum(), self.linear.weight, create_graph=True)[0]


# -- what ends the graph -------------------------------------------------------------------------------------------------


@expect_breaks
class BackwardHooks(WithLinear):
    def __init__(self):
        super().__init__()
        self.linear.register_full_backward_hook(lambda module, into, out: None)

    def forward(self, x):
        return self.linear(x)


@expect_breaks
class CheckpointWithEffects(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return checkpoint(self.norm, self.linear(x), use_reentrant=False)


BATCHES = (4, 4, 5, 7)


def run(make: Callable[[], nn.Module], train: bool):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return many_calls(make().train(train), [(torch.randn(n, 4),) for n in BATCHES], backward=True)


@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", CAPTURED)
def test_captured(name, train):
    traced = run(CAPTURED[name], train)
    assert not traced.breaks, "\n".join(map(str, traced.breaks))
    assert len(traced.graphs) == 2


@pytest.mark.parametrize("name", BREAKS)
def test_breaks_and_agrees(name):
    assert run(BREAKS[name], train=True).breaks


# -- changes between calls -----------------------------------------------------------------------------------------------


def check_after(change: Callable[[nn.Module], object], make: Callable[[], nn.Module] = WithList) -> None:
    """Traced, changed, called again: the change is noticed."""
    module = nn.Sequential(*make().layers, nn.Dropout(0.5))  # type: ignore[arg-type]
    traced = tracer.optimize("eager", fullgraph=True)(module)
    x = torch.randn(3, 4)
    for _ in range(2):
        for model in (module, traced):
            torch.manual_seed(0)
            (expected if model is module else seen)[:] = [model(x)]
        assert torch.equal(expected[0], seen[0])
        change(module)


expected: list[torch.Tensor] = []
seen: list[torch.Tensor] = []


def hook_added(module):
    module[0].register_forward_hook(lambda layer, args, output: output + 1)


def forward_replaced(module):
    module[1].forward = lambda x: x * 3


def parameter_replaced(module):
    module[0].weight = nn.Parameter(torch.ones(4, 4))


def parameter_data_replaced(module):
    module[0].weight.data = torch.ones(4, 4)


def parameter_grown(module):
    module[1].weight = nn.Parameter(torch.ones(4, 4).double().float())
    module[1].bias = None


def layer_replaced(module):
    module[2] = nn.ReLU()


def layer_added(module):
    module.append(nn.Tanh())


def evaluation(module):
    module.eval()


def one_layer_in_evaluation(module):
    module[-1].eval()


def frozen(module):
    module.requires_grad_(False)


def attribute_changed(module):
    module[-1].p = 0.1


@pytest.mark.parametrize(
    "change",
    [hook_added, forward_replaced, parameter_replaced, parameter_data_replaced, parameter_grown, layer_replaced,
     layer_added, evaluation, one_layer_in_evaluation, frozen, attribute_changed],
)  # fmt: skip
def test_a_change_of_the_module_is_noticed(change):
    check_after(change)
