"""Marks and controls of torch._dynamo and torch.compiler, heard by the tracer while it is installed."""

from __future__ import annotations

import operator

import pytest
import torch
import torch._dynamo
from torch._dynamo import disable as disable_imported_before
from torch._dynamo import explain as explain_imported_before
from torch._dynamo import mark_dynamic as mark_dynamic_imported_before
from torch._dynamo import reset as reset_imported_before

import tracer

pytestmark = pytest.mark.usefixtures("installed")


def entries_of(compiled):
    return tracer.region_of(compiled).entries()


def graphs_of(compiled):
    return [entry.guarded_code.graph for entry in entries_of(compiled) if entry.guarded_code.graph is not None]


def times_its_size(x):
    return x * x.shape[0]


# -- tensors


@pytest.mark.parametrize(
    "mark",
    [
        torch._dynamo.mark_dynamic,
        torch._dynamo.maybe_mark_dynamic,
        torch._dynamo.decorators.mark_unbacked,
        mark_dynamic_imported_before,
    ],
    ids=["dynamic", "maybe dynamic", "unbacked", "a name imported before"],
)
@pytest.mark.parametrize("dim", [0, -2])
def test_one_entry_serves_every_size_of_a_dim_that_torch_marks(mark, dim):
    x = torch.ones(4, 3)
    mark(x, dim)
    compiled = torch.compile(times_its_size, fullgraph=True)
    assert compiled(x)[0, 0] == 4 and compiled(torch.ones(9, 3))[0, 0] == 9
    assert len(entries_of(compiled)) == 1


def test_a_mark_that_was_set_before_the_install_is_heard():
    tracer.uninstall()
    x = torch.ones(4)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=10)
    with tracer.install(backend="eager"):
        compiled = torch.compile(times_its_size)
        compiled(x)
        assert "L['x'].size()[0] <= 10" in entries_of(compiled)[0].guarded_code.guards_text


def test_a_mark_makes_the_next_call_with_the_marked_tensor_trace_again():
    compiled = torch.compile(times_its_size)
    compiled(torch.ones(4))
    x = torch.ones(4)
    torch._dynamo.mark_dynamic(x, 0)
    compiled(x), compiled(torch.ones(7))
    assert any("<= L['x'].size()[0]" in entry.guarded_code.guards_text for entry in entries_of(compiled))


def test_a_static_dim_stays_static_though_all_others_vary():
    compiled = torch.compile(lambda x: x * 2, dynamic=True)
    x = torch.ones(4, 5)
    torch._dynamo.mark_static(x, 1)
    compiled(x)
    assert "size=[None, 5]" in entries_of(compiled)[0].guarded_code.guards_text


def test_a_program_that_fixes_a_dynamic_dim_raises_what_torch_raises():
    x = torch.ones(4)
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(torch.fx.experimental.symbolic_shapes.ConstraintViolationError):
        torch.compile(lambda x: x + 1 if x.shape[0] == 4 else x)(x)


def unbacked(size, **more):
    x = torch.ones(size)
    torch._dynamo.decorators.mark_unbacked(x, 0, **more)
    return x


def test_unbacked_dims_with_one_id_are_one_symbol():
    compiled = torch.compile(lambda x, y: x + y, fullgraph=True)
    for size in (4, 1, 7):  # without the id, x + y would have to know whether one of them is 1
        assert compiled(unbacked(size, shape_id="batch"), unbacked(size, shape_id="batch")).shape == (size,)
    assert len(entries_of(compiled)) == 1
    assert compiled(torch.ones(4), torch.ones(1)).shape == (4,) and len(entries_of(compiled)) == 2  # equality is guarded


def test_unbacked_dims_with_one_id_that_differ_are_an_error_at_the_first_call_and_later():
    compiled = torch.compile(lambda x, y: (x * 2, y * 3))
    error = torch.fx.experimental.symbolic_shapes.ConstraintViolationError
    with pytest.raises(error, match="shape_id='batch'"):
        compiled(unbacked(4, shape_id="batch"), unbacked(5, shape_id="batch"))
    compiled(unbacked(4, shape_id="batch"), unbacked(4, shape_id="batch"))
    with pytest.raises(error, match="shape_id='batch'"):
        compiled(unbacked(4, shape_id="batch"), unbacked(5, shape_id="batch"))
    doubled, tripled = compiled(unbacked(4), unbacked(5))  # which nobody says to be equal
    assert doubled.shape == (4,) and tripled.shape == (5,)
    doubled, tripled = compiled(unbacked(4, shape_id="a"), unbacked(5, shape_id="b"))
    assert doubled.shape == (4,) and tripled.shape == (5,)


