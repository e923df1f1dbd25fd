"""Operators that take functions, which become graphs in the graph: `torch.cond`, `while_loop`, `scan`, `map`, flex attention."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops import associative_scan, map, scan, while_loop
from torch.nn.attention import flex_attention as flex

import tracer
from tests.support import breaks, captured, check
from tests.support.graphs import Graphs

wrap = torch.ops.higher_order.wrap
X = torch.linspace(-1, 1, 3)
ROWS = torch.linspace(-1, 1, 12).reshape(4, 3)
YES, NO = torch.tensor(True), torch.tensor(False)
Y = torch.full((3,), 2.0)
SEEN: list[torch.Tensor] = []


@pytest.mark.parametrize("pred", [YES, NO])
def test_both_branches_of_a_condition_are_in_the_graph(pred):
    def program(p, x):
        z = x + 1
        return torch.cond(p, lambda a: a.cos() + z, lambda a: a.sin() * Y, (x,)) * 2

    assert captured(program, pred, X).operations == ["add", "cond", "getitem", "mul"]
    module = tracer.export(program)(pred, X).graph_module
    assert torch.equal(module(YES, X), (X.cos() + X + 1) * 2)
    assert torch.equal(module(NO, X), X.sin() * Y * 2)


def test_a_condition_on_a_number_is_its_branch():
    assert captured(lambda x: torch.cond(x.dim() > 1, torch.cos, torch.sin, (x,)), X).operations == ["sin"]


def test_a_condition_on_sizes_keeps_both_branches():
    def program(x):
        return torch.cond(x.shape[0] > 4, lambda a: a + 5, lambda a: a.cos(), (x,))

    traced = tracer.compile(program, dynamic=True, recompile_limit=1, fullgraph=True)
    with tracer.config.patch(error_on_recompile=True):
        for size in (3, 8, 2):
            x = torch.randn(size)
            assert torch.equal(traced(x), program(x))


@pytest.mark.parametrize("branch", [lambda a: SEEN.append(a) or a + 1, lambda a: a.reshape(-1, 1)[:3]], ids=["effect", "shape"])
def test_a_condition_on_sizes_whose_branches_are_no_graphs_is_the_branch_of_this_call(branch):
    def program(x):
        return torch.cond(x.shape[0] > 4, branch, lambda a: a.cos(), (x,)) * 2

    graphs = Graphs()

    traced = tracer.compile(program, backend=graphs.backend, dynamic=True, fullgraph=True)
    for size, count in ((8, 1), (3, 2), (9, 2), (2, 2)):
        SEEN.clear()
        x = torch.randn(size)
        expected, seen = program(x), len(SEEN)
        assert torch.equal(traced(x), expected) and len(SEEN) == 2 * seen and len(graphs) == count
    SEEN.clear()


def test_nodes_say_in_which_operators_functions_they_stand():
    def program(p, q, x):
        return torch.cond(p, lambda a: torch.cond(q, torch.cos, torch.sin, (a,)), lambda a: a + 1, (x,))

    module = tracer.export(program)(YES, NO, X).graph_module
    stacks = {}
    for inner in module.modules():
        for node in inner.graph.nodes:
            stacks[node.name] = [name for name, _ in node.meta.get("source_fn_stack", [])]
    assert stacks["cos"] == ["cond", "cond", "cos"] and stacks["add"] == ["cond", "add"]
    assert stacks["cond"] in (["cond"], ["cond", "cond"])


def test_branches_return_containers():
    def program(p, x):
        def more(x):
            return x + 1, [x * 2, {"s": x.sum()}]

        def less(x):
            return x - 1, [x / 2, {"s": x.mean()}]

        a, (b, named) = torch.cond(p, more, less, (x,))
        return a + b + named["s"]

    captured(program, YES, X)


def test_conditions_nest():
    def inner(x, q):
        return torch.cond(q, lambda a: a + 1, lambda a: a - 1, (x,))

    def program(p, q, x):
        return torch.cond(p, lambda a: inner(a, q) * 2, lambda a: a * 3, (x,))

    module = tracer.export(program)(YES, NO, X).graph_module
    for p in (YES, NO):
        for q in (YES, NO):
            assert torch.equal(module(p, q, X), (X + 1 if q else X - 1) * 2 if p else X * 3)


def _noting(x):
    SEEN.append(x)
    return x + 1


REFUSED = {
    "a change of an object": _noting,
    "a write to its input": lambda x: x.add_(1),
    "its input": lambda x: x,
    "a view of its input": lambda x: x[:],
    "another shape": lambda x: x.sum(),
    "another dtype": lambda x: x.double(),
    "another structure": lambda x: (x + 1,),
    "a size that depends on data": lambda x: x[x > 0],
}


@pytest.mark.parametrize("kind", REFUSED)
def test_branches_that_give_something_else_are_refused(kind):
    with pytest.raises(tracer.exc.Unsupported):
        tracer.export(lambda p, x: torch.cond(p, REFUSED[kind], lambda x: x * 2, (x,)))(YES, X)
    SEEN.clear()


def test_a_loop_goes_on_while_its_condition_holds():
    def program(x, limit):
        def body(count, total):
            return count + 1, total * 2 + x

        return while_loop(lambda count, total: count < limit, body, (torch.tensor(0), x + 1))

    checked = captured(program, X, torch.tensor(3))
    assert "while_loop" in checked.operations
    module = tracer.export(program)(X, torch.tensor(3)).graph_module
    assert torch.equal(module(X, torch.tensor(0))[1], X + 1)
    assert module(X, torch.tensor(5))[0] == 5


LOOPS = {
    "a carried bool": lambda x: while_loop(lambda b, x: x.sum() < 3, lambda b, x: (True, x + 1), (False, x)),
    "an int that becomes a float": lambda x: while_loop(lambda i, x: i < 3, lambda i, x: (i + 0.5, x + i), (0, x)),
    "a branch on a carried int": lambda x: while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x + 1 if i else x + 2), (0, x)),
    "a size that it gives": lambda x: torch.zeros(while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x + 1), (0, x))[0]) + 1,
    "another shape": lambda x: while_loop(lambda x: x.sum() < 3, lambda x: (x.sum(),), (x,)),
    "a condition of several": lambda x: while_loop(lambda x: x < 3, lambda x: (x + 1,), (x,)),
}


@pytest.mark.parametrize("kind", LOOPS)
def test_loops_that_are_no_graphs_are_refused(kind):
    with pytest.raises(tracer.exc.Unsupported):
        tracer.export(LOOPS[kind])(X)


COUNTING = {
    "an int": lambda x, n: while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y + i), (0, x)),
    "a dict": lambda x, n: while_loop(lambda d: d["i"] < n, lambda d: ({"i": d["i"] + 1, "x": d["x"] * 2},), ({"i": 0, "x": x},)),
    "bounded by a size": lambda x, n: while_loop(lambda i, y: 2 * i < x.shape[0], lambda i, y: (i + 1, y + n), (0, x)),
    "a constant later": lambda x, n: while_loop(lambda i, k, y: y.sum() < 9, lambda i, k, y: (i + k, 3, y + i), (1, n, x + 1)),
}


@pytest.mark.parametrize("name", COUNTING)
def test_a_loop_carries_ints(name):
    def program(x, n):
        result = COUNTING[name](x, n)
        last = result[0] if isinstance(result[0], int) else result[0]["i"]
        return result, x * last

    assert "while_loop" in captured(program, ROWS, 3).operations
    graphs = Graphs()
    traced = tracer.optimize(graphs.backend, dynamic=True)(program)
    for rows, n in ((4, 3), (5, 4), (7, 6), (2, 5)):
        x = torch.linspace(0, 1, rows * 3).reshape(rows, 3)
        expected, seen = program(x, n), traced(x, n)
        torch.testing.assert_close(seen, expected, rtol=0, atol=0)
        assert type(seen[0][0]) is type(expected[0][0])
    assert len(graphs) == 1


def test_inductor_which_cannot_compile_such_a_loop_is_not_given_it():
    program = COUNTING["an int"]
    torch.testing.assert_close(tracer.optimize("inductor")(program)(X, 3), program(X, 3))


def test_a_scan_carries_and_stacks():
    def program(x, w):
        def step(carry, row):
            carry = {"total": carry["total"] + row, "last": row * w}
            return carry, (carry["total"].sin(), row.sum())

        return scan(step, {"total": x[0], "last": x[1]}, x)

    assert "scan" in captured(program, ROWS, X).operations


@pytest.mark.parametrize("options", [{"reverse": True}, {"dim": 1}], ids=str)
def test_a_scan_goes_along_any_dim_and_backwards(options):
    captured(lambda x: scan(lambda c, a: (c + a, c * a), x.select(options.get("dim", 0), 0) * 0, x, **options), ROWS)


def test_an_associative_scan():
    captured(lambda x: associative_scan(lambda a, b: a * b + a, x, dim=0, combine_mode="generic"), ROWS)


def test_an_associative_scan_of_pairs_is_one_operation():
    """What torch's wrapper calls for tensors on a GPU."""

    def combine(left_gate, left_value, gate, value):
        return left_gate * gate, left_value * gate + value * Y.shape[0]

    def program(x, y):
        gates, values = torch.ops.higher_order.associative_scan(combine, [x.sigmoid(), y.movedim(1, 0)], ())
        return values * 2, gates

    assert "associative_scan" in captured(program, ROWS, ROWS.reshape(3, 4)).operations
    traced = tracer.optimize("aot_eager", fullgraph=True, dynamic=True)(program)
    for rows in (5, 6, 3):
        x, y = torch.rand(rows, 3), torch.rand(3, rows)
        torch.testing.assert_close(traced(x, y), program(x, y))


