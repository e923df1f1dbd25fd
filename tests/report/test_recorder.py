"""Recording: what is written, by which process, that nothing is when it is off, and that it never fails a call."""

from __future__ import annotations

import functools
import json
import logging
import os
import sys

import pytest
import torch
from torch.overrides import TorchFunctionMode

import tracer
from tests.report.programs import branching, breaking, recorded, run
from tracer import metrics
from tracer.exc import UserError
from tracer.report import records
from tracer.report.findings import gather
from tracer.report.recorder import Recorder
from tracer.report.shape_space import picture


def lines_of(recording, kind):
    (found,) = recording.processes.values()
    return [record for record in found if record["kind"] == kind]


def test_a_compile_is_recorded_with_graph_guards_lines_and_times(tmp_path):
    recording = recorded(tmp_path, lambda: tracer.compile(branching)(torch.randn(4, 32)))
    (facts,) = lines_of(recording, "process")
    assert facts["pid"] == os.getpid() and facts["torch"] == torch.__version__ and facts["v"] == records.VERSION
    (record,) = lines_of(recording, "compile")
    code = branching.__code__
    assert record["frame"] == {"name": "branching", "file": code.co_filename, "line": code.co_firstlineno}
    assert record["seconds"] > 0 and 0 <= record["graph"]["backend_seconds"] < record["seconds"]
    assert record["graph"]["operations"] == 4 and "code: y = x * 2" in record["graph"]["code"]
    (guard,) = [guard for guard in record["guards"] if guard["kind"] == "TENSOR_MATCH"]
    assert "size=[4, 32]" in guard["text"] and guard["where"]["code"] == "y = x * 2" and guard["where"]["function"] == "branching"
    assert record["region_of_shapes"]["fixed"] == {"L['x'].size()[0]": 4, "L['x'].size()[1]": 32}
    assert record["sizes"] == {"L['x'].size()[0]": 4, "L['x'].size()[1]": 32} and record["root"] and not record["broken"]


def test_a_recompile_says_which_guard_failed_for_what(tmp_path):
    def calls():
        made = tracer.compile(branching)
        made(torch.randn(4, 32))
        made(torch.randn(5, 32))

    recording = recorded(tmp_path, calls)
    (recompile,) = lines_of(recording, "recompile")
    (failure,) = recompile["failures"]
    assert failure["text"] == "tensor 'L['x']' size mismatch at index 0. expected 4, actual 5" and failure["where"]["line"]
    assert len(lines_of(recording, "miss")) == len(lines_of(recording, "compile")) == 2
    second = lines_of(recording, "compile")[1]["region_of_shapes"]
    assert {"template": "2 <= {0} <= 8", "labels": ["L['x'].size()[0]"]} in second["lines"]


def test_a_break_has_its_reason_hint_and_stack(tmp_path, capsys):
    recording = recorded(tmp_path, lambda: tracer.compile(breaking)(torch.randn(3)))
    (record,) = lines_of(recording, "break")
    assert record["frame"]["name"] == "breaking" and record["reason"]["id"] == "side-effect-call" and record["reason"]["hint"]
    assert [place["function"] for place in record["reason"]["stack"]] == ["breaking", "shouting"]
    assert record["reason"]["stack"][1]["code"].startswith("print(")
    assert [entry["broken"] for entry in lines_of(recording, "compile")][0]


def test_a_frame_that_is_left_to_cpython_is_recorded(tmp_path):
    def looking(x):
        return sys._getframe().f_locals["x"]

    (record,) = lines_of(recorded(tmp_path, lambda: tracer.compile(looking)(torch.randn(3))), "skip")
    assert record["reason"]["id"] == "frame-introspection" and record["frame"]["name"].endswith("looking")


def test_a_recompile_limit_that_is_reached_is_recorded(tmp_path):
    def calls():
        made = tracer.compile(branching, recompile_limit=1)
        with pytest.warns(UserWarning, match="recompile_limit"):
            for n in (4, 5, 6):
                made(torch.randn(n, 3))

    recording = recorded(tmp_path, calls)
    (limit,) = lines_of(recording, "limit")
    assert "recompile_limit (1) reached for branching" in limit["detail"] and len(lines_of(recording, "miss")) == 3


