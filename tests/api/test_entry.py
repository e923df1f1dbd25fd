"""optimize and compile: what they return for each kind of object, and that each has a region of its own."""

from __future__ import annotations

import asyncio
import copy
import functools
import gc
import inspect
import pickle
import weakref

import pytest
import torch

import tracer
from tests.support.graphs import Graphs
from tracer.exc import InvalidBackend, UserError

X = torch.arange(6.0).reshape(2, 3)


def double(x: torch.Tensor, plus: float = 1.0, *, minus: float = 0.0) -> torch.Tensor:
    """Twice and one more."""
    return x * 2 + plus - minus


@tracer.compile
def decorated(x):
    return x + 1


def test_a_function_keeps_its_name_doc_and_signature(graphs):
    fn = tracer.optimize(graphs.backend)(double)
    assert (fn.__name__, fn.__doc__, fn.__wrapped__) == ("double", "Twice and one more.", double)
    assert inspect.signature(fn) == inspect.signature(double)


def test_a_function_is_captured_once_and_hits_afterwards(graphs):
    fn = tracer.optimize(graphs.backend)(double)
    for _ in range(3):
        assert torch.equal(fn(X), double(X))
    assert len(graphs) == 1 and graphs.operations == 3
    assert len(tracer.region_of(fn).entries()) == 1


def test_keywords_and_defaults_reach_the_function(graphs):
    fn = tracer.compile(double, backend=graphs.backend)
    assert torch.equal(fn(X, plus=3.0), double(X, plus=3.0))
    assert torch.equal(fn(X, 3.0, minus=2.0), double(X, 3.0, minus=2.0))
    assert torch.equal(fn(x=X), double(X))


@pytest.mark.parametrize("form", [tracer.optimize("eager"), tracer.optimize(), tracer.compile, tracer.compile(backend="eager")])
def test_all_forms_decorate(form):
    @form
    def fn(x):
        return x.relu() - 1

    assert torch.equal(fn(X), X.relu() - 1)
    assert tracer.region_of(fn) is not None


def test_disable_true_returns_the_object_itself():
    assert tracer.optimize(disable=True)(double) is double
    assert tracer.compile(double, disable=True) is double
    assert tracer.compile(disable=True)(double) is double


def test_two_decorations_share_no_entry(graphs):
    first, second = tracer.optimize(graphs.backend)(double), tracer.optimize(graphs.backend)(double)
    first(X), second(X)
    assert len(graphs) == 2
    assert tracer.region_of(first) is not tracer.region_of(second)


def test_decorating_twice_compiles_the_original(graphs):
    unused = Graphs()
    fn = tracer.optimize(graphs.backend)(tracer.optimize(unused.backend)(double))
    assert fn.__wrapped__ is double
    fn(X)
    assert (len(graphs), len(unused)) == (1, 0)


class Scaler:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor

    def scaled(self, x):
        return x * self.factor + 1

    @tracer.compile
    def compiled_in_class(self, x):
        return x * self.factor + 2

    @tracer.compile
    @classmethod
    def of_class(cls, x):
        return x + len(cls.__name__)

    @tracer.compile
    @staticmethod
    def of_nothing(x):
        return x + 4


def test_a_bound_method_stays_bound(graphs):
    method = tracer.optimize(graphs.backend)(Scaler(3.0).scaled)
    assert torch.equal(method(X), X * 3 + 1)
    assert method.__self__.factor == 3.0 and method.__name__ == "scaled"
    assert len(graphs) == 1


def test_methods_decorated_in_the_class_bind():
    scaler = Scaler(5.0)
    assert torch.equal(scaler.compiled_in_class(X), X * 5 + 2)
    assert torch.equal(Scaler.of_class(X), X + 6)
    assert torch.equal(scaler.of_class(X), X + 6)
    assert torch.equal(scaler.of_nothing(X), X + 4)
    assert tracer.region_of(scaler.compiled_in_class) is not None


def test_a_callable_object_forwards_its_attributes(graphs):
    scaler = Scaler(2.0)
    fn = tracer.optimize(graphs.backend)(scaler)
    assert torch.equal(fn(X), X * 2)
    fn.factor = 7.0
    assert scaler.factor == 7.0
    assert torch.equal(fn(X), X * 7)
    assert torch.equal(fn.scaled(X), X * 7 + 1)
    del fn.factor
    assert not hasattr(scaler, "factor") and "scaled" in dir(fn)
    assert tracer.compile(fn).__wrapped__ is scaler


