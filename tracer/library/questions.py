"""Questions about the process and the thread: each gets a guard, which asks again before every call."""

from __future__ import annotations

import _thread
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracer.guards.state import AnswerMatch
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_QUESTIONS: tuple[Callable[[], Any], ...] = (
    _thread.get_ident, _thread.get_native_id, os.getpid, os.getppid, os.getcwd, os.cpu_count, sys.getrecursionlimit,
    sys.getswitchinterval, sys.getdefaultencoding, sys.getfilesystemencoding,
)  # fmt: skip


def model_of_question(question: Callable[[], Any]) -> Callable[..., VariableTracker]:
    """The model of a function without arguments that is answered while tracing."""

    def model(tx: Tracer) -> VariableTracker:
        answer = question()
        tx.guard(AnswerMatch(question, answer))
        return tx.literal(answer)

    return model


for _question in _QUESTIONS:
    models(_question)(model_of_question(_question))
