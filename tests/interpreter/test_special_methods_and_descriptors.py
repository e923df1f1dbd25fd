"""Special methods, descriptors and slot wrappers looked up as C looks them up, and no code of the program run for it."""

from __future__ import annotations

import collections
import copy
import functools
import gc
import math
import operator
import re
import sys
import warnings
import weakref

import pytest
import torch

from tests.support import captured, check, check_made
from tracer import config

X = torch.ones(2)


class Mine(Exception):
    pass


class Failing:
    """A descriptor that cannot be read."""

    def __get__(self, obj, owner):
        raise Mine


class Counting:
    """A descriptor that notes each read of its attribute."""

    def __init__(self, function, log):
        self.function, self.log = function, log

    def __get__(self, obj, owner):
        self.log.append("read")
        return self.function.__get__(obj, owner)


ASKED = {
    "__len__": (len, lambda self: 3), "__bool__": (bool, lambda self: True), "__iter__": (iter, lambda self: iter([1])),
    "__contains__": (lambda obj: 1 in obj, lambda self, key: True), "__hash__": (hash, lambda self: 5),
    "__getitem__": (lambda obj: obj[1], lambda self, key: key),
    "__index__": (lambda obj: range(5)[obj], lambda self: 2), "__int__": (int, lambda self: 2),
    "__reversed__": (reversed, lambda self: iter([1])), "__length_hint__": (operator.length_hint, lambda self: 4),
    "__call__": (lambda obj: obj(), lambda self: 8), "__add__": (lambda obj: obj + 1, lambda self, other: 9),
    "__neg__": (operator.neg, lambda self: 9), "__lt__": (lambda obj: obj < 1, lambda self, other: True),
    "__eq__": (lambda obj: obj == 1, lambda self, other: True), "__next__": (next, lambda self: 2),
    "__abs__": (abs, lambda self: 4), "__trunc__": (math.trunc, lambda self: 4), "__sizeof__": (sys.getsizeof, lambda self: 4),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_a_special_method_may_be_a_descriptor(name):
    ask, function = ASKED[name]
    log = []

    class Watching:
        def __getattr__(self, attr):
            log.append(attr)

        def __getattribute__(self, attr):
            log.append(attr)
            return object.__getattribute__(self, attr)

    def fn(x, obj):
        try:
            result = ask(obj)
        except (Mine, TypeError) as error:
            return x, type(error), list(log)
        return x + 1, "iterator" if hasattr(result, "__next__") else result, list(log)

    kinds = [function, Counting(function, log), Failing()]
    for made in kinds[: 2 if name == "__next__" else 3]:  # what compares the arguments asks for that one
        cls = type("Asked", (Watching,), {name: made})
        check_made(fn, lambda: ((X, cls()), {}), reset=log.clear)


def test_super_reads_properties_slots_and_descriptors():
    class Doubling:
        def __get__(self, obj, owner):
            return (obj is None, owner.__name__)

    class Base:
        size = property(lambda self: 3)
        doubled = Doubling()

    class Derived(Base):
        def read(self):
            return super().size, super().doubled

        @classmethod
        def of_class(cls):
            return super().size is Base.__dict__["size"], super().doubled

    def fn(x):
        return x + 1, Derived().read(), Derived.of_class()

    check(fn, X)


def test_slot_wrappers_refuse_objects_of_other_classes():
    class Borrowing:
        __add__, __len__, __eq__, __bool__, __call__ = int.__add__, list.__len__, int.__eq__, int.__bool__, type.__call__
        __getitem__ = dict.__getitem__
        __hash__ = None

    def fn(x):
        found, obj = [object.__eq__(1, 2)], Borrowing()
        for method, *args in ((int.__add__, [], 2), (list.__len__, ()), (type.__call__, 3), (dict.__getitem__, [], 1)):
            try:
                found.append(method(*args))
            except TypeError as error:
                found.append(str(error))
        for ask in (lambda: obj + 1, lambda: len(obj), lambda: obj == 1, lambda: obj[1], lambda: obj(), lambda: bool(obj)):
            try:
                found.append(ask())
            except TypeError as error:
                found.append(str(error))
        return x + len(found), found

    check(fn, X)


def test_a_class_method_of_c_is_bound_by_get():
    method = dict.__dict__["fromkeys"]

    def fn(x, method):
        return x + 1, method.__get__(None, dict)([1]), method.__get__({}, dict)([2])

    check_made(fn, lambda: ((X, method), {}))


def test_state_of_an_object_whose_empty_slots_are_answered_otherwise():
    class Answering:
        __slots__ = ("spam",)

        def __getattr__(self, name):
            if name == "spam":
                return 42
            raise AttributeError(name)

    def fn(x):
        return x + 1, Answering().__reduce_ex__(2)[2], copy.copy(Answering()).spam

    check(fn, X)


def test_attribute_error_knows_the_object_and_the_name():
    class Plain:
        pass

    def fn(x):
        obj, found = Plain(), []
        for ask in (lambda: obj.missing, lambda: object.__getattribute__(obj, "missing"), lambda: obj.__dict__.missing):
            try:
                ask()
            except AttributeError as error:
                found.append((error.name, error.obj is obj, str(error)))
        return x + len(found), found

    check(fn, X)


def test_instance_dict_with_a_key_that_deletes_attributes():
    class Value:
        def __get__(self, obj, owner=None):
            return 1

    def fn(x):
        class Key:
            def __hash__(self):
                return hash("attr")

            def __eq__(self, other):
                del Holder.attr
                return False

        class Holder:
            attr = Value()

        holder = Holder()
        holder.__dict__[Key()] = 0
        return x + holder.attr, hasattr(holder, "attr")

    check(fn, X)


def test_function_without_free_variables_has_no_closure():
    def fn(x):
        def inner():
            pass

        return x + 1, inner.__closure__, inner

    assert check(fn, X).result[2].__closure__ is None


def test_bound_method_behind_a_weak_reference_is_the_same_object():
    class Owner:
        def method(self):
            pass

    def fn(x, method):
        reference = weakref.ref(method)
        return x + 1, reference() is method

    check_made(fn, lambda: ((X, Owner().method), {}))


def test_an_f_string_has_the_text_that_a_subclass_gives():
    class Shown(str):
        def __str__(self):
            return "shown"

    def fn(x):
        return x + 1, f"{Shown('a')}", "{}".format(Shown("a")), f"{Shown('a'):>5}", format(Shown("a"))

    check(fn, X)


@pytest.mark.parametrize("kind", [re.Match, type(functools.cmp_to_key(None))])
def test_class_that_only_c_makes_instances_of(kind):
    def fn(x):
        try:
            return x, kind()
        except TypeError as error:
            return x + 1, str(error)

    check(fn, X)


def test_attribute_of_an_immutable_class():
    def fn(x):
        try:
            re.Match.extra = 1
        except TypeError as error:
            return x + 1, str(error)
        return x

    check(fn, X)


def test_patterns_that_warn_or_print_when_they_are_compiled(capsys):
    def fn(x, flags):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            re.compile("(?:[[a])", flags)
        return x + 1, [(item.category, item.filename) for item in told]

    check_made(fn, lambda: ((X, 0), {}), reset=re.purge)

    def printing(x):
        re.compile("ab?", re.DEBUG)
        return x + 1

    capsys.readouterr()
    printing(X)
    shown = capsys.readouterr().out
    check(printing, X)
    assert capsys.readouterr().out == shown * 4


def test_weak_proxy_of_a_callable_is_not_asked_while_tracing():
    def fn(x):
        function = functools.partial(int, base=16)
        proxy = weakref.proxy(function)
        found = proxy.func is function.func
        function = None
        gc.collect(0)
        try:
            return x, proxy.func
        except ReferenceError:
            return x + 1, found

    check(fn, X)


def test_finalizers_are_found_while_others_are_registered():
    class Owner:
        pass

    def fn(x, owner, log):
        finalizer = weakref.finalize(owner, log.append, 1)
        alive = finalizer.alive
        finalizer()
        return x + 1, alive, finalizer.alive, log

    check_made(fn, lambda: ((X, Owner(), []), {}))


def test_class_method_of_a_class_that_the_trace_makes():
    def fn(x):
        class Refused(Exception):
            pass

        class Table(dict):
            def __init__(self):
                raise Refused

        try:
            return x, Table.fromkeys([1])
        except Refused:
            return x + 1

    check(fn, X)


def test_builtin_that_the_module_of_the_caller_has_another_of():
    namespaces = [{"gc": gc}, {"ascii": lambda obj: "another", "__name__": "caller"}]
    exec("def callee(obj):\n    return ascii(obj)", namespaces[0])
    exec("def caller(x, callee, obj):\n    return x + 1, callee(obj)", namespaces[1])

    class Shown:
        def __repr__(self):
            gc.collect(0)
            return "shown"

    check_made(namespaces[1]["caller"], lambda: ((X, namespaces[0]["callee"], Shown()), {}))


@pytest.mark.parametrize("search", [lambda queue: 3 in queue, lambda queue: queue.count(3), lambda queue: queue.remove(3)])
def test_deque_that_a_comparison_empties(search):
    class Emptying:
        def __eq__(self, other):
            queues[0].clear()
            return NotImplemented

    queues = [None]

    def fn(x):
        queues[0] = collections.deque([Emptying(), Emptying()])
        try:
            return x, search(queues[0])
        except (RuntimeError, IndexError) as error:
            return x + 1, str(error)

    check(fn, X)


def test_arguments_of_object_that_it_does_not_take():
    class Base:
        def __init_subclass__(cls, **kwargs):
            super().__init_subclass__(**kwargs)

    def make():
        class Derived(Base, other=1):
            pass

    class Odd(Base):
        def method(*args):
            return super()

        def deleted(self):
            del self
            return super()

    def keywords(**kwargs):
        return kwargs

    def f(x):
        found = []
        for call in (
            make,
            lambda: Odd().method(),
            lambda: Odd().deleted(),
            lambda: keywords(**{1: 2}),
            lambda: object.__new__(int),
            lambda: dict.__new__(collections.OrderedDict),
        ):
            try:
                found.append(type(call()))
            except (TypeError, RuntimeError) as error:
                found.append((type(error), str(error)))
        return x.sin(), found

    check(f, torch.ones(2))
    with config.patch(convert_every_frame=True):
        check(f, torch.ones(2))


class AddedTo:
    def __radd__(self, other):
        return 7.0


class AddedToAsWell(AddedTo):
    pass


class AddedToMeta(type):
    def __radd__(cls, other):
        return 6.0


class AddedToClass(metaclass=AddedToMeta):
    pass


@pytest.mark.parametrize("sides", [(AddedTo, AddedTo), (AddedTo, AddedToAsWell), (AddedToAsWell, AddedTo), (float, AddedTo)])
def test_a_reflected_operator_is_not_asked_of_two_objects_of_one_class(sides):
    def f(x, left, right):
        try:
            return x * (left() + right())
        except TypeError:
            return x * 2

    check(f, torch.ones(2), *sides)


def test_a_reflected_operator_of_a_metaclass():
    def f(x):
        try:
            return AddedToClass + AddedToClass
        except TypeError:
            return x * (3.0 + AddedToClass)

    check(f, torch.ones(2))


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


class WithMethods:
    @classmethod
    def named(cls, x):
        return x + 1, cls.__name__

    @staticmethod
    def plain(x):
        return x + 2


class Derived(WithMethods):
    pass


def test_class_methods_and_static_methods_are_read_by_hand():
    def fn(x):
        named, plain = vars(WithMethods)["named"], WithMethods.__dict__["plain"]
        bound = named.__get__(None, Derived), named.__get__(Derived()), plain.__get__(None, Derived)
        return [method(x) for method in bound], named.__func__(Derived, x), plain(x), plain.__wrapped__(x)

    captured(fn, torch.ones(2))


def test_new_and_init_of_builtin_classes_are_called_by_name():
    def fn(x):
        items, table, members = list.__new__(list, (9,)), dict.__new__(dict), set.__new__(set, [1])
        list.__init__(items, (1, 2))
        dict.__init__(table, a=x)
        values = tuple.__new__(tuple, [1, 2]), int.__new__(int, "4"), str.__new__(str, 5), float.__new__(float, 2)
        return x * len(items), items, table, members, values, frozenset.__new__(frozenset, [1]), type(object.__new__(object))

    captured(fn, torch.ones(2))
