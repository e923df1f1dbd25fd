"""The instruction at which the graph breaks: the output code runs it as CPython does, whichever it is."""

from __future__ import annotations

import opcode
import sys

import pytest
import torch

import tracer
from tests.support import check_made
from tracer.bytecode import DIALECT
from tracer.codegen import breaking

X = torch.linspace(-1, 1, 4)
LOG: list[str] = []


def noted(name, result=None):
    """A special method that breaks the graph, and says that it was called."""

    def method(self, *args):
        tracer.graph_break()
        LOG.append(name)
        return self if result is None else result

    return method


class Breaking:
    """Each of its special methods breaks the graph."""

    __add__ = noted("add", 5)
    __lt__ = noted("lt", True)
    __neg__ = noted("neg", 5)
    __pos__ = noted("pos", 5)
    __invert__ = noted("invert", 5)
    __bool__ = noted("bool", True)
    __contains__ = noted("contains", True)
    __getitem__ = noted("getitem", 5)
    __setitem__ = noted("setitem")
    __delitem__ = noted("delitem")
    __enter__ = noted("enter")
    __exit__ = noted("exit", False)
    __call__ = noted("call", 5)
    __format__ = noted("format", "formatted")
    __str__ = noted("str", "text")
    __hash__ = noted("hash", 5)
    field = property(noted("field", 5))

    @property
    def method(self):
        tracer.graph_break()
        return lambda *args, **kwargs: (args, kwargs)


class Iterated:
    """An iterator over three numbers that breaks the graph in `__iter__` or in `__next__`."""

    def __init__(self, where):
        self.where, self.count = where, 0

    def __iter__(self):
        if self.where == "iter":
            tracer.graph_break()
        return self

    def __next__(self):
        if self.where == "next":
            tracer.graph_break()
        self.count += 1
        if self.count > 3:
            raise StopIteration
        return self.count


class Guarded:
    """Breaks the graph where its attributes change."""

    def __setattr__(self, name, value):
        tracer.graph_break()
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        tracer.graph_break()
        object.__delattr__(self, name)


class Mapping:
    def keys(self):
        tracer.graph_break()
        return ["a"]

    def __getitem__(self, key):
        return 1


class Failing(Exception):
    def __init__(self):
        tracer.graph_break()
        super().__init__("words")


def item_stored(x):
    b = Breaking()
    b[x.ndim] = x
    return b[1]


def item_deleted(x):
    b = Breaking()
    del b[x.ndim]


def attribute_stored(x):
    guarded = Guarded()
    guarded.field = x
    return guarded


def attribute_deleted(x):
    guarded = Guarded()
    guarded.field = x
    del guarded.field
    return guarded


def looped(x):
    for n in Iterated("next"):
        x = x + n
    return x


def begun(x):
    for n in Iterated("iter"):
        x = x + n
    return x


def entered(x):
    with Breaking():
        return x + 1


class ByProperties:
    @property
    def __enter__(self):
        return lambda: LOG.append("entered") or 2

    @property
    def __exit__(self):  # noqa: PLE0302
        tracer.graph_break()
        return lambda *error: LOG.append(error) or True


def entered_by_descriptor(x):
    with ByProperties() as two:
        raise Failing(x + two)
    return x + 3


def raised(x):
    try:
        raise Failing
    except Failing as error:
        return x + 1, str(error)


def unpacked(x):
    a, b, c = Iterated("next")
    return x + a, b, c


def unpacked_with_a_rest(x):
    a, *rest = Iterated("next")
    return x + a, rest


def taken_branch(x):
    if Breaking():
        return x + 1
    return x - 1


def imported(x):
    import this_module_is_made_by_a_test as module

    return x + module.VALUE


def slice_stored(x):
    Breaking()[0 : x.ndim] = x
    return x


class Base:
    @property
    def field(self):
        tracer.graph_break()
        return 5


class Derived(Base):
    def more(self):
        return super().field + 1


def of_the_base(x):
    return x + Derived().more()


@tracer.disable
def left_to_cpython(x, by):
    LOG.append("called")
    return x * by


