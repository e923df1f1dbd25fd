"""Files of entries that are damaged, cut off, or not what they seem: a miss with the reason, and nothing half loaded."""

from __future__ import annotations

import hashlib
import json
import pickle
import random
import threading

import pytest
import torch

import tracer
from tests.support.regions import dynamic, entries
from tracer import _C, user_marks


@pytest.fixture(autouse=True)
def nothing_is_marked(monkeypatch):
    """A trace knows the marks there were; an entry that is loaded looks at them where there are any, and so is no wider."""
    monkeypatch.setattr(user_marks, "changes", _C.Counter())


def branching(x):
    return x * 2 if x.shape[0] <= 8 else x.sum(0)


def other(x):
    return x - 1


CALLS = [torch.randn(n, 4) for n in (3, 9, 30)]


@pytest.fixture
def file(tmp_path):
    made = dynamic(branching)
    for x in CALLS:
        made(x)
    assert made.save(tmp_path / "entries").saved == 2
    return tmp_path / "entries"


def parts(data):
    """The magic line, the header, and the entries."""
    magic, line, rest = data.split(b"\n", 2)
    return magic, json.loads(line), rest


def joined(magic, header, rest):
    return magic + b"\n" + json.dumps(header).encode() + b"\n" + rest


def serves(made):
    """Whatever was loaded, calls get what eager gives."""
    return all(torch.equal(made(x), branching(x)) for x in CALLS)


def test_a_file_that_is_cut_off_anywhere_is_a_miss_with_the_reason(file):
    data = file.read_bytes()
    draw = random.Random(0)
    for end in [0, 1, 20, data.index(b"{") + 1, len(data) - 1, *(draw.randrange(len(data)) for _ in range(15))]:
        file.write_bytes(data[:end])
        made = dynamic(branching)
        loaded = made.load(file)
        assert not loaded and "damaged" in str(loaded) and loaded.loaded == len(entries(made)) < 2
    assert serves(made)


def test_entries_that_are_whole_are_loaded_though_another_is_damaged(file):
    magic, header, rest = parts(file.read_bytes())
    size = header["entries"][0]["bytes"]
    file.write_bytes(joined(magic, header, rest[:10] + b"!" + rest[11:size] + rest[size:]))
    made = dynamic(branching)
    loaded = made.load(file)
    assert (loaded.loaded, len(loaded.refused)) == (1, 1) and "damaged" in loaded.refused[0] and serves(made)
    assert made.stats()["compiles"] == 1


HEADS = [
    lambda head: [],
    lambda head: {},
    lambda head: "text",
    lambda head: {"format": 1},
    lambda head: {"format": [2]},
    lambda head: {"format": 99, "what": "ever"},
    lambda head: {**head, "entries": 3},
    lambda head: {**head, "entries": [3]},
    lambda head: {**head, "entries": [{"bytes": -5, "sha256": ""}]},
    lambda head: {**head, "entries": [{"bytes": "many", "sha256": ""}]},
    lambda head: {**head, "versions": None},
    lambda head: {**head, "settings": []},
    lambda head: {key: value for key, value in head.items() if key != "code"},
    lambda head: {**head, "code": {"a": 1}},
    lambda head: {**head, "versions": {**head["versions"], "torch": "1.0"}},
    lambda head: {**head, "versions": {}},
    lambda head: {**head, "backend": None},
]


@pytest.mark.parametrize("change", HEADS)
def test_a_head_that_is_not_as_it_is_written_is_a_miss_with_the_reason(file, change):
    magic, header, rest = parts(file.read_bytes())
    file.write_bytes(joined(magic, change(header), rest))
    made = dynamic(branching)
    loaded = made.load(file)
    assert not loaded and loaded.refused and not entries(made)
    assert serves(made)


class Bad:
    """Data whose loading fails."""

    def __reduce__(self):
        return int, ("no number",)


@pytest.mark.parametrize("content", [b"", b"text", pickle.dumps(3), pickle.dumps({"guards": ()}), pickle.dumps(Bad())])
def test_an_entry_that_is_something_else_is_a_miss_beside_those_that_are_whole(file, content):
    magic, header, rest = parts(file.read_bytes())
    size = header["entries"][0]["bytes"]
    header["entries"][0] |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    file.write_bytes(joined(magic, header, content + rest[size:]))
    made = dynamic(branching)
    loaded = made.load(file)
    assert (loaded.loaded, len(loaded.refused)) == (1, 1) and "cannot be read" in loaded.refused[0] and serves(made)


