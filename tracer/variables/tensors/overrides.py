"""Tensors whose class overrides torch's functions, and which overrides are enabled at each point of the trace."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from tracer import _C
from tracer.graph.fakes.wrapper_fakes import WrapperFake
from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import MISSING, defines, is_data_descriptor, lookup
from tracer.protocol.variable import VariableTracker
from tracer.sources.reading import is_a
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.functions.callables import BoundMethodVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.slots import UNARY_DUNDER
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import NONE
from tracer.variables.values.special_results import checked_iterator, checked_length

if TYPE_CHECKING:
    from torch import fx

    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source

DISABLED = torch._C._disabled_torch_function_impl
_TORCH_CLASSES = (torch.Tensor, torch._C.TensorBase, torch.nn.Parameter, object)
_METACLASSES = (type(torch.Tensor), type(torch.nn.Parameter))
_CUSTOM = ("__getattribute__", "__setattr__", "__delattr__", "__getattr__")


class OverrideState:
    """The modes that are on, at the entry or pushed by the traced program, and which overrides are disabled (1: those of
    arguments, 2: also modes)."""

    def __init__(self) -> None:
        self.modes: list[VariableTracker] = []
        self.at_entry: tuple[VariableTracker, ...] = ()  # those of them that are on where the frame is called
        self.met_subclass = False
        self.refused = False  # whether overrides break the graph, see `refusing`
        self.disabled = _level()
        self.switches: list[VariableTracker] = []  # entered by the traced program

    def begin(self, modes: list[VariableTracker]) -> None:
        """Says which modes are on where the frame is called, outermost first."""
        self.modes, self.at_entry = modes, tuple(modes)

    def note_subclass(self) -> None:
        """Records that a tensor subclass was met, whose operations may be overridden."""
        self.met_subclass = True

    def note_class(self, cls: type) -> None:
        """Like `note_subclass`, for a class with its own `__torch_dispatch__`, which may override functions as well."""
        self.met_subclass |= overrides_functions(cls)

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """While entered, overrides break the graph: they are enabled here, but disabled when the graph runs the traced code."""
        before, self.refused = self.refused, self.refused or self.disabled == 0
        try:
            yield
        finally:
            self.refused = before

    @contextlib.contextmanager
    def switched(self, on: bool) -> Iterator[None]:
        """While entered, overrides of arguments are asked, or are disabled; they are not refused."""
        before = self.refused, self.disabled
        self.refused, self.disabled = False, 0 if on else 1
        try:
            yield
        finally:
            self.refused, self.disabled = before

    def restore(self, level: int) -> None:
        """Sets the level up to which overrides are disabled."""
        self.disabled = level

    @property
    def active(self) -> bool:
        return self.met_subclass or bool(self.modes)

    def concerns(self, other: VariableTracker) -> bool:
        """Whether an operator of a tensor with another operand may be overridden."""
        return self.active or _has_override(other)

    def asks_modes(self) -> bool:
        return bool(self.modes) and self.disabled < 2

    def is_overriding(self, value: VariableTracker) -> bool:
        """Whether a value's class overrides torch's functions at this point of the trace."""
        if self.refuses(value):
            self.refuse(value)
        return not self.disabled and _overrides(value)

    def refuses(self, value: VariableTracker) -> bool:
        """Whether an override of a value's class breaks the graph at this point of the trace."""
        return self.refused and not self.disabled and _overrides(value) and not _is_default(value.python_type())

    def refuse(self, value: VariableTracker) -> NoReturn:
        unsupported("tensor-subclass", cls=value.python_type().__qualname__, source="in the __torch_dispatch__ of another")

    def is_listed(self, value: VariableTracker) -> bool:
        """Whether the class of a relevant argument of `handle_torch_function` is among the `types` that overrides are given."""
        return self.is_overriding(value) or (not self.disabled and value.python_type() is torch.Tensor)

    @contextlib.contextmanager
    def without_top_mode(self) -> Iterator[VariableTracker]:
        """Takes the top mode off the stack while it is called, as torch does."""
        mode = self.modes.pop()
        before = len(self.modes)
        try:
            yield mode
        finally:
            if len(self.modes) < before:
                unsupported("with-block", value="a mode that leaves other modes")
            self.modes.insert(before, mode)

    @contextlib.contextmanager
    def without_arguments(self) -> Iterator[None]:
        """Disables the overrides of arguments while entered, as torch._C.DisableTorchFunctionSubclass does."""
        before = self.disable(1)
        try:
            yield
        finally:
            self.disabled = before

    def disable(self, level: int) -> int:
        """Disables overrides up to at least `level`. Returns the level before."""
        before, self.disabled = self.disabled, max(self.disabled, level)
        return before

    def emit(self, cg: ValueCodegen) -> None:
        """Emits code that pushes the modes and enters the switches that the program has not left yet."""
        before = len(self.at_entry)
        if tuple(self.modes[:before]) != self.at_entry:
            unsupported("with-block", value="a mode that was entered before")
        if self.modes[before:] or self.switches:
            cg.fallback = None
        for mode in self.modes[before:]:
            cg.call_object(torch._C._push_on_torch_function_stack, functools.partial(cg.load, mode))
            cg.asm.pop()
        for switch in self.switches:
            manager: Any = switch.python_type()
            cg.call_object(manager.__enter__, functools.partial(cg.load, switch))
            cg.asm.pop()


