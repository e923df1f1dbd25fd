"""Models of what sets and reads the state of torch's own generator. Before the first operator that draws, the output code does so
before the graph; behind it, a node of the graph if that runs as it is written, else the output code after the graph. If an
operator draws after that, the frame is traced again, and the graph for a compiler is cut at such nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tracer import _C
from tracer.effects.deferred_calls import DeferredCall
from tracer.effects.random_draws import Drawn
from tracer.errors import TraceAnew
from tracer.graph_breaks import unsupported
from tracer.library.random_ import draw_of
from tracer.operators.kept_from_compilers import keep_from_compilers
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.sources.roots import ObjectSource
from tracer.sources.tensors import DrawnTensorSource
from tracer.variables.tensors.created_leaves import no_leaf_can_be_made
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker
_DEFAULT = ObjectSource(torch.default_generator, "torch.default_generator")


def _default_generator(tx: Tracer) -> Value:
    return tx.wrap(torch.default_generator, _DEFAULT)


def _model_of_seeding(function: Any) -> Any:
    def model(tx: Tracer, seed: Value) -> Value:
        if not seed.is_constant() or type(seed.constant()) is not int or not -(2**63) <= seed.constant() < 2**64:
            unsupported("random-state", name=f"torch.{function.__name__} of {seed.describe()}")
        if _is_before_draws(tx):
            generator = _default_generator(tx)
            tx.effects.draw(draw_of(tx, torch.Generator, seeded, generator, (function, seed.constant()), {}))
        else:
            _set_later(tx, function, (seed.constant(),), ())
        return _default_generator(tx) if function is torch.random.manual_seed else NONE

    return model


def seeded(generator: torch.Generator, function: Any, seed: int) -> None:
    """In the output code: seeds torch's own generator by `function`, which may seed those of other devices, too."""
    function(seed)


_SEEDING: tuple[Any, ...] = (torch.cuda.manual_seed, torch.cuda.manual_seed_all)
for _function in _SEEDING:
    models.of_plain_tensors(_function)(_model_of_seeding(_function))
models.of_plain_tensors(*{torch.manual_seed, torch.random.manual_seed})(_model_of_seeding(torch.random.manual_seed))
for _function in (seeded, torch.random.manual_seed, torch.random.set_rng_state, *_SEEDING):
    _C.never_trace(_function.__code__)
keep_from_compilers(torch.random.manual_seed, torch.random.get_rng_state, torch.random.set_rng_state, *_SEEDING)


@models.of_plain_tensors(torch.random.get_rng_state)
def _get_rng_state(tx: Tracer) -> Value:
    _refuse_observed(tx)
    real = torch.default_generator.get_state()
    fake = tx.output.world.run(torch.empty, (tuple(real.shape),), {"dtype": real.dtype})
    if not _is_before_draws(tx):
        if not _is_in_graph(tx):
            if tx.output.chances.take():
                raise TraceAnew(seeds_inside=True)
            unsupported("random-state", name="torch.get_rng_state, behind an operator that draws,")
        return tx.output.wrap(tx.output.create_node("call_function", torch.random.get_rng_state, (), {}, fake), fake)
    draw = draw_of(tx, torch.Generator, torch.Generator.get_state, _default_generator(tx), (), {})
    source = DrawnTensorSource(tx.effects.draw(draw))
    return tx.output.wrap(tx.output.add_input(source, real, fake, own_memory=True), fake)


@models.of_plain_tensors(torch.random.set_rng_state)
def _set_rng_state(tx: Tracer, state: Value) -> Value:
    number = _drawn_state(tx, state)
    if number is None and not (_is_in_graph(tx) and _is_state(state)):
        unsupported("random-state", name="torch.set_rng_state of a tensor that torch.get_rng_state has not given in this trace")
    if number is not None and _is_before_draws(tx):
        set_state = torch.Generator.set_state
        tx.effects.draw(draw_of(tx, torch.Generator, set_state, _default_generator(tx), (Drawn(number),), {}))
    else:
        _set_later(tx, torch.random.set_rng_state, (), (state,))
    return NONE


def _drawn_state(tx: Tracer, state: Value) -> int | None:
    """The number of the draw that gave a state which nothing has written to."""
    sources = [source for source, item in tx.output.inputs.items() if item.node is getattr(state, "node", None)]
    if not isinstance(state, TensorVariable) or not sources or not isinstance(sources[0], DrawnTensorSource):
        return None
    is_written = state.fake.untyped_storage()._cdata in tx.output.world.fake_mode.written_storages
    return None if is_written else sources[0].number


def _is_state(state: Value) -> bool:
    """Whether a node reads the state. Another tensor may be no state at all, which the program would notice at this line."""
    return isinstance(state, TensorVariable) and state.node.target is torch.random.get_rng_state


def _is_before_draws(tx: Tracer) -> bool:
    return not tx.output.draws_random_numbers and tx.output.seeded_at is None


def _is_in_graph(tx: Tracer) -> bool:
    """Whether operations of the graph set and read the state: where it runs as written, or is going to be cut there."""
    return tx.output.runs_as_written or tx.output.options.seeds_inside


def _set_later(tx: Tracer, function: Any, values: tuple[Any, ...], states: tuple[Value, ...]) -> None:
    if _is_in_graph(tx):
        _refuse_observed(tx)
        tx.output.chances.take()
        tx.output.create_node("call_function", function, (*values, *(state.graph_arg() for state in states)), {}, None)
    else:
        tx.effects.defer(DeferredCall(function, values, states))
        tx.output.seed_after()


def _refuse_observed(tx: Tracer) -> None:
    if no_leaf_can_be_made(tx):
        unsupported("random-state", name="A part of the graph that is looked at by itself")
