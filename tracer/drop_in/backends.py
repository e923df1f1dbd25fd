"""What `backend=`, `mode=` and `options=` of torch.compile mean here."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from tracer.backends import registry as ours
from tracer.drop_in.torchs import registry as theirs
from tracer.locations import levels_to_the_user

_SAME = ("eager", "aot_eager")  # backends of torch's that are ours under the same name; they know no modes or options
_lookup, _list = theirs.lookup_backend, theirs.list_backends


class Choice(NamedTuple):
    """A backend, as the parameters of `tracer.compile` name it."""

    backend: str | Callable[..., Any]
    mode: str | None = None
    options: dict[str, Any] | None = None
    name: str | None = None


def choice_of(backend: Any) -> Choice:
    """Our backend for what `torch._dynamo.optimize` is given. Torch.compile hands over objects that hold the mode and options,
    which it has checked. Raises InvalidBackend for a name that neither torch nor we know."""
    if type(backend) is torch._TorchCompileInductorWrapper:
        return Choice("inductor", options=dict(backend.config) or None, name=backend.name)
    if type(backend) is torch._TorchCompileWrapper:
        return _with_keywords(_name_here(backend.compiler_fn), backend.kwargs)
    if backend == "inductor":
        return Choice("inductor")
    return Choice(_name_here(lookup_backend(backend) if isinstance(backend, str) else backend))


def _with_keywords(compiler: str | Callable[..., Any], keywords: dict[str, Any]) -> Choice:
    if keywords and compiler in _SAME:
        named = " and ".join(f"{name}={value!r}" for name, value in keywords.items())
        message = f"backend {compiler!r} has neither modes nor options: {named} has no effect"
        warnings.warn(message, stacklevel=levels_to_the_user())
        return Choice(compiler)
    return Choice(compiler, keywords.get("mode"), keywords.get("options"))


def _name_here(compiler: Any) -> str | Callable[..., Any]:
    """The name of our backend that is torch's `compiler`, or the compiler itself."""
    found: str | Callable[..., Any] = next((name for name in _SAME if compiler is _lookup(name)), compiler)
    return found


def lookup_backend(compiler_fn: Any) -> Any:
    """As torch's; a name that torch does not know may be one of ours. Raises our InvalidBackend, which is torch's, too."""
    if isinstance(compiler_fn, str) and compiler_fn not in theirs._BACKENDS:
        theirs._lazy_import()
        if compiler_fn not in theirs._BACKENDS:
            return ours.lookup_backend(compiler_fn)
    return _lookup(compiler_fn)


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """Torch's names, and ours that torch does not know."""
    return sorted({*_list(exclude_tags), *(name for name in ours.list_backends() if name not in theirs._BACKENDS)})
