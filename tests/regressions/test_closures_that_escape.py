"""Functions made in a trace that escape and whose cells lead back to them."""

import torch

from tests.support import captured

X = torch.arange(4.0)


def test_a_recursive_function_that_escapes_is_the_one_that_it_calls():
    def fn(x):
        def again():
            return again

        return again, x + 1

    checked = captured(fn, X)
    again = checked.result[0]
    assert again() is again


def test_two_functions_that_escape_and_call_each_other():
    def fn(x):
        def first():
            return second, first

        def second():
            return first, second

        return [first, second, x + 1]

    checked = captured(fn, X)
    first, second, _ = checked.result
    assert first() == (second, first) and second() == (first, second)


def test_a_list_that_holds_the_function_that_holds_the_list():
    def fn(x):
        found = []

        def show():
            return found

        found.append(show)
        return show, x + 1

    checked = captured(fn, X)
    show = checked.result[0]
    assert show()[0] is show


def test_a_tuple_that_a_list_in_it_leads_back_to():
    def fn(x):
        found = []
        pair = (found, x + 1)
        found.append(pair)
        return pair

    checked = captured(fn, X)
    assert checked.result[0][0] is checked.result