def test_bounds_of_each_dim_with_one_id_hold():
    compiled = torch.compile(lambda x, y: x + y if (x.shape[0], y.shape[0])[0] >= 3 else x, fullgraph=True)
    compiled(unbacked(4, shape_id="batch"), unbacked(4, shape_id="batch", min=3, max=8))
    assert compiled(torch.ones(8), torch.ones(8))[0] == 2 and compiled(torch.ones(2), torch.ones(2))[0] == 1
    assert len(entries_of(compiled)) == 2
    with pytest.raises(torch.fx.experimental.symbolic_shapes.ConstraintViolationError, match="max=8"):
        compiled(unbacked(9, shape_id="batch"), unbacked(9, shape_id="batch", min=3, max=8))


def test_a_strict_unbacked_dim_is_a_symbol_that_no_branch_fixes():
    compiled = torch.compile(times_its_size, fullgraph=True)
    assert compiled(unbacked(4, strict=True))[0] == 4 and compiled(unbacked(1, strict=True))[0] == 1
    assert len(entries_of(compiled)) == 1
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(lambda x: x + 1 if x.shape[0] == 4 else x, fullgraph=True)(unbacked(4, strict=True))


@pytest.mark.parametrize("more", [{"min": 2}, {"max": 9}, {"shape_id": "batch"}])
def test_what_torch_drops_of_a_strict_unbacked_dim_is_refused(more):
    with pytest.raises(tracer.exc.UserError, match=f"mark_unbacked: {next(iter(more))}=.* cannot be honoured with strict"):
        unbacked(4, strict=True, **more)


# -- functions


def plus_one(x):
    return x + 1


@pytest.mark.parametrize("disable", [torch._dynamo.disable, torch.compiler.disable, disable_imported_before])
def test_a_function_that_torch_disables_breaks_the_graph_and_is_not_traced(disable):
    seen = []

    def by_cpython(x):
        seen.append(torch.compiler.is_compiling())
        return x + 1

    disabled = disable(by_cpython)
    compiled = torch.compile(lambda x: disabled(x * 2) * 3)
    assert compiled(torch.ones(1)) == 9 and compiled(torch.ones(1)) == 9
    assert seen == [False, False]
    assert len(graphs_of(compiled)) == 2
    with pytest.raises(torch._dynamo.exc.Unsupported, match="by_cpython was marked"):
        torch.compile(lambda x: disabled(x), fullgraph=True)(torch.ones(1))


def test_a_module_that_torch_disables_is_not_traced():
    inner = torch._dynamo.disable(torch.nn.Linear(2, 2))
    with pytest.raises(torch._dynamo.exc.Unsupported, match="disable"):
        torch.compile(lambda x: inner(x) + 1, fullgraph=True)(torch.ones(1, 2))
    compiled = torch.compile(lambda x: inner(x * 2) + 1)
    x = torch.ones(1, 2)
    assert torch.equal(compiled(x), inner(x * 2) + 1)


def test_compiling_a_disabled_function_compiles_it_as_torch_does():
    compiled = torch.compile(torch._dynamo.disable(plus_one))
    assert compiled(torch.ones(1)) == 2 and len(entries_of(compiled)) == 1


def test_run_uses_entries_and_makes_none():
    compiled = torch.compile(plus_one)
    runs = torch._dynamo.run(lambda x: compiled(x))
    assert runs(torch.ones(1)) == 2 and not entries_of(compiled)
    compiled(torch.ones(1))
    assert len(entries_of(compiled)) == 1


def test_disabled_inside_of_run_and_the_stance_that_a_disabled_function_takes():
    compiled = torch.compile(plus_one)
    inner = torch._dynamo.disable(lambda x: compiled(x))
    torch._dynamo.run(lambda x: inner(x) + compiled(x))(torch.ones(1))
    torch._dynamo.disable(lambda: torch.compiler.set_stance("force_eager"))()
    try:
        torch._dynamo.reset()
        compiled(torch.ones(1))
        assert not entries_of(compiled)
    finally:
        torch.compiler.set_stance("default")
    compiled(torch.ones(1))
    assert len(entries_of(compiled)) == 1


def test_a_function_that_torch_compiled_before_the_install_is_the_tracers():
    tracer.uninstall()
    compiled = torch.compile(lambda x: plus_one(x), backend="eager", fullgraph=True)
    with tracer.install(backend="eager"):
        before = tracer.counters["frames"]["total"]
        assert compiled(torch.ones(3)).tolist() == [2, 2, 2]
        assert tracer.counters["frames"]["total"] > before


