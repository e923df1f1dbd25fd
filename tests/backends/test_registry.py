"""Backends by name, and how errors of a backend are reported."""

from __future__ import annotations

import importlib.metadata
import math

import pytest
import torch

import tracer
from tracer.backends import registry
from tracer.backends.calling import resolve_backend
from tracer.exc import BackendCompilerFailed, InvalidBackend, UserError

GRAPH = torch.fx.symbolic_trace(lambda x: x + 1)
X = torch.ones(2)


@pytest.fixture(autouse=True)
def names_are_put_back(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})


def test_the_backends_that_come_with_the_tracer():
    assert {"eager", "aot_eager", "inductor"} <= set(tracer.list_backends())
    assert tracer.list_backends() == sorted(tracer.list_backends())


def test_an_unknown_name_lists_the_known_ones_and_the_nearest():
    with pytest.raises(InvalidBackend, match="did you mean 'inductor'") as caught:
        resolve_backend("inducter")
    assert "aot_eager, eager, inductor" in str(caught.value)


def named(gm, example_inputs):
    return gm.forward


@pytest.mark.parametrize(
    "register",
    [
        lambda: tracer.register_backend(named),
        lambda: tracer.register_backend()(named),
        lambda: tracer.register_backend(named, name="named"),
        lambda: tracer.register_backend("named")(named),
        lambda: tracer.register_backend("named", named),
        lambda: tracer.register_backend(name="named")(named),
    ],
)
def test_a_backend_is_registered_in_every_form(register):
    assert register() is named
    assert "named" in tracer.list_backends()
    assert torch.equal(resolve_backend("named")(GRAPH, [X])(X), X + 1)


def test_a_taken_name_is_refused_and_keeps_its_owner():
    tracer.register_backend(named)
    with pytest.raises(ValueError, match="exists already"):
        tracer.register_backend("named", lambda gm, inputs: gm)
    with pytest.raises(ValueError, match="exists already"):
        tracer.register_backend("eager", named)
    assert registry.lookup_backend("named") is named


def test_a_definition_that_is_run_again_replaces_itself():
    def define():
        def redefined(gm, example_inputs):
            return gm.forward

        return tracer.register_backend(redefined)

    define()
    newest = define()
    assert registry.lookup_backend("redefined") is newest


def test_what_cannot_be_a_backend_is_refused():
    with pytest.raises(TypeError, match="expected a function"):
        tracer.register_backend(3.5)
    with pytest.raises(UserError, match="it is 3.5"):
        resolve_backend(3.5)


def test_real_inputs_are_asked_for_at_registration():
    assert not resolve_backend(lambda gm, inputs: gm).needs_real_inputs

    @tracer.register_backend("wants_data", real_inputs=True)
    def wants_data(gm, example_inputs):
        return gm.forward

    assert resolve_backend("wants_data").needs_real_inputs


def entry(name, value, group="tracer.backends"):
    return importlib.metadata.EntryPoint(name, value, group)


def announce(monkeypatch, *entries):
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [each for each in entries if each.group == group])


def test_a_package_announces_a_backend(monkeypatch):
    announce(monkeypatch, entry("theirs", "tracer.backends.eager:eager"))
    assert "theirs" in tracer.list_backends()
    assert torch.equal(resolve_backend("theirs")(GRAPH, [X])(X), X + 1)


def test_a_backend_announced_for_torch_compile_is_found_unless_one_for_the_tracer_has_its_name(monkeypatch):
    for_torch = entry("theirs", "math:sin", "torch_dynamo_backends")
    announce(monkeypatch, for_torch)
    assert registry.lookup_backend("theirs") is math.sin
    announce(monkeypatch, entry("theirs", "math:cos"), for_torch)
    assert registry.lookup_backend("theirs") is math.cos


def test_an_announced_backend_that_does_not_import_says_so(monkeypatch):
    announce(monkeypatch, entry("gone", "no_such_module:compiler"), entry("number", "math:pi"))
    with pytest.raises(InvalidBackend, match="'gone' .*no_such_module.*cannot be loaded: ModuleNotFoundError"):
        resolve_backend("gone")
    with pytest.raises(InvalidBackend, match="cannot be called"):
        resolve_backend("number")


def test_mode_and_options_reach_the_backend():
    given = {}

    def compiler(gm, example_inputs, **options):
        given.update(options)
        return gm.forward

    resolve_backend(compiler, options={"level": 3})(GRAPH, [X])
    assert given == {"options": {"level": 3}}
    given.clear()
    resolve_backend(compiler, mode="fast")(GRAPH, [X])
    assert given == {"mode": "fast"}
    given.clear()
    resolve_backend(compiler, mode="default")(GRAPH, [X])
    assert given == {}
    with pytest.raises(UserError, match="both given"):
        resolve_backend(compiler, "fast", {"level": 3})


def test_a_backend_that_raises_is_named_with_its_error():
    def broken(gm, example_inputs):
        raise ZeroDivisionError("no graph today")

    with pytest.raises(BackendCompilerFailed, match="'broken' raised:\nZeroDivisionError: no graph today") as caught:
        resolve_backend(broken)(GRAPH, [X])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_backend_must_return_a_callable():
    with pytest.raises(BackendCompilerFailed, match="returned None, not a callable"):
        resolve_backend(lambda gm, inputs: None)(GRAPH, [X])


def test_keyboard_interrupt_passes_through():
    def stopped(gm, example_inputs):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resolve_backend(stopped)(GRAPH, [X])
