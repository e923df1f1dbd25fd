"""Globals that a traced frame stores, deletes, or finds missing."""

from __future__ import annotations

import torch

import tracer
from tests.soundness.watching import Watched
from tests.support import captured

COMES = 0


def test_global_that_the_frame_stores_and_deletes_need_not_be_there_before():
    def fn(x):
        global COMES
        COMES = 2
        x = x * COMES
        del COMES
        return x

    globals().pop("COMES", None)
    captured(fn, torch.ones(2))
    assert "COMES" not in globals()
    globals()["COMES"] = 7
    captured(fn, torch.ones(2))
    assert "COMES" not in globals()


def test_missing_global_whose_error_is_caught_is_noticed_when_it_comes():
    def fn(x):
        try:
            return x + COMES
        except NameError:
            return x

    globals().pop("COMES", None)
    watched = Watched(fn)
    watched(torch.ones(2))
    globals()["COMES"] = 4
    assert watched(torch.ones(2))[0] == 5


def test_deleting_a_global_that_is_gone_by_the_second_call_raises():
    def fn(x):
        global COMES
        try:
            del COMES
        except NameError as error:
            return x, error.name
        return x + 1, None

    def call(run):
        globals()["COMES"] = 1
        return [run(torch.ones(2))[1] for _ in range(3)]

    assert call(Watched(fn).compiled) == call(fn) == [None, "COMES", "COMES"]


def test_a_builtin_is_found_behind_a_deleted_global():
    def fn(x):
        global len
        len = lambda items: 100
        first = len(x)
        del len
        return x + first + len(x)  # noqa: F821

    captured(fn, torch.ones(2))


def test_a_dict_that_is_the_globals_of_code_changes_with_them():
    """Names that a function stores are items of the dict, and the other way round."""

    def made():
        namespace = {}
        exec("X = 1\ndef store():\n    global X\n    X = 2\ndef read():\n    return X", namespace)
        return namespace

    def fn(namespace, x):
        y = x * 2
        namespace["store"]()
        stored = namespace["X"]
        namespace["X"] = 7
        return y, stored, namespace["read"]()

    compiled = tracer.compile(fn)
    for _ in range(2):
        assert compiled(made(), torch.ones(2))[1:] == (2, 7)
