"""While the tracer is installed, its exceptions are also those of torch._dynamo.exc: `except torch._dynamo.exc.Unsupported`
catches ours, whenever the name was imported. The bases of our classes change; torch's classes do not."""

from __future__ import annotations

from tracer import errors
from tracer.drop_in.torchs import eval_frame, exc

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


class Linked:
    """Our exceptions with torch's among their bases."""

    def __init__(self) -> None:
        self._before = [(ours, ours.__bases__) for ours, _ in PAIRS]
        for ours, theirs in PAIRS:
            ours.__bases__ = (*(base for base in ours.__bases__ if base is not errors.Raised), theirs)

    def take_back(self) -> None:
        for ours, bases in reversed(self._before):
            ours.__bases__ = bases
