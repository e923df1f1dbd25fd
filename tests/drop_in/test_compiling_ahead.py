"""`aot_compile`, the object that it gives, and the files that this writes, as vLLM uses them."""

from __future__ import annotations

import contextvars
import io
import pickle

import pytest
import torch
import torch._dynamo
from torch._dynamo.aot_compile_types import SerializableCallable
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx._graph_pickler import GraphPickler
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import tracer

pytestmark = pytest.mark.usefixtures("installed")
X = torch.arange(12.0).reshape(3, 4)


@pytest.fixture(autouse=True)
def ahead_is_on():
    with torch._dynamo.config.patch(enable_aot_compile=True):
        yield


def activated(x):
    return x.relu()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return activated(self.linear(x)) * x.shape[0]


def scaled(x, factor=2):
    return x * factor + 1


class Tripled(SerializableCallable):
    """What a backend of somebody's returns, which writes itself."""

    def __init__(self, factor):
        self.factor = factor

    @classmethod
    def serialize_compile_artifacts(cls, fn):
        return pickle.dumps(fn.factor)

    @classmethod
    def deserialize_compile_artifacts(cls, data):
        return cls(pickle.loads(data))

    def __call__(self, *inputs):
        (x,) = [value for value in inputs if isinstance(value, torch.Tensor)]
        return (x * self.factor,)


def traces():
    return torch._dynamo.utils.counters["frames"]["ok"]


def test_a_method_is_compiled_without_a_call_and_takes_the_object_in_front():
    model = Model()
    ahead = torch.compile(model.forward, fullgraph=True, dynamic=True).aot_compile(((X,), {}))
    before = traces()
    for x in (X, X[:2], torch.randn(7, 4)):
        assert torch.equal(ahead(model, x), model(x))
    assert traces() == before
    with pytest.raises(RuntimeError, match="GuardManager check failed"):
        ahead(model, X.double())


def test_without_guards_everything_runs_what_was_compiled():
    ahead = torch.compile(scaled, fullgraph=True).aot_compile(((X,), {"factor": 5}))
    assert torch.equal(ahead(X, factor=5), X * 5 + 1)
    with pytest.raises(RuntimeError, match="GuardManager check failed"):
        ahead(X, factor=6)
    assert not ahead.guard_check(X, factor=6)
    ahead.disable_guard_check()
    assert torch.equal(ahead(X, factor=6), X * 5 + 1)


def test_it_is_there_as_torchs_is():
    assert hasattr(torch.compile(scaled, fullgraph=True), "aot_compile")
    with pytest.raises(RuntimeError, match="fullgraph=True"):
        torch.compile(scaled).aot_compile(((X,), {}))
    with torch._dynamo.config.patch(enable_aot_compile=False):
        assert not hasattr(torch.compile(scaled, fullgraph=True), "aot_compile")


@pytest.mark.parametrize("name", ["_aot_compile", "_save_aot_compiled_module", "_load_aot_compiled_module"])
def test_what_torchs_modules_compile_ahead_by_its_own_tracer_is_refused(name):
    with pytest.raises(tracer.exc.UserError, match=f"{name} of a compiled module cannot be honoured"):
        getattr(torch.compile(Model(), fullgraph=True), name)([])


def test_the_sources_that_the_trace_went_through_are_listed():
    ahead = torch.compile(Model().forward, fullgraph=True).aot_compile(((X,), {}))
    sources = ahead.source_info().inlined_sources
    assert {(each.module, each.firstlineno) for each in sources if each.module == __name__} == {
        (__name__, code.co_firstlineno) for code in (Model.forward.__code__, activated.__code__)
    }
    assert "torch.nn.modules.linear" in {each.module for each in sources}


