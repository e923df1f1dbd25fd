"""The controls of torch._dynamo that act on the tracer while it is installed."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch

from tracer import config
from tracer.api.blocks import SettingsOfBlock, error_on_graph_break, no_settings
from tracer.api.explain import explain
from tracer.api.export import ExportResult, export
from tracer.api.settings import reset
from tracer.drop_in import marks
from tracer.drop_in.ahead import load_compiled_function
from tracer.drop_in.replacements import Replacement
from tracer.drop_in.settings import SHARED
from tracer.drop_in.stances import StanceTakenBefore, set_stance
from tracer.drop_in.torchs import convert_frame, debugging, decorators, dynamo, eval_frame, utils
from tracer.errors import UserError
from tracer.locations import levels_to_the_user
from tracer.runtime.region_state import ALL_REGIONS

_INSTEAD = "call tracer.uninstall() first, or leave it out; docs/drop_in.md lists what there is."
_reset_code = eval_frame.reset_code
_patch_dynamo_config = decorators.patch_dynamo_config
_reset_code_caches, _set_error = dynamo.reset_code_caches, utils._set_error_on_graph_break


def reset_code_caches() -> None:
    """As torch's, which `torch._dynamo.reset` calls, and the tracer's entries are dropped as well."""
    _reset_code_caches()
    reset()


# -- explain and export ----------------------------------------------------------------------------------------


def explain_as_torch(f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """`torch._dynamo.explain(f)(*args)`: a `tracer.ExplainOutput`, which has the attributes of torch's."""
    explained = explain(f)
    return explained(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else explained


def graph_detail(gm: Any, graphs: list[Any], op_count: int, ops_per_graph: list[Any], break_reasons: list[Any]) -> Any:
    """What torch's own `explain`, where its name was imported before the install, notes of a graph. It learns of no reasons."""
    operations = [node.target for node in gm.graph.nodes if node.op == "call_function"]
    return gm, [*graphs, gm], op_count + len(operations), [*ops_per_graph, operations], break_reasons


_EXPORT_HOLDS_ANYWAY = {
    "tracing_mode": ("symbolic", "fake", "real"),
    "same_signature": (True,),
    "specialize_float": (True, False),
    "disable_constraint_solver": (True, False),
    "prefer_deferred_runtime_asserts_over_guards": (False,),
    "_log_export_usage": (True, False),
    "constraints": (None,),
}


def export_as_torch(
    f: Callable[..., Any],
    *extra_args: Any,
    aten_graph: bool = False,
    pre_dispatch: bool = False,
    decomposition_table: Any = None,
    dynamic_shapes: Any = None,
    assume_static_by_default: bool = False,
    **said: Any,
) -> Any:
    """`torch._dynamo.export(f)(*args)`, by `tracer.export`. Raises UserError for an argument that cannot be honoured."""
    arguments = {name: value for name, value in said.items() if name not in _EXPORT_HOLDS_ANYWAY}
    for name, value in said.items():
        if name not in arguments and value not in _EXPORT_HOLDS_ANYWAY[name]:
            raise UserError(f"{name}={value!r} of torch._dynamo.export cannot be honoured by the tracer", hint=_INSTEAD)

    def exported(*args: Any, **kwargs: Any) -> ExportResult:
        return export(
            f,
            dynamic_shapes=dynamic_shapes,
            dynamic=not assume_static_by_default,
            aten_graph=aten_graph,
            decomposition_table=decomposition_table,
            pre_dispatch=pre_dispatch,
        )(*args, **kwargs)

    return exported(*extra_args, **arguments) if extra_args or arguments else exported


# -- others ----------------------------------------------------------------------------------------------------


def set_error_on_graph_break(value: bool) -> None:
    """As torch's, which `error_on_graph_break` calls as it begins and ends."""
    _set_error(value)
    config.error_on_graph_break = value


def patch_dynamo_config(
    arg1: str | dict[str, Any] | tuple[tuple[str, Any], ...] | None = None, arg2: Any = None, **kwargs: Any
) -> SettingsOfBlock:
    """As torch's, of the settings that the tracer has. The others change nothing, see docs/drop_in.md."""
    changes = _patch_dynamo_config(arg1, arg2, **kwargs).changes  # raises for what is not to be patched
    return SettingsOfBlock({name: value for name, value in changes.items() if name in SHARED})


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise UserError(f"{name} cannot be honoured while the tracer is installed", hint=_INSTEAD)

    return refuse


def _telling(owner: Any, name: str) -> Callable[..., Any]:
    """A function of torch that has no effect on the tracer: says so, and does what it does."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def tells(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(f"{owner.__name__}.{name} has no effect while the tracer is installed", stacklevel=levels_to_the_user())
        return original(*args, **kwargs)

    return tells


def reset_code(code: CodeType) -> None:
    """As torch's, which `remove_from_cache` calls: entries of this code are dropped, wherever it was decorated."""
    _reset_code(code)
    for region in list(ALL_REGIONS):
        if code in region.roots:
            region.reset()


def cache_entries(code: Any) -> list[Any]:
    """`_debug_get_cache_entry_list`: our entries for a function or its code."""
    wanted = code if isinstance(code, CodeType) else eval_frame.innermost_fn(code).__code__
    return [entry for region in ALL_REGIONS for entry in region.entries() if entry.guarded_code.manager.code is wanted]


_NO_EFFECT: tuple[tuple[Any, str], ...] = (
    (decorators, "allow_c_slot"),
    (decorators, "override_cudagraphs"),
    (dynamo, "set_recursion_limit"),
)
_REFUSED: tuple[tuple[Any, str], ...] = (
    *((torch.compiler, name) for name in ("precompile",) if hasattr(torch.compiler, name)),  # torch 2.14
    (convert_frame, "replay"),
)

PARTS: list[Callable[[], Any]] = [marks.FunctionMarks, marks.NamedSizes, StanceTakenBefore]


def table() -> list[Replacement]:
    return [
        Replacement(dynamo, "reset_code_caches", reset_code_caches),
        Replacement(decorators, "_set_stance", set_stance),
        Replacement(utils, "_set_error_on_graph_break", set_error_on_graph_break),
        Replacement(decorators, "error_on_graph_break", error_on_graph_break),
        Replacement(decorators, "patch_dynamo_config", patch_dynamo_config),
        Replacement(decorators, "dont_skip_tracing", no_settings),
        Replacement(decorators, "disable_nested_graph_breaks", no_settings),
        Replacement(eval_frame, "explain", explain_as_torch),
        Replacement(debugging, "_explain_graph_detail", graph_detail),
        Replacement(eval_frame, "export", export_as_torch),
        Replacement(torch.compiler, "load_compiled_function", load_compiled_function),
        *[Replacement(owner, name, _refusing(f"{owner.__name__}.{name}")) for owner, name in _REFUSED],
        *[Replacement(owner, name, _telling(owner, name)) for owner, name in _NO_EFFECT],
        Replacement(eval_frame, "reset_code", reset_code),
        Replacement(eval_frame, "_debug_get_cache_entry_list", cache_entries),
        *marks.table(),
    ]
