"""The examples of dynamo-deeper-dive.rst and of guards-overview.rst, whose program they share."""

from __future__ import annotations

import dis
import re

import pytest
import torch

import tracer
from tests.reference.recording import Recording, offset_of
from tracer import logs
from tracer.runtime.guarded_code import GuardedCode


def toy_example(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


A, POSITIVE, NEGATIVE = torch.randn(10), torch.ones(10), -torch.ones(10)


def test_a_data_dependent_if_breaks_the_graph_and_makes_two_resume_functions():
    run = Recording(toy_example)(A, POSITIVE)(A, NEGATIVE)
    assert [run.operations(i)[:-1] for i in range(3)] == [
        ["v0 = torch.abs(l_a_)", "v1 = v0 + 1", "v2 = l_a_ / v1", "v3 = l_b_.sum()", "v4 = v3 < 0"],
        ["v0 = l_x_ * l_b_"],
        ["v0 = l_b_ * -1", "v1 = l_x_ * v0"],
    ]
    assert len(run.texts("graph_breaks")) == 1
    assert "Branch on the value of a tensor" in run.texts("graph_breaks")[0]
    assert not run.texts("recompiles")


def test_a_hundred_calls_trace_three_graphs():
    run = Recording(toy_example)
    for seed in range(100):
        torch.manual_seed(seed)
        a, b = torch.randn(10), torch.randn(10)
        assert torch.equal(run.compiled(a, b), toy_example(a, b))
    assert len(run.graphs) == 3


def test_the_graph_as_a_table():
    run = Recording(toy_example)(A, POSITIVE)
    lines = run.texts("graph")[0].splitlines()
    assert re.fullmatch(r" __compiled_fn_\d+", lines[1])
    assert lines[2].split() == ["opcode", "name", "target", "args", "kwargs"]
    rows = [re.split(r"\s\s+", line) for line in lines[4:]]
    assert [row[:2] for row in rows if len(row) > 1] == [
        ["placeholder", "l_a_"],
        ["placeholder", "l_b_"],
        ["call_function", "abs_1"],
        ["call_function", "add"],
        ["call_function", "truediv"],
        ["call_method", "sum_1"],
        ["call_function", "lt"],
        ["output", "output"],
    ]
    assert rows[2][2].startswith("<built-in method abs of type object at 0x")
    assert rows[4][2:4] == ["<built-in function truediv>", "(l_a_, add)"]


def test_modified_bytecode_jumps_to_one_of_the_two_resume_functions():
    run = Recording(toy_example)(A, POSITIVE)(A, NEGATIVE)
    instructions = list(dis.get_instructions(toy_example))
    ((taken, through),) = [(i, j.offset) for i, j in zip(instructions, instructions[1:]) if i.opname.startswith("POP_JUMP_")]
    code = run.modified_bytecode("toy_example")
    names = re.findall(r"\((__resume_at_\d+_\d+)\)", code)
    assert [name.split("_")[4] for name in names] == [str(through), str(taken.argval)]
    numbers = [int(name.split("_")[5]) for name in names]
    assert numbers[1] == numbers[0] + 1
    steps = [
        r"LOAD_DEREF +\d+ \(__compiled_fn_\d+\)",
        r"LOAD_FAST(?:_CHECK)? +0 \(a\)",
        r"LOAD_FAST(?:_CHECK)? +1 \(b\)",
        "CALL",
        taken.opname,
        re.escape(names[0]),
        "CALL",
        re.escape(names[1]),
        "CALL",
        "RETURN_VALUE",
    ]
    position = 0
    for step in steps:
        found = re.compile(step).search(code, position)
        assert found, f"{step} is not in {code[position:]}"
        position = found.end()


def test_resume_functions_hold_the_original_bytecode_from_there_on():
    run = Recording(toy_example)(A, POSITIVE)(A, NEGATIVE)
    originals = [text for text in run.texts("bytecode") if text.startswith("ORIGINAL BYTECODE toy_example.<resume at ")]
    assert len(originals) == 2
    not_taken, taken = originals
    assert "JUMP_FORWARD" in taken and taken.count("BINARY_OP") == 2 and not_taken.count("BINARY_OP") == 1
    codes = [code for code in tracer.region_of(run.compiled).region.codes() if "<resume at " in code.co_qualname]
    assert {code.co_varnames for code in codes} == {("b", "x")}


def test_guards_by_kind():
    run = Recording(toy_example)(A, POSITIVE)
    text = run.texts("guards")[0]
    listed = text[text.index("GUARDS:\n") :].partition("\n\n")[0].splitlines()
    assert {" - local 'a' TENSOR_MATCH", " - local 'b' TENSOR_MATCH", " - global 'torch' FUNCTION_MATCH"} <= set(listed)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: torch.nn.Parameter(t, requires_grad=False), "Parameter"),
        (lambda t: t.double(), "dtype mismatch. expected torch.float32, actual torch.float64"),
        (lambda t: t.to("meta"), "device mismatch. expected cpu, actual meta"),
        (lambda t: t.clone().requires_grad_(), "requires_grad mismatch. expected False, actual True"),
        (lambda t: t.to(torch.complex64).conj(), "mismatch"),
        (lambda t: t[:, None], "rank mismatch. expected 1, actual 2"),
        (lambda t: t[:5], "size mismatch at index 0. expected 10, actual 5"),
        (lambda t: torch.cat([t, t])[::2], "stride mismatch at index 0. expected 1, actual 2"),
    ],
    ids="class dtype device requires_grad dispatch_key ndim sizes strides".split(),
)
def test_what_tensor_match_checks(change, words):
    def plain(a):
        return a + 1

    run = Recording(plain)(torch.ones(10))
    with logs.capture("recompiles") as records:
        result = run.compiled(change(torch.ones(10)))
    assert len(run.graphs) == 2 and len(records) == 1
    assert words in records[0].text
    assert result.dtype == change(torch.ones(10)).dtype