def test_entries_of_another_function_are_a_miss(file):
    made = dynamic(other)
    loaded = made.load(file)
    assert not loaded and "has other code than branching" in str(loaded) and not entries(made)


# -- beside what is there -------------------------------------------------------------------------------------------------


def test_what_is_loaded_twice_is_there_once(file):
    made = dynamic(branching)
    assert made.load(file).loaded == 2
    again = made.load(file)
    assert again and (again.loaded, again.known, len(entries(made))) == (0, 2, 2) and "2 were there" in str(again)
    assert serves(made) and made.stats()["compiles"] == 0


def test_what_was_traced_here_is_not_loaded_again_and_the_rest_is(file):
    made = dynamic(branching)
    made(CALLS[0])
    loaded = made.load(file)
    assert (loaded.loaded, loaded.known) == (1, 1) and serves(made) and made.stats()["compiles"] == 1


def test_a_loaded_entry_retires_the_narrower_one_that_is_there(tmp_path):
    def program(x):
        return x * 2

    wide, narrow = tracer.compile(program, dynamic=True), tracer.compile(program, dynamic=False)
    wide(CALLS[0])
    wide.save(tmp_path / "entries")
    narrow(CALLS[0])
    assert narrow.load(tmp_path / "entries").loaded == 1
    assert len(entries(narrow)) == 1 and narrow.stats()["evictions"] == 1
    assert torch.equal(narrow(CALLS[1]), CALLS[1] * 2) and narrow.stats()["compiles"] == 1


def test_a_loaded_entry_is_retired_by_a_wider_one_that_is_traced(tmp_path):
    def program(x):
        return x * 2

    narrow, wide = tracer.compile(program, dynamic=False), tracer.compile(program)
    narrow(CALLS[0])
    narrow.save(tmp_path / "entries")
    assert wide.load(tmp_path / "entries").loaded == 1
    for x in CALLS[1:]:
        wide(x)
    assert len(entries(wide)) == 1 and all(torch.equal(wide(x), x * 2) for x in CALLS) and len(entries(wide)) == 1


def either(x):
    if x.shape[0] > 8:
        return x * 2
    return x * 2


@pytest.mark.parametrize("both", [True, False], ids=["both loaded", "one traced"])
def test_loaded_entries_are_merged_and_tell_what_they_give(tmp_path, both):
    spec = "x: B, _; B in 2..64"
    first = tracer.compile(either, shapes=spec)
    for x in CALLS[:2] if both else CALLS[:1]:
        first(x)
    assert first.save(tmp_path / "entries").saved == len(entries(first))
    made = tracer.compile(either, shapes=spec)
    assert made.load(tmp_path / "entries")
    if not both:
        made(CALLS[1])
    assert len(entries(made)) == 2 and made.compact() == 1
    assert all(torch.equal(made(x), either(x)) for x in CALLS)
    found = tracer.coverage(made, example=CALLS[0])
    assert found.certified and [list(map(str, sizes)) for sizes in found.covering[0].outputs] == [["B", "4"]]
    assert made.save(tmp_path / "again").saved == 1
    third = tracer.compile(either, shapes=spec)
    assert third.load(tmp_path / "again") and tracer.coverage(third, example=CALLS[0]).certified


def test_entries_traced_for_one_size_each_stay_apart_when_loaded(tmp_path):
    def program(x):
        return x * 2

    first = tracer.compile(program, dynamic=False)
    for x in CALLS[:2]:
        first(x)
    first.save(tmp_path / "entries")
    made = tracer.compile(program, dynamic=False)
    assert made.load(tmp_path / "entries").loaded == 2 and made.compact() == 0


def test_a_capacity_holds_for_what_is_loaded(file):
    made = dynamic(branching, capacity=1)
    made.load(file)
    assert len(entries(made)) == 1 and serves(made)


def test_modules_and_methods_are_saved_by_a_method_too(tmp_path):
    model = tracer.compile(torch.nn.Linear(4, 4))
    model(CALLS[0])
    assert model.save(tmp_path / "entries").saved == 1
    again = tracer.compile(torch.nn.Linear(4, 4))
    assert again.load(tmp_path / "entries").loaded == 1 and tracer.stats(again)["compiles"] == 0


def test_threads_that_save_to_one_path_leave_a_whole_file(file):
    made = dynamic(branching)
    made.load(file)
    errors = []

    def save():
        try:
            for _ in range(5):
                made.save(file)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=save) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and dynamic(branching).load(file).loaded == 2
