"""What can change about a module between two calls is noticed."""

from __future__ import annotations

import types

import pytest
import torch
from torch import nn

import tracer
from tests.soundness.watching import Watched, noticed, traced, unharmed


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))
        self.register_buffer("offset", torch.randn(3))
        self.register_buffer("maybe", None)
        self.flag = False
        self.rate = 0.5
        self.words = ["a", "b"]
        self.table = {"k": 1}
        self.act = torch.relu

    def forward(self, x):
        y = self.act(x * self.weight + self.offset) * self.rate
        if self.flag:
            y = y - 1
        if self.maybe is not None:
            y = y + self.maybe
        if hasattr(self, "extra"):
            y = y * self.extra
        if self.training:
            y = y * 2
        return y * len(self.words) + self.table["k"]


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
        self.named = nn.ModuleDict({"a": nn.Linear(3, 3)})
        self.seq = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def forward(self, x):
        x = self.inner(x)
        for layer in self.layers:
            x = layer(x)
        for name, layer in self.named.items():
            x = layer(x) + len(name)
        return self.seq(x)


def doubled(module, args, output):
    return output * 2


CHANGES = {
    "an attribute": lambda m: setattr(m.inner, "flag", True),
    "a float attribute": lambda m: setattr(m.inner, "rate", 0.25),
    "a float attribute that became an int": lambda m: setattr(m.inner, "rate", 1),
    "a list attribute": lambda m: m.inner.words.append("c"),
    "a dict attribute": lambda m: m.inner.table.__setitem__("k", 5),
    "a function attribute": lambda m: setattr(m.inner, "act", torch.sigmoid),
    "a new attribute that was asked for": lambda m: setattr(m.inner, "extra", 3),
    "a new attribute that is a parameter": lambda m: setattr(m.inner, "extra", nn.Parameter(torch.randn(3))),
    "a new attribute that is a buffer": lambda m: m.inner.register_buffer("extra", torch.randn(3)),
    "a buffer that was None": lambda m: setattr(m.inner, "maybe", torch.randn(3)),
    "a parameter of another size": lambda m: setattr(m.inner, "weight", nn.Parameter(torch.randn(1))),
    "a parameter frozen": lambda m: m.inner.weight.requires_grad_(False),
    "all parameters frozen": lambda m: m.requires_grad_(False),
    "parameter data of another size": lambda m: setattr(m.inner.weight, "data", torch.randn(1)),
    "a buffer of another size": lambda m: setattr(m.inner, "offset", torch.randn(1)),
    "a buffer that became a parameter": lambda m: (
        delattr(m.inner, "offset"), setattr(m.inner, "offset", nn.Parameter(torch.randn(3)))),
    "parameter data of another dtype": lambda m: setattr(m.inner.weight, "data", torch.randn(3).double()),
    "a submodule replaced": lambda m: setattr(m, "inner", nn.Linear(3, 3)),
    "a submodule replaced by one of its kind": lambda m: m.seq.__setitem__(1, nn.Sigmoid()),
    "a submodule added": lambda m: m.layers.append(nn.Linear(3, 3)),
    "a submodule added to a sequential": lambda m: m.seq.append(nn.Sigmoid()),
    "a submodule added to a dict": lambda m: m.named.update({"bb": nn.Linear(3, 3)}),
    "a submodule deleted": lambda m: m.layers.__delitem__(0),
    "a submodule of a sequential deleted": lambda m: m.seq.__delitem__(1),
    "a submodule of a dict deleted": lambda m: m.named.pop("a"),
    "a module without bias": lambda m: setattr(m.layers[0], "bias", None),
    "a forward hook": lambda m: m.inner.register_forward_hook(doubled),
    "a forward hook on a leaf": lambda m: m.layers[0].register_forward_hook(doubled),
    "a forward pre-hook": lambda m: m.inner.register_forward_pre_hook(lambda mod, args: (args[0] + 1,)),
    "a forward hook with kwargs": lambda m: m.inner.register_forward_hook(
        lambda mod, args, kwargs, out: out - 1, with_kwargs=True),
    "a hook on the outermost module": lambda m: m.register_forward_hook(doubled),
    "eval": lambda m: m.eval(),
    "eval of a part": lambda m: m.inner.eval(),
    "forward patched on the instance": lambda m: setattr(m.inner, "forward", lambda x: x * 7),
    "forward patched on the instance as a method": lambda m: setattr(
        m.inner, "forward", types.MethodType(lambda self, x: x * self.weight, m.inner)),
    "forward patched on a leaf": lambda m: setattr(m.layers[1], "forward", lambda x: x * 7),
    "forward patched on the outermost": lambda m: setattr(m, "forward", lambda x: x * 7),
    "__class__": lambda m: setattr(m.seq[1], "__class__", nn.Sigmoid),
    "a parametrisation": lambda m: nn.utils.parametrizations.weight_norm(m.layers[0]),
    "another linear's weight": lambda m: setattr(m.layers[0], "weight", nn.Parameter(torch.randn(1, 3))),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("how", ["module", "function"])
def test_a_module_that_changed(name, how):
    torch.manual_seed(1)
    module, x = Outer(), torch.randn(2, 3)
    fn = module if how == "module" else (lambda x: module(x) * 2)
    noticed(fn, (x,), lambda: CHANGES[name](module))


SAME = {
    "an optimizer's step": lambda m: [p.data.add_(1) for p in m.parameters()],
    "a parameter swapped for its like": lambda m: setattr(m.inner, "weight", nn.Parameter(torch.randn(3))),
    "parameter data swapped": lambda m: setattr(m.inner.weight, "data", torch.randn(3)),
    "a buffer swapped for its like": lambda m: setattr(m.inner, "offset", torch.randn(3)),
    "a state dict loaded": lambda m: m.load_state_dict({k: torch.randn_like(v) for k, v in m.state_dict().items()}),
    "an attribute that is not read": lambda m: setattr(m, "comment", "new"),
    "gradients": lambda m: [setattr(p, "grad", torch.randn_like(p)) for p in m.parameters()],
}


@pytest.mark.parametrize("name", SAME)
def test_what_the_entry_serves_as_well(name):
    module, x = Outer(), torch.randn(2, 3)
    unharmed(lambda x: module(x), (x,), lambda: SAME[name](module))


def test_a_submodule_replaced_by_its_like_is_right_either_way():
    module, x = Outer(), torch.randn(2, 3)
    watched = traced(module, (x,))
    module.layers[0] = nn.Linear(3, 3)
    module.inner = Inner()
    watched(x)


def test_a_hook_removed_again():
    module, x = Outer(), torch.randn(2, 3)
    watched = traced(lambda x: module(x), (x,))
    handle = module.inner.register_forward_hook(doubled)
    watched(x)
    handle.remove()
    traces = watched.traces
    watched(x)
    assert watched.traces == traces


@pytest.mark.parametrize(
    "register",
    [nn.modules.module.register_module_forward_hook, nn.modules.module.register_module_forward_pre_hook],
    ids=["forward", "pre"],
)
@pytest.mark.parametrize("how", ["module", "function"])
def test_global_hooks(register, how):
    module, x = Outer(), torch.randn(2, 3)
    seen = []
    watched = traced(module if how == "module" else (lambda x: module(x)), (x,))
    handle = register(lambda mod, *rest: seen.append(type(mod).__name__))
    try:
        watched(x)
        assert len(seen) == 2 * len(list(module.modules())) - 2 * 2  # ModuleList and ModuleDict are not called
    finally:
        handle.remove()
    seen.clear()
    watched(x)
    assert not seen


def test_a_backward_hook_runs():
    module, x = nn.Linear(3, 3), torch.randn(2, 3)
    watched = traced(lambda x: module(x).detach(), (x,))
    compiled = tracer.optimize()(module)
    compiled(x)
    seen = []
    module.register_full_backward_hook(lambda mod, grad_in, grad_out: seen.append(1))
    watched(x)
    compiled(x).sum().backward()
    assert seen == [1]


def test_a_method_patched_on_the_class(monkeypatch):
    module, x = Outer(), torch.randn(2, 3)
    noticed(lambda x: module(x), (x,), lambda: monkeypatch.setattr(Inner, "forward", lambda self, x: x * self.weight))


def test_a_method_patched_on_a_class_of_torch(monkeypatch):
    module, x = Outer(), torch.randn(2, 3)
    noticed(module, (x,), lambda: monkeypatch.setattr(nn.Linear, "forward", lambda self, x: x + 1))


def test_forward_of_the_decorated_module_patched_on_the_class(monkeypatch):
    module, x = Outer(), torch.randn(2, 3)
    watched = traced(module, (x,))
    monkeypatch.setattr(Outer, "forward", lambda self, x: self.inner(x) - 1)
    watched(x)


def test_a_property_and_a_class_attribute_that_change(monkeypatch):
    class WithProperty(nn.Module):
        factor = 2

        @property
        def scale(self):
            return 3

        def forward(self, x):
            return x * self.factor * self.scale

    module, x = WithProperty(), torch.randn(3)
    noticed(lambda x: module(x), (x,), lambda: setattr(WithProperty, "factor", 5))
    noticed(lambda x: module(x), (x,), lambda: setattr(WithProperty, "scale", property(lambda self: 7)))
    noticed(lambda x: module(x), (x,), lambda: setattr(module, "factor", 11))


def test_a_method_that_a_subclass_gets_later():
    class Base(nn.Module):
        def forward(self, x):
            return x + 1

    class Derived(Base):
        pass

    module, x = Derived(), torch.randn(3)
    noticed(lambda x: module(x), (x,), lambda: setattr(Derived, "forward", lambda self, x: x + 2))


def test_getattr_on_the_class_that_appears():
    class Plain(nn.Module):
        def forward(self, x):
            return x + getattr(self, "missing", 1)

    module, x = Plain(), torch.randn(3)
    noticed(lambda x: module(x), (x,), lambda: setattr(Plain, "missing", 5))


def test_call_and_call_impl_patched(monkeypatch):
    module, x = Outer(), torch.randn(2, 3)
    watched = traced(lambda x: module(x), (x,))
    plain_call = nn.Module._call_impl
    monkeypatch.setattr(nn.Module, "_call_impl", lambda self, *args, **kw: plain_call(self, *args, **kw) + 1)
    watched(x)
    monkeypatch.undo()
    watched(x)
    monkeypatch.setattr(Inner, "__call__", lambda self, x: x * 9, raising=False)
    watched(x)


def test_training_flag_of_dropout_and_batch_norm():
    module = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5))
    x = torch.randn(4, 3)
    compiled, twin = tracer.optimize()(module), nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5))
    for mode in (True, True, False, True, False):
        module.train(mode)
        twin.train(mode)
        torch.manual_seed(3)
        expected = twin(x)
        torch.manual_seed(3)
        assert torch.equal(compiled(x), expected)
    assert all(map(torch.equal, module.state_dict().values(), twin.state_dict().values()))