@pytest.mark.parametrize(
    "combine", [lambda a, b: a, lambda a, b: a.sum(), lambda a, b: (a + b, a)], ids=["itself", "shape", "two"]
)
def test_an_associative_scan_that_combines_into_another_kind_fails_as_in_torch(combine):
    with pytest.raises(Exception, match="associative_scan"):
        tracer.optimize("eager", fullgraph=True)(lambda x: torch.ops.higher_order.associative_scan(combine, [x], ()))(ROWS)


def test_a_map_stacks():
    program = lambda x, y: map(lambda row, y: (row * y, [row.sum()]), x, y)
    assert "map_impl" in captured(program, ROWS, X).operations


def test_lengths_stay_dynamic():
    graphs = Graphs()

    def program(x):
        return map(lambda row: row * row.shape[0], x), scan(lambda c, row: (c + row, c * 2), x[0], x)

    traced = tracer.optimize(graphs.backend, dynamic=True)(program)
    for rows in (4, 6, 3):
        x = torch.linspace(-1, 1, 5 * rows).reshape(rows, 5)
        (mapped, (last, steps)), (mapped_0, (last_0, steps_0)) = traced(x), program(x)
        assert torch.equal(mapped, mapped_0) and torch.equal(last, last_0) and torch.equal(steps, steps_0)
    assert len(graphs) == 1


