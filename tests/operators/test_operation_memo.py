"""A remembered operation has the result that it had when it ran; one that does more than compute from metadata runs each time."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.graph.fakes import leaves, make_fakes
from tests.graph.operator_cases import BASE, CASES, DATA_DEPENDENT, OTHERS, Case
from tests.support import check
from tracer.graph.fakes.fake_tensors import FakeWorld


class Counting:
    """An operation on fakes, through the cache of their world; counts how often it really runs."""

    def __init__(self, world, operation, run=None):
        self.world, self.operation, self.run, self.runs = world, operation, run or operation, 0

    def __call__(self, *args, **kwargs):
        def run():
            self.runs += 1
            return self.world.run(self.run, args, kwargs)

        return self.world.operations.run(self.operation, run, args, kwargs)


def fakes_of(*tensors):
    return make_fakes(tensors, tensors)


def described(results, args):
    """Metadata, and which arguments share the memory of each result."""
    return [
        (str(t.shape), str(t.stride()), str(t.storage_offset()), t.dtype, t.device, t.requires_grad, t.is_conj(), t.is_neg(),
         str(t.untyped_storage().nbytes()), [t.untyped_storage()._cdata == arg.untyped_storage()._cdata for arg in args],
         [t is arg for arg in args])
        if isinstance(t, torch.Tensor) else str(t)
        for t in leaves(results)
    ]  # fmt: skip


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("case", [case for case in CASES if case.name != "backward"], ids=lambda case: case.name)
def test_what_is_looked_up_is_what_ran(case: Case, symbolic: bool) -> None:
    tensors = case.tensors(BASE)
    world, fakes = make_fakes(tensors, case.tensors(OTHERS[0] if symbolic else BASE))
    operation = Counting(world, case.name, case.run)
    with torch.no_grad():
        first = operation(*fakes)
        guards = len(world.env.guards)
        again = operation(*fakes)
    assert described(first, fakes) == described(again, fakes)
    assert type(first) is type(again) and len(world.env.guards) == guards


@pytest.mark.parametrize("case", DATA_DEPENDENT, ids=lambda case: case.name)
def test_sizes_that_data_decide_are_new_each_time(case: Case) -> None:
    tensors = case.tensors(BASE)
    world, fakes = make_fakes(tensors, tensors)
    operation = Counting(world, case.name, case.run)
    operation(*fakes), operation(*fakes)
    assert operation.runs == 2


def test_repeated_layers_are_looked_up():
    world, (x, w, b) = fakes_of(torch.randn(2, 3, 4), torch.randn(4, 4), torch.randn(4))
    with torch.no_grad():
        for operation, args in ((F.linear, (x, w, b)), (F.layer_norm, (x, (4,))), ("relu", (x,)), (torch.matmul, (x, w))):
            run = (lambda t: t.relu()) if operation == "relu" else operation
            counting = Counting(world, operation, run)
            one, two = counting(*args), counting(*args)
            assert counting.runs == 1 and one is not two
            assert one.untyped_storage()._cdata != two.untyped_storage()._cdata


def test_attention_without_dropout_draws_nothing():
    world, (q,) = fakes_of(torch.randn(2, 3, 5, 4))
    attention = Counting(world, F.scaled_dot_product_attention)
    with torch.no_grad():
        attention(q, q, q), attention(q, q, q, dropout_p=0.0), attention(q, q, q, dropout_p=0.0)
    assert attention.runs == 2 and not world.fake_mode.drew_random_numbers


@pytest.mark.parametrize(
    ("operation", "args"), [(F.dropout, (0.5, True)), (torch.rand_like, ()), (F.rrelu, (0.1, 0.3, True)), (torch.bernoulli, ())]
)
def test_random_numbers_are_drawn_each_time(operation, args):
    world, (x,) = fakes_of(torch.rand(3, 4))
    counting = Counting(world, operation)
    counting(x, *args), counting(x, *args)
    assert counting.runs == 2 and world.fake_mode.drew_random_numbers


def test_what_writes_runs_each_time():
    world, (x, mean, variance) = fakes_of(torch.rand(3, 4), torch.zeros(4), torch.ones(4))
    in_place = Counting(world, "add_", lambda t, n: t.add_(n))
    in_place(x, 1), in_place(x, 1)
    assert in_place.runs == 2
    norm = Counting(world, F.batch_norm)
    with torch.no_grad():
        for _ in range(2):
            norm(x, mean, variance, training=True)
    assert norm.runs == 2
    assert {mean.untyped_storage()._cdata, variance.untyped_storage()._cdata} <= world.fake_mode.written_storages


def test_what_changes_its_argument_without_an_operator_runs_each_time():
    world, (x, y) = fakes_of(torch.rand(3, 4), torch.rand(3, 4))
    in_place = Counting(world, "requires_grad_", lambda t: t.requires_grad_())
    in_place(x), in_place(y)
    assert in_place.runs == 2 and y.requires_grad

    def each_is_a_leaf(x):
        first = (x * 2).detach().requires_grad_()
        second = (first * 2).detach().requires_grad_()
        gradient = torch.autograd.grad((second * second).sum(), second)
        return first.requires_grad, second.requires_grad, gradient

    check(each_is_a_leaf, torch.rand(3, 4))


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 5), (2, 4, 5, 6), (1, 4, 1, 1), (0, 4, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("dense", [True, False])
def test_batch_norm_in_evaluation_is_as_eager_and_writes_nothing(affine, shape, dtype, dense):
    x = torch.rand(shape, dtype=dtype)
    x = x if dense else torch.rand((*shape, 2), dtype=dtype)[..., 0]
    stats = torch.zeros(4), torch.ones(4)
    weights = (torch.rand(4), torch.rand(4)) if affine else (None, None)
    stats, weights = ((t.double(), u.double()) if dtype is torch.float64 and t is not None else (t, u)
                      for t, u in (stats, weights))  # fmt: skip
    real = torch.native_batch_norm(x, *weights, *stats, False, 0.1, 1e-5)
    given = [t for t in (x, *stats, *weights) if t is not None]
    world, fakes = fakes_of(*given)
    of = {id(t): fake for t, fake in zip(given, fakes)}
    faked = [None if t is None else of[id(t)] for t in (*weights, *stats)]
    out = world.run(torch.native_batch_norm, (of[id(x)], *faked, False, 0.1, 1e-5))
    compared = 3 if dense else 1  # PyTorch's decomposition gives other dtypes to what is saved
    assert [(t.shape, t.dtype) for t in out[:compared]] == [(t.shape, t.dtype) for t in real[:compared]]
    assert out[0].stride() == real[0].stride() or x.numel() == 0 or not dense
    assert not world.fake_mode.written_storages


def test_gradients_are_not_looked_up():
    world, (x,) = fakes_of(torch.rand(3, 4, requires_grad=True))
    relu = Counting(world, torch.relu)
    one, two = relu(x), relu(x)
    assert relu.runs == 2 and one.grad_fn is not two.grad_fn
    with torch.no_grad():
        relu(x), relu(x)
    assert relu.runs == 3
    assert relu(x).requires_grad  # the settings count


def test_autocast_counts():
    world, (x, w) = fakes_of(torch.rand(3, 4), torch.rand(4, 4))
    linear = Counting(world, F.linear)
    with torch.no_grad():
        assert linear(x, w).dtype is torch.float32
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert linear(x, w).dtype is torch.bfloat16 and linear(x, w).dtype is torch.bfloat16
        assert linear(x, w).dtype is torch.float32
    assert linear.runs == 2


def test_one_argument_twice_is_not_two_arguments():
    world, (x, y) = fakes_of(torch.rand(3, 4), torch.rand(3, 4))
    pair = Counting(world, "pair", lambda a, b: (a.contiguous(), b.contiguous()))
    assert [t is x for t in pair(x, x)] == [True, True]
    one, two = pair(x, y)
    assert one is x and two is y


def test_results_that_share_memory_are_not_looked_up():
    world, (x,) = fakes_of(torch.rand(3, 4))

    def halves(t):
        return tuple((t + 1).chunk(2, 1))

    counting = Counting(world, "halves", halves)
    with torch.no_grad():
        counting(x), counting(x)
    assert counting.runs == 2


def test_a_function_of_the_program_runs_each_time():
    world, (x,) = fakes_of(torch.rand(3, 4))
    counting = Counting(world, lambda t: t + 1)
    counting(x), counting(x)
    assert counting.runs == 2


def test_what_may_fail_on_data_is_known_where_it_is_looked_up():
    world = FakeWorld()
    _, (table, index, seen) = make_fakes(*(2 * [[torch.rand(5, 2), torch.tensor([1]), torch.zeros(1)]]), world)
    embedding = Counting(world, F.embedding)
    with torch.no_grad():
        embedding(index, table)
        world.run(lambda: seen.add_(1))
        assert not world.fake_mode.written_before_failing
        embedding(index, table)
    assert embedding.runs == 1 and world.fake_mode.written_before_failing == world.fake_mode.written_storages


def test_layers_of_one_shape_that_differ_in_what_they_do():
    first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def program(x):
        with torch.no_grad():
            one = first(x)
        two = second(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            three = first(x.detach())
        return one.requires_grad, two.requires_grad, three.dtype, one + two + three

    assert not check(program, torch.rand(3, 4)).breaks
