"""How a call passes its arguments makes entries only where the program can tell: order of keywords, position or keyword."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch

import tracer
from tests.support.regions import entries

x, y, z = torch.ones(3), torch.full((3,), 2.0), torch.full((3,), 3.0)


def wrapped(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def unnamed(function):
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def as_method(function):
    @functools.wraps(function)
    def wrapper(first, *args, **kwargs):
        return function(first, *args, **kwargs)

    return wrapper


def popping(function):
    """As transformers' `can_return_tuple`."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        doubled = kwargs.pop("doubled", False)
        result = function(*args, **kwargs)
        return result * 2 if doubled else result

    return wrapper


def storing(function):
    """As transformers' `merge_with_config_defaults`."""
    index = function.__code__.co_varnames.index("c")

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if len(args) > index and args[index] is not None:
            value = args[index]
        elif kwargs.get("c") is not None:
            value = kwargs["c"]
        else:
            value = 4
        if len(args) > index:
            args = list(args)
            args[index] = value
            args = tuple(args)
        else:
            kwargs["c"] = value
        return function(*args, **kwargs)

    return wrapper


def weighted(a, b=x, c=10):
    return a + 2 * b * c


FORMS = [
    lambda fn: fn(x, y),
    lambda fn: fn(x, b=y),
    lambda fn: fn(a=x, b=y),
    lambda fn: fn(b=y, a=x),
]


def assert_entries(function, count, forms=FORMS):
    """Every form gives what eager gives, in whichever order they come; `count` entries serve them."""
    for order in itertools.islice(itertools.permutations(forms), 0, None, 5):
        compiled = tracer.compile(function, fullgraph=True)
        for form in (*order, *order):
            assert torch.equal(form(compiled), form(function))
        assert len(entries(compiled)) == count, tracer.stats(compiled)


@pytest.mark.parametrize(
    "wrap", [wrapped, unnamed, popping, storing, lambda fn: wrapped(wrapped(fn)), lambda fn: unnamed(popping(fn))]
)
def test_a_wrapper_that_passes_its_arguments_on_has_one_entry_for_all_ways_to_call_it(wrap):
    assert_entries(wrap(weighted), 1)


def test_a_wrapper_that_takes_the_first_argument_itself_has_one_entry():
    assert_entries(as_method(weighted), 1, [lambda fn: fn(x, y), lambda fn: fn(x, b=y)])


def test_a_decorated_forward_is_one_entry_with_and_without_hooks():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        @as_method
        def forward(self, a, b=x, c=10):
            return weighted(self.linear(a), b, c)

    assert_entries(Model(), 1)
    model = Model()
    model.register_forward_hook(lambda module, args, result: result + 1)
    assert_entries(model, 1)


def test_arguments_that_are_left_out_or_added_are_other_entries():
    forms = [*FORMS, lambda fn: fn(x), lambda fn: fn(a=x), lambda fn: fn(x, y, 3), lambda fn: fn(x, c=3, b=y)]
    for wrap in (wrapped, unnamed, popping):
        function = wrap(weighted)
        compiled = tracer.compile(function, fullgraph=True)
        for form in (*forms, *forms[::-1]):
            assert torch.equal(form(compiled), form(function))
        assert tracer.stats(compiled)["compiles"] == 3


def test_the_same_number_of_other_arguments_is_another_entry():
    function = wrapped(weighted)
    compiled = tracer.compile(function, fullgraph=True)
    for form in (lambda fn: fn(x, b=y), lambda fn: fn(x, c=7), lambda fn: fn(c=7, a=x), lambda fn: fn(a=x, b=y)):
        assert torch.equal(form(compiled), form(function))
    assert tracer.stats(compiled)["compiles"] == 2


def test_the_error_of_a_wrong_call_is_that_of_eager():
    function = wrapped(weighted)
    compiled = tracer.compile(function)
    compiled(x, y)
    for wrong in (lambda fn: fn(x, a=x), lambda fn: fn(x, y, 3, 4), lambda fn: fn(x, d=y), lambda fn: fn(b=y)):
        with pytest.raises(TypeError) as expected:
            wrong(function)
        with pytest.raises(TypeError) as seen:
            wrong(compiled)
        assert str(seen.value) == str(expected.value)


# -- what the program sees -------------------------------------------------------------------------------------------


def sees_order(**kwargs):
    return sum(value * 10**index for index, value in enumerate(kwargs.values()))


def sees_order_of_what_is_passed(**kwargs):
    return sees_order(**kwargs)


def sees_order_behind_another(**kwargs):
    return sees_order(first=z, **kwargs)


def sees_order_of_a_copy(**kwargs):
    return sees_order(**kwargs.copy())


def sees_order_after_a_removal(**kwargs):
    kwargs["c"] = kwargs.pop("a")
    return sees_order(**kwargs)