def _gradients(program, *leaves):
    graphs, outcomes = Graphs(), []
    traced = tracer.optimize(graphs.backend)(program)
    for run in (program, traced):
        inputs = [leaf.clone().requires_grad_() for leaf in leaves]
        result = run(*inputs)
        result.sum().backward()
        outcomes.append((result.detach(), *(leaf.grad for leaf in inputs)))
    assert len(graphs) == 1
    assert all(torch.equal(one, other) for one, other in zip(*outcomes))


def test_gradients_flow_through_a_condition():
    def program(x, w):
        return torch.cond(x.sum() > 0, lambda a: a.cos() * w, lambda a: a.sin() + w, (x,)) * 2

    _gradients(program, X, Y)
    _gradients(program, X + 1, Y)


def test_gradients_flow_through_a_map():
    _gradients(lambda x, w: map(lambda row: row.sin() * w, x), ROWS, Y)


def test_backward_inside_passes_through_a_condition():
    def program(x):
        w = torch.full((3,), 2.0, requires_grad=True)
        torch.cond(x.sum() > 0, lambda a: a.cos() * w, lambda a: a.sin() + w, (x,)).sum().backward()
        return w.grad

    captured(program, X + 1)


def test_a_wrapped_function_is_a_graph_inside_the_graph():
    def program(x):
        z = x * 2
        return wrap(lambda a, *, scale: (a + z + Y).sin() * scale, x, scale=3) + 1

    assert captured(program, X).operations == ["mul", "wrap", "getitem", "add"]


def test_a_wrapped_function_with_effects_breaks_the_graph():
    def program(x, seen):
        def body(a):
            seen.append(a)
            return a + 1

        return wrap(body, x) * 2

    assert check(program, X, []).break_ids[0] == "effect-in-subgraph"


def test_what_a_wrapped_function_returns_unchanged_stays_the_very_object():
    def program(x):
        y = wrap(lambda a: a, x)
        return y is x, x + 1

    captured(program, X)


Q = torch.linspace(-1, 1, 2 * 2 * 16 * 8).reshape(2, 2, 16, 8)
BIAS = torch.linspace(0, 1, 2)
MASK = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu")
SCORES = {
    "plain": {},
    "by place": {"score_mod": lambda score, b, h, i, j: score + (i - j)},
    "by a tensor": {"score_mod": lambda score, b, h, i, j: score * BIAS[h]},
    "masked": {"block_mask": MASK},
    "with statistics": {"return_aux": flex.AuxRequest(lse=True), "scale": 0.5},
}


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("kind", SCORES)
def test_flex_attention(kind):
    options = SCORES[kind]
    assert "flex_attention" in captured(lambda q: flex.flex_attention(q, q * 2, q + 1, **options), Q).operations


def test_other_higher_order_operators_break():
    assert breaks(lambda x: torch.ops.higher_order.hints_wrapper(torch.sin, (x,), {}, hints={}), X).break_ids


def test_an_operator_with_another_dtype_is_one_operation():
    def program(x, y):
        return torch.ops.higher_order.out_dtype(torch.ops.aten.mm.default, torch.int32, x, y) + 1

    matrix = torch.randint(-128, 127, (4, 4), dtype=torch.int8)
    assert captured(program, matrix, matrix).operations == ["out_dtype", "add"]


def test_a_key_that_the_function_deletes_from_a_dict_is_deleted_once():
    def program(x, table):
        def delete(a):
            del table["a"]
            return a.clone()

        return wrap(delete, x)

    assert check(program, X, {"a": 1, "b": 2}).break_ids[0] == "effect-in-subgraph"


def test_the_graphs_of_branches_are_named_after_the_operator():
    def program(p, x):
        inner = lambda a: torch.cond(p, torch.exp, torch.neg, (a,))
        return torch.cond(p, inner, torch.sin, (x,))

    graphs = Graphs()
    tracer.optimize(graphs.backend, fullgraph=True)(program)(YES, X)
    names = {name.rstrip("0123456789") for name, _ in graphs[0].named_modules()}
    assert names == {"", "cond_true_", "cond_false_", "cond_true_1.cond_true_", "cond_true_1.cond_false_"}
