"""Signed files, and what can be read of a file without running anything of it."""

from __future__ import annotations

import json

import pytest
import torch

import tracer
from tests.saving.test_files import joined, parts
from tests.support.regions import dynamic, entries
from tracer import __main__ as command_line
from tracer.exc import UserError


def program(x):
    return x * 2


def breaks(x):
    y = x * 2
    print(end="")
    z = y + 1
    print(end="")
    return z * y


@pytest.fixture
def made():
    found = dynamic(program)
    found(torch.ones(3))
    return found


def test_a_signed_file_is_loaded_with_its_key_alone(made, tmp_path):
    made.save(tmp_path / "entries", key=b"secret")
    assert tracer.load(dynamic(program), tmp_path / "entries", key="secret").loaded == 1
    for key, reason in ((b"other", "signed with another key"), (None, "is signed: pass the key=")):
        loaded = tracer.load(dynamic(program), tmp_path / "entries", key=key)
        assert loaded.loaded == 0 and reason in str(loaded)


def test_a_file_that_is_not_signed_is_refused_where_a_key_is_given(made, tmp_path):
    made.save(tmp_path / "entries")
    loaded = tracer.load(dynamic(program), tmp_path / "entries", key=b"secret")
    assert loaded.loaded == 0 and "is not signed" in str(loaded)


def test_a_signed_head_that_was_changed_is_refused(made, tmp_path):
    path = tmp_path / "entries"
    made.save(path, key=b"secret")
    magic, header, rest = parts(path.read_bytes())
    for change in ({"variants": ""}, {"signature": "0"}, {"signature": 3}, {"entries": []}):
        path.write_bytes(joined(magic, header | change, rest))
        target = dynamic(program)
        loaded = target.load(path, key=b"secret")
        assert not loaded and "another key, or was changed" in str(loaded) and not entries(target)


def test_an_empty_key_is_an_error(made, tmp_path):
    with pytest.raises(UserError, match="key= is empty"):
        made.save(tmp_path / "entries", key=b"")


def test_inspect_shows_the_head_and_what_is_damaged(made, tmp_path, capsys):
    path = tmp_path / "entries"
    made.save(path)
    assert command_line.main(["inspect", str(path)]) == 0
    told = capsys.readouterr().out
    assert "backend: eager" in told and "entries: 1" in told and "signed: no" in told and "DAMAGED" not in told
    path.write_bytes(path.read_bytes()[:-3])
    assert command_line.main(["inspect", str(path)]) == 0 and "DAMAGED" in capsys.readouterr().out
    for content in (b"text", b"shapetracer entries\n[]", b"shapetracer entries\n" + json.dumps({"format": 1}).encode()):
        path.write_bytes(content)
        assert command_line.main(["inspect", str(path)]) == 3 and "no file of entries" in capsys.readouterr().err


def test_a_graph_that_breaks_is_saved_with_its_resume_functions(tmp_path):
    first = tracer.compile(breaks)
    for n in (3, 4, 5):
        first(torch.ones(n))
    result = first.save(tmp_path / "entries")
    again = tracer.compile(breaks)
    assert result.saved >= 3 and not result.refused and again.load(tmp_path / "entries").loaded == result.saved
    for n in (3, 4, 5, 9):
        x = torch.randn(n)
        assert torch.equal(again(x), breaks(x))
    assert again.stats()["compiles"] == 0
    assert torch.equal(again(x.double()), breaks(x.double())) and again.stats()["compiles"] == 3


def test_what_is_behind_a_break_is_refused_where_the_break_is_damaged(tmp_path):
    path = tmp_path / "entries"
    first = tracer.compile(breaks)
    first(torch.ones(3))
    saved = first.save(path).saved
    magic, header, rest = parts(path.read_bytes())
    path.write_bytes(joined(magic, header, b"!" + rest[1:]))
    again = tracer.compile(breaks)
    loaded = again.load(path)
    assert loaded.loaded == 0 and len(loaded.refused) == saved and "behind a break" in str(loaded)
    assert torch.equal(again(torch.ones(3)), breaks(torch.ones(3)))
