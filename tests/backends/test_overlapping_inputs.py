"""Inputs that lie in the same memory, with backends that compute in another order than the program is written in."""

from __future__ import annotations

import numpy
import pytest
import torch
from torch import nn

import tracer
from tracer import _C

BACKENDS = ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.full)]


def check_calls(program, backend, *cases, dynamic=None, entries=None):
    """Each case makes (arguments, what else to compare afterwards); all are served by one compiled function."""
    fn = tracer.compile(program, backend=backend, dynamic=dynamic)
    for number, make in enumerate(cases):
        (args, watched), (same_args, same_watched) = make(), make()
        expected, seen = program(*args), fn(*same_args)
        torch.testing.assert_close(seen, expected, msg=lambda text, n=number: f"call {n}: {text}")
        torch.testing.assert_close(same_watched, watched, msg=lambda text, n=number: f"memory after call {n}: {text}")
    if entries is not None and backend != "eager":
        assert len(tracer.region_of(fn).entries()) == entries
    return fn


def slices(*bounds, size=12):
    """Arguments that are slices of one tensor, which is watched."""

    def make():
        base = torch.arange(float(size))
        return [base[start:stop] for start, stop in bounds], [base]

    return make


def apart(*sizes):
    def make():
        tensors = [torch.arange(float(size)) for size in sizes]
        return tensors, tensors

    return make


def read_after_write(a, b):
    a.add_(1)
    return b * 2


def both_written(a, b):
    a.add_(1)
    b.mul_(2)
    return a + b


def write_read_write(a, b):
    c = b.sum()
    a[:2] = c
    d = b * 2
    b.zero_()
    return d, a + 1


