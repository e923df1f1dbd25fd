"""Which decorated objects share entries, and how long entries, tensors and models live."""

from __future__ import annotations

import gc
import types
import weakref

import pytest
import torch
from torch import nn

import tracer
from tests.soundness.watching import Watched

X = torch.randn(2, 3)


def copy_with_globals(fn, **names):
    return types.FunctionType(fn.__code__, {**fn.__globals__, **names}, fn.__name__, fn.__defaults__, fn.__closure__)


def scaled(x):
    return x * RATE  # noqa: F821


def test_functions_that_share_code_but_not_globals_do_not_mix():
    two, three = copy_with_globals(scaled, RATE=2), copy_with_globals(scaled, RATE=3)
    compiled = [tracer.optimize()(fn) for fn in (two, three)]
    for _ in range(2):
        assert torch.equal(compiled[0](X), X * 2) and torch.equal(compiled[1](X), X * 3)


def test_functions_that_share_code_called_from_one_region():
    two, three = copy_with_globals(scaled, RATE=2), copy_with_globals(scaled, RATE=3)
    watched = Watched(lambda x, fn: fn(x) + 1)
    for fn in (two, three, two, three):
        watched(X, fn)


def test_callees_that_share_code_after_a_break():
    two, three = copy_with_globals(scaled, RATE=2), copy_with_globals(scaled, RATE=3)

    @tracer.disable
    def call(fn, x):
        return call_traced(fn, x)

    def call_traced(fn, x):
        return fn(x) + 1

    for _ in range(2):
        for fn, rate in ((two, 2), (three, 3)):
            assert torch.equal(tracer.optimize()(lambda x: call(fn, x))(X), X * rate + 1)


def test_one_function_decorated_twice_with_different_options():
    seen = []

    def backend(name):
        return lambda gm, inputs: (seen.append(name), gm.forward)[1]

    def fn(x):
        return x * 2 + 1

    first, second = tracer.optimize(backend("a"))(fn), tracer.optimize(backend("b"), dynamic=True)(fn)
    for compiled in (first, second, first, second):
        assert torch.equal(compiled(X), fn(X))
    assert seen == ["a", "b"]


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.size = size

    def forward(self, x):
        return self.linear(x) * self.size


@pytest.mark.parametrize("wrap", [tracer.optimize(), tracer.compile_module], ids=["beside", "in place"])
def test_twenty_instances_of_one_class_do_not_share_a_limit(wrap, recwarn):
    layers = [Layer(n) for n in range(1, 21)]
    plain = [layer(torch.ones(2, layer.size)) for layer in layers]
    compiled = [wrap(layer) for layer in layers]
    for _ in range(2):
        for layer, module, expected in zip(layers, compiled, plain):
            assert torch.equal(module(torch.ones(2, layer.size)), expected)
    for module in compiled:
        entries = tracer.region_of(module).entries()
        assert len(entries) == 1 and entries[0].hits == 1
    assert not [w for w in recwarn if "recompile_limit" in str(w.message)]


def test_twenty_closures_of_one_code_do_not_share_a_limit():
    def make(n):
        @tracer.optimize()
        def fn(x):
            return x + n

        return fn

    functions = [make(n) for n in range(20)]
    for _ in range(2):
        for n, fn in enumerate(functions):
            assert torch.equal(fn(X), X + n)
    assert all(len(tracer.region_of(fn).entries()) == 1 for fn in functions)


# --------------------------------------------------------------------------------------------- how long things live


