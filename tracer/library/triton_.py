"""Launches of Triton kernels: each is one operation of the graph (`graph.kernel_launches`).

Grids that are functions, and heuristics, are traced: once for each configuration of an autotuned kernel, as Triton calls them
with the values of that. Arguments that are compile-time constants of the kernel are constants of the trace. What torch's operator
for a launch cannot say breaks the graph where a backend compiles it.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import torch

from tracer.compat_torch.triton_kernels import written_arguments
from tracer.graph.fakes.fake_tensors import storage_of
from tracer.graph.kernel_launches import Form, Launch, name_of_kernel
from tracer.graph_breaks import unsupported
from tracer.guards.identity import IdMatch
from tracer.operators.apart import are_apart
from tracer.protocol.models import models, named_models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.sequence_base import SequenceVariable
from tracer.variables.objects.triton_kernels import CompiledKernelVariable, KernelVariable, launch
from tracer.variables.tensors.tensor import TensorVariable, writing
from tracer.variables.values.constant import ConstantVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker
_IN_CONFIGURATIONS = ("num_warps", "num_stages")  # options of a launch that torch's operator takes as those of a configuration
_OF_CONFIGURATIONS = (*_IN_CONFIGURATIONS, "num_ctas", "maxnreg")
_HOOKS = ("user_defined_pre_hook", "user_defined_post_hook")


@models.of_plain_tensors(launch)
def _launch(tx: Tracer, kernel: KernelVariable, grid: Value, /, *args: Value, **kwargs: Value) -> Value:
    call = _Call(tx, kernel)
    while _is(kernel, "Heuristics"):  # these are asked before anything else
        kwargs |= call.heuristics(kernel, dict(zip(kernel.value.arg_names, args)) | kwargs)
        kernel = call.inner(kernel)
    return call.record(kernel, grid, args, kwargs)


def _is(kernel: KernelVariable, name: str) -> bool:
    return kernel.cls.__name__ == name


class _Bound(NamedTuple):
    """The arguments of a launch: those that the program gives, by name, and those of the kernel's function that it leaves out."""

    form: Form
    given: dict[str, Value]
    defaults: dict[str, Value]

    @property
    def all(self) -> dict[str, Value]:
        return self.given | self.defaults


