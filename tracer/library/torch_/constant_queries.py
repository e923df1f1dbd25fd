"""Questions about torch's settings that the guard on global state does not cover: each gets a guard of its own, which asks
again before every call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from tracer.effects.torch_state import SWITCHES, Switch
from tracer.graph_breaks import unsupported
from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind, shown
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


@guard_kind
class AnswerMatch(Guard):
    """A function, called without arguments, returns what it returned while tracing."""

    question: Callable[[], Any]
    answer: Any  # hashable: a list is given as a tuple
    kind: ClassVar[str] = "ANSWER_MATCH"

    def check(self, code: CheckScope) -> str | None:
        ask = f"{code.const(self.question, 'ask')}()"
        return f"{f'(*{ask},)' if type(self.answer) is tuple else ask} == {self.answer!r}"

    def lines(self) -> list[str]:
        return [f"{self.question.__name__}() == {self.answer!r}"]

    def explain(self, *seen: Any) -> Mismatch:
        now = shown(self.question())
        return Mismatch(f"{self.question.__name__}() changed", shown(self.answer), now)


_QUESTIONS = """
distributed.is_initialized get_float32_matmul_precision get_num_threads is_warn_always_enabled is_anomaly_enabled
is_anomaly_check_nan_enabled _C._autograd._profiler_enabled _C._is_multithreading_enabled _C._is_view_replay_enabled
_C._get_cudnn_allow_tf32 _C._get_cublas_allow_tf32 _C._get_float32_matmul_precision _C._get_onednn_allow_tf32
_C._get_cudnn_depthwise_kernel
"""


def _ask(question: Callable[[], Any]) -> Callable[..., VariableTracker]:
    def model(tx: Tracer) -> VariableTracker:
        answer = question()
        tx.guard(AnswerMatch(question, answer))
        return tx.literal(answer)

    return model


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
        if switch.is_read_late and tx.output.memory is not None:  # compilers drop the node
            unsupported("side-effect-call", name=f"torch._C.{switch.write.__name__}", value="torch's global state")
        given = tuple(item.constant() for item in value.unpack(tx)) if value.python_type() is list else value.constant()
        tx.guard(AnswerMatch(switch.ask, tx.trace.torch_state.at_entry(switch)))
        tx.trace.torch_state.change(switch.write, given)
        return NONE

    return model


for _switch in SWITCHES:
    models.of_plain_tensors(_switch.ask)(_model_of_asking(_switch))
    models.of_plain_tensors(_switch.write)(_model_of_setting(_switch))
for _path in _QUESTIONS.split():
    _question = _resolve(_path)
    if _question is not None:  # not in every build
        models.of_plain_tensors(_question)(_ask(_question))
