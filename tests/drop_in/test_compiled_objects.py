"""What others ask of what torch.compile returned: that it was compiled, what it was, and what its checkpoint is called."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
import torch._dynamo
from torch._dynamo import OptimizedModule as class_imported_before

import tracer
from tracer.api.modules import CompiledCall

pytestmark = pytest.mark.usefixtures("installed")


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x):
        return self.lin(x) * self.scale


def tripled(x):
    return x * 3


class Stack(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def generate(self, x):
        return self(x)


def entries_of(compiled):
    return tracer.region_of(compiled).entries()


def as_torch_compiles_it(module):
    """The same module, compiled by torch.compile itself; it is not called."""
    tracer.uninstall()
    try:
        return torch.compile(module, backend="eager")
    finally:
        tracer.install(backend="eager")


def test_a_compiled_module_is_an_optimized_module():
    block = Block()
    compiled = torch.compile(block)
    assert isinstance(compiled, class_imported_before) and isinstance(compiled, torch._dynamo.eval_frame.OptimizedModule)
    assert isinstance(compiled, tracer.OptimizedModule) and isinstance(compiled, torch.nn.Module)
    assert compiled._orig_mod is block and not isinstance(block, class_imported_before)
    x = torch.randn(2, 3)
    assert torch.equal(compiled(x), block(x)) and len(entries_of(compiled)) == 1


def test_its_parts_are_named_as_torch_names_them():
    stack = Stack()
    ours, theirs = torch.compile(stack), as_torch_compiles_it(stack)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for names in ("named_parameters", "named_buffers", "named_modules", "named_children"):
        assert [name for name, _ in getattr(ours, names)()] == [name for name, _ in getattr(theirs, names)()]
    assert list(ours.parameters()) == list(theirs.parameters())
    assert ours.get_submodule("_orig_mod.blocks.0") is stack.blocks[0]
    assert ours.blocks is stack.blocks


def test_checkpoints_of_torch_fit_and_errors_name_what_is_missing():
    theirs = as_torch_compiles_it(Stack())
    ours = torch.compile(Stack())
    ours.load_state_dict(theirs.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters()))
    with pytest.raises(RuntimeError, match="_orig_mod.blocks.0.scale"):
        ours.load_state_dict({name: value for name, value in theirs.state_dict().items() if name != "_orig_mod.blocks.0.scale"})


def test_a_compiled_child_has_the_prefix_inside_of_the_names():
    stack = Stack()
    stack.blocks[1] = torch.compile(stack.blocks[1])
    assert "blocks.1._orig_mod.lin.weight" in stack.state_dict()
    copied = Stack()
    copied.blocks[1] = torch.compile(copied.blocks[1])
    copied.load_state_dict(stack.state_dict())
    x = torch.randn(2, 3)
    assert torch.equal(copied(x), stack(x))
    whole = torch.compile(stack, fullgraph=True)
    assert torch.equal(whole(x), stack(x))


def test_names_without_the_prefix_are_a_switch():
    tracer.uninstall()
    with tracer.install(backend="eager", state_dict_prefix=False):
        compiled = torch.compile(Block())
        assert isinstance(compiled, class_imported_before)
        assert list(compiled.state_dict()) == ["scale", "lin.weight", "lin.bias"]


def test_methods_that_return_the_module_return_the_compiled_one():
    compiled = torch.compile(Block())
    assert compiled.eval() is compiled and compiled.training is False and compiled._orig_mod.training is False
    compiled.train()
    assert compiled._orig_mod.training
    assert compiled.to(torch.float64) is compiled
    assert compiled(torch.ones(1, 3, dtype=torch.float64)).dtype == torch.float64


def test_training_reaches_the_same_weights():
    torch.manual_seed(0)
    plain = Stack()
    compiled = torch.compile(copy.deepcopy(plain))
    for model in (plain, compiled):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            model(torch.full((step + 2, 3), 0.5)).pow(2).sum().backward()
            optimizer.step()
    assert all(torch.allclose(a, b) for a, b in zip(plain.parameters(), compiled.parameters()))


def test_a_module_compiled_in_place_says_so():
    stack = Stack()
    stack.compile(fullgraph=True)
    assert isinstance(stack._compiled_call_impl, CompiledCall) and not isinstance(stack, class_imported_before)
    x = torch.randn(2, 3)
    expected = stack.forward(x)
    assert torch.equal(stack.generate(x), expected) and len(entries_of(stack)) == 1
    assert list(stack.state_dict())[0].startswith("blocks.")
    assert copy.deepcopy(stack)._compiled_call_impl is None


def test_a_module_compiled_in_place_is_copied_and_pickled_as_it_was():
    stack = Stack()
    stack.blocks[0].compile()
    stack.compile()
    x = torch.randn(2, 3)
    expected = stack(x)
    for other in (copy.deepcopy(stack), copy.copy(stack), pickle.loads(pickle.dumps(stack))):
        assert type(other) is Stack and other.state_dict().keys() == stack.state_dict().keys()
        assert torch.equal(other(x), expected)
        other.compile()
        assert torch.equal(other(x), expected) and tracer.region_of(other) is not tracer.region_of(stack)
    changed = copy.deepcopy(stack)
    changed.compile()
    changed.load_state_dict({name: value + 1 for name, value in stack.state_dict().items()})
    assert torch.equal(changed(x), changed.forward(x)) and not torch.equal(changed(x), expected)
    assert torch.equal(stack(x), expected)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning")
def test_jit_script_takes_what_was_compiled():
    stack = Stack()
    stack.blocks[0].compile()
    stack.compile()
    x = torch.randn(2, 3)
    expected = stack(x)
    scripted = torch.jit.script(stack)
    assert isinstance(scripted, torch.jit.ScriptModule) and torch.allclose(scripted(x), expected)
    assert torch.equal(torch.jit.script(torch.compile(tripled))(x), x * 3)
    Number = int  # which torch looks up in the frame that calls `script`

    class Counted:
        def __init__(self, count: Number) -> None:
            self.count = count

    assert torch.jit.script(Counted)(3).count == 3
    before = torch.jit.script
    tracer.uninstall()
    assert torch.jit.script is not before and torch.equal(torch.jit.script(tripled)(x), x * 3)
    assert "_compiled_call_impl" not in torch.jit._recursive.ignored_attributes


def test_symbolic_trace_of_fx_takes_what_was_compiled():
    x = torch.randn(2, 3)
    compiled = torch.compile(tripled)
    assert torch.equal(compiled(x), x * 3)
    traced = torch.fx.symbolic_trace(compiled)
    assert torch.equal(traced(x), x * 3) and [node.op for node in traced.graph.nodes] == [
        "placeholder",
        "call_function",
        "output",
    ]
    stack = Stack()
    graph = torch.fx.symbolic_trace(torch.compile(stack))
    assert torch.equal(graph(x), stack(x)) and set(graph.state_dict()) == set(stack.state_dict())
    tracer.uninstall()
    with pytest.raises(Exception, match="FunctionType"):
        torch.fx.symbolic_trace(compiled)


def test_compiled_functions_have_the_attributes_of_torchs():
    def doubled(x):
        return x * 2

    compiled = torch.compile(doubled)
    assert compiled._torchdynamo_orig_callable is doubled and hasattr(torch.compile(Block()), "_torchdynamo_orig_callable")
    assert compiled.__name__ == "doubled" and compiled.__wrapped__ is doubled
    assert torch._dynamo.eval_frame.innermost_fn(compiled) is doubled
    disabled = torch._dynamo.disable(compiled)
    assert disabled(torch.ones(1)) == 2 and not entries_of(compiled)


def test_compiled_methods_and_partials_work():
    block = Block()
    compiled = torch.compile(block.forward)
    x = torch.randn(2, 3)
    assert torch.equal(compiled(x), block(x))
    block.forward = torch.compile(block.forward)
    assert torch.equal(block(x), block.lin(x))


def test_compiling_twice_is_compiling_once():
    block = Block()
    once = torch.compile(block)
    twice = torch.compile(once, fullgraph=True)
    assert twice._orig_mod is block and torch.equal(twice(torch.ones(1, 3)), block(torch.ones(1, 3)))


def test_copies_and_pickles_hold_the_original():
    compiled = torch.compile(Block())
    x = torch.randn(2, 3)
    expected = compiled(x)
    file = io.BytesIO()
    torch.save(compiled, file)
    file.seek(0)
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled)), torch.load(file, weights_only=False)):
        assert type(other) is type(compiled) and other._orig_mod is not compiled._orig_mod
        assert torch.equal(other(x), expected) and len(other.state_dict()) == 3


def test_call_hooks_of_a_compiled_module_run():
    compiled, seen = torch.compile(Block()), []
    compiled.register_forward_hook(lambda module, args, result: seen.append(module))
    compiled(torch.ones(1, 3))
    assert seen == [compiled]


def test_a_call_through_the_install_is_a_call_of_the_same_dispatcher():
    def doubled(x):
        return x * 2

    assert type(torch.compile(doubled)) is type(tracer.compile(doubled))
    ours, theirs = tracer.compile(Block()), torch.compile(Block())
    assert type(theirs).__call__ is type(ours).__call__ and type(theirs._compiled) is type(ours._compiled)
