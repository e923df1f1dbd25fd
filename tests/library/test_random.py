"""Random numbers from Python's and NumPy's generators: fresh at each call, and the generators are left as CPython leaves them."""

from __future__ import annotations

import random
import sys
import warnings

import numpy as np
import pytest
import torch

import tracer
from tests.support import captured_made, check_made
from tests.support.comparing import Comparison
from tracer.effects.random_draws import generator_states, restore_states
from tracer.library.random_ import METHODS

X = torch.arange(4.0)


def reseed():
    random.seed(7)
    np.random.seed(7)


def states():
    _, words, *rest = np.random.get_state()
    return random.getstate(), words.tolist(), rest


def watched(fn, *args, calls=4):
    """`fn` run by CPython and traced from the same state, several times: the same results and the same states."""
    traced = tracer.compile(fn, backend="eager")
    reseed()
    expected = [(fn(*args), states()) for _ in range(calls)]
    reseed()
    for result, state in expected:
        Comparison().same(result, traced(*args), "result")
        assert states() == state
    return traced


NUMPYS = {
    "random": "", "random_sample": "", "rand": "", "randn": "", "uniform": "-1, 1", "normal": "loc=2", "standard_normal": "",
    "exponential": "2", "standard_exponential": "", "beta": "1, 2", "gamma": "2", "standard_gamma": "2",
    "triangular": "0, 1, 2", "laplace": "", "logistic": "", "lognormal": "", "gumbel": "", "rayleigh": "", "weibull": "2",
    "pareto": "2", "power": "2", "chisquare": "3", "randint": "0, 90", "binomial": "90, 0.5", "poisson": "30",
    "geometric": "0.01", "choice": "7",
}  # fmt: skip
DRAWS = [
    "random.random()", "random.uniform(1, 2)", "random.triangular()", "random.gauss(0, 1)", "random.normalvariate()",
    "random.betavariate(2, 3)", "random.expovariate(1.5)", "random.vonmisesvariate(0, 4)", "random.randint(1, 100)",
    "random.randrange(0, 50, 5)", "random.getrandbits(20)", "random.paretovariate(alpha=3)",
    *(f"np.random.{name}({args})" for name, args in NUMPYS.items()),
]  # fmt: skip


def test_each_model_of_numpy_is_tried():
    assert set(NUMPYS) == set(METHODS[np.random.RandomState].split()) - {"seed", "permutation"}


@pytest.mark.parametrize("draw", DRAWS)
def test_a_number_is_drawn_at_each_call(draw):
    names = {"random": random, "np": np}
    exec(f"def f(x):\n    n = {draw}\n    return x * n, n, type(n), {draw}", names)
    checked = captured_made(names["f"], lambda: ((X.clone(),), {}), reset=reseed, calls=3)
    assert "item" in checked.operations
    reseed()
    again = [names["f"](X)[1] for _ in range(8)]
    assert len(set(again)) > 1
    watched(names["f"], X)


def test_draws_keep_their_order_among_generators():
    own = random.Random(3)

    def f(x, generator):
        first = random.random()
        second = np.random.rand() + generator.gauss(0, 1)
        random.seed(5)
        third = random.gauss(0, 1)
        return x * first + second, third, random.random() + first, generator.uniform(1, 2)

    def make():
        own.seed(3)
        return (X.clone(), own), {}

    captured_made(f, make, reset=reseed)
    after = own.getstate()
    make()
    f(X, own)
    assert own.getstate() == after


def test_a_generator_that_hangs_on_a_module():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.generator = random.Random(1)
            self.last = 0.0

        def forward(self, x):
            self.last = self.generator.random()
            return x * self.last

    model, plain = Model(), Model()
    traced = tracer.compile(model, backend="eager", fullgraph=True)
    for _ in range(3):
        assert torch.equal(traced(X), plain(X)) and model.last == plain.last
    assert model.generator.getstate() == plain.generator.getstate()