def gives_the_dict(**kwargs):
    kwargs["c"] = kwargs["a"] + 1
    return kwargs


def gives_what_it_removed_and_put_back(**kwargs):
    value = kwargs.pop("a")
    kwargs["a"] = value + 1
    return kwargs


def reads_by_key(**kwargs):
    return kwargs["a"] + 2 * kwargs["b"] if "c" not in kwargs and kwargs else kwargs["c"]


def passes_on_by_name(**kwargs):
    return weighted(**kwargs)


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (sees_order, 2),
        (sees_order_of_what_is_passed, 2),
        (sees_order_behind_another, 2),
        (sees_order_of_a_copy, 2),
        (reads_by_key, 1),
        (passes_on_by_name, 1),
    ],
)
def test_the_order_of_keywords_counts_where_the_program_sees_it(function, count):
    assert_entries(function, count, [lambda fn: fn(a=x, b=y), lambda fn: fn(b=y, a=x)])


@pytest.mark.parametrize("function", [gives_the_dict, gives_what_it_removed_and_put_back])
def test_a_dict_that_is_given_back_has_the_order_of_the_call(function):
    compiled = tracer.compile(function, fullgraph=True)
    for form in (lambda fn: fn(a=x, b=y), lambda fn: fn(b=y, a=x)):
        seen, expected = form(compiled), form(function)
        assert list(seen) == list(expected) and all(map(torch.equal, seen.values(), expected.values()))


def test_order_counts_after_a_removal():
    assert_entries(sees_order_after_a_removal, 2, [lambda fn: fn(a=x, b=y, d=z), lambda fn: fn(d=z, b=y, a=x)])


def counts_positions(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) + len(args)

    return wrapper


def asks_for_a_keyword(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) + (100 if "b" in kwargs else 0)

    return wrapper


