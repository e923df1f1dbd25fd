"""The backends that call torch's compilers: AOTAutograd and Inductor. `registry` names them; this module is imported when one
is used.

Both refuse a graph that returns a view of an argument that is not contiguous and is written to (`views`): its strides would be
wrong. Both keep what AOTAutograd has made in a form that can be written to a file (`tracer.saving.compiled_graphs`).
"""

from __future__ import annotations

import contextlib
import hashlib
import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from functorch.compile import default_partition
from torch import fx
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._functorch.aot_autograd import aot_module_simplified
from torch._inductor import config as inductor_config
from torch._inductor.codecache import BypassFxGraphCache
from torch._inductor.output_code import OutputCode

from tracer import config
from tracer.backends.inductor_rules import without_what_inductor_gets_wrong
from tracer.backends.piece_calls import CODE_ALONE, CodeAlone
from tracer.backends.printable_operators import PRINTABLE
from tracer.backends.result_memory import keep_results_apart
from tracer.backends.view_strides import refuse_written_views
from tracer.locations import levels_to_the_user


class _NotForTorchsCaches(BypassAOTAutogradCache, BypassFxGraphCache):
    """Both of torch's caches go on without what raises it: AOTAutograd's, and Inductor's, which is asked where a backward pass
    is compiled at its first use.

    Each time a new one is raised: the traceback of an exception that stays would keep the frames of the call that compiles, and
    with them the function and its arguments."""

    def __init__(self) -> None:
        super().__init__("what the tracer has compiled is kept by tracer.save and config.cache_dir")


_NOT_FROZEN = (
    "Inductor's freezing makes constants of weights. Weights are inputs of a graph that shapetracer captures, so that new ones "
    "are computed with; Inductor compiles it without freezing."
)


def aot_eager(gm: fx.GraphModule, example_inputs: list[Any], **options: Any) -> Callable[..., Any]:
    """AOTAutograd (functionalised forward and backward graphs), each run operation by operation. Takes no options. In a graph
    without gradients, writes to inputs stay in the graph; AOTAutograd would else copy them back after it."""
    if options:
        raise TypeError(f"backend 'aot_eager' takes no {' or '.join(f'{name}=' for name in sorted(options))}")
    refuse_written_views(gm.graph)
    compiler = SerializableAOTDispatchCompiler(AsWritten, lambda gm, inputs: AsWritten(gm))
    with _kept_for_files() as made_with:
        found: Callable[..., Any] = aot_module_simplified(
            gm,
            example_inputs,
            fw_compiler=compiler,
            bw_compiler=compiler,
            partition_fn=_partition,
            decompositions=_Decompositions(PRINTABLE),
            keep_inference_input_mutations=True,
        )
    vars(found).update(made_with)
    note_code_alone(found)
    return found


