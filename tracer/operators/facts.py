"""What an operator does besides computing its results: derived from its schema and its tags, and, where these do not say it,
read from `table`. Everything in the tracer that asks whether an operation writes, draws random numbers or may fail asks here."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from tracer.operators.table import NO_ROW, PARTLY, ROWS, Row

Place = tuple[int, str]  # the position and the name of an argument

# An argument that switches an effect, and the value with which no random number is drawn and no statistics are updated.
_SWITCHED_OFF: dict[str, Any] = {"training": False, "train": False, "dropout_p": 0.0}
_STATISTICS = ("running_mean", "running_var")
_INDICES = ("index", "indices")  # arguments with indices: one out of range is an error when the operator runs, if it is data
_NOT_BY_METADATA = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view)


@dataclasses.dataclass(frozen=True, slots=True)
class OperatorFacts:
    """Of one operator (an OpOverload). `switch` is an argument that may turn `random` and `statistics` off, which
    `off_by_default` does where it is not given."""

    has_schema: bool
    writes: tuple[Place, ...]  # the arguments that it writes to, as its schema says
    statistics: tuple[Place, ...]  # those that it writes to as well, unless it is switched off
    random: bool
    switch: Place | None
    off_by_default: bool
    elementwise: bool  # each element of the results is computed from the elements at its place
    overlap: str  # which overlap in memory of what it writes to it refuses: PARTLY, ANYWHERE, or none
    keeps_layout: bool  # it never changes how an argument lies in memory
    is_view: bool
    gives_one_new_tensor: bool  # and no memory of an argument
    is_composite: bool  # it only calls other operators, which have facts of their own
    of_backward: bool  # it belongs to a backward pass: autograd calls it with results of the forward operator
    by_metadata: bool  # the metadata of its results follow from those of its arguments
    may_fail: bool  # when it runs, although it passed on fakes; of elementwise ones, `probes` tells more
    asks_layout: bool  # how its results lie in memory is found by running it
    row: Row

    @property
    def only_computes(self) -> bool:
        return not (self.random or self.writes or self.statistics)

    def draws(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether a call draws random numbers."""
        return self.random and not self._switched_off(args, kwargs)

    def written_tensors(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
        """The tensors that a call writes to."""
        for place in self.writes if self._switched_off(args, kwargs) else (*self.statistics, *self.writes):
            value = argument(place, args, kwargs)
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, torch.Tensor):
                    yield tensor

    def _switched_off(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        if self.switch is None:
            return False
        position, name = self.switch
        if position >= len(args) and name not in kwargs:
            return self.off_by_default
        return _is_switched_off(name, argument(self.switch, args, kwargs))


def argument(place: Place, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    position, name = place
    return args[position] if position < len(args) else kwargs.get(name)


def leaves(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """The arguments of an operator, lists opened."""
    for value in (*args, *kwargs.values()):
        yield from value if isinstance(value, (list, tuple)) else (value,)


# -- of operators ----------------------------------------------------------------------------------------------

# Higher-order operators have no schema: what they do is known of the operators that they run.
_NO_SCHEMA = OperatorFacts(
    False, (), (), False, None, False, False, "", True, False, False, False, False, False, True, False, NO_ROW
)


@functools.cache
def facts_of(func: Any) -> OperatorFacts:
    if not isinstance(func, torch._ops.OpOverload):
        return _NO_SCHEMA
    schema, row, tags = func._schema, row_of(func), func.tags
    arguments = list(enumerate(schema.arguments))
    statistics = tuple([(i, each.name) for i, each in arguments if row.statistics and each.name in _STATISTICS])
    written = [(i, each.name) for i, each in arguments if each.alias_info is not None and each.alias_info.is_write]
    writes = tuple([place for place in written if place not in statistics])
    switch = next(((i, each.name) for i, each in arguments if each.name in _SWITCHED_OFF), None)
    indices = [each for i, each in arguments if each.name in _INDICES and (i, each.name) not in written]
    takes_indices = any("Tensor" in str(each.type) for each in indices)
    elementwise = torch.Tag.pointwise in tags or bool(row.elementwise)
    own = func.namespace not in ("aten", "prims")
    of_backward = func._opname.endswith("_backward")
    return OperatorFacts(
        has_schema=True,
        writes=writes,
        statistics=statistics,
        random=torch.Tag.nondeterministic_seeded in tags,
        switch=switch,
        off_by_default=switch is not None and _is_switched_off(switch[1], schema.arguments[switch[0]].default_value),
        elementwise=elementwise,
        overlap=row.overlap or (PARTLY if elementwise and writes else ""),
        keeps_layout=torch.Tag.inplace_view not in tags,
        is_view=func.is_view,
        gives_one_new_tensor=_gives_one_new_tensor(schema),
        is_composite=torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"),
        of_backward=of_backward,
        by_metadata=not (own or row.lifts or any(tag in tags for tag in _NOT_BY_METADATA)),
        may_fail=own or bool(row.fails) or takes_indices and not of_backward,
        asks_layout=bool(row.layout) or _goes_through_a_list(schema),
        row=row,
    )


def row_of(func: torch._ops.OpOverload) -> Row:
    """The exceptions of an operator. Its form in place (`bernoulli_`) computes what the other (`bernoulli`) does, where it fails
    too; how its results lie is not up to it."""
    if func.namespace not in ("aten", "prims"):
        return NO_ROW
    own = ROWS.get(func._opname, NO_ROW)
    other = ROWS.get(func._opname.removesuffix("_"), NO_ROW)
    if own is other:
        return own
    return own._replace(fails=own.fails or other.fails, elementwise=own.elementwise or other.elementwise)


def _is_switched_off(name: str, value: Any) -> bool:
    """Whether an argument of `_SWITCHED_OFF`, such as `training`, has the value that switches the behaviour off."""
    off = _SWITCHED_OFF[name]
    return type(value) is type(off) and value == off


def _gives_one_new_tensor(schema: Any) -> bool:
    one = len(schema.returns) == 1 and schema.returns[0].alias_info is None
    return one and all(each.alias_info is None for each in schema.arguments)


def _goes_through_a_list(schema: Any) -> bool:
    """Whether it gives a new tensor for each of a list, as `_foreach_add` does."""
    lists = [str(each.type) for each in (*schema.arguments[:1], *schema.returns)]
    return lists == ["List[Tensor]"] * 2 and schema.returns[0].alias_info is None


# -- of operations of a graph: operators, functions, and names of methods of tensors ------------------------------


def writes(target: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether an operation changes an argument."""
    return "out" in kwargs or _writes(_hashable(target))


def offset_argument(target: Any) -> Place | None:
    """The argument of an operation that counts from the beginning of the storage of its first one, such as `as_strided`."""
    return _offset_argument(_hashable(target))


def written_lists(target: Any) -> list[Place]:
    """The arguments of an operation that are lists of tensors, which it writes to."""
    found = [each for each in _schemas(target) if each.is_mutable]
    if not found:
        return []
    arguments = enumerate(found[0].arguments)  # all overloads write to the same
    return [(i, each.name) for i, each in arguments if each.is_write and isinstance(each.type, torch.ListType)]


def gives_something(target: Any) -> bool:
    """Whether an operation has results; True of what is no operator."""
    found = _schemas(target)
    return not found or any(schema.returns for schema in found)


def _hashable(target: Any) -> Any:
    return (
        target
        if isinstance(target, (str, torch._ops.OpOverload, torch._ops.OpOverloadPacket))
        else getattr(target, "__name__", "")
    )


@functools.cache
def _writes(target: Any) -> bool:
    name = name_of(target)
    if name in _IN_PLACE or name.startswith("__i") and hasattr(torch.Tensor, f"__{name[3:]}"):  # `iadd`, `__iadd__`
        return True
    found = _schemas(target)
    if not found:  # a function of Python: PyTorch's convention is all that there is
        return name.endswith("_") and not name.endswith("__")
    return any(_changes_its_input(schema) for schema in found) or bool(ROWS.get(name, NO_ROW).writes)


def _changes_its_input(schema: Any) -> bool:
    return any(each.alias_info is not None and each.alias_info.is_write and not each.is_out for each in schema.arguments)


@functools.cache
def _offset_argument(target: Any) -> Place | None:
    for schema in _schemas(target):
        names = [each.name for each in schema.arguments]
        if "storage_offset" in names and "source" not in names:
            return names.index("storage_offset"), "storage_offset"
    return None


def _schemas(target: Any) -> list[Any]:
    """Of an operator; of torch's function or the method of tensors with this name. None of them takes lists of TorchScript."""
    if isinstance(target, torch._ops.OpOverload):
        return [target._schema]
    if isinstance(target, torch._ops.OpOverloadPacket):
        name = target._qualified_op_name
    else:
        name = f"aten::{name_of(target)}"
    found = torch._C._jit_get_schemas_for_operator(name)
    return [each for each in found if not each.is_mutable or torch._C._dispatch_has_kernel(_full_name(each))]


def _full_name(schema: Any) -> str:
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def name_of(target: Any) -> str:
    """The name of what a node calls; empty for what has none."""
    return target if isinstance(target, str) else getattr(target, "__name__", "")


# `iadd` and the like: functions of `operator` beside which there is one without the i.
_IN_PLACE = frozenset(
    name for name in vars(operator) if name[:1] == "i" and (hasattr(operator, name[1:]) or hasattr(operator, f"{name[1:]}_"))
) | {"setitem", "delitem", "__setitem__"}  # fmt: skip


@functools.cache
def takes_one_for_all(function: Any, position: int | str) -> bool:
    """Whether a plain number may stand, as an argument of an operator, for a list of them (`kernel_size=3`). A symbolic one
    may not: torch refuses it."""
    if isinstance(function, torch._ops.OpOverloadPacket):
        return any(takes_one_for_all(getattr(function, name), position) for name in function.overloads())
    if not isinstance(function, torch._ops.OpOverload):
        return False
    arguments = enumerate(function._schema.arguments)
    return any(each.N is not None for index, each in arguments if position in (index, each.name))


def is_compliant(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the author of an operator says that compilers may take it as its schema says; True of what is no operator."""
    if isinstance(function, torch._ops.OpOverloadPacket):
        function = _chosen_overload(function, args, kwargs)  # None: running it says so
    return not isinstance(function, torch._ops.OpOverload) or torch.Tag.pt2_compliant_tag in function.tags


def _chosen_overload(
    packet: torch._ops.OpOverloadPacket, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch._ops.OpOverload | None:
    """The overload that a call of the packet runs; None if none takes these arguments."""
    try:
        name = torch._C._jit_resolve_packet(packet._qualified_op_name, *args, **kwargs)
    except RuntimeError:
        return None
    found: torch._ops.OpOverload = getattr(packet, name)
    return found


def overload_with_tensor(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], place: int | str) -> Any:
    """The overload of an operator, called with a float at `place`, that takes a tensor there and is else the same, such as
    `_fused_adam_.tensor_lr`; None if there is none. An operator that draws may draw otherwise with a tensor."""
    called = _called_overload(target, args, kwargs)
    if called is None or facts_of(called).random:
        return None
    wanted = [
        (each.name, "Tensor" if place in (i, each.name) and str(each.type) == "float" else str(each.type))
        for i, each in enumerate(called._schema.arguments)
    ]
    others = (getattr(called.overloadpacket, each) for each in called.overloadpacket.overloads())
    alike = (each for each in others if [(a.name, str(a.type)) for a in each._schema.arguments] == wanted)
    return next((each for each in alike if each is not called), None)


def turns_of(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], place: int | str) -> tuple[float, ...] | None:
    """For an operation called with a float at `place` on which only elements of its results depend, the values at which it may do
    something else all the same; None for others."""
    while isinstance(target, functools.partial):  # a rule around it
        target = target.args[-1]
    if isinstance(target, types.FunctionType):
        row = ROWS.get(target.__name__, NO_ROW) if target.__module__ == "torch.nn.functional" else NO_ROW
        names = _parameters(target) if row.floats else ()
    else:
        owner = getattr(target, "__self__", None)
        if isinstance(owner, torch.Tensor):
            args, place = (owner, *args), place + 1 if isinstance(place, int) else place
        called = _called_overload(target, args, kwargs)
        if called is None or called.namespace != "aten":
            return None
        row, names = ROWS.get(called._opname, NO_ROW), tuple([each.name for each in called._schema.arguments])
    name = place if isinstance(place, str) else names[place] if place < len(names) else ""
    return row.turns if name in row.floats.split() else None


@functools.cache
def _parameters(function: types.FunctionType) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def _called_overload(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch._ops.OpOverload | None:
    if isinstance(target, torch._ops.OpOverload):
        return target
    packet = target
    if isinstance(target, (str, types.BuiltinFunctionType)):
        packet = getattr(torch.ops.aten, name_of(target), None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return None
    found = _chosen_overload(packet, args, kwargs)
    # TorchScript alone has a power of two numbers
    return found if found is not None and torch._C._dispatch_has_kernel(found.name()) else None


def is_unrolled(target: Any) -> bool:
    """Whether compilers make a graph of an operation that grows with a size, as of a recurrent layer with the sequence."""
    packet = target.overloadpacket if isinstance(target, torch._ops.OpOverload) else target
    name = name_of(packet)
    if not ROWS.get(name, NO_ROW).unrolled:
        return False
    return packet is getattr(torch, name, None) or packet is getattr(torch.ops.aten, name)


_OWN_MODULES = ("torch", "tracer", "math", "builtins", "operator", "_operator")


def runs_other_code(target: Any) -> bool:
    """Whether a call in the graph runs code of the program, which may draw random numbers from any generator."""
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return target.__module__ not in ("torch._ops.aten", "torch._ops.prims")
    module = getattr(target, "__module__", None) or "builtins"
    return module.partition(".")[0] not in _OWN_MODULES
