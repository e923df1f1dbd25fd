"""Deep recursion under the hook, which costs C stack where CPython alone needs none."""

from __future__ import annotations

import sys

import pytest

from tests.support.processes import run_python

DEEP = """
import sys, threading
import torch
from tests.csrc.entries import Recorder, entry, fresh
from tracer import _C
from tracer._C import SKIP, Dispatcher, Region

sys.setrecursionlimit(10**6)
def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)
def deep_twice(n):
    return deep(n), deep(10)

def everything():
    ask = Recorder()
    assert Dispatcher(Region(ask), deep_twice)(50_000) == (50_000, 10)
    assert 300 < ask.names.count("deep") < 50_000 and ask.names[-11:] == ["deep"] * 11
    assert Dispatcher(Region(Recorder(deep=SKIP)), deep)(50_000) == 50_000
    assert _C.hook_count() == 0

    def again_and_again(n):
        return 0 if n == 0 else 1 + again(n - 1)
    again = Dispatcher(Region(Recorder()), again_and_again)
    assert again(500) == 500
    try:
        again(10**6 - 1000)
        raise AssertionError
    except RecursionError as error:
        assert "C stack" in str(error) or sys.version_info >= (3, 12)  # which counts nested calls in C
    assert again(500) == 500

    def generate(n):
        if n:
            yield n
            yield from generate(n - 1)
    assert sum(Dispatcher(Region(Recorder()), lambda: sum(generate(2000)))() for _ in range(2)) == 2 * 2001000

everything()
problems = []
def guarded():
    try: everything()
    except BaseException as error: problems.append(error)
thread = threading.Thread(target=guarded)
thread.start()
thread.join()
if problems: raise problems[0]

# The hook of another thread costs C stack here too.
inside, done = threading.Event(), threading.Event()
def waits():
    inside.set()
    done.wait(60)
thread = threading.Thread(target=Dispatcher(Region(Recorder()), waits))
thread.start()
inside.wait(60)
assert deep(50_000) == 50_000
assert _C.hook_count() == 1
done.set()
thread.join()
assert deep(50_000) == 50_000
"""


def test_recursion_as_deep_as_cpython_allows_does_not_crash():
    run_python(DEEP)


NEARLY_USED_UP = """
import sys, threading
import torch
from tests.csrc.entries import Recorder
from tracer import _C
from tracer._C import Dispatcher, Region

class Leaf:
    def __eq__(self, other): return True

def nested(depth):
    value = Leaf()
    for _ in range(depth): value = [value]
    return value

def is_equal(depth):
    one, other = nested(depth), nested(depth)
    try: return one == other
    except RecursionError: return False

def deepest(low=100, high=1_000_000):
    while high - low > 100:
        middle = (low + high) // 2
        low, high = (middle, high) if is_equal(middle) else (low, middle)
    return low

found = []
def run():
    depth = deepest() * 49 // 50
    found.append(Dispatcher(Region(Recorder()), is_equal)(depth))

threading.stack_size(8 << 20)
thread = threading.Thread(target=run)
thread.start()
thread.join()
assert found == [True], found
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="until 3.13, CPython counts nested calls in C, and allows few")
def test_a_function_runs_with_as_little_c_stack_as_cpython_wants():
    run_python(NEARLY_USED_UP)