def _partition(joint: fx.GraphModule, inputs: Any, **options: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
    """The forward and the backward graph, without what the forward graph does and the backward graph needs no result of.

    torch takes assertions for no dead code, nor what they test, nor, with `torch._inductor.config.fallback_random`, any draw.
    What can be computed in the backward graph would be done there once more, with other random numbers."""
    forward, backward = default_partition(joint, inputs, **options)
    done = {node.name: node.target for node in forward.graph.nodes if node.op == "call_function"}
    for node in reversed(backward.graph.nodes):
        if not node.users and node.op == "call_function" and done.get(node.name) == node.target:
            backward.graph.erase_node(node)
    backward.recompile()
    return forward, backward


def inductor(
    gm: fx.GraphModule, example_inputs: list[Any], mode: str | None = None, options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """Inductor, with the modes and options that it lists (`torch._inductor.list_mode_options()`, `.list_options()`). `options`
    win over those of the mode; a `-` in the name of one is read as `_`, as torch.compile does. `freezing` is left out, with a
    warning: weights are inputs of a captured graph."""
    refuse_written_views(gm.graph)
    import torch._inductor as inductor_package  # late: 2 s of imports that only this backend needs
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.decomposition import select_decomp_table

    patches = dict(inductor_package.list_mode_options(mode) if mode else {})
    apart = keep_results_apart(gm.graph)
    patches.update({name.replace("-", "_"): value for name, value in (options or {}).items()})
    if patches.get("freezing", inductor_config.freezing):
        patches["freezing"] = False
        warnings.warn(_NOT_FROZEN, stacklevel=levels_to_the_user())
    with _kept_for_files() as made_with:
        found: Callable[..., Any] = compile_fx(
            gm,
            example_inputs,
            config_patches=patches,
            decompositions=_Decompositions(without_what_inductor_gets_wrong({**select_decomp_table(), **PRINTABLE})),
        )
    vars(found).update(made_with)
    note_code_alone(found)
    return apart(found)


def note_code_alone(compiled: Any, record: Any = None) -> None:
    """Makes AOTAutograd's result know its code, which takes a list of inputs, if the functions around it have nothing to do where
    gradients are off. `record`: of all that AOTAutograd made; None: `compiled` may have it."""
    if record is None and compiled.serialize is not None:
        record = compiled.serialize()
    if record is None or record.compiled_bw is not None or record.maybe_subclass_meta is not None:
        return
    about, code = record.runtime_metadata, compiled
    does_more = (
        about.num_mutated_inp_runtime_indices
        or about.mutated_graph_handled_indices_seen_by_autograd
        or about.num_outputs_aliased
        or about.num_intermediate_bases
        or about.is_rng_op_functionalized
        or about.tokens
        or about.grad_enabled_mutation is not None
        or any(getattr(wrapper, "needs_post_compile", True) for wrapper in record.dispatch_wrappers)
        or torch._C._is_any_autocast_enabled()
    )
    while hasattr(code, "__wrapped__"):
        code = code.__wrapped__
    if not does_more and isinstance(code, OutputCode):
        vars(compiled)[CODE_ALONE] = CodeAlone(code, marks_results=about.dynamic_outputs)


def compilers_settings() -> str:
    """A digest of the settings of torch's compilers that change what they make. A function among them (a pass of the program) is
    another one in each process."""
    found = hashlib.sha256()
    for module in (functorch_config, inductor_config):
        settings = dict(module.save_config_portable())
        settings.update({name: getattr(module, name) for name in module._save_config_ignore if "." not in name})
        found.update(repr(sorted(settings.items(), key=operator.itemgetter(0))).encode())
    return found.hexdigest()


class AsWritten(OutputCode):
    """A graph of AOTAutograd that runs operation by operation. Called with a list of inputs, which it empties."""

    def __init__(self, gm: fx.GraphModule) -> None:
        self.gm = gm
        self._boxed_call = True  # read from the object's own dict

    def __call__(self, inputs: Any) -> Any:
        args = list(inputs)
        inputs.clear()
        return self.gm.forward(*args)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise _NotForTorchsCaches

    def prepare_for_serialization(self) -> None:
        pass

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        pass

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        pass


class _Decompositions(dict[Any, Any]):
    """Decompositions, some of which no other process can be given. So torch does not write to its own cache what was compiled
    with them: it would fail at it, and log a warning."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise _NotForTorchsCaches


@contextlib.contextmanager
def _kept_for_files() -> Iterator[dict[str, str]]:
    """Makes AOTAutograd's result know all that it was made of, but for the settings, which it is to be given as attributes. What
    has gradients is then lowered at once, forward and backward, if `config.cache_dir` will want both; else the backward pass
    waits for its first use.

    torch's own cache is neither asked nor written to. Its key does not name the compiler, so that one could be given what another
    has made; and a graph that it pickles is traced again when it is read, which makes constants of what draws random numbers."""
    made_with = {"settings": compilers_settings()}
    # A backward pass that may overwrite saved values runs once, whatever `retain_graph` says.
    settings = {"bundled_autograd_cache": True, "bypass_autograd_cache_key": True, "donated_buffer": False}
    if config.cache_dir:
        settings["force_non_lazy_backward_lowering"] = True
    # Without a cache of FX graphs no key is computed, and one that no other compile has is taken.
    with functorch_config.patch(settings), inductor_config.patch(fx_graph_cache=False):
        yield made_with
