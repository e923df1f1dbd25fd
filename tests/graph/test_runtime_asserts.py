"""What a trace assumed of data is checked when the graph runs: a value for which it is false raises, with any backend."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.soundness.watching import Watched
from tests.support.outcomes import outcome

T = torch.tensor


@pytest.fixture(autouse=True)
def captured_data():
    with tracer.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


def two_bounds(x, n):
    k = n.item()
    torch._check(k <= 3, lambda: "at most three")
    torch._check(k >= 1)
    return x * k


def branch_on_what_was_checked(x, n):
    k = n.item()
    torch._check(k <= 3)
    return x + 1 if k <= 3 else x - 1


def value_only_checked(x, n):
    torch._check(n.item() != 7)
    return x + 1


def equal_to_a_size(x, n):
    k = n.sum().item()
    torch._check(k == x.shape[0])
    return x.sum() + (k == 4)


def size_of_a_mask(x, n):
    y = x[x > 0]
    torch._check(y.shape[0] <= n.dim() + 2)
    return y * 2 if y.shape[0] <= n.dim() + 2 else y


def size_is_read_before_the_change(x, n):
    k = n.item()
    torch._check(k % 2 == 0)
    n.add_(1)
    return x * k


def two_reads_with_a_change_between(x, n):
    a = n.item()
    n.add_(1)
    b = n.item()
    torch._check(a + b <= 7)
    return x * a + b


def a_float(x, n):
    k = (n / 2).item()
    torch._check(k < 2.0)
    return x * k


def two_conditions_at_once(x, n):
    k = n.item()
    torch._check(torch.sym_max(k, 2) * k // 3 + abs(k) < 9)
    return x + k


def an_assumption_of_an_operator(x, n):
    k = n.item()
    total = torch.zeros(k) + x  # sizes that are equal, or one of them 1; assumed equal
    return total * 2 if k == x.shape[0] else total * 3


def a_view_that_begins_at_a_number(x, n):
    return x.narrow(0, n.item(), 2) * 2, torch.narrow(x, 0, n, 1), x.narrow(0, start=n, length=1) + 1


def a_split_at_numbers(x, n):
    return torch.tensor_split(x, torch.stack([n, n + 1]))[1:], torch.tensor_split(x, [n.item()])[0] + 1


OF = {
    two_bounds: [2, 3, 5, 0, 1],
    branch_on_what_was_checked: [2, 4],
    value_only_checked: [2, 7, 8],
    equal_to_a_size: [4, 5, 3],
    size_of_a_mask: [2],
    size_is_read_before_the_change: [2, 3, 4],
    two_reads_with_a_change_between: [2, 3, 4],
    a_float: [2, 3, 4, 7],
    two_conditions_at_once: [2, 3, 4],
    an_assumption_of_an_operator: [4, 5, 1, -1],
    a_view_that_begins_at_a_number: [1, 0, 2, -3, 3, 9],
    a_split_at_numbers: [1, 0, 2, 5],
}


def same(a, b):
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a == b


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", OF, ids=lambda program: program.__name__)
def test_data_that_contradict_the_trace_raise(program, backend, dynamic):
    compiled = tracer.optimize(backend, dynamic=dynamic)(program)
    for x in (torch.ones(4), torch.tensor([1.0, -1, 1, -1]), torch.ones(3)):
        for value in OF[program]:
            first, second = T(value), T(value)
            expected, seen = outcome(program, x, first), outcome(compiled, x, second)
            assert same(expected, seen), (x, value, expected, seen)
            assert torch.equal(first, second)


@pytest.mark.parametrize("program", [a_view_that_begins_at_a_number, a_split_at_numbers], ids=lambda program: program.__name__)
def test_places_that_data_say_are_captured(program):
    watched = Watched(program)
    for value in (1, 2):
        watched.compiled(torch.ones(4), T(value))
    assert len(watched.graphs) == 1
    assert any("narrow" in str(n.target) or "split" in str(n.target) for n in watched.graphs[0].graph.nodes)


def test_the_check_stands_in_the_graph_and_names_the_line():
    watched = Watched(two_bounds)
    watched.compiled(torch.ones(4), T(2))
    checks = [n for n in watched.graphs[0].graph.nodes if n.target is torch.ops.aten._assert_scalar.default]
    assert len(checks) == 2
    line = two_bounds.__code__.co_firstlineno + 2
    assert f"u0 <= 3 was assumed at {__file__}:{line} in two_bounds" in checks[0].args[1]


def test_a_check_that_cannot_hold_breaks_the_graph():
    def contradicted(x, n):
        k = n.item()
        torch._check(k > 5)
        torch._check(k < 3)
        return x

    watched = Watched(contradicted)
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        watched.compiled(torch.ones(2), T(6))


def test_inputs_written_before_a_failing_check_are_put_back():
    def program(x, n):
        x.add_(1)
        torch._check(n.item() < 3, lambda: "three is too much")
        return x * 2

    for backend in ("eager", "aot_eager"):
        compiled = tracer.optimize(backend)(program)
        x = torch.zeros(2)
        compiled(x, T(1))
        with pytest.raises(RuntimeError, match="three is too much"):
            compiled(x, T(3))
        assert torch.equal(x, T([2.0, 2.0]))


def test_sizes_marked_unbacked_are_checked_too():
    def program(x):
        torch._check(x.shape[0] <= 5)
        return x + 1 if x.shape[0] <= 5 else x - 1

    compiled = tracer.optimize("eager")(program)
    for size, fits in ((3, True), (0, True), (5, True), (6, False)):
        x = torch.zeros(size)
        tracer.mark_unbacked(x, 0)
        if fits:
            assert torch.equal(compiled(x), x + 1)
        else:
            with pytest.raises(RuntimeError):
                compiled(x)


def kept_rows_without_dims_of_size_one(x):
    rows = x[x[:, 0] > 0].squeeze()
    return rows.dim(), rows + 1


def kept_rows_without_their_dim(x):
    rows = x[x[:, 0] > 0].squeeze(0)
    return rows.dim(), rows + 1


def made_of_a_number_from_data(x):
    made = torch.zeros(int(x[:, 0].sum().item()), 3).squeeze((0, 1))
    return made.dim(), made + 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "fn",
    [kept_rows_without_dims_of_size_one, kept_rows_without_their_dim, made_of_a_number_from_data],
    ids=lambda fn: fn.__name__,
)
def test_a_dim_that_data_make_one_long_is_squeezed(fn, backend):
    compiled = tracer.optimize(backend, dynamic=True)(fn)
    for kept in (2, 1, 0, 3, 1):
        x = torch.cat([torch.ones(kept, 3), torch.zeros(4 - kept, 3)])
        expected, seen = fn(x), compiled(x)
        assert seen[0] == expected[0]
        assert torch.equal(seen[1], expected[1])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "arrange", [lambda rows: rows.t().flatten(), lambda rows: rows.t().contiguous()], ids=["flatten", "contiguous"]
)
def test_a_change_reaches_the_rows_where_data_make_the_copy_a_view(arrange, backend):
    def f(x):
        rows = x[x[:, 0] > 0]
        arranged = arrange(rows)
        arranged.add_(1)
        return arranged, rows

    compiled = tracer.optimize(backend, dynamic=True)(f)
    for kept in (2, 1, 3, 0, 1):
        x = torch.cat([torch.ones(kept, 3), torch.zeros(4 - kept, 3)])
        assert all(map(torch.equal, f(x), compiled(x)))


def kept_by_a_mask(x, y):
    return x[x > 0]


def places(x, y):
    return x.nonzero()


def places_in_all_dims(x, y):
    return torch.where(x[:, None] > y)[0]


def selected(x, y):
    return torch.masked_select(x[:, None], x[:, None] > y)


def distinct(x, y):
    return torch.unique(x)


def distinct_rows(x, y):
    return torch.unique(torch.stack([x, x], 1), dim=0)


def runs(x, y):
    return torch.unique_consecutive(x)


def runs_of_rows(x, y):
    return torch.unique_consecutive(torch.stack([x, x], 1), dim=0)


def runs_of_columns(x, y):
    return torch.unique_consecutive(torch.stack([x, x]), dim=1).T


BOUNDS = {
    kept_by_a_mask: (lambda n, m: n, False),
    places: (lambda n, m: n, False),
    places_in_all_dims: (lambda n, m: n * m, False),
    selected: (lambda n, m: n * m, False),
    distinct: (lambda n, m: n, True),
    distinct_rows: (lambda n, m: n, True),
    runs: (lambda n, m: n, True),
    runs_of_rows: (lambda n, m: n, True),
    runs_of_columns: (lambda n, m: n, True),
}


@pytest.mark.parametrize("fn", BOUNDS, ids=lambda fn: fn.__name__)
def test_a_size_that_data_decide_is_bounded_by_those_of_the_input(fn):
    most, some = BOUNDS[fn]

    def program(x, y):
        found = fn(x, y)
        if found.shape[0] <= most(x.shape[0], y.shape[0]) and (not some or found.shape[0] >= 1):
            return found + 0
        return found - 1000

    compiled = tracer.optimize("eager", fullgraph=True, dynamic=True)(program)
    for size in (3, 5, 4):
        x, y = torch.randint(-2, 3, (size,)).float(), torch.zeros(size + 3)
        for given in (x, torch.ones(size), torch.zeros(size)):
            assert torch.equal(compiled(given, y), fn(given, y))
    assert compiled.stats()["breaks"] == 0


RAISING = {
    torch._check: RuntimeError,
    torch._check_value: ValueError,
    torch._check_index: IndexError,
    torch._check_type: TypeError,
    torch._check_not_implemented: NotImplementedError,
}


@pytest.mark.parametrize("check", RAISING, ids=lambda check: check.__name__)
def test_a_check_of_sizes_that_does_not_hold_raises_without_a_break(check):
    def plain(x, y):
        check(x.shape[0] <= y.shape[0])
        return x.sum() + y.sum()

    def caught(x, y):
        try:
            check(x.shape[0] <= y.shape[0], lambda: f"{x.shape[0]} are too many")
        except RAISING[check] as error:
            return x * 2, str(error)
        return x + y.sum(), ""

    for fn in (plain, caught):
        compiled = tracer.optimize("eager", dynamic=True)(fn)
        for sizes in ((3, 5), (5, 3), (2, 9), (9, 2)):
            args = [torch.ones(size) for size in sizes]
            assert same(outcome(fn, *args), outcome(compiled, *args))
        assert compiled.stats()["breaks"] == 0


def test_shapes_that_a_check_refuses_are_certified_as_refused():
    def program(x, y):
        torch._check(x.shape[0] <= y.shape[0])
        return x.sum() + y.sum()

    compiled = tracer.optimize("eager")(program)
    found = tracer.precompile(compiled, "x: A; y: B; A in 1..8; B in 1..8", (torch.ones(3), torch.ones(5)))
    assert found.certified and sorted(each.kind for each in found.covering) == ["graph", "python"]
    compiled.seal()
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        compiled(torch.ones(4), torch.ones(3))
