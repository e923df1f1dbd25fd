"""Regions of equal modules share what was compiled."""

from __future__ import annotations

import functools
import gc
import threading
import weakref

import pytest
import torch

import tracer
from tests.support.graphs import Graphs
from tracer.runtime import twins

X = torch.ones(2, 4)


class Block(torch.nn.Module):
    def __init__(self, scale=2):
        super().__init__()
        self.linear, self.scale = torch.nn.Linear(4, 4), scale

    def forward(self, x):
        return self.linear(x).relu() * self.scale


class Breaking(Block):
    def forward(self, x):
        h = self.linear(x)
        tracer.graph_break()
        return h.relu() * self.scale


def compiled_blocks(count, backend, cls=Block, **options):
    return [tracer.compile(cls(), backend=backend, **options) for _ in range(count)]


def holds(module, *sizes):
    """Calls a compiled module with these sizes, each beside CPython."""
    for rows in sizes:
        x = torch.randn(rows, 4)
        assert torch.equal(module(x), module._orig_mod.forward(x))


@pytest.fixture
def graphs():
    return Graphs()


def entries_of(module):
    return tracer.region_of(module).entries()


def test_equal_modules_are_compiled_once_for_each_kind_of_call(graphs):
    modules = compiled_blocks(12, graphs.backend)
    for rows in (2, 4, 8):
        for module in modules:
            holds(module, rows)
    assert len(graphs) == 2
    assert [len(entries_of(module)) for module in modules] == [2] * 12
    assert [tracer.region_of(module).stats["share"] for module in modules] == [0] + [2] * 11


def test_each_module_keeps_an_entry_of_its_own(graphs):
    one, other = compiled_blocks(2, graphs.backend)
    holds(one, 2)
    holds(other, 2)
    tracer.region_of(one).reset()
    assert len(entries_of(other)) == 1
    holds(other, 2)
    assert len(graphs) == 1


def test_what_one_module_saw_to_vary_is_dynamic_for_others_from_the_first_trace(graphs):
    one, other = tracer.compile(Block(2), backend=graphs.backend), tracer.compile(Block(3), backend=graphs.backend)
    holds(one, 2, 4)
    holds(other, 3, 5, 7)
    assert len(graphs) == 3
    assert len(entries_of(other)) == 1


def test_a_size_that_differs_after_a_takeover_becomes_dynamic(graphs):
    one, other = compiled_blocks(2, graphs.backend)
    holds(one, 2)
    holds(other, 2, 4, 8)
    assert len(graphs) == 2


def test_modules_with_other_settings_are_no_twins(graphs):
    for options in ({}, {"dynamic": True}, {"fullgraph": True}):
        holds(compiled_blocks(1, graphs.backend, **options)[0], 2)
    with tracer.config.patch(duck_shape=False):
        holds(compiled_blocks(1, graphs.backend)[0], 2)
    other = Graphs()
    holds(compiled_blocks(1, other.backend)[0], 2)
    assert (len(graphs), len(other)) == (4, 1)


def test_where_modules_are_not_guarded_nothing_is_shared(graphs):
    with tracer.config.patch(guard_nn_modules=False):
        one, other = tracer.compile(Block(2), backend=graphs.backend), tracer.compile(Block(3), backend=graphs.backend)
        holds(one, 2)
        holds(other, 2)
    assert len(graphs) == 2


def test_behind_a_graph_break_each_region_has_its_own_entries(graphs):
    one, other = compiled_blocks(2, graphs.backend, Breaking)
    holds(one, 2)
    made = len(graphs)
    holds(other, 2, 2)
    assert len(graphs) == made == 2
    assert len(entries_of(other)) == len(entries_of(one)) == 2
    tracer.region_of(one).reset()
    del one
    gc.collect()
    holds(other, 2)
    assert len(graphs) == made


def test_the_log_says_what_is_taken_over_and_which_guard_stands_in_the_way(graphs):
    modules = [tracer.compile(Block(scale), backend=graphs.backend, name=f"block {scale}") for scale in (2, 2, 3)]
    with tracer.logs.capture("sharing") as records:
        for module in modules:
            holds(module, 2)
    texts = [record.text for record in records]
    assert texts[0].startswith("SHARED forward test_sharing.py:") and "taken over by block 2" in texts[0]
    assert "NOT SHARED" in texts[1] and "L['self'].scale == 2" in texts[1]


@functools.lru_cache
def table():
    return torch.arange(4.0)


class Cached(Block):
    def forward(self, x):
        return self.linear(x) + table().add_(1)


def test_an_entry_whose_code_or_graph_holds_an_object_of_the_program_is_not_offered(graphs):
    with tracer.logs.capture("sharing") as records:
        for module in compiled_blocks(2, graphs.backend, Cached):
            module(X)
            module(X)
    assert any("its code holds an object of torch.Tensor" in record.text for record in records)
    assert not any(record.text.startswith("SHARED") for record in records)


DEPTH = 3


@functools.lru_cache
def depth_of(name):
    return len(name) + DEPTH


class AsksCache(Block):
    def forward(self, x):
        return self.linear(x) * depth_of("four")


def test_modules_share_code_that_asks_a_cache(graphs):
    for module in compiled_blocks(2, graphs.backend, AsksCache):
        assert torch.equal(module(X), module.linear(X) * 7)
    assert len(graphs) == 2  # the code holds the function that asks


