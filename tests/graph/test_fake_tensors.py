"""Fakes of real tensors: layout, autograd state, symbols and guards; operators; PyTorch's own tracers over them."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx

from shapes import ConstraintViolationError, DimConstraint, DimPolicy, ShapeEnv
from tests.graph.fakes import guards_hold, readable, shape_at, values_of_symbols
from tracer.graph.fakes.fake_tensors import FakeWorld, is_symbolic, symbols_in
from tracer.operators.layout import hint
from tracer.sources.roots import LocalSource

S, D, DUCK = DimPolicy.STATIC, DimPolicy.DYNAMIC, DimPolicy.DUCK
X, Y = LocalSource("x0"), LocalSource("x1")


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


def test_dims_follow_their_policies(world) -> None:
    fake = world.fakify(torch.randn(4, 3, 1), X, [DUCK, S, DUCK])
    assert isinstance(fake, FakeTensor) and fake.fake_mode is world.fake_mode
    assert [type(size) for size in fake.shape] == [torch.SymInt, int, int]
    assert tuple(map(hint, fake.stride())) == (3, 1, 1)
    assert all(isinstance(stride, int) for stride in fake.stride())
    assert readable(world) == ["2 <= L['x0'].size()[0]"]


def test_static_dims_make_no_symbols(world) -> None:
    fake = world.fakify(torch.randn(4, 3), X, [S, S])
    assert fake.shape == (4, 3) and world.env.symbols() == [] and readable(world) == []


def test_strides_are_products_of_sizes_and_checked(world) -> None:
    fake = world.fakify(torch.randn(4, 3, 5), X)
    assert [str(stride) for stride in fake.stride()] == ["s1*s2", "s2", "1"]
    assert guards_hold(world, [torch.randn(6, 7, 8)])
    assert not guards_hold(world, [torch.randn(8, 7, 6).transpose(0, 2)])


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(4, 5).t(),
        lambda: torch.randn(4, 6, 5, 7).to(memory_format=torch.channels_last),
        lambda: torch.randn(4, 9)[:, :5],
        lambda: torch.randn(8, 5)[::2],
        lambda: torch.randn(1, 5).expand(4, 5),
        lambda: torch.randn(5, 4, 6).permute(2, 0, 1),
        lambda: torch.randn(()),
        lambda: torch.randn(0, 3),
    ],
    ids=["transposed", "channels_last", "narrowed", "strided", "expanded", "permuted", "scalar", "empty"],
)
def test_any_strided_layout_is_kept(world, make) -> None:
    real = make()
    fake = world.fakify(real, X)
    assert tuple(map(hint, fake.shape)) == tuple(real.shape)
    assert tuple(map(hint, fake.stride())) == real.stride()
    assert fake.dtype is real.dtype and fake.device == real.device
    assert guards_hold(world, [real])
    assert bool(fake.is_contiguous()) == real.is_contiguous()


def test_strides_may_be_symbols_where_asked_for(world) -> None:
    real = torch.randn(4, 9)[:, :5]
    fake = world.fakify(real, X, strides=[D, S])
    assert is_symbolic(fake.stride(0)) and hint(fake.stride(0)) == 9
    assert guards_hold(world, [torch.randn(6, 20)[:, :7]])


def test_the_storage_offset_is_kept(world) -> None:
    fake = world.fakify(torch.randn(6, 3)[2:], X)
    assert fake.storage_offset() == 6


def test_parameters_and_grad_state(world) -> None:
    weight = torch.nn.Parameter(torch.randn(4, 3))
    fake = world.fakify(weight, X)
    assert isinstance(fake, torch.nn.Parameter) and fake.requires_grad and fake.is_leaf
    plain = world.fakify(torch.randn(4, 3), Y)
    assert not plain.requires_grad and not isinstance(plain, torch.nn.Parameter)


def test_results_of_autograd_are_no_leaves(world) -> None:
    weight = torch.randn(4, 3, requires_grad=True)
    product = world.fakify(weight * 2, X)
    assert product.requires_grad and not product.is_leaf
    view = world.fakify(weight.view(3, 4), Y)
    assert view.requires_grad and not view.is_leaf and view._is_view()
    assert world.env.guards == []


def test_views_of_results_of_autograd_may_be_written_to(world) -> None:
    result = torch.randn(4, 3, requires_grad=True) * 2
    fake = world.fakify(result.t()[1:], X, [S, S])
    with world.propagate():
        fake.add_(1)
    assert fake._is_view() and not fake._base.is_leaf and fake.stride() == (1, 3)


@pytest.mark.parametrize("view", [lambda leaf: leaf[1:], lambda leaf: (leaf * 2).unbind()[0]], ids=["leaf", "one of several"])
def test_views_that_autograd_forbids_to_write_to_are_told(world, view) -> None:
    fake = world.fakify(view(torch.randn(4, 3, requires_grad=True)), X)
    with world.propagate(), pytest.raises(RuntimeError, match="a leaf Variable|multiple views"):
        fake.add_(1)


def test_making_fakes_records_no_guards(world) -> None:
    world.fakify(torch.randn(4, 3, 5, 7).to(memory_format=torch.channels_last), X)
    world.fakify(torch.randn(4, 3)[:, 1:], Y)
    assert world.env.guards == []


def test_special_tensors_are_faked_statically(world) -> None:
    sparse = world.fakify(torch.eye(3).to_sparse(), X)
    assert isinstance(sparse, FakeTensor) and sparse.shape == (3, 3) and sparse.is_sparse
    conj = world.fakify(torch.randn(3, 4, dtype=torch.complex64).conj(), Y)
    assert conj.is_conj()


def test_inputs_made_in_inference_mode(world) -> None:
    with torch.inference_mode():
        real = torch.randn(4, 3)
    fake = world.fakify(real, X)
    assert tuple(map(hint, world.run(lambda a: a + 1, [fake]).shape)) == (4, 3)


def test_marks_reach_the_env(world) -> None:
    marks = [DimConstraint(min=2, max=8), None]
    world.fakify(torch.randn(4, 3), X, [D, S], marks)
    assert readable(world) == ["2 <= L['x0'].size()[0] <= 8"]
    with pytest.raises(ConstraintViolationError, match=r"L\['x1'\]\.size\(\)\[0\] is 9"):
        world.fakify(torch.randn(9, 3), Y, [D, S], marks)


@pytest.mark.parametrize("method", ["fakify", "fakify_wrapper"])
def test_the_wrong_number_of_policies_is_refused(world, method) -> None:
    with pytest.raises(ValueError, match="has 2 dims, but 1 policies"):
        getattr(world, method)(torch.randn(4, 3), X, [D])


def test_the_branch_of_the_reference_page(world) -> None:
    fake = world.fakify(torch.randn(8, 3), X, [D, S])
    assert world.run(lambda a: a if a.shape[0] * 2 < 16 else a + 1, [fake]) is not fake
    (guard,) = world.env.produce_guards()
    assert guard.readable == "8 <= L['x0'].size()[0]" and guard.recorded == "2*L['x0'].size()[0] >= 16"


def test_broadcasting_unifies_what_the_operation_needs(world) -> None:
    world = FakeWorld(ShapeEnv(duck_shape=False))
    a, b = world.fakify(torch.randn(4, 3), X, [DUCK, S]), world.fakify(torch.randn(4, 3), Y, [DUCK, S])
    total = world.run(torch.add, [a, b])
    assert [str(size) for size in total.shape] == ["s0", "3"]
    assert "L['x1'].size()[0] == L['x0'].size()[0]" in readable(world)


def test_grad_mode_is_the_callers(world) -> None:
    fake = world.fakify(torch.randn(4, 3, requires_grad=True), X)
    assert world.run(lambda a: a * 2, [fake]).requires_grad
    with torch.no_grad():
        assert not world.run(lambda a: a * 2, [fake]).requires_grad


def test_symbols_of_values_in_order_of_creation(world) -> None:
    a = world.fakify(torch.randn(4, 3), X)
    b = world.fakify(torch.randn(5, 3), Y)
    assert [s.name for s in symbols_in([b, {"k": a}])] == ["s0", "s1", "s2"]
    assert symbols_in(3) == [] and symbols_in(a.shape[0] - a.shape[0]) == []


def test_a_cached_result_has_own_nodes_and_own_storage(world) -> None:
    a = world.fakify(torch.randn(4, 3), X)
    first, second = (world.run(lambda t: t * 2, [a]) for _ in range(2))
    assert first is not second
    assert first.shape[0].node is second.shape[0].node
    assert first.untyped_storage()._cdata != second.untyped_storage()._cdata
    views = [world.run(lambda t: t.t(), [a]) for _ in range(2)]
    assert all(view.untyped_storage()._cdata == a.untyped_storage()._cdata for view in views)
    assert all(view._is_view() for view in views)


def test_the_cache_tells_tensors_apart_by_all_that_matters(world) -> None:
    a = world.fakify(torch.randn(4, 3), X)
    double = world.run(lambda t: t.double(), [a])
    assert world.run(lambda t: t * 2, [a]).dtype is torch.float32
    assert world.run(lambda t: t * 2, [double]).dtype is torch.float64
    count = world.run(lambda t: t.long(), [a])
    assert world.run(lambda t: t * 2, [count]).dtype is torch.int64
    assert world.run(lambda t: t * 2.0, [count]).dtype is torch.float32
    transposed = world.run(lambda t: t.t().contiguous().t(), [a])
    assert [str(s) for s in world.run(lambda t: t * 2, [transposed]).stride()] == ["1", "s0"]


def test_operations_in_place_keep_the_tensor(world) -> None:
    a = world.fakify(torch.randn(4, 3), X)
    for _ in range(2):
        b = world.run(lambda t: t.clone(), [a])
        assert world.run(lambda t: t.add_(1), [b]) is b
        assert [str(s) for s in world.run(lambda t: t.t_(), [b]).shape] == ["s1", "s0"]


def test_no_later_storage_is_taken_for_one_that_was_written_to(world) -> None:
    with world.fake_mode:
        for _ in range(20):
            torch.ones(3).add_(1)  # dropped at once: its memory is free for the next storage
        later = [torch.ones(3).untyped_storage() for _ in range(40)]
    assert world.fake_mode.written_storages.isdisjoint(storage._cdata for storage in later)


def test_make_fx_records_size_arithmetic(world) -> None:
    a = world.fakify(torch.randn(4, 3), X, [D, S])

    def program(t):
        return t.new_zeros(t.shape[0] * 2 + 1, 3) + t.sum()

    with world.propagate():
        graph = make_fx(program, tracing_mode="real")(a)
    targets = {str(node.target) for node in graph.graph.nodes if node.op == "call_function"}
    assert any("sym_size" in target for target in targets) and any("mul" in target for target in targets)
    real = torch.randn(6, 3)
    assert torch.equal(graph(real), program(real))


def test_unbacked_sizes_flow_through_operators(world) -> None:
    a = world.fakify(torch.randn(8, 3), X)

    def program(t):
        found = t[t > 0]
        torch._check(found.shape[0] >= 4)
        return found[:4].sum() + found.view(-1).shape[0]

    assert world.run(program, [a]).shape == ()
    assert any(not symbol.backed for symbol in world.env.symbols())
    assert len(world.env.runtime_asserts) == 1


def test_a_number_read_from_a_tensor_can_size_another(world) -> None:
    a, n = world.fakify(torch.randn(8, 3), X), world.fakify(torch.tensor([3]), Y)

    def program(t, count):
        size = count[0].item()
        torch._check(size >= 0)
        torch._check(size <= t.shape[0])
        return t.narrow(0, 0, size)

    out = world.run(program, [a, n])
    assert [str(s) for s in out.shape] == ["u0", "s1"]


def test_sizes_of_outputs_hold_at_other_inputs(world) -> None:
    reals = [torch.randn(4, 6), torch.randn(6, 5)]
    fakes = [world.fakify(real, source) for real, source in zip(reals, (X, Y), strict=True)]
    out = world.run(lambda a, b: torch.cat([a @ b, a @ b], 1).reshape(-1), fakes)
    others = [torch.randn(9, 2), torch.randn(2, 11)]
    assert guards_hold(world, others)
    assert shape_at(out, values_of_symbols(world, others)) == (9 * 22,)


def test_a_world_is_collected_with_its_cache() -> None:
    world = FakeWorld()
    a = world.fakify(torch.randn(4, 3), X)
    world.run(lambda t: (t * 2).t() @ t, [a])
    gone = [weakref.ref(world.env), weakref.ref(world.fake_mode)]
    del world, a
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
