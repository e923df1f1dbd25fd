"""Entries that torch's compilers have made are saved with what they made, and are guarded as they were."""

from __future__ import annotations

import json

import pytest
import torch
from torch._inductor import config as inductor_config

import tracer
from tests.saving.test_saving import refusal, same
from tests.support.processes import run_python
from tests.support.regions import entries
from tracer.backends.registry import register_backend


def after_restart(fn, path, *calls, backend="aot_eager", **settings):
    """Another compiled object with the entries that calls have made; nothing is compiled for it."""
    first = tracer.compile(fn, backend=backend, **settings)
    for args in calls:
        first(*args)
    result = tracer.save(first, path)
    assert result.saved == len(entries(first)) > 0 and not result.refused, result
    again = tracer.compile(fn, backend=backend, **settings)
    assert tracer.load(again, path).loaded == result.saved
    return again


def scaled(x, factor):
    y = x.relu() * factor
    return y.sum(0), y.view(-1) if x.shape[0] > 4 else y


def writes(x):
    x.mul_(2)
    return x[1:], x.add_(1).sum()


def with_constant(x):
    return x + torch.tensor([1.0, 2.0, 3.0])


def with_gradients(x, weight):
    return ((x @ weight).tanh() ** 2).sum()


def checked(x):
    n = int(x.sum().item())
    torch._check(n < 50)
    return x[:2] * n


def drawn(x):
    torch.rand(3)
    return x + torch.rand(x.shape)


def in_inference_mode(x):
    with torch.inference_mode():
        return x * 2


def test_sizes_and_floats_of_a_loaded_graph_vary_as_before(tmp_path):
    calls = [(torch.randn(n, 3), factor) for n, factor in ((3, 1.5), (4, 2.5), (7, 0.5))]
    again = after_restart(scaled, tmp_path / "entries", *calls)
    for args in [*calls, (torch.randn(2, 3), -1.0), (torch.randn(30, 3), 7.0)]:
        same(again, scaled, args)
    same(again, scaled, (torch.randn(3, 3, dtype=torch.float64), 1.5), traced=1)


def test_writes_to_arguments_and_views_of_them_survive(tmp_path):
    again = after_restart(writes, tmp_path / "entries", (torch.randn(4, 3),))
    given, expected = torch.ones(4, 3), torch.ones(4, 3)
    view, total = again(given)
    view_expected, total_expected = writes(expected)
    assert torch.equal(given, expected) and torch.equal(view, view_expected) and total == total_expected
    assert view._base is given and again.stats()["compiles"] == 0


def test_constants_of_the_graph_are_saved(tmp_path):
    same(after_restart(with_constant, tmp_path / "entries", (torch.randn(3),)), with_constant, (torch.randn(3),))


def test_a_graph_with_gradients_is_saved_with_its_backward_pass(tmp_path):
    def gradients(fn, x, weight):
        x, weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
        result = fn(x, weight)
        return [result, *torch.autograd.grad(result, (x, weight))]

    x, weight = torch.randn(4, 3), torch.randn(3, 2)
    with tracer.config.patch(cache_dir=str(tmp_path / "cache")):  # so that the backward pass is compiled with the forward
        again = after_restart(with_gradients, tmp_path / "entries", (x.requires_grad_(), weight.requires_grad_()))
    assert all(map(torch.equal, gradients(again, x, weight), gradients(with_gradients, x, weight)))
    assert again.stats()["compiles"] == 0


def test_a_backward_pass_that_is_not_compiled_yet_is_refused_with_the_reason(tmp_path):
    x, weight = torch.randn(4, 3, requires_grad=True), torch.randn(3, 2)
    reason = refusal(with_gradients, tmp_path / "entries", x, weight, backend="aot_eager", dynamic=False)
    assert "backward pass is compiled when it first runs" in reason and "cache_dir" in reason


def test_conditions_on_data_are_checked_in_a_loaded_graph(tmp_path):
    again = after_restart(checked, tmp_path / "entries", (torch.ones(4),), fullgraph=True)
    same(again, checked, (torch.full((4,), 2.0),))
    with pytest.raises(RuntimeError):
        again(torch.full((4,), 20.0))


def test_what_a_graph_draws_and_does_not_use_is_drawn_in_a_loaded_one(tmp_path):
    again = after_restart(drawn, tmp_path / "entries", (torch.ones(4),))
    torch.manual_seed(3)
    found = again(torch.ones(4)), torch.rand(1)
    torch.manual_seed(3)
    assert all(map(torch.equal, found, (drawn(torch.ones(4)), torch.rand(1))))


