"""Generators that are not run to their end, and what unpacking takes from an iterator."""

from __future__ import annotations

import contextlib
import sys

import pytest
import torch

import tracer
from tests.support import captured, check
from tests.support.finalisers import Finalised

X = torch.arange(6.0).reshape(2, 3)


def counting(log):
    try:
        for number in range(3):
            log.append(number)
            yield number
    finally:
        log.append("closed")


def first_of(log):
    for number in counting(log):
        return number


@contextlib.contextmanager
def noting(log):
    log.append("in")
    try:
        yield 3
    finally:
        log.append("out")


def test_a_generator_left_in_a_loop_is_closed_at_once():
    def f(x, log):
        for number in counting(log):
            if number == 1:
                break
        return x + number, list(log)

    check(f, X, [])


def test_a_generator_deleted_half_way_is_closed_at_once():
    def f(x, log):
        numbers = counting(log)
        y = x + next(numbers)
        del numbers
        log.append("after")
        return y

    check(f, X, [])


def test_a_generator_left_by_a_callee_breaks_the_graph_there():
    def f(x, log):
        y = x + 1
        y = y + first_of(log)
        log.append("after")
        return y * 2

    assert len(check(f, X, []).graphs) == 2


class Caches:
    """A sequence by the old protocol: its iterator is a generator suspended in a try block."""

    def __init__(self, items):
        self.items = items

    def __iter__(self):
        i = 0
        try:
            while True:
                yield self.items[i]
                i += 1
        except IndexError:
            return


def test_a_generator_whose_close_does_nothing_breaks_nothing():
    def f(x, caches):
        for number, item in zip(range(1), caches):  # zip stops first
            x = x + item + number
        return x

    captured(f, X, Caches([1, 2, 3]))


def test_a_generator_left_in_a_try_block_that_only_reads():
    def reading(items):
        try:
            for item in items:
                yield item
        finally:
            done = len(items)
            assert done

    def f(x, items):
        for item in reading(items):
            return x + item

    captured(f, X, [1, 2, 3])


def test_closing_changes_what_the_program_made_itself():
    def f(x):
        log = []
        for number in counting(log):
            break
        return x + number, log

    check(f, X)


def test_closing_ends_a_mode_of_torch():
    def halves(x):
        with torch.no_grad():
            yield x * 2
            yield x * 3

    def f(x):
        x = x.requires_grad_()
        for item in halves(x):
            break
        return item, x * 2

    check(f, X)


def test_a_generator_that_refuses_to_close(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda arguments: reported.append(str(arguments.exc_value)))

    def stubborn():
        while True:
            try:
                yield 1
            except GeneratorExit:
                pass

    def f(x):
        for number in stubborn():
            break
        return x + number

    check(f, X)
    assert reported == ["generator ignored GeneratorExit"] * 4


def test_a_generator_run_to_its_end_breaks_nothing():
    def f(x, log):
        numbers = counting(log)
        y = x + next(numbers)
        return y, list(numbers)

    assert not check(f, X, []).breaks


def test_a_break_inside_of_a_with_block_of_a_generator():
    def f(x, log):
        y = x + 1
        with noting(log) as number:
            y = y + number
            tracer.graph_break()
            log.append("body")
        return y * 2

    check(f, X, [])


def test_a_generator_that_raises_stop_iteration():
    def f(x, log):
        def numbers():
            yield 1
            next(iter([]))

        try:
            for number in numbers():
                log.append(number)
        except RuntimeError as error:
            return x + 1, error

    check(f, X, [])


def test_unpacking_takes_one_item_more_than_it_needs():
    def f(x, log):
        try:
            a, b = counting(log)
        except ValueError as error:
            log.append(error.args)
        return x + 1

    def endless():
        while True:
            yield 1

    def g(x):
        try:
            a, b = endless()
        except ValueError:
            return x + 1

    check(f, X, [])
    check(g, X)


def test_unpacking_what_cannot_be_iterated():
    class Plain:
        pass

    def f(x, plain):
        messages = []
        for value in (3, None, plain):
            try:
                a, b = value
            except TypeError as error:
                messages.append(error.args)
        return x + 1, messages

    check(f, X, Plain())


def test_the_cause_of_an_exception_must_be_one():
    def f(x):
        try:
            raise KeyError("a") from 3
        except TypeError as error:
            return x + 1, error.args

    check(f, X)


def test_objects_that_note_their_end_are_made():
    def f(x, log):
        Finalised(log)
        return x + 1

    check(f, X, [])


def _numbers(log, breaks=False):
    try:
        yield 1
        if breaks:
            tracer.graph_break()
        yield 2
        yield 3
    finally:
        log.append("closed")


def test_generator_is_closed_where_its_loop_ends_after_a_graph_break_in_the_loop():
    def fn(x, log):
        for i in _numbers(log):
            x = x + i
            tracer.graph_break()
            log.append(i)
            break
        log.append("after")
        return x * 2

    check(fn, torch.ones(2), [])


def test_generator_below_an_enumerate_is_closed_where_its_loop_ends():
    def fn(x, log):
        for i, item in enumerate(_numbers(log)):
            x = x + item
            tracer.graph_break()
            if i == 1:
                break
        log.append("after")
        return x * 2

    check(fn, torch.ones(2), [])


def test_generator_that_breaks_the_graph_is_closed_where_its_loop_ends():
    def fn(x, log):
        for i in _numbers(log, breaks=True):
            x = x + i
            if i == 2:
                break
        log.append("after")
        return x * 2

    check(fn, torch.ones(2), [])


@contextlib.contextmanager
def noting_at_the_end(log):
    yield 4
    tracer.graph_break()
    log.append("out")


@contextlib.contextmanager
def noting_in_another(log):
    with noting_at_the_end(log) as number:
        yield number


def test_an_inner_context_is_left_though_the_graph_breaks_on_the_way_out():
    """Whether closing the outer generator has an effect is found out on trial, which leaves the inner one where it is."""

    def f(x, log):
        with noting_in_another(log) as number:
            y = x + number
        return y

    log = []
    assert torch.equal(tracer.compile(f)(X, log), X + 4)
    assert log == ["out"]


def one_by_one(x):
    for number in range(3):
        yield x * number


def passed_on(x):
    yield from one_by_one(x)


def passed_on_in_a_try_block(x):
    try:
        yield from one_by_one(x)
    except KeyError:
        yield x


def passed_on_twice_in_a_with_block(x):
    with torch.no_grad():
        yield from passed_on_in_a_try_block(x)


def another_run_to_its_end(x):
    others = one_by_one(x)
    try:
        for _ in range(3):
            yield next(others)
    finally:
        for _ in others:
            pass


@pytest.mark.parametrize(
    "generator", [passed_on, passed_on_in_a_try_block, passed_on_twice_in_a_with_block, another_run_to_its_end]
)
def test_what_closing_would_do_is_not_done_to_the_generators_that_a_generator_uses(generator):
    def f(x):
        items = []
        for item in generator(x + 1):
            tracer.graph_break()
            items.append(item)
        return items

    assert len(check(f, X).result) == 3
