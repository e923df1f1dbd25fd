"""`torch.jit.script` of what was compiled: it scripts the original, as it does of what torch's own tracer compiled."""

from __future__ import annotations

import functools
from typing import Any

from tracer._C import Dispatcher
from tracer.api.callables import original_of
from tracer.drop_in.replacements import Replacement
from tracer.drop_in.torchs import recursive_scripting, scripting

_script = scripting.script
_IN_PLACE = "_compiled_call_impl"  # where `module.compile()` keeps what it has compiled; scripted modules call their forward


@functools.wraps(_script)
def script(obj: Any, optimize: Any = None, _frames_up: int = 0, *args: Any, **kwargs: Any) -> Any:
    """As torch's. Names in a class that is scripted are looked up in the frame of the caller, hence `_frames_up`."""
    return _script(original_of(obj) if type(obj) is Dispatcher else obj, optimize, _frames_up + 1, *args, **kwargs)


def table() -> list[Replacement]:
    """What is replaced in torch.jit."""
    ignored = [*recursive_scripting.ignored_attributes, _IN_PLACE]
    return [Replacement(scripting, "script", script), Replacement(recursive_scripting, "ignored_attributes", ignored)]
