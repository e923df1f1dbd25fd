"""Compiled `nn.Module`s: `OptimizedModule` wraps the original module, `compile_module` changes the original.

Both use a `CompiledCall`, which decides at each call which function is traced: the module's `forward` if nothing else would run
(then guards have the argument names of `forward`), or a function that makes the whole call, if hooks have to run too.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules import module as torch_module

from tracer._C import STEP, Dispatcher, Steady, SteadyCall
from tracer.api.module_proxy import HOOKS, ModuleProxy, has_hooks
from tracer.api.region_methods import own_method
from tracer.api.settings import STATE, Settings, dispatcher_in
from tracer.forwarding import NAMED_BY

if TYPE_CHECKING:
    from tracer.runtime.region_state import RegionState

_CALL_IMPL = torch.nn.Module._call_impl
_CALLED_AS_MODULES_ARE = (torch.nn.Module.__call__, ModuleProxy.__call__, SteadyCall.__call__)


def call_with_hooks(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    """The traced function for a module that has hooks. Modules inside it are called otherwise, so they never share its
    entries."""
    return module._call_impl(*args, **kwargs)


def call_overridden(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    """The traced function for a module whose class overrides `__call__`."""
    return type(module).__call__(module, *args, **kwargs)


def _named_by(module: torch.nn.Module) -> list[types.FunctionType]:
    """The functions whose parameter names users know the arguments of a call by: `forward`, then `__call__`, along the MRO."""
    cls = type(module)
    found = [vars(base).get(name) for name in ("forward", "__call__") for base in cls.__mro__]
    found = [each.function if type(each) is Dispatcher else each for each in found]
    return [each for each in found if type(each) is types.FunctionType and each.__code__ not in NAMED_BY]


for _frame in (call_with_hooks, call_overridden):
    NAMED_BY[_frame.__code__] = _named_by

_REPLACING = ("forward", "_call_impl")  # methods that an instance may override
_GLOBAL_HOOKS = torch_module._has_any_global_hook.__code__.co_names


def _plain_call(proxied: bool) -> Steady:
    """A C memo of everything that decides whether a CompiledCall may call its module's forward directly: the class, and what
    `call_runs_more_than_forward` reads. `proxied`: for an OptimizedModule, which may have hooks of its own."""
    steps: list[tuple[int, int, Any]] = [(STEP.ROOT, -1, 0)]
    steps += [(STEP.ATTR, len(steps) - 1, name) for name in (["_compiled"] if proxied else [])]
    steps += [(STEP.ATTR, len(steps) - 1, "module"), (STEP.CONST, -1, torch_module.__dict__)]
    module, namespace, cls = len(steps) - 2, len(steps) - 1, len(steps)
    steps += [(STEP.TYPE, module, None), (STEP.TYPE_LOOKUP, cls, "__call__"), (STEP.TYPE_LOOKUP, cls, "forward")]
    steps += [(STEP.NO_ATTR, module, name) for name in _REPLACING]
    steps += [(STEP.ITEM, namespace, torch_module._has_any_global_hook.__name__)]
    tables = [(STEP.ATTR, module, name) for name in HOOKS] + [(STEP.ITEM, namespace, name) for name in _GLOBAL_HOOKS]
    for table in [*tables, *[(STEP.ATTR, 0, name) for name in HOOKS if proxied]]:
        steps += [table, (STEP.WHOLE, len(steps), None)]
    return Steady(1, tuple(steps), (module,))


class CompiledCall(SteadyCall):
    """Calls one module, compiled. In C as long as the decision of the last call (`_frame_of`) is known to be unchanged. A copy or
    a pickle of the module that holds it has None instead."""

    def __init__(self, module: torch.nn.Module, settings: Settings, *, in_place: bool = False) -> None:
        self.module = module
        self.settings = settings
        self.in_place = in_place
        self._tracer_state: RegionState = settings.new_region(module, is_of_module=True)
        self._dispatchers: dict[types.FunctionType, Dispatcher] = {}
        self._steady = _plain_call(proxied=False)
        self.steady_of_proxy = _plain_call(proxied=True)

    def _tracer_decide(self, *args: Any, **kwargs: Any) -> Any:
        return self.call_through(self, self._steady, self._steady.look(self), args, kwargs)

    def call_through(
        self, caller: SteadyCall, steady: Steady, seen: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call for which the decision has to be made again; remembers it in `steady`. `seen`: the state that `steady` looked at
        before the decision."""
        module = self.module
        if hasattr(module, "_initialize_hook"):
            _initialise_lazy(module, args, kwargs)
            seen = None
        dispatcher = self.dispatcher()
        if dispatcher.function not in (call_with_hooks, call_overridden):
            steady.keep(seen, caller)
            caller._tracer_hold(steady, dispatcher)
        return dispatcher(module, *args, **kwargs)

    def dispatcher(self) -> Dispatcher:
        """The dispatcher for calls of the module in its present state. The module is its first argument."""
        module = self.module
        target = self._frame_of(module)
        dispatcher = self._dispatchers.get(target)
        if dispatcher is None:
            dispatcher = self._dispatchers[target] = dispatcher_in(self._tracer_state, target)
        return dispatcher

    def _frame_of(self, module: torch.nn.Module) -> Any:
        """The function that is traced; it takes the module and the arguments of the call."""
        cls = type(module)
        called_as_usual = cls.__call__ in _CALLED_AS_MODULES_ARE or isinstance(module, torch.fx.GraphModule)
        if not (called_as_usual or self.in_place):
            return call_overridden
        forward = next(vars(base)["forward"] for base in cls.__mro__ if "forward" in vars(base))  # perhaps a staticmethod
        forward = forward.function if type(forward) is Dispatcher else forward
        if type(forward) is not types.FunctionType or cls._call_impl is not _CALL_IMPL:
            return call_with_hooks
        return call_with_hooks if call_runs_more_than_forward(module) else forward

    def _tracer_stands_for(self) -> tuple[str, ...]:
        """The attribute path to what traced code calls instead of this object, so that the call is inlined."""
        return ("module", "_call_impl") if self.in_place else ("module",)

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def call_runs_more_than_forward(module: torch.nn.Module) -> bool:
    """Whether a call of the module runs more than the forward of its class: there are hooks, or the instance overrides
    forward."""
    replaced = any(name in module.__dict__ for name in _REPLACING)
    return has_hooks(module) or replaced or bool(torch_module._has_any_global_hook())


