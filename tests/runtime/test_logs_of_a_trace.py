"""What each log artifact says of one real program: a size that varies, a branch on it, a break, an inlined callee."""

from __future__ import annotations

import heapq
import pathlib
import random
import tempfile
import warnings

import pytest
import torch

import tracer
from tracer import logs
from tracer.saving import cache_folder


def callee(x):
    return x.relu()


def program(x, items):
    if x.shape[0] * 2 > 6:
        x = callee(x)
    items.append(1)
    print(end="")
    return x + len(items)


def recorded(*artifacts: str) -> list[logs.Record]:
    compiled = tracer.optimize()(program)
    with logs.capture(*artifacts) as records:
        for size in (4, 5, 2):
            compiled(torch.randn(size), [])
        for equal_module in (torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)):
            tracer.compile(equal_module)(torch.randn(2, 3))
        with tracer.config.patch(replay=True):
            tracer.compile(torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(3))))(torch.randn(2, 3))
        tracer.compile(callee, backend="aot_eager", repeated="outline")(torch.randn(2))
        with tempfile.TemporaryDirectory() as folder, tracer.config.patch(cache_dir=folder):
            tracer.compile(callee)(torch.randn(2))
            cache_folder.flush()
            for path in filter(pathlib.Path.is_file, pathlib.Path(folder).rglob("*")):
                path.write_bytes(b"damaged")
            tracer.compile(callee)(torch.randn(2))
            cache_folder.flush()
    return records


def test_every_artifact_speaks_and_is_made_for_those_who_listen_only():
    spoken = {record.artifact for record in recorded()}
    assert spoken >= set(logs.ARTIFACTS)
    assert {record.artifact for record in recorded("graph_code", "guards")} == {"graph_code", "guards"}


def test_the_order_in_which_a_frame_is_told_of():
    order = [record.artifact for record in recorded() if record.artifact != "trace"]
    first = order[: order.index("guards") + 1]
    assert first[0] == "graph_breaks"
    assert first.index("graph") < first.index("graph_code") < first.index("bytecode") < first.index("guards")


def test_instructions_of_an_inlined_callee_are_indented():
    lines = [record.text for record in recorded("trace")]
    assert any(line.startswith(("  TRACE LOAD_METHOD relu", "  TRACE LOAD_ATTR relu")) for line in lines)
    assert any(line.startswith("TRACE ") for line in lines)


def test_operations_are_shown_at_the_line_that_made_them():
    text = next(record.text for record in recorded("graph_code"))
    assert f"{__file__}:{callee.__code__.co_firstlineno + 1}, code: return x.relu()" in text


def test_a_recompile_names_the_size_then_the_branch():
    told = [record.text for record in recorded("recompiles") if " program in " in record.text]
    assert "size mismatch at index 0. expected 4, actual 5" in told[0]
    assert "L['x'].size()[0]" in told[1] and f"test_logs_of_a_trace.py:{program.__code__.co_firstlineno + 1}" in told[1]


def test_symbols_and_decisions():
    text = next(record.text for record in recorded("dynamic"))
    assert "create_symbol s0 = 5" in text and "for L['x'].size()[0]" in text
    assert "[guard added] at " in text and "in program" in text


TOTAL = 0


class Counts:
    def __init__(self):
        self.calls, self.last = 0, None


def with_effects(x, items, counts, queue):
    global TOTAL
    items.append(1)
    TOTAL += 1
    counts.calls += 1
    del counts.last
    heapq.heappush(queue, 2)
    warnings.warn("told")
    made = [x]
    made.append(x)
    items.append(2)
    return x * random.random()


def test_side_effects_are_told_at_the_lines_that_have_them():
    compiled = tracer.optimize()(with_effects)
    with logs.capture("side_effects") as records, pytest.warns(UserWarning):
        compiled(torch.randn(3), [], Counts(), [])
    lines = records[0].text.splitlines()
    assert lines[0].startswith("SIDE EFFECTS: with_effects test_logs_of_a_trace.py:")
    told, effect = {}, ""
    for line in lines[1:]:
        if line.startswith(" - "):
            effect = line.removeprefix(" - ")
        else:
            told.setdefault(effect, []).append(line.partition(f" in {with_effects.__name__}: ")[2])
    assert told == {
        "draw: Random.random": ["return x * random.random()"],
        "call: warn": ['warnings.warn("told")'],
        "change of list L['items']": ["items.append(1)", "items.append(2)"],
        "store attribute L['counts'].calls": ["counts.calls += 1"],
        "delete attribute L['counts'].last": ["del counts.last"],
        "change of list L['queue']": ["heapq.heappush(queue, 2)"],
        "store global TOTAL": ["TOTAL += 1"],
    }


def test_a_frame_without_side_effects_is_not_told_of():
    with logs.capture("side_effects") as records:
        tracer.optimize()(callee)(torch.randn(3))
    assert not records


def test_a_break_is_told_once_with_its_place():
    told = [record.text for record in recorded("graph_breaks")]
    line = program.__code__.co_firstlineno + 4
    assert told and all(f"Graph break in user code at {__file__}:{line}" in text for text in told)


def test_listening_changes_no_result():
    plain, heard = tracer.optimize()(program), tracer.optimize()(program)
    x = torch.randn(4)
    with logs.capture():
        seen = heard(x, [])
    assert torch.equal(plain(x, []), seen)
