"""Buffers made inside: io.StringIO, io.BytesIO, bytearray."""

from __future__ import annotations

import contextlib
import io
import sys
import types

import pytest
import torch

import tracer
from tests.support import breaks, captured, check

X = torch.arange(3.0)


def _written(x):
    s = io.StringIO()
    s.write("ab")
    print("sizes", x.shape[0], 2.5, file=s, sep="-", end="!")
    return x * len(s.getvalue()), s.getvalue()


def _read_by_lines(x):
    buffer = io.StringIO("1.0\n2.0\n")
    return x * sum(float(line) for line in buffer), buffer.read()


def _in_a_block(x):
    with io.StringIO("abc") as s:
        s.seek(1)
        read = s.read(1)
    return x + 1, read, s.closed


def _bytes(x):
    b = io.BytesIO()
    b.write(b"abc")
    b.seek(0)
    return x + 1, b.read(2), b.tell()


def _array_of_bytes(x):
    b = bytearray(b"abc")
    b[0] = 5
    b.append(7)
    b += b"z"
    copy = b[1:]
    del b[1]
    return x * sum(b), b, copy, len(b), b == b"q", b == copy, bytes(b), 7 in b, repr(b), b.hex(), bool(bytearray())


def _errors(x):
    s, seen = io.StringIO(), []
    s.close()
    for call in (lambda: s.write("a"), lambda: io.StringIO(3), lambda: bytearray(b"a")[4], lambda: io.BytesIO().write("a")):
        try:
            call()
        except (ValueError, TypeError, IndexError) as error:
            seen.append((type(error), str(error)))
    return x + 1, seen


def _kinds(x):
    s = io.StringIO()
    return x + 1, isinstance(s, io.IOBase), type(s), callable(s.write), hasattr(bytearray(), "append"), s.readable(), s.newlines


@pytest.mark.parametrize("program", [_written, _read_by_lines, _in_a_block, _bytes, _array_of_bytes, _errors, _kinds])
def test_a_buffer_made_inside_does_what_cpythons_does(program):
    captured(program, X)


def test_a_buffer_that_leaves_the_frame_is_as_the_program_left_it():
    def f(x):
        s, b, closed = io.StringIO("a\nb\n"), io.BytesIO(b"12"), io.StringIO()
        s.readline()
        b.write(b"x")
        closed.close()
        return x + 1, {"s": s, "again": s}, b, closed

    for _ in range(2):
        _, streams, b, closed = tracer.compile(f, fullgraph=True)(X)
        assert streams["s"] is streams["again"] and type(streams["s"]) is io.StringIO
        assert (streams["s"].read(), b.read(), b.getvalue(), closed.closed) == ("b\n", b"2", b"x2", True)


def test_a_buffer_lives_on_behind_a_graph_break():
    def f(x):
        s = io.StringIO()
        s.write("abc")
        tracer.graph_break()
        s.write("d")
        return x + 1, s.getvalue()

    check(f, X)


def test_print_to_the_screen_breaks_the_graph(capsys):
    breaks(lambda x: (print("seen"), x + 1)[1], X)
    assert capsys.readouterr().out.count("seen") == 4


# -- streams of the process that the program replaces ------------------------------------------------------------------


def _stdout_in_a_block(x):
    def told(x):
        print("told", list(x.shape))
        return x + 1

    with contextlib.redirect_stdout(io.StringIO()) as buffer:
        y = told(x)
    return y, buffer.getvalue()


def _stderr_in_a_block(x):
    buffer = io.StringIO()
    with contextlib.redirect_stderr(buffer):
        sys.stderr.write("written")
        print("printed", file=sys.stderr)
        y = x * 2
    return y, buffer.getvalue()


def _stdout_nowhere(x):
    with contextlib.redirect_stdout(None):
        print("told")
        return x * 2


def _stdout_swapped_by_hand(x):
    before, sys.stdout = sys.stdout, io.StringIO()
    try:
        print("inside")
        return x + 1, sys.stdout.getvalue()
    finally:
        sys.stdout = before


@pytest.mark.parametrize("program", [_stdout_in_a_block, _stderr_in_a_block, _stdout_nowhere, _stdout_swapped_by_hand])
def test_what_is_printed_where_a_stream_is_redirected_is_known(program):
    streams = sys.stdout, sys.stderr
    captured(program, X)
    assert (sys.stdout, sys.stderr) == streams


def test_a_graph_break_where_stdout_is_redirected_finds_it_redirected():
    def fn(x):
        with contextlib.redirect_stdout(io.StringIO()) as buffer:
            print("before")
            y = x * 2
            print("sum", float(y.sum()))
        return y + 1, buffer.getvalue()

    breaks(fn, X)


def test_a_stream_with_a_finalizer_that_a_global_drops_is_finalised_in_time():
    class Noisy(io.StringIO):
        def __del__(self):
            ended.append(len(ended))

    ended = []

    def fn(x):
        holder.stream = None
        return x + len(ended)

    holder = types.ModuleType("holder")
    compiled = tracer.compile(fn)
    for run in (fn, compiled, compiled):
        ended.clear()
        holder.stream = Noisy()
        assert run(X).equal(X + 1)
