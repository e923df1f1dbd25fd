"""What one code object remembers across its traces."""

from __future__ import annotations

import pytest
import torch

import tracer


def test_sizes_that_are_equal_by_chance_cost_no_entry_of_their_own_once_they_were_seen_to_differ() -> None:
    def fn(x, y):
        return x.sum() * y + x.shape[0] - x.shape[1]

    traced = tracer.compile(fn, dynamic=True)
    for rows, columns, others in ((4, 4, 7), (4, 5, 4), (3, 6, 5), (8, 8, 8), (6, 2, 2)):
        x, y = torch.ones(rows, columns), torch.ones(others)
        assert torch.equal(traced(x, y), fn(x, y))
    assert traced.stats()["compiles"] == 2


@pytest.mark.parametrize("first", [(3, 5), (2, 7)])
def test_an_entry_made_when_two_sizes_were_equal_by_chance_serves_others(first) -> None:
    def fn(x):
        return x * 2 + x.shape[0] - x.shape[1]

    traced = tracer.compile(fn)
    for sizes in (first, (4, 4)):  # static, then dynamic
        traced(torch.ones(sizes))
    for sizes in ((6, 8), (9, 9), (8, 6)):
        x = torch.ones(sizes)
        assert torch.equal(traced(x), fn(x))
    assert traced.stats()["compiles"] == 2


def test_sizes_that_were_always_equal_are_taken_to_be_equal() -> None:
    def fn(x, y):
        return x.sum() + y.sum()

    traced = tracer.compile(fn)
    for size in (3, 4):
        traced(torch.ones(size), torch.ones(size))
    assert "L['y'].size()[0] == L['x'].size()[0]" in tracer.region_of(traced).entries()[0].guarded_code.guards_text
    assert traced(torch.ones(5), torch.ones(6)) == 11


def slices(sizes, widths):
    for width in widths:
        yield torch.randn(sizes[0], width)[:, : sizes[1]]


def compiles(traced, fn, inputs) -> int:
    for x in inputs:
        seen, expected = traced(x), fn(x)
        assert torch.equal(seen, expected) and seen.stride() == expected.stride()
    return traced.stats()["compiles"]


def test_a_stride_that_varies_is_a_symbol() -> None:
    def fn(x):
        return x * 2

    assert compiles(tracer.compile(fn), fn, slices((4, 9), range(10, 40))) == 2


def test_a_stride_that_was_computed_of_sizes_and_is_not_any_more_is_a_symbol() -> None:
    def fn(x):
        return x + 1

    whole = [torch.randn(4, 9), torch.randn(5, 8)]  # static, then dynamic
    assert compiles(tracer.compile(fn), fn, [*whole, *slices((4, 9), (10, 11)), torch.randn(3, 7), *slices((3, 7), (9, 50))]) == 3


def test_strides_of_contiguous_tensors_stay_products_of_their_sizes() -> None:
    traced = tracer.compile(lambda x: x.view(-1) * 2)
    for sizes in ((4, 9), (5, 8), (3, 7)):
        traced(torch.randn(sizes))
    assert "L['x'].stride()[0] == L['x'].size()[1]" in tracer.region_of(traced).entries()[0].guarded_code.guards_text
    assert traced.stats()["compiles"] == 2


def test_what_the_program_asks_of_a_stride_is_guarded() -> None:
    def fn(x):
        return x * x.stride(0) if x.stride(0) > 20 else x.reshape(-1) if x.is_contiguous() else x + 1

    traced = tracer.compile(fn)
    assert compiles(traced, fn, slices((4, 9), (10, 11, 12, 19))) == 2
    assert compiles(traced, fn, slices((4, 9), (21, 30, 22, 50))) == 3
    assert compiles(traced, fn, [*slices((4, 9), (9,)), *slices((4, 9), (9, 13, 33))]) == 4


