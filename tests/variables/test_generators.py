"""Generators made inside: consumed, half consumed, driven by send, throw and close."""

from __future__ import annotations

import gc
import itertools

import pytest
import torch

import tracer
from tests.support import captured, check
from tests.support.generators import echo, numbers

X = torch.arange(3.0)


def test_a_generator_is_consumed_in_many_ways():
    def f(x):
        total = 0
        for number in numbers(4):
            total += number
        return (
            x + total, list(numbers(3)), sum(n * n for n in numbers(4)), max(numbers(3)), [*numbers(2)],
            dict(zip("ab", numbers(2))), 2 in numbers(5), sorted(-n for n in numbers(3)), tuple(numbers(0)),
            set(numbers(3)), any(n > 1 for n in numbers(9)),
        )  # fmt: skip

    captured(f, X)


def test_yield_from_gives_the_returned_value():
    def outer(log):
        result = yield from numbers(2)
        log.append(result)
        yield from [10, 20]
        yield from "ab"
        return 5

    def f(x):
        log = []
        return x + 1, list(outer(log)), log

    captured(f, X)


def test_send_throw_and_close():
    def f(x):
        e = echo()
        first = next(e)
        second = e.send("a"), e.send(None)
        thrown = e.throw(ValueError("stop"))
        closed = e.close()
        try:
            next(e)
        except StopIteration as stop:
            return x + 1, first, second, thrown, closed, stop.value

    captured(f, X)


def test_send_and_throw_pass_through_yield_from():
    def outer():
        yield from echo()

    def f(x):
        e = outer()
        return x + 1, next(e), e.send("a"), e.throw(ValueError, "deep"), e.close()

    captured(f, X)


def test_stop_iteration_carries_the_value():
    def f(x):
        g = numbers(1)
        next(g)
        try:
            next(g)
        except StopIteration as stop:
            return x + 1, stop.value, next(g, "default")

    captured(f, X)


def test_stop_iteration_inside_becomes_runtime_error():
    def bad():
        yield 1
        raise StopIteration

    def f(x):
        try:
            list(bad())
        except RuntimeError as error:
            return x + 1, str(error), type(error.__cause__)

    captured(f, X)


def test_errors_of_use():
    def f(x):
        errors = []
        for call in (
            lambda: numbers(1).send(5), lambda: numbers(1).throw(KeyError("k")), lambda: next(numbers(0)),
            lambda: len(numbers(1)), lambda: numbers(2)[0],
        ):  # fmt: skip
            try:
                call()
            except Exception as error:
                errors.append((type(error), str(error)))
        return x + 1, errors

    captured(f, X)


def test_close_runs_finally():
    def f(x):
        e = echo()
        next(e)
        e.close()
        return x + 1, list(e)

    captured(f, X)


def test_generator_is_lazy():
    def f(x, log):
        def noisy():
            log.append("start")
            yield 1
            log.append("end")

        g = noisy()
        log.append("made")
        next(g)
        log.append("between")
        next(g, None)
        return x + 1

    captured(f, X, [])


def test_generator_expression_binds_its_first_iterable_at_once():
    def f(x):
        items, offset = [1, 2], 0
        g = (item + offset for item in items)
        items = [5]
        offset = 10
        return x + offset, list(g)

    captured(f, X)


def test_generator_as_an_argument():
    def f(x, items):
        return [item + x for item in items]

    check(f, X, [1, 2])


def test_a_generator_has_its_attributes():
    def f(x):
        g = numbers(2)
        return x + 1, g.__name__, hasattr(g, "send"), iter(g) is g, bool(g)

    check(f, X)


def test_a_generator_may_call_itself():
    def walk(tree):
        for item in tree:
            if isinstance(item, list):
                yield from walk(item)
            else:
                yield item

    captured(lambda x: (x + 1, list(walk([1, [2, [3, []]], 4]))), X)


def test_a_generator_that_runs_itself():
    def f(x):
        def strange():
            try:
                next(g)
            except ValueError as error:
                yield str(error)

        g = strange()
        return x + 1, next(g)

    check(f, X)


class Delegate:
    """An iterator of a class with a `throw` and a `close` of its own."""

    def __init__(self, log):
        self.log = log

    def __iter__(self):
        return self

    def __next__(self):
        return 1

    def throw(self, *details):
        self.log.append(["throw", *map(repr, details)])
        raise StopIteration("from throw")

    def close(self):
        self.log.append("close")


def test_delegation_to_an_object_with_methods_of_its_own():
    def outer(log):
        log.append((yield from Delegate(log)))
        yield from Delegate(log)

    def f(x, log):
        g = outer(log)
        next(g)
        log.append(g.throw(ValueError, "v"))
        g.close()
        return x + 1

    check(f, X, [])


