"""Questions about torch's settings that the guard on global state does not cover: each gets a guard of its own, which asks
again before every call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from tracer.effects.switches import CUDNN_PRECISIONS, MATMUL_PRECISIONS, SWITCHES, Switch, get_precision, set_precision
from tracer.graph_breaks import unsupported
from tracer.guards.state import AnswerMatch
from tracer.library.questions import model_of_question
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


_QUESTIONS = """
distributed.is_initialized get_num_threads is_warn_always_enabled is_anomaly_enabled
is_anomaly_check_nan_enabled _C._autograd._profiler_enabled _C._is_multithreading_enabled _C._is_view_replay_enabled
_C._get_onednn_allow_tf32
"""


def _resolve(path: str) -> Any:
    value: Any = torch
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


# -- switches, which a program may set, too ---------------------------------------------------------------------------------


def _model_of_asking(switch: Switch) -> Callable[..., VariableTracker]:
    def model(tx: Tracer) -> VariableTracker:
        tx.guard(AnswerMatch(switch.ask, tx.trace.torch_state.at_entry(switch)))
        return tx.literal(switch.ask())

    return model


def _model_of_setting(switch: Switch) -> Callable[..., VariableTracker]:
    def model(tx: Tracer, value: VariableTracker) -> VariableTracker:
        given = tuple(item.constant() for item in value.unpack(tx)) if value.python_type() is list else value.constant()
        tx.guard(AnswerMatch(switch.ask, tx.trace.torch_state.at_entry(switch)))
        if type(given) is type(switch.ask()) and given == switch.ask():
            return NONE
        if switch.is_read_late and tx.output.memory is not None:  # compilers drop the node
            unsupported("side-effect-call", name=f"torch._C.{switch.write.__name__}", value="torch's global state")
        tx.trace.torch_state.change(switch.write, given)
        return NONE

    return model


for _switch in SWITCHES:
    models.of_plain_tensors(_switch.ask)(_model_of_asking(_switch))
    models.of_plain_tensors(_switch.write)(_model_of_setting(_switch))
for _path in _QUESTIONS.split():
    _question = _resolve(_path)
    if _question is not None:  # not in every build
        models.of_plain_tensors(_question)(model_of_question(_question))


# -- settings of precision --------------------------------------------------------------------------------------------------

_KEEPERS: tuple[tuple[str, Switch], ...] = (  # a question or a setter of torch._C, and what it asks or changes
    ("cublas_allow_tf32", MATMUL_PRECISIONS),
    ("float32_matmul_precision", MATMUL_PRECISIONS),
    ("cudnn_allow_tf32", CUDNN_PRECISIONS),
)


@functools.cache
def _precision(backend: str, op: str) -> Callable[[], str]:
    def ask() -> str:
        answer: str = get_precision(backend, op)
        return answer

    ask.__name__ = f"fp32_precision of {backend} {op}"
    return ask


def _model_of_asking_a_precision(ask: Callable[[], Any], *keepers: Switch) -> Callable[..., VariableTracker]:
    def model(tx: Tracer) -> VariableTracker:
        for keeper in keepers:
            if (at_entry := tx.trace.torch_state.at_entry(keeper)) and keeper.ask() != at_entry:  # the program has changed it
                tx.guard(AnswerMatch(keeper.ask, at_entry))
                return tx.literal(ask())
        return model_of_question(ask)(tx)

    return model


def _model_of_setting_a_precision(write: Any, keeper: Switch) -> Callable[..., VariableTracker]:
    def model(tx: Tracer, value: VariableTracker) -> VariableTracker:
        given, now = value.constant(), keeper.ask()
        at_entry = tx.trace.torch_state.at_entry(keeper)
        if not now or not at_entry or type(given) not in (bool, str):
            unsupported("side-effect-call", name=f"torch._C.{write.__name__}", value="torch's global state, which it changes")
        tx.guard(AnswerMatch(keeper.ask, at_entry))
        try:
            write(given)
            after = keeper.ask()
        except (TypeError, RuntimeError) as error:
            tx.raise_caught(error)
        finally:
            keeper.write(now)
        if after == now:
            return NONE
        for_the_cpu = keeper is MATMUL_PRECISIONS and after[-1:] != now[-1:]  # the others are for kernels of CUDA
        if tx.output.memory is not None and (for_the_cpu or torch.cuda.is_available()):  # compilers drop the node
            unsupported("side-effect-call", name=f"torch._C.{write.__name__}", value="torch's global state, which it changes")
        tx.trace.torch_state.change(write, given)
        return NONE

    return model


def _get_fp32_precision(tx: Tracer, backend: VariableTracker, op: VariableTracker) -> VariableTracker:
    ask = _precision(backend.constant(), op.constant())
    return _model_of_asking_a_precision(ask, MATMUL_PRECISIONS, CUDNN_PRECISIONS)(tx)


def _set_fp32_precision(tx: Tracer, backend: VariableTracker, op: VariableTracker, value: VariableTracker) -> VariableTracker:
    """Only where it sets none and there is none: another may be inherited."""
    question = _precision(backend.constant(), op.constant())
    if value.constant() != "none" or question() != "none":
        unsupported(
            "side-effect-call", name="torch._C._set_fp32_precision_setter", value="torch's global state, which it changes"
        )
    _get_fp32_precision(tx, backend, op)
    return NONE


if get_precision is not None and set_precision is not None:
    models.of_plain_tensors(get_precision)(_get_fp32_precision)
    models.of_plain_tensors(set_precision)(_set_fp32_precision)
for _name, _keeper in _KEEPERS:
    _asks, _writes = _resolve(f"_C._get_{_name}"), _resolve(f"_C._set_{_name}")
    models.of_plain_tensors(_asks)(_model_of_asking_a_precision(_asks, _keeper))
    models.of_plain_tensors(_writes)(_model_of_setting_a_precision(_writes, _keeper))
