"""`torch.compiler.set_stance` under `tracer.install()`."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch._dynamo

import tracer

pytestmark = pytest.mark.usefixtures("installed")


def entries_of(compiled):
    return tracer.region_of(compiled).entries()


def plus_one(x):
    return x + 1


def times_its_size(x):
    return x * x.shape[0]


class Noting:
    """A backend that notes its graphs, and runs them as they are."""

    def __init__(self):
        self.graphs = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return gm.forward


@pytest.fixture
def own():
    return Noting()


@pytest.fixture
def forced():
    return Noting()


def test_stances_hold_for_the_tracer():
    compiled = torch.compile(plus_one)
    with torch.compiler.set_stance("force_eager"):
        compiled(torch.ones(1))
    assert not entries_of(compiled)
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError):
        compiled(torch.ones(1))
    compiled(torch.ones(1))
    assert len(entries_of(compiled)) == 1


def test_a_stance_holds_on_all_threads():
    compiled = torch.compile(plus_one)
    with ThreadPoolExecutor(1) as pool:
        with torch.compiler.set_stance("force_eager"):
            pool.submit(compiled, torch.ones(1)).result()
        assert not entries_of(compiled)
        pool.submit(compiled, torch.ones(1)).result()
        assert len(entries_of(compiled)) == 1


def test_a_stance_taken_before_the_install_holds():
    tracer.uninstall()
    with torch.compiler.set_stance("force_eager"):
        with tracer.install(backend="eager"):
            compiled = torch.compile(plus_one)
            compiled(torch.ones(1))
            assert not entries_of(compiled)


def test_the_first_call_of_a_stance_that_compiles_later_shows_which_sizes_vary():
    compiled = torch.compile(times_its_size)
    with torch.compiler.set_stance("aot_eager_then_compile"):
        compiled(torch.ones(4))
        assert not entries_of(compiled)
        compiled(torch.ones(5))
        compiled(torch.ones(6))
    assert len(entries_of(compiled)) == 1


def test_what_has_no_effect_on_the_stance_is_named():
    with pytest.warns(UserWarning, match="skip_guard_eval_unsafe=True.*has no effect"):
        with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
            pass


# -- force_backend ---------------------------------------------------------------------------------------------


def in_two_graphs(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


def kinds_of_compiled_objects(backend):
    yield torch.compile(in_two_graphs, backend=backend), 2
    yield torch.compile(torch.nn.Linear(3, 3), backend=backend), 1
    module = torch.nn.ReLU()
    module.compile(backend=backend)
    yield module, 1


def test_calls_use_the_backend_that_a_stance_forces_while_it_holds(own, forced):
    x = torch.ones(2, 3)
    for compiled, count in kinds_of_compiled_objects(own):
        own.graphs.clear(), forced.graphs.clear()
        expected = compiled(x)
        assert (len(own.graphs), len(forced.graphs)) == (count, 0)
        for _ in range(2):  # what each backend has compiled is there when its turn comes
            with torch.compiler.set_stance("default", force_backend=forced):
                assert torch.equal(compiled(x), expected) and torch.equal(compiled(x), expected)
            assert torch.equal(compiled(x), expected)
            assert (len(own.graphs), len(forced.graphs)) == (count, count)


def test_forced_backends_nest_and_other_stances_within_use_none(own, forced):
    compiled, inner = torch.compile(plus_one, backend=own), Noting()
    with torch.compiler.set_stance(force_backend=forced):
        with torch.compiler.set_stance(force_backend=inner):
            compiled(torch.ones(1))
        with torch.compiler.set_stance("force_eager"):
            compiled(torch.ones(1))
        with torch.compiler.set_stance("default"):
            compiled(torch.ones(2))
        compiled(torch.ones(3))
    compiled(torch.ones(2))
    assert [len(each.graphs) for each in (own, forced, inner)] == [1, 1, 1]


def test_a_forced_backend_is_that_of_decorated_calls_and_of_the_calls_after_a_plain_call(own, forced):
    compiled = torch.compile(plus_one, backend=own)
    decorated = torch.compiler.set_stance(force_backend=forced)(lambda x: compiled(x))
    assert tracer.runtime.stances.forced() is None
    assert decorated(torch.ones(1)) == 2 and compiled(torch.ones(1)) == 2
    torch.compiler.set_stance(force_backend=forced)
    try:
        assert compiled(torch.ones(1)) == 2
    finally:
        torch.compiler.set_stance("default")
    assert len(own.graphs) == len(forced.graphs) == 1


def test_a_name_may_be_forced_and_what_it_compiled_is_found_again(own):
    compiled = torch.compile(plus_one, backend=own)
    for _ in range(2):
        with torch.compiler.set_stance(force_backend="eager"):
            assert compiled(torch.ones(1)) == 2
    assert not own.graphs and len(entries_of(compiled)) == 1


def test_a_backend_that_is_forced_on_its_own_functions_compiles_nothing_again(own):
    compiled = torch.compile(plus_one, backend=own)
    compiled(torch.ones(1))
    with torch.compiler.set_stance(force_backend=own):
        assert compiled(torch.ones(1)) == 2
    assert len(own.graphs) == 1


def test_frames_of_callees_behind_a_break_are_compiled_by_the_forced_backend(own, forced):
    def callee(x):
        return x * 3

    def calls(x):
        torch._dynamo.graph_break()
        return torch._dynamo.disable(lambda: callee(x), recursive=False)()

    compiled = torch.compile(calls, backend=own)
    with torch.compiler.set_stance(force_backend=forced):
        assert compiled(torch.ones(1)) == 3
    assert forced.graphs and not own.graphs


def test_threads_see_the_backend_that_is_forced(own, forced):
    compiled = torch.compile(plus_one, backend=own)
    with ThreadPoolExecutor(1) as pool, torch.compiler.set_stance(force_backend=forced):
        pool.submit(compiled, torch.ones(1)).result()
    assert len(forced.graphs) == 1 and not own.graphs


def test_an_error_in_a_block_ends_the_forced_backend(forced):
    with pytest.raises(ZeroDivisionError), torch.compiler.set_stance(force_backend=forced):
        1 / 0
    assert tracer.runtime.stances.forced() is None


def test_a_forced_backend_must_be_one_and_no_other_stance_has_one(forced):
    with pytest.raises(torch._dynamo.exc.InvalidBackend, match="no such"):
        torch.compiler.set_stance(force_backend="no such")
    with pytest.raises(RuntimeError, match="non-default stance cannot have force_backend set"):
        torch.compiler.set_stance("eager_on_recompile", force_backend=forced)
    assert torch._dynamo.eval_frame._stance.backend is None and tracer.runtime.stances.forced() is None


def test_a_backend_forced_before_the_install_is_forced_until_it_ends(forced):
    tracer.uninstall()
    with torch.compiler.set_stance(force_backend=forced):
        with tracer.install(backend="eager"):
            assert torch.compile(plus_one)(torch.ones(1)) == 2
        assert len(forced.graphs) == 1 and tracer.runtime.stances.forced() is None


def test_a_limit_counts_the_entries_of_each_backend_apart(own, forced):
    compiled = torch.compile(plus_one, backend=own, dynamic=False, recompile_limit=2)
    for size in (1, 2):
        compiled(torch.ones(size))
    with torch.compiler.set_stance(force_backend=forced):
        for size in (3, 4):
            compiled(torch.ones(size))
    assert len(own.graphs) == len(forced.graphs) == 2


def test_a_forced_backend_that_needs_real_inputs_gets_constant_sizes():
    seen = []

    def real(gm, example_inputs):
        seen.extend(example_inputs)
        return gm.forward

    tracer.register_backend(real, name="real_inputs_of_a_stance", real_inputs=True)
    compiled = torch.compile(times_its_size, dynamic=True)
    x = torch.ones(4)
    with torch.compiler.set_stance(force_backend="real_inputs_of_a_stance"):
        assert torch.equal(compiled(x), x * 4)
    assert any(each is x for each in seen)


def test_a_backend_that_was_forced_goes_with_its_entries():
    backend = Noting()
    compiled, gone = torch.compile(plus_one), weakref.ref(backend)
    with torch.compiler.set_stance(force_backend=backend):
        compiled(torch.ones(1))
    del backend
    torch._dynamo.reset()
    gc.collect()
    assert gone() is None