def test_calls_that_hit_are_counted_by_their_sizes(tmp_path):
    def calls():
        made = tracer.compile(branching, dynamic=True)
        for n in (2, 3, 3, 3, 5):
            made(torch.randn(n, 7))
        tracer.coverage(made, "x: B, S; B in 1..9; S in 1..9", (torch.randn(3, 7),))  # asks check functions, calls nothing

    points = [point for record in lines_of(recorded(tmp_path, calls), "requests") for point in record["points"]]
    counts = {}
    for point in points:
        size = point["sizes"]["L['x'].size()[0]"]
        counts[size] = counts.get(size, 0) + point["count"]
    assert counts == {3: 3, 5: 1}  # the first was traced


def test_a_hit_and_a_miss_name_an_argument_behind_a_wrapper_alike_by_its_parameter(tmp_path):
    def calls():
        @functools.wraps(branching)
        def passing(*args, **kwargs):
            return branching(*args, **kwargs)

        made = tracer.compile(passing, dynamic=True)
        made(torch.randn(3, 7))
        made(torch.randn(4, 7))
        made(x=torch.randn(5, 7))

    recording = recorded(tmp_path, calls)
    named = {name for record in lines_of(recording, "miss") for name in record["sizes"]}
    points = [point for record in lines_of(recording, "requests") for point in record["points"] if record["entry"]]
    assert points and {name for point in points for name in point["sizes"]} == named == {
        "L['x'].size()[0]",
        "L['x'].size()[1]",
    }


def test_many_misses_are_counted_and_not_told_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr("tracer.report.recorder.MOST_MISSES", 3)

    def calls():
        made = tracer.compile(branching, recompile_limit=1)
        with pytest.warns(UserWarning, match="recompile_limit"):
            for n in range(2, 30):
                made(torch.randn(n, 3))

    recording = recorded(tmp_path, calls)
    assert len(lines_of(recording, "miss")) == 3 and len(lines_of(recording, "limit")) == 1
    points = [point for record in lines_of(recording, "requests") for point in record["points"] if not record["entry"]]
    assert sum(point["count"] for point in points) == 25 and gather(recording).functions[0].missed == 28


def test_entries_that_were_merged_are_told_and_what_they_serve_is_counted(tmp_path):
    def pointless(x):
        if x.shape[0] <= 8:
            pass
        return x * 2

    def calls():
        made = tracer.compile(pointless, shapes="x: B; B in 1..64")
        for size in (3, 9):
            made(torch.ones(size))
        assert made.compact() == 1
        for size in (4, 5, 20):
            made(torch.ones(size))

    (function,) = gather(recorded(tmp_path, calls)).functions
    one, other, made = function.entries
    assert "it was merged" in one.evicted["detail"] and "it was merged" in other.evicted["detail"]
    assert made.record["kind"] == "merge" and made.served.total() == 3 and function.served == 3
    (space,) = picture(function)["spaces"]
    assert [entry["number"] for entry in space["entries"]] == [3]


def test_entries_that_were_evicted_are_told(tmp_path):
    def halves(x):
        return x + 1

    def calls():
        made = tracer.compile(halves, capacity=1)
        made(torch.randn(3, 4))
        made(torch.randn(5, 6, 7))

    (function,) = gather(recorded(tmp_path, calls)).functions
    first, second = function.entries
    assert "the capacity is used up" in first.evicted["detail"] and second.evicted is None


def test_sizes_in_containers_and_ints_are_noted(tmp_path):
    def total(batch, n):
        return batch["a"][0].sum() * n + batch["b"]

    recording = recorded(tmp_path, lambda: tracer.compile(total)({"a": [torch.ones(2, 3)], "b": torch.ones(4)}, 5))
    (record,) = lines_of(recording, "miss")
    sizes = {"L['batch']['a'][0].size()[0]": 2, "L['batch']['a'][0].size()[1]": 3, "L['batch']['b'].size()[0]": 4, "L['n']": 5}
    assert record["sizes"] == sizes


