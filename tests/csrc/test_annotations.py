"""What C code reads and sets of the annotations of a function."""

from __future__ import annotations

import sys

import pytest

from tests.support.programs import program
from tracer import _C


def test_annotations_are_known_once_they_have_been_set():
    def bare(a): ...

    assert _C.known_annotations(bare) is None
    bare.__annotations__ = {"a": int}
    assert _C.known_annotations(bare) is bare.__annotations__
    _C.remember_annotations(bare, {"a": str})
    assert _C.known_annotations(bare) is bare.__annotations__ == {"a": str}


@pytest.mark.skipif(sys.version_info < (3, 14), reason="Python 3.14 makes annotations when they are asked for")
def test_asking_whether_annotations_are_known_does_not_make_them():
    fn = program("def fn(a: missing): ...")
    assert _C.known_annotations(fn) is None
    with pytest.raises(NameError):
        fn.__annotations__
    fn.__globals__["missing"] = int
    assert fn.__annotations__ == {"a": int} == _C.known_annotations(fn)


@pytest.mark.parametrize("wrong", [3, len, None])
def test_what_is_no_function_has_no_annotations(wrong):
    with pytest.raises(TypeError, match="known_annotations"):
        _C.known_annotations(wrong)
