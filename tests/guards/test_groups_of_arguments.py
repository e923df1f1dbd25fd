"""Groups of guards on an object that a call passes in *args or **kwargs, as `self` of a method that a decorator wraps."""

import functools

import pytest
import torch

import tracer
from tests.guards.test_steady import CHANGES, Block, check_change, steadies, watched
from tracer.sources.roots import ArgumentSource


def wrapped(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call


class Wrapped(Block):
    forward = wrapped(Block.forward)


@wrapped
def run(model, x):
    return model(x) + model.bias


def checked(compiled):
    """The guards that are asked at each call, whatever has happened."""
    [entry] = tracer.region_of(compiled).entries()
    return entry.check_fn.plan[7]


def test_guards_of_self_in_args_are_not_asked_again():
    x = torch.randn(2, 3)
    plain, through_args = watched(Block(), x), watched(Wrapped(), x)
    assert len(steadies(through_args)) == len(steadies(plain))
    assert len(checked(through_args)) <= len(checked(plain)) + 4  # how the arguments came


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_self_in_args_is_noticed(name):
    check_change(Wrapped(), name)


def test_the_object_is_found_by_position_and_by_name():
    compiled = tracer.optimize("eager")(run)
    models = [Block().eval(), Block().eval()]
    models[1].bias = 5
    x = torch.randn(2, 3)
    for _ in range(3):
        for model in models:
            assert torch.equal(compiled(model, x), run(model, x))
            assert torch.equal(compiled(model, x=x), run(model, x))
            assert torch.equal(compiled(x=x, model=model), run(model, x))


def test_a_call_without_the_object_fails_the_check_and_not_the_reading():
    compiled = tracer.optimize("eager")(run)
    compiled(Block(), torch.randn(2, 3))
    [entry] = tracer.region_of(compiled).entries()
    manager = entry.guarded_code.manager
    assert any(isinstance(printer.slot, ArgumentSource) for printer in manager._printers)
    assert entry.check_fn((), {}, run.__closure__) is False
    assert entry.check_fn.whole((), {}, run.__closure__) is False
    assert not manager.groups_hold(((), {}), run.__closure__)
    with pytest.raises(TypeError):
        compiled()


def test_the_explanation_names_what_has_changed_of_the_object():
    model = Wrapped()
    x = torch.randn(2, 3)
    compiled = watched(model, x)
    [entry] = tracer.region_of(compiled).entries()
    manager, slots = entry.guarded_code.manager, ((model, x), {})
    closure = Wrapped.forward.__closure__
    assert manager.groups_hold(slots, closure)
    assert manager.explain(slots, closure) is None
    model.bias = 5
    assert not manager.groups_hold(slots, closure)
    assert "bias" in str(manager.explain(slots, closure))
