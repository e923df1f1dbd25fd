"""Calls of an nn.Module, and the hooks that torch runs around them."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any

import torch

from tracer.graph_breaks import unsupported
from tracer.guards.containers import EmptyDicts
from tracer.protocol.lookups import lookup
from tracer.protocol.tracer import Tracer
from tracer.protocol.variable import VariableTracker
from tracer.sources.reading import instance_dict, is_a
from tracer.sources.roots import ModuleGlobalsSource
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.tensors.tensor import TensorVariable

_MODULE_CALL = torch.nn.Module.__dict__["__call__"]
_MODULE_CALL_IMPL = torch.nn.Module.__dict__["_call_impl"]
MODULE_CALLS = (_MODULE_CALL.__code__, _MODULE_CALL_IMPL.__code__)
_MODULE_FILE = "torch.nn.modules.module"
_HOOK_TABLES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_GLOBAL_HOOK_TABLES = (
    "_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks", "_global_backward_pre_hooks",
)  # fmt: skip


def module_call(tx: Tracer, module: UserObjectVariable) -> VariableTracker | None:
    """A call of a module without hooks is a call of its `forward`: nn.Module.__call__ does nothing else then."""
    cls = module.cls
    if module.value is not None and "_tracer_stands_for" in cls.__dict__:
        return _call_stood_for(tx, module)
    if not issubclass(cls, torch.nn.Module) or lookup(cls, "__call__")[1] is not _MODULE_CALL:
        return None
    if lookup(cls, "_call_impl")[1] is not _MODULE_CALL_IMPL or module.value is None:
        return None
    if module.instance_attr(tx, "_call_impl") is not None:
        return None
    if any(_hooks_of_all(tx, table).truth(tx) for table in _GLOBAL_HOOK_TABLES):
        return None
    if not _is_without_hooks(tx, module):
        for table in _HOOK_TABLES:
            hooks = module.instance_attr(tx, table)
            if hooks is None or hooks.truth(tx):
                return None
    compiled = module.get_attr(tx, "_compiled_call_impl")
    if not compiled.is_none():
        if not hasattr(compiled.python_type(), "_tracer_stands_for"):
            return None
    return module.get_attr(tx, "forward")


def refuse_backward_hooks(tx: Tracer, module: VariableTracker, args: Iterable[VariableTracker]) -> None:
    """Refuses calls of modules with backward hooks: the autograd nodes on which torch sets them do not exist while tracing.
    CPython makes the call, and the module's `forward` is then a frame of its own."""
    real: Any = getattr(module, "value", None)
    if not isinstance(module, UserObjectVariable) or not is_a(real, torch.nn.Module) or not torch.is_grad_enabled():
        return
    is_without = _is_without_hooks(tx, module)
    own = [] if is_without else [module.instance_attr(tx, table) for table in _HOOK_TABLES if "backward" in table]
    of_all = [_hooks_of_all(tx, table) for table in _GLOBAL_HOOK_TABLES if "backward" in table]
    tables = [table for table in (*own, *of_all) if table is not None]
    if not any(table.truth(tx) for table in tables):
        return
    needs = any(isinstance(arg, TensorVariable) and arg.fake.requires_grad for arg in args)
    if needs or any(parameter.requires_grad for parameter in real.parameters()):
        read = {table.source for table in tables}
        about_hooks = tuple(guard for guard in tx.output.guards if not read.isdisjoint(guard.sources()))
        unsupported("unsupported-module", value=f"{module.describe()}, which has backward hooks,", relies_on=about_hooks)


def _is_without_hooks(tx: Tracer, module: UserObjectVariable) -> bool:
    """Whether a module of the program has no hooks, which is one guard. False also where the trace has met one of the tables,
    which it may have changed."""
    attributes = None if module.source is None else instance_dict(module.value)
    if attributes is None or not tx.effects.attributes(module).keys().isdisjoint(_HOOK_TABLES):
        return False
    assert module.source is not None
    guard = EmptyDicts.of(module.source, attributes, _HOOK_TABLES, collections.OrderedDict)
    if guard is None or tx.trace.met_elsewhere(guard, attributes):
        return False
    tx.trace.see_empty(guard, attributes)
    tx.guard(guard)
    return True


def _hooks_of_all(tx: Tracer, table: str) -> VariableTracker:
    """A table of hooks that torch runs for all modules."""
    return tx.wrap(getattr(torch.nn.modules.module, table), ModuleGlobalsSource(_MODULE_FILE, table))


def _call_stood_for(tx: Tracer, made: UserObjectVariable) -> VariableTracker:
    """The user's own function or module, given the object that a decorator of the tracer made from it."""
    first, *rest = made.value._tracer_stands_for()
    found = made.instance_attr(tx, first) or made.get_attr(tx, first)
    for name in rest:
        found = found.get_attr(tx, name)
    return found