def _level() -> int:
    if torch._C._is_torch_function_all_disabled():
        return 2
    return 0 if torch._C._is_torch_function_enabled() else 1


def _overrides(value: VariableTracker) -> bool:
    if isinstance(value, TensorSubclassVariable):
        return value.overrides
    return not isinstance(value, (TensorVariable, ClassVariable)) and _has_override(value)


def _has_override(value: VariableTracker) -> bool:
    return isinstance(value, UserObjectVariable) and lookup(value.cls, "__torch_function__")[1] not in (MISSING, DISABLED)


def is_traceable_subclass(cls: type) -> bool:
    """Whether a subclass only adds attributes, and perhaps a `__torch_function__`, to plain tensors."""
    if not issubclass(cls, torch.Tensor) or type(cls) not in _METACLASSES or cls.__module__.startswith("torch."):
        return False
    if lookup(cls, "__torch_dispatch__")[0] is not torch.Tensor:
        return False
    return all(lookup(cls, name)[0] in (None, *_TORCH_CLASSES) for name in _CUSTOM)


def overrides_functions(cls: type) -> bool:
    return lookup(cls, "__torch_function__")[1] is not DISABLED


def _is_default(cls: type) -> bool:
    """Whether the `__torch_function__` is torch's own, which just makes the call."""
    return issubclass(cls, torch.Tensor) and lookup(cls, "__torch_function__")[0] is torch.Tensor


