"""Named tuples whose classes define operators, fields and methods that `collections.namedtuple` would have made otherwise."""

from __future__ import annotations

import collections
from typing import NamedTuple

import torch

import tracer
from tests.soundness.watching import Watched
from tests.support import captured, captured_made, check, check_made

X = torch.tensor([1.0, 2.0])


class Vector(NamedTuple):
    x: float
    y: float = 2.0

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __mul__(self, factor):
        return Vector(self.x * factor, self.y * factor)

    def norm(self):
        return self.x * self.x + self.y * self.y


Pair = collections.namedtuple("Pair", "a b", defaults=(5.0,))


class Odd(Pair):
    def __len__(self):
        return 9

    def __iter__(self):
        return iter([7.0, 8.0])

    def __getitem__(self, i):
        return 44.0

    def __contains__(self, item):
        return True

    def __bool__(self):
        return False

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


class Hidden(Pair):
    __slots__ = ()

    @property
    def a(self):
        return 100.0

    def _replace(self, **fields):
        return fields

    def _asdict(self):
        return "a dict"


class Doubled(Pair):
    __slots__ = ()

    def __new__(cls, a, b=1.0):
        return super().__new__(cls, a * 2, b)


class Started(Pair):
    def __init__(self, *fields):
        self.extra = fields[0] * 3


def test_operators_of_an_argument_and_of_one_that_is_made():
    def f(x, p):
        q = Vector(x, p.x)
        q += Vector(x)
        added = p + p, q + q, sum([p, p], Vector(0.0, 0.0))
        return added, p * 3, (p + p).norm(), (q * 2).norm(), p == Vector(1.0), p._replace(x=9.0)

    check(f, X, Vector(1.0))


def test_an_operator_that_tuples_have_too():
    check(lambda x, p: (x * 2, p + p, Vector(x) + Vector(x)), X, Vector(1.0))


def test_special_methods_in_place_of_those_of_tuple():
    def f(x, p):
        q = Odd(3.0)
        first, second = q
        return x * len(p), list(p), p[0], 3.0 in p, bool(p), p == 3, hash(p), p.a, p.b, first, second, len(q), q.b, q

    check(f, X, Odd(1.0))


def test_a_property_and_methods_in_place_of_those_of_the_fields():
    def f(x, p):
        q = Hidden(x)
        return x * p.a, p.b, p[0], p._replace(b=1.0), p._asdict(), q.a, q[0], p, q

    check(f, X, Hidden(1.0))


def test_how_instances_are_made():
    def f(x):
        p, q = Doubled(x), Started(x)
        return p.a, p.b, q.extra, q

    check(f, X)


def test_a_field_given_twice_is_an_error():
    def f(x):
        try:
            return Pair(x, a=x)
        except TypeError:
            return x * 2

    check(f, X)


def test_classes_that_change():
    class Point(NamedTuple):
        x: float
        y: float = 1.0

    def f(x, p):
        return x * len(p) * p.x, Point(x).y, repr(p), p._replace(y=3.0)

    watched, p = Watched(f), Point(2.0)

    def changed(name, value):
        setattr(Point, name, value)
        for _ in range(2):
            watched(X, p)

    watched(X, p)
    Point.__new__.__defaults__ = (8.0,)
    watched(X, p)
    changed("__repr__", lambda self: "a point")
    changed("_replace", lambda self, **fields: 5)
    changed("__len__", lambda self: 9)
    changed("x", property(lambda self: 50.0))


class Plain(collections.namedtuple("Plain", "a b")):
    pass


class Noted(collections.namedtuple("Noted", "failed attempted")):
    """Without `__slots__`: each instance has a dict."""

    def __new__(cls, failed, attempted, *, skipped=0):
        made = super().__new__(cls, failed, attempted)
        made.skipped = skipped
        return made


def test_an_instance_keeps_what_is_set_on_it():
    def fn(x, given):
        made = Noted(x, 2, skipped=5)
        given.more = 3
        tracer.graph_break()
        failed, attempted = made
        return failed + attempted, made, made.skipped, given, given.skipped, given.more, vars(made), hasattr(made, "more")

    check_made(fn, lambda: ((X, Noted(1, X, skipped=7)), {}))


def test_a_store_to_an_instance_is_no_error_that_the_program_handles():
    def fn(x):
        try:
            made = Noted(1, 2, skipped=3)
        except AttributeError:
            return x, "no store"
        finally:
            print("made")
        return x + 1, made.skipped

    check(fn, X)


def test_one_from_outside_is_captured_with_its_dict():
    def fn(x, given):
        made = Plain(1, 2)
        return (
            x + given.skipped,
            given._replace(failed=made),
            given == (1, 2),
            made == given,
            hasattr(given, "more"),
            made._asdict(),
        )

    captured_made(fn, lambda: ((X, Noted(1, 2, skipped=7)), {}))


class Made(Pair):
    def __new__(cls, a, b=None):
        return super().__new__(cls, *cls.ordered(a, 4.0 if b is None else b))

    @staticmethod
    def ordered(a, b):
        return (a, b) if isinstance(a, torch.Tensor) or a <= b else (b, a)


class Slotted(Made):
    __slots__ = ()

    def __new__(cls, a, b):
        return super(Slotted, cls).__new__(cls, a, b)


def test_classes_with_a_new_of_their_own_make_instances():
    captured(lambda x: (Made(x), Made(3, 1), Slotted(5, b=2), Made(x, 2)._replace(a=x * 2), Made(b=2.0, a=x).b + 1), X)


def test_a_new_that_is_given_too_much_raises_its_error():
    check(lambda x: (x + 1, Slotted(1, 2, 3)), X)


def test_sequences_are_packed_by_their_lengths():
    def fn(x, lengths):
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return packed, packed._replace(data=packed.data * 2), packed.is_cuda

    with tracer.config.patch(capture_dynamic_output_shape_ops=True):
        captured(fn, torch.randn(3, 4, 2), torch.tensor([2, 4, 1]))
