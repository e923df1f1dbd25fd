"""The names of backends: built-in ones, those of installed packages, and those that the program registers.

A backend is `compiler(gm: torch.fx.GraphModule, example_inputs: list) -> callable`. A package announces one as an entry
point of the group `tracer.backends`, or of that of torch.compile, which is imported when the name is first used.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
from collections.abc import Callable
from typing import Any

from tracer.exc import InvalidBackend

CompilerFn = Callable[..., Callable[..., Any]]

# A name of an earlier group goes before the same one of a later group.
ENTRY_POINT_GROUPS = ("tracer.backends", "torch_dynamo_backends")
# Attributes of a compiler function.
REAL_INPUTS = "needs_real_inputs"  # it gets real tensors, not fake ones
RUNS_AS_WRITTEN = "runs_as_written"  # it reads no input, and its callable runs the operations of the graph in order
TENSORS_IN_LOOPS = "loops_carry_only_tensors"  # `while_loop` must not carry ints
UNROLLS = "unrolls_sequences"  # it writes recurrent layers out, step by step: they are not given to it, and run as written


class LazyCompiler:
    """A compiler function that is imported at its first graph, because torch's compilers take seconds to load."""

    def __init__(self, name: str, module: str, **attributes: bool) -> None:
        self.__name__ = name
        self.module = module
        self.__dict__.update(attributes)

    def __call__(self, gm: Any, example_inputs: list[Any], **options: Any) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(importlib.import_module(self.module), self.__name__)(gm, example_inputs, **options)
        return found

    def __repr__(self) -> str:
        return f"<backend {self.module}.{self.__name__}>"


_BUILT_IN: dict[str, CompilerFn] = {
    "eager": LazyCompiler("eager", "tracer.backends.eager", runs_as_written=True),
    "aot_eager": LazyCompiler("aot_eager", "tracer.backends.torch_compilers", unrolls_sequences=True),
    "inductor": LazyCompiler(
        "inductor", "tracer.backends.torch_compilers", loops_carry_only_tensors=True, unrolls_sequences=True
    ),
}
_registered: dict[str, CompilerFn] = {}


def register_backend(
    compiler_fn: CompilerFn | str | None = None, name: str | CompilerFn | None = None, *, real_inputs: bool = False
) -> Any:
    """Makes a compiler function known by name; also a decorator, bare or with the name.

    `real_inputs=True` hands it the program's own tensors in place of fake ones, and each compile serves only calls with
    these sizes and ints. Raises ValueError for a taken name.

    ```python
    @tracer.register_backend("counting")
    def counting(gm, example_inputs):
        print(len(gm.graph.nodes))
        return gm.forward

    tracer.compile(lambda x: x + 1, backend="counting")(torch.ones(2))
    ```
    """
    if isinstance(compiler_fn, str):
        compiler_fn, name = name if callable(name) else None, compiler_fn
    if compiler_fn is None:
        return lambda fn: register_backend(fn, name, real_inputs=real_inputs)
    if not callable(compiler_fn):
        raise TypeError(f"register_backend: expected a function compiler(gm, example_inputs), not {compiler_fn!r}")
    key = name if isinstance(name, str) else getattr(compiler_fn, "__name__", None)
    if not key:
        raise ValueError(f"register_backend: {compiler_fn!r} has no __name__; pass one: register_backend(fn, name='...')")
    _refuse_taken(key, compiler_fn)
    if real_inputs:
        setattr(compiler_fn, REAL_INPUTS, True)
    _registered[key] = compiler_fn
    return compiler_fn


def list_backends() -> list[str]:
    """The names that `backend=` accepts, sorted.

    ```python
    assert {"eager", "aot_eager", "inductor"} <= set(tracer.list_backends())
    ```
    """
    return sorted({*_BUILT_IN, *_registered, *_announced()})


def lookup_backend(name: str) -> CompilerFn:
    """The compiler function of a name. Raises InvalidBackend, which lists the names there are and the nearest ones."""
    if name in _registered:
        return _registered[name]
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    entry = _announced().get(name)
    if entry is None:
        raise _unknown(name)
    return _load(entry)


def is_built_in(compiler_fn: CompilerFn) -> bool:
    """Whether a compiler function is one of the tracer's own."""
    return any(compiler_fn is known for known in _BUILT_IN.values())


def _load(entry: importlib.metadata.EntryPoint) -> CompilerFn:
    try:
        compiler_fn: CompilerFn = entry.load()
        if not callable(compiler_fn):
            raise TypeError(f"{entry.value} is {compiler_fn!r}, which cannot be called")
    except Exception as error:
        where = f"{entry.value}, announced as an entry point of {entry.group!r}"
        refusal = InvalidBackend(entry.name, list_backends())
        refusal.message = f"backend {entry.name!r} ({where}) cannot be loaded: {type(error).__name__}: {error}"
        refusal.hint = "install what it needs, or remove the package that announces it."
        raise refusal from error
    return compiler_fn


def _announced() -> dict[str, importlib.metadata.EntryPoint]:
    groups = reversed(ENTRY_POINT_GROUPS)
    return {entry.name: entry for group in groups for entry in importlib.metadata.entry_points(group=group)}


def _refuse_taken(name: str, compiler_fn: CompilerFn) -> None:
    """Raises ValueError for a name that another backend has. The same definition, run again (in a notebook), may replace
    itself."""
    present = _registered.get(name)
    if present is None and name not in _BUILT_IN:
        return
    if present is not None and _definition(present) == _definition(compiler_fn):
        return
    owner = _BUILT_IN.get(name, present)
    raise ValueError(f"a backend named {name!r} exists already ({owner!r}); choose another name")


def _definition(fn: CompilerFn) -> tuple[Any, Any]:
    return getattr(fn, "__module__", None), getattr(fn, "__qualname__", id(fn))


def _unknown(name: str) -> InvalidBackend:
    names = list_backends()
    error = InvalidBackend(name, names)
    near = difflib.get_close_matches(name, names, n=3)
    if near:
        error.hint = f"did you mean {' or '.join(repr(n) for n in near)}? {error.hint}"
    return error
