"""Calls of torch that a `__torch_function__` may override: that of a tensor subclass, of another class, or of a mode."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._device import DeviceContext, _device_constructors

from tracer import _C
from tracer.graph.fakes.override_probes import in_order_of_precedence, object_stand_in, overridden_call, tensor_stand_in
from tracer.graph_breaks import unsupported
from tracer.guards.constants import constant_key
from tracer.library.warnings_ import defer_warning
from tracer.operators.graph_functions import graph_operations
from tracer.protocol.lookups import MISSING, lookup
from tracer.protocol.tracer import Tracer
from tracer.protocol.variable import VariableTracker
from tracer.sources.reading import is_a
from tracer.sources.roots import ObjectSource
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable, RangeVariable, SequenceVariable, SizeVariable, TupleVariable
from tracer.variables.functions.callables import BoundMethodVariable, CallableVariable
from tracer.variables.functions.python_functions import as_written
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.tensors.arrays import NdarrayVariable
from tracer.variables.tensors.overrides import as_subclass
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import ConstantVariable
from tracer.variables.values.symbolic import SymNodeVariable, is_number

_ASKING = frozenset(
    (
        torch._C._set_grad_enabled,
        torch.autograd.grad,
        torch.autograd.backward,
        *[static for static in vars(torch.Tensor).values() if is_a(static, types.FunctionType)],
    )
)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
_OF_TENSORS = (torch.Tensor, torch._C.TensorBase)


def overridden(
    tx: Tracer, function: Callable[..., Any], args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker | None:
    """The result that the overrides of the arguments, or of a mode, give for a call of torch; None if no override applies."""
    state = tx.trace.overrides
    under_mode = state.asks_modes()
    if function is getattr and not under_mode and state.refuses(args[0]):
        return _attribute_either_way(tx, args[0], args[1])
    if not under_mode and not any(state.is_overriding(value) for value in _parts(tx, [*args, *kwargs.values()])):
        return None
    stand_ins = _StandIns(tx)
    fake_args = [stand_ins.of(arg, reads=function is getattr) for arg in args]
    fake_kwargs = {key: stand_ins.of(value) for key, value in kwargs.items()}
    try:
        call = overridden_call(function, fake_args, fake_kwargs, under_mode)
    except Exception as error:
        unsupported("tensor-subclass", cls=", ".join(stand_ins.class_names()), source=f"{_name(function)}: {error}")
    if call is None:
        return None
    if isinstance(function, types.FunctionType) and call[0] is not function:  # a function that it calls asks the overrides
        return tx.inline(as_written(function), args, kwargs)
    return _ask(tx, call, stand_ins)


def _attribute_either_way(tx: Tracer, value: VariableTracker, name: VariableTracker) -> VariableTracker:
    """An attribute where overrides may be disabled or not when the code runs: torch has to answer as they do."""
    state = tx.trace.overrides
    with state.switched(on=True):
        answer = overridden(tx, getattr, [value, name], {})
    with state.switched(on=False):
        own = value.get_attr(tx, name.constant())
    if answer is not None and not _is_equal(tx, answer, own):
        state.refuse(value)
    return own


def _is_equal(tx: Tracer, one: VariableTracker, other: VariableTracker) -> bool:
    """Whether values are equal for all that is known. Other than numbers, constants and sequences of them, they are not."""
    if one is other:
        return True
    if isinstance(one, SymNodeVariable) and isinstance(other, SymNodeVariable):
        return bool(one.example.node.expr == other.example.node.expr)
    if isinstance(one, SequenceVariable) and isinstance(other, SequenceVariable):
        pairs = one.items(tx), other.items(tx)
        return one.cls is other.cls and len(pairs[0]) == len(pairs[1]) and all(_is_equal(tx, *pair) for pair in zip(*pairs))
    return one.is_constant() and other.is_constant() and constant_key(one.constant()) == constant_key(other.constant())


def _ask(tx: Tracer, call: tuple[Any, ...], stand_ins: _StandIns) -> VariableTracker:
    function, kinds, *rest = call
    return ask_overrides(
        tx,
        stand_ins.original(function),
        in_order_of_precedence(*stand_ins.overriding(kinds)),
        [stand_ins.original(value) for value in rest],
    )


def ask_overrides(
    tx: Tracer, function: VariableTracker, overriding: list[VariableTracker], arguments: list[VariableTracker]
) -> VariableTracker:
    """The first answer that is not NotImplemented; the mode is asked before the arguments."""
    kinds = TupleVariable([tx.class_variable(value.python_type(), value) for value in overriding])
    state = tx.trace.overrides
    if state.asks_modes():
        with state.without_top_mode() as mode:
            result = _ask_mode(tx, mode, function, kinds, arguments)
        if not _is_not_implemented(result):
            return result
    for value in overriding:
        result = override_of(tx, value, "__torch_function__").call(tx, [function, kinds, *arguments], {})
        if not _is_not_implemented(result):
            return result
    unsupported("call-arguments", error=f"no implementation found for {function.describe()}")


def _ask_mode(
    tx: Tracer, mode: VariableTracker, function: VariableTracker, kinds: VariableTracker, arguments: list[VariableTracker]
) -> VariableTracker:
    if mode.python_type() is DeviceContext:  # does what its __torch_function__ does, without tracing it each time
        args, kwargs = arguments[0].unpack(tx), _keywords(tx, arguments[1:])
        device = kwargs.get("device")
        if function.identity() in _device_constructors() and (device is None or device.is_none()):
            kwargs["device"] = mode.get_attr(tx, "device")
        return function.call(tx, args, kwargs)
    return mode.get_attr(tx, "__torch_function__").call(tx, [function, kinds, *arguments], {})


def override_of(tx: Tracer, value: VariableTracker, name: str) -> VariableTracker:
    """The `__torch_function__` or `__torch_dispatch__` of a value's class."""
    cls = value.python_type()
    owner, static = lookup(cls, name)
    if is_a(static, classmethod):
        function = tx.class_attr(owner, name, value, part="__func__")
        return BoundMethodVariable(function, tx.class_variable(cls, value))
    if is_a(static, staticmethod):
        return tx.class_attr(owner, name, value, part="__func__")
    if is_a(static, types.FunctionType) and name == "__torch_function__":
        defer_warning(tx, "a __torch_function__ that is no class method, of which torch warns", _warn_of_plain_method)
        return BoundMethodVariable(tx.class_attr(owner, name, value), value)
    unsupported("tensor-subclass", cls=cls.__qualname__, source=f"a {name} that is no class method")


