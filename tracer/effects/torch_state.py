"""torch's global state while a frame is traced, and after.

The traced program's changes of grad mode, autocast and the like are made for real while tracing, so that fakes are worked
out under them, and undone at the end of the trace. The graph holds them as nodes and ends in the state that it began in;
the output code then sets the state in which the program goes on.
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

import torch
from torch._dispatch.python import no_python_dispatcher
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.amp import autocast_mode
from torch.autograd import grad_mode
from torch.utils._device import DeviceContext

from tracer import _C, config
from tracer.graph_breaks import unsupported

if TYPE_CHECKING:
    from torch import fx

    from tracer.graph.output_graph import OutputGraph
    from tracer.protocol.tracer import ValueCodegen
    from tracer.protocol.variable import VariableTracker

_STATE_NODE = "torch_state"


@dataclasses.dataclass(frozen=True)
class Setting:
    """A part of the state: `write(*read())` changes nothing."""

    read: Callable[[], tuple[Any, ...]]
    write: Callable[..., Any]


def _autocast(device: str) -> list[Setting]:
    return [
        Setting(lambda: (device, torch.is_autocast_enabled(device)), torch.set_autocast_enabled),
        Setting(lambda: (device, torch.get_autocast_dtype(device)), torch.set_autocast_dtype),
    ]


def set_deterministic(mode: bool, warn_only: bool) -> None:
    torch.use_deterministic_algorithms(mode, warn_only=warn_only)


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


_C.never_trace(set_deterministic.__code__)
_GRAD_MODE = Setting(lambda: (torch.is_grad_enabled(),), torch._C._set_grad_enabled)
SETTINGS: tuple[Setting, ...] = (
    _GRAD_MODE,
    *_autocast("cpu"),
    *_autocast("cuda"),
    Setting(_deterministic, set_deterministic),
    Setting(lambda: (torch.is_autocast_cache_enabled(),), torch.set_autocast_cache_enabled),
)
State = tuple[tuple[Any, ...], ...]


def read_state() -> State:
    return tuple([setting.read() for setting in SETTINGS])


def write_state(state: State) -> None:
    for setting, values in zip(SETTINGS, state):
        if setting.read() != values:
            setting.write(*values)


def shows_operations() -> bool:
    """Whether somebody on this thread is shown every operation and may change it: a torch-dispatch or torch-function mode
    of the program's, a transform of torch.func. Tracing would show them its own. Nor are fakes told from tensors where
    dispatch to Python is switched off."""
    if torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.Python):
        return True
    if torch._C._len_torch_dispatch_stack() or torch._C._functorch.peek_interpreter_stack() is not None:
        return True
    return has_function_modes()


def has_function_modes() -> bool:
    """Whether a torch-function mode of the program's is active; a default device is none."""
    modes = map(torch._C._get_function_stack_at, range(torch._C._len_torch_function_stack()))
    return any(type(mode) is not DeviceContext for mode in modes)


@contextlib.contextmanager
def preserve_global_state(random_numbers: bool = True) -> Iterator[None]:
    """Around all that tracing runs, the backend included. `random_numbers`: also the generators, which all threads share: what
    others draw meanwhile would be drawn again."""
    state = read_state()
    dtype = torch.get_default_dtype()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    generators = _generators() if random_numbers else None
    try:
        with _no_saved_tensor_hooks():
            yield
    finally:
        write_state(state)
        torch.set_default_dtype(dtype)
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
    """The user's hooks on what autograd saves are not to see fakes."""
    if torch._C._autograd._top_saved_tensors_default_hooks(True) is None:
        return contextlib.nullcontext()
    found: contextlib.AbstractContextManager[Any] = torch.autograd.graph.saved_tensors_hooks(_itself, _itself)
    return found


