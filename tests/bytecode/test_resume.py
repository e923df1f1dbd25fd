"""Resume functions: wherever a function is stopped, its resume function gives what the whole gives."""

import colorsys
import dataclasses
import difflib
import fnmatch
import heapq
import inspect
import json.decoder
import posixpath
import shlex
import statistics
import sys
import tarfile
import textwrap
import traceback
import types
import typing
import unittest.mock
import weakref

import pytest

from tests.bytecode import resume_cases
from tests.bytecode.resume_cases import CASES, Manager
from tests.bytecode.stepping import check_every_stop, outcome, shown
from tests.bytecode.test_decoding import code_objects
from tracer.bytecode import DIALECT, ResumeError, callee_kinds, live_names, program, resume_code, stack_shape


def maker(text):
    """A function that evaluates the argument list anew."""
    namespace = vars(resume_cases)
    return lambda: eval(f"(lambda *args, **kwargs: (*args, *kwargs.values()))({text})", namespace)


def index_of(code, opname, occurrence=0):
    return [i.index for i in program(code) if i.opname == opname][occurrence]


def after(code, opname, occurrence=0):
    return index_of(code, opname, occurrence) + 1


def resumed(function, index, stack=(), locals=(), **options):
    """The resume function of a Python function, with the function's own cells."""
    code = resume_code(function.__code__, index, stack, locals, **options)
    return types.FunctionType(code, function.__globals__, code.co_name, None, function.__closure__)


