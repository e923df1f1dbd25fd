"""The examples of dynamo-deepdive.rst, in its order."""

from __future__ import annotations

import dis
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tracer
from tests.reference.recording import Recording, offset_of, place

INT, STR, LIST = id(int), id(str), id(list)
HERE = Path(__file__).parents[2]

# --------------------------------------------------------------------------------------------- a gentle introduction


def mse(x, y):
    z = (x - y) ** 2
    return z.sum()


def test_a_linear_sequence_of_operations_is_recorded():
    run = Recording(mse)(torch.randn(200), torch.randn(200))
    lines = run.graph_code[0]
    assert lines[0] == "def forward(self, l_x_: torch.Tensor, l_y_: torch.Tensor):"
    assert run.operations() == ["v0 = l_x_ - l_y_", "v1 = v0 ** 2", "v2 = v1.sum()", "return (v2,)"]
    assert [line.strip() for line in lines if "#" in line] == [
        f"# File: {__file__}:{mse.__code__.co_firstlineno + 1}, code: z = (x - y) ** 2",
        f"# File: {__file__}:{mse.__code__.co_firstlineno + 2}, code: return z.sum()",
    ]


def test_the_example_as_a_script_with_the_logs_of_the_environment(tmp_path):
    script = tmp_path / "example.py"
    script.write_text("""import torch, tracer

@tracer.optimize()
def mse(x, y):
    z = (x - y) ** 2
    return z.sum()

x = torch.randn(200)
y = torch.randn(200)
mse(x, y)
""")
    environment = {**os.environ, "TRACER_LOGS": "graph_code", "PYTHONPATH": str(HERE)}
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.splitlines() == [
        "TRACED GRAPH",
        " ===== __compiled_fn_0 =====",
        "def forward(self, l_x_: torch.Tensor, l_y_: torch.Tensor):",
        f"    # File: {script}:5, code: z = (x - y) ** 2",
        "    sub = l_x_ - l_y_",
        "    pow_1 = sub ** 2",
        f"    # File: {script}:6, code: return z.sum()",
        "    sum_1 = pow_1.sum()",
        "    return (sum_1,)",
        "",
    ]


def branches_on_an_int(x, n):
    y = x**2
    if n >= 0:
        return (n + 1) * y
    else:
        return y / n


def test_control_flow_is_gone_and_the_int_is_a_constant():
    run = Recording(branches_on_an_int)(torch.randn(200), 2)
    assert run.placeholders() == ["l_x_"]
    assert run.operations() == ["v0 = l_x_ ** 2", "v1 = 3 * v0", "return (v1,)"]
    assert {f"___check_type_id(L['n'], {INT})", "L['n'] == 2"} <= set(run.guard_lines())


def test_an_int_that_was_seen_to_change_is_traced():
    run, x = Recording(branches_on_an_int), torch.randn(200)
    for n in (2, 3, -2):
        run(x, n)
    assert len(run.graphs) == 3
    assert run.graph_code[1][0] == "def forward(self, l_x_: torch.Tensor, l_n_: torch.SymInt):"
    assert run.operations(1) == ["v0 = l_x_ ** 2", "v1 = l_n_ + 1", "v2 = v1 * v0", "return (v2,)"]
    assert run.placeholders(2) == ["l_x_", "l_n_"]
    assert run.operations(2) == ["v0 = l_x_ ** 2", "v1 = v0 / l_n_", "return (v1,)"]
    run(x, 4)
    assert len(run.graphs) == 3, "the graph for n == 3 serves n == 4"
    assert len(run.texts("recompiles")) == 2
    assert "L['n'] == 2  (seen 3)" in run.texts("recompiles")[0]
    assert "0 <= L['n']  (seen false for L['n'] = -2)" in run.texts("recompiles")[1]


# --------------------------------------------------------------------------------------------- guards


def times_length(a, b):
    return a * len(b)


def test_a_string_is_guarded_by_type_and_value():
    run = Recording(times_length)(torch.arange(10), "Hello")
    lines = run.guard_lines()
    at = lines.index(f"___check_type_id(L['b'], {STR})")
    assert lines[at + 1] == "L['b'] == 'Hello'"
    assert run.operations() == ["v0 = l_a_ * 5", "return (v0,)"]


