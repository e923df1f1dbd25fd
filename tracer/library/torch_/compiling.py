"""Models of the functions that programs call to ask or tell a compiler something: `is_compiling()`, `graph_break()` and so on.

Third-party code has several functions to ask whether it is being compiled. All answer yes here, as under torch.compile; those
that ask about TorchScript, FX tracing or export answer no.
"""

from __future__ import annotations

import contextlib
import inspect
from typing import TYPE_CHECKING, Any

import torch

from tracer import config, inside
from tracer.errors import LeftToCPython
from tracer.graph_breaks import unsupported
from tracer.protocol.inlining import transparent
from tracer.protocol.models import models, named_models
from tracer.protocol.variable import VariableTracker
from tracer.sources.roots import ModuleGlobalsSource, ObjectSource
from tracer.variables.values.constant import NONE, boolean
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker


@models.of_plain_tensors(inside.is_compiling, torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling)
@named_models.of_plain_tensors("torch._dynamo.external_utils.is_compiling", "torch._utils_internal.is_compiling")
def _yes(tx: Tracer) -> Value:
    return boolean(True)


_ALWAYS_FALSE: tuple[Any, ...] = (
    torch.compiler.is_exporting,
    torch.jit.is_scripting,
    torch.jit.is_tracing,
    torch._C._is_tracing,
    torch._jit_internal.is_scripting,
    torch.fx._symbolic_trace.is_fx_tracing,
    torch.fx._symbolic_trace.is_fx_symbolic_tracing,
)


@models.of_plain_tensors(*{id(function): function for function in _ALWAYS_FALSE}.values())
@named_models.of_plain_tensors("torch.onnx.is_in_onnx_export", "torch.onnx._globals.is_in_onnx_export")
def _no(tx: Tracer, *args: Value) -> Value:
    return boolean(False)


@models.of_plain_tensors(inside.graph_break)
@named_models.of_plain_tensors("torch._dynamo.decorators.graph_break")
def _graph_break(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
    unsupported("explicit-graph-break", message=", ".join(str(arg.constant()) for arg in args if arg.is_constant()))


@named_models.of_plain_tensors("torch._dynamo.decorators.step_unsupported")
def _break_here(tx: Tracer) -> Value:
    unsupported("explicit-graph-break", message="torch._dynamo.step_unsupported")


@named_models.of_plain_tensors("torch._dynamo.decorators.skip_frame")
def _skip_frame(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
    """CPython runs the frame that is traced; functions that it calls are traced on their own."""
    raise LeftToCPython(None)


@models(config.begin_setting)
def _begin_setting(tx: Tracer, name: Value, value: Value) -> Value:
    tx.trace.settings.begin(name.constant(), value.constant())
    return NONE


@models(config.end_setting)
def _end_setting(tx: Tracer) -> Value:
    tx.trace.settings.end(tx.effects)
    return NONE


@models.of_plain_tensors(torch.jit.annotate)
def _annotate(tx: Tracer, annotation: Value, value: Value) -> Value:
    return value


transparent(torch.jit.isinstance)


@models.of_plain_tensors(torch.compiler.cudagraph_mark_step_begin, torch._C._log_api_usage_once, torch._C._get_tracing_state)
def _nothing(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
    return NONE


def _replaced_by_torch_compile(name: str, behind: str) -> None:
    @named_models.of_plain_tensors(f"torch._dynamo.mutation_guard.install_generation_tagging_init.<locals>.patched_{behind}")
    def _original(tx: Tracer, module: Value, *args: Value, **kwargs: Value) -> Value:
        """torch.compile, once used, replaces the method to count new modules. This calls the original, found in the closure."""
        original = inspect.getclosurevars(getattr(torch.nn.Module, name)).nonlocals[behind]
        return tx.wrap(original, ObjectSource(original, f"torch.nn.Module.{name}")).call(tx, [module, *args], kwargs)


_replaced_by_torch_compile("__init__", "init")
_replaced_by_torch_compile("__setstate__", "setstate")


@models.of_plain_tensors(torch.fx.traceback.annotate)
def _annotate_nodes(tx: Tracer, annotations: Value) -> Value:
    """Does nothing: the annotations are for nodes that FX itself records, not for those of this tracer."""
    return tx.wrap(contextlib.nullcontext, ModuleGlobalsSource("contextlib", "nullcontext")).call(tx, [], {})


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@named_models.of_plain_tensors("torch._dynamo.eval_frame.OptimizedModule.__call__")
def _compiled_module(tx: Tracer, module: Value, *args: Value, **kwargs: Value) -> Value:
    """A call of a module that torch.compile has wrapped is a call of the module itself."""
    if module.get_attr(tx, "dynamo_ctx").python_type().__name__ == "DisableContext":
        unsupported("disabled-function", function="a module")
    if any(module.get_attr(tx, name).truth(tx) for name in _HOOKS):
        unsupported("skipped-function", function="a compiled module with hooks", file="torch._dynamo")
    inner = module.get_attr(tx, "_modules").get_item(tx, tx.literal("_orig_mod"))
    return inner.call(tx, list(args), kwargs)


@named_models.of_plain_tensors("torch._dynamo.decorators.override_optimization_hint")
def _usual_value(tx: Tracer, number: Value, hint: Value) -> Value:
    """Compilers are told what a number usually is, if it is read off data. What is known of it stays."""
    if not hint.is_constant() or type(hint.constant()) is not int:
        unsupported("call-arguments", error="override_optimization_hint takes an int as the hint")
    if isinstance(number, SymNodeVariable) and number.depends_on_data():
        tx.output.world.env.tell_compilers(number.example.node.expr, hint.constant())
    return NONE