PROGRAMS = {
    "BINARY_OP": lambda x: Breaking() + 1,
    "COMPARE_OP": lambda x: Breaking() < 1,
    "CONTAINS_OP": lambda x: 1 in Breaking(),
    "UNARY_NEGATIVE": lambda x: -Breaking(),
    "UNARY_POSITIVE": lambda x: +Breaking(),
    "UNARY_INVERT": lambda x: ~Breaking(),
    ("UNARY_NOT" if DIALECT.to_bool is None else DIALECT.to_bool): lambda x: not Breaking(),
    "BINARY_SUBSCR": lambda x: Breaking()[0],
    "STORE_SUBSCR": item_stored,
    "DELETE_SUBSCR": item_deleted,
    "LOAD_ATTR": lambda x: Breaking().field,
    "LOAD_METHOD": lambda x: Breaking().method(x, a=1),
    "STORE_ATTR": attribute_stored,
    "DELETE_ATTR": attribute_deleted,
    "CALL": lambda x: Breaking()(x),
    "CALL_KW": lambda x: left_to_cpython(x, by=3),
    "CALL_FUNCTION_EX": lambda x: eval(*["2 + 3", {}]),
    "FORMAT_VALUE": lambda x: f"{Breaking():>3} {x.ndim}",
    "FORMAT_SIMPLE": lambda x: f"{Breaking()} {x.ndim}",
    "FORMAT_WITH_SPEC": lambda x: f"{Breaking():>3} {x.ndim}",
    "CONVERT_VALUE": lambda x: f"{Breaking()!s} {x.ndim}",
    "BUILD_SET": lambda x: len({Breaking(), 1}),
    "BUILD_MAP": lambda x: len({Breaking(): x}),
    "SET_ADD": lambda x: len({b for b in (Breaking(), 1)}),
    "MAP_ADD": lambda x: len({b: x for b in (Breaking(), 1)}),
    "LIST_EXTEND": lambda x: [x, *Iterated("next")],
    "SET_UPDATE": lambda x: {0, *Iterated("next")},
    "DICT_UPDATE": lambda x: {"b": x, **Mapping()},
    "JUMP_IF_TRUE_OR_POP": lambda x: bool(Breaking() or x),
    "JUMP_IF_FALSE_OR_POP": lambda x: Breaking() and x,
    "POP_JUMP_FORWARD_IF_FALSE": taken_branch,
    "POP_JUMP_IF_FALSE": taken_branch,
    "CALL_INTRINSIC_1": lambda x: +Breaking(),
    "BINARY_SLICE": lambda x: Breaking()[0 : x.ndim],
    "STORE_SLICE": slice_stored,
    "LOAD_SUPER_ATTR": of_the_base,
    "FOR_ITER": looped,
    "GET_ITER": begun,
    "BEFORE_WITH": entered,
    "LOAD_SPECIAL": entered_by_descriptor,
    "RAISE_VARARGS": raised,
    "UNPACK_SEQUENCE": unpacked,
    "UNPACK_EX": unpacked_with_a_rest,
    "IMPORT_NAME": imported,
}


@pytest.fixture
def ran(monkeypatch):
    """The opcodes of the instructions that output code was made to run."""
    opcodes = set()
    run = breaking.run_instruction

    def run_instruction(cg, frames, push_operands):
        opcodes.add(frames[-1].inst.opname)
        return run(cg, frames, push_operands)

    monkeypatch.setattr(breaking, "run_instruction", run_instruction)
    return opcodes


@pytest.mark.parametrize("name", [name for name in PROGRAMS if opcode.opmap.get(name, 256) < 256])
def test_an_instruction_that_breaks_the_graph_does_what_it_does_in_cpython(name, ran, monkeypatch, tmp_path):
    (tmp_path / "this_module_is_made_by_a_test.py").write_text("VALUE = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    program = PROGRAMS[name]

    def fn(x):
        LOG.clear()
        y = x * 2
        return y + 1, program(y), list(LOG), y.sum()

    checked = check_made(fn, lambda: ((X.clone(),), {}), reset=lambda: sys.modules.pop("this_module_is_made_by_a_test", None))
    assert checked.breaks and name in ran, ran