@pytest.mark.parametrize("kept", [True, False], ids=["guarded", "guards dropped"])
def test_what_was_saved_is_loaded_without_a_trace(tmp_path, kept):
    model = Model()
    options = {"guard_filter_fn": lambda guards: [kept for _ in guards]}
    ahead = torch.compile(model.forward, fullgraph=True, dynamic=True, options=options).aot_compile(((X,), {}))
    ahead.save_compiled_function(str(tmp_path / "model"))
    before = traces()
    loaded = torch.compiler.load_compiled_function(io.BytesIO((tmp_path / "model").read_bytes()))
    other = Model()
    assert torch.equal(loaded(other, X[:2]), other(X[:2])) and traces() == before
    assert len(loaded.source_info().inlined_sources) == len(ahead.source_info().inlined_sources)


@pytest.mark.full
def test_what_inductor_compiled_ahead_is_saved_and_loaded(tmp_path):
    model = Model()
    ahead = torch.compile(model.forward, fullgraph=True, dynamic=True, backend="inductor").aot_compile(((X,), {}))
    ahead.save_compiled_function(tmp_path / "model")
    with open(tmp_path / "model", "rb") as file:
        loaded = torch.compiler.load_compiled_function(file)
    for x in (X, torch.randn(7, 4)):
        torch.testing.assert_close(loaded(model, x), model(x))
    with pytest.raises(RuntimeError, match="GuardManager check failed"):
        loaded(model, X.double())


def test_a_backend_whose_callable_writes_itself_is_read_back(tmp_path):
    ahead = torch.compile(scaled, fullgraph=True, backend=lambda gm, inputs: Tripled(3)).aot_compile(((X,), {}))
    assert ahead._artifacts.compiled_fn.factor == 3
    ahead.save_compiled_function(tmp_path / "scaled")
    with open(tmp_path / "scaled", "rb") as file:
        loaded = torch.compiler.load_compiled_function(file)
    assert torch.equal(loaded(X), X * 3)
    assert type(loaded._artifacts.compiled_fn) is Tripled and loaded._artifacts.compiled_fn is not ahead._artifacts.compiled_fn


RUNNING = contextvars.ContextVar("RUNNING")


class ReadWhereItRuns(Tripled):
    """It writes its example inputs, too, as torch's pickler of graphs does, and needs a state of the program to be read."""

    @classmethod
    def serialize_compile_artifacts(cls, fn):
        return GraphPickler.dumps(fn.factor)

    @classmethod
    def deserialize_compile_artifacts(cls, data):
        RUNNING.get()
        return cls(GraphPickler.loads(data, FakeTensorMode(shape_env=ShapeEnv())))


def test_a_callable_that_writes_symbolic_sizes_is_read_only_where_it_runs(tmp_path):
    def compiler(gm, inputs):
        return ReadWhereItRuns([value for value in inputs if isinstance(value, torch.SymInt)])

    ahead = torch.compile(scaled, fullgraph=True, dynamic=True, backend=compiler).aot_compile(((X,), {}))
    ahead.save_compiled_function(tmp_path / "scaled")
    with open(tmp_path / "scaled", "rb") as file, pytest.raises(RuntimeError, match="LookupError"):
        torch.compiler.load_compiled_function(file)
    RUNNING.set(True)
    with open(tmp_path / "scaled", "rb") as file:
        sizes = torch.compiler.load_compiled_function(file)._artifacts.compiled_fn.factor
    assert sizes and {type(size) for size in sizes} == {torch.SymInt}


def test_what_cannot_be_saved_or_loaded_says_why(tmp_path):
    def local(x):
        return x + 1

    with pytest.raises(RuntimeError, match="would not find it as"):
        torch.compile(local, fullgraph=True).aot_compile(((X,), {})).save_compiled_function(tmp_path / "local")
    ahead = torch.compile(scaled, fullgraph=True).aot_compile(((X,), {}))
    ahead.save_compiled_function(tmp_path / "scaled")
    with tracer.config.patch(specialize_float=not tracer.config.specialize_float), open(tmp_path / "scaled", "rb") as file:
        with pytest.raises(RuntimeError, match="specialize_float was"):
            torch.compiler.load_compiled_function(file)
