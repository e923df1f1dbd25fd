"""`aot_compile` of what torch.compile returns, and the files that `save_compiled_function` writes."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import pickle
import types
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from tracer import _C
from tracer.api.callables import compiled as compiled_by
from tracer.api.callables import original_of
from tracer.api.settings import Settings
from tracer.backends.calling import Backend
from tracer.drop_in.inlined import codes_in
from tracer.drop_in.torchs import package
from tracer.errors import SealedError
from tracer.guards.base import Guard
from tracer.guards.manager import CheckFunctionManager
from tracer.runtime.guarded_code import entry_with_guards
from tracer.saving.entries import compiled_graph
from tracer.saving.files import file_of, install_entries
from tracer.serving.sealing import seal
from tracer.serving.target import Target, target_of
from tracer.sources.base import FrameValues
from tracer.whole_files import write_whole


@dataclasses.dataclass(frozen=True)
class Artifacts:
    """What programs read of a function that was compiled ahead. `compiled_fn`: what the backend returned."""

    compiled_fn: Any
    original_code: types.CodeType
    source_info: Any  # torch._dynamo.package.SourceInfo
    backend_name: str


class AheadOfTime:
    """A function that was compiled for one example: it is called as the function is, of methods with the object in front. Raises
    RuntimeError for a call for which the guards do not hold, unless `disable_guard_check()` was called."""

    def __init__(self, dispatcher: _C.Dispatcher, source_info: Any) -> None:
        self._target: Target = target_of(dispatcher)
        self._checked = self._called = dispatcher
        state, function, (entry,) = self._target.state, self._target.function, self._target.entries()
        self._artifacts = Artifacts(compiled_graph(entry), function.__code__, source_info, state.compiler_fn.name)
        self.fn = function
        seal(dispatcher)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._called(*args, **kwargs)
        except SealedError as error:
            raise RuntimeError(f"GuardManager check failed, reason: {error}") from error

    def guard_check(self, *args: Any, **kwargs: Any) -> bool:
        """Whether the guards hold for a call."""
        return self._target.lookup(args, kwargs) is not None

    def disable_guard_check(self) -> None:
        """From now on any call runs what was compiled, whether it fits or not."""
        entry, function = self._target.entries()[0], self._target.function
        manager = CheckFunctionManager((), function.__code__, function.__globals__, fetched=entry.guarded_code.manager.fetched)
        settings = Settings(self._target.state.compiler_fn, fullgraph=True)
        unguarded = target_of(compiled_by(function, settings))
        guarded = dataclasses.replace(entry.guarded_code, manager=manager)
        unguarded.state.region.install(
            function.__code__, function.__globals__, entry_with_guards(entry, guarded, unguarded.state), True
        )
        self._called = unguarded.dispatcher

    def source_info(self) -> Any:
        """`inlined_sources`: the code that the trace went through, with the text of its files."""
        return self._artifacts.source_info

    def save_compiled_function(self, path: str | os.PathLike[str], external_data: Any = None) -> None:
        """Writes a file for `torch.compiler.load_compiled_function`. Raises RuntimeError for what cannot be written, and says
        why."""
        write_whole(path, self.serialize(self, external_data))

    @staticmethod
    def serialize(fn: AheadOfTime, external_data: Any = None) -> bytes:
        """What `save_compiled_function` writes."""
        if external_data:
            raise RuntimeError("external_data is not needed: objects of the program are found again by their names")
        function = fn.fn
        if _found(function.__module__, function.__qualname__, None) is not function:
            raise RuntimeError(
                f"{function.__qualname__} cannot be saved: another process would not find it as "
                f"{function.__module__}.{function.__qualname__}"
            )
        data, result = file_of(fn._target)
        if result.refused:
            raise RuntimeError(f"the compiled function cannot be saved: {'; '.join(result.refused)}")
        return pickle.dumps((function.__module__, function.__qualname__, fn._artifacts.backend_name, fn.source_info(), data))


def load_compiled_function(file: Any, *, f_globals: dict[str, object] | None = None, external_data: Any = None) -> AheadOfTime:
    """As torch's, of a file that `save_compiled_function` has written. `f_globals` is where the function is looked for if its
    module has no such name. Raises RuntimeError if the file does not fit this process. The file is code: load none that others
    could have written."""
    module, qualname, backend, source_info, data = pickle.loads(file.read())
    function = _found(module, qualname, f_globals)
    if type(function) is not types.FunctionType:
        raise RuntimeError(f"the file is for {module}.{qualname}, which is no function here")
    settings = Settings("eager" if backend == "eager" else Backend(_only_loads, backend), fullgraph=True)
    dispatcher = compiled_by(function, settings)
    loaded = install_entries(target_of(dispatcher), data, Path(getattr(file, "name", "the file")))
    if not loaded:
        raise RuntimeError(f"the compiled function cannot be loaded: {'; '.join(loaded.refused)}")
    return AheadOfTime(dispatcher, source_info)


def _only_loads(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    raise RuntimeError("what was loaded from a file compiles nothing")


def _found(module: str, qualname: str, f_globals: dict[str, object] | None) -> Any:
    """The function of a name. Of what was compiled in place: the original."""
    try:
        owner: Any = importlib.import_module(module)
        return original_of(functools.reduce(getattr, qualname.split("."), owner))
    except (ImportError, AttributeError):
        first, *rest = qualname.split(".")
        try:
            return original_of(functools.reduce(getattr, rest, (f_globals or {})[first]))
        except (KeyError, AttributeError):
            return None


# -- compiling ---------------------------------------------------------------------------------------------------------


def compile_ahead(target: Any, settings: Settings, example: tuple[Sequence[Any], dict[str, Any]]) -> AheadOfTime:
    """Traces and compiles `target(*args, **kwargs)` without running it. Raises RuntimeError without `fullgraph=True`, and what
    a first call of the compiled target raises."""
    args, kwargs = example
    if not settings.fullgraph:
        raise RuntimeError("Graph breaks are not supported with aot compile. Please use torch.compile(fullgraph=True).")
    function, leading = _function_of(target)
    codes = {function.__code__: None}
    hooks = {**settings.hooks, "guard_filter_fn": _noting(codes, settings.hooks.get("guard_filter_fn"))}
    dispatcher = compiled_by(function, dataclasses.replace(settings, hooks=hooks))
    ahead = target_of(dispatcher)
    entry = ahead.state.trace(function, ahead.slots((*leading, *args), kwargs))
    if not isinstance(entry, _C.Entry):
        raise RuntimeError(f"{function.__qualname__} cannot be compiled ahead: CPython runs calls like this one")
    return AheadOfTime(dispatcher, _source_info(codes))


def _function_of(target: Any) -> tuple[types.FunctionType, tuple[Any, ...]]:
    """The function that is traced, and the object in front of its arguments."""
    if isinstance(target, torch.nn.Module):
        target = target.forward
    if isinstance(target, types.MethodType):
        return original_of(target.__func__), (target.__self__,)
    function = original_of(target)
    if type(function) is not types.FunctionType:
        raise RuntimeError(f"{target!r} cannot be compiled ahead: it is neither a function nor a method nor a module")
    return function, ()


def _noting(codes: dict[types.CodeType, None], chosen: Callable[..., list[bool]] | None) -> Callable[..., Any]:
    """A filter of guards that also notes the code that the trace went through, which the guards name."""

    def keeps(guards: list[Guard], values: FrameValues) -> list[bool]:
        codes.update(dict.fromkeys(codes_in(guards)))
        return [True] * len(guards) if chosen is None else chosen(guards, values)

    return keeps


def _source_info(codes: Iterable[types.CodeType]) -> Any:
    info = package.SourceInfo(inlined_sources=set())
    for code in codes:
        try:
            info.add_code(code)
        except (OSError, AssertionError):  # made by `exec`: it has no file that could change
            continue
    return info