def test_recording_calls_no_override_of_the_program(tmp_path):
    seen = []

    class Watching(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    def calls():
        made = tracer.compile(lambda x: x + 1)
        x = torch.randn(3)
        with Watching():
            made(x)
            first = list(seen)
            del seen[:]
            made(x)
        assert [str(func) for func in seen] == [str(func) for func in first]

    recorded(tmp_path, calls)


def test_off_there_is_nobody_who_listens_or_looks_at_calls(tmp_path):
    made = tracer.compile(branching)
    before = len(metrics.listeners)
    recorded(tmp_path, lambda: made(torch.randn(3, 4)))
    assert metrics.watch is None and len(metrics.listeners) == before
    made(torch.randn(5, 6, dtype=torch.float64))
    plain, watched = tracer.region_of(made).entries()
    assert plain.check_fn is plain.guarded_code.manager.check_fn
    assert watched.check_fn is not watched.guarded_code.manager.check_fn
    assert torch.equal(made(torch.ones(3, 4)), branching(torch.ones(3, 4)))  # by the entry that was watched
    assert len(list(tmp_path.iterdir())) == 1


def test_a_directory_that_cannot_be_written_is_one_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    made = tracer.compile(branching)
    stop = tracer.record(tmp_path / "file")
    with caplog.at_level(logging.WARNING, "tracer"):
        for n in (3, 4, 5):
            x = torch.randn(n, 4)
            assert torch.equal(made(x), branching(x))
    stop()
    (warning,) = [record for record in caplog.records if "recording" in record.message]
    assert "FileExistsError" in warning.message or "NotADirectoryError" in warning.message
    assert metrics.watch is None


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_ends_the_recording_and_nothing_else(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(Recorder, "_open", lambda self: os.open("/dev/full", os.O_WRONLY))
    made = tracer.compile(branching)
    with caplog.at_level(logging.WARNING, "tracer"):
        stop = tracer.record(tmp_path)
        x = torch.randn(3, 4)
        assert torch.equal(made(x), branching(x)) and torch.equal(made(x), branching(x))
        stop()
    assert [record.message.count("No space left on device") for record in caplog.records] == [1]


def test_an_error_of_the_recorder_itself_goes_no_further(tmp_path, caplog, monkeypatch):
    def failing(event, number):
        raise ValueError("a bug")

    monkeypatch.setattr("tracer.report.contents.record_of", failing)
    stop = tracer.record(tmp_path)
    x = torch.randn(3, 4)
    assert torch.equal(tracer.compile(branching)(x), branching(x))
    stop()
    assert "ValueError: a bug" in caplog.text


PROGRAM = """
import os, torch, tracer
def double(x): return x * 2
made = tracer.compile(double, dynamic=True)
made(torch.randn(3))
made(torch.randn(4))
"""
FORKING = (
    PROGRAM
    + """
child = os.fork()
made(torch.randn(5))
if child == 0:
    made(torch.randn(6, 2))
    tracer.record("/dev/null/nowhere")()  # ends the child's recording as the end of a program does
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
)


def test_processes_share_a_directory_and_each_has_its_file(tmp_path):
    for _ in range(2):
        run(PROGRAM, tmp_path)
    recording = records.read(tmp_path)
    assert len(recording.processes) == 2 and not recording.notes
    for found in recording.processes.values():
        assert [record["kind"] for record in found] == ["process", "miss", "compile", "requests", "latencies"]


@pytest.mark.filterwarnings("ignore")
def test_a_forked_child_writes_a_file_of_its_own_and_names_its_parent(tmp_path):
    run(FORKING, tmp_path)
    recording = records.read(tmp_path)
    facts = {name: found[0] for name, found in recording.processes.items()}
    (child,) = [name for name, each in facts.items() if each["parent"]]
    assert facts[child]["parent"] in facts and facts[child]["pid"] != facts[facts[child]["parent"]]["pid"]
    kinds = [record["kind"] for record in recording.processes[child]]
    assert kinds.count("compile") == 1 and kinds.count("requests") == 1


def test_a_process_that_compiles_nothing_leaves_no_file(tmp_path):
    run("import tracer", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_half_a_line_and_another_version_are_left_out_and_told(tmp_path):
    whole = {"v": records.VERSION, "t": 1.0, "kind": "process"}
    text = json.dumps(whole) + "\n" + json.dumps({**whole, "v": 99}) + "\n[1]\n" + json.dumps(whole)[:20]
    (tmp_path / f"a{records.SUFFIX}").write_text(text)
    recording = records.read(tmp_path)
    assert recording.processes == {"a": [whole]}
    assert [note.split(": ")[1].split(" of")[0] for note in recording.notes] == ["2", "1"]


def test_a_directory_without_records_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(UserError, match="TRACER_REPORT"):
        records.read(tmp_path)
