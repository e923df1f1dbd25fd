"""Grad mode, inference mode and autocast inside of regions: as with, as decorator, by call, and around graph breaks."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import tracer
from tests.library.torch_.many_calls import many_calls, one_graph
from tests.support import breaks, captured, check
from tests.support.graphs import Graphs

X = torch.randn(3, 3)
W = torch.randn(3, 3, requires_grad=True)


def no_grad_block(x, w):
    with torch.no_grad():
        y = x @ w
    return y, y.requires_grad, x @ w


@torch.no_grad()
def _decorated(x, w):
    return x @ w


def no_grad_decorator(x, w):
    return _decorated(x, w), x @ w


def nested(x, w):
    with torch.set_grad_enabled(False), torch.enable_grad():
        y = x @ w
    with torch.no_grad():
        with torch.enable_grad():
            z = x @ w
        return y, z, x @ w, torch.is_grad_enabled()


def inference_block(x, w):
    with torch.inference_mode():
        y = x @ w
        inside = torch.is_inference_mode_enabled()
    return y, y.is_inference(), inside, torch.is_inference_mode_enabled()


@torch.inference_mode()
def inference_decorator(x, w):
    return x @ w


def autocast_block(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = F.linear(x, w)
        asked = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()
        with torch.autocast("cpu", enabled=False):
            z = F.linear(x, w)
    return y, z, asked, x @ w, torch.is_autocast_enabled("cpu")


def autocast_of_amp(x, w):
    with torch.amp.autocast("cpu"):
        return x @ w


def raises_inside(x, w):
    try:
        with torch.no_grad():
            y = x @ w
            raise ValueError("inside")
    except ValueError:
        return y, x @ w


def branch_on_mode(x, w):
    with torch.no_grad():
        return x + 1 if torch.is_grad_enabled() else x - 1


def stays_changed(x, w):
    torch.set_grad_enabled(False)
    return x @ w


@pytest.mark.parametrize(
    "fn",
    [no_grad_block, no_grad_decorator, nested, inference_block, inference_decorator, autocast_block, autocast_of_amp,
     raises_inside, branch_on_mode],
)  # fmt: skip
def test_captured(fn):
    one_graph(fn, X, W)


def test_a_changed_mode_stays_changed_after_the_region():
    try:
        assert len(many_calls(stays_changed, [(X, W)]).graphs) == 1
    finally:
        torch.set_grad_enabled(True)


# -- graph breaks inside -----------------------------------------------------------------------------------------------


def breaks_in_no_grad(x, w):
    with torch.no_grad():
        y = x @ w
        tracer.graph_break()
        z = y @ w
    return y, z, x @ w, torch.is_grad_enabled()


def ends_in_no_grad(x):
    with torch.no_grad():
        tracer.graph_break()
        return x * 2


def breaks_in_inference_mode(x, w):
    with torch.inference_mode():
        y = x @ w
        tracer.graph_break()
        z = y + 1
    return y, z, torch.is_inference_mode_enabled(), torch.is_grad_enabled(), x @ w


def breaks_in_autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
        tracer.graph_break()
        z = x @ w
    return y, z, x @ w, torch.is_autocast_enabled("cpu")


def breaks_in_two_blocks(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        with torch.enable_grad():
            y = x @ w
            tracer.graph_break()
            asked = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
        z = x @ w
    return y, z, asked, x @ w


def returns_from_the_block_after_a_break(x, w):
    with torch.no_grad():
        y = x @ w
        tracer.graph_break()
        return y, x @ w


def raises_after_a_break(x, w):
    try:
        with torch.no_grad():
            y = x @ w
            tracer.graph_break()
            raise ValueError("inside")
    except ValueError:
        return y, x @ w, torch.is_grad_enabled()


@pytest.mark.parametrize(
    "fn",
    [breaks_in_no_grad, breaks_in_inference_mode, breaks_in_autocast, breaks_in_two_blocks,
     returns_from_the_block_after_a_break, raises_after_a_break],
)  # fmt: skip
def test_a_break_inside_of_a_block_keeps_the_mode(fn):
    traced = many_calls(fn, [(X, W), (X, W)])
    assert traced.break_ids[0] == "explicit-graph-break"
    assert set(traced.break_ids) <= {"explicit-graph-break", "with-block"}


# -- the graph itself --------------------------------------------------------------------------------------------------


def test_the_graph_ends_in_the_state_that_it_began_in():
    seen = []

    def backend(gm, example_inputs):
        def run(*args):
            before = torch.is_grad_enabled()
            result = gm.forward(*args)
            seen.append((before, torch.is_grad_enabled()))
            return result

        return run

    for function, args in ((breaks_in_no_grad, (X, W)), (ends_in_no_grad, (X,))):
        tracer.optimize(backend)(function)(*args)
    assert seen == [(True, True), (True, True), (False, False)]


def test_a_graph_that_raises_leaves_the_blocks_that_it_was_in():
    def fn(x, w, indices):
        with torch.no_grad(), torch.autocast("cpu"), torch.inference_mode():
            return F.embedding(indices, w) + x

    traced = tracer.optimize("eager", fullgraph=True)(fn)
    traced(X, W, torch.tensor([0, 1, 2]))
    with pytest.raises(IndexError):
        traced(X, W, torch.tensor([0, 1, 7]))
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled() and not torch.is_autocast_enabled("cpu")


def test_a_frame_without_operations_does_not_touch_the_state():
    def fn(x, w):
        with torch.no_grad():
            return x

    assert not many_calls(fn, [(X, W)]).graphs


def test_the_backend_runs_in_the_state_of_the_caller():
    """A graph that switches gradients on is compiled with gradients on, and switches them off first where the caller has."""
    modes = []

    def backend(gm, example_inputs):
        switches = [node.args[0] for node in gm.graph.nodes if node.target is torch._C._set_grad_enabled]
        modes.append((torch.is_grad_enabled(), *switches))
        return gm.forward

    compiled = tracer.optimize(backend)
    compiled(breaks_in_no_grad)(X, W)
    compiled(ends_in_no_grad)(X)
    assert modes == [(True, False, True), (True, False, True, False, True), (False,)]


def test_inputs_first_read_in_a_block_are_guarded_as_at_the_call():
    def fn(x, w):
        with torch.inference_mode(), torch.autocast("cpu"):
            return x @ w

    one_graph(fn, X, W)


def test_each_mode_of_the_caller_has_its_entry():
    graphs = Graphs()

    fn = tracer.optimize(graphs.backend)(lambda x, w: x @ w)
    for _ in range(2):
        assert fn(X, W).requires_grad
        with torch.no_grad():
            assert not fn(X, W).requires_grad
        with torch.inference_mode():
            assert fn(X, W).is_inference()
        with torch.autocast("cpu"):
            assert fn(X, W).dtype is torch.bfloat16
    assert len(graphs) == 4


@pytest.fixture
def not_deterministic():
    torch.use_deterministic_algorithms(False)
    yield
    torch.use_deterministic_algorithms(False)


def test_deterministic_algorithms_are_switched_in_the_graph(not_deterministic):
    def fn(x):
        torch.use_deterministic_algorithms(True)
        asked = torch.are_deterministic_algorithms_enabled()
        filled = torch.empty(3)
        torch.use_deterministic_algorithms(False)
        return x + filled, asked, torch.are_deterministic_algorithms_enabled()

    traced = tracer.optimize("eager", fullgraph=True)(fn)
    for _ in range(2):
        seen, *asked = traced(X[0])
        assert seen.isnan().all() and asked == [True, False]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_deterministic_algorithms_stay_switched_on(not_deterministic, backend):
    def fn(x):
        y = x + 1
        torch.use_deterministic_algorithms(True, warn_only=True)
        return y, torch.empty(3).isnan()

    compiled = tracer.optimize(backend)(fn)
    for _ in range(3):
        torch.use_deterministic_algorithms(False)
        assert compiled(X)[1].all()
        assert torch.get_deterministic_debug_mode() == 1


def test_what_is_not_deterministic_raises_where_it_stands(not_deterministic):
    def fn(x):
        torch.use_deterministic_algorithms(True)
        try:
            return torch.cumsum(x, 0), x.put_(torch.tensor([0, 0]), torch.ones(2))
        except RuntimeError as error:
            return str(error)[:20]
        finally:
            torch.use_deterministic_algorithms(False)

    check(fn, X)


# -- what breaks -------------------------------------------------------------------------------------------------------


def sets_default_dtype(x, w):
    y = x + 1
    torch.set_default_dtype(torch.float64)
    z = torch.ones(2)
    torch.set_default_dtype(torch.float32)
    return y, z


def test_a_change_of_the_default_dtype_breaks_the_graph():
    assert many_calls(sets_default_dtype, [(X, W), (X, W)]).breaks


def test_seeds_are_captured():
    def seeds(x, w):
        y = x + 1
        torch.manual_seed(7)
        return y, torch.rand(2)

    assert not many_calls(seeds, [(X, W), (X, W)]).breaks


# -- settings outside of the guard on global state -----------------------------------------------------------------------


def test_other_settings_are_asked_again():
    threads = torch.get_num_threads()

    def fn(x):
        return x * 0 + torch.get_num_threads()

    traced = tracer.optimize("eager", fullgraph=True)(fn)
    try:
        for count in (threads, 1, threads):
            torch.set_num_threads(count)
            assert torch.equal(traced(X), fn(X))
    finally:
        torch.set_num_threads(threads)


def test_whether_a_parameter_is_a_leaf_is_guarded():
    traced = tracer.optimize("eager", fullgraph=True)(lambda w: w * 2 if w.is_leaf else w * 3)
    assert torch.equal(traced(W), W * 2)
    assert torch.equal(traced(W + 1), (W + 1) * 3)


def test_hooks_on_what_autograd_saves_see_no_fakes():
    kinds = set()

    def pack(tensor):
        kinds.add(type(tensor).__name__)
        return tensor

    traced = tracer.optimize("eager", fullgraph=True)(lambda w: (w.exp() * w).sum())
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        traced(W).backward()
    assert kinds == {"Tensor"}
    W.grad = None


# -- default devices --------------------------------------------------------------------------


def test_a_block_with_a_default_device():
    def fn(x):
        with torch.device("meta"):
            inside = torch.ones(3), torch.get_default_device()
        return inside[0].device, inside[1], torch.zeros(2) + x, torch.get_default_device()

    checked = captured(fn, torch.ones(2))
    assert "ones" in checked.operations


def test_blocks_with_default_devices_in_each_other():
    def fn(x):
        with torch.device("meta"):
            with torch.device("cpu") as device:
                inner = torch.ones(2)
            outer = torch.ones(2)
        return inner + x, outer.device, device

    captured(fn, torch.ones(2))


def test_a_break_in_a_block_with_a_default_device():
    def fn(x):
        with torch.device("meta"):
            before = torch.ones(2)
            print(end="")
            after = torch.ones(2)
        return before.device, after.device, x + torch.ones(2), torch.get_default_device()

    breaks(fn, torch.ones(2))


def test_an_exception_in_a_block_with_a_default_device():
    def fn(x, index):
        with torch.device("meta"):
            torch.ones(2)
            y = x[index] + 1
        return y, torch.get_default_device()

    check(fn, torch.ones(2), 7)
    assert torch.get_default_device() == torch.device("cpu")


def test_autocast_under_a_default_device():
    def fn(x):
        with torch.autocast("cpu", torch.bfloat16):
            return x @ torch.ones(2, 2)

    torch.set_default_device("cpu")
    try:
        captured(fn, torch.ones(2, 2))
    finally:
        torch.set_default_device(None)


def test_a_break_under_a_label():
    def fn(x):
        with torch.profiler.record_function("label"):
            y = x + 1
            print(end="")
            y = y * 2
        return y

    breaks(fn, torch.ones(2))


def test_the_state_is_as_before_where_the_graph_breaks_at_the_end_of_inference_mode():
    def program(x, y):
        x.clamp_(-1, 1)
        with torch.inference_mode():
            y.addcmul_(y, torch.zeros_like(y).roll(1, 0))
        y.t().contiguous().t().t().mul_(2)
        return x, y, y**2

    def arguments(n):
        base = torch.arange(3.0 * (n + 1)).reshape(n + 1, 3)
        return base[:-1].clone().requires_grad_() * 1, base[1:]

    traced = tracer.optimize("aot_eager")(program)
    with tracer.config.patch(suppress_errors=False):
        for n in (3, 1, 2, 5):
            given, expected = arguments(n), arguments(n)
            assert torch.equal(traced(*given)[2], program(*expected)[2]) and torch.equal(given[0], expected[0])
            assert torch.is_autocast_cache_enabled() and torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    counted = traced.stats()
    assert counted["compiles"] == counted["misses"]