def _initialise_lazy(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Gives a lazy module its first arguments, which turns it into an ordinary module. That one is traced."""
    infer = getattr(module, "_infer_parameters", None)
    if callable(infer):
        infer(module, args, kwargs)


class OptimizedModule(ModuleProxy, SteadyCall):
    """A module that runs compiled. Its attributes, parameters and state_dict are those of the original, `_orig_mod`.

    Each has a region of its own. Copies and pickles hold the original and the settings, and trace again.
    """

    _OWN = ModuleProxy._OWN | {"_compiled", STATE}
    _compiled: CompiledCall

    def __init__(self, module: torch.nn.Module, settings: Settings) -> None:
        super().__init__(module)
        self._compiled = CompiledCall(module, settings)
        setattr(self, STATE, self._compiled._tracer_state)

    __call__ = SteadyCall.__call__

    def _tracer_decide(self, *args: Any, **kwargs: Any) -> Any:
        compiled = self._compiled
        seen = compiled.steady_of_proxy.look(self)
        if has_hooks(self):
            return self._call_impl(*args, **kwargs)
        return compiled.call_through(self, compiled.steady_of_proxy, seen, args, kwargs)

    def _tracer_stands_for(self) -> tuple[str, ...]:
        """The attribute path to the method that traced code calls instead of this object."""
        return ("_tracer_called",)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return own_method(self, name)

    def _rebuild_args(self) -> tuple[Any, ...]:
        return self._orig_mod, self._compiled.settings


def compile_module_with(module: torch.nn.Module, settings: Settings) -> torch.nn.Module:
    """From now on calling this module runs it compiled, wherever the call comes from; returns the module."""
    original = module._orig_mod if isinstance(module, ModuleProxy) else module
    original._compiled_call_impl = CompiledCall(original, settings, in_place=True)  # nn.Module.__call__ asks for it
    return original