def test_allowed_functions_are_one_node():
    def rooted(x):
        return x.sqrt() + 1

    torch.compiler.allow_in_graph(rooted)
    compiled = torch.compile(lambda x: rooted(x) * 2, fullgraph=True)
    assert compiled(torch.ones(1)) == 4
    assert [node.target for node in graphs_of(compiled)[0].graph.nodes if node.op == "call_function"][0] is rooted


def test_nonstrict_traced_functions_are_one_node():
    @torch._dynamo.nonstrict_trace
    def rooted(x):
        torch._dynamo.graph_break()
        return x.sqrt() + 1

    assert torch.compile(lambda x: rooted(x) * 2, fullgraph=True)(torch.ones(1)) == 4


def test_disallowed_functions_break_the_graph():
    try:
        torch._dynamo.disallow_in_graph(torch.sub)
        compiled = torch.compile(lambda x: torch.sub(x, 1) + 2)
        assert compiled(torch.ones(1)) == 2
        assert not [node for graph in graphs_of(compiled) for node in graph.graph.nodes if node.target is torch.sub]
    finally:
        torch._dynamo.allow_in_graph(torch.sub)


def test_forbidden_functions_raise():
    @torch._dynamo.forbid_in_graph
    def never(x):
        return x

    with pytest.raises(torch._dynamo.exc.UserError, match="never is called in traced code"):
        torch.compile(lambda x: never(x) + 1)(torch.ones(1))


def test_substitutes_are_traced_in_place_of_the_original():
    def counted(items, of):
        raise AssertionError("the original runs in CPython only")

    @torch.compiler.substitute_in_graph(counted)
    def traced(items, of):
        return sum(1 for item in items if item == of)

    assert torch.compile(lambda x: x * counted([1, 2, 1], 1), fullgraph=True)(torch.ones(1)) == 2


def test_constant_results_are_computed_once():
    calls = []

    @torch.compiler.assume_constant_result
    def version():
        calls.append(1)
        return 3

    compiled = torch.compile(lambda x: x * version(), fullgraph=True)
    assert compiled(torch.ones(1)) == 3 and compiled(torch.ones(1)) == 3 and len(calls) == 1


def test_skip_frame_and_step_unsupported_leave_code_to_cpython():
    def skipped(x):
        torch._dynamo.skip_frame()
        return x + 1

    def stepped(x):
        x = x * 2
        torch._dynamo.step_unsupported()
        return x + 1

    assert torch.compile(skipped)(torch.ones(1)) == 2
    assert torch.compile(stepped)(torch.ones(1)) == 3


def test_regions_and_numpy_functions_are_traced_through():
    @torch.compiler.nested_compile_region
    def part(x):
        return x.sin()

    @torch.compiler.wrap_numpy
    def of_arrays(a):
        return a * 2

    assert torch.equal(torch.compile(lambda x: part(x) + 1)(torch.ones(2)), torch.ones(2).sin() + 1)
    assert torch.equal(torch.compile(of_arrays)(torch.ones(2)), torch.full((2,), 2.0))


# -- the process


def test_reset_drops_entries():
    compiled = torch.compile(plus_one)
    for reset in (torch._dynamo.reset, torch.compiler.reset, reset_imported_before):
        compiled(torch.ones(1))
        assert entries_of(compiled)
        reset()
        assert not entries_of(compiled)


def test_what_export_cannot_honour_is_refused():
    with pytest.raises(tracer.exc.UserError, match="same_signature=False.*cannot be honoured"):
        torch._dynamo.export(plus_one, same_signature=False)


def test_explain_and_export_are_the_tracers():
    def broken(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    told = torch._dynamo.explain(broken)(torch.ones(2))
    assert (told.graph_count, told.graph_break_count, told.op_count) == (2, 1, 2) and told.break_reasons
    assert explain_imported_before(broken)(torch.ones(2)).graph_count == 2
    module, guards = torch._dynamo.export(times_its_size)(torch.ones(4))
    assert module(torch.ones(6))[0] == 6 and guards


def test_error_on_graph_break_raises_at_one():
    def broken(x):
        torch._dynamo.graph_break()
        return x + 1

    compiled = torch.compile(broken)
    with torch._dynamo.error_on_graph_break(True), pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(torch.ones(1))
    assert compiled(torch.ones(1)) == 2


def test_programs_are_told_that_they_are_compiled():
    def asks(x):
        return x + torch.compiler.is_compiling() + torch.compiler.is_dynamo_compiling() + torch._dynamo.is_compiling()

    assert torch.compile(asks, fullgraph=True)(torch.zeros(1)) == 3
    assert asks(torch.zeros(1)) == 0
    assert torch.compile(lambda x: x + operator.truth(torch.compiler.is_exporting()))(torch.zeros(1)) == 0