def asks_after_the_call(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        result = function(*args, **kwargs)
        return result + (1 if args else 2) + (10 if kwargs else 20)

    return wrapper


def passes_keywords_alone(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(x, **kwargs)

    return wrapper


def shifts(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(z, *args, **kwargs)

    return wrapper


@pytest.mark.parametrize(("wrap", "count"), [(counts_positions, 3), (asks_for_a_keyword, 2), (asks_after_the_call, 3)])
def test_what_the_program_sees_of_positions_makes_entries(wrap, count):
    assert_entries(wrap(weighted), count)


def test_arguments_that_are_dropped_or_shifted_are_not_taken_for_those_that_are_passed():
    for function in (
        passes_keywords_alone(lambda a, b=x, c=3: weighted(a, b, c)),
        shifts(lambda a, b=x, c=y: a + 10 * b + 100 * c),
    ):
        compiled = tracer.compile(function)
        for form in (lambda fn: fn(y), lambda fn: fn(b=y), lambda fn: fn(y, c=z), lambda fn: fn(c=z, b=y), lambda fn: fn(y, z)):
            assert torch.equal(form(compiled), form(function))


def test_two_functions_that_name_an_argument_differently_both_get_it():
    def one(a, b=y):
        return a + 2 * b

    def other(c=z, a=y):
        return 100 * a + c

    def both(*args, **kwargs):
        return one(*args, **kwargs) + 10 * other(*args, **kwargs)

    assert_entries(both, 2, [lambda fn: fn(x), lambda fn: fn(a=x)])


def test_the_tuple_of_arguments_is_read_as_it_was_passed():
    @functools.wraps(weighted)
    def function(*args, **kwargs):
        first, *_ = (*args, z)
        return first + weighted(*args, **kwargs) + args[0] if args[1:] else first

    compiled = tracer.compile(function)
    for form in (*FORMS, *FORMS):
        assert torch.equal(form(compiled), form(function))


def test_a_resume_function_gets_the_arguments_as_they_were_passed():
    @functools.wraps(weighted)
    def function(*args, **kwargs):
        result = weighted(*args, **kwargs)
        tracer.graph_break()
        return result + len(args) + 10 * sum(map(ord, "".join(kwargs))) if kwargs else result

    compiled = tracer.compile(function)
    for form in (*FORMS, *FORMS):
        assert torch.equal(form(compiled), form(function))


def test_an_argument_passed_twice_is_one_tensor():
    function = wrapped(lambda a, b: a.add_(b))
    compiled = tracer.compile(function)
    for call in (
        lambda fn, s, t: fn(s, s),
        lambda fn, s, t: fn(s, t),
        lambda fn, s, t: fn(b=s, a=s),
        lambda fn, s, t: fn(b=t, a=s),
    ):
        one, two = torch.ones(2), torch.full((2,), 3.0)
        again, second = one.clone(), two.clone()
        assert torch.equal(call(compiled, one, two), call(function, again, second))


def by_key(*args, **kwargs):
    return kwargs["b"] * 2


def by_iteration(*args, **kwargs):
    return sum(kwargs.values())


def by_index(*args, **kwargs):
    return args[1] if len(args) > 1 else kwargs["b"] * 7


@pytest.mark.parametrize("function", [by_key, by_iteration, by_index])
def test_a_keyword_is_not_taken_for_an_argument_at_its_index(function):
    named = functools.wraps(weighted)(function)
    forms = [
        lambda fn: fn(b=y),
        lambda fn: fn(x, b=y),
        lambda fn: fn(x, z, b=y),
        lambda fn: fn(x, y, b=z),
        lambda fn: fn(x, z, x, b=y),
    ]
    for order in itertools.islice(itertools.permutations(forms), 0, None, 7):
        compiled = tracer.compile(named)
        for form in order:
            assert torch.equal(form(compiled), form(named))


# -- declared sizes --------------------------------------------------------------------------------------------------


def renaming(function):
    """As transformers' `deprecate_kwarg`."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if "image" in kwargs:
            kwargs["sample"] = kwargs.pop("image")
        return function(*args, **kwargs)

    return wrapper


class Decorated(torch.nn.Module):
    """As transformers' and diffusers' models: the forward is decorated."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    @as_method
    @popping
    def forward(self, sample, mask=None, **kwargs):
        return self.linear(sample) * (1 if mask is None else mask[:, None])


class DecoratedTwice(Decorated):
    """The outer wrapper takes all as *args, the inner one names `self`."""

    @renaming
    @as_method
    def forward(self, sample, mask=None, **kwargs):
        return self.linear(sample) * (1 if mask is None else mask[:, None])


@pytest.mark.parametrize("model_type", [Decorated, DecoratedTwice])
def test_a_spec_names_the_arguments_of_a_decorated_forward(model_type):
    for forms in itertools.permutations([
        lambda fn, a, b: fn(a, b),
        lambda fn, a, b: fn(a, mask=b),
        lambda fn, a, b: fn(mask=b, sample=a),
    ]):  # fmt: skip
        model = model_type()
        compiled = tracer.compile(model, shapes="sample: B, 4; mask: B; B in 1..64")
        example = torch.ones(3, 4), torch.ones(3)
        given = forms[0](lambda *args, **kwargs: {"example": args, "kwargs": kwargs}, *example)
        with torch.no_grad():
            found = tracer.precompile(compiled, **given)
            assert found.certified, str(found)
            compiled.seal()
            for form in forms:
                for size in (1, 2, 64):
                    inputs = torch.randn(size, 4), torch.randn(size)
                    assert torch.equal(form(compiled, *inputs), form(model, *inputs))
            with pytest.raises(tracer.exc.SealedError, match="B"):
                forms[1](compiled, torch.ones(65, 4), torch.ones(65))
        assert tracer.stats(compiled)["compiles"] == len(found.covering)


@pytest.mark.parametrize(("spec", "kwargs"), [("args[0]: B; args[1]: B", False), ("a: B; b: B", True)])
def test_a_spec_names_what_a_wrapper_takes_where_its_parameters_are_not_known(spec, kwargs):
    function = unnamed(weighted)
    compiled = tracer.compile(function, shapes=spec + "; B in 2..64")
    example = torch.ones(3), torch.ones(3)
    given = {"kwargs": dict(zip("ab", example))} if kwargs else {"example": example}
    assert tracer.precompile(compiled, **given).certified
    compiled.seal()
    inputs = torch.randn(17), torch.randn(17)
    seen = compiled(a=inputs[0], b=inputs[1]) if kwargs else compiled(*inputs)
    assert torch.equal(seen, function(*inputs))


def test_sizes_that_vary_become_symbols_whichever_way_they_are_passed():
    compiled = tracer.compile(wrapped(weighted))
    for size, form in zip(range(3, 20), itertools.cycle([lambda fn, a: fn(a, a), lambda fn, a: fn(b=a, a=a)])):
        form(compiled, torch.ones(size))
    assert tracer.stats(compiled)["compiles"] == 2


def test_entries_of_decorated_functions_are_saved_and_loaded(tmp_path):
    compiled = tracer.compile(wrapped(weighted))
    compiled(x, b=y)
    tracer.save(compiled, str(tmp_path / "entries"))
    again = tracer.compile(wrapped(weighted))
    assert tracer.load(again, str(tmp_path / "entries"))
    assert torch.equal(again(b=y, a=x), weighted(x, y)) and tracer.stats(again)["compiles"] == 0


def test_a_miss_says_which_argument_is_missing_or_too_many():
    compiled = tracer.compile(counts_positions(weighted))
    compiled(x, b=y)
    assert "the call passes no 'b'" in str(tracer.why(compiled, x))
    assert "3: 1 by position, b, c" in str(tracer.why(compiled, x, b=y, c=3))
    assert "len(L['args']) == 1" in str(tracer.why(compiled, x, y))
