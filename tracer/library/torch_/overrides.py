"""Models of `torch.overrides`: `__torch_function__` of tensors, modes, and the switches that disable both."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode, get_default_nowrap_functions, is_tensor_like
from torch.utils._device import DeviceContext

from tracer.graph.fakes.override_probes import in_order_of_precedence
from tracer.graph_breaks import unsupported
from tracer.protocol.inlining import transparent
from tracer.protocol.lookups import defines, lookup
from tracer.protocol.models import instance_models, models
from tracer.protocol.variable import VariableTracker
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable, NamedTupleVariable, SequenceVariable, SizeVariable, TupleVariable
from tracer.variables.containers.sets import FrozenSetVariable
from tracer.variables.functions.callables import CallableVariable, bound_by_get
from tracer.variables.tensors.override_switches import OverrideSwitchVariable
from tracer.variables.tensors.overrides import as_subclass
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import FALSE, NONE, ConstantVariable, boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker
_NO_ARGUMENTS = TupleVariable([])


transparent(
    *[TorchFunctionMode.__dict__[name] for name in ("__init__", "__enter__", "__exit__", "__torch_function__")],
    BaseTorchFunctionMode.__dict__["__torch_function__"],
    torch.overrides._push_mode,
    torch.overrides._pop_mode,
    torch.overrides._get_current_function_mode,
    torch.overrides._get_current_function_mode_stack,
    torch.overrides._pop_mode_temporarily.__wrapped__,
)


@models(
    torch.overrides.has_torch_function,
    torch.overrides.has_torch_function_unary,
    torch.overrides.has_torch_function_variadic,
)
def _has_torch_function(tx: Tracer, *args: Value) -> Value:
    state = tx.trace.overrides
    values = [value for arg in args for value in (arg.items(tx) if isinstance(arg, SequenceVariable) else (arg,))]
    return boolean(state.asks_modes() or any(map(state.is_overriding, values)))


@models(torch.overrides.handle_torch_function)
def _handle_torch_function(tx: Tracer, function: Value, relevant: Value, *args: Value, **kwargs: Value) -> Value:
    overriding = [value for value in relevant.unpack(tx) if tx.trace.overrides.is_listed(value)]
    ordered = in_order_of_precedence(overriding, [value.python_type() for value in overriding])
    return tx.ask_overrides(function, ordered, [TupleVariable(args), tx.new_dict(kwargs)])


@models(is_tensor_like)
def _is_tensor_like(tx: Tracer, value: Value) -> Value:
    kind = value.python_type()
    return boolean(issubclass(kind, torch.Tensor) or hasattr(kind, "__torch_function__"))


@models(torch.overrides.get_default_nowrap_functions)
def _nowrap_functions(tx: Tracer) -> Value:
    return FrozenSetVariable({function: CallableVariable(function) for function in get_default_nowrap_functions()})


# -- torch.Tensor.__torch_function__ ---------------------------------------------------------------------------------------


@models(torch.Tensor.__torch_function__.__func__)
def _default(tx: Tracer, cls: Value, func: Value, types: Value, args: Value = _NO_ARGUMENTS, kwargs: Value = NONE) -> Value:
    """Runs the function with the overrides of its arguments disabled, and converts the results to the subclass."""
    if not isinstance(cls, ClassVariable):
        unsupported("call-arguments", error="__torch_function__ of no class")
    if not all(issubclass(cls.value, kind.identity()) for kind in types.unpack(tx)):
        return ConstantVariable(NotImplemented)
    named: dict[str, Value] = {}
    if kwargs is not NONE and kwargs.truth(tx):
        if not isinstance(kwargs, DictVariable):
            unsupported("call-arguments", error="__torch_function__ with keywords that are no dict")
        named = {key.constant(): value for key, value in kwargs.pairs(tx)}
    with tx.trace.overrides.without_arguments():
        result: Value = func.call(tx, args.unpack(tx), named)
        if func.identity() in get_default_nowrap_functions():
            return result
        return _converted(tx, result, cls.value)


def _converted(tx: Tracer, result: Value, cls: type) -> Value:
    if cls is torch.Tensor:
        return result
    if isinstance(result, TensorVariable) and not issubclass(result.python_type(), cls):
        return as_subclass(tx, result, cls)
    if isinstance(result, SequenceVariable) and not isinstance(result, SizeVariable):
        items = [_converted(tx, item, cls) for item in result.items(tx)]
        if isinstance(result, NamedTupleVariable):
            return NamedTupleVariable(items, result.cls)
        return ListVariable(items) if isinstance(result, ListVariable) else TupleVariable(items)
    return result


@instance_models(types.MethodWrapperType)
def _descriptor_method(tx: Tracer, callee: CallableVariable, *args: Value) -> Value:
    """`torch.Tensor.shape.__get__` and the like, which `__torch_function__` gets as the function when an attribute is read."""
    method = callee.value
    descriptor = method.__self__
    if method.__name__ == "__get__" and isinstance(descriptor, types.WrapperDescriptorType):  # of object.__setattr__, say
        return bound_by_get(tx, CallableVariable(descriptor), list(args), {})
    name = getattr(descriptor.fget if isinstance(descriptor, property) else descriptor, "__name__", "")
    if method.__name__ == "__get__" and len(args) in (1, 2) and _reads(descriptor, name, args[0]):
        return args[0].get_attr(tx, name)
    if not args or not isinstance(args[0], TensorVariable) or lookup(torch.Tensor, name)[1] is not descriptor:
        unsupported("unsupported-builtin", function=method.__qualname__)
    if method.__name__ == "__get__":
        return TensorVariable.get_attr(args[0], tx, name)
    if method.__name__ != "__set__":
        unsupported("unsupported-builtin", function=method.__qualname__)
    TensorVariable.set_attr(args[0], tx, name, args[1])
    return NONE


def _reads(descriptor: Any, name: str, value: Value) -> bool:
    """Whether an attribute of an object is what this descriptor, written in C, gives."""
    kind = value.python_type()
    if not isinstance(descriptor, (types.GetSetDescriptorType, types.MemberDescriptorType)) or isinstance(value, TensorVariable):
        return False
    is_first = lookup(kind, name)[1] is descriptor and lookup(kind, "__getattribute__")[0] in (object, type)
    return is_first and not defines(kind, "__getattr__")


@models(torch._C.TensorBase.__new__)
def _new(tx: Tracer, cls: Value, *args: Value) -> Value:
    return tx.new_tensor(cls.identity(), list(args))


@models(torch.Tensor._make_subclass)
def _make_subclass(tx: Tracer, cls: Value, data: Value, require_grad: Value = FALSE) -> Value:
    if not isinstance(data, TensorVariable) or not isinstance(cls, ClassVariable) or require_grad.truth(tx):
        unsupported("tensor-subclass", cls=cls.describe(), source="_make_subclass")
    with tx.trace.overrides.without_arguments():
        detached = data.call_method(tx, "detach", [], {})
    assert isinstance(detached, TensorVariable)
    return as_subclass(tx, detached, cls.value)


# -- switches ------------------------------------------------------------------------------------------------------------


@models(torch._C.DisableTorchFunctionSubclass)
def _disable_of_arguments(tx: Tracer) -> Value:
    return OverrideSwitchVariable(torch._C.DisableTorchFunctionSubclass, 1)


@models(torch._C.DisableTorchFunction)
def _disable_all(tx: Tracer) -> Value:
    return OverrideSwitchVariable(torch._C.DisableTorchFunction, 2)


@models(torch._C._is_torch_function_enabled)
def _is_enabled(tx: Tracer) -> Value:
    return boolean(tx.trace.overrides.disabled == 0)


@models(torch._C._is_torch_function_all_disabled)
def _is_all_disabled(tx: Tracer) -> Value:
    return boolean(tx.trace.overrides.disabled == 2)


# -- modes -----------------------------------------------------------------------------------------------------------------


def _modes_at_entry() -> int:
    number: int = torch._C._len_torch_function_stack()  # device contexts; what else is on at the entry is among `modes`
    return number


@models(torch._C._len_torch_function_stack)
def _stack_length(tx: Tracer) -> Value:
    return ConstantVariable(_modes_at_entry() + len(tx.trace.overrides.modes))


@models(torch._C._len_torch_dispatch_stack)
def _dispatch_stack_length(tx: Tracer) -> Value:
    return ConstantVariable(0)  # under a TorchDispatchMode no frame is traced, and none is entered in a trace


@models(torch._C._is_torch_function_mode_enabled)
def _is_mode_enabled(tx: Tracer) -> Value:
    state = tx.trace.overrides
    return boolean(state.disabled < 2 and bool(_modes_at_entry() + len(state.modes)))


@models(torch._C._push_on_torch_function_stack)
def _push(tx: Tracer, mode: Value) -> Value:
    tx.output.refuse_on_trial()
    tx.trace.overrides.modes.append(mode)
    return NONE


@models(torch._C._pop_torch_function_stack)
def _pop(tx: Tracer) -> Value:
    tx.output.refuse_on_trial()
    modes = tx.trace.overrides.modes
    if not modes:  # one that the trace did not push
        unsupported("with-block", value="a mode that was entered before")
    return modes.pop()


@models(torch._C._get_function_stack_at)
def _stack_at(tx: Tracer, index: Value) -> Value:
    place = index.constant() - _modes_at_entry()
    modes: list[Value] = tx.trace.overrides.modes
    if not 0 <= place < len(modes):
        unsupported("with-block", value="a mode that was entered before")
    result: Value = modes[place]
    return result


@models(torch.device.__enter__)
def _enter_device(tx: Tracer, device: Value) -> Value:
    _push(tx, tx.class_variable(DeviceContext).call(tx, [device], {}))
    return device


@models(torch.device.__exit__)
def _exit_device(tx: Tracer, device: Value, *exception: Value) -> Value:
    _pop(tx)
    return NONE
