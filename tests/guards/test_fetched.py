"""Parameters that check_fn has read are passed to the cached code."""

import gc
import weakref

import torch

import tracer
from tests.support.regions import entries


def tower(depth=4):
    return torch.nn.Sequential(*[torch.nn.Linear(3, 3) for _ in range(depth)])


def test_the_cached_code_takes_the_parameters_behind_its_arguments():
    model, x = tower(), torch.randn(2, 3)
    compiled = tracer.compile(model)
    for _ in range(3):
        assert torch.equal(compiled(x), model(x))
    [entry] = entries(compiled)
    inputs = entry.check_fn(model, x)
    assert type(inputs) is tuple and len(inputs) == 9
    assert inputs[0] is x and all(a is b for a, b in zip(inputs[1:], model.parameters()))
    assert entry.code.co_argcount == 3


def test_a_miss_gives_no_parameters():
    model = tower()
    compiled = tracer.compile(model)
    compiled(torch.randn(2, 3))
    [entry] = entries(compiled)
    assert entry.check_fn(model, torch.randn(2, 3, dtype=torch.float64)) is False


def test_parameters_that_are_swapped_are_found_at_the_next_call():
    model, x = tower(), torch.randn(2, 3)
    compiled = tracer.compile(model)
    for _ in range(3):
        compiled(x)
    for layer in model:
        layer.weight = torch.nn.Parameter(torch.randn(3, 3))
        assert torch.equal(compiled(x), model(x))
    assert len(entries(compiled)) == 1


def test_parameters_are_let_go_of_after_the_call():
    model, x = tower(), torch.randn(2, 3)
    compiled = tracer.compile(model)
    with torch.no_grad():
        for _ in range(3):
            compiled(x)
    old = weakref.ref(model[0].weight)
    model[0].weight = torch.nn.Parameter(torch.randn(3, 3))
    gc.collect()
    assert old() is None


def test_a_graph_that_raises_leaves_the_frame_to_cpython():
    def fails(x, model):
        y = model(x)
        return y.view(int(y.numel()) // 2, 2)

    model = tower()
    compiled = tracer.compile(fails, dynamic=True)
    x = torch.randn(2, 3)
    assert torch.equal(compiled(x, model), fails(x, model))
    odd = torch.randn(3, 3)
    for fn in (fails, compiled):
        try:
            fn(odd, model)
        except RuntimeError as error:
            assert "shape" in str(error)
        else:
            raise AssertionError("a view of 9 elements in pairs is an error")


def test_a_break_behind_the_graph_gets_the_right_values():
    def program(x, model):
        y = model(x)
        if y.sum() > 0:
            return model(y) * 2
        return model(y) * 3

    model = tower()
    compiled = tracer.compile(program)
    for _ in range(4):
        x = torch.randn(2, 3)
        assert torch.equal(compiled(x, model), program(x, model))
