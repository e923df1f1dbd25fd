"""Class statements inside of traced functions."""

import collections
import gc

import pytest
import torch

import tracer
from tests.support import breaks, captured, check, check_made
from tracer.api.callables import compiled
from tracer.api.settings import Settings

X = torch.arange(4.0)


class Base:
    scale = 3

    def scaled(self, x):
        return x * self.scale

    @classmethod
    def named(cls, x):
        return cls.__name__, x + cls.scale


def test_a_class_with_methods_and_attributes():
    def fn(x):
        class Scaled:
            factor = 2

            def __init__(self, value):
                self.value = value

            def get(self):
                return self.value * self.factor

            @staticmethod
            def twice(y):
                return y + y

            @classmethod
            def make(cls, y):
                return cls(y)

            @property
            def first(self):
                return self.value[0]

        made = Scaled.make(x)
        return Scaled.twice(made.get()) + made.first, made.twice(x), Scaled.__name__, Scaled.__qualname__

    captured(fn, X)


def test_an_instance_that_escapes_is_one_of_the_class_that_escapes():
    def fn(x):
        class Point:
            count = 0

            def __init__(self, y):
                self.y = y

            def more(self):
                return type(self)(self.y + 1)

        return Point(x), Point, [Point(x * 2).more()]

    checked = captured(fn, X)
    point, cls, (more,) = checked.result
    assert type(point) is cls is type(more) and type(point.more()) is cls
    names = [name for name in vars(cls) if name != "__firstlineno__"]  # Python 3.13 has it
    assert cls.__module__ == __name__ and names[:3] == ["__module__", "count", "__init__"]


def test_zero_argument_super_in_a_class_that_escapes():
    def fn(x):
        class Child(Base):
            def scaled(self, y):
                return super().scaled(y) + 1

            def cls(self):
                return __class__

        child = Child()
        return child.scaled(x), child, child.cls() is Child, Child.named(x)

    checked = captured(fn, X)
    child = checked.result[1]
    assert child.cls() is type(child) and torch.equal(child.scaled(X), X * 3 + 1)


def test_bases_are_guarded(monkeypatch):
    def fn(x):
        class Child(Base):
            pass

        return Child().scaled(x)

    captured(fn, X)
    traced = compiled(fn, Settings(backend="eager", name="check"))
    assert torch.equal(traced(X), X * 3)
    monkeypatch.setattr(Base, "scale", 5)
    assert torch.equal(traced(X), X * 5)
    monkeypatch.setattr(Base, "scaled", lambda self, x: x - 1)
    assert torch.equal(traced(X), X - 1)


def test_no_prototype_is_left_among_the_subclasses():
    class Parent:
        pass

    def fn(x):
        class Child(Parent):
            pass

        return x + len(Parent.__subclasses__()) if isinstance(Child(), Parent) else x

    check_made(fn, lambda: ((X,), {}), reset=gc.collect)
    gc.collect()
    assert Parent.__subclasses__() == []


def test_attributes_stored_in_a_made_class():
    def fn(x):
        class Counter:
            count = 0
            seen = []

            def __init__(self):
                Counter.count += 1
                self.number = Counter.count
                Counter.seen.append(self)

        first, second = Counter(), Counter()
        Counter.late = x + 1
        return Counter, second.late * Counter.count, first.number, second

    checked = captured(fn, X)
    cls = checked.result[0]
    assert cls.count == 2 and cls.seen[1] is checked.result[3] and [type(item) for item in cls.seen] == [cls, cls]


def test_bodies_that_compute():
    def fn(x):
        n = x.shape[0]

        class Body:
            values = [n + i for i in range(3)]
            m = n + 1
            total = sum(values)
            if m > 3:
                big = True
            for index in range(2):
                last = index
            del index
            table: dict = {"a": m}
            other: "int"

        return x + Body.total, Body.big, Body.last, Body.__annotations__, Body.table, Body.m, hasattr(Body, "index")

    captured(fn, X)


def test_a_body_that_raises():
    def fn(x):
        y = x + 1
        try:

            class Broken:
                value = missing_name
        except NameError as error:
            return y, str(error)

    captured(fn, X)

    def deleted(x):
        class Broken:
            del nothing  # noqa: F821

        return x

    check(deleted, X)


def test_operators_slots_and_hash():
    def fn(x):
        class Vector:
            __slots__ = ("x",)

            def __init__(self, x):
                self.x = x

            def __add__(self, other):
                return Vector(self.x + other.x)

            def __eq__(self, other):
                return self.x.shape == other.x.shape

            def __call__(self, k):
                return self.x * k

            def __getitem__(self, i):
                return self.x[i]

            def __iter__(self):
                return iter(self.x)

        v = Vector(x) + Vector(x * 2)
        try:
            hash(v)
        except TypeError as error:
            message = str(error)
        try:
            v.other = 1
        except AttributeError as error:
            message += str(error)
        return v(3), v[1], [a + 1 for a in v], v == Vector(x), message, v

    captured(fn, X)


