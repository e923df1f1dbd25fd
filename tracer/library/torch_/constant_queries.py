"""Questions about torch's settings that the guard on global state does not cover: each gets a guard of its own, which asks
again before every call."""

from __future__ import annotations

import functools
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
        models.of_plain_tensors(_question)(_ask(_question))


# -- settings of precision --------------------------------------------------------------------------------------------------
#
# Each setter changes several of them, and none can be put back exactly, so that no graph holds a setter. As a rule a program sets
# the same each time: the first time breaks the graph, and after that the setter changes nothing.

_get_precision: Any = getattr(torch._C, "_get_fp32_precision_getter", None)
_set_precision: Any = getattr(torch._C, "_set_fp32_precision_setter", None)
_INHERITED = (("generic", "all"), ("cuda", "all"), ("mkldnn", "all"))  # where these are "none", the others hold what was set
_MATMUL, _CUDNN = (("cuda", "matmul"), ("mkldnn", "matmul")), (("cuda", "conv"), ("cuda", "rnn"))
# (question, setter, {value: the precisions that the setter leaves})
_SETTERS: tuple[tuple[str, str, dict[Any, dict[Any, str]]], ...] = (
    ("_get_cublas_allow_tf32", "_set_cublas_allow_tf32", {True: {_MATMUL[0]: "tf32"}, False: {_MATMUL[0]: "ieee"}}),
    ("_get_cudnn_allow_tf32", "_set_cudnn_allow_tf32", {True: dict.fromkeys(_CUDNN, "tf32")}),
    (
        "_get_float32_matmul_precision",
        "_set_float32_matmul_precision",
        {"high": dict.fromkeys(_MATMUL, "tf32"), "highest": dict.fromkeys(_MATMUL, "ieee")},
    ),
)


@functools.cache
def _precision(backend: str, op: str) -> Callable[[], str]:
    def ask() -> str:
        answer: str = _get_precision(backend, op)
        return answer

    ask.__name__ = f"fp32_precision of {backend} {op}"
    return ask


def _model_of_setting_what_is(ask: Any, write: Any, leaves: dict[Any, dict[Any, str]]) -> Callable[..., VariableTracker]:
    def model(tx: Tracer, value: VariableTracker) -> VariableTracker:
        given = value.constant()
        places = {**dict.fromkeys(_INHERITED, "none"), **leaves.get(given, {})}
        questions = [(ask, given), *((_precision(*place), precision) for place, precision in places.items())]
        if given not in leaves or any(question() != answer for question, answer in questions):
            unsupported("side-effect-call", name=f"torch._C.{write.__name__}", value="torch's global state, which it changes")
        for question, answer in questions:
            tx.guard(AnswerMatch(question, answer))
        return NONE

    return model


def _get_fp32_precision(tx: Tracer, backend: VariableTracker, op: VariableTracker) -> VariableTracker:
    return _ask(_precision(backend.constant(), op.constant()))(tx)


def _set_fp32_precision(tx: Tracer, backend: VariableTracker, op: VariableTracker, value: VariableTracker) -> VariableTracker:
    """Only where it sets none and there is none: another may be inherited."""
    question = _precision(backend.constant(), op.constant())
    if value.constant() != "none" or question() != "none":
        unsupported(
            "side-effect-call", name="torch._C._set_fp32_precision_setter", value="torch's global state, which it changes"
        )
    tx.guard(AnswerMatch(question, "none"))
    return NONE


if _get_precision is not None and _set_precision is not None:
    models.of_plain_tensors(_get_precision)(_get_fp32_precision)
    models.of_plain_tensors(_set_precision)(_set_fp32_precision)
    for _asks, _writes, _leaves in _SETTERS:
        _setter = _resolve(f"_C.{_writes}")
        models.of_plain_tensors(_setter)(_model_of_setting_what_is(_resolve(f"_C.{_asks}"), _setter, _leaves))
