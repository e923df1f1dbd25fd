"""Settings that change what a trace does."""

import gc
import warnings

import pytest
import torch

import tracer
from tests.support.graphs import Graphs
from tracer import config


def graphs_of(fn, *calls, **options):
    """The graphs that calls of `fn` gave."""
    graphs = Graphs()

    compiled = tracer.optimize(graphs.backend, **options)(fn)
    for args in calls:
        torch.testing.assert_close(compiled(*args), fn(*args), rtol=0, atol=0)
    return graphs


def test_a_float_seen_to_change_is_a_graph_input():
    x = torch.randn(3)
    graphs = graphs_of(lambda x, scale: x * scale, (x, 0.5), (x, 0.75), (x, 0.25), (x, 3.5))
    assert len(graphs) == 2


def test_a_branch_on_a_float_is_guarded():
    def fn(x, scale):
        return x * scale if scale > 0.5 else x - scale

    x = torch.randn(3)
    assert len(graphs_of(fn, (x, 0.7), (x, 0.8), (x, 0.9), (x, 0.2), (x, 0.1))) == 3


def test_specialize_float_makes_every_float_a_constant():
    x = torch.randn(3)
    with config.patch(specialize_float=True):
        assert len(graphs_of(lambda x, scale: x * scale, (x, 0.5), (x, 0.75), (x, 0.25))) == 3


def test_not_a_number_and_infinity_stay_constants():
    x = torch.ones(2)
    fn = tracer.optimize("eager")(lambda x, scale: x * scale)
    fn(x, 1.5)
    assert fn(x, float("inf")).tolist() == [float("inf")] * 2
    assert fn(x, float("nan")).isnan().all()
    assert fn(x, 2.5).tolist() == [2.5, 2.5]


def test_without_guards_on_modules_their_attributes_are_taken_as_fixed():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5)).eval()
    x = torch.randn(2, 3)
    with config.patch(guard_nn_modules=False):
        compiled = tracer.optimize("eager")(lambda x: model(x))
        before = compiled(x)
        model.train()
        assert torch.equal(compiled(x), before)


def test_the_accumulated_limit_counts_over_all_regions_of_one_code():
    def fn(x, flag):
        return x + 1 if flag == "a" else x + 2

    x = torch.randn(2)
    with config.patch(accumulated_recompile_limit=2):
        first, second = tracer.optimize("eager")(fn), tracer.optimize("eager")(fn)
        first(x, "a")
        first(x, "b")
        with pytest.warns(UserWarning, match="accumulated_recompile_limit \\(2\\) over all"):
            assert torch.equal(second(x, "a"), x + 1)


@pytest.fixture
def garbage_left_to_the_tracer():
    """As in a process of so many objects that Python rarely collects the old ones."""
    gc.disable()
    yield
    gc.enable()


def test_entries_that_are_gone_do_not_count_towards_the_accumulated_limit(garbage_left_to_the_tracer):
    def fn(x):
        return x + 1

    with config.patch(accumulated_recompile_limit=2):
        for _ in range(4):
            compiled = tracer.optimize("eager")(fn)
            compiled(torch.randn(2))
            assert len(tracer.region_of(compiled).entries()) == 1
            del compiled


def test_garbage_is_collected_once_while_the_accumulated_limit_stays_reached(monkeypatch):
    def fn(x):
        return x + 1

    collected = []
    x = torch.randn(2)
    with config.patch(accumulated_recompile_limit=2), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alive = [tracer.optimize("eager")(fn) for _ in range(2)]
        for compiled in alive:
            compiled(x)
        monkeypatch.setattr(gc, "collect", lambda: collected.append(1))
        for _ in range(3):
            tracer.optimize("eager")(fn)(x)
    assert len(collected) == 1


def test_verify_correctness_finds_a_backend_that_computes_something_else():
    def wrong(gm, inputs):
        return lambda *args: [result + 1 for result in gm.forward(*args)]

    with config.patch(verify_correctness=True), pytest.raises(tracer.exc.BackendCompilerFailed, match="differs"):
        tracer.optimize(wrong)(lambda x: x * 2)(torch.randn(3))


def counts_with_for(x):
    for _ in range(300):
        x = x + 1
    return x


def counts_with_while(x):
    n = 0
    while n < 300:
        n += 1
    return x + n


@pytest.mark.parametrize("fn", [counts_with_for, counts_with_while])
def test_a_loop_that_never_ends_in_a_trace_breaks_the_graph(fn):
    with config.patch(max_trace_instructions=1000):
        explanation = tracer.explain(fn)(torch.zeros(2))
        assert torch.equal(tracer.compile(fn)(torch.zeros(2)), fn(torch.zeros(2)))
    assert any(reason.id == "trace-too-long" for reason in explanation.break_reasons)


def test_a_function_assumed_constant_is_called_while_tracing_and_its_result_kept():
    table = {"scale": 3}

    @tracer.assume_constant_result
    def scale(name):
        return table[name]

    graphs = graphs_of(lambda x: x * scale("scale"), (torch.ones(2),), fullgraph=True)
    assert len(graphs) == 1

    compiled = tracer.optimize("eager", fullgraph=True)(lambda x: x * scale("scale"))
    assert compiled(torch.ones(2)).tolist() == [3, 3]
    table["scale"] = 4
    assert compiled(torch.ones(2)).tolist() == [3, 3]


def test_a_tensor_assumed_constant_is_an_input_of_the_graph():
    weight = torch.randn(3)

    @tracer.assume_constant_result
    def load():
        return weight

    compiled = tracer.optimize("eager", fullgraph=True)(lambda x: x + load())
    x = torch.randn(3)
    assert torch.equal(compiled(x), x + weight)


def test_modules_are_made_in_a_trace_after_torch_compile_was_used():
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(3))

    def fn(x):
        for layer in layers[:2]:
            x = layer(x)
        return torch.nn.Softmax(dim=-1)(x)

    assert len(graphs_of(fn, (torch.randn(2, 3),), fullgraph=True)) == 1


def test_the_sign_of_zero_and_nan_are_not_lost_where_floats_vary():
    compiled = tracer.optimize("eager")(lambda x, scale: (x * scale, scale * 2, -scale))
    x = torch.ones(2)
    for scale in (0.5, 1.5, 0.0, -0.0, float("inf"), -2.5):
        seen, expected = compiled(x, scale), (x * scale, scale * 2, -scale)
        assert [repr(value) for value in seen] == [repr(value) for value in expected]
