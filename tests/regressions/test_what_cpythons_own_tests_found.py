"""Differences from CPython that its own tests have shown, each as a program of its own."""

from __future__ import annotations

import contextlib
import enum
import gc
import itertools
import random
import re
import types
import warnings
import weakref
from collections import UserDict
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from tests.support import breaks, captured, check, check_made
from tracer.api.callables import compiled
from tracer.api.settings import Settings
from tracer.effects.random_draws import generator_states, restore_states


class Counting:
    """Counts how often it is hashed and compared."""

    def __init__(self, value):
        self.value, self.hashed, self.compared, self.fails = value, 0, 0, False

    def __hash__(self):
        if self.fails:
            raise KeyError("not now")
        self.hashed += 1
        return hash(self.value)

    def __eq__(self, other):
        self.compared += 1
        return isinstance(other, Counting) and self.value == other.value


class Failing:
    def __init__(self):
        self.fails = False

    def __hash__(self):
        if self.fails:
            raise KeyError("not now")
        return 7

    def __eq__(self, other):
        return self is other


def test_hash_of_a_key_runs_as_often_as_in_cpython():
    def fn(x):
        key, again = Counting(3), Counting(3)
        table = {key: 1}
        table.setdefault(again, 5)
        return x + key.hashed + 10 * again.hashed + 100 * (key.compared + again.compared), table

    check(fn, torch.ones(2))


def test_key_whose_hash_fails_after_it_was_stored():
    def fn(x):
        key = Failing()
        table = {key: 1}
        key.fails = True
        return x + 1, list(table.values())

    check(fn, torch.ones(2))


def test_int_key_in_an_instance_dict():
    class Plain:
        pass

    def fn(x):
        plain = Plain()
        plain.__dict__[1] = x
        return x + 1, plain.__dict__

    check(fn, torch.ones(2))


def test_methods_of_one_dict_are_told_apart_when_they_are_arguments():
    table = {"a": 1, "b": 2}

    def fn(x, method):
        return x + sum(len(str(item)) for item in method())

    traced = compiled(fn, Settings())
    x = torch.ones(2)
    for method in (table.keys, table.items, table.values):
        assert torch.equal(traced(x, method), fn(x, method))


def test_method_of_a_list_keeps_its_identity():
    def fn(x, method):
        return x + 1, method

    method = [].append
    assert compiled(fn, Settings())(torch.ones(2), method)[1] is method


def test_class_has_no_annotations_of_its_base():
    class Base:
        attr: int

    class Derived(Base):
        pass

    def fn(x):
        return x + 1, Base.__annotations__, Derived.__annotations__

    check(fn, torch.ones(2))


def test_property_of_a_metaclass_comes_before_the_class_attribute():
    class Meta(type):
        @property
        def size(cls):
            return 3

    class Sized(metaclass=Meta):
        size = 5

    def fn(x):
        return x + Sized.size, Sized().size

    captured(fn, torch.ones(2))


def test_lists_that_a_comparison_empties():
    def make():
        class Emptying:
            def __eq__(self, other):
                lists[0].clear()
                lists[1].clear()
                return NotImplemented

        lists = [[Emptying()], [1]]
        return (torch.ones(2), lists[0], lists[1]), {}

    def fn(x, left, right):
        return x + 1, left == right

    check_made(fn, make)


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


def test_dict_of_a_hundred_thousand_keys_is_not_looked_into():
    table = dict.fromkeys(range(100_000), 1)

    def fn(x, table):
        return x + table[5] + len(table)

    breaks(fn, torch.ones(2), table)


def test_generator_that_holds_itself():
    def fn(x):
        def numbers():
            yield 1
            yield held[0] is None

        held = [None]
        held[0] = numbers()
        total = x + next(held[0])
        for item in held[0]:
            total = total + item
            break
        gc.collect()
        return total

    check(fn, torch.ones(2))


class Point:
    __match_args__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


class NoTuple:
    __match_args__ = ["a"]


class NotOnlyNames:
    __match_args__ = ("a", 1)
    a = 1


@pytest.mark.parametrize("make", [lambda: Point(1, 2), NoTuple, NotOnlyNames, lambda: 5, lambda: "text"])
def test_class_patterns_that_ask_for_too_much(make):
    def fn(x, value):
        found = []
        for cls in (Point, NoTuple, NotOnlyNames, int, str):
            for number in range(3):
                try:
                    if number == 0:
                        match value:
                            case cls(a, missing=b):
                                found.append((a, b))
                    elif number == 1:
                        match value:
                            case cls(a, b):
                                found.append((a, b))
                    else:
                        match value:
                            case cls(a, a=b):
                                found.append((a, b))
                except TypeError as error:
                    found.append(str(error))
        return x + len(found), found

    check_made(fn, lambda: ((torch.ones(2), make()), {}))


