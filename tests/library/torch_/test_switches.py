"""Flags of the process by which torch chooses kernels: read, set, and set for a block."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import tracer
from tests.support import captured, check

Q = torch.randn(1, 2, 8, 4)


def _attention(q):
    return F.scaled_dot_product_attention(q, q, q)


@pytest.mark.parametrize(
    "options",
    [
        {"backends": SDPBackend.MATH},
        {"backends": [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]},
        {"backends": [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], "set_priority": True},
    ],
)
def test_a_block_that_chooses_kernels_of_attention_is_whole(options):
    def fn(q):
        with sdpa_kernel(**options):
            inside = _attention(q), torch.backends.cuda.flash_sdp_enabled()
        return inside, torch.backends.cuda.flash_sdp_enabled(), torch._C._get_sdp_priority_order()

    captured(fn, Q)


def test_a_function_decorated_with_the_choice_is_whole():
    captured(sdpa_kernel(SDPBackend.MATH)(_attention), Q)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_choice_holds_across_a_break_and_is_another_graph_where_it_differs_at_the_entry(backend):
    def fn(q):
        with sdpa_kernel(SDPBackend.MATH):
            first = _attention(q)
            tracer.graph_break()
            inside = _attention(first), torch.backends.cuda.flash_sdp_enabled()
        return *inside, torch.backends.cuda.flash_sdp_enabled()

    compiled = tracer.optimize(backend)(fn)
    for chosen in (SDPBackend.FLASH_ATTENTION, SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
        with sdpa_kernel(chosen):
            expected, seen = fn(Q), compiled(Q)
        assert torch.allclose(expected[0], seen[0], atol=1e-6) and expected[1:] == seen[1:]


def test_a_flag_of_a_namespace_of_torch_is_set_and_read_back(monkeypatch):
    state = torch.backends.flags_frozen.__globals__  # torch's own test support freezes flags, and nothing thaws them
    monkeypatch.setitem(state, "__allow_nonbracketed_mutation_flag", True)

    def fn(x):
        before = torch.backends.mkldnn.deterministic
        torch.backends.mkldnn.deterministic = True
        x = x + 1
        seen = torch.backends.mkldnn.deterministic
        torch.backends.mkldnn.deterministic = before
        return seen, torch.backends.mkldnn.deterministic

    assert fn(Q) == tracer.optimize("eager", fullgraph=True)(fn)(Q) == (True, False)


def test_members_of_enums_of_torch_are_constants():
    names = {SDPBackend.MATH: "math", SDPBackend.FLASH_ATTENTION: "flash"}

    def fn(x, chosen):
        same = chosen == SDPBackend.MATH, chosen in (SDPBackend.MATH,), int(chosen), chosen.name, str(chosen)
        return x + len(names[chosen]), same, chosen

    captured(fn, Q, SDPBackend.FLASH_ATTENTION)


def test_another_member_is_another_graph():
    compiled = tracer.optimize(fullgraph=True)(lambda x, chosen: x + int(chosen))
    for chosen in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend(1)):
        assert torch.equal(compiled(Q, chosen), Q + int(chosen))
    assert len(tracer.region_of(compiled).entries()) == 2


def test_the_old_name_of_autocast_is_whole_and_warns_as_often():
    def fn(x):
        with torch.cuda.amp.autocast(enabled=False):
            return x + 1

    compiled = tracer.optimize(fullgraph=True)(fn)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fn(Q)
        expected = len(told)
        compiled(Q)
        compiled(Q)
    assert len(told) == 3 * expected > 0


def test_the_version_of_torch_is_compared():
    def fn(x):
        return x + 1 if torch.__version__ >= "2.0" and torch.__version__ >= (2, 0) else x

    captured(fn, Q)


def test_no_transform_is_active_where_none_is():
    check(lambda x: (x + 1, torch._C._are_functorch_transforms_active()), Q)