def test_the_guard_that_failed_is_named():
    run = Recording(times_length)(torch.arange(10), "Hello")(torch.arange(10), "Hi")
    text = run.texts("recompiles")[0].splitlines()
    assert text[:2] == [
        f"Recompiling function times_length in {place(times_length)}",
        "    triggered by the following guard failure(s):",
    ]
    assert text[2].strip() == "- L['b'] == 'Hello'  (seen 'Hi')"
    assert place(times_length, 1) in text[3]
    assert run.operations() == ["v0 = l_a_ * 2", "return (v0,)"]
    run(torch.arange(10), "Hello")
    assert len(run.graphs) == 2


def sources(x: torch.Tensor, y: list[torch.Tensor]):
    a = x * y[0]
    return a * x


def test_sources_of_inputs_and_of_what_they_contain():
    run = Recording(sources)(torch.randn(3), [torch.randn(3), torch.randn(3)])
    guarded = [line for line in run.guard_lines() if line.startswith("check_tensor")]
    assert [line.partition(",")[0] for line in guarded] == ["check_tensor(L['x']", "check_tensor(L['y'][0]"]
    assert run.placeholders() == ["l_x_", "l_y_0_"]


def length_of_an_item(x, l):
    return x * len(l[0])


def test_guards_below_a_container():
    run = Recording(length_of_an_item)(torch.randn(8), ["Hi", "Hello"])
    lines = run.guard_lines()
    expected = [
        f"___check_type_id(L['l'], {LIST})",
        "len(L['l']) == 2",
        f"___check_type_id(L['l'][0], {STR})",
        "L['l'][0] == 'Hi'",
    ]
    at = lines.index(expected[0])
    assert lines[at : at + 4] == expected
    # The document's list goes on with L['l'][1], which the program never reads: here it may be anything.
    assert "L['l'][1]" not in "\n".join(lines)
    run(torch.randn(8), ["Hi", "Good day"])(torch.randn(8), ["Hi", None])
    assert len(run.graphs) == 1
    run(torch.randn(8), ["Hello", "Hi"])(torch.randn(8), ["Hi"])(torch.randn(8), ("Hi", "Hello"))
    assert len(run.graphs) == 4


# --------------------------------------------------------------------------------------------- symbolic shapes


def scaled_by_size(a, b):
    return a.shape[0] * a * b


def two_calls(**options) -> Recording:
    run = Recording(scaled_by_size, **options)
    return run(torch.randn(4, 3), torch.randn(4, 3))(torch.randn(8, 3), torch.randn(8, 3))


def test_static_by_default_then_symbolic():
    run = two_calls()
    assert len(run.graphs) == 2
    assert run.graph_code[0][0] == "def forward(self, l_a_: torch.Tensor, l_b_: torch.Tensor):"
    assert run.operations(0) == ["v0 = 4 * l_a_", "v1 = v0 * l_b_", "return (v1,)"]
    assert run.graph_code[1][0] == "def forward(self, s0: torch.SymInt, l_a_: torch.Tensor, l_b_: torch.Tensor):"
    # The document asks l_a_ for its size; the symbol that is handed in is that size.
    assert run.operations(1) == ["v0 = s0 * l_a_", "v1 = v0 * l_b_", "return (v1,)"]
    run(torch.randn(5, 3), torch.randn(5, 3))(torch.randn(100, 3), torch.randn(100, 3))
    assert len(run.graphs) == 2


def test_sizes_symbolic_and_concrete():
    text = two_calls().texts("graph_sizes")[1].splitlines()
    assert text[0] == "TRACED GRAPH TENSOR SIZES" and re.fullmatch(r"===== __compiled_fn_\d+ =====", text[1])
    assert text[2:] == [
        line for name in ("l_a_", "l_b_", "mul", "mul_1") for line in (f"{name}: (s0, 3)", f"{name} (concrete): (8, 3)")
    ]


def test_guards_of_the_static_and_of_the_symbolic_graph():
    run = two_calls()
    for name in "ab":
        rest = "torch.float32, device=None, requires_grad=False, size=[4, 3], stride=[3, 1])"
        static = f"check_tensor(L['{name}'], {rest}"
        assert static in run.guard_lines(0)
        assert static.replace("[4, 3]", "[None, 3]") in run.guard_lines(1)
    assert run.guard_lines(1)[-2:] == ["L['b'].size()[0] == L['a'].size()[0]", "2 <= L['a'].size()[0]"]
    assert not any("size()" in line for line in run.guard_lines(0))
    assert "tensor 'L['a']' size mismatch at index 0. expected 4, actual 8" in run.texts("recompiles")[0]


