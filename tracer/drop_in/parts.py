"""Everything that an install changes: one table of replacements, and the parts that are more than a replacement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer.drop_in import backends, controls, inlined, scripting, switching
from tracer.drop_in.bytecode_hooks import BytecodeHooks
from tracer.drop_in.exceptions import Linked
from tracer.drop_in.installing import Part
from tracer.drop_in.logs import LogsAsTorch, init_logs
from tracer.drop_in.optimizing import Entrances
from tracer.drop_in.profiles import LabelsAsTorchs
from tracer.drop_in.ranks import RanksAgree
from tracer.drop_in.replacements import Put, Replacement
from tracer.drop_in.settings import SharedCounters, SharedSettings, SizesOfOne
from tracer.drop_in.torchs import eval_frame, logging, registry


def makers(backend: Any, prefix: bool, settings: dict[str, Any]) -> list[Callable[[], Part]]:
    """What makes each change, in order. They are taken back in the reverse order. Raises InvalidBackend."""
    on_evict = {} if settings.get("on_evict") is None else {"on_evict": settings["on_evict"]}
    common = {**{name: value for name, value in settings.items() if name != "on_evict"}, "hooks": on_evict}
    entrances = Entrances(common, prefix)
    hooks, ranks = BytecodeHooks(), RanksAgree()
    table = [*_table(entrances, backend), hooks.replacement(), ranks.replacement()]
    return [
        lambda: hooks,
        Linked,
        lambda: Put(table),
        *controls.PARTS,
        SharedCounters,
        SharedSettings,
        ranks.begin,
        SizesOfOne,
        LogsAsTorch,
        LabelsAsTorchs,
        inlined.InlinedCalls,
    ]


def _table(entrances: Entrances, backend: Any) -> list[Replacement]:
    """All that is replaced in torch's modules."""
    table = [
        Replacement(eval_frame, "_optimize", entrances.optimize),
        Replacement(eval_frame, "_optimize_assert", entrances.optimize_assert),
        Replacement(eval_frame, "set_eval_frame", switching.set_eval_frame),
        Replacement(eval_frame, "_maybe_set_eval_frame", switching.maybe_set_eval_frame),
        Replacement(eval_frame, "set_fullgraph_compiled_frame_count", switching.count_no_frames),
        Replacement(registry, "lookup_backend", backends.lookup_backend),
        Replacement(registry, "list_backends", backends.list_backends),
        Replacement(logging, "_init_logs", init_logs),
        *controls.table(),
        *inlined.table(),
        *scripting.table(),
    ]
    if backend is not None:
        backends.choice_of(backend)
        table.append(Replacement(registry, "_default_backend", backend))
    return table