def _itself(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


class _Quiet(threading.local, logging.Filter):
    """torch logs operators that fail on fakes as errors of its own; here they are the traced program's, or a break."""

    on = False

    def filter(self, record: logging.LogRecord) -> bool:
        return not self.on


_quiet = _Quiet()
logging.getLogger("torch._subclasses.fake_tensor").addFilter(_quiet)


# -- contexts that are one object between entering and leaving -----------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ContextKind:
    """A context manager of torch whose two halves are one node each."""

    manager_enter: Callable[..., Any]
    manager_exit: Callable[..., Any]
    enter: Callable[..., Any]
    leave: Callable[[Any], None]
    attributes: tuple[str, ...]  # of the manager, in the order in which `enter` takes them
    in_graph: bool = True


CONTEXT_KINDS = (
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
    ContextKind(  # what a profiler shows beside operations changes none of them
        torch.autograd.profiler.record_function.__enter__,
        torch.autograd.profiler.record_function.__exit__,
        lambda *attributes: None,
        lambda entered: None,
        (),
        in_graph=False,
    ),
)
for _kind in CONTEXT_KINDS:  # where the graph breaks inside of one, CPython runs these
    _C.never_trace(_kind.manager_enter.__code__)
    _C.never_trace(_kind.manager_exit.__code__)
_OPEN_OBJECTS = (torch._C._InferenceMode, autocast_mode._UnmanagedAutocast)


@dataclasses.dataclass
class OpenContext:
    kind: ContextKind
    manager: VariableTracker
    node: fx.Node | None
    real: Any
    cache_before: bool


class TorchState:
    """What the traced program did to the state so far."""

    def __init__(self, output: OutputGraph) -> None:
        self.output = output
        self.open: list[OpenContext] = []
        self.cache_enabled = False  # of autocast; for real it is off, so that casts of fakes are not remembered
        self._before: State = ()
        self._after: State = ()
        self._inference = False
        self._changed = False
        self._reopen: list[OpenContext] = []

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Within, the program is traced; afterwards the state is as before, and so it is at the end of the graph."""
        self._before, self._inference = read_state(), torch.is_inference_mode_enabled()
        self.cache_enabled = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)
        shape_env = self.output.world.torch_env
        shape_env.allow_scalar_outputs = config.capture_scalar_outputs
        shape_env.allow_dynamic_output_shape_ops = config.capture_dynamic_output_shape_ops
        _quiet.on = True
        try:
            with torch._C.DisableTorchFunctionSubclass():  # of the frame's own tensors, which are looked at
                yield
        finally:
            _quiet.on = False
            self._after, self._reopen = self._read(), list(self.open)
            while self.open:
                self.leave(self.open[-1])
            left = self._read()
            write_state(self._before)
        self._balance(left)

    @contextlib.contextmanager
    def as_at_entry(self) -> Iterator[None]:
        """Within, the state is that in which the frame began: guards on inputs are made under it."""
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

    @property
    def changed(self) -> bool:
        """Whether the program has changed something, and may have changed it back."""
        return self._changed

    def _read(self) -> State:
        return (*read_state()[:-1], (self.cache_enabled,))

    # -- nodes -----------------------------------------------------------------------------------------------------

    def change(self, function: Callable[..., Any], *args: Any) -> None:
        """Changes a setting now and in the graph."""
        self.output.refuse_on_trial()
        before = _GRAD_MODE.read()
        function(*args)
        if function is _GRAD_MODE.write:
            self._change_grad_mode(before, args)
        else:
            self._add_node(function, args)

    def _change_grad_mode(self, before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
        """A node where the mode really changes: of changes with no operation between them the last one counts."""
        last = next(iter(reversed(self.output.graph.nodes)), None)
        if last is not None and last.target is _GRAD_MODE.write and _STATE_NODE in last.meta:
            before = last.meta["grad_mode_before"]
            self.output.graph.erase_node(last)
        if before != after:
            self._add_node(_GRAD_MODE.write, after).meta["grad_mode_before"] = before

    def set_cache_enabled(self, enabled: bool) -> None:
        self.output.refuse_on_trial()
        self.cache_enabled = enabled
        self._add_node(torch.set_autocast_cache_enabled, (enabled,))

    def enter(self, kind: ContextKind, manager: VariableTracker, args: tuple[Any, ...]) -> None:
        self.output.refuse_on_trial()
        node = self._add_node(kind.enter, args) if kind.in_graph else None
        context = OpenContext(kind, manager, node, kind.enter(*args), self.cache_enabled)
        if kind.enter is autocast_mode._enter_autocast:
            self.cache_enabled = args[-1]
            torch.set_autocast_cache_enabled(False)
        self.open.append(context)

    def leave(self, context: OpenContext) -> None:
        """Leaves the innermost context."""
        self.output.refuse_on_trial()
        if self.open.pop() is not context:
            unsupported("with-block", value="a context that is left while an inner one is open")
        context.kind.leave(context.real)
        self.cache_enabled = context.cache_before
        if context.node is not None:
            self._add_node(context.kind.leave, (context.node,))

    def _add_node(self, function: Callable[..., Any], args: tuple[Any, ...]) -> fx.Node:
        node = self.output.create_node("call_function", function, args, {}, None)
        node.meta[_STATE_NODE] = True
        self._changed = True
        return node

    def _balance(self, left: State) -> None:
        """The graph ends in the state that it began in; without other operations it does not touch the state at all."""
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
        return any(node.meta.get(_STATE_NODE) for node in self.output.graph.nodes)

    # -- code ------------------------------------------------------------------------------------------------------

    def emit(self, cg: ValueCodegen) -> None:
        """Emits code that brings the state to where the program left it."""
        if self._reopen or self._before != self._after:
            cg.start_over = None
        for context in self._reopen:
            cg.call_object(context.kind.manager_enter, functools.partial(cg.load, context.manager))
            cg.asm.pop()
        for setting, before, after in zip(SETTINGS, self._before, self._after):
            if before != after or self._reopen:
                cg.call_object(setting.write, *(functools.partial(cg.load_const, value) for value in after))
                cg.asm.pop()


def restoring(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """A graph that changes the state and may raise half-way: `with` blocks that it was in are left then."""

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


def plainly(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """A graph some of whose inputs are of subclasses of tensors: their overrides were traced through, and it is given
    plain tensors, and wrappers as they are."""

    def run_graph(*args: Any) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return compiled(*[_plain(arg) for arg in args])

    for function in (run_graph, _plain):
        _C.never_trace(function.__code__)
    return run_graph


def _plain(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or type(value) in (torch.Tensor, torch.nn.Parameter):
        return value
    if type(value).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return value
    with torch.enable_grad():
        return value.as_subclass(torch.Tensor)


def _leave_open_contexts(traceback: TracebackType | None) -> None:
    """Contexts that a graph has entered lie in the locals of its frame, in the order of entering."""
    entered: list[Any] = []
    while traceback is not None:
        entered += [value for value in traceback.tb_frame.f_locals.values() if type(value) in _OPEN_OBJECTS]
        traceback = traceback.tb_next
    for context in reversed({id(context): context for context in entered}.values()):
        context.__exit__(None, None, None)