def test_throw_takes_a_class_an_instance_and_three_arguments():
    def catching():
        while True:
            try:
                yield
            except Exception as error:
                yield type(error), error.args

    def f(x):
        g = catching()
        results = []
        for details in (
            (KeyError,), (KeyError, "k"), (KeyError, ("a", "b")), (KeyError("i"),), (KeyError, KeyError("j")),
            (KeyError, None, None), (LookupError, KeyError("sub")),
        ):  # fmt: skip
            next(g)
            results.append(g.throw(*details))
        for wrong in ((3,), (KeyError("i"), "value"), (int,)):
            try:
                g.throw(*wrong)
            except TypeError as error:
                results.append(str(error))
        return x + 1, results

    check(f, X)


def test_the_context_of_what_is_thrown():
    def gen(log):
        try:
            raise IndexError("own")
        except IndexError:
            try:
                yield 1
            except BaseException as error:
                log.append(repr(error.__context__))
                raise
        yield 2

    def plain(log):
        try:
            yield 1
        except BaseException as error:
            log.append(repr(error.__context__))
            raise

    def f(x, log):
        for make in (gen, plain):
            for thrown in (None, ValueError("v")):
                g = make(log)
                next(g)
                try:
                    raise KeyError("outer")
                except KeyError:
                    try:
                        g.close() if thrown is None else g.throw(thrown)
                    except ValueError as error:
                        log.append(repr(error.__context__))
        return x + 1

    captured(f, X, [])


def test_a_generator_may_never_be_consumed():
    def f(x, log):
        def noisy():
            log.append("ran")
            yield 1

        noisy()
        kept = noisy()
        return x + 1, kept is not None

    captured(f, X, [])


def test_tools_of_the_library_consume_generators():
    def f(x):
        chained = itertools.chain(numbers(2), (n * 10 for n in numbers(3)))
        first = list(itertools.islice(chained, 3))
        a, b = itertools.tee(numbers(3))
        rest = list(chained), list(a), list(itertools.takewhile(lambda n: n < 2, b))
        return x + 1, first, rest, list(map(lambda p, q: p + q, numbers(3), numbers(2))), list(enumerate(numbers(2), 5))

    check(f, X)


def test_effects_of_a_loop_that_is_left_in_every_way():
    def counting(log):
        try:
            for number in range(4):
                log.append(number)
                yield number
        finally:
            log.append("closed")

    def by_break(log):
        for number in counting(log):
            if number == 1:
                break
        log.append("after")

    def by_return(log):
        for number in counting(log):
            if number == 1:
                return number

    def by_raise(log):
        try:
            for number in counting(log):
                if number == 1:
                    raise KeyError(number)
        except KeyError:
            log.append("handled")

    def by_the_end(log):
        for _ in counting(log):
            pass
        else:
            log.append("else")

    for leave in (by_break, by_return, by_raise, by_the_end):

        def f(x, log, leave=leave):
            x = x + 1
            result = leave(log)
            log.append("end")
            return x * 2, result

        check(f, X, [])
        check(lambda x, log, leave=leave: (leave(log), x + 1), X, [])


def test_a_generator_that_changes_what_it_iterates_over():
    def growing(items):
        for item in items:
            if len(items) < 5:
                items.append(item + 1)
            yield item

    def f(x, items):
        g = growing(items)
        first = next(g)
        tracer.graph_break()
        return x + first, list(g), items

    check(f, X, [1, 2])


def test_decorated_generator_functions_are_refused_plainly():
    with pytest.warns(UserWarning, match="generator"):
        assert tracer.compile(numbers, backend="eager") is numbers

    async def later(x):
        return x

    with pytest.warns(UserWarning, match="later"):
        assert tracer.compile(later, backend="eager") is later


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


def test_a_generator_is_named_after_its_function():
    def fn(x):
        def items():
            yield 1

        items.__name__, items.__qualname__ = "other", "quite.other"
        made = items()
        return x + 1, made.__name__, made.__qualname__

    check(fn, torch.ones(2))


def test_closing_gives_what_the_generator_returns():
    def returning(value):
        try:
            yield 1
        except GeneratorExit:
            return value

    def delegating(x):
        try:
            yield from returning(5)
        except GeneratorExit:
            return x

    def fn(x):
        seen = []
        for generator in (returning(3), returning(None), delegating(x)):
            seen.append(generator.close() if seen else (next(generator), generator.close()))
            seen.append(generator.close())
        started = delegating(x)
        next(started)
        return x + 1, seen, started.close()

    captured(fn, X)