def test_torchs_own_cache_is_neither_asked_nor_written_to(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    tracer.compile(drawn, backend="aot_eager")(torch.ones(4))
    again = tracer.compile(drawn, backend="aot_eager")
    assert not torch.equal(again(torch.ones(4)), again(torch.ones(4)))
    assert not list(tmp_path.rglob("*aotautograd*"))


def test_results_of_inference_mode_are_inference_tensors_after_loading(tmp_path):
    again = after_restart(in_inference_mode, tmp_path / "entries", (torch.ones(4),))
    result = again(torch.ones(4))
    assert result.is_inference() and torch.equal(result, torch.full((4,), 2.0)) and again.stats()["compiles"] == 0


def test_a_loaded_entry_is_saved_again(tmp_path):
    again = after_restart(scaled, tmp_path / "entries", (torch.randn(3, 3), 1.5))
    assert tracer.save(again, tmp_path / "more").saved == 1
    third = tracer.compile(scaled, backend="aot_eager")
    assert tracer.load(third, tmp_path / "more").loaded == 1
    same(third, scaled, (torch.randn(3, 3), 1.5))


def test_options_of_a_backend_are_part_of_what_was_compiled(tmp_path):
    first = tracer.compile(with_constant, backend="aot_eager")
    first(torch.randn(3))
    first.save(tmp_path / "entries")
    other = tracer.compile(with_constant, backend="inductor", options={"epilogue_fusion": True})
    assert "backend 'aot_eager'" in str(other.load(tmp_path / "entries"))


def test_what_another_backend_made_is_refused(tmp_path):
    @register_backend(name="of_the_test")
    def of_the_test(gm, inputs):
        return gm.forward

    assert "'of_the_test'" in refusal(with_constant, tmp_path / "entries", torch.randn(3), backend="of_the_test")


MODEL = """
import json, os, sys, torch, tracer

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
    def forward(self, x):
        x = self.linear(x).relu()
        return torch.softmax(x, -1).sum(0), x.view(-1) * x.shape[0], torch.nn.functional.dropout(x, 0.5)

def drawn(compiled):
    torch.manual_seed(1)
    return compiled(torch.ones(4, 8))[2]

torch.manual_seed(0)
model = Model().eval()
compiled = tracer.compile(model, backend="inductor", shapes="x: B, _; B in 2..64")
path = sys.argv[1] + "/entries"
with torch.no_grad():
    if sys.argv[2] == "save":
        assert tracer.precompile(compiled, example=(torch.ones(3, 8),)).certified
        result = tracer.save(compiled, path)
        assert result.saved == 1 and not result.refused, result
        torch.save(drawn(compiled), path + ".drawn")
        assert not torch.equal(drawn(compiled), drawn(model))  # Inductor draws other numbers
    else:
        os.environ["PATH"] = ""  # no compiler is there
        assert tracer.load(compiled, path), tracer.load(compiled, path)
        certificate = tracer.coverage(compiled)
        assert certificate.certified, certificate
        compiled.seal()
        for n in (2, 5, 64):
            x = torch.randn(n, 8)
            torch.testing.assert_close(compiled(x)[:2], model(x)[:2])
        assert torch.equal(drawn(compiled), torch.load(path + ".drawn")), "CPython has run the model"
        assert tracer.stats(compiled)["compiles"] == 0
        late = [name for name in ("torch._inductor.graph", "torch._inductor.async_compile") if name in sys.modules]
        print(json.dumps(late))
"""


def test_the_next_process_has_inductors_kernels_without_a_compiler(tmp_path):
    run_python(MODEL, tmp_path, "save", TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "one"))
    ran = run_python(MODEL, tmp_path, "load", TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "other"))
    assert json.loads(ran.stdout.splitlines()[-1]) == []
    assert not list((tmp_path / "other").rglob("*.so"))


def test_a_file_is_refused_where_the_settings_of_torchs_compilers_are_others(tmp_path):
    first = tracer.compile(scaled, backend="aot_eager")
    first(torch.randn(3, 4), 2.0)
    assert tracer.save(first, tmp_path / "entries").saved == 1
    again = tracer.compile(scaled, backend="aot_eager")
    with inductor_config.patch(emulate_precision_casts=True):
        assert "torch._inductor.config" in str(tracer.load(again, tmp_path / "entries"))
    assert tracer.load(again, tmp_path / "entries").loaded == 1


def test_an_entry_is_refused_that_was_compiled_with_other_settings_than_it_is_saved_with(tmp_path):
    first = tracer.compile(scaled, backend="aot_eager")
    with inductor_config.patch(emulate_precision_casts=True):
        first(torch.randn(3, 4), 2.0)
    assert "torch._inductor.config" in tracer.save(first, tmp_path / "entries").refused[0]


class AsksSwitches(torch.nn.Module):
    """As torch.nn.TransformerEncoderLayer: `torch.backends` is an object that stands before a module."""

    def forward(self, x):
        return x + 1 if torch.backends.mha.get_fastpath_enabled() else x


def test_a_layer_that_asks_torchs_switches_is_saved(tmp_path):
    layer, x = AsksSwitches(), torch.ones(3)
    again = after_restart(layer, tmp_path / "file", (x,))
    assert torch.equal(again(x), layer(x))
