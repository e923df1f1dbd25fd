"""Instances of subclasses of built-in classes: their methods and operators give what CPython's give, and iterators and views
of them refer to the object itself."""

from __future__ import annotations

import collections
import functools
import gc
import operator
import types

import pytest
import torch

from tests.support import captured, check, check_made
from tracer import config

X = torch.ones(2)


class Table(dict):
    pass


class Ordered(collections.OrderedDict):
    pass


class Defaulting(collections.defaultdict):
    pass


class Items(list):
    pass


class Fixed(tuple):
    pass


class Group(set):
    pass


class Frozen(frozenset):
    pass


class Queue(collections.deque):
    pass


class Number(int):
    pass


class Real(float):
    pass


class Text(str):
    pass


class Raw(bytes):
    pass


MAKE = {
    Table: (lambda: Table(a=1, b=2), dict),
    Ordered: (lambda: Ordered(a=1, b=2), collections.OrderedDict),
    Defaulting: (lambda: Defaulting(int, a=1, b=2), functools.partial(collections.defaultdict, int)),
    Items: (lambda: Items([1, 2]), list),
    Fixed: (lambda: Fixed((1, 2)), tuple),
    Group: (lambda: Group([1, 2]), set),
    Frozen: (lambda: Frozen([1, 2]), frozenset),
    Queue: (lambda: Queue([1, 2]), collections.deque),
    Number: (lambda: Number(5), int),
    Real: (lambda: Real(2.5), float),
    Text: (lambda: Text("ab"), str),
    Raw: (lambda: Raw(b"ab"), bytes),
}


OPERATORS = [
    operator.eq, operator.ne, operator.lt, operator.le, operator.add, operator.mul, operator.or_, operator.and_, operator.sub,
    operator.xor, operator.iadd, operator.ior, operator.iand, operator.mod, operator.contains, operator.getitem,
]  # fmt: skip


ARGUMENTS = {
    "nothing": lambda make: (),
    "a key": lambda make: ("a",),
    "a number": lambda make: (1,),
    "two": lambda make: ("a", 3),
    "another": lambda make: (make(),),
    "pairs": lambda make: ([("c", 3)],),
}


_LEFT_OUT = {
    "__class__", "__new__", "__init__", "__dict__", "__weakref__", "__doc__", "__init_subclass__", "__subclasshook__", "__dir__",
    "__sizeof__", "__getattribute__", "__setattr__", "__delattr__", "__reduce__", "__reduce_ex__", "__getstate__", "__module__",
    "__hash__", "__class_getitem__",
}  # fmt: skip


def compare(program, make):
    """As CPython: result, error and what the arguments became."""

    def fn(x, *args):
        try:
            result = program(*args)
        except Exception as error:
            return x + 1, type(error), str(error), args
        kind = "iterator" if hasattr(result, "__next__") else type(result)
        return x + 1, kind, result, args

    with config.patch(accumulated_recompile_limit=1 << 30):
        check_made(fn, lambda: ((X, *make()), {}), calls=1)


@pytest.mark.parametrize("cls", MAKE)
def test_equality_with_an_instance_of_the_same_class_and_with_a_plain_one(cls):
    make, plain = MAKE[cls]
    for op in (operator.eq, operator.ne):
        compare(op, lambda: (make(), make()))
        compare(op, lambda: (make(), plain(make())))
        compare(op, lambda: (plain(make()), make()))
    compare(lambda: [make() == make(), make() != make(), make() == plain(make()), plain(make()) == make()], lambda: ())


@pytest.mark.full
@pytest.mark.parametrize("cls", MAKE)
def test_every_operator(cls):
    make, plain = MAKE[cls]
    for other in (make, lambda: plain(make()), lambda: 3, lambda: [1, 2], lambda: {"a": 1, "b": 2}):
        for op in OPERATORS:
            compare(op, lambda: (make(), other()))
            compare(op, lambda: (other(), make()))


@pytest.mark.full
@pytest.mark.parametrize("cls", MAKE)
def test_every_method(cls):
    make, _ = MAKE[cls]
    for name in sorted(set(dir(cls)) - _LEFT_OUT):
        for given in ARGUMENTS.values():
            compare(lambda value, *args: getattr(value, name)(*args), lambda: (make(), *given(make)))