def test_what_is_drawn_is_stored_and_outlives_a_break():
    kept = []

    def f(x):
        n = random.uniform(1, 2)
        kept.append(n)
        x = x * n
        tracer.graph_break()
        m = random.random()
        return x + n * m, n, random.choice([1, 2, 3])

    watched(f, X)
    assert len(kept) == 8 and kept[:4] == kept[4:]


def test_a_branch_on_a_drawn_number_breaks_the_graph():
    def f(x):
        for _ in range(6):
            if random.random() < 0.5:
                x = x + 1
            else:
                x = x * 2
        return x

    watched(f, X, calls=6)


def test_a_graph_that_fails_has_drawn_nothing():
    def f(x, index):
        n = random.random()
        y = x * n
        return y[index], n

    def run(fn):
        reseed()
        try:
            fn(X, torch.tensor([9]))
        except IndexError:
            return states()

    assert run(tracer.compile(f, backend="eager")) == run(f)


def test_a_drawn_number_as_a_size_or_an_index():
    def f(x):
        items = [1.0, 2.0, 3.0]
        return x[: random.randint(1, 3)] * items[random.randint(0, 2)]

    watched(f, X, calls=6)


def test_several_numbers_are_drawn_at_once():
    def f(x):
        first, second = random.sample(range(9), 2)
        third = random.choices([1.5, 2.5, 3.5], k=4)
        fourth = random.choices([1, 2, 3], [1, 1, 5], k=2) + random.sample([1, 2], counts=[2, 1], k=2)
        return x * first - second + sum(third), first, third, fourth

    captured_made(f, lambda: ((X.clone(),), {}), reset=reseed, calls=3)
    watched(f, X)


def test_a_list_is_shuffled_in_place():
    def f(x, numbers):
        order, single, empty = list(range(4)), [x], []
        same = order
        for each in (order, numbers, single, empty):
            random.shuffle(each)
        return x[order] * numbers[0], same, same is order, single, empty

    def make():
        return (X.clone(), [1, 2, 3]), {}

    assert "select" in captured_made(f, make, reset=reseed, calls=3).operations

    def g(x):
        order = [1, 2, 3]
        random.shuffle(order)
        return x + 1 if order[0] == 1 else x * order[1]

    watched(g, X, calls=6)


def test_what_is_drawn_is_an_index_within_bounds():
    def f(x):
        top, left = random.randint(0, 2), random.randrange(0, 2)
        rows = random.sample(range(4), 2)
        mask = torch.zeros(4)
        mask[random.sample([0, 3, 2], 2)] = 1
        total = x[random.getrandbits(1)]
        for row in rows:
            total = total + x[row] * row
        of_numpy = x[np.random.randint(4)] + x[np.random.randint(1, 4)]
        return x[top : top + 2, left : left + 1], x[top, left], x[rows], mask, total, of_numpy

    captured_made(f, lambda: ((torch.arange(12.0).reshape(4, 3),), {}), reset=reseed, calls=6)
    watched(f, torch.arange(12.0).reshape(4, 3), calls=6)


OF_FLOATS = ["random.randint(1.0, 3)", "random.randrange(4.0)"] if sys.version_info < (3, 12) else []  # errors from there on


