"""torch's global state while a frame is traced, and after.

The traced program's changes of grad mode, autocast and the like are really made while tracing, so that fake tensors are
computed under them, and are undone at the end of the trace. In the graph they are nodes, and the graph ends in the state in
which it began. The output code then sets the state in which the program goes on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import random
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch._dispatch.python import no_python_dispatcher
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.amp import autocast_mode
from torch.autograd import grad_mode

from tracer import _C, config
from tracer.effects.fake_modes import fake_mode
from tracer.effects.function_modes import are_traceable
from tracer.effects.switches import KEPT, Setting, Switch
from tracer.graph.operations import streams
from tracer.graph.operations.forward_ad import DualLevel
from tracer.graph_breaks import unsupported
from tracer.operators.kept_from_compilers import keep_from_compilers

if TYPE_CHECKING:
    from torch import fx

    from tracer.graph.output_graph import OutputGraph
    from tracer.protocol.tracer import ValueCodegen
    from tracer.protocol.variable import VariableTracker

_STATE_NODE = "torch_state"


def _autocast(device: str) -> list[Setting]:
    return [
        Setting(lambda: (device, torch.is_autocast_enabled(device)), torch.set_autocast_enabled),
        Setting(lambda: (device, torch.get_autocast_dtype(device)), torch.set_autocast_dtype),
    ]


def set_deterministic(mode: bool, warn_only: bool) -> None:
    torch.use_deterministic_algorithms(mode, warn_only=warn_only)


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


for _setter in (set_deterministic, torch.set_default_dtype):
    _C.never_trace(_setter.__code__)
keep_from_compilers(set_deterministic, sets_what_compilers_read=True)  # kernels read it too, when they run
_GRAD_MODE = Setting(lambda: (torch.is_grad_enabled(),), torch._C._set_grad_enabled)


SETTINGS: tuple[Setting, ...] = (
    _GRAD_MODE,
    *_autocast("cpu"),
    *_autocast("cuda"),
    Setting(_deterministic, set_deterministic),
    Setting(lambda: (torch.get_default_dtype(),), torch.set_default_dtype),
    *(switch.setting() for switch in KEPT),
    Setting(lambda: (torch.is_autocast_cache_enabled(),), torch.set_autocast_cache_enabled),
)
_FIRST_SWITCH = len(SETTINGS) - 1 - len(KEPT)
State = tuple[tuple[Any, ...], ...]


def read_state() -> State:
    return tuple([setting.read() for setting in SETTINGS])


def write_state(state: State) -> None:
    for setting, values in zip(SETTINGS, state):
        if setting.read() != values:
            setting.write(*values)


def operations_are_observed() -> bool:
    """Whether the program has a torch-dispatch mode, a transform of torch.func or `torch.jit.trace` active on this thread: it
    would see the tracer's own operations. A fake mode can be taken off meanwhile, where it is the only one. Also if dispatch to
    Python is off, which fake tensors need, if a level of forward AD is open, whose tangents fakes of inputs would lack, and below
    autograd, as in a `__torch_dispatch__` that CPython runs: a compiled graph would have gradients there."""
    if torch._C._get_tracing_state() is not None:
        return True
    if torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.Python):
        return True
    below_autograd = torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.AutogradFunctionality)
    if below_autograd and not torch.is_inference_mode_enabled():
        return True
    if torch._C._functorch.peek_interpreter_stack() is not None or _C.GlobalState().settings()["dual_level"]:
        return True
    if torch._C._len_torch_dispatch_stack() and fake_mode() is None:
        return True
    return not are_traceable()


@contextlib.contextmanager
def preserve_global_state(random_numbers: bool = True) -> Iterator[None]:
    """Around a whole trace, the backend included. `random_numbers`: restores the random generators too. All threads share these,
    so this must be off while other threads draw from them."""
    state = read_state()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    generators = _generators() if random_numbers else None
    try:
        with _no_saved_tensor_hooks():
            yield
    finally:
        write_state(state)
        torch._C._set_deterministic_algorithms(deterministic, warn_only=warn_only)
        if generators is not None:
            _set_generators(*generators)


def _generators() -> tuple[Any, torch.Tensor, list[torch.Tensor] | None]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    return random.getstate(), torch.random.get_rng_state(), cuda


def _set_generators(python: Any, cpu: torch.Tensor, cuda: list[torch.Tensor] | None) -> None:
    random.setstate(python)
    torch.random.set_rng_state(cpu)
    if cuda is not None:
        torch.cuda.set_rng_state_all(cuda)


def _no_saved_tensor_hooks() -> contextlib.AbstractContextManager[Any]:
    """Hides fake tensors from the user's hooks on tensors that autograd saves."""
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is None:
        return contextlib.nullcontext()
    found: contextlib.AbstractContextManager[Any] = torch.autograd.graph.saved_tensors_hooks(_identity, _identity)
    return found


