"""`torch.jit.script` and `torch.fx.symbolic_trace` of what was compiled: they take the original."""

from __future__ import annotations

import functools
from typing import Any

from tracer._C import Dispatcher
from tracer.api.callables import original_of
from tracer.drop_in.replacements import Replacement
from tracer.drop_in.torchs import recursive_scripting, scripting, symbolic_tracing

_script = scripting.script
_trace = symbolic_tracing.Tracer.trace
_IN_PLACE = "_compiled_call_impl"  # where `module.compile()` keeps what it has compiled; scripted modules call their forward


@functools.wraps(_script)
def script(obj: Any, optimize: Any = None, _frames_up: int = 0, *args: Any, **kwargs: Any) -> Any:
    """As torch's. Names in a class that is scripted are looked up in the frame of the caller, hence `_frames_up`."""
    return _script(original_of(obj) if type(obj) is Dispatcher else obj, optimize, _frames_up + 1, *args, **kwargs)


@functools.wraps(_trace)
def trace(self: Any, root: Any, *args: Any, **kwargs: Any) -> Any:
    """As `torch.fx.Tracer.trace`, which knows Python functions and modules alone."""
    return _trace(self, original_of(root), *args, **kwargs)


def table() -> list[Replacement]:
    """What is replaced in torch.jit and torch.fx."""
    ignored = [*recursive_scripting.ignored_attributes, _IN_PLACE]
    return [
        Replacement(scripting, "script", script),
        Replacement(recursive_scripting, "ignored_attributes", ignored),
        Replacement(symbolic_tracing.Tracer, "trace", trace),
    ]