@pytest.mark.parametrize(
    ("cls", "program"),
    [
        (Table, lambda table: table.fromkeys("a")),
        (Table, lambda table: operator.attrgetter("__getitem__")(table)("a", 3)),
        (Table, lambda table: table.__ior__({"c": 3})),
        (Ordered, lambda table: table | {"c": 3}),
        (Ordered, lambda table: repr(table)),
        (Defaulting, lambda table: table.copy()),
        (Fixed, lambda items: items.__mul__(1)),
        (Queue, lambda queue: operator.iadd(queue, [3])),
        (Queue, lambda queue: repr(queue)),
        (Queue, lambda queue: queue.copy()),
        (Group, lambda group: group | {3}),
        (Number, lambda number: operator.attrgetter("bit_length")(number)(1)),
        (Number, lambda number: number.__abs__([])),
        (Number, lambda number: 3 in number),
        (Real, lambda number: number | 1),
        (Text, lambda text: [1] in text),
        (Text, lambda text: text < 3),
        (Text, lambda text: text * Text("ab")),
        (Text, lambda text: text.format()),
        (Text, lambda text: text.partition(Text("ab"))),
    ],
)
def test_what_a_method_makes_and_how_its_errors_name_the_class(cls, program):
    make, _ = MAKE[cls]
    compare(program, lambda: (make(),))
    compare(lambda: program(make()), lambda: ())


class Odd(list):
    def __iter__(self):
        yield "odd"

    def __setitem__(self, key, value):
        raise KeyError(key)

    def plainly(self):
        return super().__iter__()


class OddTable(dict):
    def keys(self):
        return ["odd"]

    def plainly(self):
        return super().keys()


@pytest.mark.parametrize(
    ("make", "iterate", "change"),
    [
        (lambda: Items([1, 2]), iter, lambda items: items.append(3)),
        (lambda: Items([1, 2, 3]), reversed, lambda items: items.__setitem__(0, 9)),
        (lambda: Table(a=1, b=2), iter, lambda table: table.update(c=3)),
        (lambda: Table(a=1, b=2), lambda table: iter(table.values()), lambda table: table.update(b=7)),
        (lambda: Table(a=1, b=2), lambda table: iter(table.items()), lambda table: table.update(b=7)),
        (lambda: Group([1, 2]), iter, lambda group: group.add(5)),
        (lambda: Queue([1, 2]), iter, lambda queue: queue.append(5)),
        (lambda: Queue([1, 2, 3]), iter, lambda queue: queue.__setitem__(2, 5)),
        (lambda: collections.deque([1, 2, 3]), iter, lambda queue: queue.__setitem__(2, 5)),
        (lambda: Odd([1, 2]), lambda items: items.plainly(), lambda items: items.append(3)),
        (lambda: OddTable(a=1, b=2), lambda table: iter(table.plainly()), lambda table: table.update(b=3)),
    ],
)
@pytest.mark.parametrize("made_inside", [False, True])
def test_iterator_goes_on_over_the_object_behind_a_break(make, iterate, change, made_inside):
    def fn(x, *given):
        holder = given[0] if given else make()
        iterator = iterate(holder)
        first = next(iterator)
        gc.collect(0)  # breaks the graph
        change(holder)
        gc.collect(0)
        try:
            rest = list(iterator)
        except RuntimeError as error:
            rest = str(error)
        return x + 1, first, rest, len(holder)

    check_made(fn, lambda: ((X,) if made_inside else (X, make()), {}))


def test_views_show_the_object_behind_a_break():
    def fn(x):
        table = Table()
        views = table.keys(), table.values(), table.items(), types.MappingProxyType(table)
        table["own"] = table.keys()
        gc.collect(0)
        table["a"] = 1
        return x + 1, [len(view) for view in views], list(table["own"]), [view.mapping == table for view in views[:3]]

    check_made(fn, lambda: ((X,), {}))


def test_views_of_a_proxy_and_exhausted_iterators_behind_a_break():
    def fn(x, table, proxy):
        values = proxy.values()
        iterators = [iter(table), iter(proxy), iter(table.values()), reversed(table)]
        for iterator in iterators:
            for _ in iterator:
                pass
        gc.collect(0)
        return x + 1, list(values), [list(iterator) for iterator in iterators]

    check_made(fn, lambda: ((X, collections.OrderedDict(a=2), types.MappingProxyType({"b": 1})), {}))


