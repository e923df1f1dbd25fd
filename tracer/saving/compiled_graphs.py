"""What AOTAutograd and Inductor made of a graph, as data (`data_of`) and back (`loaded`).

AOTAutograd keeps a record of all that it made: how inputs and results are treated, and the compiled forward and backward graphs.
This module is imported when one is saved or loaded, because it needs torch's compilers.
"""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.aot_autograd_result import BundledAOTAutogradResult
from torch._guards import TracingContext, tracing
from torch._inductor import config as inductor_config
from torch._inductor.cudagraph_utils import BoxedDeviceIndex
from torch._inductor.output_code import CompiledFxGraph
from torch._inductor.utils import BoxedBool

from tracer.backends.torch_compilers import AsWritten, compilers_settings, note_code_alone
from tracer.saving.fingerprints import Differs, Refused
from tracer.saving.generated_code import bundled
from tracer.saving.graph_modules import module_from, record_of
from tracer.saving.operators import name_of, operator_at

_TEXTS = ("aot_joint_graph_str", "aot_forward_graph_str", "aot_backward_graph_str", "min_cut_info_str", "guards_expr")


def data_of(compiled: Any) -> bytes:
    """The data of a callable that AOTAutograd returned. Raises Refused for one that it cannot make again."""
    known = getattr(compiled, "data", None)
    if known is not None:
        return bytes(known)
    if compiled.serialize is None:
        raise Refused(
            "its backward pass is compiled when it first runs: compile it under torch.no_grad, or with config.cache_dir set, "
            "where both are compiled at once"
        )
    result = copy.copy(compiled.serialize())
    for name in _TEXTS:
        setattr(result, name, None)
    result.compiled_fw = _portable(result.compiled_fw)
    result.compiled_bw = None if result.compiled_bw is None else _portable(result.compiled_bw)
    result.serialized_bw_module = None  # which only torch's compiled autograd reads
    file = io.BytesIO()
    _Pickler(file, protocol=5).dump((result, inductor_config.triton.cudagraphs))
    return pickle.dumps((compiled.settings, file.getvalue()))


def loaded(data: bytes) -> Callable[..., Any]:
    """The callable of a process's data. Raises Differs if it was compiled with other settings than are in force here."""
    settings, made = pickle.loads(data)
    if settings != compilers_settings():
        raise Differs("torch._inductor.config or torch._functorch.config was another one where it was compiled")
    result, cudagraphs = pickle.loads(made)
    assert isinstance(result, BundledAOTAutogradResult)
    options: Any = {"cudagraphs": BoxedBool(cudagraphs), "boxed_forward_device_index": BoxedDeviceIndex(None)}
    with tracing(TracingContext(None)):  # in which no compile is going on
        compiled = result.wrap_post_compile([], result.sanitized_aot_config, options)

    def forward(*args: Any) -> Any:
        return compiled(list(args))

    vars(forward).update(data=data, serialize=None, __wrapped__=compiled)  # to be saved again
    note_code_alone(forward, result)
    return forward


def _portable(output: Any) -> Any:
    """A copy of a compiled forward or backward graph that holds data alone."""
    code = output.result
    return dataclasses.replace(output, result=bundled(code)) if isinstance(code, CompiledFxGraph) else output


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, AsWritten):
            return AsWritten, (obj.gm,)
        if isinstance(obj, fx.GraphModule):
            return module_from, record_of(obj, made_by_compiler=True)
        if isinstance(obj, torch._ops.OpOverload):
            return operator_at, (name_of(obj),)
        return NotImplemented