def test_check_fn_is_python_that_does_what_the_guards_say():
    run = two_calls()
    check_fn = tracer.region_of(run.compiled).entries()[0].check_fn
    assert check_fn(torch.randn(8, 3), torch.randn(8, 3)) is True
    assert check_fn(torch.randn(9, 3), torch.randn(9, 3)) is True
    assert check_fn(torch.randn(9, 3), torch.randn(8, 3)) is False
    assert check_fn(torch.randn(1, 3), torch.randn(1, 3)) is False
    assert run.check_fn(1).startswith("def check_fn(a, b):\n") and run.check_fn(1).endswith("    return True\n")


def test_mark_dynamic_avoids_the_static_graph():
    a, b = torch.randn(4, 3), torch.randn(4, 3)
    tracer.mark_dynamic(a, 0)
    tracer.mark_dynamic(b, 0)
    run = Recording(scaled_by_size)(a, b)(torch.randn(8, 3), torch.randn(8, 3))
    assert run.placeholders(0) == ["s0", "l_a_", "l_b_"] and len(run.graphs) == 1


def test_maybe_mark_dynamic_and_mark_static():
    a, b = torch.randn(4, 3), torch.randn(4, 3)
    for t in (a, b):
        tracer.maybe_mark_dynamic(t, 0)
    run = Recording(scaled_by_size)(a, b)(torch.randn(8, 3), torch.randn(8, 3))
    assert len(run.graphs) == 1
    fixed = torch.randn(8, 3), torch.randn(8, 3)
    for t in fixed:
        tracer.mark_static(t, 0)
    run = Recording(scaled_by_size, dynamic=True)(*fixed)
    assert run.operations(0)[0] == "v0 = 8 * l_a_"


def test_dynamic_true_traces_all_sizes_and_ints():
    run = Recording(branches_on_an_int, dynamic=True)(torch.randn(200), 2)(torch.randn(300), 3)
    assert len(run.graphs) == 1 and "l_n_" in run.placeholders()
    run = Recording(scaled_by_size, dynamic=True)(torch.randn(4, 3), torch.randn(4, 3))
    assert run.placeholders()[0] == "s0"
    run(torch.randn(8, 5), torch.randn(8, 5))
    assert len(run.graphs) == 1


@pytest.mark.parametrize("size", [0, 1])
def test_0_and_1_are_always_specialized(size):
    marked = torch.randn(size, 3)
    tracer.mark_dynamic(marked, 0)
    run = Recording(scaled_by_size, dynamic=True)(marked, torch.randn(size, 3))
    assert run.operations(0)[0] == f"v0 = {size} * l_a_"
    run(torch.randn(7, 3), torch.randn(7, 3))(torch.randn(9, 3), torch.randn(9, 3))
    assert len(run.graphs) == 2
    run(torch.randn(size, 3), torch.randn(size, 3))
    assert len(run.graphs) == 2


def test_plain_ints_are_not_specialized_for_being_0_or_1():
    run = Recording(branches_on_an_int)
    for n in (5, 6):
        run(torch.randn(4), n)
    run(torch.randn(4), 1)(torch.randn(4), 0)
    assert len(run.graphs) == 2


def test_duck_shaping():
    run = Recording(scaled_by_size, dynamic=True)(torch.randn(8, 3), torch.randn(8, 3))
    assert [name for name in run.placeholders() if re.fullmatch(r"s\d+", name)] == ["s0", "s1"]
    assert "L['b'].size()[0] == L['a'].size()[0]" in run.guard_lines()
    with tracer.config.patch(duck_shape=False):
        run = Recording(lambda a, b: (a * 2, b * 2), dynamic=True)(torch.randn(8), torch.randn(8))
    assert not any("==" in line for line in run.guard_lines())


def guarded_in_the_middle(a):
    if a.shape[0] * 2 < 16:
        return a
    else:
        return a + 1


def test_a_guard_on_an_expression_met_in_the_middle():
    run = Recording(guarded_in_the_middle, dynamic=True)(torch.randn(8))
    line = place(guarded_in_the_middle, 1)
    ((guard, note),) = [(guard, note) for guard, note in run.guard_notes().items() if "size()" in guard]
    assert guard == "8 <= L['a'].size()[0]"  # proved equal to the recorded one, and to `2 <=` with it
    assert note.endswith("recorded as 2*L['a'].size()[0] >= 16") and f"{line} in guarded_in_the_middle" in note
    assert f"eval 2*s0 >= 16 [guard added] at {__file__.rpartition('/')[0]}/{line} in guarded_in_the_middle" in (
        run.texts("dynamic")[0].splitlines()
    )
    run(torch.randn(9))(torch.randn(100))
    assert len(run.graphs) == 1
    run(torch.randn(7))(torch.randn(3))
    assert len(run.graphs) == 1, "the other branch has no operation"
    assert len(tracer.region_of(run.compiled).entries()) == 2


