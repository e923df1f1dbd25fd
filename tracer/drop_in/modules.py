"""Compiled modules, as torch.compile gives them: of the class that others ask for, and with names that have torch's prefix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tracer.api.modules import OptimizedModule
from tracer.api.settings import Settings
from tracer.drop_in.torchs import eval_frame
from tracer.errors import UserError

_PART = frozenset(vars(torch.nn.Module())) - {"training"}  # what every module has of its own
_LABELS = frozenset(("_torchdynamo_orig_callable", "_torchdynamo_wrapper_id", "_is_torch_compile", "dynamo_ctx", "aot_compile"))


class CompiledModule(OptimizedModule, eval_frame.OptimizedModule):
    """Ours, and of torch's class, by which programs tell that a module was compiled."""

    _OWN = OptimizedModule._OWN | _LABELS
    _super_module_initialized = True  # so that torch's class passes `training` on to the original

    def _tracer_stands_for(self) -> tuple[str, ...]:
        """The attribute path to the method that traced code calls instead of this object."""
        return super()._tracer_stands_for()


class PrefixedModule(CompiledModule):
    """Has the original as its child `_orig_mod`: the names of parameters, buffers and modules begin with it, as in the
    checkpoints that torch.compile leaves."""

    _OWN = CompiledModule._OWN | _PART | {"__class__"}  # FSDP derives the class of a module that it shards

    def __init__(self, module: torch.nn.Module, settings: Settings) -> None:
        super().__init__(module, settings)
        own = vars(torch.nn.Module())
        self.__dict__.update({name: own[name] for name in _PART if name not in self.__dict__})
        self._modules["_orig_mod"] = module

    def _tracer_stands_for(self) -> tuple[str, ...]:
        """The attribute path to the method that traced code calls instead of this object."""
        return super()._tracer_stands_for()


_NAMED = (  # methods that name the parts of a module, or find them by name
    *("state_dict", "load_state_dict", "_save_to_state_dict", "_load_from_state_dict", "_named_members"),
    *("parameters", "named_parameters", "buffers", "named_buffers", "children", "named_children", "modules", "named_modules"),
    *("get_submodule", "get_parameter", "get_buffer", "get_extra_state", "set_extra_state"),
)
for _name in _NAMED:
    setattr(PrefixedModule, _name, getattr(torch.nn.Module, _name))


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(self: CompiledModule, *args: Any, **kwargs: Any) -> Any:
        raise UserError(
            f"{name} of a compiled module cannot be honoured while the tracer is installed",
            hint="compile its forward ahead: torch.compile(module.forward, fullgraph=True).aot_compile((args, kwargs)).",
        )

    return refuse


for _name in ("_aot_compile", "_save_aot_compiled_module", "_load_aot_compiled_module"):  # these need torch's own tracer
    if hasattr(eval_frame.OptimizedModule, _name):
        setattr(CompiledModule, _name, _refusing(_name))


def label(compiled: Any, original: Callable[..., Any]) -> None:
    """Gives a compiled object the attributes by which programs, and torch's decorators, tell what torch.compile returned."""
    for name, value in (
        ("_torchdynamo_orig_callable", original),
        ("_torchdynamo_wrapper_id", id(compiled)),
        ("_is_torch_compile", True),
    ):
        object.__setattr__(compiled, name, value)
