"""Operators in files: by name, and those of the program with a fingerprint of the Python code that a trace has run for them.

A trace and a compiler run an operator's fake implementation, its formula for gradients and its rules for vmap and autocast. Its
kernels run when the graph does, and may change.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch._library.custom_ops import OPDEFS, CustomOpDef
from torch._library.simple_registry import singleton

from tracer.guards.constants import is_guardable_constant
from tracer.saving.fingerprints import Differs, Refused, fingerprint_of

_OF_TORCH = ("aten", "prims", "prim", "quantized")  # namespaces of operators that torch itself defines
_RUN_BY_TRACES = ("CompositeImplicitAutograd", "Autograd", "AutogradCPU", "AutogradCUDA")  # keys of kernels


class OperatorName(NamedTuple):
    """How an operator is found again: `quantized::linear.out`, the module that defines it, and the fingerprint of its code. Both
    are empty for operators of torch."""

    name: str
    overload: str
    module: str
    fingerprint: str


def name_of(operator: torch._ops.OpOverload) -> OperatorName:
    """What a file says of an operator. Raises Refused for one of the program whose code cannot be seen."""
    name = operator._schema.name
    if operator.namespace in _OF_TORCH:
        return OperatorName(name, operator._overloadname, "", "")
    functions = _functions_of(operator)
    return OperatorName(name, operator._overloadname, functions[0].__module__, _fingerprint(operator, functions))


def operator_at(at: OperatorName) -> torch._ops.OpOverload:
    """The operator in this process. Raises Differs if there is none, or its code is another."""
    namespace, _, name = at.name.partition("::")
    try:
        if at.module:
            importlib.import_module(at.module)
        found: torch._ops.OpOverload = getattr(getattr(getattr(torch.ops, namespace), name), at.overload)
    except (AttributeError, ImportError):
        raise Differs(f"there is no operator {at.name}.{at.overload}") from None
    if at.fingerprint and name_of(found) != at:
        raise Differs(f"what is registered for the operator {at.name} has other code")
    return found


def place_of(obj: Any) -> tuple[Any, tuple[Any, ...]] | None:
    """The call that finds `torch.ops`, what lies in it, or an operator as `custom_op` defines it; None for anything else.
    Raises Refused as `name_of` does."""
    match obj:
        case torch._ops._Ops():
            return getattr, (torch, "ops")
        case torch._ops._OpNamespace():
            return getattr, (torch.ops, obj.name)
        case torch._ops.OpOverloadPacket():
            return _packet_of, tuple([name_of(getattr(obj, overload)) for overload in obj.overloads()])
        case CustomOpDef():
            return _defined_by, (name_of(obj._opoverload),)
    return None


def _packet_of(*overloads: OperatorName) -> torch._ops.OpOverloadPacket:
    return [operator_at(each).overloadpacket for each in overloads][0]


def _defined_by(operator: OperatorName) -> CustomOpDef:
    operator_at(operator)
    return OPDEFS[operator.name]


def _functions_of(operator: torch._ops.OpOverload) -> list[types.FunctionType]:
    """The Python functions that a trace runs for an operator of the program."""
    name = operator._schema.name
    defined = OPDEFS.get(name)
    if defined is not None:
        rules = [defined._abstract_fn, defined._setup_context_fn, defined._backward_fn, defined._vmap_fn]
        found: list[Any] = [*rules, *defined._torch_dispatch_fns.values()]
        found = [each for each in found if each is not None] or [defined._init_fn]  # without results it needs no fake
    else:
        entry = singleton.get(operator.name())
        fake = None if entry is None else entry.fake_impl.kernel
        hidden = [key for key in _RUN_BY_TRACES if torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), key)]
        if fake is None or hidden:
            what = ", ".join(hidden) or "its fake implementation"
            raise Refused(
                f"of the operator {name} a trace runs code that cannot be seen ({what}). "
                "Try: define it by torch.library.custom_op, with register_fake and register_autograd."
            )
        found = [fake.func]
    for each in found:
        if type(each) is not types.FunctionType:
            raise Refused(f"{each!r}, which is registered for the operator {name}, is no Python function")
    return found


def _fingerprint(operator: torch._ops.OpOverload, functions: list[types.FunctionType]) -> str:
    defined, seen = OPDEFS.get(operator._schema.name), set[int]()
    autocast = {} if defined is None else defined._autocast_dtype
    return repr([str(operator._schema), autocast, *(part for function in functions for part in _parts(function, seen))])


def _parts(function: types.FunctionType, seen: set[int]) -> Iterator[str]:
    """Fingerprints of a function and of the functions and constants that it names, those of torch left out."""
    if id(function) in seen or function.__module__.partition(".")[0] == "torch":
        return
    seen.add(id(function))
    yield fingerprint_of(function)
    for value in (*_named(function.__code__, function.__globals__), *_held(function)):
        if type(value) is types.FunctionType:
            yield from _parts(value, seen)
        elif is_guardable_constant(value):
            yield fingerprint_of(value)


def _named(code: types.CodeType, namespace: dict[str, Any]) -> Iterator[Any]:
    yield from (namespace[name] for name in code.co_names if name in namespace)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _named(const, namespace)


def _held(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # it is empty yet
            continue