@pytest.mark.parametrize("only_live", [True, False], ids=["live", "all"])
@pytest.mark.parametrize(("function", "text"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_every_stop_resumes_to_the_same_result(function, text, only_live):
    if function is resume_cases.all_kinds_of_arguments:
        function = (lambda inner: lambda *args: inner(*args[:3], z=args[3]))(function)
    check_every_stop(function, maker(text), only_live=only_live)


def test_every_stop_of_a_function_with_prefixed_arguments_and_long_jumps():
    names = check_every_stop(resume_cases.long_function, maker("[], 3"), at_most=40)
    assert {"STORE_FAST", "BINARY_OP", "LOAD_CONST"} <= names


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (posixpath.commonpath, (["/a/b/c", "/a/./b//d"],)),
        (fnmatch.translate, ("a[!b-d]*?.[x",)),
        (textwrap.dedent, ("   a\n     b\n  \n   c",)),
        (colorsys.rgb_to_hls, (0.3, 0.6, 0.2)),
        (inspect.cleandoc, ("one\n   two\n  three\n",)),
        (statistics.multimode, ("aabbc",)),
        (shlex.split, ("a 'b c' # d",)),
        (heapq.nsmallest, (2, [3, 1, 2])),
        (difflib.get_close_matches, ("appel", ["ape", "apple", "peach"])),
        (json.decoder.py_scanstring, ('tail\\n \\u00e9" rest', 0)),
        (dataclasses.make_dataclass, ("C", ["x", ("y", int)])),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_every_stop_of_library_functions(function, arguments):
    check_every_stop(function, lambda: arguments, at_most=60)


def test_the_same_request_gives_the_same_code():
    def f(a, b):
        return a + b

    requests = [(2, ("value",), ("b",)), (2, ("value",), ("a", "b")), (1, (), ("a", "b"))]
    codes = [resume_code(f.__code__, *request) for request in requests]
    assert len(set(map(id, codes))) == 3
    assert all(resume_code(f.__code__, *request) is code for request, code in zip(requests, codes))


def test_reraising_with_an_offset_of_the_original_is_harmless():
    """The offset of the raising instruction, saved for tracebacks, means nothing in the resume function."""

    def f(log):
        try:
            log.append(1)
        finally:
            log.append(2)

    index = index_of(f.__code__, "RERAISE", -1)
    function = resumed(f, index, ("value",) * 3)
    lines = []

    def trace(frame, event, argument):
        if frame.f_code is function.__code__:
            lines.append((event, frame.f_lineno))
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        got = outcome(function, (None, 10**6, ValueError("again")))
    finally:
        sys.settrace(previous)
    assert got[:3] == ("raised", "ValueError", "again")
    assert lines[-1] == ("return", program(f.__code__)[index].line)


def test_resume_functions_can_be_resumed():
    def f(log, items):
        total = 0
        for item in items:
            with Manager(log, item):
                try:
                    total += 6 // item
                except ZeroDivisionError as error:
                    log.append(str(error))
        return total, log

    first = resumed(f, index_of(f.__code__, "FOR_ITER"), ("value",), ("log", "total"))
    assert first(iter([1, 2, 0, 3]), [], 0) == f([], [1, 2, 0, 3])
    check_every_stop(first, lambda: (iter([1, 2, 0, 3]), [], 10))
    again = resumed(first, index_of(first.__code__, "FOR_ITER"), ("value",), ("log", "total"))
    assert shown(again(iter([2, 0]), [], 0)) == shown(first(iter([2, 0]), [], 0))
    assert again.__name__ == "f"
    assert again.__qualname__.count("<resume") == 1


FREE = 3


def test_the_code_keeps_its_identity_and_lines():
    def f(x):
        """Says what it does."""
        y = [x]
        y.append(x)
        return y[5]

    code = resume_code(f.__code__, after(f.__code__, "POP_TOP"), (), ("y",))
    assert (code.co_filename, code.co_firstlineno) == (f.__code__.co_filename, f.__code__.co_firstlineno)
    assert code.co_name == "f"
    assert code.co_qualname == f"{f.__qualname__}.<resume at line {f.__code__.co_firstlineno + 4}>"
    function = types.FunctionType(code, globals())
    assert function.__doc__ == f.__doc__
    assert inspect.getsource(function) == inspect.getsource(f)
    with pytest.raises(IndexError) as caught:
        function([1])
    entry = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (entry.line, entry.lineno) == ("return y[5]", f.__code__.co_firstlineno + 4)
    assert (entry.colno, entry.end_colno) == (15, 19)


def test_arguments_are_the_stack_values_then_the_locals():
    def f(a, b):
        return [a, b, len(a + b)]

    index = index_of(f.__code__, "CALL")
    code = resume_code(f.__code__, index, ("value", "value", *callee_kinds(), "value"), ())
    assert code.co_varnames[: code.co_argcount] == ("___stack0", "___stack1", "___stack2", "___stack3")
    assert code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) == 0
    assert types.FunctionType(code, {})(1, 2, len, "abc") == [1, 2, 3]


def test_a_call_with_keyword_names_is_not_torn_apart():
    def f(a):
        return dict(a=a, b=2)

    if DIALECT.keyword_call is not None:
        stack = (*callee_kinds(), "value", "value", "value")
        assert resumed(f, index_of(f.__code__, DIALECT.keyword_call), stack)(dict, 5, 6, ("a", "b")) == {"a": 5, "b": 6}
        return
    for opname in (DIALECT.keyword_names_prefix, *DIALECT.call_sequence):
        stack = (*callee_kinds(), "value", "value")
        assert resumed(f, index_of(f.__code__, opname), stack)(dict, 5, 6) == {"a": 5, "b": 6}


def test_cells_become_free_variables():
    def f(a, b):
        c = a + b

        def inner():
            nonlocal a
            a += 1
            return a, b, c, FREE

        print("anything")
        return inner

    code = f.__code__
    index = after(code, "POP_TOP")
    new = resume_code(code, index, (), ("inner",))
    assert new.co_freevars == code.co_cellvars + code.co_freevars and new.co_cellvars == ()
    cells = {name: types.CellType(value) for name, value in [("a", 1), ("b", 2), ("c", 3)]}
    index = index_of(code, DIALECT.load_cell)
    function = types.FunctionType(
        resume_code(code, index, (), ()), globals(), "f", None, tuple(cells[name] for name in code.co_cellvars)
    )
    inner = function()
    assert inner() == (2, 2, 3, 3)
    assert cells["a"].cell_contents == 2, "the resumed frame and its inner function share the cells"


def test_stack_values_live_no_longer_than_they_would():
    class Value:
        pass

    seen = []

    def f(value, watch):
        str(value)
        value = None
        seen.append(watch())
        return 1

    index = index_of(f.__code__, "CALL")
    function = resumed(f, index, (*callee_kinds(), "value"), ("watch",))
    values = [Value()]
    watch = weakref.ref(values[0])
    function(str, values.pop(), watch)
    assert seen == [None]


def test_handled_exceptions_may_be_named_where_they_lie_on_the_stack():
    def f(log):
        try:
            raise ValueError("one")
        except (KeyError, ValueError):
            log.append(repr(sys.exc_info()[1]))
        return sys.exc_info()[1]

    code = f.__code__
    index = index_of(code, "CHECK_EXC_MATCH")
    assert stack_shape(program(code), index).saved == (0,)
    pattern = ("value", "value", "value")
    error, kinds = ValueError("given"), (KeyError, ValueError)
    for handled, arguments in [((0,), (error, error, kinds)), ((1,), (None, error, kinds))]:
        log = []
        assert resumed(f, index, pattern, ("log",), exc_handled=handled)(*arguments, log) is None
        assert log == ["ValueError('given')"]
    log = []
    without = resumed(f, index, ("null", "value", "value"), ("log",), exc_handled=(1,))
    assert without(error, kinds, log) is None and log == ["ValueError('given')"]


def test_the_exception_state_around_the_resume_function_comes_back():
    def f(log):
        try:
            raise ValueError("one")
        except ValueError:
            log.append(repr(sys.exc_info()[1]))
        log.append(repr(sys.exc_info()[1]))

    log = []
    index = index_of(f.__code__, "POP_EXCEPT")
    function = resumed(f, index, ("value",), ("log",), exc_handled=(0,))
    try:
        raise KeyError("outer")
    except KeyError as outer:
        function(ValueError("inner"), log)
        assert sys.exc_info()[1] is outer
    assert log == ["KeyError('outer')"]


@pytest.mark.parametrize("occurrence", [0, 1])
def test_super_without_arguments_keeps_its_instance(occurrence):
    """Where the stack comes first, the frame's first argument is no longer `self`."""

    class Child(resume_cases.Base):
        def scale(self, k):
            extra = k
            return extra, super().scale(k), super().scale(k + 1)

    decoded = program(Child.scale.__code__)
    index = [i.index for i in decoded if i.opname == "LOAD_GLOBAL" and i.argval == "super"][occurrence]
    names = tuple(sorted(live_names(decoded, index)))
    assert names == ("k", "self")
    function = resumed(Child.scale, index, ("value",) * (1 + occurrence), names)
    expected = ("extra", "first", 15) if occurrence else ("extra", 12, 15)
    assert function(*expected[: 1 + occurrence], 4, Child(3)) == expected


@pytest.mark.parametrize(
    ("index", "stack", "locals", "message"),
    [
        (999, (), (), "no instruction 999"),
        (3, (), (), "runs on a stack of"),
        (1, (), ("nobody",), "not fast locals: nobody"),
        (1, (), ("cell",), r"not fast locals: cell \(cells arrive through the closure\)"),
    ],
)
def test_wrong_requests_are_refused(index, stack, locals, message):
    def f(cell, other):
        return lambda: other + cell + f(1, 2)

    with pytest.raises(ResumeError, match=message):
        resume_code(f.__code__, index + (3 if index < 9 else 0), stack, locals)


def test_a_handled_exception_must_be_given():
    def f():
        try:
            raise ValueError
        except ValueError:
            return 1

    with pytest.raises(ResumeError, match="exc_handled must name them"):
        resume_code(f.__code__, index_of(f.__code__, "POP_EXCEPT"), ("value",), ())
    with pytest.raises(ResumeError, match="was given as NULL"):
        resume_code(f.__code__, index_of(f.__code__, "POP_EXCEPT"), ("null",), (), exc_handled=(0,))


def test_unreachable_instructions_are_refused():
    namespace = {}
    exec("def f():\n    while True:\n        pass\n", namespace)
    code = namespace["f"].__code__
    unreached = [i.index for i in program(code) if stack_shape(program(code), i.index) is None]
    for index in unreached:
        with pytest.raises(ResumeError, match="never reached"):
            resume_code(code, index, (), ())


def test_generators_and_class_bodies_are_refused():
    def generator():
        yield 1

    async def coroutine():
        pass

    async def both():
        yield 1

    for function, kind in [(generator, "a generator"), (coroutine, "a coroutine"), (both, "an asynchronous generator")]:
        with pytest.raises(ResumeError, match=f"{function.__name__} .* is {kind}"):
            resume_code(function.__code__, 3, (), ())
    with pytest.raises(ResumeError, match="module or class body"):
        resume_code(compile("x = 1", "<text>", "exec"), 1, (), ())


def reachable(decoded, start):
    """Indices reached from an instruction, whatever may raise."""
    seen, work = set(), [start]
    while work:
        index = work.pop()
        if index in seen:
            continue
        seen.add(index)
        instruction = decoded[index]
        if instruction.handler is not None:
            work.append(instruction.handler.target)
        if instruction.target is not None:
            work.append(instruction.target)
        if not instruction.final:
            work.append(index + 1)
    return seen


@pytest.mark.parametrize("module", [tarfile, typing, unittest.mock, inspect, traceback], ids=lambda m: m.__name__)
def test_the_rest_of_a_function_is_copied_faithfully(module):
    dropped = ("MAKE_CELL", "COPY_FREE_VARS", "RESUME")
    for code in code_objects(module):
        decoded = program(code)
        if decoded.is_generator or not code.co_flags & inspect.CO_OPTIMIZED:
            continue
        for index in {len(decoded) // 3, 2 * len(decoded) // 3, index_of(code, "RESUME") + 1}:
            shape = stack_shape(decoded, index)
            if shape is None or decoded[index].opname in DIALECT.call_sequence:
                continue
            stack = ("value",) * shape.depth
            new = resume_code(code, index, stack, tuple(live_names(decoded, index)), exc_handled=shape.saved)
            again = program(new)
            kept = [decoded[i] for i in sorted(reachable(decoded, index)) if decoded[i].opname not in dropped]
            if "super" in code.co_names:
                continue
            body = again.instructions[-len(kept) :]
            for mine, theirs in zip(body, kept):
                assert (mine.opname, mine.argval) == (theirs.opname, theirs.argval)
                # Columns from 128 on are left out where the library would write wrong ones.
                assert mine.positions in (theirs.positions, theirs.positions._replace(col_offset=None, end_col_offset=None))
                assert (mine.handler is None) == (theirs.handler is None)
                if mine.handler is not None:
                    assert (mine.handler.depth, mine.handler.lasti) == (theirs.handler.depth, theirs.handler.lasti)
            assert new.co_stacksize <= max(code.co_stacksize, shape.depth + 1)


def test_exception_from_the_unbound_cell_names_another_kind_of_variable():
    """Known weakness: cells are free variables in resume functions, so CPython words the error differently."""

    def f():
        print("break")
        if FREE > 5:
            x = 1
        return lambda: x, x

    function = types.FunctionType(
        resume_code(f.__code__, after(f.__code__, "POP_TOP"), (), ()), globals(), "f", None, (types.CellType(),)
    )
    assert outcome(f, ())[1] == "UnboundLocalError"  # best
    assert outcome(function, ())[1] == "NameError"  # current
