"""Files that are written whole, under names that nobody can guess, by everything in the project that writes some."""

from __future__ import annotations

import os
import stat
import tempfile

import pytest
import torch

import tracer
from tests.report.programs import recorded
from tracer.report.page import write
from tracer.whole_files import write_whole


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode(path):
    return oct(stat.S_IMODE(path.stat().st_mode))


def test_a_new_file_has_the_mode_of_any_other_and_one_that_is_replaced_keeps_its_own(tmp_path, umask):
    path = tmp_path / "file"
    write_whole(path, b"one")
    assert path.read_bytes() == b"one" and mode(path) == "0o640"
    path.chmod(0o604)
    write_whole(path, b"two")
    assert path.read_bytes() == b"two" and mode(path) == "0o604" and os.listdir(tmp_path) == ["file"]


def test_until_it_is_whole_only_the_owner_may_read_it_under_another_name_each_time(tmp_path, monkeypatch):
    seen = []
    replace = os.replace

    def watched(source, target):
        seen.append((os.path.basename(source), oct(stat.S_IMODE(os.stat(source).st_mode)), os.path.dirname(source)))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    for _ in range(2):
        write_whole(tmp_path / "file", b"data")
    (one, first, place), (other, second, _) = seen
    assert one != other and first == second == "0o600" and place == str(tmp_path)
    assert str(os.getpid()) not in one and one.startswith(".file.")


def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"before")

    def failing(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(tracer.exc.UserError, match="file cannot be written: No space left on device"):
        write_whole(path, b"after")
    assert path.read_bytes() == b"before" and os.listdir(tmp_path) == ["file"]


def test_a_link_stays_one_and_a_pipe_is_written_to(tmp_path):
    (tmp_path / "real").write_bytes(b"")
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", b"data")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"data"
    write_whole("/dev/null", b"data")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def double(x):
    return x * 2


@pytest.mark.parametrize("path", ["no/such/folder/file", ".", "nu\0ll"])
def test_a_bad_path_is_an_error_of_ours_with_the_path(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compiled = tracer.compile(double, shapes="x: B; B in 1..8")
    tracer.precompile(compiled, example=torch.ones(3))
    stop = tracer.record(tmp_path / "records")
    tracer.compile(double)(torch.ones(2))
    stop()
    writers = [
        lambda: tracer.save(compiled, path),
        lambda: tracer.contract(compiled).save(path),
        lambda: write(tmp_path / "records", path),
        lambda: tracer.load(compiled, path),
        lambda: tracer.Contract.read(path),
    ]
    for writer in writers:
        with pytest.raises(tracer.exc.UserError) as told:
            writer()
        assert path in str(told.value), told.value


def test_everything_that_writes_files_writes_them_so(tmp_path, monkeypatch):
    made = []
    mkstemp = tempfile.mkstemp
    monkeypatch.setattr(tempfile, "mkstemp", lambda **more: made.append(more["prefix"]) or mkstemp(**more))
    compiled = tracer.compile(double, shapes="x: B; B in 1..8")
    tracer.precompile(compiled, example=torch.ones(3))
    tracer.save(compiled, tmp_path / "entries")
    tracer.contract(compiled).save(tmp_path / "contract.json")
    recorded(tmp_path / "records", lambda: tracer.compile(double)(torch.ones(2)))
    write(tmp_path / "records", tmp_path / "page.html")
    assert made == [".entries.", ".contract.json.", ".page.html."]
