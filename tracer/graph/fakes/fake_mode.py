"""PyTorch's FakeTensorMode over the tracer's shape env. It remembers results of operators, and notes what operators do besides
computing: writes, random numbers, errors that depend on data."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import _DISPATCH_HANDLE_DIRECTLY, _DISPATCH_META_HANDLERS, FakeTensor, FakeTensorMode
from torch.nested._internal.nested_tensor import NestedTensor

from tracer import operators
from tracer.compat_torch.fakes import FakeMaker
from tracer.discovery import import_modules
from tracer.graph.fakes.memory_overlap import check_overlap, lie_over_one_another, lies_over_itself
from tracer.graph.fakes.wrapper_fakes import WrapperFake
from tracer.graph.symbols.ragged import RaggedSize
from tracer.graph.symbols.shape_env_adapter import TorchShapeEnv
from tracer.operators.facts import OperatorFacts, facts_of, leaves
from tracer.operators.meta import operator_result
from tracer.operators.probed_strides import is_contiguous_now
from tracer.operators.probes import check_dtypes, may_refuse
from tracer.operators.results import CachedResult

import_modules(operators)  # registers the rules of operators and functions

_ZERO_TANGENT = torch.ops.aten._efficientzerotensor.default  # makes a tensor of zeros without data
_SYMBOLS_OF_KERNELS = (torch.SymFloat, torch.SymBool)


class FakeMode(FakeTensorMode):
    """The mode of one trace. What it notes about operators adds up over the trace, besides `repeatable` and `met_failing`, which
    `watch_effects` sets back."""

    cache_of_static_sizes: dict[tuple[Any, ...], CachedResult | None] = {}  # shared by all traces: no symbol takes part
    supports_higher_order_operators = True  # fakes of the program's own operators may call one

    def __init__(self, shape_env: TorchShapeEnv, asks_layout: bool = False) -> None:
        super().__init__(shape_env=shape_env, allow_non_fake_inputs=False)
        self.torch_env = shape_env
        self._maker = FakeMaker()
        # Whether conditions on sizes decide how a result lies in memory. If not, it is guessed: few programs depend on it.
        self.asks_layout = asks_layout
        self.layout_guessed = False  # whether that was done
        self.draws = 0  # how many operators have drawn random numbers
        # Storages are told apart by their `_cdata`.
        # Those that operators wrote to are kept alive: no later storage gets the `_cdata` of one of them.
        self._kept_storages: dict[int, torch.UntypedStorage] = {}
        self.written_storages = self._kept_storages.keys()
        self.writes: list[int] = []  # the same in order, one for each write
        self.shared_storages: dict[int, int] = {}  # those that several inputs share, with the size of the real one in bytes
        self.wrote_over_itself = False  # whether an operator since `watch_writes` wrote to a tensor that does
        self.launch_writes: list[int] = []  # those of kernels, which the versions of tensors do not count
        self.written_before_failing: set[int] = (
            set()
        )  # those written before, or by, an operator that may fail when the graph runs
        self.repeatable = True  # whether running all operators since `watch_effects` once more would change nothing
        self.met_failing = False  # whether one of those may fail on data
        self.draws_into_strided = False  # whether random numbers are drawn into memory that is not contiguous
        self.failing = 0  # how many operators of the trace may fail when the graph runs
        self.met_wrapper = False  # whether there are fakes of wrappers
        self.dispatched: Callable[..., Any] | None = None  # set by `answer_wrappers_with`
        self.ragged_numbers: dict[int, int] = {}  # by PyTorch's number of a ragged size: the one in this trace
        self._ragged_sizes = 0
        # What nested tensors that are inputs remember of their lengths: the dict of one, that of its fake, and where it is found.
        self.seqlens: list[tuple[dict[str, Any], dict[str, torch.Tensor], Any]] = []
        self.written_in_nested: list[int] = []  # storages that operations on nested tensors wrote to
        self.met_nested = False  # whether there are fakes of nested tensors

    def fake_of(self, meta: torch.Tensor, device: torch.device) -> FakeTensor:
        """The fake on `device` of a tensor on the meta device."""
        return self._maker.make(self, meta, device)

    def dispatch(
        self, func: Any, types: Sequence[type], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        if WrapperFake in types or NestedTensor in types:
            return NotImplemented
        if func in _DISPATCH_META_HANDLERS or func in _DISPATCH_HANDLE_DIRECTLY:
            return super().dispatch(func, types, args, kwargs or {})
        kwargs = kwargs or {}
        if func is _ZERO_TANGENT and args[0]:  # C++ would take views of it out of the fake mode; numbers have none
            func = torch.ops.aten.zeros.default
        if isinstance(func, torch._ops.HigherOrderOperator):
            return self._dispatch_impl(func, types, args, kwargs)
        facts = facts_of(func)
        refusable, may_fail = may_refuse(facts, args, kwargs), facts.may_fail
        if refusable and facts.only_computes or facts.elementwise and not facts.random:
            may_fail |= check_dtypes(func, args, kwargs)
        if not facts.only_computes:
            self._check_writes(facts, args, kwargs)
            self._note_effects(facts, args, kwargs)
        if not facts.by_metadata:
            self.repeatable = False
        if refusable or may_fail:
            self.note_may_fail()
        return self.run_operator(func, types, args, kwargs)

    def run_operator(self, func: Any, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The result of an operator on fakes. Unlike `dispatch`, it notes nothing about the operator."""
        return operator_result(self, func, types, args, kwargs)

    def create_symbolic_nested_int(self, *, nt_tensor_id: int | None = None) -> torch.SymInt:
        """The ragged size of offsets or lengths that have none yet. PyTorch calls this."""
        self._ragged_sizes += 1
        return torch.SymInt(RaggedSize(self.torch_env, self._ragged_sizes, self.torch_env.int_nodes[1]))

    def ragged_size(self, number: int) -> torch.SymInt:
        """The ragged size of an input for which PyTorch has this number."""
        known = self.ragged_numbers.get(number)
        if known is None:
            return self.create_symbolic_nested_int()
        return torch.SymInt(RaggedSize(self.torch_env, known, self.torch_env.int_nodes[1]))

    def note_layout_guessed(self) -> None:
        """Called for a result whose layout was guessed: where a dim may have size 0 or 1, its real strides may be others."""
        self.layout_guessed = True

    @property
    def drew_random_numbers(self) -> bool:
        return self.draws > 0

    def note_wrapper(self) -> None:
        """Called when a fake of a wrapper is made. From then on operations may come to the program's `__torch_dispatch__`."""
        self.met_wrapper = True

    def note_nested(self) -> None:
        """Called before a fake of a nested tensor is made."""
        self.met_nested = True

    def note_written_in_nested(self, since: int) -> None:
        """Called behind an operation on nested tensors, with how many writes there were before it."""
        self.written_in_nested += self.writes[since:]

    def answer_wrappers_with(self, dispatched: Callable[..., Any] | None) -> None:
        """Sets the function that is called for operators on wrappers: it traces the program's `__torch_dispatch__`."""
        self.dispatched = dispatched

    def watch_effects(self) -> None:
        """Starts over: `repeatable` and `met_failing` are about the operators that follow."""
        self.repeatable, self.met_failing = True, False

    def watch_writes(self) -> None:
        """Starts over: `wrote_over_itself` is about the operators that follow."""
        self.wrote_over_itself = False

    def note_may_fail(self) -> None:
        """Notes that the graph may raise at this point when it runs; all writes so far have then been made."""
        self.met_failing = True
        self.failing += 1
        self.written_before_failing |= self.written_storages

    def _check_writes(self, facts: OperatorFacts, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Before an operator writes: whether PyTorch refuses it, and whether it writes to one element several times."""
        tensors = list(facts.written_tensors(args, kwargs))
        for written in tensors:
            if facts.overlap:
                check_overlap(written, leaves(args, kwargs), facts.overlap)
            self.wrote_over_itself |= facts.keeps_layout and lies_over_itself(written)
        if len(tensors) > 1:
            self.wrote_over_itself |= lie_over_one_another(tensors)

    def _note_effects(self, facts: OperatorFacts, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        random = facts.draws(args, kwargs)
        self.draws += random
        if random and facts.writes:
            self.draws_into_strided |= not all(map(is_contiguous_now, facts.written_tensors(args, kwargs)))
        written = self._note_writes(facts.written_tensors(args, kwargs))
        if random or written:
            self.repeatable = False

    def _note_writes(self, tensors: Iterable[torch.Tensor]) -> list[int]:
        storages = [tensor.untyped_storage() for tensor in tensors if tensor.layout is torch.strided]
        written = [storage._cdata for storage in storages]
        self._kept_storages.update(zip(written, storages))
        self.writes += written
        return written

    def note_launch(self, written: Sequence[torch.Tensor]) -> None:
        """Called where the graph will launch a kernel that writes to these tensors. A launch that fails has written nothing."""
        self.note_may_fail()
        self.repeatable = False
        for tensor in written:
            if isinstance(tensor, FakeTensor) and tensor.constant is not None:
                self.fake_tensor_converter.invalidate_constant_aliases(tensor.constant)
        self.launch_writes += self._note_writes(written)

    def _dispatch_impl(self, func: Any, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        beside_symbols = any(isinstance(each, _SYMBOLS_OF_KERNELS) for each in leaves(args, kwargs))
        if not beside_symbols or not isinstance(func, torch._ops.OpOverload):
            return super()._dispatch_impl(func, types, args, kwargs)
        with self._hiding_constants(func._schema.is_mutable, args, kwargs):
            return super()._dispatch_impl(func, types, args, kwargs)

    @contextlib.contextmanager
    def _hiding_constants(self, mutates: bool, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[None]:
        """Within, fakes do not have the data that PyTorch knows of them. It runs kernels on tensors made of constants while
        tracing, and a symbolic float or bool among their arguments would be NaN to a kernel."""
        tensors = [each for each in leaves(args, kwargs) if isinstance(each, FakeTensor)]
        known = [(tensor, tensor.constant) for tensor in tensors if tensor.constant is not None]
        for tensor, constant in known:
            if mutates:
                self.fake_tensor_converter.invalidate_constant_aliases(constant)
            tensor.constant = None
        try:
            yield
        finally:
            if not mutates:
                for tensor, constant in known:
                    tensor.constant = constant
