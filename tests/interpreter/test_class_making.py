"""What runs when a class is made inside of a traced function: metaclasses, __init_subclass__, __set_name__, abc, typing."""

import abc
import functools
import gc
import re
import sys
import typing

import pytest
import torch

from tests.support import captured, captured_made, check, check_made
from tracer import _C
from tracer.variables.classes.class_making import bare_class

X = torch.arange(4.0)
LOG = []
T = typing.TypeVar("T")


class Watched:
    def __init_subclass__(cls, **options):
        super().__init_subclass__()
        LOG.append((cls.__name__, options))
        cls.options = options


class Meta(type):
    def __new__(mcs, name, bases, namespace, **options):
        return super().__new__(mcs, name, bases, {**namespace, "made_by": mcs.__name__})

    def __init__(cls, name, bases, namespace, **options):
        super().__init__(name, bases, namespace)
        cls.given = tuple(options)


class Counting(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.number = len(LOG)
        LOG.append(cls.__name__)
        return made

    def hello(cls):
        return cls.__name__ + "!"

    @property
    def short(cls):
        return cls.__name__[0]

    def __getattr__(cls, name):
        if name == "magic":
            return 7
        raise AttributeError(name)


class Prepared(type):
    @classmethod
    def __prepare__(mcs, name, bases, **options):
        return {"own_name": name}


class Noted(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        LOG.append(key)


class Noting(type):
    @classmethod
    def __prepare__(mcs, name, bases):
        return Noted()

    def __new__(mcs, name, bases, namespace):
        return super().__new__(mcs, name, bases, dict(namespace))


class Field:
    def __init__(self, default):
        self.default = default

    def __set_name__(self, owner, name):
        self.name, self.owner = name, owner
        LOG.append((owner.__name__, name))

    def __get__(self, obj, cls=None):
        return self if obj is None else getattr(obj, "_" + self.name, self.default)

    def __set__(self, obj, value):
        setattr(obj, "_" + self.name, value + 1)


class Box(typing.Generic[T]):
    def get(self):
        return self.content


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

    @property
    @abc.abstractmethod
    def label(self): ...

    def twice(self):
        return self.area() * 2


class Registered(abc.ABC):
    last = None

    def __init_subclass__(cls, key=None, **options):
        super().__init_subclass__(**options)
        Registered.last = key, cls.__name__


def captured_anew(fn):
    return captured_made(fn, lambda: ((X.clone(),), {}), reset=LOG.clear)


def test_init_subclass_runs_once_for_each_class():
    def fn(x):
        class Child(Watched):
            pass

        class Grandchild(Child, option=3):
            pass

        return x + len(LOG), Child, Grandchild, Grandchild.options

    captured_anew(fn)
    assert LOG == [("Child", {}), ("Grandchild", {"option": 3})]


def test_init_subclass_of_an_abstract_class_with_keywords():
    def fn(x):
        class Child(Registered, key="a"):
            pass

        return x + 1, Registered.last, Child

    captured_anew(fn)
    Registered.last = None


def test_keywords_that_nobody_takes_are_an_error():
    def fn(x):
        try:

            class Child(option=1):
                pass

        except TypeError as error:
            return x + 1, str(error)

    captured(fn, X)


def test_new_and_init_of_a_metaclass_make_the_class():
    def fn(x):
        class Child(metaclass=Meta, option=1):
            factor = 2

            def cls(self):
                return __class__

        class Grandchild(Child):
            def cls(self):
                return super().cls()

        return x * Child.factor, Child.made_by, Child.given, Grandchild().cls() is Child, Child, Grandchild

    checked = captured(fn, X)
    assert type(checked.result[4]) is Meta and checked.result[5]().cls() is checked.result[4]


def test_metaclasses_with_call_methods_and_getattr():
    def fn(x):
        class Child(metaclass=Counting):
            def __init__(self, content):
                self.content = content

        child = Child(x + 1)
        return child.content, child.number, Child.hello(), Child.short, Child.magic, child, hasattr(Child, "nothing")

    captured_anew(fn)


def test_getattr_of_the_metaclass_of_an_existing_class():
    class Existing(metaclass=Counting):
        pass

    def fn(x):
        return x * Existing.magic, getattr(Existing, "nothing", None)

    captured(fn, X)


def test_a_metaclass_prepares_the_namespace_of_the_class_body():
    def fn(x):
        class Child(metaclass=Prepared):
            longer = own_name + "s"  # noqa: F821

        class Other(metaclass=Noting):
            size = 1

            def get(self):
                return self.size

        return x + Other().get(), Child.longer, Child.own_name, Child, Other

    captured_anew(fn)
    of_3_13 = {"__firstlineno__", "__static_attributes__"}
    LOG[:] = [name for name in LOG if name != "__classdictcell__"]  # of Python 3.14
    assert [name for name in LOG if name not in of_3_13] == ["__module__", "__qualname__", "size", "get"]
    assert of_3_13.isdisjoint(LOG) if sys.version_info < (3, 13) else of_3_13 <= set(LOG)


def test_a_function_can_stand_for_a_metaclass():
    def fn(x):
        class Child(metaclass=lambda name, bases, namespace: type(name, bases, {**namespace, "late": x})):
            early = 1

        return Child.late + Child.early, Child

    captured(fn, X)


def test_metaclasses_that_conflict_are_an_error():
    def fn(x):
        class First(metaclass=Meta):
            pass

        class Second(metaclass=Counting):
            pass

        try:

            class Third(First, Second):
                pass

        except TypeError as error:
            return x + 1, str(error)

    captured(fn, X)


def test_descriptors_made_in_the_body_are_told_their_names():
    def fn(x):
        class Child:
            first = Field(3)
            second = Field(x)

        child = Child()
        child.first = 10
        return x + child.first, child.second, Child.first.name, Child.first.owner is Child, child, Child

    checked = captured_anew(fn)
    assert LOG == [("Child", "first"), ("Child", "second")]
    assert checked.result[5].first.owner is checked.result[5]


def test_type_with_three_arguments_makes_a_class():
    def fn(x):
        Made = type("Made", (Watched,), {"factor": 3, "get": lambda self: self.factor})
        return x + Made().get(), Made.options, Made.__name__, Made.__module__

    captured_anew(fn)


def test_abstract_classes():
    def fn(x):
        class Square(Shape):
            label = "square"

            def __init__(self, side):
                self.side = side

            def area(self):
                return self.side * self.side

        class Base(abc.ABC):
            @abc.abstractmethod
            def run(self):
                return 1

            @classmethod
            def make(cls):
                return cls()

        class Child(Base):
            def run(self):
                return super().run() + 1

        square = Square(x)
        known = isinstance(square, Shape), issubclass(Child, Base), isinstance(Child.make(), Base)
        return square.twice(), known, Child.make().run(), square, Square, Base, Child, Square.__abstractmethods__

    checked = captured(fn, X)
    assert checked.result[5].__abstractmethods__ == {"run"} and not checked.result[6].__abstractmethods__


def test_abstract_classes_have_no_instances():
    def fn(x):
        class Half(Shape):
            def area(self):
                return 1

        try:
            Half()
        except TypeError as error:
            return x + 1, str(error), Half

    checked = captured(fn, X)
    with pytest.raises(TypeError, match="abstract"):
        checked.result[2]()


def test_generic_classes_and_protocols():
    def fn(x):
        class Child(Box[T]):
            def __init__(self, content):
                self.content = content

        class Other(typing.Generic[T]):
            size = 2

        class Sized(typing.Protocol):
            def size(self): ...

        return Child[int](x + 1).get(), Child, Other, Other.size, Child.__parameters__, Sized

    checked = captured(fn, X)
    assert checked.result[1].__parameters__ == (T,) and checked.result[5]._is_protocol


def test_decorators_of_the_library():
    def fn(x):
        @functools.total_ordering
        class Child:
            def __init__(self, size):
                self.size = size

            def __lt__(self, other):
                return self.size < other.size

        return x + 1, Child(1) >= Child(2), Child(2) > Child(1), Child

    captured(fn, X)


def test_attributes_of_a_class_can_be_deleted():
    def fn(x):
        class Child:
            first, second = 1, 2

        del Child.first
        Child.third = 3
        del Child.third
        return x + Child.second, hasattr(Child, "first"), Child

    captured(fn, X)


def test_an_error_of_set_name_leaves_the_class_statement():
    class Refusing:
        def __set_name__(self, owner, name):
            raise ValueError(name)

    def fn(x):
        try:

            class Child:
                field = Refusing()

        except RuntimeError as error:
            return x + 1, str(error)

    check(fn, X)


def test_a_metaclass_decides_the_order_of_bases():
    class Reversing(type):
        def mro(cls):
            return list(super().mro())

    def fn(x):
        class Child(metaclass=Reversing):
            pass

        return x + 1, Child

    assert check(fn, X).break_ids


def test_nothing_of_the_program_runs_while_tracing():
    def fn(x, out):
        class Child(Watched, metaclass=Meta):
            field = Field(1)

        out.append(Child)
        return x + 1

    check_made(fn, lambda: ((X.clone(), []), {}), reset=LOG.clear)
    assert LOG == [("Child", "field"), ("Child", {})]


class Slotted(Watched):
    __slots__ = ("size",)


class OfList(list, Watched):
    pass


@pytest.mark.parametrize("bases", [(Watched,), (Slotted,), (OfList,), (Registered,), (Box, Watched), (dict, Watched)], ids=str)
@pytest.mark.parametrize("namespace", [{}, {"__slots__": ()}, {"__slots__": ("own",)}], ids=str)
def test_a_class_made_without_init_subclass_is_laid_out_as_another(bases, namespace):
    metaclass = type(bases[0])
    LOG.clear()
    made = bare_class(metaclass, "Made", bases, dict(namespace))
    assert not LOG and made.__subclasses__() == [] and made in bases[-1].__subclasses__()
    plain = type.__new__(metaclass, "Made", bases, dict(namespace))
    assert type(made) is metaclass and made.__mro__[1:] == plain.__mro__[1:] and made.__base__ is plain.__base__
    assert made.__dictoffset__ == plain.__dictoffset__ and made.__basicsize__ == plain.__basicsize__
    assert type("Below", (made,), {}).__base__ is made and bool(LOG) == (Registered not in bases)


def test_only_a_metaclass_that_was_derived_can_be_dropped():
    for value in (1, int, X):
        with pytest.raises(TypeError, match="drop_metaclass"):
            _C.drop_metaclass(value)


def test_a_metaclass_is_held_by_its_classes_alone():
    def counts():
        gc.collect()
        return sys.getrefcount(type), sys.getrefcount(Meta)

    def make():
        for metaclass in (type, Meta):
            bare_class(metaclass, "Made", (Watched,), {})

    make()
    before = counts()
    for _ in range(100):
        make()
    assert all(abs(now - then) < 50 for now, then in zip(counts(), before))


def test_type_itself_has_no_abstract_methods():
    def fn(x):
        try:
            return x + 1, type.__abstractmethods__
        except AttributeError:
            return x + 1, hasattr(type, "__abstractmethods__")

    captured(fn, torch.ones(2))


@pytest.mark.parametrize("make", [lambda cls: cls(), lambda cls: cls.__new__(cls), lambda cls: object.__new__(cls)])
def test_a_class_that_makes_no_instances(make):
    def fn(x, cls):
        try:
            made = make(cls)
        except TypeError as error:
            made = str(error)
        return x + 1, made

    check(fn, torch.ones(2), re.Match)
