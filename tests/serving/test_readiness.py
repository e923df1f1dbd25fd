"""ready: whether what was certified is served by the model as it is now, and in which modes."""

from __future__ import annotations

import threading
import weakref

import pytest
import torch

import tracer
from tests.support.checking import collect_garbage
from tests.support.regions import entries

DOMAIN = "x: B, _; B in 1..64"


class Scorer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)
        self.dropout = torch.nn.Dropout(0.5)
        self.small = torch.nn.Linear(2, 2)
        self.scale = 2

    def forward(self, x):
        y = self.dropout(self.linear(x)) * self.scale
        return self.small(y) if x.shape[0] <= 8 else y


def certified(domain=DOMAIN):
    model = Scorer().eval()
    compiled = tracer.compile(model, shapes=domain)
    with torch.no_grad():
        found = tracer.precompile(compiled, example=torch.ones(9, 4))
    assert found.certified, found
    return model, compiled


def other_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


CHANGES = {
    "another dtype": (lambda model: model.to(torch.bfloat16), "dtype mismatch. expected torch.float32, actual torch.bfloat16"),
    "train": (lambda model: model.train(), "training"),
    "a hook": (lambda model: model.linear.register_forward_hook(lambda *args: None), "_forward_hooks"),
    "an attribute": (lambda model: setattr(model, "scale", 3), "scale"),
    "another module": (lambda model: setattr(model, "linear", torch.nn.Linear(4, 2, bias=False)), "linear"),
    "what small batches alone use": (lambda model: model.small.double(), "small"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_model_that_has_changed_is_not_ready_and_what_changed_is_said(what):
    model, compiled = certified()
    assert tracer.ready(compiled) and compiled.stats()["certified"]
    change, words = CHANGES[what]
    change(model)
    found = tracer.ready(compiled)
    assert not found and words in found.reason and "not ready" in str(found)
    assert not compiled.stats()["certified"]
    if what == "what small batches alone use":
        assert "calls at B = " in found.reason
        with torch.no_grad():
            assert tracer.why(compiled, torch.ones(9, 4)).hit


def test_what_changes_back_is_ready_again():
    model, compiled = certified()
    model.train()
    found = tracer.ready(compiled)
    model.eval()
    assert not found and "changed back" in found.reason and tracer.ready(compiled) and compiled.stats()["certified"]


def test_whoever_asks_is_told_of_the_modes_that_were_certified():
    _, compiled = certified()
    for scope in (torch.enable_grad, torch.inference_mode, torch.no_grad):
        with scope():
            found = tracer.ready(compiled)
            assert found and found.modes == ("no_grad",) and "under no_grad" in str(found)
            before = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        assert before == ((scope is torch.enable_grad), (scope is torch.inference_mode))
    assert other_thread(lambda: tracer.ready(compiled))


def test_an_example_is_asked_too():
    _, compiled = certified()
    assert tracer.ready(compiled, torch.ones(3, 4)) and tracer.ready(compiled, kwargs={"x": torch.ones(3, 4)})
    found = tracer.ready(compiled, (torch.ones(3, 4).double(),))
    assert not found and "the example is not served" in found.reason and "dtype mismatch" in found.reason
    with pytest.raises(tracer.exc.UserError, match="cannot be called"):
        tracer.ready(compiled, (1, 2, 3))


def test_what_is_not_certified_or_has_lost_entries_is_not_ready():
    compiled = tracer.compile(lambda x: x + 1, shapes="x: B; B in 1..64")
    assert "nothing is certified" in tracer.ready(compiled).reason
    compiled(torch.ones(3))
    tracer.coverage(compiled, example=torch.ones(3))
    assert "uncovered" in tracer.ready(compiled).reason or tracer.ready(compiled)
    tracer.precompile(compiled, example=torch.ones(3))
    assert tracer.ready(compiled)
    for entry in entries(compiled):
        entry.valid = False
    assert "are gone" in tracer.ready(compiled).reason
    with pytest.raises(tracer.exc.UserError, match="was not compiled"):
        tracer.ready(len)


def test_a_certificate_keeps_no_example_alive():
    class Options:
        def __init__(self):
            self.scale = 2

    compiled = tracer.compile(lambda x, options: x * options.scale, shapes="x: B; B in 1..64")
    options, x = Options(), torch.ones(3)
    assert tracer.precompile(compiled, example=(x, options)).certified
    gone = weakref.ref(x), weakref.ref(options)
    assert tracer.ready(compiled)
    del options, x
    collect_garbage()
    assert gone[0]() is None and gone[1]() is None
    assert tracer.ready(compiled)  # what cannot be asked says nothing


def test_entries_that_were_loaded_are_ready_once_they_are_certified(tmp_path):
    model, compiled = certified()
    tracer.save(compiled, tmp_path / "entries")
    again = tracer.compile(model, shapes=DOMAIN)
    assert tracer.load(again, tmp_path / "entries") and not tracer.ready(again)
    with torch.no_grad():
        assert tracer.coverage(again, example=torch.ones(9, 4)).certified
    assert tracer.ready(again) and tracer.stats(again)["compiles"] == 0


# -- modes that the spec names -----------------------------------------------------------------------------------


@pytest.mark.parametrize("modes", ["no_grad, inference_mode", "enable_grad, no_grad"])
def test_what_is_certified_is_certified_for_each_mode_that_the_spec_names(modes):
    model = Scorer().eval()
    compiled = tracer.compile(model, shapes=f"{DOMAIN}; modes = {modes}")
    found = tracer.precompile(compiled, example=torch.ones(9, 4))
    assert found.certified and found.modes == tuple(modes.split(", ")) and f"under {modes}" in str(found)
    compiled.seal()

    def requests(mode):
        with getattr(torch, mode)():
            return [torch.equal(compiled(x := torch.randn(size, 4)), model(x)) for size in (1, 8, 9, 64)]

    for mode in found.modes:
        assert all(other_thread(lambda mode=mode: requests(mode)))
    assert tracer.ready(compiled) and tracer.ready(compiled, torch.ones(3, 4)) and tracer.stats(compiled)["certified"]
    (missing,) = {"no_grad", "inference_mode", "enable_grad"} - set(found.modes)
    with pytest.raises(tracer.exc.SealedError, match="global state changed"):
        requests(missing)
    for part in (found.modes[0], found.modes[1]):
        assert any(probe.thread.text() == part for probe in found.probes)
    assert tracer.coverage(compiled, example=torch.ones(9, 4)).certified


def test_modes_are_read_and_refused():
    by_keyword = tracer.ShapeSpec("x: B", modes="no_grad, inference_mode")
    by_text = tracer.ShapeSpec("x: B; modes = no_grad, inference_mode; B in 1..4")
    assert by_keyword.modes == by_text.modes == ("no_grad", "inference_mode") and tracer.ShapeSpec("x: B").modes == ()
    for spec in ({"shapes": "x: B; modes = nograd"}, {"shapes": "x: B", "modes": ["eval"]}):
        with pytest.raises(tracer.exc.UserError, match="is not a mode of torch"):
            tracer.ShapeSpec(**spec)


def test_a_mode_in_which_it_cannot_be_certified_is_named():
    compiled = tracer.compile(lambda x: x + 1 if torch.is_grad_enabled() else x.view(2, -1), shapes="x: B; B in 1..64")
    found = tracer.precompile(compiled, tracer.ShapeSpec("x: B; B in 1..64", modes="enable_grad, no_grad"), torch.ones(4))
    assert not found.certified and "under no_grad" in found.reason and not tracer.ready(compiled)


def test_under_inference_mode_inputs_made_outside_of_it_are_certified_too_also_behind_a_break():
    def f(x):
        y = x[:, 1:]
        return y * 2 if x.sum() > 0 else y + x[:, :1]

    spec = tracer.ShapeSpec("x: B, 4; B in 2..9", modes="no_grad, inference_mode")
    compiled = tracer.compile(f)
    found = tracer.precompile(compiled, spec, torch.ones(3, 4))
    assert found.certified and found.inputs_made_outside and "made outside of it" in str(found), found
    compiled.seal()
    outside = [sign * torch.rand(size, 4) for size in range(2, 10) for sign in (1, -1)]
    with torch.inference_mode():
        for x in outside:
            assert torch.equal(compiled(x), f(x)) and torch.equal(compiled(x.clone()), f(x))
    assert compiled.stats()["sealed_misses"] == 0 and tracer.ready(compiled)


def test_the_spec_of_a_contract_has_the_modes_that_were_named():
    spec = tracer.ShapeSpec("x: B; B in 2..9", modes="no_grad, enable_grad")
    compiled = tracer.compile(lambda x: x * 2)
    assert tracer.precompile(compiled, spec, torch.ones(3)).certified
    again = tracer.compile(lambda x: x * 2)
    assert tracer.precompile(again, compiled.contract().spec(), torch.ones(3)).modes == ("no_grad", "enable_grad")
