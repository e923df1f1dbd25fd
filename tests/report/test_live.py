"""The page that follows a recording, over HTTP."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import tracer
from tests.report.programs import branching
from tracer.__main__ import main
from tracer.exc import UserError
from tracer.report import records
from tracer.report.live import LiveServer
from tracer.report.records import Reader


@contextlib.contextmanager
def serving(directory):
    with LiveServer(str(directory), port=0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, path="/", host=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    connection.request("GET", path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


@pytest.fixture
def recording(tmp_path):
    stop = tracer.record(tmp_path)
    yield tmp_path
    stop()


def test_the_page_shows_what_is_recorded_while_it_is_served(recording):
    with serving(recording) as server:
        first = ask(server)[1]
        assert "Nothing is recorded in" in first and f"TRACER_REPORT={recording}" in first
        before = ask(server, "/version")[1]
        tracer.compile(branching)(torch.randn(4, 32))
        after = ask(server, "/version")[1]
        assert after != before and ask(server, "/version")[1] == after
        second = ask(server)[1]
        assert "<h2>branching</h2>" in second and "connect-src 'self'" in second and f'data-version="{after}"' in second
        tracer.compile(torch.nn.Linear(32, 2))(torch.randn(4, 32))
        assert "<h2>Linear</h2>" in ask(server)[1]


def test_calls_that_hit_are_written_though_no_other_call_comes(recording, monkeypatch):
    monkeypatch.setattr("tracer.report.recorder.PERIOD", 0.01)
    made = tracer.compile(branching)
    for _ in range(3):
        made(torch.randn(4, 32))
    written = threading.Event()
    reader = Reader(recording)
    for _ in range(1000):
        (found,) = reader.read().processes.values()
        if {"requests", "latencies"} <= {record["kind"] for record in found}:
            break
        written.wait(0.01)
    else:
        pytest.fail("the hits were not written")


def test_other_paths_and_requests_of_other_sites_get_nothing(recording):
    with serving(recording) as server:
        assert ask(server, "/../records")[0] == 404
        assert ask(server, host="evil.example:80")[0] == 403
        assert ask(server, host=f"localhost:{server.server_address[1]}")[0] == 200


def test_half_a_line_that_is_being_written_is_read_when_it_is_whole(tmp_path):
    line = json.dumps({"v": records.VERSION, "t": 1.0, "kind": "process"}) + "\n"
    path = tmp_path / f"a{records.SUFFIX}"
    reader = Reader(tmp_path)
    path.write_text(line + line[:10])
    assert len(reader.read().processes["a"]) == 1
    with path.open("a") as file:
        file.write(line[10:] + line)
    recording = reader.read()
    assert len(recording.processes["a"]) == 3 and not recording.notes


def test_a_port_that_is_taken_is_an_error_that_names_it(tmp_path, capsys):
    with LiveServer(str(tmp_path), port=0) as server:
        port = server.server_address[1]
        with pytest.raises(UserError, match=f"127.0.0.1:{port}"):
            LiveServer(str(tmp_path), port=port)
        assert main(["report", str(tmp_path), "--live", "--port", str(port)]) == 3 and "--port" in capsys.readouterr().err


def heeds_interrupts():
    """A shell lets jobs in its background ignore them, and so their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.full
def test_from_the_command_line_until_it_is_interrupted(tmp_path):
    command = [sys.executable, "-m", "tracer", "report", str(tmp_path), "--live", "--port", "0"]
    place = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=place, preexec_fn=heeds_interrupts) as process:
        try:
            told = process.stdout.readline()
            assert told.startswith("http://127.0.0.1:") and str(tmp_path) in told
            port = int(told.split("/")[2].partition(":")[2])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", "/")
            assert connection.getresponse().status == 200
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()  # it would be waited for without an end