def test_classes_in_classes_and_closures_over_arguments():
    def fn(x, k):
        class Outer:
            class Inner:
                def get(self):
                    return x * k

            inner = Inner()

            def run(self):
                return self.inner.get() + self.Inner().get()

        return Outer().run(), Outer

    checked = captured(fn, X, 3)
    assert torch.equal(checked.result[1]().run(), X * 6)


def test_exceptions_made_in_the_trace():
    def fn(x):
        class Problem(ValueError):
            def __init__(self, what):
                super().__init__(what)
                self.what = what

        try:
            raise Problem("odd")
        except ValueError as error:
            return x + 1, error, error.what, isinstance(error, Problem)

    captured(fn, X)


def test_an_exception_of_a_made_class_that_leaves_the_frame():
    def fn(x):
        class Problem(Exception):
            pass

        raise Problem(x.shape[0])

    checked = check(fn, X)
    assert type(checked.error).__name__ == "Problem"


@pytest.mark.parametrize("base", [list, dict, int, str, tuple])
def test_subclasses_of_built_in_classes(base):
    def fn(x):
        class Own(base):
            def mark(self):
                return "own", len(type(self).__mro__)

        own = Own()
        return x + 1, own, own.mark(), isinstance(own, base), Own

    captured(fn, X)


def test_a_named_tuple_as_a_base():
    def fn(x):
        class Pair(collections.namedtuple("Pair", "a b")):
            def total(self):
                return self.a + self.b

        pair = Pair(x, 2)
        return pair.total(), pair

    captured(fn, X)


def test_an_autograd_function():
    def fn(x):
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, y):
                ctx.save_for_backward(y)
                return y * 2

            @staticmethod
            def backward(ctx, grad):
                (y,) = ctx.saved_tensors
                return grad * y

        return Double.apply(x).sum()

    captured(fn, X)
    captured(fn, X.clone().requires_grad_())


def test_a_module_class():
    def fn(x):
        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = 2

            def forward(self, y):
                return torch.relu(y) * self.scale

        return Block()(x)

    check(fn, X)


def test_made_at_every_call_without_another_trace():
    def fn(x):
        class Box:
            def __init__(self, y):
                self.y = y

        return Box(x + 1)

    captured(fn, X)


def test_a_break_inside_of_a_method_of_a_made_class():
    def fn(x):
        class Speaker:
            def __init__(self, y):
                self.y = y * 2

            def speak(self):
                print("speaking", end="")
                return self.y + 1

        return Speaker(x).speak(), Speaker

    breaks(fn, X)


def test_decorators_of_classes():
    def register(cls):
        cls.registered = True
        return cls

    def fn(x):
        @register
        class Child:
            value = 2

        return x * Child.value, Child.registered, Child

    captured(fn, X)


def test_property_setters_and_deleters():
    def fn(x):
        class Box:
            @property
            def content(self):
                "what is in it"
                return self._content + 1

            @content.setter
            def content(self, value):
                self._content = value * 2

            @content.deleter
            def content(self):
                self._content = None

        box = Box()
        box.content = x
        got = box.content
        del box.content
        return got, box, Box

    checked = captured(fn, X)
    assert checked.result[2].content.__doc__ == "what is in it"


def test_isinstance_and_match_of_made_classes():
    def fn(x):
        class Shape:
            __match_args__ = ("size",)

            def __init__(self, size):
                self.size = size

        class Square(Shape):
            pass

        match Square(x + 1):
            case Shape(size):
                found = size
        return found * 2, issubclass(Square, Shape), Square.__mro__, type(Square(1)) is Square

    captured(fn, X)


def test_annotations_that_name_made_classes():
    def fn(x):
        class Node:
            pass

        def take(node: Node) -> "Node":
            return node

        return take(Node()), x + 1, take

    checked = captured(fn, X)
    assert checked.result[2].__annotations__["node"] is type(checked.result[0])


def test_a_made_class_as_a_key_and_as_a_factory():
    def fn(x):
        class Key:
            pass

        table = {Key: x + 1}
        made = collections.defaultdict(Key)
        made["a"]
        return table[Key], table, made, Key

    checked = captured(fn, X)
    assert type(checked.result[2]["a"]) is checked.result[3]


def test_a_property_made_inside_is_read_by_hand():
    class Owner:
        value = 3

    def fn(x):
        owner, stored = Owner(), []
        made = property(lambda self: self.value, lambda self, value: stored.append(value))
        made.__set__(owner, x + 1)
        return x * made.__get__(owner), made.__get__(owner, Owner), stored

    captured(fn, X)


def test_instances_whose_hash_asks_their_new_class_are_keys_behind_a_break():
    def fn(x):
        class Name(str):
            def __hash__(self):
                return super().__hash__()

            def __eq__(self, other):
                return super().__eq__(other)

        by_name = {Name("a"): 1, (Name("b"), 2): 3}
        names = {Name("c")}
        tracer.graph_break()
        return x + 1, len(by_name), by_name[Name("a")], Name("c") in names, by_name[(Name("b"), 2)]

    check(fn, torch.ones(2))
