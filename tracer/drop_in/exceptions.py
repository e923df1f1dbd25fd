"""While the tracer is installed, its exceptions are also those of torch._dynamo.exc: `except torch._dynamo.exc.Unsupported`
catches ours, whenever the name was imported. The bases of our classes change; torch's classes do not."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from tracer import errors
from tracer.drop_in.torchs import eval_frame, exc
from tracer.locations import UserStack

# ours -> theirs; the first is the base of all others
PAIRS: tuple[tuple[type[Exception], type[Exception]], ...] = (
    (errors.TracerError, exc.TorchDynamoException),
    (errors.Unsupported, exc.Unsupported),
    (errors.TorchRuntimeError, exc.TorchRuntimeError),
    (errors.UserError, exc.UserError),
    (errors.ConstraintViolationError, eval_frame.ConstraintViolationError),
    (errors.InvalidBackend, exc.InvalidBackend),
    (errors.BackendCompilerFailed, exc.BackendCompilerFailed),
    (errors.RecompileError, exc.RecompileError),
    (errors.FailOnRecompileLimitHit, exc.FailOnRecompileLimitHit),
    (errors.InternalTracerError, exc.InternalTorchDynamoError),
)


class Fields:
    """What handlers written for torch read off its exceptions, of an exception of ours."""

    user_stack: UserStack
    message_and_hint: Callable[[], str]

    @property
    def msg(self) -> str:
        """What happened and what to try, without the place in the user's program."""
        return self.message_and_hint()

    @property
    def real_stack(self) -> traceback.StackSummary:
        """The user's stack, outermost frame first."""
        frames = [traceback.FrameSummary(place.filename, place.lineno, place.function) for place in self.user_stack]
        return traceback.StackSummary.from_list(frames)


class Linked:
    """Our exceptions with torch's among their bases."""

    def __init__(self) -> None:
        self._before = [(ours, ours.__bases__) for ours, _ in PAIRS]
        for ours, theirs in PAIRS:
            kept = tuple(base for base in ours.__bases__ if base is not errors.Raised)
            ours.__bases__ = (*kept, Fields, theirs) if ours is errors.TracerError else (*kept, theirs)

    def take_back(self) -> None:
        for ours, bases in reversed(self._before):
            ours.__bases__ = bases
