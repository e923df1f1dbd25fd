"""Calls a backend: resolves its name and options, wraps its errors and checks its result."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from tracer import config
from tracer.backends.registry import (
    REAL_INPUTS,
    RUNS_AS_WRITTEN,
    TENSORS_IN_LOOPS,
    UNROLLS,
    CompilerFn,
    is_built_in,
    lookup_backend,
)
from tracer.backends.verify import verify
from tracer.compat_torch.thread_state import dispatch_state, dual_level, leave_dual_levels
from tracer.exc import BackendCompilerFailed, UserError

if TYPE_CHECKING:
    from tracer.graph.output_graph import GraphInput


@dataclasses.dataclass(frozen=True, eq=False)
class Backend:
    """A compiler function, with the options that it is called with."""

    compiler_fn: CompilerFn
    name: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    repeated: str | None = None  # what becomes of equal blocks; None: as the setting says

    @property
    def needs_real_inputs(self) -> bool:
        return bool(getattr(_function_of(self.compiler_fn), REAL_INPUTS, False))

    @property
    def runs_as_written(self) -> bool:
        return bool(getattr(_function_of(self.compiler_fn), RUNS_AS_WRITTEN, False))

    @property
    def loops_carry_only_tensors(self) -> bool:
        return bool(getattr(_function_of(self.compiler_fn), TENSORS_IN_LOOPS, False))

    @property
    def unrolls_sequences(self) -> bool:
        return bool(getattr(_function_of(self.compiler_fn), UNROLLS, False))

    @property
    def is_built_in(self) -> bool:
        return is_built_in(self.compiler_fn)

    def described_options(self) -> list[tuple[str, Any]]:
        """The options by name, `repeated` among them if it is given."""
        given = {} if self.repeated is None else {"repeated": self.repeated}
        return sorted({**self.options, **given}.items())

    def compile_graph(self, gm: torch.fx.GraphModule, inputs: list[GraphInput]) -> Callable[..., Any]:
        """The callable that the backend makes of a captured graph. Raises BackendCompilerFailed."""
        compiled = self(gm, self.examples(inputs))
        if config.verify_correctness:
            verify(gm, compiled, [item.real for item in inputs], self.name)
        return compiled

    def leave_as_written(self, gm: torch.fx.GraphModule, inputs: list[GraphInput]) -> Callable[..., Any]:
        """As `compile_graph`, for a graph that runs as it is written: of fake tensors of the program, which have no data for
        kernels, or one through whose inside autograd goes. A backend of the user's own is called all the same: it may collect
        the graphs."""
        as_written: Callable[..., Any] = gm.forward
        if self.runs_as_written:
            return self(gm, self.examples(inputs))
        if not (self.is_built_in or self.needs_real_inputs):
            self(gm, self.examples(inputs))
        return as_written

    def examples(self, inputs: list[GraphInput]) -> list[Any]:
        """The fake inputs, or the real ones for a backend that needs them. It may read any of their sizes, so all become
        constants."""
        if not self.needs_real_inputs:
            return [item.fake for item in inputs]
        for item in inputs:
            if isinstance(item.fake, (torch.SymInt, torch.SymFloat)):
                item.fake.node.shape_env.evaluate_sym_node(item.fake.node)
        return [item.real for item in inputs]

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        """The compiled graph. Raises BackendCompilerFailed if the backend raises or returns what cannot be called."""
        try:
            with _leaving_dual_levels():
                compiled = self._compile(gm, example_inputs)
            if not callable(compiled):
                raise TypeError(f"it returned {_short(compiled)}, not a callable; gm.forward would run the graph as it is")
        except Exception as error:
            raise BackendCompilerFailed(self.name, error) from error
        return compiled

    def _compile(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        compiler = functools.partial(self.compiler_fn, **self.options) if self.options else self.compiler_fn
        if self.runs_as_written:
            return compiler(gm, example_inputs)
        from tracer.backends import torch_bridge  # late: 1 s of graph modules that `import tracer` does without

        if self.needs_real_inputs:
            return torch_bridge.compile_real(compiler, gm, example_inputs)
        return torch_bridge.compile_with(compiler, gm, example_inputs, self.repeated or config.repeated, self.unrolls_sequences)


def resolve_backend(
    backend: str | CompilerFn, mode: str | None = None, options: dict[str, Any] | None = None, repeated: str | None = None
) -> Backend:
    """What `backend=`, `mode=`, `options=` and `repeated=` of a decorator mean. Raises InvalidBackend or UserError."""
    if repeated is not None and repeated not in config.KEYS["repeated"].choices:
        raise UserError(f"repeated={repeated!r} is not known", hint="pass 'flat', 'outline' or 'auto'.")
    if isinstance(backend, Backend):
        return backend if repeated is None else dataclasses.replace(backend, repeated=repeated)
    if mode is not None and options is not None:
        raise UserError("mode= and options= were both given", hint="pass one: a mode is a name for a set of options.")
    extras: dict[str, Any] = {}
    if mode is not None and mode != "default":
        extras["mode"] = mode
    if options:
        extras["options"] = dict(options)
    if isinstance(backend, str):
        return Backend(lookup_backend(backend), backend, extras, repeated)
    if not callable(backend):
        raise UserError(
            f"backend= must be a name or a function; it is {_short(backend)}",
            hint="pass a name of tracer.list_backends(), or a function compiler(gm, example_inputs) -> callable.",
        )
    return Backend(backend, getattr(backend, "__name__", type(backend).__name__), extras, repeated)


def _function_of(compiler_fn: CompilerFn) -> CompilerFn:
    while isinstance(compiler_fn, functools.partial):
        compiler_fn = compiler_fn.func
    return compiler_fn


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


@contextlib.contextmanager
def _leaving_dual_levels() -> Iterator[None]:
    """Around a backend that may fail while it goes through a graph. Afterwards no level of forward AD is open that was not
    before, and the thread has its dispatch keys, which operators that fail in a level may change."""
    before = dual_level()
    with torch._C._ForceDispatchKeyGuard(*dispatch_state()):
        try:
            yield
        finally:
            leave_dual_levels(before)
