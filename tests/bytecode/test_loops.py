"""Which instructions belong to a loop."""

from __future__ import annotations

from tracer.bytecode import loop_resumed_in, outermost_loops, program, resume_code, resumes_at


def names_in_loops(function):
    """The globals that are read in each outermost loop, in order of the loops."""
    whole = program(function.__code__)
    loops = outermost_loops(whole)
    found: dict[int, set[str]] = {}
    for one in whole:
        if one.index in loops and one.opname == "LOAD_GLOBAL":
            found.setdefault(loops[one.index], set()).add(one.argval)
    return [found[each] for each in sorted(found)]


def test_nested_loops_are_one_and_ways_out_are_none():
    def function(xs):
        a()  # noqa: F821
        for x in xs:
            while b(x):  # noqa: F821
                c()  # noqa: F821
                if d():  # noqa: F821
                    return e()  # noqa: F821
        while True:
            try:
                f()  # noqa: F821
            except ValueError:
                g()  # noqa: F821
                continue
            if h():  # noqa: F821
                i()  # noqa: F821
                break
        return j()  # noqa: F821

    assert names_in_loops(function) == [{"b", "c", "d"}, {"f", "g", "h", "ValueError"}]


def test_a_handler_that_goes_on_behind_its_try_is_no_loop():
    def function(x):
        try:
            a(x)  # noqa: F821
        except ValueError:
            b()  # noqa: F821
        return c()  # noqa: F821

    assert names_in_loops(function) == []


def test_the_locals_that_change_from_turn_to_turn():
    def function(n):
        fixed, turns = 1, 0
        while turns < n:
            print(fixed)
            turns += 1
        after = turns
        return after

    code = function.__code__
    call = next(one for one in program(code) if one.opname == "POP_TOP").index
    resumed = resume_code(code, call, ("value",), ("fixed", "turns", "n"))
    assert resumes_at(code) is None and loop_resumed_in(code) is None
    assert program(resumed)[resumes_at(resumed)].opname == "POP_TOP"
    assert loop_resumed_in(resumed) == {"turns"}
