"""TORCH_LOGS and `torch._logging.set_logs` switch the tracer's logs while it is installed."""

from __future__ import annotations

from tracer import logs
from tracer.drop_in.torchs import logging

# torch's artifacts, and its log "dynamic" -> ours
NAMES = {
    **{
        name: name
        for name in ("graph", "graph_code", "graph_sizes", "guards", "recompiles", "bytecode", "graph_breaks", "side_effects")
    },
    "graph_code_verbose": "graph_code",
    "recompiles_verbose": "recompiles",
    "verbose_guards": "guards",
    "trace_source": "trace",
    "trace_bytecode": "trace",
    "dynamic": "dynamic",
}
_init_logs = logging._init_logs
_by_torch: set[str] = set()  # ours that are on because torch's are


def init_logs(log_file_name: str | None = None) -> None:
    """As torch's, which is called whenever its logs are switched."""
    _init_logs(log_file_name)
    _follow()


def _follow() -> None:
    """Switches ours as torch's are. What the program has switched on by `tracer.set_logs` stays on."""
    state, levels = logging.log_state, logging.log_registry.log_alias_to_log_qnames["dynamic"]
    on = {mine for theirs, mine in NAMES.items() if state.is_artifact_enabled(theirs)}
    on |= {NAMES["dynamic"]} & {"dynamic" for name in levels if name in state.log_qname_to_level}
    wanted = {**dict.fromkeys(_by_torch - on, False), **dict.fromkeys(on - logs.enabled(), True)}
    _by_torch.update(name for name, switched in wanted.items() if switched)
    _by_torch.intersection_update(on)
    logs.set_logs(**wanted)


class LogsAsTorch:
    """What TORCH_LOGS or `set_logs` has switched on before the install is on."""

    def __init__(self) -> None:
        _follow()

    def take_back(self) -> None:
        logs.set_logs(**dict.fromkeys(_by_torch, False))
        _by_torch.clear()
