"""Random wrappers around random functions, called at random: results and errors are those of eager."""

from __future__ import annotations

import functools
import random

import pytest
import torch

import tracer
from tests.interpreter.test_call_forms import unnamed, wrapped

T = [torch.full((2,), float(3**i)) for i in range(6)]


def plain(a, b=T[1], c=T[2], d=T[3]):
    return a + 2 * b + 4 * c + 8 * d


def keyword_only(a, b=T[1], *, c=T[2], d=T[3]):
    return a + 2 * b + 4 * c + 8 * d


def gathers_keywords(a, b=T[1], **kw):
    return a + 2 * b + sum((i + 1) * v for i, v in enumerate(kw.values()))


def gathers_all(a, *rest, **kw):
    return a + sum(len(rest) * v for v in rest) + kw.get("b", 0) + 3 * kw.get("c", 0)


def positional_only(a, b, /, c=T[2], **kw):
    return a + 2 * b + 4 * c + (1 if "b" in kw else 0)


def in_another_order(c=T[2], a=T[0], b=T[1], d=T[3]):
    return a + 2 * b + 4 * c + 8 * d


def takes_anything(*args, **kw):
    return sum(args) + len(kw) + kw.get("a", 0)


def takes_the_first(function):
    @functools.wraps(function)
    def wrapper(a, *args, **kwargs):
        return function(a, *args, **kwargs)

    return wrapper


def names_the_first(function):
    def wrapper(a, *args, **kwargs):
        return function(*args, a=a, **kwargs)

    return wrapper


def pops(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        d = kwargs.pop("b", None)
        return function(*args, **kwargs) + (0 if d is None else 1000 * d)

    return wrapper


def gets(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        d = kwargs.get("c")
        return function(*args, **kwargs) + (0 if d is None else 1000 * d)

    return wrapper


def sets(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if len(args) < 3 and "c" not in kwargs:
            kwargs["c"] = T[5]
        return function(*args, **kwargs)

    return wrapper


def counts(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) + (7 if len(args) >= 2 else 9)

    return wrapper


def iterates(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        s = 0
        for i, (k, v) in enumerate(kwargs.items()):
            s = s + (i + 1) * v * (1 if k < "c" else 2)
        return function(*args, **kwargs) + s

    return wrapper


def shifts(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(T[4], *args, **kwargs)

    return wrapper


def drops(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args[:1], **kwargs)

    return wrapper


def has_a_keyword_only(function):
    @functools.wraps(function)
    def wrapper(*args, b=T[3], **kwargs):
        return function(*args, b=b, **kwargs)

    return wrapper


def takes_one_position(function):
    @functools.wraps(function)
    def wrapper(a, **kwargs):
        return function(a, **kwargs)

    return wrapper


def calls_the_first_b(function):
    def wrapper(b, *args, **kwargs):
        return function(b, *args, **kwargs)

    return wrapper


def copies(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        k = dict(kwargs)
        k.pop("d", None)
        return function(*args, **k)

    return wrapper


def breaks(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        r = function(*args, **kwargs)
        tracer.graph_break()
        return r + len(args) + (100 if "b" in kwargs else 0)

    return wrapper


def puts_back(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if "b" in kwargs:
            v = kwargs.pop("b")
            kwargs["b"] = v + 1
        return function(*args, **kwargs)

    return wrapper


def asks_whether_any(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) + (5 if kwargs else 3) + (50 if args else 30)

    return wrapper


def gives_defaults(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **{"c": T[2], **kwargs})

    return wrapper


def calls_twice(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) + 2 * plain(*args, **kwargs)

    return wrapper


def indexes(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) + (args[1] * 11 if len(args) > 1 else 0)

    return wrapper


WRAPPERS = [
    unnamed, wrapped, takes_the_first, names_the_first, pops, gets, sets, counts, iterates, shifts, drops, has_a_keyword_only,
    takes_one_position, calls_the_first_b, copies, breaks, puts_back, asks_whether_any, gives_defaults, calls_twice, indexes,
]  # fmt: skip
FUNCTIONS = [plain, keyword_only, gathers_keywords, gathers_all, positional_only, in_another_order, takes_anything]


def outcome(function, args, kwargs):
    try:
        return function(*args, **kwargs)
    except TypeError as error:
        return str(error)


def random_call(draw):
    names = list("abcd")[: draw.randint(1, 4)]
    positional = draw.randint(0, len(names))
    rest = names[positional:]
    if rest and draw.random() < 0.15:
        rest = rest[1:]  # one is left out
    if draw.random() < 0.1:
        rest = [*rest, "e"]  # nobody takes that
    if draw.random() < 0.1:
        rest = list(dict.fromkeys([*rest, "a"]))  # twice
    draw.shuffle(rest)
    values = dict(zip("abcde", T))
    return [values[name] for name in names[:positional]], {name: values[name] for name in rest}


def assert_as_eager(seed):
    draw = random.Random(seed)
    function = draw.choice(FUNCTIONS)
    for _ in range(draw.randint(1, 3)):
        function = draw.choice(WRAPPERS)(function)
    compiled = tracer.compile(function)
    for _ in range(14):
        args, kwargs = random_call(draw)
        expected, seen = outcome(function, args, dict(kwargs)), outcome(compiled, args, dict(kwargs))
        same = torch.equal(seen, expected) if isinstance(expected, torch.Tensor) else seen == expected
        assert same, f"seed {seed}: {len(args)} by position, {list(kwargs)}"


@pytest.mark.filterwarnings("ignore:.*recompile:UserWarning")
@pytest.mark.parametrize("seed", range(12))
def test_a_few_programs(seed):
    assert_as_eager(seed)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.filterwarnings("ignore:.*recompile:UserWarning")
def test_many_programs():
    for seed in range(12, 400):
        assert_as_eager(seed)
        tracer.reset()
