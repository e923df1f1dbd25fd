"""Constants that guards hold are loaded as they were saved, enum members and all that has no literal of its own included."""

from __future__ import annotations

import dataclasses
import enum
import math
import typing

import pytest
import torch

import tracer
from tests.saving.test_saving import restarted, same
from tests.support.regions import dynamic
from tracer.saving import pickling
from tracer.saving.fingerprints import member_at


class Mode(enum.IntEnum):
    FAST = 1
    EXACT = 2


class Colour(enum.Enum):
    RED = 1
    CRIMSON = 1
    GREEN = 2


class Part(enum.Flag):
    LEFT = 1
    RIGHT = 2


class Bits(enum.IntFlag):
    ONE = 1
    TWO = 2


class Name(enum.StrEnum):
    A = "a"


class Scale(float, enum.Enum):
    HALF = 0.5


class Planet(enum.Enum):
    EARTH = (5.9, 6.3)

    def __init__(self, mass, radius):
        self.mass = mass


@dataclasses.dataclass(frozen=True)
class Config:
    width: int
    mode: Mode


class Pair(typing.NamedTuple):
    first: float
    second: Mode


class OwnInt(int):
    pass


def truth(x, value):
    return x * (2 if value else 3)


def member(x, value):
    return x + 1 if value is Mode.FAST else x - 1


def number(x, value):
    return x + value.value


def named(x, value):
    return x + len(value.name)


def mass(x, value):
    return x * value.mass


def combined(x, value):
    return x + 1 if Part.LEFT in value else x


def arithmetic(x, value):
    return x * (value + 1)


def field(x, value):
    return x + value.width if value.mode == Mode.EXACT else x


def unpacked(x, value):
    return x * value.first if value.second is Mode.EXACT else x


def table(x, value):
    return x + value[Mode.FAST]


def cast(x, value):
    return x.to(value)


def made(x, value):
    return x + torch.ones(3, layout=value)


CASES = [
    *((truth, each) for each in (Mode.FAST, Colour.RED, Part.LEFT | Part.RIGHT, Bits.ONE | Bits.TWO, Bits(8))),
    *((truth, each) for each in (Name.A, Scale.HALF)),
    *((number, each) for each in (Mode.FAST, Colour.RED, Colour.CRIMSON, Bits.ONE | Bits.TWO, Scale.HALF)),
    (member, Mode.FAST),
    (named, Colour.GREEN),
    (mass, Planet.EARTH),
    (combined, Part.LEFT | Part.RIGHT),
    (arithmetic, Mode.EXACT),
    (arithmetic, OwnInt(3)),
    (field, Config(3, Mode.EXACT)),
    (unpacked, Pair(1.5, Mode.EXACT)),
    (unpacked, Pair(math.inf, Mode.EXACT)),
    (table, {Mode.FAST: 3, Mode.EXACT: 4}),
    (cast, torch.float16),
    (made, torch.strided),
    *((truth, each) for each in (math.nan, -math.inf, -0.0, complex(math.nan, -0.0), 10**30, b"x", ..., None, slice(1, None))),
    *((truth, each) for each in (torch.strided, torch.sparse_csr, torch.channels_last, torch.per_tensor_affine, torch.float32)),
    *((truth, each) for each in (range(3), frozenset({1.0, Mode.FAST}), (Mode.FAST, (Colour.RED,)), torch.Size([2]))),
    *((truth, each) for each in (Mode, {1.5, 2})),
]


def unknown_member(cls, place, fingerprint):
    if cls is Mode:
        raise RuntimeError("nobody knows this member")
    return member_at(cls, place, fingerprint)


def wrong_member(cls, place, fingerprint):
    return Mode.EXACT if cls is Mode else member_at(cls, place, fingerprint)


@pytest.mark.parametrize(("fn", "value"), CASES, ids=lambda each: getattr(each, "__name__", None) or str(each))
def test_a_constant_is_guarded_alike_after_loading(fn, value, tmp_path):
    compiled = dynamic(fn)
    compiled(torch.ones(3), value)
    other = restarted(compiled, tmp_path / "entries", fn)
    same(other, fn, (torch.ones(3), value))


def test_another_member_is_a_miss_after_loading(tmp_path):
    compiled = dynamic(arithmetic)
    compiled(torch.ones(3), Mode.FAST)
    other = restarted(compiled, tmp_path / "entries", arithmetic)
    same(other, arithmetic, (torch.ones(3), Mode.EXACT), traced=1)


@pytest.mark.parametrize("became", [3, None])
def test_a_member_that_has_another_value_now_is_told(became, tmp_path, monkeypatch):
    compiled = dynamic(arithmetic)
    compiled(torch.ones(3), Mode.EXACT)
    assert tracer.save(compiled, tmp_path / "entries").saved == 1
    members = {"FAST": 1} if became is None else {"FAST": 1, "EXACT": became}
    changed = enum.IntEnum("Mode", members, module=__name__)
    monkeypatch.setitem(globals(), "Mode", changed)
    found = tracer.load(dynamic(arithmetic), tmp_path / "entries")
    assert not found and found.loaded == 0 and "Mode.EXACT" in str(found)


def test_what_cannot_be_read_back_is_not_counted_as_saved(tmp_path, monkeypatch):
    compiled = dynamic(truth)
    for value in (True, Mode.FAST):
        compiled(torch.ones(3), value)

    monkeypatch.setattr(pickling, "member_at", unknown_member)
    found = tracer.save(compiled, tmp_path / "entries")
    assert found.saved == 1 and "cannot be read back (RuntimeError: nobody knows this member)" in str(found)
    assert tracer.load(dynamic(truth), tmp_path / "entries").loaded == 1


def test_guards_that_read_back_as_others_are_not_counted_as_saved(tmp_path, monkeypatch):
    compiled = dynamic(truth)
    compiled(torch.ones(3), Mode.FAST)
    monkeypatch.setattr(pickling, "member_at", wrong_member)
    found = tracer.save(compiled, tmp_path / "entries")
    assert found.saved == 0 and "guards are not the same" in str(found)
