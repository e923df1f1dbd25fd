"""A program for each opcode: traced, it comes to an instruction of that opcode."""

from __future__ import annotations

import collections.abc
import contextlib
import math
import opcode
from typing import Any

import torch

COUNT = 3
PROGRAMS: dict[str, collections.abc.Callable[[torch.Tensor], Any]] = {}


def reaches(*opcodes):
    """Registers a program under the opcodes that it is the example of; some versions of Python lack some of them."""

    def register(fn):
        for name in opcodes:
            assert name not in PROGRAMS, name
            if opcode.opmap.get(name, 256) < 256:  # those beyond are the compiler's own
                PROGRAMS[name] = fn
        return fn

    return register


class Pair:
    __match_args__ = ("left", "right")

    def __init__(self, left, right):
        self.left, self.right = left, right


EXPRESSIONS = {
    "RESUME": lambda x: x,
    "LOAD_FAST": lambda x: x,
    "RETURN_VALUE": lambda x: x,
    "LOAD_CONST": lambda x: x + 2.5,
    "LOAD_SMALL_INT": lambda x: x + 2,
    "RETURN_CONST": lambda x: 2,
    "LOAD_GLOBAL": lambda x: x + COUNT,
    "LOAD_ATTR": lambda x: x.ndim,
    "LOAD_METHOD": lambda x: x.sin(),
    "PRECALL": lambda x: x.sin(),
    "CALL": lambda x: x.sin(),
    "PUSH_NULL": lambda x: (lambda y: y + 1)(x),
    "KW_NAMES": lambda x: x.sum(dim=0),
    "CALL_KW": lambda x: x.sum(dim=0),
    "CALL_FUNCTION_EX": lambda x: torch.add(*(x, 1), **{"alpha": 2}),
    "LIST_TO_TUPLE": lambda x: max(*[1, 2], 3),
    "DICT_MERGE": lambda x: dict(**{"a": x}, **{"b": 1}),
    "BINARY_OP": lambda x: x * 2,
    "BINARY_SUBSCR": lambda x: x[0],
    "BUILD_SLICE": lambda x: x[: x.ndim : 1],
    "BINARY_SLICE": lambda x: x[: x.ndim],
    "UNARY_NEGATIVE": lambda x: -x,
    "UNARY_POSITIVE": lambda x: +x,
    "CALL_INTRINSIC_1": lambda x: +x,
    "UNARY_INVERT": lambda x: ~(x > 0),
    "UNARY_NOT": lambda x: not x.ndim,
    "TO_BOOL": lambda x: not x.ndim,
    "COMPARE_OP": lambda x: x < 1,
    "CONTAINS_OP": lambda x: x.ndim in (1, 2),
    "IS_OP": lambda x: x is None,
    "COPY": lambda x: 0 < x.ndim < 3,
    "SWAP": lambda x: 0 < x.ndim < 3,
    "JUMP_IF_FALSE_OR_POP": lambda x: x.ndim and x,
    "JUMP_IF_TRUE_OR_POP": lambda x: x.ndim or x,
    "POP_JUMP_FORWARD_IF_FALSE": lambda x: x + 1 if x.ndim else x,
    "POP_JUMP_FORWARD_IF_TRUE": lambda x: x + 1 if not x.ndim else x,
    "POP_JUMP_FORWARD_IF_NONE": lambda x: x + 1 if x.grad is not None else x,
    "POP_JUMP_FORWARD_IF_NOT_NONE": lambda x: x + 1 if x.grad is None else x,
    "POP_JUMP_IF_FALSE": lambda x: x + 1 if x.ndim else x,
    "POP_JUMP_IF_TRUE": lambda x: x + 1 if not x.ndim else x,
    "POP_JUMP_IF_NONE": lambda x: x + 1 if x.grad is not None else x,
    "POP_JUMP_IF_NOT_NONE": lambda x: x + 1 if x.grad is None else x,
    "BUILD_TUPLE": lambda x: (x, x.ndim),
    "BUILD_LIST": lambda x: [x, x.ndim],
    "BUILD_SET": lambda x: {x.ndim, 7},
    "BUILD_MAP": lambda x: {x.ndim: x},
    "BUILD_CONST_KEY_MAP": lambda x: {"a": x, "b": 1},
    "BUILD_STRING": lambda x: f"{x.ndim} dims",
    "FORMAT_VALUE": lambda x: f"{x.ndim:>3}",
    "FORMAT_SIMPLE": lambda x: f"{x.ndim}",
    "FORMAT_WITH_SPEC": lambda x: f"{x.ndim:>3}",
    "CONVERT_VALUE": lambda x: f"{x.ndim!r}",
    "LIST_EXTEND": lambda x: [*x.shape, 1],
    "LIST_APPEND": lambda x: [n + 1 for n in x.shape],
    "SET_UPDATE": lambda x: {*x.shape, 1},
    "SET_ADD": lambda x: {n + 1 for n in x.shape},
    "DICT_UPDATE": lambda x: {**{"a": x}, "b": 1},
    "MAP_ADD": lambda x: {n: x for n in x.shape},
    "GET_ITER": lambda x: [n for n in x.shape],
    "FOR_ITER": lambda x: [n for n in x.shape],
    "POP_ITER": lambda x: [n for n in x.shape],
    "NOT_TAKEN": lambda x: x + 1 if x.ndim else x,
    "LOAD_FAST_AND_CLEAR": lambda x: [n for n in x.shape],
    "JUMP_BACKWARD": lambda x: [n for n in x.shape],
    "MAKE_FUNCTION": lambda x: (lambda y: y + 1)(x),
    "SET_FUNCTION_ATTRIBUTE": lambda x: (lambda y, n=2, *, k=3: y + n + k * x)(x),
    "MAKE_CELL": lambda x: (lambda: x + 1)(),
    "LOAD_CLOSURE": lambda x: (lambda: x + 1)(),
    "COPY_FREE_VARS": lambda x: (lambda: x + 1)(),
    "LOAD_DEREF": lambda x: (lambda: x + 1)(),
    "RETURN_GENERATOR": lambda x: sum(n * x for n in (1, 2)),
    "YIELD_VALUE": lambda x: sum(n * x for n in (1, 2)),
    "POP_TOP": lambda x: sum(n * x for n in (1, 2)),
}
for _name, _program in EXPRESSIONS.items():
    reaches(_name)(_program)


