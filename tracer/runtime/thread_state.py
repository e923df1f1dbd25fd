"""torch's state of one thread, to be entered on another one or later: grad and inference mode, autocast and the like."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tracer.effects.torch_state import State, read_state, write_state


@contextlib.contextmanager
def _outside_of_inference_mode(grad: bool) -> Iterator[None]:
    with torch.inference_mode(False), torch.set_grad_enabled(grad):
        yield


#: name of a mode that a thread may be in -> a context in which this thread is, whatever mode it is in now
MODES: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "enable_grad": functools.partial(_outside_of_inference_mode, True),
    "no_grad": functools.partial(_outside_of_inference_mode, False),
    "inference_mode": torch.inference_mode,
}


@dataclasses.dataclass(frozen=True)
class ThreadState:
    """Equal for threads of which a guard on torch's state cannot tell the modes apart."""

    settings: State
    inference: bool

    @classmethod
    def now(cls) -> ThreadState:
        return cls(read_state(), torch.is_inference_mode_enabled())

    def text(self) -> str:
        """`no_grad`, `inference_mode` or `enable_grad`."""
        if self.inference:
            return "inference_mode"
        return "enable_grad" if (True,) in self.settings[:1] else "no_grad"

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Within, this thread has that state."""
        before = read_state()
        same = torch.is_inference_mode_enabled() == self.inference
        with contextlib.nullcontext() if same else torch.inference_mode(self.inference):
            if not same or before != self.settings:  # a refused call mostly asks on its own thread; inference mode sets more
                write_state(self.settings)
            try:
                yield
            finally:
                write_state(before)
