"""_C.Value: objects compared by class and fields, whose hash is worked out once."""

import dataclasses

import pytest

from tracer import _C


@dataclasses.dataclass(slots=True, eq=False)
class Point(_C.Value):
    x: object
    y: object = 0
    note: str = dataclasses.field(default="", kw_only=True)


@dataclasses.dataclass(slots=True, eq=False)
class Other(_C.Value):
    x: object
    y: object = 0


class Counted(_C.Value):
    __slots__ = ("asked",)

    def _fields(self):
        self.asked = getattr(self, "asked", 0) + 1
        return (1, 2)


def test_equal_fields_of_one_class_are_equal():
    assert Point(1, "a") == Point(1, "a") and hash(Point(1, "a")) == hash(Point(1, "a"))
    assert not Point(1, "a") != Point(1, "a")
    assert Point(1, "a") != Point(1, "b") and Point(1) != Point(2)
    assert len({Point(Point(1)), Point(Point(1)), Point(Point(2))}) == 2


def test_classes_are_told_apart():
    assert Point(1) != Other(1) and len({Point(1), Other(1)}) == 2
    assert Point(1) != (1, 0) and Point(1) != 1


def test_a_keyword_only_field_does_not_count():
    assert Point(1, note="here") == Point(1, note="there")


def test_the_fields_are_asked_for_one_hash_only():
    value = Counted()
    table = {value: 1}
    assert hash(value) == hash(value) and table[value] == 1
    assert value.asked == 1


def test_two_objects_with_other_hashes_are_not_compared_by_field():
    class Loud:
        def __hash__(self):
            return 5

        def __eq__(self, other):
            raise AssertionError("asked")

    assert Point(Loud()) != Point(6)


def test_what_cannot_be_hashed_raises():
    with pytest.raises(TypeError):
        hash(Point([]))
    with pytest.raises(TypeError):
        Point([]) == Point([])


def test_values_have_no_order():
    with pytest.raises(TypeError):
        Point(1) < Point(2)
