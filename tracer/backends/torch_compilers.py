"""The backends that call torch's compilers: AOTAutograd and Inductor. `registry` names them; this module is imported when one
is used.

Both refuse a graph that returns a view of an argument that is not contiguous and is written to (`views`): its strides would be
wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

from tracer.backends.printable_operators import PRINTABLE
from tracer.backends.result_memory import keep_results_apart
from tracer.backends.view_strides import refuse_written_views


def aot_eager(gm: fx.GraphModule, example_inputs: list[Any], **options: Any) -> Callable[..., Any]:
    """AOTAutograd (functionalised forward and backward graphs), each run operation by operation. Takes no options. In a graph
    without gradients, writes to inputs stay in the graph; AOTAutograd would else copy them back after it."""
    if options:
        raise TypeError(f"backend 'aot_eager' takes no {' or '.join(f'{name}=' for name in sorted(options))}")
    refuse_written_views(gm.graph)
    found: Callable[..., Any] = aot_module_simplified(
        gm,
        example_inputs,
        fw_compiler=_run_as_written,
        bw_compiler=_run_as_written,
        decompositions=PRINTABLE,
        keep_inference_input_mutations=True,
    )
    return found


def inductor(
    gm: fx.GraphModule, example_inputs: list[Any], mode: str | None = None, options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """Inductor, with the modes and options that it lists (`torch._inductor.list_mode_options()`, `.list_options()`). `options`
    win over those of the mode; a `-` in the name of one is read as `_`, as torch.compile does."""
    refuse_written_views(gm.graph)
    import torch._inductor as inductor_package  # late: 2 s of imports that only this backend needs
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.decomposition import select_decomp_table

    patches = dict(inductor_package.list_mode_options(mode) if mode else {})
    apart = keep_results_apart(gm.graph)
    patches.update({name.replace("-", "_"): value for name, value in (options or {}).items()})
    found: Callable[..., Any] = compile_fx(
        gm, example_inputs, config_patches=patches, decompositions={**select_decomp_table(), **PRINTABLE}
    )
    return apart(found)


def _run_as_written(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    # Boxed: AOTAutograd hands the inputs over in a list.
    found: Callable[..., Any] = make_boxed_func(gm.forward)
    return found
