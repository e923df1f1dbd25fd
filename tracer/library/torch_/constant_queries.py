"""Questions about torch's settings that the guard on global state does not cover: each gets a guard of its own, which asks
again before every call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind, shown
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


@guard_kind
class AnswerMatch(Guard):
    """A function, called without arguments, returns what it returned while tracing."""

    question: Callable[[], Any]
    answer: Any
    kind: ClassVar[str] = "ANSWER_MATCH"

    def check(self, code: CheckScope) -> str | None:
        return f"{code.const(self.question, 'ask')}() == {self.answer!r}"

    def lines(self) -> list[str]:
        return [f"{self.question.__name__}() == {self.answer!r}"]

    def explain(self, *seen: Any) -> Mismatch:
        now = shown(self.question())
        return Mismatch(f"{self.question.__name__}() changed", shown(self.answer), now)


_QUESTIONS = """
distributed.is_initialized get_float32_matmul_precision get_num_threads is_warn_always_enabled is_anomaly_enabled
is_anomaly_check_nan_enabled _C._get_cudnn_enabled _C._get_cudnn_benchmark _C._get_cudnn_deterministic
_C._get_cudnn_allow_tf32 _C._get_cublas_allow_tf32 _C._get_mkldnn_enabled _C._get_mkldnn_deterministic
_C._get_flash_sdp_enabled _C._get_mem_efficient_sdp_enabled _C._get_math_sdp_enabled _C._get_cudnn_sdp_enabled
_C._get_overrideable_sdp_enabled _C._get_nnpack_enabled _C._autograd._profiler_enabled _C._is_multithreading_enabled
_C._is_view_replay_enabled _C._get_float32_matmul_precision _C._get_math_sdp_allow_fp16_bf16_reduction
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


for _path in _QUESTIONS.split():
    _question = _resolve(_path)
    if _question is not None:  # not in every build
        models.of_plain_tensors(_question)(_ask(_question))