@reaches("STORE_FAST")
def stores_a_local(x):
    y = x + 1
    return y


@reaches("LOAD_FAST_CHECK")
def loads_what_may_be_unbound(x):
    if x.ndim:
        y = x + 1
    return y


@reaches("STORE_SLICE")
def stores_a_slice(x):
    y = [1, 2, 3]
    y[: x.ndim] = [x]
    return y


@reaches("LOAD_SUPER_ATTR")
def calls_a_method_of_the_base(x):
    class Base:
        def scaled(self, x):
            return x * 2

    class Derived(Base):
        def scaled(self, x):
            return super().scaled(x) + 1

    return Derived().scaled(x)


@reaches("CLEANUP_THROW")
def ends_what_it_delegates_to(x):
    def outer():
        return (yield from [x, x + 1])

    generator = outer()
    next(generator)
    try:
        generator.throw(StopIteration(x * 2))
    except StopIteration as stopped:
        return stopped.value


@reaches("DELETE_FAST")
def deletes_a_local(x):
    y = x + 1
    z = y * 2
    del y
    return z


@reaches("NOP")
def holds_a_place_for_a_line(x):
    while True:
        x = x + 1
        break
    return x


@reaches("STORE_DEREF", "DELETE_DEREF")
def stores_and_deletes_a_cell(x):
    y = x + 1

    def inner():
        return y  # noqa: F821  (deleted below, when it has been called)

    z = inner()
    del y
    return z


@reaches("STORE_GLOBAL", "DELETE_GLOBAL")
def stores_and_deletes_a_global(x):
    global SCRATCH
    SCRATCH = x + 1
    y = SCRATCH * 2
    del SCRATCH
    return y


@reaches("STORE_ATTR", "DELETE_ATTR")
def stores_and_deletes_an_attribute(x):
    pair = Pair(x, 1)
    pair.right = x + 1
    y = pair.right
    del pair.right
    return y, pair.left


@reaches("STORE_SUBSCR", "DELETE_SUBSCR")
def stores_and_deletes_an_item(x):
    table = {"a": x}
    table["b"] = x + 1
    del table["a"]
    return table


@reaches("UNPACK_SEQUENCE", "UNPACK_EX")
def unpacks(x):
    first, second = x, x + 1
    (a, b), (c, *rest) = [first, second], [a_number for a_number in (1, 2, 3)]
    return a + b, c, rest


