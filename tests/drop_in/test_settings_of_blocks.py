"""Settings of torch._dynamo for a block, in traced code: `error_on_graph_break`, `patch_dynamo_config` and the like."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo

import tracer

pytestmark = pytest.mark.usefixtures("installed")


def breaking(x):
    torch._dynamo.graph_break()
    return x + 1


def graph_count(fn, *args):
    """How many graphs there are, with breaks between them."""
    told = torch._dynamo.explain(fn)(*args)
    return max(told.graph_count, len(told.break_reasons) + 1)


def test_a_block_without_a_break_is_part_of_the_graph():
    def fn(x):
        x = x * 2
        with torch._dynamo.error_on_graph_break(True):
            x = x + 5
        return x * 3

    assert graph_count(fn, torch.ones(2)) == 1
    assert torch.compile(fn)(torch.ones(2)).tolist() == [21, 21]


def test_a_break_in_a_block_that_forbids_them_is_an_error_and_no_other_is():
    def fn(x, forbids):
        x = breaking(x)
        with torch._dynamo.error_on_graph_break(forbids):
            x = breaking(x)
        return breaking(x)

    with pytest.raises(torch._dynamo.exc.Unsupported, match="graph_break"):
        torch.compile(fn)(torch.ones(1), True)
    assert not tracer.config.error_on_graph_break
    assert torch.compile(fn)(torch.ones(1), False) == 4


def test_a_function_is_decorated_with_it():
    forbidding = torch._dynamo.error_on_graph_break(True)(breaking)
    assert forbidding(torch.ones(1)) == 2
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(lambda x: forbidding(x) * 2)(torch.ones(1))


def test_a_block_that_allows_breaks_allows_each_of_them():
    def fn(x, more):
        with torch._dynamo.error_on_graph_break(False):
            x = breaking(x)
            x = breaking(x * 2)
            assert not tracer.config.error_on_graph_break
        return breaking(x) if more else x * 3

    with torch._dynamo.error_on_graph_break(True):
        compiled = torch.compile(fn)
        assert compiled(torch.ones(1), False) == compiled(torch.ones(1), False) == 15
        assert tracer.config.error_on_graph_break  # ended as it began, behind the breaks
        with pytest.raises(torch._dynamo.exc.Unsupported):
            torch.compile(fn)(torch.ones(1), True)
        assert tracer.config.error_on_graph_break
    assert not tracer.config.error_on_graph_break


def test_it_is_asked_at_a_trace_and_not_of_what_is_compiled_already():
    compiled = torch.compile(lambda x: breaking(x * 2))
    compiled(torch.ones(1))
    with torch._dynamo.error_on_graph_break(True):
        assert compiled(torch.ones(1)) == 3
        with pytest.raises(torch._dynamo.exc.Unsupported):
            compiled(torch.ones(1, 1))


def test_blocks_nest():
    def fn(x):
        with torch._dynamo.error_on_graph_break(True):
            with torch._dynamo.error_on_graph_break(False):
                x = breaking(x)
            return x * 2

    assert torch.compile(fn)(torch.ones(1)) == torch.compile(fn)(torch.ones(1)) == 4
    assert not tracer.config.error_on_graph_break


def test_an_exception_ends_a_block():
    def fn(x):
        try:
            with torch._dynamo.error_on_graph_break(True):
                raise KeyError(3)
        except KeyError:
            return breaking(x)

    assert torch.compile(fn)(torch.ones(1)) == fn(torch.ones(1)) == 2
    assert not tracer.config.error_on_graph_break


def test_settings_of_a_decorated_function_hold_where_it_is_traced():
    @torch._dynamo.patch_dynamo_config(capture_scalar_outputs=True)
    def with_number(x, n):
        return x * n.item()

    def fn(x, n):
        return with_number(x, n) + 1

    def without(x, n):
        return with_number(x, n) + n.item()

    x, n = torch.ones(2), torch.tensor(3)
    assert graph_count(fn, x, n) == 1
    assert graph_count(without, x, n) == 2
    assert torch.compile(fn)(x, n).tolist() == [4, 4]
    assert not tracer.config.capture_scalar_outputs


def test_settings_of_a_block_that_was_made_before_hold_in_it():
    block = torch._dynamo.patch_dynamo_config(capture_scalar_outputs=True)

    def fn(x, n):
        with block:
            return x * n.item()

    assert graph_count(fn, torch.ones(2), torch.tensor(3)) == 1


def test_what_torch_does_not_patch_is_an_error():
    with pytest.raises(ValueError, match="recompile_limit"):
        torch._dynamo.patch_dynamo_config(recompile_limit=3)


@pytest.mark.parametrize("block", [torch._dynamo.dont_skip_tracing, torch._dynamo.disable_nested_graph_breaks])
def test_what_this_tracer_does_anyway_is_no_break(block):
    name = block.__name__

    def fn(x):
        with getattr(torch._dynamo, name)():
            x = x + 1
        return decorated(x)

    decorated = getattr(torch._dynamo, name)(lambda x: x * 2)
    assert graph_count(fn, torch.ones(2)) == 1
    assert torch.compile(fn)(torch.ones(1)) == fn(torch.ones(1)) == 4
