"""torch's global state is part of what a trace saw: each switch is noticed, and switching back hits again."""

from __future__ import annotations

import contextlib

import pytest
import torch

import tracer
from tests.soundness.watching import Watched, traced
from tests.support import check
from tests.support.comparing import Comparison

X = torch.randn(3, 3)


@contextlib.contextmanager
def default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def deterministic(warn_only=False):
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


class Doubles(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.relu else result


STATES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "autocast to half": lambda: torch.autocast("cpu", torch.float16),
    "default dtype": default_dtype,
    "deterministic": deterministic,
    "deterministic, warnings": lambda: deterministic(warn_only=True),
    "default device": lambda: torch.device("meta"),
    "torch-function mode": Doubles,
    "torch function disabled": torch._C.DisableTorchFunction,
}


def asks(x):
    y = torch.relu(x @ x) + torch.zeros(3) + torch.tensor(1.0)
    return y, torch.is_grad_enabled(), torch.get_default_dtype(), y.requires_grad


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("grad", [False, True])
def test_a_switch_between_calls(name, grad):
    x = X.clone().requires_grad_(grad)
    watched = Watched(lambda x: asks(x)[1:] if name == "default device" else asks(x))
    fn = watched.compiled
    if name == "default device":
        with STATES[name]():
            x_there = x.detach().to("meta")
            assert fn(x_there) == watched.plain(x_there)
        assert fn(x) == watched.plain(x)
        return
    watched(x)
    before = len(watched.entries)
    with STATES[name]():
        watched(x)
        watched(x)
    traces = watched.traces
    watched(x)
    assert watched.traces == traces, "switched back, the first entry serves"
    with STATES[name]():
        watched(x)
    assert watched.traces == traces, "and so does the second"
    if name != "torch function disabled":
        assert len(watched.entries) > before


