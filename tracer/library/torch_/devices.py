"""Models of questions about devices. Properties of a device never change in a process. The current device, and whether its
stream is being captured, are guarded; what would change the current device breaks the graph, but for a change to the same one."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph_breaks import unsupported
from tracer.guards.state import AnswerMatch
from tracer.protocol.inlining import transparent
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.values.constant import FALSE, NONE, ConstantVariable

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracer.protocol.tracer import Tracer, ValueCodegen

Value = VariableTracker


# -- the current device --------------------------------------------------------------------------------------------------


def _answer(question: Callable[[], Any]) -> Any:
    """None where there is no such device: a file of entries may be read on another machine."""
    try:
        return question()
    except (RuntimeError, AssertionError):
        return None


def current_cuda_device() -> Any:
    return _answer(torch.cuda.current_device)


def current_accelerator_index() -> Any:
    return _answer(torch.accelerator.current_device_index)


def cuda_is_initialized() -> Any:
    return torch.cuda.is_initialized()


def stream_is_captured() -> Any:
    return _answer(torch.cuda.is_current_stream_capturing)


def _model_of_question(function: Any, question: Any) -> Any:
    """The model of a function without arguments whose answer, that of `question`, is guarded."""

    def model(tx: Tracer) -> Value:
        if question is stream_is_captured and tx.trace.torch_state.on_another_stream:
            unsupported("side-effect-call", name=function.__name__, value="of a stream that the graph makes the current one")
        answer = tx.run_now(function)
        tx.guard(AnswerMatch(question, answer))
        return ConstantVariable(answer)

    return model


for _function, _question in (
    (torch.cuda.current_device, current_cuda_device),
    (torch.accelerator.current_device_index, current_accelerator_index),
    (torch.cuda.is_initialized, cuda_is_initialized),
    (torch.cuda.is_current_stream_capturing, stream_is_captured),
):
    models.of_plain_tensors(_function)(_model_of_question(_function, _question))


@models.of_plain_tensors(torch.cuda._utils._get_device_index)
def _device_index(tx: Tracer, device: Value, optional: Value = FALSE, allow_cpu: Value = FALSE) -> Value:
    given = device.get_attr(tx, "idx").constant() if device.python_type() is torch.cuda.device else device.constant()
    index = tx.run_now(torch.cuda._utils._get_device_index, given, optional.constant(), allow_cpu.constant())
    if given is None or isinstance(given, (str, torch.device)) and torch.device(given).index is None:
        tx.guard(AnswerMatch(current_cuda_device, _answer(torch.cuda.current_device)))
    return ConstantVariable(index)


def _model_of_change(name: str, question: Any, gives_last: bool) -> Any:
    """The model of a function that makes the device of a number the current one. `gives_last`: it returns the one before."""

    def model(tx: Tracer, device: Value) -> Value:
        index = device.constant()
        if index < 0:
            return ConstantVariable(-1) if gives_last else NONE
        if index != question():
            unsupported("side-effect-call", name=name, value="another device becomes the current one")
        tx.guard(AnswerMatch(question, index))
        return ConstantVariable(index) if gives_last else NONE

    return model


for _name, _question, _gives_last in (
    ("_accelerator_setDeviceIndex", current_accelerator_index, False),
    ("_accelerator_exchangeDevice", current_accelerator_index, True),
    ("_accelerator_maybeExchangeDevice", current_accelerator_index, True),
    ("_cuda_setDevice", current_cuda_device, False),
):
    if hasattr(torch._C, _name):  # some are there only in builds for CUDA
        models.of_plain_tensors(getattr(torch._C, _name))(_model_of_change(_name, _question, _gives_last))
for _function in (torch.cuda._exchange_device, torch.cuda._maybe_exchange_device):
    models.of_plain_tensors(_function)(_model_of_change(_function.__name__, current_cuda_device, True))
transparent(torch.cuda.set_device, torch.cuda.device_of.__init__)
transparent(*[vars(torch.cuda.device)[_name] for _name in ("__init__", "__enter__", "__exit__")])


# -- the processor -------------------------------------------------------------------------------------------------------


@functools.cache
def cpu_capabilities() -> str:
    return repr(torch._C._cpu._get_cpu_capability())


@models.of_plain_tensors(torch._C._cpu._get_cpu_capability)
def _capabilities(tx: Tracer) -> Value:
    tx.guard(AnswerMatch(cpu_capabilities, cpu_capabilities()))  # for entries in files: the next processor may be another one
    return tx.literal(torch._C._cpu._get_cpu_capability())


# -- properties ----------------------------------------------------------------------------------------------------------


@functools.cache
def _property(index: int, name: str) -> Any:
    return getattr(torch.cuda.get_device_properties(index), name)


@dataclasses.dataclass(frozen=True)
class PropertyOfDevice:
    """A question that a guard asks, for entries in files: the next process may have other devices."""

    index: int
    name: str

    @property
    def __name__(self) -> str:
        return f"{self.name} of cuda:{self.index}"

    def __call__(self) -> Any:
        return _answer(functools.partial(_property, self.index, self.name))


class DevicePropertiesVariable(VariableTracker):
    """torch.cuda.get_device_properties(index)"""

    def __init__(self, index: int, value: Any) -> None:
        self.index = index
        self.value = value

    def python_type(self) -> type:
        return type(self.value)

    def get_attr(self, tx: Tracer, name: str) -> Value:
        found = getattr(self.value, name, None)
        if type(found) not in (int, str, bool, float):
            return super().get_attr(tx, name)
        tx.guard(AnswerMatch(PropertyOfDevice(self.index, name), found))
        return ConstantVariable(found)

    def identity(self) -> Any:
        unsupported("identity-of-a-value", left=self.describe(), right="another object")

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(torch.cuda.get_device_properties, lambda: cg.load_const(self.index))


@models.of_plain_tensors(torch.cuda.get_device_properties)
def _device_properties(tx: Tracer, device: Value = NONE) -> Value:
    index = _device_index(tx, device, ConstantVariable(True)).constant()
    return DevicePropertiesVariable(index, tx.run_now(torch.cuda.get_device_properties, index))


transparent(torch.cuda.get_device_capability, torch.cuda.get_device_name)
