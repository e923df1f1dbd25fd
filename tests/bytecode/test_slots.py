"""The names of the slots that a call fills."""

import inspect

from tracer.bytecode.slots import argument_slots, slot_of_others


def everything(a, /, b, *args, c, d=1, **kwargs):
    local = a
    return local


def only_args(a, *rest):
    return a, rest


def only_kwargs(a, **options):
    return a, options


def test_keyword_only_arguments_come_before_args_and_kwargs():
    assert argument_slots(everything.__code__) == ("a", "b", "c", "d", "args", "kwargs")


def test_the_slot_of_others_is_the_last_or_the_one_before_kwargs():
    slots = [
        (slot_of_others(f.__code__, inspect.CO_VARARGS), slot_of_others(f.__code__, inspect.CO_VARKEYWORDS))
        for f in (everything, only_args, only_kwargs)
    ]
    assert slots == [("args", "kwargs"), ("rest", None), (None, "options")]
