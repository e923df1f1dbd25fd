"""Functions with a cache whose calls are calls of the wrapped function, and those that CPython has to call."""

from __future__ import annotations

import functools
import random
import time

import pytest
import torch

import tracer
from tests.soundness.watching import Watched
from tests.support.graphs import graphs_of

X = torch.ones(3)


class Axis:
    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return self.name == other.name


class Recipe:
    def __init__(self, order, added):
        self.order = order
        self.added = added


def recipes():
    """A function that makes a recipe out of a text and pairs of axis and length, and one that applies it to sizes."""

    @functools.lru_cache(256)
    def recipe(pattern, lengths, ndim):
        axes = pattern.split()
        order = [axes.index(axis) for axis in sorted(axes)]
        return Recipe(order[:ndim], {position: length for position, length in enumerate(lengths)})

    @functools.lru_cache(1024)
    def applied(made, shape, lengths):
        sizes = [shape[axis] for axis in made.order]
        for position, length in made.added.items():
            sizes.insert(position, length)
        return sizes, {index: size for index, size in enumerate(sizes)}, dict(lengths)

    def rearranged(x, pattern, **lengths):
        made = recipe(pattern, tuple(lengths.values()), ndim=x.dim())
        sizes, by_index, named = applied(made, tuple(x.shape), tuple(lengths.items()))
        return x.permute(made.order).unsqueeze(0).expand(sizes) * len(by_index) + sum(named.values())

    return rearranged


@pytest.mark.parametrize("dynamic", [None, True])
def test_recipes_that_are_kept_for_texts_and_sizes(dynamic):
    rearranged = recipes()

    def fn(x, y):
        return rearranged(x, "c a b", r=2) + rearranged(x, "c a b", r=2), rearranged(y, "b a", r=1)

    watched = Watched(fn, plain=fn, fullgraph=True, dynamic=dynamic)
    for size in (2, 3, 5, 7):
        watched(torch.randn(size, 4, 6), torch.randn(3, size))
    assert watched.traces <= 2


def test_a_size_that_is_part_of_a_key_stays_a_symbol():
    @functools.cache
    def doubled(sizes, scale):
        return {"sizes": [size * scale for size in sizes]}

    def fn(x):
        return x.reshape(1, -1).expand(*doubled((x.shape[0], x.numel()), 1)["sizes"])

    watched = Watched(fn, dynamic=True, fullgraph=True)
    for size in (2, 3, 7):
        watched(torch.randn(size))
    assert watched.traces == 1


def test_keys_with_a_hash_of_their_own():
    @functools.cache
    def scale(axis, shift):
        return [len(axis.name) + shift]

    def fn(x):
        return x * scale(Axis("abc"), 1)[0] + scale(Axis("abc"), 1)[0] + scale(Axis("d"), shift=2)[0]

    Watched(fn, fullgraph=True)(X)


@pytest.mark.parametrize("grad", [False, True])
def test_tensors_that_a_cache_computes(grad):
    @functools.cache
    def positions(length, factor=1.0):
        return torch.arange(length) * factor

    def fn(x):
        return (x + positions(x.shape[0], 0.5) * positions(x.shape[0], factor=2.0)).sum()

    watched = Watched(fn, fullgraph=True, dynamic=True)
    for size in (2, 4, 9):
        watched(torch.randn(size, requires_grad=grad))
    assert watched.traces == 1


def test_tensors_as_keys():
    @functools.cache
    def normed(tensor, by):
        return tensor / by, tensor.sum()

    def fn(x, y):
        return normed(x, 2)[0] + normed(x, 2)[1] + normed(x + y, by=3)[0]

    Watched(fn, fullgraph=True)(X, torch.randn(3))


def changing_the_list(get, x):
    get(2).append(5)
    return x * len(get(2))


def writing_to_the_tensor(get, x):
    kept = get(2)
    kept["t"].add_(1)
    return x * get(2)["t"]


def giving_it_out(get, x):
    return x + 1, get(2)


def giving_out_a_part(get, x):
    return x + 1, get(2)["t"][0]


def storing_it(get, x):
    get.last = get(3)
    return x + 1


def comparing_it(get, x):
    return x + 1, get(2) is getattr(get, "last", None)


def listed(number):
    return [number]


def with_tensor(number):
    return {"t": torch.ones(2) * number, "k": [number]}


@pytest.mark.parametrize(
    ("use", "function", "shape"),
    [
        (changing_the_list, listed, (3,)),
        (writing_to_the_tensor, with_tensor, (2,)),
        (giving_it_out, listed, (3,)),
        (giving_it_out, with_tensor, (3,)),
        (giving_out_a_part, with_tensor, (3,)),
        (storing_it, listed, (3,)),
        (comparing_it, listed, (3,)),
    ],
)
@pytest.mark.parametrize("filled", [False, True])
def test_an_object_whose_identity_shows_is_that_of_the_cache(use, function, shape, filled):
    """A break the first time; the second call takes the object from the cache."""

    def program():
        get = functools.cache(function)
        if filled:
            get(2), get(3)
        get.last = get(2) if filled else None
        return get, lambda x: use(get, x)

    (_, plainly), (traced, fn) = program(), program()
    watched = Watched(fn, plain=plainly)
    given = []
    for _ in range(4):
        given.append(watched(torch.ones(*shape)))
    if use is giving_it_out:
        assert all(each[1] is traced(2) for each in given)
    if use is storing_it:
        assert traced.last is traced(3)
    if use is giving_out_a_part:
        traced(2)["t"].fill_(9)
        assert all(each[1].item() == 9 for each in given)