def test_mapping_pattern_with_the_same_key_twice():
    class Names:
        a = "a"

    def fn(x, table):
        try:
            match table:
                case {Names.a: first, "a": second}:
                    return x + first + second
        except ValueError as error:
            return x, str(error)

    check(fn, torch.ones(2), {"a": 1, "b": 2})


def test_class_that_is_a_mapping_and_registered_as_a_sequence():
    class Both(UserDict, Sequence):
        pass

    class Registered:
        pass

    Sequence.register(Registered)

    def kind(value):
        match value:
            case {}:
                return "mapping"
            case [*_]:
                return "sequence"
        return "neither"

    def fn(x, both):
        return x + 1, kind(both), [isinstance(value, Sequence) for value in (both, Registered())]

    check_made(fn, lambda: ((torch.ones(2), Both()), {}))


def test_code_that_is_executed_among_the_locals_of_the_frame():
    def fn(x):
        doubled = x * 2
        breaks_here = id(doubled) > 0
        names = {}  # noqa: F841  (read by the code below)
        exec("names['found'] = float(doubled.sum())")
        return doubled + eval("names['found']") + breaks_here

    check(fn, torch.ones(2))


def test_attributes_of_functions_that_take_text_alone():
    def function():
        pass

    def fn(x):
        def inner():
            pass

        words = []
        for each in (function, inner):
            for name in ("__name__", "__qualname__", "__kwdefaults__", "__annotations__", "__dict__"):
                try:
                    setattr(each, name, 7)
                except TypeError as error:
                    words.append(str(error))
        return x + len(words), words

    check(fn, torch.ones(2))


def test_cells_and_bound_methods_are_compared_by_what_they_hold():
    def cell(value):
        return (lambda: value).__closure__[0]

    def fn(x):
        items = []
        return x + 1, cell(2) == cell(2), cell(1) == cell(2), items.append == items.append, items.append == [].append

    check(fn, torch.ones(2))


class Noted:
    pass


def test_what_a_resume_function_deletes_dies_at_once():
    def fn(x):
        first = Noted()
        alive = weakref.ref(first)  # breaks the graph
        found = [alive() is None]
        del first
        gc.collect(0)  # again
        found.append(alive() is None)
        return x + 1, found

    assert breaks(fn, torch.ones(2)).result[1] == [False, True]


def test_tensor_that_a_resume_function_overwrites_is_freed():
    def fn(x):
        big = x + 1
        alive = weakref.ref(big)
        gc.collect(0)
        big = big.sum()
        gc.collect(0)
        return big, alive() is None

    assert breaks(fn, torch.ones(2)).result[1]


def test_argument_that_a_callee_deletes_dies_at_once():
    def callee(box):
        value = box.pop()
        alive = weakref.ref(value)
        last(value, alive)
        return alive() is None

    def last(value, alive):
        del value
        gc.collect(0)

    def fn(x):
        return x + 1, callee([Noted()])

    check(fn, torch.ones(2))


def test_recursion_that_goes_as_deep_as_it_can():
    def deep(n):
        id(n)  # breaks the graph
        try:
            return deep(n + 1)
        except RecursionError:
            return n > 10

    def fn(x):
        return x + 1, deep(0)

    check(fn, torch.ones(2))


def test_module_whose_class_watches_its_attributes():
    class Watched(types.ModuleType):
        def __getattribute__(self, name):
            log.append(name)
            return types.ModuleType.__getattribute__(self, name)

        def __setattr__(self, name, value):
            log.append((name, value))
            types.ModuleType.__setattr__(self, name, value)

    log = []
    module = Watched("watched")

    def fn(x):
        module.rate = 2
        return x * module.rate

    log.clear()
    fn(torch.ones(2))
    expected = list(log)
    log.clear()
    compiled(fn, Settings())(torch.ones(2))
    assert log == expected


def test_dict_of_a_module_cannot_be_replaced():
    module = types.ModuleType("plain")

    def fn(x):
        try:
            module.__dict__ = {}
        except (TypeError, AttributeError) as error:
            return x, str(error)

    check(fn, torch.ones(2))


def test_pairwise_over_an_iterator_that_asks_the_pairs():
    def make_pairs(at):
        class Numbers:
            count = 0

            def __iter__(self):
                return self

            def __next__(self):
                self.count += 1
                return next(pairs) if self.count in at else [self.count]

        pairs = itertools.pairwise(Numbers())
        return [next(pairs) for _ in range(4)]

    def fn(x, at):
        return x + 1, make_pairs(at)

    for at in ({1}, {2}, {3}):
        check(fn, torch.ones(2), at)


