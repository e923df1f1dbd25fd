"""Live names at chosen points of small functions."""

import pytest

from tests.bytecode import resume_cases
from tracer.bytecode import live_names, overwritten_names, program


def live_after_call(function, name="stop"):
    """Live names right after the statement `stop()`."""
    decoded = program(function.__code__)
    load = next(i.index for i in decoded if i.argval == name)
    after = next(i.index for i in decoded if i.index > load and i.opname == "POP_TOP") + 1
    return set(live_names(decoded, after))


def stop():
    """Marks the point of interest."""


def test_what_is_read_later_is_live_and_what_is_written_first_is_not():
    def f(a, b, c):
        d = a
        stop()
        b = c
        return b + d

    assert live_after_call(f) == {"c", "d"}


def test_loops_carry_names_around():
    def f(items, total, unused):
        for item in items:
            stop()
            total += item
        return total

    assert live_after_call(f) == {"total", "item"}
    assert live_names(program(f.__code__), 0) == {"items", "total"}


def test_names_that_are_not_read_but_get_another_value_are_overwritten():
    def f(items, kept):
        for item in items:
            last = item
            stop()
            other = last
            last = other
        return kept

    decoded = program(f.__code__)
    load = next(i.index for i in decoded if i.argval == "stop")
    after = next(i.index for i in decoded if i.index > load and i.opname == "POP_TOP") + 1
    assert set(live_names(decoded, after)) == {"kept", "last"}
    assert set(overwritten_names(decoded, after)) == {"item", "other"}
    assert set(overwritten_names(decoded, len(decoded) - 1)) == set()


def test_branches_join():
    def f(a, b, c):
        stop()
        if a:
            return b
        c = 1
        return c

    assert live_after_call(f) == {"a", "b"}


def test_handlers_count_where_their_range_may_raise():
    def f(a, b, c):
        try:
            stop()
            a = None
            return a
        except ValueError:
            return b
        finally:
            c.close()

    assert live_after_call(f) == {"b", "c"}


def test_deleting_needs_the_name():
    def f(a, b):
        stop()
        del a
        b = 1
        return b

    assert live_after_call(f) == {"a"}


def test_cells_are_not_counted():
    def f(a, b):
        stop()
        a += 1
        return b, lambda: a

    assert live_after_call(f) == {"b"}


@pytest.mark.parametrize("name", ["locals", "vars", "eval", "exec", "dir"])
def test_code_that_sees_its_locals_needs_all_of_them(name):
    namespace = {"stop": stop}
    exec(f"def f(a, b):\n    stop()\n    c = 1\n    return {name}, lambda: b", namespace)
    assert live_after_call(namespace["f"]) == {"a", "c"}


def test_an_attribute_called_locals_is_no_reason():
    def f(a, b):
        stop()
        return b.locals

    assert live_after_call(f) == {"b"}


def test_super_reads_the_first_argument():
    class Child(resume_cases.Base):
        def scale(this, k, unused):
            stop()
            return super().scale(k)

    assert live_after_call(Child.scale) == {"this", "k"}


def test_facts_are_kept_with_the_program():
    decoded = program(live_after_call.__code__)
    first = live_names(decoded, 1)
    assert live_names(decoded, 1) is first
