"""`export(fn)(*args)`: one GraphModule that is called as fn is."""

from __future__ import annotations

import inspect

import pytest
import torch

import tracer
from tests.support import captured
from tracer import user_marks
from tracer.exc import Unsupported, UserError


def test_what_is_exported_computes_what_the_function_computes():
    def fn(x, y):
        return {"sum": x + y, "rest": (y, 3)}

    gm, guards = tracer.export(fn)(torch.ones(2), torch.zeros(2))
    x, y = torch.randn(2), torch.randn(2)
    result = gm(x, y)
    assert torch.equal(result["sum"], x + y)
    assert result["rest"][0] is y
    assert result["rest"][1] == 3
    assert any("check_tensor(L['x']" in str(guard) for guard in guards)


def test_containers_and_keywords_are_arguments_as_before():
    def fn(pair, *, scale):
        return [pair[0] * scale["by"], pair[1]]

    gm = tracer.export(fn)((torch.ones(2), torch.ones(3)), scale={"by": torch.ones(2)})[0]
    a, b, c = torch.randn(2), torch.randn(3), torch.randn(2)
    first, second = gm((a, b), scale={"by": c})
    assert torch.equal(first, a * c)
    assert second is b


def test_a_module_is_exported_with_its_parameters_and_buffers():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)).eval()
    gm = tracer.export(model)(torch.ones(4, 2)).graph_module
    x = torch.randn(4, 2)
    assert torch.equal(gm(x), model(x))
    assert set(gm.state_dict()) <= set(model.state_dict())
    assert gm.get_parameter("0.weight") is model[0].weight


def test_dims_that_vary_are_named():
    def fn(x, n):
        return x.reshape(x.shape[0] * n, -1) + x.shape[0]

    gm = tracer.export(fn, dynamic_shapes={"x": {0: torch.export.Dim("batch")}, "n": None})(torch.ones(4, 2), 2).graph_module
    for size in (2, 5, 9):
        assert torch.equal(gm(torch.ones(size, 2), 2), fn(torch.ones(size, 2), 2))


def test_sizes_that_are_returned_follow_the_input():
    dims = ({0: torch.export.Dim("batch")},)
    gm = tracer.export(lambda x: (x * 2, x.shape[0] + 1), dynamic_shapes=dims)(torch.ones(4)).graph_module
    assert gm(torch.ones(7))[1] == 8


def test_a_tensor_that_the_function_closes_over_is_a_constant():
    constant = torch.arange(3.0)
    gm = tracer.export(lambda x: x + constant)(torch.ones(3)).graph_module
    assert torch.equal(gm(torch.ones(3)), torch.ones(3) + constant)


def test_a_function_without_operations_is_exported():
    assert tracer.export(lambda x, y: (y, x))(1, torch.ones(2)).graph_module(1, torch.ones(2))[1] == 1


def test_where_the_graph_would_break_nothing_is_exported():
    def fn(x):
        print(end="")
        return x + 1

    with pytest.raises(Unsupported):
        tracer.export(fn)(torch.ones(2))


def test_a_call_that_changes_objects_is_refused():
    seen: list[torch.Tensor] = []

    def fn(x):
        seen.append(x)
        return x + 1

    with pytest.raises(UserError, match="changes"):
        tracer.export(fn)(torch.ones(2))


def test_a_tensor_inside_an_argument_that_is_no_container_is_refused():
    class Box:
        def __init__(self, tensor):
            self.tensor = tensor

    with pytest.raises(UserError, match="inside an object"):
        tracer.export(lambda box: box.tensor + 1)(Box(torch.ones(2)))


def test_dynamic_shapes_of_an_unknown_argument_are_refused():
    with pytest.raises(UserError, match="not an argument"):
        tracer.export(lambda x: x + 1, dynamic_shapes={"y": {0: None}})(torch.ones(2))


def test_hints_of_dims_and_marks_that_do_not_stay():
    dim = torch.export.Dim
    x, y = torch.ones(4, 3), torch.ones(4, 3)
    shapes = {"x": {0: dim.DYNAMIC, 1: dim.STATIC}, "y": (dim.AUTO, 3)}
    result = tracer.export(lambda x, y: (x * 2, y + 1), dynamic_shapes=shapes)(x, y)
    first, second = result.graph_module(torch.ones(5, 3), torch.ones(7, 3))
    assert first.shape == (5, 3) and second.shape == (7, 3)
    assert not user_marks.dim_marks(x) and not user_marks.dim_marks(y)