def test_the_order_of_strides_is_guarded_where_results_lie_by_it() -> None:
    def fn(x):
        return (x * 2).view(-1) if (x * 2).is_contiguous() else (x * 2).t()

    traced = tracer.compile(fn)
    turned = [torch.randn(9, width)[:, :4].t() for width in (5, 6, 8)]
    assert compiles(traced, fn, [*slices((4, 9), (10, 11, 13)), *turned]) <= 4


def test_a_stride_at_a_dim_of_size_one_says_nothing_of_other_calls() -> None:
    traced = tracer.compile(lambda x: x * 2)
    for x in (torch.randn(9, 4)[:1, :3], torch.randn(9, 5)[:1, :3], torch.randn(9, 7)[:1, :3]):
        traced(x)
    assert traced.stats()["compiles"] == 2
    for sizes in ((4, 3), (5, 3), (6, 3)):
        traced(torch.randn(sizes))
    assert "L['x'].stride()" not in tracer.region_of(traced).entries()[0].guarded_code.guards_text


def test_a_marked_stride_is_a_symbol_from_the_first_trace_on() -> None:
    def fn(x):
        return x + 1

    traced = tracer.compile(fn)
    x = torch.randn(4, 50)[:, :9]
    tracer.mark_dynamic(x, 0, strides=True)
    assert compiles(traced, fn, [x, *slices((5, 9), (10, 20)), *slices((3, 9), (9,))]) == 1


def test_strides_of_calls_that_ran_uncompiled_count() -> None:
    def fn(x):
        return x + 1

    traced = tracer.compile(fn)
    with tracer.set_stance("eager_then_compile"):
        assert compiles(traced, fn, slices((4, 9), (10, 11, 12))) == 1


def test_the_warning_at_the_limit_names_strides_and_what_to_try() -> None:
    traced = tracer.compile(lambda x: x + 1, dynamic=False, recompile_limit=2)
    with pytest.warns(UserWarning, match="strided") as told:
        for x in slices((4, 9), (10, 11, 12)):
            traced(x)
    assert "stride mismatch at index 0. expected 11, actual 12" in str(told[0].message)
    assert "mark_dynamic(x, dims, strides=True)" in str(told[0].message)


def test_sizes_that_a_nested_function_closes_over_vary_behind_a_break() -> None:
    def unpacking(sizes):
        return lambda y: y.reshape(sizes[0]) * sizes[0][0]

    def fn(x):
        sizes = [tuple(x.shape)]
        unpack, unpack_here = unpacking(sizes), lambda y: y.reshape(sizes[0])
        flat = x.reshape(-1)
        tracer.graph_break()
        return unpack(flat) + unpack_here(flat)

    traced = tracer.compile(fn, dynamic=True)
    for rows in (4, 6, 3):
        x = torch.ones(rows, 5)
        assert torch.equal(traced(x), fn(x))
    assert traced.stats()["compiles"] == 2


def with_item(x):
    return x - x.max().item()


def with_float_kept(x):
    peak = float(x.max())
    return x.clamp(min=peak - 8.0) * 2


def with_int(x):
    length = int(x.sum())
    return torch.arange(length) + x.shape[0]


def with_list(x):
    low, high = torch.stack([x.min(), x.max()]).tolist()
    return x.clamp(low / 2, high / 2)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("fn", [with_item, with_float_kept, with_int, with_list])
def test_numbers_read_out_of_a_tensor_at_a_break_are_symbols_at_once(fn, dynamic) -> None:
    traced = tracer.compile(fn, dynamic=dynamic)
    first, *others = (torch.arange(5.0) + shift for shift in (2, 3, 5, 11))
    assert torch.equal(traced(first), fn(first))
    compiled = traced.stats()["compiles"]
    for x in others:
        assert torch.equal(traced(x), fn(x))
    assert compiled == traced.stats()["compiles"]


def test_numbers_read_out_of_a_tensor_are_constants_without_dynamic_shapes() -> None:
    traced = tracer.compile(with_item, dynamic=False)
    for shift in (2, 3):
        x = torch.arange(5.0) + shift
        assert torch.equal(traced(x), with_item(x))
    assert traced.stats()["compiles"] == 3