def test_recompile_limits_count_entries_that_are_taken_over(graphs):
    one, other = compiled_blocks(2, graphs.backend, recompile_limit=1, dynamic=False)
    holds(one, 2)
    holds(other, 2)
    with pytest.warns(UserWarning, match="recompile_limit"):
        holds(other, 3)
    assert len(graphs) == 1


def test_takeovers_do_not_count_for_the_limit_over_all_objects(graphs):
    gc.collect()  # entries of other tests count, too
    with tracer.config.patch(accumulated_recompile_limit=2):
        modules = compiled_blocks(6, graphs.backend)
        for module in modules:
            holds(module, 2)
    assert len(graphs) == 1


def test_an_entry_goes_on_when_the_module_that_was_traced_is_gone(graphs):
    one, other = compiled_blocks(2, graphs.backend)
    holds(one, 2)
    holds(other, 2)
    weight, region = weakref.ref(one._orig_mod.linear.weight), weakref.ref(tracer.region_of(one))
    del one
    gc.collect()
    assert weight() is None and region() is None
    holds(other, 2)
    third = compiled_blocks(1, graphs.backend)[0]
    holds(third, 2)
    assert len(graphs) == 1


def test_sharing_ends_with_the_last_owner(graphs):
    gc.collect()
    before = len(twins._families)
    one, other = compiled_blocks(2, graphs.backend)
    holds(one, 2)
    holds(other, 2)
    graph = weakref.ref(entries_of(one)[0].guarded_code.compiled)
    del one
    gc.collect()
    assert graph() is not None
    del other
    gc.collect()
    assert graph() is None and len(twins._families) == before


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.full)])
def test_twins_that_are_dropped_leave_nothing_behind(graphs, count):
    first = compiled_blocks(1, graphs.backend)[0]
    holds(first, 2)

    def objects_after(made):
        for _ in range(made):
            compiled_blocks(1, graphs.backend)[0](X)
        gc.collect()
        return len(gc.get_objects())

    objects_after(20)
    before = objects_after(20)
    assert objects_after(count) < before + 60
    assert len(graphs) == 1


def test_threads_that_call_twins_first_at_once_compile_once(graphs):
    modules = compiled_blocks(16, graphs.backend)
    together = threading.Barrier(16)
    failed = []

    def call(module):
        together.wait()
        try:
            holds(module, 2)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=call, args=(module,)) for module in modules]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(graphs) == 1


def test_methods_of_modules_are_twins_too(graphs):
    for module in (Block(), Block(), Block(3)):
        module.forward = tracer.compile(module.forward, backend=graphs.backend)
        assert torch.equal(module(X), module.linear(X).relu() * module.scale)
    assert len(graphs) == 2


def test_functions_that_are_decorated_twice_share_nothing(graphs):
    def double(x):
        return x * 2

    for _ in range(2):
        tracer.compile(double, backend=graphs.backend)(X)
    assert len(graphs) == 2


def test_where_recompiles_are_forbidden_a_takeover_is_none(graphs):
    one, other = compiled_blocks(2, graphs.backend)
    holds(one, 2, 4)
    holds(other, 2)
    with tracer.config.patch(error_on_recompile=True):
        holds(other, 4)
    assert len(graphs) == 2


def test_a_sealed_module_takes_nothing_over(graphs):
    one, other = compiled_blocks(2, graphs.backend)
    holds(one, 2)
    tracer.seal(other, on_miss="eager")
    holds(other, 2)
    assert not entries_of(other)


def test_what_is_said_of_an_entry_that_was_taken_over_is_what_is_said_of_its_twin(tmp_path):
    one, other, third = compiled_blocks(3, "eager", dynamic=True)
    holds(one, 5)
    holds(other, 5)
    for module in (one, other):
        assert tracer.coverage(module, "x: B, 4; B in 2..64", (X,)).certified
        assert "L['x'].size()[0]" in str(tracer.why(module, torch.ones(1, 4)))
    assert tracer.save(other, tmp_path / "entries").saved == 1
    del one, other
    gc.collect()
    assert tracer.load(third, tmp_path / "entries").loaded == 1
    holds(third, 7)
    assert tracer.region_of(third).stats["compile"] == 0


def test_events_tell_of_a_takeover(graphs):
    seen = []
    remove = tracer.metrics.add_callback(seen.append)
    try:
        for module in compiled_blocks(2, graphs.backend):
            holds(module, 2)
    finally:
        remove()
    assert [event.kind for event in seen] == ["miss", "compile", "miss", "share"]
    assert seen[-1].entry == seen[1].entry and "taken over" in seen[-1].detail


def test_training_steps_of_twins_go_on_with_their_own_parameters():
    def trained(compile_):
        torch.manual_seed(0)
        model = torch.nn.Sequential(*[Block() for _ in range(3)])
        calls = [compile_(block) for block in model]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for rows in (2, 3, 4):
            x = torch.linspace(-1, 1, rows * 4).reshape(rows, 4)
            optimizer.zero_grad()
            for call in calls:
                x = call(x)
            x.square().mean().backward()
            optimizer.step()
        return list(model.parameters())

    plain, compiled = trained(lambda block: block), trained(lambda block: tracer.compile(block, backend="aot_eager"))
    assert all(map(torch.equal, plain, compiled))