class _Plain:
    def __torch_function__(self, *args: Any, **kwargs: Any) -> None:
        """Only there, for torch to warn of it."""


def _warn_of_plain_method() -> None:
    """Called by output code. Torch warns once in a process."""
    torch.neg(_Plain())


for _function in (_Plain.__torch_function__, _warn_of_plain_method):
    _C.never_trace(_function.__code__)


def overridden_method(
    tx: Tracer, tensor: VariableTracker, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker | None:
    """Like `overridden`, for `tensor.name(*args, **kwargs)`, a method of torch's own classes."""
    static = lookup(torch.Tensor, name)[1]
    if is_a(static, types.FunctionType):
        return overridden(tx, static, [tensor, *args], kwargs)
    if not is_a(static, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return None
    return overridden(tx, static, [tensor, *args], kwargs)


def may_override(tx: Tracer, function: Any, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> bool:
    """Whether the overrides have to be asked at a call of a library function."""
    if not is_overridable(function):
        return False
    parts = list(_parts(tx, [*args, *kwargs.values()]))  # those that are met now may be the first to have overrides
    return tx.trace.overrides.active or any(map(_has_overrides, parts))


def tensor_as_subclass(tx: Tracer, tensor: VariableTracker, cls: VariableTracker) -> VariableTracker:
    """tensor.as_subclass(cls)"""
    if not isinstance(tensor, TensorVariable) or not isinstance(cls, ClassVariable):
        unsupported("call-arguments", error="as_subclass takes a class")
    return as_subclass(tx, tensor, cls.value)


_CLASS_OF: dict[torch.dtype, Any] = {
    torch.float32: torch.FloatTensor, torch.float64: torch.DoubleTensor,
    torch.float16: torch.HalfTensor, torch.bfloat16: torch.BFloat16Tensor,
}  # fmt: skip


def new_tensor(tx: Tracer, cls: type, args: list[VariableTracker]) -> VariableTracker:
    """cls(*args), as the legacy constructor of tensors makes it."""
    if torch._C._len_torch_function_stack() or tx.trace.overrides.modes:
        unsupported("tensor-subclass", cls=cls.__qualname__, source="a constructor call under a mode")
    if len(args) == 1 and isinstance(args[0], TensorVariable):
        return as_subclass(tx, args[0], cls)
    dtype: VariableTracker = ConstantVariable(torch.get_default_dtype())
    if len(args) == 1 and type(args[0]) in (ListVariable, TupleVariable):
        plain = tx.call_library(CallableVariable(torch.tensor), args, {"dtype": dtype})
    elif len(args) == 1 and isinstance(args[0], NdarrayVariable) and args[0].tensor.fake.dim():
        plain = tx.call_library(CallableVariable(torch.as_tensor), args, {"dtype": dtype})
    elif all(is_number(arg) and arg.python_type() is int for arg in args):
        plain = tx.call_library(CallableVariable(torch.empty), args or [ConstantVariable(0)], {"dtype": dtype})
    elif len(args) == 1 and isinstance(args[0], (NdarrayVariable, RangeVariable, SizeVariable)):
        plain = tx.call_library(CallableVariable(_CLASS_OF[torch.get_default_dtype()]), args, {})
    else:
        unsupported("tensor-subclass", cls=cls.__qualname__, source="a constructor call")
    if cls is torch.Tensor:
        return plain
    assert isinstance(plain, TensorVariable)
    return as_subclass(tx, plain, cls)


def is_overridable(function: Any) -> bool:
    """Whether a callable is one of torch's that may ask `__torch_function__`."""
    if id(function) in graph_operations() or (isinstance(function, _FUNCTIONS) and function in _ASKING):
        return True
    return getattr(function, "__objclass__", None) in _OF_TENSORS


_PLAIN = (torch.Tensor, torch.nn.Parameter)


class _StandIns:
    """Replaces the arguments of one call by stand-ins that torch can be called with, and maps stand-ins back."""

    def __init__(self, tx: Tracer) -> None:
        self.tx = tx
        self.state = tx.trace.overrides
        self._originals: dict[int, tuple[Any, VariableTracker]] = {}
        self._overriding: dict[type, VariableTracker] = {}

    def of(self, value: VariableTracker, reads: bool = False) -> Any:
        """`reads`: an attribute of the value is read."""
        tx = self.tx
        if self.state.is_overriding(value):
            make = tensor_stand_in if isinstance(value, TensorVariable) else object_stand_in
            known = next((cls for cls, other in self._overriding.items() if other is value), None)
            stand_in = make(len(self._overriding) if known is None else list(self._overriding).index(known))
            self._overriding[type(stand_in)] = value
            return self._remember(stand_in, value)
        if isinstance(value, TensorVariable):
            stand_in = torch.empty(0, device="cpu") if reads else value.fake  # fakes have attributes of their own
            return self._remember(stand_in, value)
        if isinstance(value, SequenceVariable) and not isinstance(value, SizeVariable):
            items = [self.of(item) for item in value.items(tx)]
            return self._remember(tuple(items) if issubclass(value.cls, tuple) else items, value)
        if isinstance(value, DictVariable):
            pairs = value.pairs(tx)
            return self._remember({key.constant(): self.of(item) for key, item in pairs if key.is_constant()}, value)
        if isinstance(value, SymNodeVariable):
            return self._remember(value.example, value)
        if isinstance(value, ClassVariable):
            return self._remember(value.value, value)
        if value.is_constant():
            return value.constant()
        try:
            return self._remember(value.graph_arg(), value)
        except Exception:
            return self._remember(types.SimpleNamespace(), value)

    def _remember(self, stand_in: Any, value: VariableTracker) -> Any:
        self._originals.setdefault(id(stand_in), (stand_in, value))
        return stand_in

    def original(self, value: Any) -> VariableTracker:
        known = self._originals.get(id(value))
        if known is not None:
            return known[1]
        if type(value) is tuple:
            return TupleVariable([self.original(item) for item in value])
        if type(value) is list:
            return ListVariable([self.original(item) for item in value])
        if type(value) is dict:
            return self.tx.new_dict({key: self.original(item) for key, item in value.items()})
        if callable(value):
            return self.tx.wrap(value, ObjectSource(value, _name(value)))
        return self.tx.literal(value)

    def overriding(self, kinds: Any) -> tuple[list[VariableTracker], list[type]]:
        """The arguments whose classes are `kinds`; functions of torch's own and modes name plain tensors and parameters, too."""
        plain = [value for _, value in self._originals.values() if value.python_type() in _PLAIN]
        values = [self._overriding.get(cls) or plain[0] for cls in kinds]
        return values, [value.python_type() for value in values]

    def class_names(self) -> list[str]:
        return [value.python_type().__qualname__ for value in self._overriding.values()]


def _parts(tx: Tracer, values: list[VariableTracker]) -> Iterator[VariableTracker]:
    for value in values:
        yield value
        if isinstance(value, SequenceVariable):
            yield from _parts(tx, value.items(tx))
        elif isinstance(value, DictVariable):
            yield from _parts(tx, [*value.keys(), *value.values(tx)])


def _has_overrides(value: VariableTracker) -> bool:
    """Whether a value is an object of the program's own class that has a `__torch_function__`."""
    if not isinstance(value, UserObjectVariable):
        return False
    return lookup(value.cls, "__torch_function__")[1] is not MISSING


def _keywords(tx: Tracer, rest: list[VariableTracker]) -> dict[str, VariableTracker]:
    if not rest or rest[0].is_none():
        return {}
    assert isinstance(rest[0], DictVariable)
    return {key.constant(): value for key, value in rest[0].pairs(tx)}


def _is_not_implemented(value: VariableTracker) -> bool:
    return isinstance(value, ConstantVariable) and value.value is NotImplemented


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or repr(function)
