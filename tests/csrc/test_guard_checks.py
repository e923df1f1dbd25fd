"""What check functions call to read values: no user code runs, nothing is changed."""

from __future__ import annotations

import contextvars
import decimal
import types
from collections import OrderedDict

import pytest
import torch

from tests.csrc import entries  # noqa: F401
from tracer._C import dict_version, distinct, find_in_mro, instance_dict, is_generic_access, raw_attr, type_id


class Hostile:
    """Every way of reading an attribute is user code."""

    __slots__ = ("slot", "empty", "__dict__")

    def __init__(self):
        object.__setattr__(self, "slot", "in the slot")
        super().__getattribute__("__dict__")["name"] = "in the dict"

    def __getattribute__(self, name):
        raise AssertionError("user code ran")

    def __getattr__(self, name):
        raise AssertionError("user code ran")

    @property
    def computed(self):
        raise AssertionError("user code ran")


class Plain:
    shared = "class attribute"

    def __init__(self):
        self.x = 1

    def method(self):
        pass


class Shadowing:
    @property
    def value(self):
        raise AssertionError("user code ran")

    @property
    def __dict__(self):
        raise AssertionError("user code ran")


@pytest.mark.parametrize(
    ("cls", "name"), [(contextvars.Token, "MISSING"), (int, "real"), (OrderedDict, "fromkeys"), (Hostile, "slot")]
)
def test_of_a_class_its_own_dict_is_read_also_where_the_interpreter_keeps_it(cls, name):
    before = vars(cls).copy()
    assert raw_attr(cls, name) is instance_dict(cls)[name] is vars(cls)[name]
    with pytest.raises(AttributeError, match="of its own"):
        raw_attr(cls, "no such name")
    assert vars(cls) == before


def test_raw_attr_reads_slots_and_the_instance_dict():
    hostile = Hostile()
    assert raw_attr(hostile, "slot") == "in the slot"
    assert raw_attr(hostile, "name") == "in the dict"
    plain = Plain()
    assert raw_attr(plain, "x") == 1
    plain.method = 5
    assert raw_attr(plain, "method") == 5
    module = torch.nn.Linear(2, 2)
    assert raw_attr(module, "training") is True
    assert raw_attr(module, "_parameters")["weight"] is module.weight
    assert raw_attr(torch, "float32") is torch.float32
    assert raw_attr(Plain, "shared") == "class attribute"
    assert raw_attr(Hostile.__init__, "__globals__") is globals()


@pytest.mark.parametrize(
    ("make", "name"),
    [(Hostile, "empty"), (Hostile, "computed"), (Hostile, "missing"), (Plain, "shared"), (Plain, "method"),
     (Plain, "missing"), (Plain, "__class__"), (Shadowing, "value"), (object, "x"), (lambda: 1, "real")],
)  # fmt: skip
def test_raw_attr_refuses_everything_else(make, name):
    with pytest.raises(AttributeError):
        raw_attr(make(), name)


def test_raw_attr_reads_through_a_shadowed_dict():
    shadowing = Shadowing()
    instance_dict(shadowing)["value"] = 3
    assert raw_attr(shadowing, "value") == 3


def test_raw_attr_takes_an_object_and_a_str():
    for wrong in ((1,), (1, 2), (1, "a", 3)):
        with pytest.raises(TypeError):
            raw_attr(*wrong)


def test_access_to_attributes_is_generic_unless_a_class_has_its_own_way():
    class Own:
        def __getattribute__(self, name):
            return name

    for cls in (object, dict, Exception, decimal.Decimal):
        assert (
            is_generic_access(cls.__getattribute__) and is_generic_access(cls.__setattr__) and is_generic_access(cls.__delattr__)
        )
    for hook in (
        type.__getattribute__,
        types.GenericAlias.__getattribute__,
        decimal.Context.__setattr__,
        Own.__getattribute__,
        object.__eq__,
        3,
    ):
        assert is_generic_access(hook) is False


def test_instance_dict_is_the_real_one():
    plain = Plain()
    assert instance_dict(plain) is plain.__dict__ and instance_dict(plain) == {"x": 1}
    assert instance_dict(Hostile())["name"] == "in the dict"
    assert instance_dict(torch) is torch.__dict__
    assert instance_dict(type("Empty", (), {})()) == {}
    for without in (1, "text", object(), (), None):
        assert instance_dict(without) is None
    assert instance_dict(Plain)["shared"] == "class attribute"

    def function():
        pass

    instance_dict(function)["mark"] = 1
    assert function.mark == 1


def test_dict_version_changes_with_every_write():
    plain = Plain()
    d = instance_dict(plain)
    seen = {dict_version(d)}
    assert dict_version(d) in seen
    for write in (
        lambda: setattr(plain, "x", 2),
        lambda: setattr(plain, "y", 3),
        lambda: delattr(plain, "y"),
        lambda: d.update(z=1),
        lambda: d.pop("z"),
        lambda: d.clear(),
    ):
        write()
        assert dict_version(d) not in seen
        seen.add(dict_version(d))
    for _ in range(200):  # the specialised store of a warm loop counts too
        plain.x = object()
        assert dict_version(d) not in seen
        seen.add(dict_version(d))
    with pytest.raises(TypeError):
        dict_version([])


def test_type_id_is_the_identity_of_the_type():
    class Lying:
        __class__ = int

    for value in (1, None, Lying(), torch.ones(1)):
        assert type_id(value) == id(type(value))


def test_find_in_mro_finds_what_classes_hold_themselves():
    class Meta(type):
        of_meta = 1

        def __getattribute__(cls, name):
            raise AssertionError("a class is not asked")

    class Base:
        shared = property(len)
        hidden = 1

    class Derived(Base, metaclass=Meta):
        hidden = 2

    base, value = find_in_mro(Derived, "shared")
    assert base is Base and type(value) is property
    assert find_in_mro(Derived, "hidden") == (Derived, 2)
    assert find_in_mro(Derived, "__str__") == (object, object.__str__)
    assert find_in_mro(Derived, "of_meta") is None
    for wrong in [(Derived(), "hidden"), (Derived, 1), (Derived,)]:
        with pytest.raises(TypeError):
            find_in_mro(*wrong)


def test_find_in_mro_refuses_a_class_that_is_being_made():
    seen = []

    class Meta(type):
        def mro(cls):
            try:
                find_in_mro(cls, "name")
            except TypeError as error:
                seen.append(error)
            return super().mro()

    class Made(metaclass=Meta):
        pass

    assert len(seen) == 1 and find_in_mro(Made, "name") is None


def test_distinct():
    objects = [object() for _ in range(100)]
    for count in (0, 1, 2, 31, 32, 33, 100):
        assert distinct(*objects[:count])
    for count in (2, 10, 33, 100):
        for i in (0, count // 2):
            some = objects[:count]
            some[i] = some[-1] if i != count - 1 else some[0]
            assert not distinct(*some)
    assert not distinct(1.5, *objects, types, types)