def test_reflected_method_that_is_only_inherited_is_not_asked_first():
    class Base:
        def __sub__(self, other):
            return "sub"

        def __rsub__(self, other):
            return "rsub"

    class Inheriting(Base):
        pass

    class Overriding(Base):
        def __rsub__(self, other):
            return "overridden"

    def fn(x):
        return x + 1, Base() - Inheriting(), Inheriting() - Base(), Base() - Overriding()

    captured(fn, torch.ones(2))


def test_class_that_is_being_made():
    def measure(cls, x):
        return x + len(cls.__name__), cls.__mro__

    def fn(x):
        class Meta(type):
            def mro(cls):
                found.append(measure(cls, x)[1])
                return super().mro()

        class Made(metaclass=Meta):
            pass

        return x + len(found)

    found = []
    check_made(fn, lambda: ((torch.ones(2),), {}), reset=found.clear)


def test_exception_whose_metaclass_cannot_say_what_it_is():
    class Meta(type):
        def __subclasscheck__(cls, subclass):
            raise ValueError("asked")

    class Odd(Exception, metaclass=Meta):
        pass

    def fn(x):
        try:
            raise KeyError("key")
        except Odd:
            return x
        except KeyError:
            return x + 1

    check(fn, torch.ones(2))


class Named(int):
    def __new__(cls, value, name):
        made = super().__new__(cls, value)
        made.name = name
        return made

    def __repr__(self):
        return self.name


SEVEN = Named(7, "SEVEN")


def test_a_number_of_a_class_with_a_repr_of_its_own_is_written_by_it():
    def fn(x):
        texts = [str(SEVEN), f"{SEVEN}", f"{SEVEN!s:>7}", "%s %r %d" % (SEVEN, SEVEN, SEVEN), "{}".format(SEVEN)]
        return x + 1, texts, f"{SEVEN:>4}"

    check(fn, torch.ones(2))


class Fails(enum.Enum):
    ONE = 1

    @classmethod
    def _missing_(cls, value):
        raise (ZeroDivisionError if value == 2 else ValueError)(value)


def test_an_error_of_missing_leads_to_the_value_that_is_none():
    def fn(x):
        found = []
        for value in (2, 3):
            try:
                Fails(value)
            except (ZeroDivisionError, ValueError) as error:
                found.append((type(error), error.args, type(error.__context__), str(error.__context__)))
        return x + 1, found

    check(fn, torch.ones(2))


def test_draws_of_a_generator_whose_init_is_not_over_can_be_undone():
    generator = random.Random.__new__(random.Random)
    states = generator_states(generator)
    drawn = generator.random()
    restore_states(states)
    assert generator.random() == drawn
    generator.seed(3)
    states, drawn = generator_states(generator), generator.gauss(0, 1)
    restore_states(states)
    assert generator.gauss(0, 1) == drawn


def test_a_warning_of_a_flag_of_re_is_given_when_the_program_runs():
    def fn(x):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            warnings.warn("first")
            re.purge()
            re.compile("a", re.TEMPLATE)
        return x + 1, [str(warning.message) for warning in told]

    breaks(fn, torch.ones(2))


def test_members_are_not_assigned_anew():
    def fn(x):
        told = []
        with contextlib.suppress(AttributeError):
            Fails.ONE = 2
            told.append("assigned")
        try:
            del Fails.ONE
        except AttributeError as error:
            told.append(str(error))
        return x + 1, told, Fails.ONE.value

    check(fn, torch.ones(2))


def test_a_generator_is_named_after_its_function():
    def fn(x):
        def items():
            yield 1

        items.__name__, items.__qualname__ = "other", "quite.other"
        made = items()
        return x + 1, made.__name__, made.__qualname__

    check(fn, torch.ones(2))


def test_the_traceback_of_an_error_that_c_raises_of_a_class_that_cannot_be_instantiated() -> None:
    """It begins with the frame of `__init__`: the one that called C was left before."""
    raising = pytest.importorskip("_testcapi").raise_exception

    class Bad(Exception):
        def __init__(self) -> None:
            raise RuntimeError("cannot be made")

    def names(error: BaseException) -> list[str]:
        found = []
        traceback = error.__traceback__
        while traceback is not None:
            found.append(traceback.tb_frame.f_code.co_name)
            traceback = traceback.tb_next
        return found

    def inner() -> list[str]:
        try:
            raising(Bad, 0)
        except RuntimeError as error:
            return names(error)
        return []

    def f(x: torch.Tensor) -> Any:
        y = x.sin()
        own: list[str] = []
        try:
            raising(Bad, 0)
        except RuntimeError as error:
            own = names(error)
        return y, own, inner()

    checked = check(f, torch.ones(2))
    assert checked.result[1:] == (["__init__"], ["__init__"])
