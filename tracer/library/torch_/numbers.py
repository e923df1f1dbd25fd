"""Models of `torch.sym_*` and `torch._check*`: arithmetic on symbolic numbers, and facts about them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch.fx.experimental import symbolic_shapes

from tracer.graph.operations.assertions import assert_in_graph
from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import ListVariable
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values import symbolic
from tracer.variables.values.constant import NONE, ConstantVariable, boolean, fold
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker
_ARITHMETIC: tuple[Any, ...] = (
    torch.sym_float, torch.sym_int, torch.sym_not, torch.sym_max, torch.sym_min, torch.sym_sqrt,
    torch._sym_sqrt, torch._sym_cos, torch._sym_sin, torch._sym_tan, torch._sym_cosh, torch._sym_sinh, torch._sym_tanh,
    torch._sym_acos, torch._sym_asin, torch._sym_atan, torch._sym_log2,
)  # fmt: skip


def _model_of_function(function: Any) -> Any:
    """The model of a function of numbers, which may be symbolic."""

    def model(tx: Tracer, *values: Value) -> Value:
        if all(value.is_constant() for value in values):
            return fold(tx, function, *(value.constant() for value in values))
        if not all(symbolic.is_number(value) for value in values):
            unsupported("symbolic-arithmetic", error=f"{function.__name__} of something else than numbers")
        return symbolic.apply(tx, function, *values)

    return model


for _function in {id(function): function for function in _ARITHMETIC}.values():
    models.of_plain_tensors(_function)(_model_of_function(_function))


@models.of_plain_tensors(torch.sym_ite)
def _sym_ite(tx: Tracer, cond: Value, then: Value, other: Value) -> Value:
    values = cond, then, other
    if all(value.is_constant() for value in values):
        return fold(tx, torch.sym_ite, *(value.constant() for value in values))
    if not all(map(symbolic.is_number, values)) or then.python_type() is not other.python_type():
        unsupported("symbolic-arithmetic", error="sym_ite of something else than a condition and two numbers of one type")
    if cond.is_constant():
        return then if cond.constant() else other
    if then.is_constant() or other.is_constant():  # torch's own symbolic numbers refuse constants: branch instead
        return then if cond.truth(tx) else other
    return symbolic.apply(tx, torch.sym_ite, *values)


@models.of_plain_tensors(torch.sym_sum)
def _sym_sum(tx: Tracer, values: Value) -> Value:
    zero: Value = ConstantVariable(0)
    return functools.reduce(lambda total, item: tx.binary("+", total, item), values.unpack(tx), zero)


# -- facts -----------------------------------------------------------------------------------------------------------------


_ERRORS = {
    torch._check: RuntimeError,
    torch._check_value: ValueError,
    torch._check_index: IndexError,
    torch._check_type: TypeError,
    torch._check_not_implemented: NotImplementedError,
}


def _model_of_check(error: type[Exception]) -> Any:
    """The model of a function of torch that raises unless a condition holds."""

    def model(tx: Tracer, cond: Value, message: Value = NONE) -> Value:
        assume(tx, cond, error, message)
        return NONE

    return model


for _function, _error in _ERRORS.items():
    models.of_plain_tensors(_function)(_model_of_check(_error))


@models.of_plain_tensors(torch._check_with)
def _check_with(tx: Tracer, error: Value, cond: Value, message: Value = NONE) -> Value:
    assume(tx, cond)
    return NONE


@models.of_plain_tensors(torch._check_tensor_all, torch._check_tensor_all_with)
def _check_tensor_all(tx: Tracer, *args: Value, message: Value = NONE) -> Value:
    """Tested when the graph runs. CPython then runs the frame and raises the error that the program asked for."""
    cond = next((each for each in args if isinstance(each, TensorVariable)), None)
    if cond is None or cond.fake.dtype is not torch.bool or cond.fake.device.type == "meta":
        unsupported("call-arguments", error="torch._check_tensor_all needs a bool tensor with data")
    holds = tx.output.call_function(torch.Tensor.all, (cond.graph_arg(),), {})
    assert_in_graph(tx, holds, "torch._check_tensor_all does not hold")
    return NONE


@models.of_plain_tensors(torch._check_is_size)
def _check_is_size(tx: Tracer, number: Value, message: Value = NONE, *, max: Value = NONE) -> Value:
    assume(tx, tx.compare(">=", number, ConstantVariable(0)))
    if max is not NONE:
        assume(tx, tx.compare("<=", number, max))
    return NONE


def assume(tx: Tracer, cond: Value, error: type[Exception] | None = None, message: Value = NONE) -> None:
    """Assumes a condition from here on. If it does not hold, this raises `error`, as torch does; without one the graph breaks,
    and CPython raises it. If it depends on data, it is checked at run time."""
    if isinstance(cond, TensorVariable):
        unsupported("data-dependent-branch", value=cond.describe())
    if isinstance(cond, SymNodeVariable) and cond.depends_on_data():
        if symbolic.assume(tx, cond):
            return
        unsupported("call-arguments", error="torch._check of something that does not hold")
    if cond.python_type() is bool and cond.truth(tx):
        return
    if cond.python_type() is bool and error is not None:
        text = ConstantVariable(_without_message()) if message is NONE else message.call(tx, [], {})
        if text.python_type() is str:
            tx.raise_value(tx.new_exception(error, text))
    unsupported("call-arguments", error="torch._check of something that does not hold")


@functools.cache
def _without_message() -> str:
    """What torch says of a condition that does not hold."""
    try:
        torch._check(False)
    except RuntimeError as error:
        return str(error)
    raise AssertionError("torch._check(False) holds")


def _model_of_decision(question: str) -> Any:
    """The model of a function of torch that decides a condition on sizes; the method of that name of the node answers."""

    def model(tx: Tracer, cond: Value) -> Value:
        if isinstance(cond, SymNodeVariable):
            return boolean(getattr(cond.example.node, question)("", 0))
        return boolean(cond.truth(tx))

    return model


for _name in ("guard_or_false", "guard_or_true", "statically_known_true"):
    models.of_plain_tensors(getattr(symbolic_shapes, _name))(_model_of_decision(_name))
models.of_plain_tensors(symbolic_shapes.guard_size_oblivious)(_model_of_decision("guard_or_false"))


@models(symbolic_shapes.has_free_unbacked_symbols)
def _has_sizes_of_data(tx: Tracer, value: Value) -> Value:
    return boolean(_is_sized_by_data(tx, value))


def _is_sized_by_data(tx: Tracer, value: Value) -> bool:
    """Whether a number depends on data, or a size, stride or offset of a tensor does, or any of a sequence of these."""
    if isinstance(value, SymNodeVariable):
        return value.depends_on_data()
    if isinstance(value, TensorVariable):
        fake = value.fake
        numbers = (*fake.shape, *fake.stride(), fake.storage_offset())
        return any(isinstance(number, torch.SymInt) and not number.node.has_hint() for number in numbers)
    return isinstance(value, (TupleVariable, ListVariable)) and any(_is_sized_by_data(tx, each) for each in value.unpack(tx))


@models.of_plain_tensors(symbolic_shapes.is_nested_int)
def _is_nested_int(tx: Tracer, number: Value) -> Value:
    return boolean(False)
