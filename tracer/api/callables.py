"""Compiled functions, methods, callable objects and classes: what `optimize` returns for each kind of object."""

from __future__ import annotations

import copyreg
import functools
import inspect
import types
import warnings
from collections.abc import Callable
from typing import Any

import torch

from tracer._C import Dispatcher
from tracer.api.module_proxy import ModuleProxy
from tracer.api.modules import OptimizedModule, compile_module_with
from tracer.api.region_methods import METHODS, method_of, own_method
from tracer.api.settings import STATE, Settings, dispatcher_in, display_name
from tracer.exc import UserError
from tracer.locations import levels_to_the_user
from tracer.user_marks import disabled


def compiled(target: Any, settings: Settings) -> Any:
    """What `optimize(...)(target)` returns. Raises UserError for what cannot be called or decorated."""
    target = original_of(target)
    if target in disabled:
        return target if disabled.get(target).recursive else _compile_opaque(target, settings)
    if isinstance(target, torch.nn.Module):
        return OptimizedModule(target, settings)
    if isinstance(target, type):
        return _compile_class(target, settings)
    if isinstance(target, types.FunctionType):
        return _compile_function(target, settings)
    if isinstance(target, types.MethodType):
        return types.MethodType(compiled(target.__func__, settings), target.__self__)
    if isinstance(target, (classmethod, staticmethod)):
        return type(target)(compiled(target.__func__, settings))
    if isinstance(target, functools.partial):
        return _rebind(target, compiled(target.func, settings))
    if isinstance(target, property):
        raise UserError("a property was decorated", hint="put the decorator under @property, on the getter function.")
    if not callable(target):
        raise UserError(f"{target!r} cannot be called, so it cannot be compiled")
    if isinstance(original_of(type(target).__call__), types.FunctionType):
        return CompiledCallable(target, settings)
    return _compile_opaque(target, settings)


def original_of(target: Any) -> Any:
    """The object that the user decorated, if `target` is the result of a decoration; otherwise `target`."""
    if isinstance(target, Dispatcher):
        return getattr(target, "_tracer_opaque", target.function)
    if isinstance(target, (OptimizedModule, CompiledCallable)):
        return target._orig_mod if isinstance(target, OptimizedModule) else target.__wrapped__
    if isinstance(target, types.MethodType) and isinstance(target.__func__, Dispatcher):
        return types.MethodType(target.__func__.function, target.__self__)
    return target


# -- functions -------------------------------------------------------------------------------------------------


def _compile_function(fn: types.FunctionType, settings: Settings) -> Any:
    if inspect.isgeneratorfunction(fn) or inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        return _refuse_resumable(fn, settings)
    return _dispatcher(fn, settings, fn)


def _dispatcher(fn: Any, settings: Settings, shown_as: Any) -> Dispatcher:
    state = settings.new_region(shown_as)
    dispatcher = dispatcher_in(state, fn)
    functools.update_wrapper(dispatcher, shown_as)
    setattr(dispatcher, STATE, state)
    for name in METHODS:
        if not hasattr(dispatcher, name):
            setattr(dispatcher, name, method_of(state, dispatcher, name))
    return dispatcher


def _refuse_resumable(fn: types.FunctionType, settings: Settings) -> types.FunctionType:
    kind = "an async function" if inspect.iscoroutinefunction(fn) else "a generator function"
    message = (
        f"{fn.__qualname__} is {kind}: its frame is entered anew at each resumption, and compiling it does nothing."
        " Decorate the functions that it calls."
    )
    if settings.fullgraph:
        raise UserError(message)
    warnings.warn(message, stacklevel=levels_to_the_user())
    return fn


def _compile_opaque(target: Any, settings: Settings) -> Dispatcher:
    """For a callable without Python code: compiles a small function that calls it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    call.__qualname__ = display_name(target)
    dispatcher = _dispatcher(call, settings, call)
    functools.update_wrapper(dispatcher, target)
    dispatcher._tracer_opaque = target
    return dispatcher


def _rebind(partial: functools.partial[Any], function: Any) -> functools.partial[Any]:
    copy = type(partial)(function, *partial.args, **partial.keywords)
    copy.__dict__.update(partial.__dict__)
    return copy


def _pickled_as_functions_are(dispatcher: Dispatcher) -> str:
    """Pickles a dispatcher as functions are pickled, by its name. A copy is the same object."""
    text: str = dispatcher.__qualname__
    return text


copyreg.pickle(Dispatcher, _pickled_as_functions_are)


# -- objects and classes ---------------------------------------------------------------------------------------


class CompiledCallable:
    """An object whose `__call__` runs compiled; every other attribute is the original's, which is `__wrapped__`."""

    def __init__(self, target: Callable[..., Any], settings: Settings) -> None:
        call = original_of(type(target).__call__)
        state = settings.new_region(target)
        object.__setattr__(self, "__wrapped__", target)
        object.__setattr__(self, "_tracer_settings", settings)
        object.__setattr__(self, STATE, state)
        object.__setattr__(self, "_tracer_call", dispatcher_in(state, call))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._tracer_call(self.__wrapped__, *args, **kwargs)

    def _tracer_stands_for(self) -> tuple[str, ...]:
        """The attribute path to the object that traced code calls instead of this one."""
        return ("__wrapped__",)

    def __getattr__(self, name: str) -> Any:
        if name in ("__wrapped__", "_tracer_call"):  # only before __init__ ran, as while unpickling
            raise AttributeError(name)
        try:
            return getattr(self.__wrapped__, name)
        except AttributeError:
            return own_method(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__wrapped__, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__wrapped__, name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self.__wrapped__)})

    def __repr__(self) -> str:
        return f"<compiled {self.__wrapped__!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledCallable, (self.__wrapped__, self._tracer_settings)


def _compile_class(cls: type, settings: Settings) -> type:
    """Calls of the class's instances run compiled, each module's in its own region; changes the class in place."""
    if issubclass(cls, torch.nn.Module):
        return _compile_module_class(cls, settings)
    call = original_of(next((vars(base)["__call__"] for base in cls.__mro__ if "__call__" in vars(base)), None))
    if not isinstance(call, types.FunctionType):
        raise UserError(
            f"class {cls.__qualname__} was decorated, but its instances have no __call__ to compile",
            hint="decorate its methods, or a function that uses it.",
        )
    setattr(cls, "__call__", compiled(call, settings))  # noqa: B010  (mypy knows no assignment to a method)
    return cls


def _compile_module_class(cls: type[torch.nn.Module], settings: Settings) -> type[torch.nn.Module]:
    if issubclass(cls, ModuleProxy):
        raise UserError(f"class {cls.__qualname__} is the tracer's own wrapper of modules; decorate a module, not this class")
    plain_call = cls.__call__

    @functools.wraps(plain_call)
    def call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if self._compiled_call_impl is None:
            compile_module_with(self, settings)
        return plain_call(self, *args, **kwargs)

    cls.__call__ = call
    return cls
