"""isinstance and issubclass against CPython: metaclasses, abstract base classes, protocols, and their changes."""

from __future__ import annotations

import abc
import collections.abc
import numbers
import typing
import warnings
import weakref

import torch

from tests.soundness.watching import noticed
from tests.support import breaks, captured
from tracer.api.callables import compiled
from tracer.api.settings import Settings

X = torch.arange(3.0)


class Named(type):
    def __instancecheck__(cls, instance):
        return hasattr(instance, "mark")

    def __subclasscheck__(cls, subclass):
        return subclass.__name__.startswith("Marked")


class Marks(metaclass=Named):
    pass


class Marked:
    mark = 1


class Plain:
    pass


class Widened(type):
    def __instancecheck__(cls, instance):
        return super().__instancecheck__(instance) or instance == 5


class Wide(metaclass=Widened):
    pass


class Wider(Wide):
    pass


class Area(abc.ABC):
    @abc.abstractmethod
    def area(self): ...


class Square(Area):
    def area(self):
        return 4


class Hooked(abc.ABC):
    @classmethod
    def __subclasshook__(cls, subclass):
        return hasattr(subclass, "mark")


class Row(typing.TypedDict):
    a: int


class Once(type):
    made: dict = {}

    def __call__(cls, *args):
        if cls not in cls.made:
            cls.made[cls] = super().__call__(*args)
        return cls.made[cls]


class Single(metaclass=Once):
    def __init__(self, value=1):
        self.value = value


def test_checks_of_a_metaclass_are_traced():
    def fn(x):
        return x + 1, isinstance(Marked(), Marks), isinstance(Plain(), Marks), issubclass(Marked, Marks), issubclass(int, Marks)

    captured(fn, X)


def test_a_metaclass_that_asks_type():
    def fn(x):
        return x + 1, isinstance(5, Wide), isinstance(Wider(), Wide), isinstance(4, Wide), issubclass(Wider, Wide)

    captured(fn, X)


def test_abstract_base_classes():
    def fn(x):
        return x * Square().area(), isinstance(Square(), Area), issubclass(Plain, Area), isinstance(3, Area)

    captured(fn, X)


def test_the_abstract_classes_of_the_standard_library():
    def fn(x):
        collections_ = isinstance([], collections.abc.Sequence), isinstance({}, collections.abc.Mapping)
        hooks = isinstance(len, collections.abc.Callable), isinstance(3, collections.abc.Hashable)
        return x + 1, collections_, hooks, isinstance(3, numbers.Number), isinstance(2.0, numbers.Integral)

    captured(fn, X)


def test_a_class_registered_between_calls_is_noticed():
    class Shape(abc.ABC):
        pass

    class Circle:
        pass

    def fn(x):
        return x + 1 if isinstance(Circle(), Shape) else x - 1

    noticed(fn, (X,), lambda: Shape.register(Circle))


class Counting(abc.ABC):
    asked: list = []

    @classmethod
    def __subclasshook__(cls, subclass):
        cls.asked.append(subclass)
        return NotImplemented


def test_a_subclass_hook_of_the_user_is_traced():
    def fn(x):
        return x + 1, isinstance(Marked(), Hooked), isinstance(Plain(), Hooked), issubclass(Marked, Hooked)

    captured(fn, X)


def test_a_subclass_hook_that_changes_something_breaks():
    breaks(lambda x: (x + 1, isinstance(Plain(), Counting)), X)


def test_a_class_pattern_asks_the_metaclass():
    def fn(x):
        match Marked():
            case Marks():
                return x + 1
        return x - 1

    captured(fn, X)


def test_a_typed_dict_is_a_dict():
    def fn(x):
        row = Row(a=1)
        return x * row["a"], row, type(row)

    captured(fn, X)


def test_a_metaclass_that_makes_one_instance():
    Single(4)

    def fn(x):
        return x * Single().value, Single() is Single()

    captured(fn, X)


class Answers:
    def __getattribute__(self, name):
        return Plain if name == "__class__" else object.__getattribute__(self, name)


def test_an_object_that_says_its_class_is_asked_for_it():
    plain = Plain()

    def fn(x, value):
        made = Answers()
        return x + 1, isinstance(value, Plain), isinstance(made, Plain), isinstance(made, (int, Answers))

    for value in (Answers(), weakref.proxy(plain)):
        assert fn(X, value)[1:] == (True, True, True)
        traced = compiled(fn, Settings(backend="eager", name="check"))
        for _ in range(2):
            assert traced(X, value)[1:] == (True, True, True)


def test_an_optional_class_is_asked_without_a_warning():
    def fn(x):
        optional, either = isinstance(x, typing.Optional[torch.Tensor]), isinstance(3, typing.Union[str, int])
        return x + 1, optional, either, isinstance(x, int | None)

    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        captured(fn, X)


def test_old_classes_of_tensors_are_told_by_dtype():
    def fn(x):
        kinds = (torch.FloatTensor, torch.LongTensor, torch.cuda.FloatTensor, torch.sparse.FloatTensor)
        return x + 1, [[isinstance(value, kind) for kind in kinds] for value in (x, x.long(), PARAMETER, 3, [x])]

    captured(fn, X)


PARAMETER = torch.nn.Parameter(torch.ones(2))