class _Call:
    """One launch."""

    def __init__(self, tx: Tracer, kernel: KernelVariable) -> None:
        self.tx = tx
        self.name = name_of_kernel(kernel.value)
        self.refusal: str | None = None  # why compilers are not given it
        if torch._C._are_functorch_transforms_active():
            self.refuse("it is launched under a transform of torch.func")

    def refuse(self, why: str) -> NoReturn:
        unsupported("kernel-launch", kernel=self.name, why=why)

    def inner(self, kernel: KernelVariable) -> KernelVariable:
        """The kernel that a decorator was put around."""
        inner = kernel.get_attr(self.tx, "fn")
        if not isinstance(inner, KernelVariable):
            self.refuse(f"it is of class {kernel.value.fn.__class__.__qualname__}")
        return inner

    def heuristics(self, kernel: KernelVariable, arguments: dict[str, Value]) -> dict[str, Value]:
        """The arguments that a heuristic computes from the others."""
        found: dict[str, Value] = {}
        functions = kernel.get_attr(self.tx, "values")
        for name in kernel.value.values:
            function = functions.get_item(self.tx, self.tx.literal(name))
            found[name] = function.call(self.tx, [self.tx.new_dict(arguments | found)], {})
        return found

    # -- the call as a whole -------------------------------------------------------------------------------------

    def record(self, kernel: KernelVariable, grid: Value, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
        tuner = kernel if _is(kernel, "Autotuner") else None
        layers = [] if tuner is None else [self.inner(tuner)]
        while layers and _is(layers[-1], "Heuristics"):
            layers.append(self.inner(layers[-1]))
        function = layers[-1] if layers else kernel
        if not _is(function, "JITFunction"):
            self.refuse(f"it is of class {function.cls.__qualname__}")
        set_by_tuner = set() if tuner is None else self._set_by_tuner(tuner, layers[:-1], kwargs)
        bound = self._bind(function.value, args, kwargs, set_by_tuner)
        options = {name: self.constant(name, bound.given.pop(name)) for name in kwargs if name not in function.value.arg_names}
        if tuner is None:
            lowered = self._with_options(function.value, options, bound)
        else:
            lowered = self._tuned(tuner, layers[:-1], function.value, bound)
        grids = self._grids(grid, getattr(lowered, "configs", [None]), function.value, bound)
        return self._add(kernel, lowered, function.value, grids, bound, options)

    def _add(
        self, kernel: KernelVariable, lowered: Any, function: Any, grids: tuple[Any, ...], bound: _Bound, options: dict[str, Any]
    ) -> Value:
        tx, arguments = self.tx, bound.all
        tensors = {name: value for name, value in arguments.items() if isinstance(value, TensorVariable)}
        numbers = {name: value for name, value in arguments.items() if isinstance(value, SymNodeVariable)}
        constants = {name: value.constant() for name, value in arguments.items() if name not in tensors | numbers}
        dtypes = {name: tensor.fake.dtype for name, tensor in tensors.items()}
        written = set(written_arguments(lowered, constants, dtypes, tuple(numbers)))
        for changed in ("reset_to_zero", "restore_value"):
            written.update(getattr(kernel.value, changed, None) or ())
        if not tx.output.runs_as_written:
            self._refuse_for_compilers(lowered, constants, tensors, written)
        names = (*tensors, *numbers)
        target = Launch(kernel.value, lowered, bound.form, names, constants | options, frozenset(written & tensors.keys()))
        values = tuple([arguments[name].graph_arg() for name in names])
        with writing(tx, *(tensors[name] for name in target.written)):
            tx.output.call_function(target, (grids, *values), {})
        return CompiledKernelVariable()

    def _refuse_for_compilers(
        self, lowered: Any, constants: dict[str, Any], tensors: Mapping[str, TensorVariable], written: set[str]
    ) -> None:
        """Breaks the graph where torch's operator cannot say what the program does, where Inductor could not write it down, or
        where these make another result of it: they give the kernel a copy of each tensor that it writes to."""
        configs = getattr(lowered, "configs", [])
        values = [*constants.values(), *(value for config in configs for value in config.kwargs.values())]
        if not all(_is_plain(value) for value in values):
            self.refusal = "its constants are more than numbers, strings and dtypes"
        if len(configs) > 1 and any(isinstance(value, str) for config in configs for value in config.kwargs.values()):
            self.refusal = "its configurations have strings"
        if self.refusal is not None:
            self.refuse(self.refusal)
        for name in written & tensors.keys():
            mine = tensors[name].fake
            for other, tensor in tensors.items():
                if other == name or storage_of(tensor.fake) != storage_of(mine):
                    continue
                if other in written or tensor.fake is not mine and not are_apart(tensor.fake, mine):
                    self.refuse(f"its arguments {name} and {other} share memory that it writes to, which compilers do not see")

    # -- arguments -----------------------------------------------------------------------------------------------

    def _bind(self, function: Any, args: tuple[Value, ...], kwargs: dict[str, Value], set_by_tuner: set[str]) -> _Bound:
        parameters = {parameter.name: parameter for parameter in function.params}
        positional = tuple(parameters)[: len(args)]
        if len(args) > len(parameters) or kwargs.keys() & {*positional}:
            self.refuse("its arguments do not fit its signature")
        given = dict(zip(positional, args)) | kwargs
        bound = {
            name: self.argument(name, value, name in parameters and not parameters[name].is_constexpr)
            for name, value in given.items()
        }
        missing = [each for name, each in parameters.items() if name not in given and name not in set_by_tuner]
        if not all(parameter.has_default for parameter in missing):
            self.refuse("its arguments do not fit its signature")
        defaults: dict[str, Value] = {parameter.name: ConstantVariable(parameter.default) for parameter in missing}
        return _Bound(Form(positional, tuple(kwargs)), bound, defaults)

    def argument(self, name: str, value: Value, may_vary: bool) -> Value:
        """An argument as the kernel is given it: a plain tensor, a number, or a constant."""
        if may_vary and isinstance(value, TensorVariable):
            if type(value) is not TensorVariable or value.cls not in (torch.Tensor, torch.nn.Parameter):
                self.refuse(f"its argument {name} is a {value.cls.__qualname__}")
            return value
        if may_vary and isinstance(value, SymNodeVariable) and value.python_type() is not bool:
            return value
        return ConstantVariable(self.constant(name, value))

    def constant(self, name: str, value: Value) -> Any:
        """The value of a compile-time constant, which is guarded."""
        if isinstance(value, SymNodeVariable):
            return value.specialize(self.tx).value
        if value.is_constant():
            return value.constant()
        if isinstance(value, SequenceVariable) and value.cls is tuple:
            return tuple([self.constant(name, item) for item in value.items(self.tx)])
        real = value.identity()
        if isinstance(value, TensorVariable) or isinstance(real, VariableTracker) or value.source is None:
            self.refuse(f"its argument {name} is {value.describe()}")
        self.tx.guard(IdMatch(value.source, real))
        return real

    # -- configurations ------------------------------------------------------------------------------------------

    def _set_by_tuner(self, tuner: KernelVariable, heuristics: list[KernelVariable], kwargs: dict[str, Value]) -> set[str]:
        """The names of the arguments that configurations and heuristics give."""
        configs = tuner.value.configs
        if any(getattr(tuner.value, hook, False) for hook in _HOOKS) or any(config.pre_hook is not None for config in configs):
            self.refuse("its configurations have hooks, which run code of the program at each launch")
        if tuner.value.early_config_prune is not None or tuner.value.perf_model is not None:
            self.refusal = "its configurations are chosen by a function of the program"
        names = {name for config in configs for name in config.all_kwargs()}
        names.update(name for each in heuristics for name in each.value.values)
        if names & kwargs.keys():
            self.refuse("an argument is given that its configurations set")
        return names

    def _with_options(self, function: Any, options: dict[str, Any], bound: _Bound) -> Any:
        """The kernel with options of this launch as its only configuration."""
        named = {name: bound.given[name].constant() for name in _OF_CONFIGURATIONS if name in bound.given}
        set_by_launch = options | named
        if not set_by_launch:
            return function
        if set_by_launch.keys() - {*_IN_CONFIGURATIONS}:
            self.refusal = f"it is launched with the options {', '.join(set_by_launch)}"
            return function
        return _autotuned(function, [_triton().Config(named, **set_by_launch)], None)

    def _tuned(self, tuner: KernelVariable, heuristics: list[KernelVariable], function: Any, bound: _Bound) -> Any:
        """The autotuned kernel, with what heuristics and parameters take from each configuration among its values."""
        configs = []
        for config in tuner.value.configs:
            values = {name: value for name, value in config.all_kwargs().items() if name in (*config.kwargs, *function.arg_names)}
            known = bound.given | {name: ConstantVariable(value) for name, value in config.all_kwargs().items()}
            for each in heuristics:
                found = self.heuristics(each, known)
                known |= found
                values |= {name: self.constant(name, value) for name, value in found.items()}
            changed = copy.copy(config)
            changed.kwargs = values
            configs.append(changed)
        if all(old.kwargs == new.kwargs for old, new in zip(tuner.value.configs, configs)) and not heuristics:
            return tuner.value
        return _autotuned(function, configs, tuner.value)

    # -- the grid ------------------------------------------------------------------------------------------------

    def _grids(self, grid: Value, configs: list[Any], function: Any, bound: _Bound) -> tuple[Any, ...]:
        if isinstance(grid, SequenceVariable):
            return (self._sizes(grid),)
        found = []
        for config in configs:
            values = {} if config is None else {name: ConstantVariable(value) for name, value in config.kwargs.items()}
            known = bound.all | values
            meta = self.tx.new_dict({name: known[name] for name in function.arg_names if name in known})
            found.append(self._sizes(grid.call(self.tx, [meta], {})))
        return tuple(found)

    def _sizes(self, grid: Value) -> tuple[Any, ...]:
        sizes = grid.items(self.tx) if isinstance(grid, SequenceVariable) else []
        if not 1 <= len(sizes) <= 3 or any(size.python_type() is not int for size in sizes):
            self.refuse("its grid is no tuple of one to three ints")
        return tuple([size.graph_arg() for size in sizes])


def _is_plain(value: Any) -> bool:
    """Whether a constant of a kernel can be written down as code."""
    return value is None or type(value) in (bool, int, float, str) or type(value) is _triton().language.dtype


def _triton() -> Any:
    return sys.modules["triton"]


def _autotuned(function: Any, configs: list[Any], like: Any) -> Any:
    """A kernel with these configurations, and the other settings of `like`, an autotuned one."""
    settings = {name: getattr(like, name) for name in ("reset_to_zero", "restore_value")} if like is not None else {}
    return _triton().autotune(configs, list(like.keys) if like is not None else [], **settings)(function)


# -- functions of the host ---------------------------------------------------------------------------------------------


@named_models("triton.next_power_of_2")
def _next_power_of_2(tx: Tracer, n: Value) -> Value:
    """Of a size, it is a constant, as the blocks of a kernel are: a guard admits the sizes up to it and above the last one."""
    hint = n.example.node.hint if isinstance(n, SymNodeVariable) and n.python_type() is int and not n.depends_on_data() else 0
    if not isinstance(n, SymNodeVariable) or not 1 <= hint <= 1 << 30:
        value = n.specialize(tx).value if isinstance(n, SymNodeVariable) else n.constant()
        return tx.literal(_triton().next_power_of_2(value))
    power = 1 << (hint - 1).bit_length()
    n.stays_within(power // 2 + 1, power)
    return ConstantVariable(power)


@models.of_plain_tensors(torch.library.wrap_triton)
def _wrap_triton(tx: Tracer, kernel: Value) -> Value:
    """What torch's tracers need around a kernel is not needed here."""
    if not isinstance(kernel, KernelVariable):
        unsupported("unsupported-call", value=f"wrap_triton of {kernel.describe()}")
    return kernel