def test_a_backend_that_prints_the_graph_and_returns_its_forward(capsys):
    def my_compiler(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]):
        print("my_compiler() called with FX graph:")
        print(gm.graph)
        assert [tuple(t.shape) for t in example_inputs] == [(10,)] * len(example_inputs)
        return gm.forward

    compiled = tracer.optimize(my_compiler)(toy_example)
    for _ in range(3):
        assert torch.equal(compiled(A, NEGATIVE), toy_example(A, NEGATIVE))
    assert capsys.readouterr().out.count("my_compiler() called") == 2


# --------------------------------------------------------------------------------------------- guards overview


def with_a_constant(x, y):
    return x + y


def test_check_fn_checks_type_then_value_then_tensors():
    run = Recording(with_a_constant)(torch.ones(3), 2)
    assert re.search(
        r"if not \(type\(y\) is int and y == 2\): return False\n    if not ___check_tensors\(x\): return False",
        run.check_fn(),
    )
    (entry,) = tracer.region_of(run.compiled).entries()
    assert entry.check_fn(torch.ones(3), 2) is True and entry.check_fn(torch.ones(3), 3) is False


def test_a_guarded_code_is_valid_until_what_it_guards_dies():
    class Scale:
        factor = 3

    def scaled(x, by):
        return x * by.factor

    compiled = tracer.optimize()(scaled)
    scale = Scale()
    compiled(torch.ones(2), scale)
    (entry,) = tracer.region_of(compiled).entries()
    assert entry.valid and isinstance(entry.guarded_code, GuardedCode)
    assert entry.code is entry.guarded_code.code and entry.check_fn is entry.guarded_code.check_fn
    keyed = {Scale: 1}

    def by_class(x, classes):
        return x * classes[Scale]

    compiled = tracer.optimize()(by_class)
    compiled(torch.ones(2), keyed)
    assert [entry.valid for entry in tracer.region_of(compiled).entries()] == [True]


def test_a_range_is_guarded_by_value():
    def over(x, r):
        for i in r:
            x = x + i
        return x

    run = Recording(over)(torch.ones(2), range(3))
    assert "L['r'] == range(0, 3)" in run.guard_lines()
    run(torch.ones(2), range(3))
    assert len(run.graphs) == 1
    run(torch.ones(2), range(0, 5, 2))
    assert len(run.graphs) == 2


def test_a_tuple_is_built_of_tracked_values():
    def pair(x, y):
        return (x + y, x), -1

    run = Recording(pair)(torch.ones(2), torch.ones(2))
    lines = [line for line in run.texts("trace") if line.startswith("TRACE BUILD_TUPLE 2")]
    assert lines[0] == "TRACE BUILD_TUPLE 2 [TensorVariable(add), TensorVariable(l_x_)]"


def test_a_frame_that_was_seen_is_not_traced_again():
    run = Recording(with_a_constant)
    for _ in range(3):
        run(torch.ones(3), 2)
    assert len(run.graphs) == 1 and len(run.texts("guards")) == 1
    assert tracer.region_of(run.compiled).entries()[0].hits == 2


def test_the_offset_in_the_name_is_where_the_original_goes_on(capsys):
    def prints(a):
        b = a + 2
        print("Hi")
        return b + a

    run = Recording(prints)(torch.randn(4))
    assert f"(__resume_at_{offset_of(prints, 'POP_TOP')}_" in run.modified_bytecode("prints")