def test_the_guards_tell_what_is_assumed_of_dims():
    batch = torch.export.Dim("batch", min=2, max=16)
    shapes = {"x": {0: batch}, "y": {0: 2 * batch}}

    def program(x, y):
        return x + y.reshape(x.shape[0], 6)[:, :3]

    result = tracer.export(program, dynamic_shapes=shapes)(torch.ones(4, 3), torch.ones(8, 3))
    assumed = [str(guard) for guard in result.guards]
    assert "2 <= L['x'].size()[0] <= 16" in assumed
    assert "L['y'].size()[0] == 2*L['x'].size()[0]" in assumed


@pytest.mark.parametrize("program", [lambda x: x.reshape(2, 6), lambda x: x * 2 if x.shape[0] < 10 else x])
def test_a_dim_that_the_program_fixes_is_an_error(program):
    with pytest.raises(tracer.exc.ConstraintViolationError):
        tracer.export(program, dynamic_shapes={"x": {0: torch.export.Dim("batch", max=16)}})(torch.ones(4, 3))


def test_nodes_say_which_modules_and_functions_they_come_from():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Sequential(torch.nn.ReLU()))
    nodes = {node.name: node for node in tracer.export(model)(torch.ones(4, 3)).graph_module.graph.nodes}
    paths = [path for path, _ in nodes["relu"].meta["nn_module_stack"].values()]
    assert paths == ["L['self']", "L['self'].1", "L['self'].1.0"]
    assert [cls for _, cls in nodes["linear"].meta["nn_module_stack"].values()] == [torch.nn.Sequential, torch.nn.Linear]
    assert nodes["linear"].meta["source_fn_stack"] == [("linear", nodes["linear"].target)]
    assert nodes["linear"].meta["val"].shape == (4, 3)


def test_the_arguments_of_the_module_are_named_as_those_of_the_function():
    def fn(x, pair, *rest, scale=None, **more):
        return x + pair[0] * rest[0] + rest[1] + scale * more["shift"]

    args = torch.ones(2), (torch.ones(2), 3), torch.ones(2), torch.ones(2)
    module, _ = tracer.export(fn)(*args, scale=torch.ones(2), shift=torch.ones(2))
    assert list(inspect.signature(module.forward).parameters) == ["x", "pair", "rest_0", "rest_1", "scale", "shift"]
    again = [torch.full((2,), 2.0), (torch.ones(2), 3), torch.ones(2), torch.ones(2)]
    named = {"scale": torch.ones(2), "shift": torch.full((2,), 5.0)}
    assert torch.equal(module(*again, **named), fn(*again, **named))


def test_an_argument_that_a_constant_function_returned_stays_what_it_was():
    @tracer.assume_constant_result
    def same(x):
        return x

    module, _ = tracer.export(lambda x: x + same(x))(torch.ones(2))
    assert torch.equal(module(torch.full((2,), 5.0)), torch.full((2,), 6.0))


def test_a_tensor_of_the_program_that_is_returned_is_a_constant():
    outside = torch.arange(3.0)
    module, _ = tracer.export(lambda x: (x + 1, outside))(torch.ones(2))
    assert torch.equal(module(torch.zeros(2))[1], outside)


def test_an_exported_module_is_traced():
    args = torch.ones(2), (torch.ones(2), torch.zeros(2))
    module, _ = tracer.export(lambda x, pair: {"sum": x + pair[0], "two": [pair[1] * 2]})(*args)
    check = captured(module, *args)
    assert check.operations == ["add", "mul"]


def test_a_call_that_cannot_be_traced_is_refused():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Mode(), pytest.raises(UserError, match="cannot be traced here"):
        tracer.export(lambda x: x + 1)(torch.ones(2))


def operators(module):
    return [node.target for node in module.graph.nodes if node.op == "call_function"]