def test_two_modules_of_one_class_through_one_function():
    first, second = Outer(), Outer()
    second.inner.flag = True
    watched = Watched(lambda m, x: m(x))
    x = torch.randn(2, 3)
    for module in (first, second, first, second, Outer()):
        watched(module, x)
    second.eval()
    for module in (first, second):
        watched(module, x)


def test_shared_parameters_that_are_shared_no_more():
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    module[1].weight = module[0].weight
    change = lambda: setattr(module[1], "weight", nn.Parameter(torch.randn(3, 3)))
    noticed(lambda x: module(x), (torch.randn(2, 3),), change)


def test_parameters_that_become_shared():
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    watched = traced(lambda x: module(x), (torch.randn(2, 3),))
    module[1].weight = module[0].weight
    watched(torch.randn(2, 3))


def test_a_counter_that_the_forward_keeps():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            self.seen.add_(1)
            return x * self.calls

    plain, module = Counting(), Counting()
    compiled = tracer.optimize()(module)
    x = torch.randn(3)
    for _ in range(12):
        assert torch.equal(plain(x), compiled(x))
    assert plain.calls == module.calls == 12 and module.seen == 12


def test_a_cache_that_the_forward_fills():
    class Caching(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = {}

        def forward(self, x):
            if x.shape[0] not in self.cache:
                self.cache[x.shape[0]] = torch.arange(x.shape[0])
            return x + self.cache[x.shape[0]]

    plain, module = Caching(), Caching()
    compiled = tracer.optimize()(module)
    for size in (3, 3, 4, 3, 5, 4, 6):
        assert torch.equal(plain(torch.ones(size)), compiled(torch.ones(size)))
        assert list(plain.cache) == list(module.cache)


def test_guards_on_modules_can_be_switched_off_by_the_user():
    module, x = Outer(), torch.randn(2, 3)
    assert tracer.config.guard_nn_modules
    watched = traced(module, (x,))
    module.inner.rate = 0.125
    watched(x)
    assert watched.traces == 2


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.randn(5))

    def forward(self, x):
        return x * 2 + self.rows.sum() * self.rows.shape[0]


def test_sizes_of_buffers_are_constants_of_the_model_until_they_vary():
    module = Table()
    watched = Watched(lambda x: module(x), dynamic=True)
    for size, traces in ((5, 1), (5, 1), (7, 2), (9, 2)):
        module.rows = torch.randn(size)
        watched(torch.randn(size + 4))
        assert watched.traces == traces, size
    symbols = [[n for n in graph.graph.find_nodes(op="placeholder") if n.name.startswith("s")] for graph in watched.graphs]
    assert list(map(len, symbols)) == [1, 2]