def test_a_callable_object_is_pickled_with_its_settings():
    fn = pickle.loads(pickle.dumps(tracer.compile(Scaler(2.0))))
    assert torch.equal(fn(X), X * 2)
    assert tracer.region_of(fn) is not None


def test_a_c_function_is_called_from_a_frame_of_its_own(graphs):
    add = tracer.optimize(graphs.backend)(torch.add)
    assert torch.equal(add(X, 1), X + 1)
    assert torch.equal(add(X, X, alpha=2), X * 3)
    assert add.__name__ == "add" and len(graphs) == 2
    assert tracer.compile(add).__wrapped__ is torch.add


def test_a_partial_keeps_its_arguments(graphs):
    fn = tracer.optimize(graphs.backend)(functools.partial(double, plus=4.0))
    assert isinstance(fn, functools.partial) and fn.keywords == {"plus": 4.0}
    assert torch.equal(fn(X), X * 2 + 4)
    assert len(graphs) == 1 and tracer.region_of(fn) is not None


def test_a_class_compiles_the_calls_of_its_instances(graphs):
    @tracer.optimize(graphs.backend)
    class Plus:
        def __init__(self, n):
            self.n = n

        def __call__(self, x):
            return x + self.n

    assert torch.equal(Plus(2.0)(X), X + 2)
    assert len(graphs) == 1


def test_a_class_without_call_is_refused():
    with pytest.raises(UserError, match="no __call__ to compile"):
        tracer.compile(type("Empty", (), {}))


def test_generators_and_async_functions_are_refused_plainly():
    def generator(x):
        yield x + 1

    async def coroutine(x):
        return x + 1

    with pytest.warns(UserWarning, match="generator is a generator function.*does nothing") as caught:
        assert tracer.compile(generator) is generator
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="an async function"):
        assert asyncio.run(tracer.optimize()(coroutine)(1)) == 2
    with pytest.raises(UserError, match="does nothing"):
        tracer.compile(generator, fullgraph=True)


@pytest.mark.parametrize(
    ("attempt", "error", "words"),
    [
        (lambda: tracer.compile(3), UserError, "cannot be called"),
        (lambda: tracer.optimize(double)(torch.ones(2)), UserError, r"write tracer.compile\(double"),
        (lambda: tracer.optimize(double)(2, 3), UserError, r"write tracer.compile\(double"),
        (lambda: tracer.optimize()(double, 3), UserError, "call the result"),
        (lambda: tracer.compile(property(double)), UserError, "under @property"),
        (lambda: tracer.optimize("eagr"), InvalidBackend, "did you mean 'eager'"),
        (lambda: tracer.compile(double, backend=3), UserError, "must be a name or a function"),
        (lambda: tracer.compile(double, mode="default", options={"x": 1}), UserError, "both"),
        (lambda: tracer.compile_module(double), UserError, "nn.Module"),
    ],
)
def test_what_cannot_work_is_refused_at_the_decoration(attempt, error, words):
    with pytest.raises(error, match=words):
        attempt()


def test_a_decorated_function_pickles_by_name_and_copies_as_itself():
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert copy.deepcopy(decorated) is decorated


def test_a_dropped_function_is_collected_with_its_entries():
    def build():
        weight = torch.ones(3)

        @tracer.compile
        def fn(x):
            return x @ weight

        fn(X)
        return weakref.ref(fn), weakref.ref(tracer.region_of(fn)), weakref.ref(weight)

    gone = build()
    gc.collect()
    assert [ref() for ref in gone] == [None, None, None]


def test_reset_forgets_entries_and_keeps_decorations(graphs):
    fn = tracer.optimize(graphs.backend)(double)
    fn(X)
    tracer.reset()
    assert tracer.region_of(fn).entries() == []
    assert torch.equal(fn(X), double(X)) and len(graphs) == 2


def test_recompile_limit_of_one_decoration(graphs):
    fn = tracer.compile(double, backend=graphs.backend, recompile_limit=2, dynamic=False)
    for size in (2, 3, 4, 5):
        assert torch.equal(fn(torch.ones(size)), double(torch.ones(size)))
    assert len(graphs) == 2


def test_under_optimize_as_a_context_manager_called_functions_are_captured(graphs):
    scope = tracer.optimize(graphs.backend)
    for _ in range(2):
        with scope:
            assert torch.equal(double(X), X * 2 + 1)
    assert len(graphs) == 1
    double(torch.ones(7))
    assert len(graphs) == 1
    with tracer.optimize(disable=True):
        double(X)
