"""`ModuleProxy`: a module that stands for another one. Everything but being called is the original's.

Attributes are read, set and deleted on the original; every method of `nn.Module` (state_dict, parameters, train, to,
...) runs on the original, so names carry no prefix and overrides are honoured; where one returns the original, the
proxy is returned. The proxy holds only the original, its own call hooks, and what a subclass adds to `_OWN`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import torch

_CALL_HOOKS = frozenset(name for name in vars(torch.nn.Module()) if "forward_" in name or "backward_" in name)
_RUN_ON_THE_PROXY = frozenset(
    ["forward", "compile", "_call_impl", "_slow_forward", "_wrapped_call_impl", "_get_backward_hooks"]
    + [
        "_get_backward_pre_hooks",
        "_maybe_warn_non_full_backward_hook",
        "register_backward_hook",
        "register_forward_hook",
    ]
    + ["register_forward_pre_hook", "register_full_backward_hook", "register_full_backward_pre_hook"]
)


HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def has_hooks(module: torch.nn.Module) -> bool:
    """Whether hooks of the module's own run around its forward."""
    return any(module.__dict__[name] for name in HOOKS)


class ModuleProxy(torch.nn.Module):
    """Base of the modules that `optimize` and `disable` return."""

    _OWN: ClassVar[frozenset[str]] = _CALL_HOOKS | {"_orig_mod", "_compiled_call_impl"}
    _orig_mod: torch.nn.Module

    def __init__(self, module: torch.nn.Module) -> None:
        own = vars(torch.nn.Module())
        self.__dict__.update({name: own[name] for name in _CALL_HOOKS}, _orig_mod=module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Hooks that were registered on the proxy run around `forward`; the original's, and global ones, inside it."""
        return self._call_impl(*args, **kwargs) if has_hooks(self) else self.forward(*args, **kwargs)

    _tracer_called = __call__  # where a subclass is called otherwise

    # -- attributes ----------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":  # only before __init__ ran, as while unpickling
            raise AttributeError(name)
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self._OWN:
            object.__delattr__(self, name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self._orig_mod)})

    def __repr__(self) -> str:
        inner = repr(self._orig_mod).replace("\n", "\n  ")
        return f"{type(self).__name__}(\n  (_orig_mod): {inner}\n)"

    # -- copies --------------------------------------------------------------------------------------------------

    def _rebuild_args(self) -> tuple[Any, ...]:
        """What `type(self)` is called with to make a copy."""
        return (self._orig_mod,)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        hooks = {name: self.__dict__[name] for name in sorted(_CALL_HOOKS)}
        return type(self), self._rebuild_args(), hooks

    def __reduce__(self) -> tuple[Any, ...]:
        return self.__reduce_ex__(2)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    # -- containers ----------------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(self._orig_mod)

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._orig_mod)

    def __contains__(self, item: object) -> bool:
        return item in self._orig_mod

    def __getitem__(self, key: Any) -> Any:
        return self._orig_mod[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._orig_mod[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._orig_mod[key]


def _on_the_original(name: str) -> Callable[..., Any]:
    """The method `name`, run on the original; a result that is the original becomes the proxy."""

    def method(self: ModuleProxy, *args: Any, **kwargs: Any) -> Any:
        original = self._orig_mod
        result = getattr(original, name)(*args, **kwargs)
        return self if result is original else result

    method.__name__ = name
    method.__qualname__ = f"ModuleProxy.{name}"
    method.__doc__ = getattr(torch.nn.Module, name).__doc__
    return method


def _the_originals(name: str) -> property:
    """A class attribute of `nn.Module` that instances may override (`dump_patches`, `call_super_init`, ...)."""

    def read(self: ModuleProxy) -> Any:
        return getattr(self._orig_mod, name)

    def write(self: ModuleProxy, value: Any) -> None:
        setattr(self._orig_mod, name, value)

    return property(read, write)


def _forward_all() -> None:
    for name, member in vars(torch.nn.Module).items():
        if name.startswith("__") or name in _RUN_ON_THE_PROXY or name in vars(ModuleProxy):
            continue
        if name not in ModuleProxy._OWN:
            setattr(ModuleProxy, name, _on_the_original(name) if callable(member) else _the_originals(name))


_forward_all()