def test_list_that_forbids_stores_is_changed_by_the_methods_of_list():
    def fn(x, items):
        items.append(4)
        gc.collect(0)
        items.pop(0)
        return x + len(items), list.copy(items)

    check_made(fn, lambda: ((X, Odd([1, 2])), {}))


def test_dict_is_updated_from_the_entries_of_another_whatever_its_keys_method_says():
    class Lying(dict):
        def keys(self):
            return ["lie"]

    def fn(x, lying):
        table = {}
        table.update(lying)
        return x + 1, table, dict(lying)

    check_made(fn, lambda: ((X, Lying(a=1)), {}))


class LoudInt(int):
    __hash__ = int.__hash__

    def __eq__(self, other):
        return "equal"

    def __gt__(self, other):
        return "greater"


class LoudFloat(float):
    __hash__ = float.__hash__

    def __eq__(self, other):
        return "equal"

    def __gt__(self, other):
        return "greater"

    def __radd__(self, other):
        return "added"


class LoudText(str):
    __hash__ = str.__hash__

    def __eq__(self, other):
        return "equal"


@pytest.mark.parametrize("made", [lambda: LoudInt(3), lambda: LoudFloat(2.0), lambda: LoudText("a")])
def test_what_a_built_in_class_cannot_compare_asks_the_subclass(made):
    def fn(x, value):
        size = x.shape[0]
        equal = [left == value for left in (None, "a", 2, 2.5, (), size)]
        if isinstance(value, str):
            return x + 1, equal
        return x + 1, equal, 2 < value, 2.5 < value, size < value, 2 + value, True + value, size + value, size * value, 5 - value

    for size in (2, 3, 4):
        check_made(fn, lambda: ((torch.ones(size), made()), {}))
    check_made(fn, lambda: ((torch.ones(3), made()), {}), dynamic=True)


class Times(int):
    def __rmul__(self, other):
        return "times", other


def test_a_number_that_answers_is_asked_before_a_sequence_is_repeated():
    def fn(x, times):
        items = [1]
        items *= times
        return x + 1, "a" * times, [1] * times, (1,) * times, b"a" * times, items, times * [1]

    check_made(fn, lambda: ((X, Times(3)), {}))


def test_a_dict_that_is_iterated_over_in_its_own_way_is_copied_by_its_keys_and_items() -> None:
    class Own(dict):
        def __getitem__(self, key):
            return "own"

        def keys(self):
            return ["key"]

        def __iter__(self):
            return iter(["iterated"])

    def f(x, given):
        made = Own(a=1)
        found = []
        for own in (made, given):
            found.append([own | {"b": 2}, {"b": 2} | own, own.copy(), {**own}, dict(own), dict.copy(own), list(own)])
            other = {"c": 3}
            other |= own
            other.update(own)
            found.append(other)
        return x.sin(), found

    check_made(f, lambda: ((torch.ones(2), Own(a=1)), {}))


@pytest.mark.parametrize("base", [object, list, dict, set])
def test_arguments_that_a_constructor_does_not_take(base):
    class Plain(base):
        pass

    class Passing(base):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)

    class Making(base):
        def __new__(cls, *args, **kwargs):
            return super().__new__(cls, *args, **kwargs)

    def fn(x):
        words = []
        for cls in (Plain, Passing, Making):
            for args, kwargs in (((), {}), ((1,), {}), (((), ()), {}), ((), {"sequence": ()})):
                try:
                    words.append(len(cls(*args, **kwargs)) if base is not object else cls(*args, **kwargs) is None)
                except TypeError as error:
                    words.append(str(error))
        return x + len(words), words

    check(fn, torch.ones(2))


def test_list_that_is_initialised_again_is_emptied_first():
    class Items(list):
        pass

    def fn(x):
        items = Items([1, 2])
        items.__init__([3])
        return x + len(items), list(items)

    check(fn, torch.ones(2))


def test_a_list_of_a_subclass_that_extends_itself_takes_the_items_that_it_has():
    class Items(list):
        pass

    def fn(x, items):
        items.extend(items)
        items += items
        return x + len(items), items

    check(fn, X, Items([1, 2]))


def test_a_dict_subclass_is_united_with_dicts_of_other_classes():
    def fn(x, config):
        others = collections.OrderedDict(b=2), collections.defaultdict(int, c=3), {"d": 4}
        return x + 1, [config | other for other in others], [other | config for other in others], {"a": 0} | others[0]

    captured(fn, X, Table(a=1))
