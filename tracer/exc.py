"""The public name of `tracer.errors`: `tracer.exc.Unsupported` and its relatives."""

from tracer.errors import (
    BackendCompilerFailed,
    CompileTimeout,
    ConstraintViolationError,
    FailOnRecompileLimitHit,
    InternalTracerError,
    InvalidBackend,
    RecompileError,
    SealedError,
    TorchRuntimeError,
    TracerError,
    Unsupported,
    UserError,
)

__all__ = [
    "BackendCompilerFailed",
    "CompileTimeout",
    "ConstraintViolationError",
    "FailOnRecompileLimitHit",
    "InternalTracerError",
    "InvalidBackend",
    "RecompileError",
    "SealedError",
    "TorchRuntimeError",
    "TracerError",
    "Unsupported",
    "UserError",
]
