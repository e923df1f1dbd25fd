"""f-strings over tensors and sizes: the text is formatted only if something reads it."""

from __future__ import annotations

import pytest
import torch

from tests.support import breaks, captured, check, check_made
from tracer import config

KEPT: list[object] = []


def _for_sizes(fn, *sizes, reset=lambda: None, dynamic=None):
    made = iter([size for size in sizes for _ in range(2)])
    return check_made(fn, lambda: ((torch.arange(float(next(made))),), {}), calls=len(sizes), reset=reset, dynamic=dynamic)


def _graphs_for(fn, *sizes, reset=lambda: None):
    """How many graphs the sizes need."""
    found = _for_sizes(fn, *sizes, reset=reset)
    return len(found.graphs) + found.recompiles, found.break_ids


def test_a_message_that_nobody_reads_costs_nothing():
    def fn(x):
        message = f"wrong: {x!r:>30} of {x.shape[0]:04d} in {x.sum()}"
        return x * 2 if x.dim() == 1 else message

    captured(fn, torch.ones(3))


def test_a_size_in_a_text_is_not_fixed_by_it():
    def fn(x):
        message = f"of {x.shape[0]:>4}" + " and " + f"{x.shape[0] * 2!r}"
        return x * 2, message

    assert _graphs_for(fn, 3, 4, 5, 6) == (2, [])


def test_a_shape_in_a_text_is_not_fixed_by_it():
    def fn(x):
        message = f"of {x.shape}, {tuple(x.size())!r:>9}, {(x.shape[0] * 2, 'a', None)}"
        assert x.shape[0] > 1, f"too small: {x[1:].shape}"
        return x * 2, message

    assert _graphs_for(fn, 3, 4, 5, 6) == (2, [])


def test_a_text_of_a_shape_that_is_looked_into_is_that_of_the_call():
    def fn(x):
        return x * 2, f"{x.shape}" == "torch.Size([3])", len(f"{(x.shape[0], 1)}")

    _for_sizes(fn, 3, 4, 10)


def test_a_text_of_a_size_is_kept_printed_and_stored_without_fixing_it(capsys):
    def fn(x):
        KEPT.append(f"{x.shape[0]} rows")
        return {"text": f"<{x.shape[0]}>", "twice": [x * 2]}

    assert _graphs_for(fn, 3, 4, 5, 6, reset=KEPT.clear) == (2, [])


@pytest.mark.parametrize("use", [
    lambda text: len(text), lambda text: text == "3 rows", lambda text: text.upper(), lambda text: text[0],
    lambda text: "3" in text,
    lambda text: {text: 1}, lambda text: list(text), lambda text: text * 2, lambda text: "%s!" % text,
    lambda text: f"{text!r:>12}",
    lambda text: "a" + text + "b", lambda text: (not text, bool(text)), lambda text: hash(text) == hash("3 rows"),
    lambda text: getattr(torch, text, None), lambda text: "-".join([text, text]), lambda text: int(text.split()[0]),
])  # fmt: skip
def test_a_text_that_is_looked_into_is_that_of_the_call(use):
    def fn(x):
        return x * 2, use(f"{x.shape[0]} rows")

    assert not _for_sizes(fn, 3, 4, 10, dynamic=True).breaks


def test_the_text_of_a_tensor_is_made_behind_the_graph():
    def fn(x):
        y = x + 1
        return y, f"{y} {x.sum()} {y!r:>30}"

    assert captured(fn, torch.ones(3)).result[1].startswith("tensor([2., 2., 2.]) 3.0 ")


def test_the_text_of_a_tensor_that_needs_gradients():
    def fn(x):
        return f"{x} {x * 2}"

    found = captured(fn, torch.ones(3, requires_grad=True))
    assert "requires_grad=True" in found.result and "MulBackward0" in found.result


def test_the_text_of_a_tensor_that_is_changed_later_breaks_the_graph_where_it_is_made():
    def fn(x):
        text = f"{x}"
        x.add_(1)
        return x, text

    assert breaks(fn, torch.ones(3)).break_ids == ["format-of-runtime-value"]


def test_the_text_of_a_view_of_what_is_changed_later_breaks_too():
    def fn(x):
        y = x + 1
        part = y[:2]
        text = f"{part}"
        y.mul_(3)
        return y, text

    assert breaks(fn, torch.ones(3)).break_ids == ["format-of-runtime-value"]


def test_inputs_that_share_memory_are_told_by_their_values():
    def fn(x, y):
        text = f"{x}"
        y.add_(1)
        return text

    def make():
        base = torch.zeros(4)
        return (base[:3], base[1:]), {}

    assert check_made(fn, make).break_ids == ["format-of-runtime-value"]


def test_a_break_in_a_callee_says_where_the_text_was_made():
    def inner(x):
        return f"{x}"

    def fn(x):
        text = inner(x)
        x.mul_(3)
        return x + 1, text, inner(x)

    found = breaks(fn, torch.ones(3))
    assert "in inner" in str(found.breaks[0])


def test_a_text_before_another_break_is_carried_over_it(capsys):
    def fn(x):
        y = x + 1
        text = f"{y} of {x.shape[0]}"
        print(text)
        return y * 2, text

    assert breaks(fn, torch.ones(3)).break_ids == ["side-effect-call"]


def test_a_number_that_a_format_may_refuse_is_that_of_the_call():
    def fn(x):
        return x + 1, f"{x.shape[0]:c}"

    assert not _for_sizes(fn, 65, 66, dynamic=True).breaks


def test_a_size_that_depends_on_data_is_formatted_behind_the_graph():
    def fn(x):
        found = x.nonzero().shape[0]
        return x + 1, f"{found} found"

    with config.patch(capture_dynamic_output_shape_ops=True):
        captured(fn, torch.tensor([0.0, 1.0, 2.0]))


class Named(int):
    def __new__(cls, value, name):
        made = super().__new__(cls, value)
        made.name = name
        return made

    def __repr__(self):
        return self.name


SEVEN = Named(7, "SEVEN")


def test_a_number_of_a_class_with_a_repr_of_its_own_is_written_by_it():
    def fn(x):
        texts = [str(SEVEN), f"{SEVEN}", f"{SEVEN!s:>7}", "%s %r %d" % (SEVEN, SEVEN, SEVEN), "{}".format(SEVEN)]
        return x + 1, texts, f"{SEVEN:>4}"

    check(fn, torch.ones(2))


def test_a_text_that_is_formatted_whole_is_not_looked_into():
    def fn(x):
        text = f"{x.shape[0]!r}"
        return x + 1, f"{text}", f"{x.shape[0]!s:>5}|"

    assert not _for_sizes(fn, 3, 4, 10, dynamic=True).recompiles