def test_aten_operators_are_what_the_graph_runs():
    aten = torch.ops.aten
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Sequential(torch.nn.GELU()))
    module, _ = tracer.export(model, aten_graph=True)(torch.ones(4, 3))
    assert operators(module) == [aten.t.default, aten.addmm.default, aten.gelu.default]
    x = torch.randn(4, 3)
    assert torch.equal(module(x), model(x))
    nodes = [node for node in module.graph.nodes if node.op == "call_function"]
    assert nodes[-1].meta["source_fn_stack"][0][0] == "gelu"
    assert [path for path, _ in nodes[-1].meta["nn_module_stack"].values()][-1] == "L['self'].1.0"
    assert nodes[-1].meta["val"].shape == (4, 2) and "forward" in nodes[-1].stack_trace


def test_a_condition_holds_aten_operators_in_both_branches():
    def program(x):
        return torch.cond(x.sum() > 0, lambda a: a.relu() + 1, lambda a: a - 1, (x,))

    module, _ = tracer.export(program, aten_graph=True)(torch.ones(3))
    assert torch.ops.higher_order.cond in operators(module)
    for x in (torch.ones(3), -torch.ones(3)):
        assert torch.equal(module(x), program(x))


def test_operators_are_written_as_the_decomposition_table_says():
    aten = torch.ops.aten
    table = {aten.t.default: torch.cos}
    module, _ = tracer.export(lambda x: x.t() + 1, aten_graph=True, decomposition_table=table)(torch.ones(3))
    assert operators(module) == [aten.cos.default, aten.add.Tensor]
    above, _ = tracer.export(lambda x: torch.matmul(x, x), aten_graph=True, pre_dispatch=True)(torch.ones(2, 2))
    assert operators(above) == [aten.matmul.default]
    with pytest.raises(UserError, match="ATen"):
        tracer.export(torch.cos, decomposition_table=table)


@pytest.mark.parametrize("aten_graph", [False, True])
def test_every_dim_that_is_not_named_may_vary(aten_graph):
    def program(x, y, n):
        return torch.cat([x, y[:, : x.shape[1]]]).reshape(-1, x.shape[1]) * (x.shape[0] + n), x.shape[0] + 1

    module, _ = tracer.export(program, dynamic=True, aten_graph=aten_graph)(torch.ones(2, 3), torch.ones(5, 4), 2)
    args = torch.randn(7, 6), torch.randn(3, 9), 2
    (tensor, number), (expected, count) = module(*args), program(*args)
    assert torch.equal(tensor, expected) and number == count
    fixed, _ = tracer.export(program, dynamic=True, dynamic_shapes={"x": {1: torch.export.Dim.STATIC}})(*args)
    assert all("sym_size" not in str(node.target) or node.args[1] != 1 for node in fixed.graph.nodes)


@pytest.mark.parametrize("aten_graph", [False, True])
def test_what_the_call_writes_to_is_put_back(aten_graph):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.BatchNorm1d(2)
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x):
            x.add_(1)
            self.seen.add_(1)
            return self.inner(x) + self.seen

    model, x = Counting(), torch.randn(3, 2)
    before = [tensor.clone() for tensor in (x, *model.buffers())]
    module, _ = tracer.export(model, aten_graph=aten_graph)(x)
    assert all(map(torch.equal, before, (x, *model.buffers())))
    module(x)
    assert torch.equal(x, before[0] + 1) and torch.equal(model.seen, torch.ones(2))


def test_parameters_say_whose_they_are_and_arguments_what_they_carry():
    model, x, unused = torch.nn.Sequential(torch.nn.Linear(3, 3)), torch.ones(4, 3), torch.ones(1)
    x.tag = unused.tag = "a"
    module, _ = tracer.export(lambda x, y: model(x))(x, unused)
    assert [node.meta.get("tensor_dict") for node in module.graph.nodes if node.op == "placeholder"] == [{"tag": "a"}, None]
    weight = next(node for node in tracer.export(model)(x).graph_module.graph.nodes if node.target == "0.weight")
    assert list(weight.meta["nn_module_stack"].values()) == [("L['self']", torch.nn.Sequential), ("L['self'].0", torch.nn.Linear)]


def test_a_stride_that_was_marked_is_read_from_the_argument():
    def program(x):
        return x * x.stride(0)

    x, other = torch.randn(4, 50)[:, :9], torch.randn(5, 20)[:, :9]
    tracer.mark_dynamic(x, 0, strides=True)
    module, _ = tracer.export(program)(x)
    assert torch.equal(module(other), program(other))
