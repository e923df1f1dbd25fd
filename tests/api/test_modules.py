"""OptimizedModule and compile_module: modules stay modules."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref

import pytest
import torch
from torch import nn

import tracer

X = torch.linspace(-1, 1, 6).reshape(2, 3)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.register_buffer("offset", torch.ones(4))
        self.scale = 2.0

    def forward(self, x, *, twice=False):
        y = torch.relu(self.linear(x)) * self.scale + self.offset
        return y * 2 if twice else y

    def describe(self):
        return f"scale {self.scale}"

    def run_twice(self, x):
        return self(x) + self(x)


class OverriddenCall(Block):
    def __call__(self, x):
        return super().__call__(x) + 10


@pytest.fixture
def block():
    torch.manual_seed(0)
    return Block()


def test_a_module_runs_compiled_and_stays_a_module(block, graphs):
    opt = tracer.optimize(graphs.backend)(block)
    assert isinstance(opt, nn.Module) and isinstance(opt, tracer.OptimizedModule)
    assert torch.equal(opt(X), block(X)) and torch.equal(opt(X, twice=True), block(X, twice=True))
    assert len(graphs) == 2 and opt._orig_mod is block


def test_state_dict_and_names_are_those_of_the_original(block):
    opt = tracer.compile(block)
    assert list(opt.state_dict()) == list(block.state_dict()) == ["offset", "linear.weight", "linear.bias"]
    assert [name for name, _ in opt.named_parameters()] == ["linear.weight", "linear.bias"]
    assert [id(p) for p in opt.parameters()] == [id(p) for p in block.parameters()]
    assert [name for name, _ in opt.named_modules()] == ["", "linear"]
    opt.load_state_dict({name: torch.zeros_like(value) for name, value in block.state_dict().items()})
    assert block.linear.weight.abs().sum().item() == 0.0


def test_as_a_child_it_adds_nothing_to_names(block):
    parent = nn.Sequential(tracer.compile(block))
    assert list(parent.state_dict()) == ["0.offset", "0.linear.weight", "0.linear.bias"]
    parent.load_state_dict(parent.state_dict())
    parent.double()
    assert block.linear.weight.dtype == torch.float64


def test_attributes_are_read_set_and_deleted_on_the_original(block, graphs):
    opt = tracer.optimize(graphs.backend)(block)
    opt.scale = 5.0
    assert block.scale == 5.0 and opt.describe() == "scale 5.0"
    opt.head = nn.Linear(4, 1)
    assert "head.weight" in block.state_dict()
    del opt.head
    assert not hasattr(block, "head") and "describe" in dir(opt)
    assert torch.equal(opt(X), block(X))


def test_train_eval_and_conversions_return_the_wrapper(block):
    opt = tracer.compile(block)
    assert opt.eval() is opt and not block.training and not block.linear.training
    assert opt.train() is opt and block.training and opt.training
    assert opt.to(torch.float64) is opt and block.offset.dtype == torch.float64
    assert opt.requires_grad_(False) is opt and not block.linear.weight.requires_grad


def test_mode_of_the_original_is_seen(graphs):
    dropout = nn.Dropout(0.5)
    opt = tracer.optimize(graphs.backend)(dropout)
    opt.eval()
    assert torch.equal(opt(X), X)
    opt.train()
    torch.manual_seed(3)
    seen = opt(X)
    torch.manual_seed(3)
    assert torch.equal(seen, dropout(X))


def test_containers_stay_containers():
    opt = tracer.compile(nn.Sequential(nn.Linear(3, 4), nn.ReLU()))
    assert len(opt) == 2 and isinstance(opt[1], nn.ReLU) and len(list(opt)) == 2
    assert bool(opt) and bool(tracer.compile(nn.ReLU()))
    opt[1] = nn.Tanh()
    assert torch.equal(opt(X), opt._orig_mod(X))
    with pytest.raises(TypeError):
        len(tracer.compile(nn.ReLU()))


def test_repr_shows_the_original(block):
    assert repr(tracer.compile(block)).splitlines()[:2] == ["OptimizedModule(", "  (_orig_mod): Block("]


def test_deepcopy_has_its_own_original_and_region(block):
    opt = tracer.compile(block)
    opt(X)
    other = copy.deepcopy(opt)
    other.scale = 100.0
    assert block.scale == 2.0 and tracer.region_of(other) is not tracer.region_of(opt)
    assert tracer.region_of(other).entries() == []
    assert torch.equal(other(X), other._orig_mod(X))


def test_pickle_and_torch_save(block):
    opt = tracer.compile(block)
    expected = opt(X)
    assert torch.equal(pickle.loads(pickle.dumps(opt))(X), expected)
    file = io.BytesIO()
    torch.save(opt, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(X), expected)


def test_hooks_on_wrapper_and_original_each_run_once(block):
    opt, seen = tracer.compile(block), []
    on_wrapper = opt.register_forward_hook(lambda module, args, result: seen.append("wrapper"))
    on_original = block.register_forward_hook(lambda module, args, result: seen.append("original"))
    opt(X)
    assert seen == ["original", "wrapper"]
    on_wrapper.remove()
    on_original.remove()
    opt(X)
    assert len(seen) == 2


def test_a_hook_of_the_original_may_change_the_result(block):
    opt = tracer.compile(block)
    before = opt(X)
    handle = block.register_forward_pre_hook(lambda module, args: (args[0] * 0,))
    assert torch.equal(opt(X), block(X)) and not torch.equal(opt(X), before)
    handle.remove()
    assert torch.equal(opt(X), before)


def test_global_hooks_fire_as_often_as_eagerly(block):
    seen = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, result: seen.append(type(module).__name__))
    try:
        block(X)
        eager, seen[:] = list(seen), []
        tracer.compile(block)(X)
    finally:
        handle.remove()
    assert seen == eager == ["Linear", "Block"]


def _plus_one(*args):
    return args[-1] + 1


def _add_forward(opt):
    opt._orig_mod.forward = lambda x: x * 3


def _replace_what_calls_forward(opt):
    opt._orig_mod._call_impl = lambda x: x * 6


def _patch_the_class(opt):
    type(opt._orig_mod).forward = lambda self, x: x * 4


def _override_the_call(opt):
    type(opt._orig_mod).__call__ = lambda self, x: x * 5


def _change_the_class(opt):
    opt._orig_mod.__class__ = OverriddenCall


WHAT_A_CALL_RUNS = {
    "a hook of the wrapper": lambda opt: opt.register_forward_hook(_plus_one),
    "a pre-hook of the wrapper": lambda opt: opt.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
    "a hook of the original": lambda opt: opt._orig_mod.register_forward_hook(_plus_one),
    "a pre-hook of the original": lambda opt: opt._orig_mod.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
    "a hook of all modules": lambda _: nn.modules.module.register_module_forward_hook(_plus_one),
    "a pre-hook of all modules": lambda _: nn.modules.module.register_module_forward_pre_hook(
        lambda module, args: tuple(arg * 2 for arg in args)
    ),
    "a forward of its own": _add_forward,
    "what calls forward": _replace_what_calls_forward,
    "another forward of the class": _patch_the_class,
    "another __call__ of the class": _override_the_call,
    "another class": _change_the_class,
}


@pytest.mark.parametrize("change", WHAT_A_CALL_RUNS.values(), ids=WHAT_A_CALL_RUNS)
@pytest.mark.parametrize("in_place", [False, True], ids=["wrapper", "in place"])
def test_a_warm_call_sees_what_a_call_runs(change, in_place):
    class Own(Block):
        pass

    torch.manual_seed(0)
    model = Own()
    called = tracer.compile(model)
    if in_place:
        tracer.compile_module(model)
    call = (lambda: model(X)) if in_place else (lambda: called(X))
    for _ in range(4):
        assert torch.equal(call(), Block.forward(model, X))
    added = change(called)
    try:
        plain = copy.copy(called._orig_mod)
        plain._compiled_call_impl = None
        expected = plain(X)
        of_wrapper = called._forward_hooks, called._forward_pre_hooks
        if not in_place and of_wrapper[1]:
            expected = plain(X * 2)
        if not in_place and of_wrapper[0]:
            expected = expected + 1
        for _ in range(3):
            assert torch.equal(call(), expected)
    finally:
        if added is not None:
            added.remove()
    if added is not None:
        for _ in range(3):
            assert torch.equal(call(), Block.forward(model, X))


def test_warm_calls_ask_python_nothing(block):
    opt = tracer.compile(block)
    opt(X), opt(X)
    opt._compiled.call_through = None
    assert torch.equal(opt(X), block(X))


@pytest.mark.parametrize("in_place", [False, True], ids=["wrapper", "in place"])
def test_a_static_forward_is_not_given_the_module(in_place):
    class Static(nn.Module):
        @staticmethod
        def forward(x):
            return x + 5

    model = Static()
    called = tracer.compile_module(model) if in_place else tracer.compile(model)
    for _ in range(3):
        assert torch.equal(called(X), X + 5)


def test_the_way_that_all_modules_are_called_may_be_patched(block, monkeypatch):
    called = tracer.compile(block)
    for _ in range(3):
        called(X)
    with monkeypatch.context() as patch:
        patch.setattr(nn.Module, "_call_impl", lambda self, x: x * 7)
        for _ in range(3):
            assert torch.equal(called(X), X * 7)
    assert torch.equal(called(X), block(X))


def test_an_overridden_call_is_honoured(graphs):
    torch.manual_seed(0)
    module = OverriddenCall()
    assert torch.equal(tracer.optimize(graphs.backend)(module)(X), module(X))
    assert len(graphs) == 1


def test_a_patched_forward_is_seen(block, monkeypatch):
    opt = tracer.compile(block)
    opt(X)
    monkeypatch.setattr(Block, "forward", lambda self, x: x + 1)
    assert torch.equal(opt(X), X + 1)
    block.forward = lambda x: x - 1
    assert torch.equal(opt(X), X - 1)


def test_modules_of_torch_itself_are_traced(graphs):
    linear = nn.Linear(3, 4)
    assert torch.equal(tracer.optimize(graphs.backend)(linear)(X), linear(X))
    assert len(graphs) == 1


def test_a_graph_module_is_traced(graphs):
    gm = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 4), nn.ReLU()))
    assert torch.equal(tracer.optimize(graphs.backend)(gm)(X), gm(X))
    assert len(graphs) == 1


def test_a_lazy_module_is_initialised_by_its_first_call(graphs):
    lazy = nn.LazyLinear(4)
    opt = tracer.optimize(graphs.backend)(lazy)
    out = opt(X)
    assert type(lazy) is nn.Linear and torch.equal(out, lazy(X)) and len(graphs) == 1


def test_optimizing_a_wrapper_wraps_the_original(block, graphs):
    opt = tracer.optimize(graphs.backend)(tracer.compile(block))
    assert opt._orig_mod is block


def test_gradients_reach_the_parameters(block):
    tracer.compile(block)(X).sum().backward()
    grads = [p.grad.clone() for p in block.parameters()]
    block.zero_grad()
    block(X).sum().backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(grads, block.parameters(), strict=True))


def test_instances_have_regions_of_their_own(graphs):
    compiled = [tracer.optimize(graphs.backend)(Block()) for _ in range(20)]
    for opt in compiled:
        assert torch.equal(opt(X), opt._orig_mod(X))
    assert len(graphs) == 1  # equal modules share it
    assert all(len(tracer.region_of(opt).entries()) == 1 for opt in compiled)


def test_a_dropped_module_is_collected():
    def build():
        module = Block()
        opt = tracer.compile(module)
        opt(X)
        return weakref.ref(module), weakref.ref(opt)

    gone = build()
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_compile_module_reaches_methods_that_call_it(block, graphs):
    expected = block.run_twice(X)
    assert tracer.compile_module(block, backend=graphs.backend) is block
    assert type(block) is Block
    assert torch.equal(block.run_twice(X), expected)
    assert len(graphs) == 1


def test_compile_module_leaves_other_instances_and_copies_alone(block, graphs):
    other = Block()
    tracer.compile_module(block, backend=graphs.backend)
    other(X)
    copy.deepcopy(block)(X)
    pickle.loads(pickle.dumps(block))(X)
    assert len(graphs) == 0
    assert tracer.region_of(copy.deepcopy(block)) is None


def test_compile_module_with_an_overridden_call(graphs):
    torch.manual_seed(0)
    module = OverriddenCall()
    expected = module(X)
    assert torch.equal(tracer.compile_module(module, backend=graphs.backend)(X), expected)
    assert len(graphs) == 1


def test_a_decorated_module_class_gives_each_instance_a_region_and_equal_ones_one_graph(graphs):
    @tracer.optimize(graphs.backend)
    class Net(Block):
        pass

    first, second = Net(), Net()
    first(X), first(X), second(X)
    assert len(graphs) == 1
    assert tracer.region_of(first).entries() != tracer.region_of(second).entries()


class KeepsEverything(Block):
    def __getstate__(self):
        return self.__dict__


def test_a_module_that_pickles_its_whole_dict_loses_only_the_compilation():
    module = tracer.compile_module(KeepsEverything())
    expected = module(X)
    assert torch.equal(copy.deepcopy(module)(X), expected)
    assert torch.equal(pickle.loads(pickle.dumps(module))(X), expected)


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.LazyLinear(3)

    def forward(self, x):
        return self.linear(x + 1) * 2


def test_the_first_call_of_a_lazy_module_is_left_to_cpython_and_the_next_is_traced(graphs):
    module = Lazy()
    traced = tracer.compile(lambda x: module(x).relu(), backend=graphs.backend, fullgraph=True)
    x = torch.randn(2, 4)
    first = traced(x)
    assert len(graphs) == 0 and type(module.linear) is nn.Linear
    assert torch.equal(first, module(x).relu())
    assert torch.equal(traced(x), first)
    assert len(graphs) == 1
