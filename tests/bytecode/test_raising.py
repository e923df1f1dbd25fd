"""raising_code: the code that raises where a resume function would go on."""

from __future__ import annotations

import contextlib
import sys
from types import CellType, FunctionType

import pytest

from tracer.bytecode import program, raising_code, resume_code

log: list[object] = []


@contextlib.contextmanager
def block():
    try:
        yield
    except BaseException as error:
        log.append(error)
        raise


def at_call_of(code, name):
    """The index of the instruction behind the call of a global function, and the depth of the stack there without its result."""
    instructions = program(code).instructions
    start = next(each.index for each in instructions if each.argval == name)
    return next(each.index for each in instructions[start:] if each.opname == "CALL") + 1


def raised_in(fn, index, stack, locals, args, error):
    code = raising_code(resume_code(fn.__code__, index, stack, locals))
    assert code is not None and len(code.co_freevars) == len(fn.__code__.co_freevars) + 1
    cell = CellType(error)
    raises = FunctionType(code, fn.__globals__, closure=(*(fn.__closure__ or ()), cell))
    with pytest.raises(type(error)) as caught:
        raises(*args)
    assert caught.value is error
    with pytest.raises(ValueError, match="empty"):
        cell.cell_contents


#: What stands on the stack within a `with`, below a result: since 3.14 `__exit__` and the object that it is called on.
IN_BLOCK = ("value", "value") if sys.version_info >= (3, 14) else ("value",)


def exit_of(manager):
    return (type(manager).__exit__, manager) if sys.version_info >= (3, 14) else (manager.__exit__,)


def protected(x):
    with block():
        x = abs(x)
        x += 1
    return x


def unprotected(x):
    x = abs(x)
    return x + 1


def test_the_open_block_is_told_of_the_error():
    log.clear()
    manager = block()
    manager.__enter__()
    error = KeyError(1)
    raised_in(protected, at_call_of(protected.__code__, "abs"), (*IN_BLOCK, "value"), (), (*exit_of(manager), 3), error)
    assert log == [error]


def test_where_no_block_is_open_there_is_no_such_code():
    code = resume_code(unprotected.__code__, at_call_of(unprotected.__code__, "abs"), ("value",), ())
    assert raising_code(code) is None
    assert raising_code(unprotected.__code__) is None


def test_the_same_code_is_made_once():
    code = resume_code(protected.__code__, at_call_of(protected.__code__, "abs"), (*IN_BLOCK, "value"), ())
    assert raising_code(code) is raising_code(code)