class Breaking(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.items = [torch.ones(3)]

    def forward(self, x):
        y = self.linear(x) + self.items[0]
        print(end="")
        y = y * 2
        for item in self.items:
            print(end="")
            y = y + item
        return y


def run_training(compiled, module):
    loss = compiled(X).sum()
    loss.backward()
    module.zero_grad()


USES = (
    run_training,
    lambda c, m: [c(torch.ones(n, 3)) for n in (2, 3, 4, 1)],
    lambda c, m: torch.no_grad()(c)(X),
    lambda c, m: (m.eval(), c(X)),
)


@pytest.mark.parametrize("how", ["beside", "in place", "function"])
def test_a_dropped_model_is_collected(how):
    watched = []
    for make in (lambda: Layer(3), Breaking, lambda: nn.Sequential(Layer(3), Breaking())):
        for use in USES:
            module = make()
            if how == "beside":
                compiled = tracer.optimize()(module)
            elif how == "in place":
                compiled = tracer.compile_module(module)
            else:
                compiled = tracer.optimize()(lambda x: module(x))  # noqa: F821
            use(compiled, module)
            watched += [weakref.ref(next(module.parameters())), *map(weakref.ref, module.modules())]
            del module, compiled
    gc.collect()
    assert [ref() for ref in watched] == [None] * len(watched)


def test_the_region_and_its_graphs_go_with_the_decorated_object():
    graphs = []

    def backend(gm, inputs):
        graphs.append(weakref.ref(gm))
        return gm.forward

    compiled = tracer.optimize(backend)(lambda x: (x * 2).relu())
    compiled(X)
    region = weakref.ref(tracer.region_of(compiled).region)
    del compiled
    gc.collect()
    assert region() is None and graphs[0]() is None


def test_what_a_global_function_was_given_is_not_kept_alive():
    class Config:
        rate = 2

        def __init__(self):
            self.table = {"k": 3}

        def scale(self, x):
            return x * self.rate * self.table["k"]

    def fn(x, config, module, items, callback):
        return callback(module(config.scale(x)) + items[0] + len(items))

    compiled = tracer.optimize()(fn)
    refs = []
    for _ in range(3):
        config, module, items = Config(), Layer(3), [torch.ones(3), 2]
        callback = lambda x: x * config.rate  # noqa: F821
        compiled(X, config, module, items, callback)
        compiled(X, config, module, items, callback)
        refs += [weakref.ref(obj) for obj in (config, module, module.linear.weight, items[0], callback)]
        del config, module, items, callback
    gc.collect()
    assert [ref() for ref in refs] == [None] * len(refs)
    arguments = X, Config(), nn.Identity(), [1], torch.neg
    assert torch.equal(compiled(*arguments), fn(*arguments))


def test_a_local_class_is_not_kept_alive():
    compiled = tracer.optimize()(lambda x, obj: obj(x) * 2)
    refs = []
    for n in range(3):

        class Local:
            by = n
            slots = {"k": n}

            @property
            def twice(self):
                return self.by * 2

            @classmethod
            def made(cls):
                return cls()

            def __call__(self, x):
                return super().__init__() or x * self.twice

        compiled(X, Local())
        refs.append(weakref.ref(Local))
        del Local
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3
    # The first entry was for the very class; from the second on a class is told by what it is made of, so theirs may stay.
    assert len([entry for entry in tracer.region_of(compiled).entries() if entry.valid]) < 3


def test_an_entry_goes_with_what_it_guards():
    compiled = tracer.optimize()(lambda x, fn: fn(x) + 1)
    for n in range(12):
        fn = lambda x: x * 2
        assert torch.equal(compiled(X, fn), X * 2 + 1)
        del fn
        gc.collect()
    assert len(tracer.region_of(compiled).entries()) <= 1


def test_a_function_that_comes_to_lie_where_another_one_was():
    compiled = tracer.optimize()(lambda x, fn: fn(x) + 1)

    def make(n):
        namespace = {}
        exec(f"def fn(x): return x * {n}", namespace)
        return namespace["fn"]

    for n in range(50):
        assert torch.equal(compiled(X, make(n)), X * n + 1)


def test_a_class_that_comes_to_lie_where_another_one_was():
    compiled = tracer.optimize(recompile_limit=100)(lambda x, obj: obj.scale(x) + 1)
    for n in range(12):
        cls = type("Same", (), {"scale": eval(f"lambda self, x: x * {n}")})
        assert torch.equal(compiled(X, cls()), X * n + 1)
        del cls
        gc.collect()


def test_arguments_are_not_kept_alive_by_a_call():
    compiled = tracer.optimize()(lambda x: x * 2)
    breaking = tracer.optimize()(lambda x: (print(end=""), x * 2)[1])
    for fn in (compiled, breaking):
        for grad in (False, True):
            t = torch.randn(3, requires_grad=grad)
            ref = weakref.ref(t)
            fn(t)
            fn(t)
            del t
            gc.collect()
            assert ref() is None


def test_tensors_die_as_early_as_in_plain_python():
    """Nothing but the reference counts is needed."""
    compiled = tracer.optimize()(lambda x: x * 2)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            t = torch.randn(3)
            result = compiled(t)
            refs = weakref.ref(t), weakref.ref(result)
            del t, result
            assert [ref() for ref in refs] == [None, None]
    finally:
        gc.enable()


def test_an_error_keeps_nothing_alive():
    def fn(x):
        return x.reshape(7, 7)

    compiled = tracer.optimize()(fn)
    t = torch.randn(3)
    ref = weakref.ref(t)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            compiled(t)
    del t
    gc.collect()
    assert ref() is None


def test_reset_lets_go_of_everything():
    refs = []

    def backend(gm, inputs):
        refs.append(weakref.ref(gm))
        return gm.forward

    compiled = tracer.optimize(backend)(lambda x: (print(end=""), x * 2)[1] + 1)
    compiled(X)
    tracer.reset()
    gc.collect()
    assert [ref() for ref in refs] == [None] * len(refs)
    assert torch.equal(compiled(X), X * 2 + 1)