def _identity(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


class _Silenced(threading.local, logging.Filter):
    """A filter for torch's log of operators that fail on fake tensors: such a failure is the program's error, or a graph
    break."""

    on = False

    def filter(self, record: logging.LogRecord) -> bool:
        return not self.on


_silenced = _Silenced()
logging.getLogger("torch._subclasses.fake_tensor").addFilter(_silenced)


# -- context managers that become a pair of nodes ------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ContextKind:
    """A context manager of torch or NumPy: entering and leaving it is one node each, where it is in the graph at all."""

    manager_enter: Callable[..., Any]
    manager_exit: Callable[..., Any]
    enter: Callable[..., Any]
    leave: Callable[[Any], None]
    attributes: tuple[str, ...]  # of the manager, in the order in which `enter` takes them
    in_graph: bool = True
    at_run_time: bool = False  # the trace enters nothing; its argument is a value of the graph


def _error_settings(everything: str | None, *single: str | None) -> dict[str, str]:
    """What np.errstate(all=everything, divide=..., ...) sets."""
    names = ("divide", "over", "under", "invalid")
    return {name: value for name, one in zip(names, single) if (value := one or everything) is not None}


NUMPY_ERRORS = ContextKind(  # what NumPy reports is no matter of torch's operations; calls of NumPy in the graph are told
    np.errstate.__enter__,
    np.errstate.__exit__,
    _error_settings,
    lambda entered: None,
    ("_all", "_divide", "_over", "_under", "_invalid"),
    in_graph=False,
)
CONTEXT_KINDS = (
    NUMPY_ERRORS,
    ContextKind(
        torch.inference_mode.__enter__,
        torch.inference_mode.__exit__,
        grad_mode._enter_inference_mode,
        grad_mode._exit_inference_mode,
        ("mode",),
    ),
    ContextKind(
        torch.autocast.__enter__,
        torch.autocast.__exit__,
        autocast_mode._enter_autocast,
        autocast_mode._exit_autocast,
        ("device", "fast_dtype", "_enabled", "_cache_enabled"),
    ),
    ContextKind(  # labels for a profiler, which change no operation
        torch.autograd.profiler.record_function.__enter__,
        torch.autograd.profiler.record_function.__exit__,
        lambda *attributes: None,
        lambda entered: None,
        (),
        in_graph=False,
    ),
)
STREAM_CONTEXTS = tuple(
    ContextKind(context.__enter__, context.__exit__, streams.entered, streams.left, (), at_run_time=True)
    for context in (torch.Stream, torch.cuda.StreamContext, torch.xpu.StreamContext, torch.cpu.StreamContext)
)
for _kind in (*CONTEXT_KINDS, *STREAM_CONTEXTS):  # output code calls these if the graph breaks inside of the context
    for _method in (_kind.manager_enter, _kind.manager_exit):
        if hasattr(_method, "__code__"):
            _C.never_trace(_method.__code__)
_OPEN_OBJECTS = (torch._C._InferenceMode, autocast_mode._UnmanagedAutocast, DualLevel)


@dataclasses.dataclass
class OpenContext:
    kind: ContextKind
    manager: VariableTracker
    node: fx.Node | None
    real: Any
    cache_before: bool
    step: int | None  # where the graph breaks if it may not end inside

    def leave(self) -> None:
        """Leaves what the trace has entered, if it has entered anything."""
        if not self.kind.at_run_time:
            self.kind.leave(self.real)


class TorchState:
    """The changes that the traced program has made to torch's state so far."""

    def __init__(self, output: OutputGraph) -> None:
        self.output = output
        self.open: list[OpenContext] = []
        self.cache_enabled = False  # autocast's cache, as the program sees it; it is really off, lest it keep casts of fakes
        self._before: State = ()
        self._after: State = ()
        self._inference = self._inference_after = False
        self._changed = False
        self.changes = 0  # how often a setting was changed, or a context entered or left
        self.left_open: list[OpenContext] = []  # at the end of the trace

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Around the trace of the program. Afterwards torch's state is as before, and so it is at the end of the graph."""
        self._before, self._inference = read_state(), torch.is_inference_mode_enabled()
        self.cache_enabled = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)
        self.read_settings()
        _silenced.on = True
        try:
            with torch._C.DisableTorchFunctionSubclass():  # the tracer reads tensors of the program, whose overrides must not run
                yield
        finally:
            _silenced.on = False
            self._after, self.left_open = self._read(), list(self.open)
            self._inference_after = torch.is_inference_mode_enabled()
            try:
                while self.open:
                    self.leave(self.open[-1])
                left = self._read()
            finally:
                while self.open:  # the graph could not be told of the end of an inner one
                    self.open.pop().leave()
                write_state(self._before)
        self._restore_in_graph(left)

    def read_settings(self) -> None:
        """Fakes are computed under the settings of the tracer that hold now."""
        shape_env = self.output.world.torch_env
        shape_env.allow_scalar_outputs = config.capture_scalar_outputs
        shape_env.allow_dynamic_output_shape_ops = config.capture_dynamic_output_shape_ops

    @contextlib.contextmanager
    def as_at_entry(self) -> Iterator[None]:
        """Within, torch's state is that in which the frame began. Guards on inputs are made in that state."""
        transformed = torch._C._functorch.peek_interpreter_stack() is not None
        if not self._changed and not transformed:
            yield
            return
        now = read_state()
        with torch._C._InferenceMode(self._inference), no_python_dispatcher(), temporarily_clear_interpreter_stack():
            write_state(self._before)
            try:
                yield
            finally:
                write_state(now)
        write_state(now)

    def at_entry(self, switch: Switch) -> Any:
        """What a switch was when the frame began."""
        return self._before[_FIRST_SWITCH + KEPT.index(switch)][0]

    @property
    def after(self) -> tuple[State, bool]:
        """The settings with which the program goes on after the trace, and whether it does so in inference mode."""
        return self._after, self._inference_after

    @property
    def changed(self) -> bool:
        """Whether the program has changed any setting, even if it has changed it back."""
        return self._changed

    @property
    def on_another_stream(self) -> bool:
        """Whether the program has made another stream the current one."""
        return any(context.kind.at_run_time for context in self.open)

    def repeatable(self) -> Callable[[], contextlib.AbstractContextManager[None]] | None:
        """What sets the state that the program is in for the time of a block, outside of the trace; None where the program has
        opened other contexts than autocast."""
        if any(context.kind.enter is not autocast_mode._enter_autocast for context in self.open):
            return None
        now = self._read()

        @contextlib.contextmanager
        def state() -> Iterator[None]:
            before = read_state()
            write_state(now)
            try:
                yield
            finally:
                write_state(before)

        return state

    def _read(self) -> State:
        return (*read_state()[:-1], (self.cache_enabled,))

    # -- nodes -----------------------------------------------------------------------------------------------------

    def change(self, function: Callable[..., Any], *args: Any) -> None:
        """Changes a setting now and in the graph."""
        self.output.refuse_on_trial()
        self.changes += 1
        before = _GRAD_MODE.read()
        function(*args)
        if function is _GRAD_MODE.write:
            self._change_grad_mode(before, args)
        else:
            self._add_node(function, args)

    def _change_grad_mode(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
        """Adds a node if the mode really changes. Of several changes with no operation in between only the last one is kept."""
        last = next(iter(reversed(self.output.graph.nodes)), None)
        if last is not None and last.target is _GRAD_MODE.write and _STATE_NODE in last.meta:
            before = last.meta["grad_mode_before"]
            self.output.graph.erase_node(last)
        if before != after:
            self._add_node(_GRAD_MODE.write, after).meta["grad_mode_before"] = before

    def numpy_errors(self) -> dict[str, str]:
        """The settings of `np.seterr` where the program is now: those at the entry, and those of each np.errstate entered."""
        entered = [context.real for context in self.open if context.kind is NUMPY_ERRORS]
        settings: Any = np.geterr()
        return dict(settings, **{name: value for each in entered for name, value in each.items()})

    def set_cache_enabled(self, enabled: bool) -> None:
        self.output.refuse_on_trial()
        self.cache_enabled = enabled
        self.changes += 1
        self._add_node(torch.set_autocast_cache_enabled, (enabled,))

    def enter(self, kind: ContextKind, manager: VariableTracker, args: tuple[Any, ...] | None, step: int | None = None) -> None:
        """`args`: None for a manager that does nothing. `step`: where the graph breaks if it may not end inside."""
        self.output.refuse_on_trial()
        self.changes += 1
        example = streams.RuntimeObject(manager.python_type()) if kind.at_run_time else None
        node = self._add_node(kind.enter, args, example) if kind.in_graph and args is not None else None
        real = None if kind.at_run_time or args is None else kind.enter(*args)
        context = OpenContext(kind, manager, node, real, self.cache_enabled, step)
        if kind.enter is autocast_mode._enter_autocast and args is not None:
            self.cache_enabled = args[-1]
            torch.set_autocast_cache_enabled(False)
        self.open.append(context)

    def leave(self, context: OpenContext) -> None:
        """Leaves the innermost context."""
        self.output.refuse_on_trial()
        if self.open.pop() is not context:
            unsupported("with-block", value="a context that is left while an inner one is open")
        context.leave()
        self.cache_enabled = context.cache_before
        if context.node is not None:
            self._add_node(context.kind.leave, (context.node,))

    def _add_node(self, function: Callable[..., Any], args: tuple[Any, ...], example: Any = None) -> fx.Node:
        node = self.output.create_node("call_function", function, args, {}, example)
        node.meta[_STATE_NODE] = True
        self._changed = True
        return node

    def _restore_in_graph(self, left: State) -> None:
        """Adds nodes that restore the state in which the graph began; without other operations, removes all nodes that change
        it."""
        for setting, before, after in zip(SETTINGS, self._before, left):
            if before != after and setting is _GRAD_MODE:
                self._change_grad_mode(after, before)
            elif before != after:
                self._add_node(setting.write, before)
        operations = [n for n in self.output.graph.nodes if n.op != "placeholder" and not n.meta.get("pure")]
        if all(node.meta.get(_STATE_NODE) for node in operations):
            for node in reversed(operations):
                self.output.graph.erase_node(node)

    def in_graph(self) -> bool:
        return any(node.meta.get(_STATE_NODE) and not streams.is_opening(node) for node in self.output.graph.nodes)

    # -- code ------------------------------------------------------------------------------------------------------

    def emit(self, cg: ValueCodegen) -> None:
        """Emits code that sets the state in which the program goes on."""
        if self.left_open or self._before != self._after:
            cg.fallback = None
        for context in self.left_open:
            cg.call_object(context.kind.manager_enter, functools.partial(cg.load, context.manager))
            cg.asm.pop()
        for setting, before, after in zip(SETTINGS, self._before, self._after):
            if before != after or self.left_open:
                cg.call_object(setting.write, *(functools.partial(cg.load_const, value) for value in after))
                cg.asm.pop()


def restoring_state(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a graph that changes torch's state: if it raises, contexts that it has entered are left and the state is restored."""

    def run_graph(*args: Any) -> Any:
        state = read_state()
        try:
            return compiled(*args)
        except BaseException as error:
            _leave_open_contexts(error.__traceback__)
            write_state(state)
            raise

    _C.never_trace(run_graph.__code__)
    return run_graph


def on_plain_tensors(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a graph with inputs of tensor subclasses. Their torch-function overrides were traced through, so the graph gets plain
    tensors instead; wrapper subclasses (with torch-dispatch) are passed as they are."""

    def run_graph(*args: Any) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return compiled(*[_plain_tensor(arg) for arg in args])

    for function in (run_graph, _plain_tensor):
        _C.never_trace(function.__code__)
    return run_graph


def _plain_tensor(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or type(value) in (torch.Tensor, torch.nn.Parameter):
        return value
    if type(value).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return value
    with torch.enable_grad():
        return value.as_subclass(torch.Tensor)


def _leave_open_contexts(traceback: TracebackType | None) -> None:
    """Leaves the contexts that a graph has entered. They are found in the locals of its frame, in the order of entering, or in
    the list of values that its pieces hand on."""
    entered: list[Any] = []
    while traceback is not None:
        for value in traceback.tb_frame.f_locals.values():
            entered += [each for each in (value if type(value) is list else (value,)) if type(each) in _OPEN_OBJECTS]
        traceback = traceback.tb_next
    for context in reversed({id(context): context for context in entered}.values()):
        context.__exit__(None, None, None)