class TensorSubclassVariable(TensorVariable):
    """A tensor of a subclass. In the graph it is a plain tensor."""

    def __init__(self, node: fx.Node, fake: torch.Tensor, source: Source | None, cls: type) -> None:
        super().__init__(node, fake, source, cls)
        self.overrides = overrides_functions(cls)

    def describe(self) -> str:
        return f"TensorSubclassVariable({self.cls.__qualname__}, {self.node.name})"

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(_instance, lambda: cg.load_graph_output(self), lambda: cg.load_class(self.cls))

    # -- what the subclass defines itself ----------------------------------------------------------------------------

    def own(self, name: str) -> tuple[type, Any] | None:
        """(owner, value) of an attribute that the subclass itself defines; None if torch does."""
        owner, static = lookup(self.cls, name)
        return None if owner is None or owner in _TORCH_CLASSES else (owner, static)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        own = self.own(name)
        if own is None:
            return super().get_attr(tx, name)
        owner, static = own
        if is_a(static, property):
            return tx.class_attr(owner, name, self, part="fget").call(tx, [self], {})
        pending = tx.effects.attribute(self, name)
        if pending is not None:
            return pending
        if is_data_descriptor(static) or self._is_in_instance(tx, name):
            unsupported("unsupported-descriptor", name=name, kind=type(static).__name__)
        if is_a(static, types.FunctionType):
            return BoundMethodVariable(tx.class_attr(owner, name, self), self)
        if is_a(static, (staticmethod, classmethod)):
            function = tx.class_attr(owner, name, self, part="__func__")
            if is_a(static, staticmethod):
                return function
            return BoundMethodVariable(function, tx.class_variable(self.cls, self))
        if defines(type(static), "__get__"):
            unsupported("unsupported-descriptor", name=name, kind=type(static).__name__)
        return tx.class_attr(owner, name, self)

    def _is_in_instance(self, tx: Tracer, name: str) -> bool:
        """Whether the tensor itself has the attribute. Its absence is guarded."""
        if self.source is None or tx.effects.is_deleted(self, name):
            return False
        if name in self.real(tx).__dict__:
            return True
        tx.guard_absent(self, name)
        return False

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        own = self.own(name)
        if own is None:
            super().set_attr(tx, name, value)
            return
        owner, static = own
        if is_a(static, property) and static.fset is not None:
            tx.class_attr(owner, name, self, part="fset").call(tx, [self, value], {})
        elif is_data_descriptor(static):
            unsupported("unsupported-attribute-store", value=self.describe(), name=name)
        else:
            tx.effects.store_attribute(self, name, value)

    def special(self, tx: Tracer, name: str) -> VariableTracker | None:
        """A special method that the subclass defines."""
        return None if self.own(name) is None else self.get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if self.own(name) is not None:
            return self.get_attr(tx, name).call(tx, args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    # -- operators ---------------------------------------------------------------------------------------------------

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        own = self.special(tx, tx.dunder(op, "r" if reflected else ""))
        return super().binary(tx, op, other, reflected) if own is None else _answer(own.call(tx, [other], {}))

    def inplace(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        own = self.special(tx, tx.dunder(op, "i"))
        if own is None and self.own(tx.dunder(op)) is not None:
            unsupported("tensor-subclass", cls=self.cls.__qualname__, source=f"its own {tx.dunder(op)}")
        return super().inplace(tx, op, other) if own is None else _answer(own.call(tx, [other], {}))

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        own = self.special(tx, tx.dunder(op))
        return super().compare(tx, op, other) if own is None else _answer(own.call(tx, [other], {}))

    def unary(self, tx: Tracer, op: str) -> VariableTracker | None:
        own = self.special(tx, UNARY_DUNDER[op])
        return super().unary(tx, op) if own is None else own.call(tx, [], {})

    def refuse_model_of(self, name: str) -> None:
        """Breaks the graph if the model of a method of plain tensors may be wrong for this class. Here it never is."""

    def _refuse_own(self, name: str) -> None:
        if self.own(name) is not None:
            unsupported("tensor-subclass", cls=self.cls.__qualname__, source=f"its own {name}")

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        own = self.special(tx, "__getitem__")
        return super().get_item(tx, key) if own is None else own.call(tx, [key], {})

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        own = self.special(tx, "__setitem__")
        if own is None:
            super().set_item(tx, key, value)
        else:
            own.call(tx, [key, value], {})

    def length(self, tx: Tracer) -> VariableTracker:
        own = self.special(tx, "__len__")
        return super().length(tx) if own is None else checked_length(tx, own.call(tx, [], {}))

    def iterate(self, tx: Tracer) -> VariableTracker:
        own = self.special(tx, "__iter__")
        return super().iterate(tx) if own is None else checked_iterator(tx, own.call(tx, [], {}))

    def truth(self, tx: Tracer) -> bool:
        self._refuse_own("__bool__")
        return super().truth(tx)

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        self._refuse_own("__contains__")
        return super().contains(tx, item)


_PROTOCOLS: dict[str, Callable[..., VariableTracker | None]] = {
    "__getitem__": TensorVariable.get_item,
    "__setitem__": TensorVariable.set_item,
    "__len__": TensorVariable.length,
    "__iter__": TensorVariable.iterate,
}


def base_method(
    tx: Tracer, owner: VariableTracker, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> VariableTracker:
    """Calls a method of a built-in class, ignoring what subclasses override."""
    if isinstance(owner, TensorSubclassVariable):
        protocol = _PROTOCOLS.get(name)
        if protocol is not None and not kwargs:
            return protocol(owner, tx, *args) or NONE
        owner.refuse_model_of(name)
        return TensorVariable.call_method(owner, tx, name, args, kwargs)
    return owner.call_method(tx, name, args, kwargs)


def _answer(value: VariableTracker) -> VariableTracker | None:
    """The result of an operator; None for NotImplemented."""
    return None if value.is_constant() and value.constant() is NotImplemented else value


def _instance(plain: torch.Tensor, cls: type) -> torch.Tensor:
    """The tensor as an instance of `cls`, regardless of the overrides and grad mode that are in force."""
    with torch._C.DisableTorchFunction(), torch.enable_grad():
        return plain.as_subclass(cls)


_C.never_trace(_instance.__code__)


def as_subclass(tx: Tracer, tensor: TensorVariable, cls: type) -> VariableTracker:
    """A tensor of class `cls` over the same memory."""
    if type(tensor.fake) is WrapperFake:
        unsupported("tensor-subclass", cls=tensor.cls.__qualname__, source="as_subclass")
    if cls is not torch.Tensor and not is_traceable_subclass(cls):
        unsupported("tensor-subclass", cls=cls.__qualname__, source="as_subclass")
    plain = tx.output.call_function(torch.ops.aten.alias.default, (tensor.node,), {})
    assert isinstance(plain, TensorVariable)
    plain.node.meta["pure"] = True
    if cls is torch.Tensor:
        return plain
    plain.node.meta["another_object"] = True  # the output code makes it
    made = TensorSubclassVariable(plain.node, plain.fake, None, cls)
    tx.output.track(plain.fake, made)
    tx.trace.overrides.note_subclass()
    return made
