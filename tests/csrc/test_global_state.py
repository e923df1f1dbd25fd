"""GlobalState: each setting that changes a trace is noticed, put into words, and noticed to be back."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tracer._C import GlobalState


class FunctionMode(TorchFunctionMode):
    pass


class DispatchMode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    yield
    torch.set_default_dtype(before)


@contextlib.contextmanager
def deterministic(warn_only):
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    yield
    torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def default_device(device):
    torch.set_default_device(device)
    yield
    torch.set_default_device(None)


@contextlib.contextmanager
def autocast_cuda():
    torch.set_autocast_enabled("cuda", True)
    yield
    torch.set_autocast_enabled("cuda", False)


SETTINGS = {
    "grad_mode": (torch.no_grad, ["grad_mode was True, is False"]),
    "inference_mode": (torch.inference_mode, None),
    "default_dtype": (lambda: default_dtype(torch.float64), ["default_dtype was torch.float32, is torch.float64"]),
    "deterministic": (lambda: deterministic(False), ["deterministic_algorithms was False, is True"]),
    "warn_only": (lambda: deterministic(True), None),
    "autocast": (lambda: torch.autocast("cpu"), ["autocast_cpu was False, is True"]),
    "autocast dtype": (
        lambda: torch.autocast("cpu", dtype=torch.float16),
        ["autocast_cpu was False, is True", "autocast_cpu_dtype was torch.bfloat16, is torch.float16"],
    ),
    "autocast of another device": (autocast_cuda, ["autocast_cuda was False, is True"]),
    "autocast cache": (lambda: torch.autocast("cpu", cache_enabled=False), None),
    "torch function": (torch._C.DisableTorchFunction, ["torch_function_disabled was 0, is 2"]),
    "torch function of subclasses": (torch._C.DisableTorchFunctionSubclass, ["torch_function_disabled was 0, is 1"]),
    "forward AD": (forward_ad.dual_level, ["dual_level was False, is True"]),
    "function mode": (FunctionMode, ["torch_function_modes was [], is ['FunctionMode']"]),
    "dispatch mode": (DispatchMode, ["torch_dispatch_modes was [], is ['DispatchMode']"]),
    "fake mode": (FakeTensorMode, ["torch_dispatch_modes was [], is ['FakeTensorMode']"]),
    "device context": (lambda: torch.device("meta"), ["torch_function_modes was [], is ['DeviceContext(meta)']"]),
    "default device": (lambda: default_device("meta"), ["torch_function_modes was [], is ['DeviceContext(meta)']"]),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_each_setting_is_noticed(name):
    enter, words = SETTINGS[name]
    outside = GlobalState()
    assert outside.check() and outside.changes() == []
    with enter():
        assert not outside.check()
        assert outside.changes() == words if words else outside.changes()
        inside = GlobalState()
        assert inside.check() and inside.changes() == []
    assert outside.check() and not inside.check() and inside.changes()


def test_functorch_levels_and_transforms_are_told_apart():
    states = []

    def body(x):
        states.append(GlobalState())
        assert states[-1].check()
        assert all(not state.check() for state in states[:-1])
        return x.sum()

    outside = GlobalState()
    states.append(outside)
    x = torch.ones(3)
    torch.vmap(body)(x)
    torch.func.grad(body)(x)
    torch.vmap(torch.vmap(body))(torch.ones(2, 2))
    assert outside.check() and len(states) == 4
    assert any("functorch_level was 1, is -1" in change for change in states[1].changes())


def test_device_contexts_are_compared_by_device():
    with torch.device("meta"):
        state = GlobalState()
    with torch.device("meta"):
        assert state.check()
    with torch.device("cpu"):
        assert state.changes() == [
            "torch_function_modes was ['DeviceContext(meta)'], is ['DeviceContext(cpu)']",
        ]


def test_function_modes_are_compared_by_class():
    class Other(FunctionMode):
        pass

    with FunctionMode():
        state = GlobalState()
    with FunctionMode():
        assert state.check() and not state.changes()
    with Other():
        assert not state.check() and state.changes() == ["torch_function_modes was ['FunctionMode'], is ['Other']"]
    with FunctionMode(), FunctionMode():
        assert not state.check()
    assert not state.check()


def test_dispatch_modes_are_compared_by_identity_and_not_kept_alive():
    mode = DispatchMode()
    with mode:
        state = GlobalState()
    with mode:
        assert state.check()
    with DispatchMode():
        assert not state.check()
        assert state.changes()[0].endswith("(other objects)")
    gone = weakref.ref(mode)
    del mode
    gc.collect()
    assert gone() is None
    for _ in range(20):  # one may lie where the first one lay
        with DispatchMode():
            assert not state.check()


def test_it_is_of_the_thread():
    state = GlobalState()
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(state.check()))
        thread.start()
        thread.join()
        assert not state.check()
    assert seen == [True]


def test_threads_that_come_and_go_have_settings_of_their_own():
    outside, seen = GlobalState(), []

    def inside(enter):
        seen.append(outside.check())
        with enter():
            seen.append(not outside.check())
        seen.append(outside.check())

    for enter, _ in [*SETTINGS.values()] * 2:
        thread = threading.Thread(target=inside, args=(enter,))
        thread.start()
        thread.join()
    assert outside.check() and len(seen) == 6 * len(SETTINGS) and all(seen)


def test_it_takes_no_arguments():
    with pytest.raises(TypeError):
        GlobalState(1)


def test_a_state_is_made_again_of_its_numbers():
    with torch.no_grad():
        numbers = GlobalState().numbers()
    made = GlobalState(numbers)
    assert not made.check() and made.changes() == ["grad_mode was False, is True"]
    with torch.no_grad():
        assert made.check() and GlobalState(made.numbers()).check()


def test_a_state_with_modes_has_no_numbers_and_wrong_ones_are_refused():
    with torch.device("cpu"):
        assert GlobalState().numbers() is None
    for wrong in ((), (1, 2), GlobalState().numbers()[:-1]):
        with pytest.raises(ValueError, match="not the numbers"):
            GlobalState(wrong)
    with pytest.raises(TypeError):
        GlobalState(("a",) * 14)
