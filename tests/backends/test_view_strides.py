"""Views of results whose strides torch's rules for fake tensors give wrongly to compilers."""

from __future__ import annotations

import pytest
import torch
from torch.utils import _pytree as pytree

import tracer

X = torch.linspace(-1, 1, 12).reshape(3, 4).t()


def of_a_power(x):
    return (2**x).view(-1) + 1


def of_a_question(x):
    return torch.isin(x, torch.ones(1)).view(12)


def of_a_log(x):
    return torch.nn.functional.logsigmoid(x).view(2, -1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("program", [of_a_power, of_a_question, of_a_log], ids=lambda program: program.__name__)
def test_views_that_the_program_can_make_are_compiled(program, backend):
    torch.testing.assert_close(tracer.optimize(backend)(program)(X), program(X))


def written(x):
    y = 2**x
    y.view(-1).add_(1)
    return y


def returned(x):
    y = 2**x
    return y, y.view(-1)


def read_as_it_lies(x):
    return (2**x).as_strided((3, 4), (4, 1)), torch.isin(x, torch.ones(1)).contiguous()


def found_by_its_log(x):
    y = torch.nn.functional.logsigmoid(x)
    y.view(-1).add_(1)
    return y


def strides(results):
    return [each.stride() for each in pytree.tree_leaves(results)]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compilers_know_how_results_lie_in_memory(backend, dynamic, recwarn):
    for program in (written, returned, read_as_it_lies):
        seen, expected = tracer.compile(program, backend=backend, dynamic=dynamic)(X), program(X)
        torch.testing.assert_close(seen, expected)
        assert strides(seen) == strides(expected)
    assert not [each for each in recwarn if "runs as it is" in str(each.message)]
    whole, flat = tracer.compile(returned, backend=backend, dynamic=dynamic)(X)
    flat.add_(1)
    torch.testing.assert_close(whole, 2**X + 1)


def test_a_graph_that_a_compiler_cannot_take_runs_as_it_is_with_a_warning():
    program = found_by_its_log
    with pytest.warns(UserWarning, match="runs as it is, without the backend, .*: Cannot view a tensor") as told:
        compiled = tracer.optimize("inductor")(program)
        torch.testing.assert_close(compiled(X), program(X))
    assert [each.filename for each in told if "runs as it is" in str(each.message)] == [__file__]


def flattened_and_written(x):
    y = x.flatten()
    y.add_(1)
    return y


def written_and_flattened(x):
    x.add_(1)
    return x.flatten()


@pytest.mark.filterwarnings("ignore:A graph of")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", [flattened_and_written, written_and_flattened])
def test_views_of_a_written_argument_that_is_not_contiguous(program, dynamic):
    def argument(rows):
        return torch.arange(rows * 4.0).reshape(rows, 4)[:, ::2]

    compiled = tracer.compile(program, backend="aot_eager", dynamic=dynamic)
    for rows in (4, 5):
        ours, theirs = argument(rows), argument(rows)
        seen, expected = compiled(ours), program(theirs)
        assert torch.equal(seen, expected) and seen.stride() == expected.stride()
        assert torch.equal(ours, theirs) and seen.untyped_storage()._cdata == ours.untyped_storage()._cdata


@pytest.mark.filterwarnings("ignore:A graph of")
def test_a_write_that_the_program_may_not_make_raises_as_in_the_program():
    def program(x):
        x.add_(1)
        return x * 2

    x = torch.ones(1, 3).expand(2, 3)
    with pytest.raises(RuntimeError, match="unsupported operation: more than one element") as refused:
        tracer.optimize("aot_eager")(program)(x)
    assert type(refused.value) is RuntimeError


COPIES = {
    "flatten": lambda x: x.flatten(),
    "torch.flatten": lambda x: torch.flatten(x, 0, 1).view(4, 3),
    "reshape": lambda x: x.reshape(2, 6) + 0,
    "torch.reshape": lambda x: torch.reshape(x, (-1,)),
    "ravel": lambda x: x.ravel(),
    "contiguous": lambda x: x.contiguous(),
    "a view of a copy": lambda x: x.reshape(6, 2).T,
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copy_of_a_written_argument_that_is_not_contiguous_is_no_view_of_it(copied, dynamic, caplog):
    def program(x, y):
        y[y < x.sum() / 20] = 0.5
        data = y.data
        torch.add(data, 1, out=y)
        return copied(data), copied(y * 2)

    def arguments():
        wide = torch.arange(20.0).reshape(4, 5)[:, :3]
        return wide, wide.detach()

    traced = tracer.optimize("aot_eager", dynamic=dynamic)(program)
    outcomes = []
    for run in (program, traced, traced):
        given = arguments()
        outcomes.append((run(*given), given))
        outcomes[-1][0][0].add_(100)  # reaches no argument
    for outcome in outcomes[1:]:
        for got, expected in zip(pytree.tree_leaves(outcome), pytree.tree_leaves(outcomes[0]), strict=True):
            assert torch.equal(got, expected) and got.stride() == expected.stride()
    assert "The compiled graph of" not in caplog.text


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("argument", [lambda n: torch.ones(3, n).t(), lambda n: torch.ones(n, 6)[:, ::2]])
def test_what_is_computed_from_a_filled_argument_has_the_strides_of_the_program(argument, dynamic):
    def program(x, y):
        filled = torch.add(y, y, out=x)
        half = filled / 2
        torch.mul(y[:, 1:], 3, out=x[:, 1:])
        return half, x % 2, filled.numel()

    traced = tracer.optimize("aot_eager", dynamic=dynamic)(program)
    for rows in (4, 6):
        ours, theirs, y = argument(rows), argument(rows), torch.arange(rows * 3.0).view(rows, 3)
        (*seen, count), (*expected, _) = traced(ours, y), program(theirs, y)
        for got, wanted in zip([*seen, ours], [*expected, theirs], strict=True):
            assert torch.equal(got, wanted) and got.stride() == wanted.stride()
        assert count == rows * 3


LAYOUTS = (
    lambda: torch.zeros(9, 4),
    lambda: torch.zeros(8, 6)[::2],
    lambda: torch.zeros(6, 40)[:, ::2],
    lambda: torch.zeros(5, 6).t(),
)


@pytest.mark.filterwarnings("ignore:A graph of .* runs as it is")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("draw", ["normal_", "uniform_", "bernoulli_", "exponential_"])
def test_random_numbers_are_drawn_into_strided_memory_in_the_order_of_the_program(draw, dynamic):
    def into_argument(x):
        return getattr(x.add_(1), draw)(), x + 1

    def into_own(x):
        return getattr((x + 1).repeat(2, 1)[::2], draw)()

    for program in (into_argument, into_own):
        compiled = tracer.compile(program, backend="aot_eager", dynamic=dynamic)
        for layout in LAYOUTS:
            results = []
            for run in (compiled, program):
                torch.manual_seed(0)
                results.append([*run(layout()), torch.rand(1)])
            for seen, expected in zip(*results, strict=True):
                assert torch.equal(seen, expected) and seen.stride() == expected.stride()


@pytest.mark.filterwarnings("ignore:A graph of .* runs as it is")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("read", [torch.as_strided, torch.as_strided_copy, torch.Tensor.as_strided])
def test_memory_with_gaps_that_is_written_to_is_read_by_its_places(read, dynamic):
    def program(x):
        x.add_(1)
        return read(x, (3,), (2,)) * 2

    compiled = tracer.compile(program, backend="aot_eager", dynamic=dynamic)
    for make in (lambda: torch.arange(10), lambda: torch.arange(10)[::2], lambda: torch.arange(12)[1::2]):
        assert torch.equal(compiled(make()), program(make()))


IN_PLACE = {
    "masked_fill_": lambda y: (y > 0, 0.5),
    "masked_scatter_": lambda y: (y > 0, torch.ones(12)),
    "index_add_": lambda y: (0, torch.tensor([1]), torch.ones(1, 3)),
    "scatter_": lambda y: (0, torch.zeros(1, 3, dtype=torch.long), torch.ones(1, 3)),
    "cumsum_": lambda y: (0,),
    "tril_": lambda y: (),
    "addmm_": lambda y: (torch.ones(4, 2), torch.ones(2, 3)),
    "sigmoid_": lambda y: (),
}


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("of_input", [True, False])
def test_what_is_changed_in_place_keeps_its_strides(name, of_input):
    def run(y):
        made = y if of_input else y * 1
        getattr(made, name)(*IN_PLACE[name](made))
        return made, made.flip(0), made * 2

    functions = run, tracer.compile(run, backend="aot_eager")
    for expected, seen in zip(*[function(torch.arange(12.0).view(3, 4).t()) for function in functions]):
        assert seen.stride() == expected.stride()
        torch.testing.assert_close(seen, expected)


def test_gradients_flow_through_what_is_changed_in_place():
    def run(x):
        made = (x * 2).t()
        made = made * 1
        made.masked_fill_(made > 0, 0.5).cumsum_(0)
        return made.flip(0)

    found = []
    for function in (run, tracer.compile(run, backend="aot_eager")):
        x = torch.arange(-6.0, 6.0).view(3, 4).requires_grad_()
        (function(x) * torch.arange(12.0).view(4, 3)).sum().backward()
        found.append(x.grad)
    torch.testing.assert_close(*found)


def test_an_intermediate_that_an_operator_fills_keeps_its_strides():
    def run(x):
        made = x * 1
        torch.add(x[:, :1], 1, out=made)
        return made, made * 3

    x = torch.randn(3, 4).t()
    for expected, seen in zip(run(x), tracer.compile(run, backend="aot_eager")(x)):
        assert seen.stride() == expected.stride()
        torch.testing.assert_close(seen, expected)


@pytest.mark.parametrize("part", [lambda y: y[:, :2], lambda y: y.t(), lambda y: y.chunk(2, 1)[0]], ids=["rows", "t", "chunk"])
def test_a_detached_view_is_made_a_leaf(part):
    def run(y):
        leaf = part(y).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(leaf.pow(2).sum(), leaf)
        return gradient

    y = torch.arange(8.0).view(2, 4)
    assert torch.equal(tracer.compile(run, backend="aot_eager")(y), run(y))


CHANGES_OF_VIEWS = {
    "masked": lambda y: y.t().masked_fill_(y.t() > 0, 0.5),
    "summed": lambda y: y.t().cumsum_(0),
    "a part": lambda y: y.permute(1, 0)[1:].tril_(),
    "without gradients": lambda y: torch.no_grad()(lambda: y.t().cumsum_(0))(),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", CHANGES_OF_VIEWS)
def test_what_is_changed_through_a_view_keeps_its_strides(name, dynamic):
    def run(x):
        y = x * 1
        CHANGES_OF_VIEWS[name](y)
        return y.sin(), y.view(-1)

    found = []
    for function in (run, tracer.compile(run, backend="aot_eager", dynamic=dynamic)):
        x = torch.arange(-12.0, 12.0).view(4, 6).requires_grad_()
        wave, flat = function(x)
        (wave * torch.arange(24.0).view(4, 6)).sum().backward()
        found.append([wave.detach(), flat.detach(), x.grad])
        assert wave.stride() == (6, 1)
    torch.testing.assert_close(*found)
