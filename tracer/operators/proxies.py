"""How operations on symbolic numbers reach make_fx and AOTAutograd while they trace."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._C import _get_dispatch_mode, _TorchDispatchModeKey
from torch.fx.experimental.proxy_tensor import get_proxy_mode, handle_sym_dispatch

if TYPE_CHECKING:
    from tracer.graph.symbols.sym_node import SymNode

SYM_TYPES = (torch.SymInt, torch.SymFloat, torch.SymBool)
_PROXY = _TorchDispatchModeKey.PROXY
_PROXY_SLOT = 0
_pre_dispatch_modes = torch._ops._mode_stack_state_for_pre_dispatch
# The list that `get` reads. It is looked at directly, because that happens at every operation on a symbolic number.
_infra_modes = getattr(_pre_dispatch_modes, "_ModeStackStateForPreDispatch__infra_modes", None)


def proxies_active() -> bool:
    """Whether make_fx or AOTAutograd is recording operations on symbolic numbers."""
    return _get_dispatch_mode(_PROXY) is not None or (_infra_modes or _pre_dispatch_state())[_PROXY_SLOT] is not None


def _pre_dispatch_state() -> list[Any]:
    return [_pre_dispatch_modes.get(_PROXY_SLOT)]


def recorded(torch_operator: Callable[..., Any], *, guards: bool = False) -> Callable[[Callable[..., SymNode]], Any]:
    """An operation on nodes that make_fx and AOTAutograd see as `torch_operator` while they trace.

    Results are remembered on the node. The result of an operation that may record a guard is not while guards are suppressed: a
    later call would not record the guard.
    """

    def decorate(compute: Callable[..., SymNode]) -> Callable[..., SymNode]:
        name = compute.__name__

        @functools.wraps(compute)
        def operation(self: SymNode, *others: Any) -> SymNode:
            if not proxies_active():
                key = (name, *others)
                result = self.results.get(key)
                if result is None:
                    _need_one_trace(self, others)
                    if others and hasattr(others[0], "reflected"):
                        reflected: SymNode = others[0].reflected(name, self)  # the other is a ragged size
                        return reflected
                    result = self.shape_env.bounded(compute(self, *others))
                    if not guards or not self.shape_env.env.suppressed:
                        self.results[key] = result
                return result
            if get_proxy_mode() is None or all_constant((self, *others)):
                return compute(self, *others)
            args = tuple(wrap(arg) if hasattr(arg, "shape_env") else arg for arg in (self, *others))
            return self.node_of(handle_sym_dispatch(torch_operator, args, {}))

        return operation

    return decorate


def _need_one_trace(node: SymNode, others: tuple[Any, ...]) -> None:
    for other in others:
        if getattr(other, "shape_env", node.shape_env) is not node.shape_env:
            raise ValueError(f"the symbolic numbers {node} and {other} belong to different traces")


def all_constant(values: tuple[Any, ...]) -> bool:
    return all(getattr(value, "constant", value) is not None for value in values)


def wrap(node: SymNode) -> Any:
    """The number that users see."""
    constant = node.constant
    if constant is not None:
        return constant
    return (torch.SymInt if node.pytype is int else torch.SymBool if node.pytype is bool else torch.SymFloat)(node)