@reaches("JUMP_FORWARD")
def goes_on_behind_both_branches(x):
    if x.ndim:
        y = x + 1
    else:
        y = x + 2
    y = y * 2
    y = y + x.ndim
    return y * 3


@reaches("POP_JUMP_BACKWARD_IF_TRUE")
def loops_while_it_is_true(x):
    n = 3
    while n:
        n -= 1
        x = x + n
    return x


@reaches("POP_JUMP_BACKWARD_IF_FALSE")
def loops_while_it_is_false(x):
    n = -3
    while not n:
        n += 1
    while not n > 0:
        n += 1
        x = x + n
    return x


@reaches("POP_JUMP_BACKWARD_IF_NONE")
def loops_while_it_is_none(x):
    found, n = None, 0
    while found is None:
        n += 1
        found = n if n > 2 else None
    return x + found


@reaches("POP_JUMP_BACKWARD_IF_NOT_NONE")
def loops_while_it_is_not_none(x):
    left: Any = 3
    while left is not None:
        x = x + left
        left = left - 1 if left > 1 else None
    return x


@reaches("IMPORT_NAME", "IMPORT_FROM")
def imports(x):
    import math as mathematics
    from math import floor

    return x * mathematics.pi + floor(2.5)


@reaches("LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT")
def asserts_what_does_not_hold(x):
    try:
        assert x.ndim > 5, "too few"
    except AssertionError:
        return x + 1


@reaches("RAISE_VARARGS", "PUSH_EXC_INFO", "CHECK_EXC_MATCH", "POP_EXCEPT")
def raises_and_handles(x):
    try:
        raise ValueError("words")
    except ValueError as error:
        return x + 1, str(error)


@reaches("RERAISE")
def passes_an_error_on(x):
    try:
        try:
            raise ValueError("words")
        except KeyError:
            return x
    except ValueError:
        return x + 1


@reaches("CHECK_EG_MATCH", "PREP_RERAISE_STAR", "CALL_INTRINSIC_2")
def handles_a_group(x):
    try:
        raise ExceptionGroup("two", [ValueError(1), KeyError(2)])
    except* ValueError:
        x = x + 1
    except* KeyError:
        x = x * 2
    return x


@reaches("BEFORE_WITH", "LOAD_SPECIAL")
def enters_a_context(x):
    with torch.no_grad():
        return x + 1


@reaches("WITH_EXCEPT_START")
def leaves_a_context_by_an_error(x):
    with contextlib.suppress(ValueError):
        raise ValueError("words")
    return x + 1


@reaches("GET_YIELD_FROM_ITER", "SEND", "JUMP_BACKWARD_NO_INTERRUPT", "END_SEND")
def delegates_to_a_generator(x):
    def inner():
        yield x
        yield x + 1

    def outer():
        yield from inner()

    return list(outer())


@reaches("LOAD_BUILD_CLASS", "LOAD_NAME", "STORE_NAME", "DELETE_NAME", "LOAD_CLASSDEREF", "LOAD_LOCALS",
         "LOAD_FROM_DICT_OR_DEREF", "SETUP_ANNOTATIONS")  # fmt: skip
def makes_a_class(x):
    factor = 2

    class Made:
        scale: int = 3
        half = math.floor(scale / 2)
        del half
        twice = factor * 2

    return x * Made.scale + Made.twice, Made.__annotations__


@reaches("MATCH_SEQUENCE", "GET_LEN")
def matches_a_sequence(x):
    match [x, 1]:
        case [first, second]:
            return first + second


@reaches("MATCH_MAPPING", "MATCH_KEYS")
def matches_a_mapping(x):
    match {"a": x, "b": 1}:
        case {"a": found}:
            return found + 1


@reaches("MATCH_CLASS")
def matches_a_class(x):
    match Pair(x, 2):
        case Pair(left, right=2):
            return left + 1


#: The syntax of Python 3.12, as text for older versions.
GENERIC = """
def makes_a_generic_class_in_a_class(x):
    class Made:
        class Inner[T](Pair):
            pass

    return Made.Inner(x, 2).left + 1
"""
if "LOAD_FROM_DICT_OR_GLOBALS" in opcode.opmap:
    exec(GENERIC)
    reaches("LOAD_FROM_DICT_OR_GLOBALS")(locals()["makes_a_generic_class_in_a_class"])
