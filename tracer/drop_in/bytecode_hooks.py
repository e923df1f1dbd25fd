"""`torch._dynamo.convert_frame.register_bytecode_hook`: hooks are told of the code of each entry. They cannot replace it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tracer import metrics
from tracer.drop_in.replacements import Replacement
from tracer.drop_in.torchs import convert_frame
from tracer.locations import levels_to_the_user
from tracer.metrics import Event

_register = convert_frame.register_bytecode_hook


class BytecodeHooks:
    """Calls the hooks that are registered, before the install or behind it, when an entry is made. What one raises is logged."""

    def __init__(self) -> None:
        self._stop: Callable[[], None] | None = None
        if convert_frame._bytecode_hooks:
            self._listen()

    def take_back(self) -> None:
        if self._stop is not None:
            self._stop()

    def register(self, hook: Callable[..., Any]) -> Any:
        """As torch's. -> a handle, whose `remove()` ends it"""
        self._listen()
        return _register(hook)

    def _listen(self) -> None:
        if self._stop is None:
            self._stop = metrics.add_callback(self._tell, "compile")

    def _tell(self, event: Event) -> None:
        code, made = event.about["code"], event.about["entry"].guarded_code.code
        for hook in list(convert_frame._bytecode_hooks.values()) if made is not None else ():
            if hook(code, made) not in (None, made):
                message = f"the bytecode hook {hook!r} returned other code, which has no effect while the tracer is installed"
                warnings.warn(message, stacklevel=levels_to_the_user())

    def replacement(self) -> Replacement:
        return Replacement(convert_frame, "register_bytecode_hook", self.register)