PROGRAMS = [read_after_write, both_written, write_read_write]
OVERLAPS = [slices((0, 4), (2, 6)), slices((2, 6), (0, 4)), slices((0, 4), (0, 4)), slices((1, 5), (4, 8))]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_traced_apart_and_called_with_an_overlap(backend, program, dynamic):
    check_calls(program, backend, apart(4, 4), *OVERLAPS, apart(4, 4), dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_traced_with_an_overlap_and_called_with_another_or_none(backend, program, dynamic):
    check_calls(program, backend, OVERLAPS[0], apart(4, 4), *OVERLAPS[1:], slices((3, 7), (5, 9)), dynamic=dynamic)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_vary_with_and_without_an_overlap(backend):
    def overlap(n):
        return slices((0, n), (n // 2, n // 2 + n), size=40)

    check_calls(both_written, backend, overlap(6), overlap(8), overlap(11), apart(5, 5), apart(9, 9), overlap(3))


@pytest.mark.parametrize("backend", BACKENDS)
def test_slices_of_one_pool_that_do_not_overlap_are_one_entry_wherever_they_lie(backend):
    cases = [slices((0, 4), (4, 8)), slices((8, 12), (0, 4)), slices((2, 6), (7, 11)), apart(4, 4)]
    check_calls(both_written, backend, *cases, entries=1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_is_guarded_where_nothing_is_written(backend):
    def reads(a, b):
        return a.view(2, 2), b * 2, b[1:]

    fn = check_calls(reads, backend, OVERLAPS[0], apart(4, 4), *OVERLAPS[1:], entries=1)
    assert "overlap" not in tracer.region_of(fn).entries()[0].guarded_code.guards_text


def columns(first, second):
    def make():
        base = torch.arange(24.0).reshape(4, 6)
        return [base[:, first], base[:, second]], [base]

    return make


@pytest.mark.parametrize("backend", BACKENDS)
def test_columns_that_interleave_or_meet(backend):
    cases = [columns(slice(0, 3), slice(3, 6)), columns(slice(0, 3), slice(2, 5)), columns(slice(0, 5, 2), slice(1, 6, 2))]
    check_calls(both_written, backend, *cases, *reversed(cases))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("order", [((0, 3), (4, 7), (2, 5)), ((2, 5), (0, 3), (4, 7)), ((4, 7), (0, 3), (6, 9))])
def test_two_that_a_third_joins(backend, order):
    def program(a, b, c):
        a.add_(1)
        c.mul_(2)
        return a + b + c

    check_calls(program, backend, slices(*order), apart(3, 3, 3), slices((0, 3), (3, 6), (6, 9)), slices(*order))


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_array_wrapped_twice(backend):
    def wrapped():
        array = numpy.arange(4.0)
        tensors = [torch.from_numpy(array), torch.from_numpy(array)]
        return tensors, tensors

    def separate():
        tensors = [torch.arange(4.0, dtype=torch.float64) for _ in range(2)]
        return tensors, tensors

    check_calls(read_after_write, backend, separate, wrapped, separate)
    check_calls(read_after_write, backend, wrapped, separate, wrapped)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_memory_read_as_two_types(backend):
    def program(floats, ints):
        floats.neg_()
        return ints + 1

    def make():
        floats = torch.arange(4.0)
        return [floats, floats.view(torch.int32)], [floats]

    def separate():
        return [torch.arange(4.0), torch.arange(4, dtype=torch.int32)], []

    check_calls(program, backend, make, separate, make)
    check_calls(program, backend, separate, make)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_graph_that_reaches_beyond_its_input(backend):
    def program(a, b):
        wide = a.as_strided((8,), (1,))
        wide.add_(1)
        return b * 2

    check_calls(program, backend, slices((0, 4), (4, 8)), slices((0, 4), (8, 12)), slices((0, 4), (2, 6)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_with_a_history_that_overlap(backend):
    def make():
        leaf = torch.arange(8.0, requires_grad=True)
        base = leaf * 1
        return [base[:4], base[2:6], leaf], [base]

    def compute(a, b, leaf):
        a.mul_(3)
        return b * 2

    fn = tracer.compile(compute, backend=backend)
    for _ in range(2):
        args, same = make()[0], make()[0]
        expected, seen = compute(*args), fn(*same)
        torch.testing.assert_close(seen, expected)
        ours, theirs = (torch.autograd.grad(out.sum(), given[2])[0] for out, given in ((seen, same), (expected, args)))
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_that_share_storage_and_the_optimizer_that_steps_on_them(backend):
    def model():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        net[1].weight.data = net[0].weight.data
        return net

    def step(net, x):
        net(x).square().sum().backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.sub_(parameter.grad, alpha=0.01)
                parameter.grad = None

    ours, theirs, x = model(), model(), torch.randn(3, 4)
    compiled = tracer.compile(step, backend=backend)
    for _ in range(3):
        compiled(ours, x)
        step(theirs, x)
        torch.testing.assert_close(list(ours.parameters()), list(theirs.parameters()))


@pytest.mark.parametrize("backend", BACKENDS)
def test_tied_weights(backend):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            return self.head(self.embed(ids))

    torch.manual_seed(0)
    model, ids = Tied(), torch.tensor([1, 2, 3])
    compiled = tracer.compile(model, backend=backend)
    torch.testing.assert_close(compiled(ids), model(ids))
    (ours,) = torch.autograd.grad(compiled(ids).sin().sum(), [model.embed.weight])
    (theirs,) = torch.autograd.grad(model(ids).sin().sum(), [model.embed.weight])
    torch.testing.assert_close(ours, theirs)
    model.head.weight = nn.Parameter(model.embed.weight.detach().clone())
    with torch.no_grad():
        model.head.weight.add_(1)
    torch.testing.assert_close(compiled(ids), model(ids))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_buffer_that_is_written_and_handed_in_too(backend):
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cache", torch.zeros(6))

        def forward(self, x):
            self.cache.mul_(3)
            return self.cache * 2, x + 1

    ours, theirs = Cache(), Cache()
    compiled = tracer.compile(ours, backend=backend)
    calls = [lambda m: m.cache[2:4], lambda m: torch.ones(2), lambda m: m.cache[:2], lambda m: m.cache[1:3]]
    for number, argument in enumerate(calls):
        for module in (ours, theirs):
            module.cache.copy_(torch.arange(6.0) + number)
        torch.testing.assert_close(compiled(argument(ours)), theirs(argument(theirs)))
        torch.testing.assert_close(ours.cache, theirs.cache)


# -- one input, and what comes out -------------------------------------------------------------------------------------


def returned(a):
    return a


def written_and_returned(a):
    a.add_(1)
    return a


def written_and_a_view_of_it(a):
    a.add_(1)
    return a[1:], a.view(2, 2), a + 1


def views_of_views(a):
    return a[1:], a[1:][1:], a.view(2, 2).t()


def outputs_alias_each_other(a):
    b = a + 1
    return b, b[1:], b.view(2, 2), b


def a_view_written(a):
    a[1:].mul_(2)
    return a[:2]


def detached(a):
    return a.detach(), a.detach()[1:]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "program",
    [returned, written_and_returned, written_and_a_view_of_it, views_of_views, outputs_alias_each_other, a_view_written,
     detached],
)  # fmt: skip
@pytest.mark.parametrize("backend", BACKENDS)
def test_outputs_alias_what_they_alias_in_the_program(backend, program, dynamic):
    fn = tracer.compile(program, backend=backend, dynamic=dynamic)
    for offset in (0, 3, 5):
        outcomes = []
        for run in (program, fn):
            base = torch.arange(12.0)
            a = base[offset : offset + 4]
            outs = run(a)
            outs = outs if isinstance(outs, tuple) else (outs,)
            values = [out.clone() for out in outs]
            with torch.no_grad():
                outs[0].add_(100)
            outcomes.append((values, outs, base, [out is a for out in outs], [out.storage_offset() for out in outs]))
        torch.testing.assert_close(outcomes[1], outcomes[0])
    assert len(tracer.region_of(fn).entries()) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_leaf_that_is_written_without_grad(backend):
    def program(w):
        with torch.no_grad():
            w.add_(1)
        return w * 2

    ours, theirs = (nn.Parameter(torch.ones(3)) for _ in range(2))
    fn = tracer.compile(program, backend=backend)
    for _ in range(3):
        seen, expected = fn(ours), program(theirs)
        torch.testing.assert_close(seen, expected)
        torch.testing.assert_close(torch.autograd.grad(seen.sum(), ours), torch.autograd.grad(expected.sum(), theirs))
    assert torch.equal(ours, theirs) and ours.requires_grad and ours.is_leaf


# -- the guards themselves -----------------------------------------------------------------------------------------------


def test_what_the_guards_say():
    fn = check_calls(read_after_write, "aot_eager", apart(4, 4), OVERLAPS[0], entries=2)
    texts = [entry.guarded_code.guards_text for entry in tracer.region_of(fn).entries()]
    assert any("no overlap of L['a'] with L['b']" in text for text in texts)
    assert any("one storage of 48 bytes holds L['a'], L['b'] at 0, 2" in text for text in texts)


def test_why_an_entry_does_not_serve():
    reasons = []
    fn = tracer.optimize("aot_eager", guard_fail_fn=reasons.append)(read_after_write)
    for make in (apart(4, 4), OVERLAPS[0], OVERLAPS[1]):
        fn(*make()[0])
    assert "memory is shared: no overlap of L['a'] with L['b']" in str(reasons[0])


def test_extents():
    base = torch.arange(12.0)
    storage, start, end, offset, nbytes = _C.memory_extent(base[2:8:2], False)
    assert (end - start, offset, nbytes) == (5 * 4, 2, 48)
    assert _C.memory_extent(base[2:4], True)[1:3] == (base.data_ptr(), base.data_ptr() + 48)
    assert _C.memory_extent(torch.empty(0), False)[1:3] == (0, 0) == _C.memory_extent(torch.empty(3, device="meta"), False)[1:3]
    with pytest.raises(TypeError):
        _C.memory_extent(3, False)


def test_who_is_apart():
    base, other = torch.arange(12.0), torch.ones(3)
    left, middle, right = base[:4], base[3:8], base[8:]
    assert _C.memory_apart((1,), False, left, right, other, torch.empty(0))
    assert not _C.memory_apart((1,), True, left, right)
    assert not _C.memory_apart((1,), False, left, other, middle)
    assert not _C.memory_apart((1,), False, middle, other, left)
    assert not _C.memory_apart((1, 1), False, middle, left)
    assert _C.memory_apart((2, 1), False, left, middle, other, right)
    assert _C.memory_apart((1,), False, other, left, left)
    assert not _C.memory_apart((1,), False, other, 3)
    for wrong in ((), (3, False), ((2,), False, other)):
        with pytest.raises(TypeError):
            _C.memory_apart(*wrong)


def test_who_shares():
    base = torch.arange(12.0)
    assert _C.memory_shared((0, 2), 48, base[:4], base[2:6])
    assert not _C.memory_shared((0, 2), 48, base[:4], base[1:6])
    assert not _C.memory_shared((0, 2), 40, base[:4], base[2:6])
    assert not _C.memory_shared((0, 0), 48, base, base.clone())
    assert not _C.memory_shared((0, 0), 48, base, 3)
    with pytest.raises(TypeError):
        _C.memory_shared((0,), 48, base, base)


def rows_of_one_matrix():
    base = torch.arange(12.0).view(4, 3)
    return [base[:3], base[1]], [base]


def a_matrix_and_a_row():
    base = torch.arange(6.0).view(2, 3)
    return [base, base[1]], [base]


def without_a_base():
    base = torch.arange(6.0).view(2, 3)
    return [base.detach(), base.detach()[1]], [base]


@pytest.mark.parametrize("cases", [(rows_of_one_matrix, rows_of_one_matrix), (a_matrix_and_a_row, without_a_base)])
def test_code_of_inductor_does_not_depend_on_what_the_inputs_are_views_of(cases):
    with tracer.config.patch(suppress_errors=False):
        check_calls(lambda a, b: (b.add_(1), a * 2)[1], "inductor", *cases, entries=1)


def test_writes_to_overlapping_inputs_are_seen_by_autograd():
    def program(a, b):
        b.add_(1)
        return a * 2

    base, weight = torch.ones(2, 3), torch.ones(2, 3, requires_grad=True)
    loss = (weight * base).sum()
    tracer.compile(program, backend="aot_eager")(base, base[1])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
