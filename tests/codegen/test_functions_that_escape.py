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


def of(value):
    def inner():
        return value

    return inner


KEPT = of(3)


def test_cells_are_read_and_written():
    def fn(x):
        held = [x]

        def inner():
            return held

        cell = inner.__closure__[0]
        cell.cell_contents.append(x)
        cell.cell_contents = [x * 3]
        kept = KEPT.__closure__[0]
        before, kept.cell_contents = kept.cell_contents, 5
        after, kept.cell_contents = KEPT(), 3
        closures = inner.__closure__ is inner.__closure__, (lambda: 0).__closure__, type(cell)
        return held[0] * before + after, inner()[0], closures, inner

    assert captured(fn, X).result[3]()[0].tolist() == [0, 3, 6, 9]


def test_an_empty_cell_is_read():
    def fn(x):
        def inner():
            return late

        try:
            inner.__closure__[0].cell_contents
        except ValueError as error:
            words = str(error)
        late = 1
        return x * 2, words, inner.__closure__[0].cell_contents

    captured(fn, X)