@pytest.mark.parametrize("draw", [*OF_FLOATS, "np.random.randint(5, None)", "np.random.randint(2.5)"])
def test_bounds_that_are_no_ints_are_not_relied_on(draw):
    names = {"random": random, "np": np}
    exec(f"def f(x):\n    n = {draw}\n    return x * n, n", names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checked = check_made(names["f"], lambda: ((X.clone(),), {}), reset=reseed, calls=3)
    assert checked.graphs


def test_the_state_of_a_generator_is_kept_and_put_back():
    def f(x):
        state = random.getstate()
        random.seed(0)
        order = random.sample(range(10), 3)
        random.setstate(state)
        return x * order[0], random.random(), state

    captured_made(f, lambda: ((X.clone(),), {}), reset=reseed, calls=3)
    watched(f, X)

    def g(x):
        state = random.getstate()
        n = random.random()
        tracer.graph_break()
        random.setstate(state)
        return x * n, n == random.random(), state == random.getstate()

    watched(g, X)


def test_generators_made_in_the_trace():
    class Drawing:
        def __init__(self, seed):
            self.generator = random.Random(seed)

        def draw(self):
            return self.generator.choice([1, 2, 3])

    def f(x):
        drawing, other = Drawing(3), random.Random("text")
        order = [1, 2, 3]
        other.shuffle(order)
        state = other.getstate()
        n = other.random()
        other.setstate(state)
        return x * drawing.draw() + other.random() - n, drawing.draw(), order, other, drawing.generator is other

    captured_made(f, lambda: ((X.clone(),), {}), reset=reseed)

    def g(x):
        generator = random.Random(1)
        n = generator.random()
        tracer.graph_break()
        generator.label = "kept"
        return x * n * generator.random(), generator

    watched(lambda x: (g(x)[0], g(x)[1].getstate(), g(x)[1].label), X)


class Loaded(random.Random):
    def random(self):
        return 0.25


@pytest.mark.parametrize(
    "draw",
    [
        "random.choice([1, 2.5])", "random.getrandbits(80)", "random.randint(5, 1)", "random.sample([1, 2], 3)[0]",
        "random.random() if random.getstate()[0] else 0", "np.random.bytes(3)[0]",
        "loaded.uniform(1, 2)", "random.Random(4, 5).random()", "random.SystemRandom().random() * 0",
        "len(random.sample('ab', 1))", "len(random.sample(range(1000), 500))", "random.Random(4).gauss_next or 1",
        "random.setstate((3, tuple(range(625)), None)) or 1", "random.sample([1, 2**70], 1)[0] % 7",
    ],
)  # fmt: skip
def test_what_is_not_a_number_of_a_plain_generator_is_left_to_python(draw):
    names = {"random": random, "np": np, "loaded": Loaded(1), "torch": torch}
    exec(f"def f(x):\n    n = {draw}\n    return torch.as_tensor(n) + x, n", names)
    checked = check_made(names["f"], lambda: ((X.clone(),), {}), reset=reseed, calls=3)
    assert checked.breaks or checked.error is not None


def test_a_part_that_may_run_at_another_time_draws_nothing():
    def f(x):
        return torch.utils.checkpoint.checkpoint(lambda t: t * random.random(), x, use_reentrant=False)

    watched(f, X)

    def g(x):
        return torch.cond(x.sum() > 0, lambda t: t * random.random(), lambda t: t + 1, (x,))

    with pytest.raises(Exception, match="random|effect"):
        tracer.compile(g, backend="eager", fullgraph=True)(X)


ARRAYS = [
    "np.random.rand(2, 4)", "np.random.randn(4)", "np.random.uniform(-1, 1, size=(2, 4))", "np.random.normal(0, 2, 4)",
    "np.random.randint(0, 9, (4,))", "np.random.poisson(3.0, size=4)", "np.random.rand(0, 4)",
]  # fmt: skip


@pytest.mark.parametrize("draw", ARRAYS)
def test_an_array_is_drawn_at_each_call(draw):
    names = {"random": random, "np": np, "torch": torch}
    exec(f"def f(x):\n    a = {draw}\n    b = {draw}\n    b += 1\n    return torch.from_numpy(a * b) + x, a, b, a.shape", names)
    captured_made(names["f"], lambda: ((X.clone(),), {}), reset=reseed)
    watched(names["f"], X)


def test_an_array_that_is_drawn_is_the_programs_own():
    kept = []

    def f(x):
        a = np.random.rand(4)
        kept.append(a)
        a[0] = 5
        return x + torch.from_numpy(a), a

    watched(f, X)
    assert len({id(each) for each in kept}) == len(kept) and all(each[0] == 5 and each.flags.writeable for each in kept)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_backends_are_given_the_numbers(backend):
    def f(x):
        n = random.randint(1, 5)
        return x * random.random() + n, n

    traced = tracer.compile(f, backend=backend, fullgraph=True)
    reseed()
    expected = [f(X) for _ in range(3)]
    reseed()
    for tensor, number in expected:
        got, drawn = traced(X)
        torch.testing.assert_close(got, tensor)
        assert drawn == number


@torch.library.custom_op("random_tests::scaled", mutates_args=())
def _scaled(x: torch.Tensor) -> torch.Tensor:
    return x * random.random()


_scaled.register_fake(torch.empty_like)


@tracer.allow_in_graph
def _scaled_in_graph(x):
    return x * random.random()


@pytest.mark.parametrize("scaled", [_scaled, _scaled_in_graph], ids=["operator", "function allowed in graphs"])
def test_operators_of_the_program_draw_in_their_turn(scaled):
    def fn(x):
        first = random.random()
        y = scaled(x)
        return y + random.random(), first

    watched(fn, X)


def test_a_generator_is_put_back_as_it_was():
    for generator in (random.Random(3), random.Random(4), np.random.RandomState(5)):
        generator.gauss(0, 1) if isinstance(generator, random.Random) else generator.randn()
        get = generator.getstate if isinstance(generator, random.Random) else generator.get_state
        before, states = repr(get()), generator_states(generator)
        first = [generator.uniform(0, 1) for _ in range(700)]
        generator.gauss(0, 1) if isinstance(generator, random.Random) else generator.randn()
        assert repr(get()) != before
        restore_states(states)
        assert repr(get()) == before
        assert [generator.uniform(0, 1) for _ in range(700)] == first


GENERATORS = [
    "standard_normal()", "integers(0, 50)", "integers(0, 50, endpoint=True)", "integers(9, size=3, dtype=np.int32)",
    "random(dtype=np.float32)",
    "normal(2, 1, (2, 2))", "uniform(0, 1, 3)", "permutation(4)", "choice(5, 3, replace=False)", "choice(9)", "poisson(3)",
    "standard_normal(3, dtype=np.float32)", "beta(1, 2)", "exponential()", "choice([1.5, 0.5, 0.25])", "choice((1, 0.5))",
    "integers(0, 200, dtype=np.uint8)",
]  # fmt: skip


@pytest.mark.parametrize("draw", GENERATORS)
@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_generators_of_numpy_are_drawn_from_in_order(draw, make):
    if (
        make is np.random.RandomState
        and not hasattr(make, draw.partition("(")[0])
        or make is not np.random.default_rng
        and "=" in draw
    ):
        pytest.skip("this generator has no such method")
    names = {"np": np}
    exec(f"def f(x, rng):\n    first = rng.{draw}\n    return x * 2, first, rng.{draw}, type(first)", names)
    traced = tracer.compile(names["f"], fullgraph=True)
    ours, numpys = make(7), make(7)
    for _ in range(3):
        Comparison().same(names["f"](X, numpys), traced(X, ours), "result")
    assert len(tracer.region_of(traced).entries()) == 1


def test_a_generator_of_numpy_made_inside_begins_with_its_seed_at_each_call():
    def f(x):
        rng = np.random.default_rng(3)
        return x * rng.random() + torch.from_numpy(rng.standard_normal(4)), rng.integers(0, 9)

    captured_made(f, lambda: ((X.clone(),), {}), calls=3)


def test_a_failing_graph_puts_a_generator_of_numpy_back():
    generator = np.random.default_rng(5)
    before = generator_states(generator)
    generator.normal(size=4)
    restore_states(before)
    assert generator.random() == np.random.default_rng(5).random()


def test_the_functions_of_numpy_are_seeded_in_order():
    def f(x):
        np.random.seed(4)
        return x + np.random.rand(), np.random.permutation(5), np.random.choice(9, 2)

    watched(f, X)


def test_a_number_with_a_fraction_that_numpy_chooses_is_used_as_it_is():
    def f(x):
        share = np.random.choice([1.5, 0.5, 0.25])
        return x * share, int(8 * share), float(share), x[: int(4 * np.random.choice([0.5, 0.25]))]

    watched(f, X)
