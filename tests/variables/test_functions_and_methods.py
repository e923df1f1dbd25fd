"""What functions, cells and methods of built-in objects are beside being called: compared, named, given attributes."""

from __future__ import annotations

import functools
import gc
import inspect
import re
import types
import typing

import torch

from tests.support import captured, check
from tracer.api.callables import compiled
from tracer.api.settings import Settings


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


def test_a_partial_object_is_called_by_name():
    add = functools.partial(torch.add, alpha=2)
    captured(lambda x: add.__call__(x, x) + functools.partial(torch.mul, x).__call__(3), torch.ones(2))


def test_a_method_is_bound_by_a_descriptor_of_object():
    bind = object.__setattr__.__get__

    class Box:
        pass

    def fn(x):
        box = Box()
        bind(box)("item", x + 1)
        return box.item

    captured(fn, torch.ones(2))


def test_a_pattern_searches_an_instance_of_a_subclass_of_str():
    class Name(str):
        __slots__ = ()

    pattern = re.compile(r"(\w+)\.(\d+)")

    def fn(x, name):
        found = pattern.match(name)
        return x + int(found.group(2)), found.groups(), pattern.sub("-", name), type(pattern.sub("-", Name("other")))

    captured(fn, torch.ones(2), Name("layer.12"))


def test_the_text_of_a_function_has_its_address():
    def fn(x, function):
        return x + 1, str(function), f"{function}", "test_the_text" in repr(function)

    def one():
        pass

    def other():
        pass

    traced = compiled(fn, Settings(fullgraph=True))
    x = torch.ones(2)
    for function in (one, other, one):
        assert traced(x, function)[1:] == fn(x, function)[1:]


def test_the_code_of_a_function_is_read_again_where_it_was_replaced():
    def changing(a):
        return a

    def fn(x):
        return x + len(inspect.signature(changing).parameters), changing.__code__.co_argcount

    traced = compiled(fn, Settings(fullgraph=True))
    for code in (changing.__code__, (lambda a, b: a).__code__):
        changing.__code__ = code
        assert traced(torch.ones(2))[1:] == fn(torch.ones(2))[1:]


def changing_globally(a):
    return a


def test_the_code_of_a_global_function_is_read_again_where_it_was_replaced():
    def fn(x):
        return x + len(inspect.signature(changing_globally).parameters), changing_globally.__code__.co_argcount

    traced, before = compiled(fn, Settings(fullgraph=True)), changing_globally.__code__
    try:
        for code in (before, (lambda a, b: a).__code__):
            changing_globally.__code__ = code
            assert traced(torch.ones(2))[1:] == fn(torch.ones(2))[1:]
    finally:
        changing_globally.__code__ = before


class Names(dict):
    def __missing__(self, name):
        return f"missing {name}"


def named():
    return int, unknown  # noqa: F821


def test_globals_that_answer_for_names_are_asked_as_in_cpython():
    def fn(x):
        function = types.FunctionType(named.__code__, Names())
        return x + 1, function()

    check(fn, torch.ones(2))


def test_what_a_type_parameter_makes_at_each_read_is_made_at_each_read():
    def fn(x, parameters):
        return x + 1, parameters.args == parameters.args, parameters.kwargs is parameters.kwargs

    check(fn, torch.ones(2), typing.ParamSpec("P"))


def test_what_a_type_parameter_makes_may_die_before_the_code_compiled_for_it():
    def fn(x, parameters):
        return x + 1, parameters.args is parameters.args

    traced = compiled(fn, Settings())
    for _ in range(3):
        assert traced(torch.ones(2), typing.ParamSpec("P"))[1] is False
    taking_their_memory = [bytes([255] * 100) for _ in range(1000)]
    del traced, taking_their_memory
    gc.collect()  # CPython 3.12 to 3.14 follow weak references into the freed memory


class Marked:
    def method(self):
        pass

    method.flag = True
    number = 3


def test_methods_written_in_c_have_no_attributes_of_their_own():
    def fn(x, given):
        made = Marked()
        names = [each for each in dir(made) if each != "__weakref__"]
        found = [[name for name in names if getattr(getattr(each, name), "flag", False)] for each in (made, given)]
        methods = [].append, {}.get, x.add, "a".join, dict.fromkeys, given.__eq__, bytearray().extend, object.__new__
        return x + 1, found, [hasattr(method, "flag") for method in methods]

    captured(fn, torch.ones(2), Marked())


def test_what_is_said_of_an_attribute_that_a_method_written_in_c_lacks():
    def said(make):
        try:
            return make().flag
        except AttributeError as error:
            return str(error)

    def fn(x, given):
        return x + 1, said(lambda: [].append), said(lambda: given.__eq__), said(lambda: x.add), said(lambda: "a".join)

    captured(fn, torch.ones(2), Marked())