# --------------------------------------------------------------------------------------------- tracing, step by step


def test_each_opcode_is_shown_with_its_stack():
    run = Recording(times_length)(torch.arange(10), "Hello")
    assert run.texts("trace") == [
        "TRACE RESUME 0 []",
        "TRACE LOAD_FAST a []",
        "TRACE LOAD_GLOBAL len [TensorVariable(l_a_)]",
        *[line for line in run.texts("trace") if "LOAD_FAST b" in line],
        *[line for line in run.texts("trace") if re.match("TRACE (PRECALL|CALL) ", line)],
        "TRACE BINARY_OP * [TensorVariable(l_a_), ConstantVariable(5)]",
        "TRACE RETURN_VALUE [TensorVariable(mul)]",
    ]
    assert "CallableVariable" in run.texts("trace")[3] or "len" in run.texts("trace")[3]


def builds_a_list(x):
    l = [2, 3, 4]
    l.append(x)
    return l


def test_build_list_takes_its_items_from_the_stack():
    run = Recording(builds_a_list)(torch.ones(2))
    assert any(line.startswith("TRACE BUILD_LIST 0 []") for line in run.texts("trace"))
    assert not run.graphs  # a list that holds an input: no operation


# --------------------------------------------------------------------------------------------- graph breaks


def prints(a):
    b = a + 2
    print("Hi")
    return b + a


def test_a_print_breaks_the_graph_in_two(capsys):
    run = Recording(prints)(torch.randn(4))
    assert capsys.readouterr().out == "Hi\nHi\n"  # plain Python, then traced
    assert [run.operations(i) for i in (0, 1)] == [
        ["v0 = l_a_ + 2", "return (v0,)"],
        ["v0 = l_b_ + l_a_", "return (v0,)"],
    ]
    run(torch.randn(4))
    assert len(run.graphs) == 2


def test_a_break_tells_its_reason_and_the_users_stack(capsys):
    (text,) = Recording(prints)(torch.randn(4)).texts("graph_breaks")
    line = prints.__code__.co_firstlineno + 2
    assert text.startswith(f"Graph break in user code at {__file__}:{line}\nReason: ")
    assert "print" in text and "Hint: " in text
    assert text.endswith(f'User code traceback:\n  File "{__file__}", line {line}, in prints\n    print("Hi")')


def test_modified_bytecode_calls_the_graph_then_the_instruction_then_the_rest(capsys):
    run = Recording(prints)(torch.randn(4))
    offset = offset_of(prints, "POP_TOP")  # where CPython goes on after the call of print
    code = run.modified_bytecode("prints")
    assert code.startswith(f"MODIFIED BYTECODE prints test_deepdive.py line {prints.__code__.co_firstlineno}\n")
    resume = rf"\(__resume_at_{offset}_\d+\)"
    assert_in_order(code, r"\(__compiled_fn_\d+\)", r"\(print\)|___tmp", r"'Hi'", resume, "RETURN_VALUE")
    name = f"prints.<resume at line {prints.__code__.co_firstlineno + 3}>"
    rest = run.modified_bytecode(name)
    assert rest.splitlines()[0].startswith(f"MODIFIED BYTECODE {name} test_deepdive.py line ")
    assert_in_order(rest, r"\(__compiled_fn_\d+\)", r"\(b\)", r"\(a\)", "RETURN_VALUE")
    original = next(text for text in run.texts("bytecode") if text.startswith("ORIGINAL BYTECODE prints "))
    assert original.count("\n") >= len(list(dis.get_instructions(prints)))


def assert_in_order(text: str, *patterns: str) -> None:
    position = 0
    for pattern in patterns:
        found = re.compile(pattern).search(text, position)
        assert found, f"{pattern} is not in {text[position:]}"
        position = found.end()


def two_prints(a):
    b = a + 2
    print("Hi")
    c = b * a
    print("there")
    return c - a


def test_as_many_graphs_as_the_problematic_code_needs(capsys):
    run = Recording(two_prints)(torch.randn(3))
    assert [len(run.operations(i)) - 1 for i in range(3)] == [1, 1, 1] and len(run.graphs) == 3
    assert len(run.texts("graph_breaks")) == 2
    assert capsys.readouterr().out == "Hi\nthere\n" * 2
