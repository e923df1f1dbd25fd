"""`tensor[mask]` of which only elements of the same places are set again: `x[mask] = y[mask]`, `x[mask] *= 2`.

How many elements a mask selects is known only when the graph runs. Where a program computes with them one by one and puts them
where they came from, that number does not matter: the graph computes with whole tensors and chooses with `torch.where`. Every
other use breaks the graph at the subscript.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NoReturn, cast

import torch
from torch import fx

from tracer import config
from tracer.errors import Unsupported
from tracer.graph.fakes.fake_tensors import is_plain_fake, storage_of
from tracer.graph.fakes.memory_overlap import keeps_elements_apart
from tracer.graph_breaks import reason
from tracer.locations import UserLocation
from tracer.operators.facts import name_of
from tracer.operators.layout import hint, same
from tracer.protocol.variable import VariableTracker
from tracer.variables.values.constant import ConstantVariable, NamedMethodVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.variables.tensors.tensor import TensorVariable

# These give the same bits wherever an element lies, and do not raise for elements that were not selected.
_BINARY = frozenset("+ - * / & | ^".split())
_UNARY = frozenset("- ~".split())
_METHODS = frozenset(
    "abs neg clamp clamp_min clamp_max clone float double half bfloat16 int long bool to add sub mul div eq ne lt le gt ge "
    "logical_not logical_and logical_or".split()
)
_LARGEST_MASK = 8  # operations that are compared to see whether two masks are equal
_OF_MASKS = frozenset(
    "eq ne lt le gt ge and or xor invert logical_not logical_and logical_or isnan isinf isfinite abs neg".split()
)
_TRUE = ConstantVariable(True)


@dataclasses.dataclass(frozen=True)
class _Subscript:
    """Where the program has the elements from."""

    mask: TensorVariable
    mask_node: fx.Node
    is_fresh: bool  # it was computed just before
    writes: int  # how many there had been in the trace
    modes: tuple[bool, bool]
    step: int
    stack: tuple[UserLocation, ...]


def masked_elements(tx: Tracer, tensor: TensorVariable, key: VariableTracker) -> MaskedElements | None:
    """`tensor[key]`, if the key is one mask and torch cannot tell the number of elements; None for other keys."""
    if not (_is_plain(key) and _is_plain(tensor)):
        return None
    mask = cast("TensorVariable", key)
    dims = mask.fake.dim()
    if mask.fake.dtype != torch.bool or not 0 < dims <= tensor.fake.dim() or tensor.fake.device != mask.fake.device:
        return None
    in_part = tx.effects.observer is not None or torch._C._are_functorch_transforms_active()  # of the graph, on its own
    if config.capture_dynamic_output_shape_ops or in_part or tx.trace.overrides.active:
        return None
    if not _are_equal(tensor.fake.shape[:dims], mask.fake.shape):
        return None
    number = len(tx.output.world.fake_mode.writes)
    is_fresh = mask.node.next.op == "root"
    subscript = _Subscript(mask, mask.node, is_fresh, number, _modes(), tx.break_step(), tx.trace.user_stack())
    return MaskedElements(tensor, subscript)


class MaskedElements(VariableTracker):
    """The elements of a tensor at which a mask is true.

    `whole`: the tensor. If `computed`, it is the result of operations on tensors that were indexed by this mask, and its other
    elements mean nothing.
    """

    source = None

    def __init__(self, whole: TensorVariable, subscript: _Subscript, computed: bool = False) -> None:
        self.whole = whole
        self.node = whole.node
        self.subscript = subscript
        self.computed = computed
        self.is_saved = False  # whether autograd may keep these for the gradient of others

    def python_type(self) -> type:
        return cast("type", torch.Tensor)

    def describe(self) -> str:
        return f"elements of {self.whole.describe()}"

    # -- operations on each element ----------------------------------------------------------------------------------

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> MaskedElements:
        squares = op == "**" and not reflected and other.is_constant() and other.constant() == 2
        if op not in _BINARY and not squares:
            self._refuse()
        mine, right = self._operands(tx, other)
        return self._result(tx.binary(op, right, mine) if reflected else tx.binary(op, mine, right), mine)

    def inplace(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker:
        if self.is_saved or other is self:  # the gradient of what was computed needs the old elements
            self._refuse()
        result = self.binary(tx, op, other, False).whole
        before, after = self.whole.fake, result.fake
        if before.dtype != after.dtype or before.dim() != after.dim() or not _are_equal(before.shape, after.shape):
            self._refuse()
        tx.output.journal.refuse("it changes elements that a mask selects")
        self.whole, self.node, self.computed, self.is_saved = result, result.node, True, False
        return self

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker:
        mine, right = self._operands(tx, other)
        return self._result(tx.compare(op, mine, right), mine)

    def unary(self, tx: Tracer, op: str) -> VariableTracker:
        if op not in _UNARY:
            self._refuse()
        (mine,) = self._operands(tx)
        return self._result(tx.unary(op, mine), mine)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name not in _METHODS:
            self._refuse()
        mine, *operands = self._operands(tx, *args, *kwargs.values())
        named = dict(zip(kwargs, operands[len(args) :]))
        return self._result(mine.call_method(tx, name, operands[: len(args)], named), mine)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in ("dtype", "device"):
            return self.whole.get_attr(tx, name)
        return NamedMethodVariable(self, name) if name in _METHODS else self._refuse()

    def _operands(self, tx: Tracer, *others: VariableTracker) -> list[Any]:
        """These elements and others as the operands of an operation on whole tensors.

        Where autograd records it, elements that were not selected are ones, in a tensor of its own: their gradients are computed
        as well, and zero times infinity is no number; and what autograd keeps is not what the program may write to."""
        selected = [each for each in (self, *others) if isinstance(each, MaskedElements)]
        for each in selected:
            if not self._is_mask(tx, each.subscript.mask) or each.whole.fake.dim() != self.whole.fake.dim():
                self._refuse()
        recorded = torch.is_grad_enabled() and any(each.whole.fake.requires_grad for each in selected)
        return [
            each._operand(tx, recorded) if isinstance(each, MaskedElements) else self._beside(each) for each in (self, *others)
        ]

    def _operand(self, tx: Tracer, recorded: bool) -> TensorVariable:
        self._check_unchanged(tx)
        if self.whole.fake.dtype.is_complex:  # whose products depend on the place, in the last bit
            self._refuse()
        self.is_saved |= recorded
        return _chosen(tx, self.subscript.mask, self.whole, _TRUE) if recorded and not self.computed else self.whole

    def _beside(self, other: VariableTracker) -> VariableTracker:
        """Another operand: a number, or a tensor that is the same for all places."""
        if isinstance(other, SymNodeVariable) or other.is_constant() and isinstance(other.constant(), (int, float, torch.dtype)):
            return other
        fake: Any = getattr(other, "fake", None)
        dims = self.whole.fake.dim() - self.subscript.mask.fake.dim()
        if not _is_plain(other) or fake.dim() > dims or fake.requires_grad or fake.dtype.is_complex:
            self._refuse()
        return other

    def _result(self, whole: VariableTracker, operand: TensorVariable) -> MaskedElements:
        if whole is operand:  # `float()` of what is float
            return self
        if not _is_plain(whole):
            self._refuse()
        return MaskedElements(cast("TensorVariable", whole), self.subscript, computed=True)

    # -- setting them again ------------------------------------------------------------------------------------------

    def put_into(self, tx: Tracer, tensor: TensorVariable, key: VariableTracker) -> VariableTracker:
        """The whole value of the tensor behind `tensor[key] = self`."""
        fake, mine, mask = tensor.fake, self.whole.fake, self.subscript.mask
        same_kind = _is_plain(tensor) and fake.dtype == mine.dtype and fake.device == mine.device and fake.dim() == mine.dim()
        if not same_kind or not self._is_mask(tx, key) or not _are_equal(fake.shape, mine.shape):
            self._refuse()
        if not keeps_elements_apart(fake) or storage_of(fake) == storage_of(mask.fake):  # PyTorch writes in order, or refuses to
            self._refuse()
        self._check_unchanged(tx)
        return _chosen(tx, mask, self.whole, tensor)

    def _is_mask(self, tx: Tracer, key: VariableTracker) -> bool:
        """Whether a subscript is the mask that has selected the elements, or one that was computed just as that was."""
        if key is self.subscript.mask:
            return True
        writes = len(tx.output.world.fake_mode.writes)
        if not _is_plain(key) or not self.subscript.is_fresh or writes > self.subscript.writes:
            return False
        return _give_the_same(self.subscript.mask_node, cast("TensorVariable", key).node)

    def _check_unchanged(self, tx: Tracer) -> None:
        """Refuses elements if what they were read from, or the mask, was changed since, or gradients were switched."""
        whole, subscript = self.whole, self.subscript
        written = tx.output.world.fake_mode.writes[subscript.writes :]
        exchanged = whole.node is not self.node or subscript.mask.node is not subscript.mask_node
        if exchanged or subscript.modes != _modes() or any(storage_of(each.fake) in written for each in (subscript.mask, whole)):
            self._refuse()

    # -- everything else needs the elements alone --------------------------------------------------------------------

    def _refuse(self) -> NoReturn:
        details = {"operator": "getitem", "error": "how many elements a mask selects is known only when the graph runs"}
        step, stack = self.subscript.step, self.subscript.stack
        raise Unsupported(reason("data-dependent-operator"), details, break_step=step, is_late=True, stack=stack)

    def graph_arg(self) -> Any:
        self._refuse()

    def hash_key(self, tx: Tracer) -> Any:
        self._refuse()

    def text(self, tx: Tracer, kind: str) -> str:
        self._refuse()

    def format(self, tx: Tracer, spec: str) -> str:
        self._refuse()

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        self._refuse()

    def truth(self, tx: Tracer) -> bool:
        self._refuse()

    def length(self, tx: Tracer) -> VariableTracker:
        self._refuse()

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        self._refuse()

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        self._refuse()

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        self._refuse()

    def iterate(self, tx: Tracer) -> VariableTracker:
        self._refuse()

    def reconstruct(self, cg: ValueCodegen) -> None:
        self._refuse()


def _is_plain(value: VariableTracker) -> bool:
    return getattr(value, "cls", None) in (torch.Tensor, torch.nn.Parameter) and is_plain_fake(getattr(value, "fake", None))


def _modes() -> tuple[bool, bool]:
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled()


def _are_equal(sizes: Any, others: Any) -> bool:
    known = all(hint(size) is not None for size in (*sizes, *others))
    return all(same(size, other) or known and bool(size == other) for size, other in zip(sizes, others, strict=True))


def _chosen(tx: Tracer, mask: TensorVariable, where_true: VariableTracker, otherwise: VariableTracker) -> TensorVariable:
    """torch.where, with a mask for the first dims"""
    condition = mask
    for _ in range(cast("Any", where_true).fake.dim() - mask.fake.dim()):
        condition = cast("TensorVariable", tx.output.call_method("unsqueeze", (condition.node, -1), {}))
    arguments = condition.node, where_true.graph_arg(), otherwise.graph_arg()
    return cast("TensorVariable", tx.output.call_function(torch.where, arguments, {}))


def _give_the_same(first: fx.Node, second: fx.Node) -> bool:
    """Whether two nodes compute the same of the same values, by operations that nothing but these decides about."""
    budget = _LARGEST_MASK

    def alike(one: Any, other: Any) -> bool:
        nonlocal budget
        if not isinstance(one, fx.Node) or not isinstance(other, fx.Node):
            return type(one) is type(other) and repr(one) == repr(other)  # 0.0 is not -0.0
        if one is other:
            return True
        budget -= 1
        same = budget >= 0 and one.op == other.op and one.target == other.target and len(one.args) == len(other.args)
        if not same or name_of(one.target).strip("_") not in _OF_MASKS or one.kwargs or other.kwargs:
            return False
        return all(map(alike, one.args, other.args))

    return alike(first, second)
