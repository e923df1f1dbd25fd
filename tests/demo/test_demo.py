"""The demo: its streams, what it promises, and that the promises hold."""

from __future__ import annotations

import statistics

import pytest
import torch

from benchmarks.demo import Capture, Serving, main, serve
from benchmarks.demo_models import BATCHES, LENGTHS, Request, build, stream
from benchmarks.side_by_side import first_call, medians


def requests(*shapes):
    return [Request(batch, length, 0) for batch, length in shapes]


def capture(index):
    return Capture(index, Request(2, 8, 0), "first call", 3, 0.1)


def test_a_stream_is_fixed_by_its_seed_and_skewed():
    first = stream(3, 200)
    assert first == stream(3, 200) and first != stream(4, 200)
    batches, lengths = [r.batch for r in first], [r.length for r in first]
    assert BATCHES[0] <= min(batches) and max(batches) <= BATCHES[1]
    assert LENGTHS[0] <= min(lengths) and max(lengths) <= LENGTHS[1]
    assert statistics.median(batches) < statistics.mean(batches)
    assert statistics.median(lengths) < statistics.mean(lengths)


def test_a_request_pads_all_but_its_longest_sequence():
    inputs = Request(3, 10, 7).inputs()
    assert inputs["input_ids"].shape == inputs["attention_mask"].shape == (3, 10)
    assert inputs["attention_mask"][0].all()
    assert set(Request(3, 10, 7).inputs(masked=False)) == {"input_ids"}


@pytest.mark.parametrize(
    ("shapes", "settled"),
    [
        ([(4, 8), (6, 9), (1, 5), (3, 3)], 2),
        ([(1, 8), (4, 9), (6, 10), (1, 7)], 3),  # the entry of the first batch of one is static
        ([(4, 8), (1, 8), (6, 8), (6, 9)], 4),  # the lengths had not varied when the batch of one came
        ([(4, 8), (4, 9)], 2),
    ],
)
def test_when_no_more_recompiles_are_due(shapes, settled):
    assert Serving("bert", 0, requests(*shapes)).settled == settled


def test_a_broken_promise_is_named():
    serving = Serving("bert", 0, requests((4, 8), (6, 9), (1, 5), (3, 3)), [capture(0), capture(3)], entries=2, breaks=1)
    broken = [what for what, held in serving.promises().items() if not held]
    assert broken == ["no graph break", "no recompile once settled"]


def test_timings_take_turns():
    calls = []
    times = medians({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=3)
    assert calls[2:] == ["a", "b", "b", "a", "a", "b"] and set(times) == {"a", "b"}
    assert first_call(lambda: None) < 0.1


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["bert", "llama"])
@pytest.mark.parametrize(
    ("masked", "seeds"), [(True, range(3)), (False, range(2)), pytest.param(True, range(3, 10), marks=pytest.mark.full)]
)
@torch.no_grad()
def test_promises_hold_over_seeds(name, masked, seeds, one_thread):
    model = build(name, layers=1)
    for seed in seeds:
        serving = serve(name, model, seed, stream(seed, 30), masked, lambda: None)
        broken = [what for what, held in serving.promises().items() if not held]
        assert not broken, (seed, broken, serving.warnings, serving.captures)
        assert serving.check_fn


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_the_whole_demo_over_ten_seeds():
    assert main(["--seeds", "10"]) == 0


def test_the_quick_demo_prints_its_tables(capsys):
    assert main(["--quick", "--requests", "25"]) == 0
    printed = capsys.readouterr().out
    for heading in ("Served", "bert: graphs", "llama: check_fn of the final entry", "ms per warm call", "s per trace"):
        assert heading in printed
    assert "Everything that is promised held." in printed
