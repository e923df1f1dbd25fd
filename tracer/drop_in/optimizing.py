"""`torch._dynamo.optimize`, by which torch.compile and nn.Module.compile do their work, while the tracer is installed."""

from __future__ import annotations

import dataclasses
import functools
import os
import types
from collections.abc import Callable
from typing import Any

import torch

from tracer._C import Dispatcher
from tracer.api.callables import CompiledCallable, compiled, original_of
from tracer.api.entry import Identity, Optimizer
from tracer.api.modules import CompiledCall
from tracer.api.settings import Settings
from tracer.backends.calling import Backend
from tracer.drop_in.ahead import compile_ahead
from tracer.drop_in.backends import choice_of
from tracer.drop_in.compiled_again import settings_of_again
from tracer.drop_in.guard_filters import filter_of
from tracer.drop_in.modules import CompiledModule, PrefixedModule, label
from tracer.drop_in.shape_specs import shape_spec_of, shapes_spec_of
from tracer.drop_in.torchs import config, eval_frame
from tracer.errors import UserError

_HOOKS = ("guard_export_fn", "guard_fail_fn", "guard_filter_fn")
_SHAPES = ("shapes_spec", "dynamic_shapes")  # the names of one argument in torch 2.13 and 2.14
_TAKEN = frozenset((*_HOOKS, *_SHAPES, "recompile_limit", "dynamic"))
# isolate_recompiles: entries are shared by a function that is compiled again, and it asks for none of these; nothing else shares
# them. rebuild_ctx: for compiled autograd.
_HOLDS_ANYWAY = frozenset(("isolate_recompiles", "rebuild_ctx", "export_constraints"))
_SAYS_NOTHING = (None, False)


class Compiling(Optimizer):
    """What `torch._dynamo.optimize(...)` returns: a decorator, which torch.compile applies to what it was given."""

    def __init__(
        self, settings: Settings, module_class: type[CompiledModule], shapes_spec: Any = None, shared_in: object = None
    ) -> None:
        super().__init__(settings)
        self._shared_in = shared_in  # the install in which a function that is compiled again shares entries; None: it does not
        self._module_class = module_class
        self._shapes_spec = shapes_spec  # torch's; which parameters it means, only the target tells

    def __call__(self, target: Any) -> Any:
        target = _undecorated(target)
        settings = self._settings_for(target)
        if isinstance(target, torch.nn.Module):
            result: Any = self._module_class(target, settings)
            label(result, target.forward)
            object.__setattr__(result, "dynamo_ctx", self)  # Lightning decorates the forward with it
            self._offer_ahead(result, target, settings)
            return result
        if _is_call_of_module(target):  # `module.compile()` keeps what this returns in `module._compiled_call_impl`
            return CompiledCall(target.__self__, settings, in_place=True)
        result = compiled(target, settings_of_again(target, settings, self._shared_in))
        own = getattr(result, "__func__", result)  # attributes of a bound method are those of its function
        if isinstance(own, (Dispatcher, CompiledCallable)):
            label(own, target)
            self._offer_ahead(own, target, settings)
        return result

    def _settings_for(self, target: Any) -> Settings:
        """With a shapes_spec: what it does not name is a constant of each entry, as in torch."""
        if self._shapes_spec is None:
            return self.settings
        module = target.__self__ if _is_call_of_module(target) else target
        return dataclasses.replace(self.settings, shapes=shape_spec_of(self._shapes_spec, module), dynamic=False)

    def _offer_ahead(self, compiled: Any, target: Any, settings: Settings) -> None:
        """Gives a compiled object `aot_compile`, which torch's objects have while this setting is on."""
        if config.enable_aot_compile:
            object.__setattr__(compiled, "aot_compile", functools.partial(compile_ahead, target, settings))


def _is_call_of_module(target: Any) -> bool:
    return (
        isinstance(target, types.MethodType)
        and isinstance(target.__self__, torch.nn.Module)
        and target.__func__ is torch.nn.Module._call_impl
    )


def _undecorated(target: Any) -> Any:
    """What was decorated, where torch's decorators or ours have been at work; `target` itself otherwise."""
    if isinstance(target, eval_frame.OptimizedModule):
        return target._orig_mod
    return eval_frame.innermost_fn(original_of(target))


class Entrances:
    """The functions behind `torch._dynamo.optimize` and `optimize_assert`, with the settings of one install."""

    def __init__(self, settings: dict[str, Any], prefix: bool) -> None:
        self._settings = settings
        self._module_class = PrefixedModule if prefix else CompiledModule

    def optimize(
        self, rebuild_ctx: Any, backend: Any = "inductor", *, nopython: bool = False, disable: bool = False, **said: Any
    ) -> Compiling | Identity:
        """As `torch._dynamo.optimize`. Raises UserError for an argument that cannot be honoured, and InvalidBackend."""
        if disable or config.disable or os.environ.get("TORCHDYNAMO_DISABLE") == "1":
            return Identity()
        return self._compiling(backend, nopython, said)

    def optimize_assert(self, rebuild_ctx: Any, backend: Any, *, hooks: Any = None, **said: Any) -> Compiling:
        """As `torch._dynamo.optimize_assert`: `optimize` with `nopython=True`."""
        hooks_said = {} if hooks is None else {name: getattr(hooks, name) for name in _HOOKS}
        return self._compiling(backend, True, {**said, **hooks_said})

    def _compiling(self, backend: Any, fullgraph: bool, said: dict[str, Any]) -> Compiling:
        choice = choice_of(backend)
        _refuse_what_is_not_honoured(choice.backend, said)
        eval_frame.cached_backends.setdefault(id(choice.backend), choice.backend)  # torch._dynamo.reset resets them
        given = {name: said[name] for name in ("recompile_limit", "dynamic") if said.get(name) is not None}
        hooks = {name: said[name] for name in _HOOKS if said.get(name) is not None}
        if "guard_filter_fn" in hooks:
            hooks["guard_filter_fn"] = filter_of(hooks["guard_filter_fn"])
        hooks = {**self._settings["hooks"], **hooks}
        settings = Settings(**{**self._settings, **given, **choice._asdict(), "hooks": hooks}, fullgraph=fullgraph)
        shared_in = None if said.get("isolate_recompiles") else self
        return Compiling(settings, self._module_class, _shapes_spec_in(said), shared_in)


def _shapes_spec_in(said: dict[str, Any]) -> Any:
    """Torch's ShapesSpec among the arguments. Raises ValueError and TypeError where torch does."""
    name = next((name for name in _SHAPES if said.get(name) is not None), None)
    if name is None:
        return None
    if said.get("dynamic") is not None:
        raise ValueError(f"`dynamic` and `{name}` cannot both be set: the sizes that {name} names are dynamic")
    return shapes_spec_of(said[name])


def _refuse_what_is_not_honoured(backend: str | Callable[..., Any] | Backend, said: dict[str, Any]) -> None:
    for name, value in said.items():
        if name not in _TAKEN | _HOLDS_ANYWAY and not any(value is nothing for nothing in _SAYS_NOTHING):
            raise UserError(
                f"{name}={value!r} of torch.compile cannot be honoured while the tracer is installed",
                hint=f"leave {name} out, or call tracer.uninstall() first. docs/drop_in.md lists what is supported.",
            )
    if hasattr(backend, "backend_ctx_ctor"):
        raise UserError(
            f"backend {backend!r} has a backend_ctx_ctor, which cannot be honoured while the tracer is installed",
            hint="enter that context around the calls.",
        )
