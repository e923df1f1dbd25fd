"""`disable` and `run`: code that is never traced, and code that uses entries but makes none.

Each is a decorator, bare or called, and a context manager for the running thread.
"""

from __future__ import annotations

import functools
import inspect
import types
from typing import Any

import torch

from tracer import _C
from tracer.api.callables import original_of
from tracer.api.module_proxy import ModuleProxy
from tracer.api.scopes import Scope
from tracer.runtime.stances import RUN_ONLY
from tracer.user_marks import Disabled, disabled, run_only


class DisabledScope(Scope):
    """No frame that is entered inside is traced; functions that are themselves decorated still are."""

    def __init__(self, reason: str | None = None) -> None:
        self.reason = reason

    def switch(self) -> Any:
        return _C.swap_active(None)

    def restore(self, before: Any) -> None:
        _C.swap_active(before)

    def __call__(self, fn: Any) -> Any:
        return _disable(fn, self)


class RunOnlyScope(Scope):
    """Entries that match are used; where none does, the frame runs in CPython."""

    def switch(self) -> Any:
        return _C.set_stance_c(RUN_ONLY)

    def restore(self, before: Any) -> None:
        _C.set_stance_c(before)

    def __call__(self, fn: Any) -> Any:
        if isinstance(fn, torch.nn.Module):
            return ScopedModule(fn, self)
        wrapper = self.wrap(fn)
        run_only.set(wrapper)
        return wrapper


class ScopedModule(ModuleProxy):
    """A module that runs inside a scope; everything else is the original's."""

    _OWN = ModuleProxy._OWN | {"_scope"}
    _scope: Scope

    def __init__(self, module: torch.nn.Module, scope: Scope) -> None:
        super().__init__(module)
        self._scope = scope

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        before = self._scope.switch()
        try:
            return self._orig_mod(*args, **kwargs)
        finally:
            self._scope.restore(before)

    def _rebuild_args(self) -> tuple[Any, ...]:
        return self._orig_mod, self._scope


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Never traces `fn` (a function, method, module or class) nor what it calls; traced code breaks its graph there.

    `recursive=False`: not `fn` itself, but what it calls. Without `fn`: a decorator, and a context manager.
    `reason` is shown where the graph breaks. A function that was compiled becomes the plain one again.
    Raises TypeError for what cannot be called.

    ```python
    @tracer.disable(reason="it talks to a server")
    def fetch(x):
        return x + 1

    with tracer.disable():
        fetch(torch.ones(2))
    ```
    """
    if fn is None:
        return DisabledScope(reason) if recursive else functools.partial(disable, recursive=False, reason=reason)
    return _disable(fn, DisabledScope(reason)) if recursive else _disable_itself(fn, reason)


def run(fn: Any = None) -> Any:
    """Calls `fn` so that entries are used where they match and nothing is traced; without `fn` a context manager.

    ```python
    compiled = tracer.compile(lambda x: x + 1)
    with tracer.run():
        compiled(torch.ones(2))  # no entry yet: runs in CPython
    assert not tracer.region_of(compiled).entries()
    ```
    """
    return RunOnlyScope() if fn is None else RunOnlyScope()(fn)


def _disable(fn: Any, scope: DisabledScope) -> Any:
    fn = original_of(fn)
    if isinstance(fn, torch.nn.Module):
        module = ScopedModule(fn, scope)
        disabled.set(module, Disabled(True, scope.reason))
        return module
    if isinstance(fn, type):
        return _disable_class(fn, scope)
    if isinstance(fn, types.MethodType):
        return types.MethodType(_disable(fn.__func__, scope), fn.__self__)
    if isinstance(fn, (classmethod, staticmethod)):
        return type(fn)(_disable(fn.__func__, scope))
    if not callable(fn):
        raise TypeError(f"tracer.disable expects something that can be called, not {fn!r}")
    wrapper = scope.wrap(fn)
    disabled.set(wrapper, Disabled(True, scope.reason))
    return wrapper


def _disable_class(cls: type, scope: DisabledScope) -> type:
    """Disables the methods that make and call instances; changes the class in place."""
    names = ["__init__", "__call__"] + (["_call_impl"] if issubclass(cls, torch.nn.Module) else [])
    for name in names:
        method = getattr(cls, name, None)
        if inspect.isfunction(method):
            setattr(cls, name, _disable(method, scope))
    return cls


def _disable_itself(fn: Any, reason: str | None) -> Any:
    fn = original_of(fn)
    function = fn.__func__ if isinstance(fn, types.MethodType) else fn
    if not isinstance(function, types.FunctionType):
        raise TypeError(f"tracer.disable(recursive=False) expects a Python function, not {fn!r}")
    _C.never_trace(function.__code__)
    disabled.set(function, Disabled(False, reason))
    return fn
