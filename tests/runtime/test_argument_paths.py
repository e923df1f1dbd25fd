"""Paths from the arguments to what a spec speaks of: written, followed without running code, and taken by another call."""

from __future__ import annotations

import collections

import pytest
import torch

import tracer
from tracer.runtime.argument_paths import Attribute, follow, parse_path, path_text, replaced_at

Pair = collections.namedtuple("Pair", "ids mask")


class Slotted:
    __slots__ = ("keys", "size")

    def __init__(self):
        self.keys = 3


class Plain:
    made = 0

    def __init__(self):
        Plain.made += 1
        self.keys, self.inner = 3, Slotted()

    @property
    def computed(self):
        raise AssertionError("code of the program was run")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(2))
        self.part = torch.nn.Linear(2, 2)


def program(x, **others):
    return x


def test_a_path_is_written_as_python_writes_it():
    for text in ("x", "x[0]", "x['a'].b[1].c"):
        assert path_text(parse_path(text)) == text
    assert parse_path("x.a[0]") == ("x", Attribute("a"), 0)
    for text in ("x()", "1", "x[y]", "x +", "x[{}]"):
        with pytest.raises(tracer.exc.UserError, match="is not a path to an argument"):
            parse_path(text)


@pytest.mark.parametrize(
    ("value", "path", "name"),
    [
        (Plain(), "x.keys", "L['x'].keys"),
        (Plain(), "x.inner.keys", "L['x'].inner.keys"),
        ([Pair(3, 4)], "x[0].ids", "L['x'][0][0]"),
        (Model(), "x.table", "L['x']._buffers['table']"),
        (Model(), "x.part.weight", "L['x']._modules['part']._parameters['weight']"),
    ],
)
def test_a_path_leads_where_the_trace_reads(value, path, name):
    found, source = follow(program, {"x": value, "others": {}}, parse_path(path))
    assert source.name == name and found is not None


@pytest.mark.parametrize("path", ["x.computed", "x.made", "x.absent", "x[0]", "y"])
def test_what_is_computed_of_the_class_or_not_there_is_refused(path):
    with pytest.raises(tracer.exc.UserError):
        follow(program, {"x": Plain(), "others": {}}, parse_path(path))


def test_another_call_has_twins_of_the_objects_on_the_way_and_none_is_touched():
    owner, count = Plain(), Plain.made
    twin = replaced_at(owner, parse_path("x.inner.keys")[1:], 9, parse_path("x.inner.keys"))
    assert (type(twin), twin.inner.keys, owner.inner.keys) == (Plain, 9, 3) and Plain.made == count
    assert twin.keys == 3 and not hasattr(twin.inner, "size")
    model = Model()
    other = replaced_at(model, parse_path("x.table")[1:], torch.ones(5), parse_path("x.table"))
    assert other.table.shape == (5,) and model.table.shape == (2,) and other.part is model.part
    assert replaced_at((1, Pair(2, 3)), (-1, Attribute("mask")), 9, ("x",)) == (1, Pair(2, 9))
    with pytest.raises(tracer.exc.UserError, match="cannot be made again"):
        replaced_at(collections.Counter("a"), (Attribute("b"),), 1, ("x", Attribute("b")))