def test_an_entry_made_before_traced_code_changed_a_result_serves_no_more():
    def program():
        get = functools.cache(with_tensor)

        def fn(x, changes):
            if changes:
                get(1)["k"].append(5)
                get(2)["t"].add_(1)
            return x * len(get(1)["k"]) + get(2)["t"]

        return fn

    watched = Watched(program(), plain=program())
    for changes in (False, False, True, False, True, False):
        watched(torch.ones(2), changes)


def test_the_second_call_behind_a_break_at_a_cache_is_whole():
    def program():
        get = functools.cache(listed)
        return lambda x: (x + 1, get(2))

    watched = Watched(program(), plain=program())
    watched(X)
    traces = watched.traces
    for _ in range(3):
        watched(X)
    assert watched.traces == traces + 1


def test_a_body_with_an_effect_runs_once():
    def program():
        seen = []

        @functools.cache
        def noted(number):
            seen.append(number)
            return number * 2

        return seen, lambda x: (x * noted(3) + noted(3), list(seen))

    (plain, plainly), (traced, fn) = program(), program()
    watched = Watched(fn, plain=plainly)
    for _ in range(4):
        watched(X)
    assert plain == traced == [3]


class Told:
    """Notes each text once, through a cache that gives None."""

    def __init__(self):
        self.texts = []

    @functools.cache
    def once(self, text):
        self.texts.append(text)


def test_a_method_that_does_something_once_is_whole_from_the_second_call_on():
    traced, plain = Told(), Told()

    def program(told):
        def fn(x, text):
            y = x + 1
            told.once(text)
            return y * 2

        return fn

    watched = Watched(program(traced), plain=program(plain))
    for text in ("a", "a", "b", "b", "a"):
        watched(X, text)
        assert traced.texts == plain.texts
    compiled, graphs = graphs_of(program(told := Told()))
    for _ in range(4):
        compiled(X, "a")
    assert told.texts == ["a"]
    assert len(graphs) == 3 and graphs.operations == 1 + 1 + 2  # before and behind the break, then whole


def test_what_another_object_was_told_once_is_not_taken_for_this_one():
    first, second = Told(), Told()

    def fn(x, told):
        told.once("a")
        return x * 2

    compiled, _ = graphs_of(fn)
    for told in (first, first, second, second, first, Told()):
        compiled(X, told)
        assert told.texts == ["a"]


@pytest.mark.parametrize("draw", [lambda: torch.rand(()).item(), random.random, lambda: torch.rand(3)])
def test_random_numbers_are_drawn_once(draw):
    @functools.cache
    def drawn(number):
        return draw()

    fn = tracer.compile(lambda x: x * drawn(1), backend="eager")
    results = [fn(X) for _ in range(4)]
    assert all(torch.equal(each, results[0]) for each in results)


def test_what_cannot_be_traced_is_done_once_by_cpython():
    @functools.cache
    def started():
        return time.process_time_ns()

    fn = tracer.compile(lambda x: x * (started() % 97) + started() % 7, backend="eager")
    results = [fn(X) for _ in range(4)]
    assert all(torch.equal(each, results[0]) for each in results)
    assert started.cache_info().misses == 1
    whole = tracer.compile(lambda x: x * (started() % 97), backend="eager", fullgraph=True)
    assert torch.equal(whole(X), X * (started() % 97))


@pytest.mark.parametrize("change", [lambda kept: kept["k"].append(2), lambda kept: kept["t"].add_(1)])
def test_what_a_method_keeps_is_read_as_it_is_where_somebody_changes_it(change):
    class Owner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.number = 2

        @functools.lru_cache
        def kept(self, number):
            return with_tensor(self.number + number)

        def forward(self, x):
            return x * self.kept(1)["t"] + len(self.kept(1)["k"])

    def program():
        owner = Owner()

        def fn(x):
            y = owner(x)
            change(owner.kept(1))
            return y + owner(x)

        return owner, fn

    (plain, plainly), (traced, fn) = program(), program()
    watched = Watched(fn, plain=plainly)
    for _ in range(3):
        watched(torch.ones(2))
    watched = Watched(traced, plain=plain)
    watched(torch.ones(2))


def test_what_the_program_has_changed_before_is_no_obstacle():
    state = {"calls": 0}

    @functools.cache
    def parsed(text):
        return {index: part for index, part in enumerate(text.split())}

    def fn(x, box):
        state["calls"] += 1
        box.append(state["calls"])
        with torch.no_grad():
            y = x * len(parsed("a b c"))
        return y + len(parsed("a b")[1])

    Watched(fn, fullgraph=True)(X, [])


def test_what_a_cache_tells_of_itself_counts_every_call_of_the_frame():
    def program():
        @functools.cache
        def get(number):
            return number

        def fn(x):
            y = x * get(2) + get(2)
            info = get.cache_info()
            return y + get(3), info.hits, info.misses

        return fn

    watched = Watched(program(), plain=program())
    for _ in range(3):
        watched(X)


def test_an_iterator_that_a_cache_keeps_is_used_up_once():
    def program():
        @functools.cache
        def items(count):
            return iter(range(count))

        return lambda x: x + sum(items(3))

    watched = Watched(program(), plain=program())
    for _ in range(3):
        watched(X)


LOG = []


@functools.cache
def settings():
    return {"count": 0, "names": 1}


@functools.cache
def table(key):
    return {key: key, "size": 1, 0: key}


def logging_a_table(x):
    settings()
    LOG.append(table("c"))


def test_a_break_behind_a_cache_that_was_filled_on_the_way_is_at_its_own_step():
    """The frame is traced again up to the break. The cache that the first trace filled takes fewer steps by then."""
    compiled = tracer.compile(logging_a_table)
    for _ in range(3):
        compiled(torch.ones(2))
    assert all(each is table("c") for each in LOG)