def test_a_mode_that_is_another_object_of_another_class():
    class Triples(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 3 if func is torch.relu else result

    watched = Watched(lambda x: torch.relu(x))
    for mode in (None, Doubles(), Triples(), Doubles(), None):
        with mode or contextlib.nullcontext():
            watched(X)
    with Doubles(), Triples():
        watched(X)
    with Triples(), Doubles():
        watched(X)


def test_grad_mode_inside_the_program_is_not_the_state_at_the_entry():
    def fn(x):
        with torch.no_grad():
            y = x * 2
        return y, x * 3

    watched = Watched(fn)
    x = X.clone().requires_grad_()
    for _ in range(2):
        watched(x)
        with torch.no_grad():
            watched(x)
    assert watched.traces == 2


def test_autocast_that_is_switched_off_inside():
    def fn(x):
        with torch.autocast("cpu", enabled=False):
            y = x @ x
        return y, x @ x

    watched = Watched(fn)
    for _ in range(2):
        watched(X)
        with torch.autocast("cpu"):
            watched(X)


def test_transforms_of_torch_func():
    fn = lambda x: torch.relu(x).sum()
    watched = Watched(fn)
    watched(X)
    for transform in (torch.func.grad, torch.func.vmap, torch.func.hessian):
        assert torch.equal(transform(watched.compiled)(X), transform(fn)(X))
    traces = watched.traces
    watched(X)
    assert watched.traces == traces


class Counting(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append((str(func), type(args[0])))
        return func(*args, **(kwargs or {}))


class CountingFunctions(torch.overrides.TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append((str(func), type(args[0])))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [Counting, CountingFunctions])
@pytest.mark.parametrize("warm", [False, True])
def test_a_mode_sees_the_operations_of_the_program_and_no_others(mode, warm):
    fn = lambda x: torch.relu(x @ x).sum()
    compiled = Watched(fn).compiled
    if warm:
        compiled(X)
    for _ in range(2):
        with mode() as expected:
            fn(X)
        with mode() as seen:
            compiled(X)
        assert seen.seen == expected.seen


def test_nothing_is_traced_below_autograd():
    compiled = tracer.compile(lambda x: x * 2, backend="aot_eager")
    x = torch.ones(3, requires_grad=True)
    with torch._C._AutoDispatchBelowAutograd():
        assert not compiled(x).requires_grad
    assert compiled(x).requires_grad and compiled.stats()["compiles"] == 1
    with torch.inference_mode():
        assert compiled(x).is_inference() and compiled.stats()["compiles"] == 2


def test_nothing_is_traced_where_dispatch_to_python_is_switched_off():
    fn = lambda x, w: torch.relu(x @ w)
    watched, weight = Watched(fn), torch.randn(3, 3, requires_grad=True)
    for _ in range(2):
        with torch._C._DisableTorchDispatch():
            assert torch.equal(watched.compiled(X, weight), fn(X, weight))
    assert torch.equal(watched.compiled(X, weight), fn(X, weight)) and watched.traces == 1


def test_fake_tensors_of_the_program():
    fn = lambda x: torch.relu(x @ x).sum()
    watched = Watched(fn)
    watched(X)
    with torch._subclasses.FakeTensorMode():
        fake = torch.randn(3, 3)
        assert type(watched.compiled(fake)) is type(fn(fake))
    assert type(watched.compiled(fake)) is type(fn(fake))


def test_gradients_flow_the_same_after_each_switch():
    def fn(x, w):
        return torch.relu(x @ w).sum()

    compiled = Watched(fn).compiled
    for mode in (torch.enable_grad, torch.no_grad, torch.enable_grad):
        grads = []
        for run in (fn, compiled):
            w = torch.full((3, 3), 0.5, requires_grad=True)
            with mode():
                loss = run(X, w)
            if loss.requires_grad:
                loss.backward()
            grads.append(w.grad)
        assert (grads[0] is None) == (grads[1] is None)
        assert grads[0] is None or torch.equal(grads[0], grads[1])


def test_the_default_device_changes_where_tensors_are_made():
    def fn(x):
        return torch.ones(2).device.type

    watched = Watched(fn)
    assert watched(X) == "cpu"
    with torch.device("meta"):
        assert watched.compiled(X) == "meta"
    torch.set_default_device("meta")
    try:
        assert watched.compiled(X) == "meta"
    finally:
        torch.set_default_device(None)
    assert watched(X) == "cpu"


def test_the_number_of_threads_and_the_like_are_left_alone():
    def fn(x):
        return x * torch.get_num_threads()

    watched = traced(fn, (X,)) if Watched(fn)(X) is not None else None
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        watched(X)
    finally:
        torch.set_num_threads(before)


def test_a_random_generator_goes_on_as_in_plain_python():
    def fn(x):
        return x + torch.rand(3, 3), torch.randn(2)

    compiled = Watched(fn).compiled
    torch.manual_seed(5)
    expected = [fn(X) for _ in range(4)]
    state = torch.get_rng_state()
    torch.manual_seed(5)
    seen = [compiled(X) for _ in range(4)]
    assert all(torch.equal(a, b) for pair in zip(expected, seen) for a, b in zip(*pair))
    assert torch.equal(state, torch.get_rng_state())


def test_saved_tensor_hooks_and_anomaly_mode():
    def fn(x, w):
        return (x @ w).relu().sum()

    compiled = Watched(fn).compiled
    packed: list[int] = []
    for run in (fn, compiled, compiled):
        packed.append(0)

        def pack(t):
            packed[-1] += 1
            return t

        w = torch.full((3, 3), 0.5, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), torch.autograd.set_detect_anomaly(False):
            run(X, w).backward()
    assert packed[0] == packed[1] == packed[2] > 0


def test_the_default_dtype_is_set_in_the_graph():
    def fn(x):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        made = torch.zeros(2), torch.arange(3) / 2, torch.tensor(1.5), x * 1.5
        torch.set_default_dtype(before)
        return made, torch.zeros(2), torch.get_default_dtype()

    Comparison().same(fn(torch.ones(3)), tracer.compile(fn, fullgraph=True)(torch.ones(3)), "result")
    check(fn, torch.ones(3))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_default_dtype_stays_as_the_program_left_it(backend):
    def fn(x):
        torch.set_default_dtype(torch.float64)
        return torch.arange(3) / 2 + x

    run = tracer.compile(fn, backend=backend)
    try:
        for _ in range(2):
            assert run(torch.ones(3)).dtype is torch.float64 is torch.get_default_dtype()
            torch.set_default_dtype(torch.float32)
    finally:
        torch.set_default_dtype(torch.float32)


PLACES = [(backend, op) for backend in ("cuda", "mkldnn") for op in ("conv", "rnn", "matmul")]


@pytest.fixture
def precisions(monkeypatch):
    """Restores the precisions that a test sets, which other tests of the process may have forbidden."""
    monkeypatch.setitem(torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag", True)
    before = [(*place, torch._C._get_fp32_precision_getter(*place)) for place in PLACES]
    yield
    torch.set_float32_matmul_precision("highest")
    for each in before:
        torch._C._set_fp32_precision_setter(*each)


def allows_tf32(x):
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    return x @ x.T, torch.backends.cuda.matmul.allow_tf32


def sets_the_precision(x):
    torch.set_float32_matmul_precision("high")
    return x @ x.T, torch.get_float32_matmul_precision()


def sets_flags_of_cudnn(x):
    torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark
    torch.backends.cudnn.deterministic = False
    return x + 1, torch.backends.cudnn.benchmark


@pytest.mark.parametrize("fn", [allows_tf32, sets_the_precision, sets_flags_of_cudnn])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_setting_is_no_effect_where_it_is_so_already(fn, backend, precisions):
    x = torch.ones(2, 3)
    run = tracer.compile(fn, backend=backend)
    Comparison().same(run(x), fn(x), "result")  # sets it, by CPython if need be
    whole = tracer.compile(fn, backend=backend, fullgraph=True)
    Comparison().same(whole(x), fn(x), "result")
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark
    try:
        assert run(x)[1] == fn(x)[1]
    finally:
        torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark


def test_a_flag_is_read_behind_its_change(precisions):
    def fn(x):
        before = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = not before
        seen = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = before
        return x + 1, before, seen, torch.backends.cudnn.benchmark

    x = torch.ones(2, 3)
    with tracer.config.patch(suppress_errors=False):
        Comparison().same(tracer.compile(fn, fullgraph=True)(x), fn(x), "result")
        Comparison().same(tracer.compile(fn, backend="aot_eager")(x), fn(x), "result")


def test_the_flags_of_cudnn_are_set_for_a_block(precisions):
    def fn(x):
        with torch.backends.cudnn.flags(enabled=False):
            return x + 1, torch.backends.cudnn.enabled

    x = torch.ones(2, 3)
    with tracer.config.patch(suppress_errors=False):
        Comparison().same(tracer.compile(fn, fullgraph=True)(x), fn(x), "result")
    check(fn, x)


def sets_tf32_for_a_block(x):
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = not before
    seen = torch.backends.cuda.matmul.allow_tf32, torch.get_float32_matmul_precision()
    product = x @ x.T
    torch.backends.cuda.matmul.allow_tf32 = before
    return product, before, seen, torch.backends.cuda.matmul.allow_tf32


@pytest.mark.parametrize("fn", [allows_tf32, sets_the_precision, sets_tf32_for_a_block])
def test_a_graph_sets_precisions_and_leaves_them_as_eager_does(fn, precisions):
    def left(run):
        torch.set_float32_matmul_precision("highest")
        for place in PLACES:
            torch._C._set_fp32_precision_setter(*place, "none" if place[1] == "matmul" else "tf32")
        Comparison().same(run(x), expected, "result")
        return [torch._C._get_fp32_precision_getter(*place) for place in PLACES], torch.get_float32_matmul_precision()

    x = torch.ones(2, 3)
    expected = fn(x)
    whole = tracer.compile(fn, fullgraph=True)
    assert left(whole) == left(fn) == left(whole) == left(tracer.compile(fn, backend="aot_eager"))


def test_a_precision_that_is_inherited_is_left_to_cpython(precisions):
    torch._C._set_fp32_precision_setter("generic", "all", "ieee")
    try:
        with pytest.raises(tracer.exc.Unsupported):
            tracer.compile(allows_tf32, fullgraph=True)(torch.ones(2, 3))
    finally:
        torch._C._set_fp32_precision_setter("generic", "all", "none")
