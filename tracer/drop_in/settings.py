"""`torch._dynamo.config` and its counters, while the tracer is installed: one value under torch's name and ours."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from tracer import config as ours
from tracer.drop_in.replacements import Added
from tracer.drop_in.torchs import config as theirs
from tracer.drop_in.torchs import sizes, utils
from tracer.metrics import counters

#: Settings of torch._dynamo.config that the tracer has, under the same name. Torch's older names are aliases of these.
SHARED = frozenset(
    (
        *("recompile_limit", "accumulated_recompile_limit", "error_on_recompile", "fail_on_recompile_limit_hit"),
        *("automatic_dynamic_shapes", "assume_static_by_default", "force_parameter_static_shapes"),
        *("capture_scalar_outputs", "capture_dynamic_output_shape_ops", "only_allow_pt2_compliant_ops"),
        *("specialize_int", "specialize_float", "guard_nn_modules"),
        *("suppress_errors", "verify_correctness", "verbose"),
    )
)
#: What else of torch._dynamo.config is heard: name -> called with each value that is set.
listeners: dict[str, Callable[[Any], None]] = {}
_Module: Any = type(theirs)
_get, _set, _dict = _Module.__getattr__, _Module.__setattr__, _Module._get_dict


def _read(module: Any, name: str) -> Any:
    value = _get(module, name)  # raises for a name that there is not, and for one that was deleted
    return getattr(ours, name) if name in SHARED else value


def _write(module: Any, name: str, value: Any) -> None:
    _set(module, name, value)
    if name in SHARED:
        setattr(ours, name, value)
    elif name in listeners:
        listeners[name](value)


def _as_dict(module: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """What copies of the settings are made of (`get_config_copy`, `save_config`). Torch reads past the attributes there."""
    found: dict[str, Any] = _dict(module, *args, **kwargs)
    return {name: getattr(ours, name) if name in SHARED else value for name, value in found.items()}


class SharedSettings:
    """Reading and writing `torch._dynamo.config` reads and writes `tracer.config`. What the program has set in torch's before is
    taken over; afterwards ours are as they were before."""

    def __init__(self) -> None:
        self._before = {name: getattr(ours, name) for name in SHARED}
        for name in SHARED:
            if not theirs._is_default(name):
                setattr(ours, name, _get(theirs, name))
        self._methods = Added(_Module, {"__getattr__": _read, "__setattr__": _write, "_get_dict": _as_dict})

    def take_back(self) -> None:
        self._methods.take_back()
        for name, value in self._before.items():
            setattr(ours, name, value)


_Sizes: Any = type(sizes)
_set_of_sizes = _Sizes.__setattr__


def _write_of_sizes(module: Any, name: str, value: Any) -> None:
    _set_of_sizes(module, name, value)
    if name == "backed_size_oblivious":
        ours.specialize_zero_one = "by_need" if value else "always"


class SizesOfOne:
    """`torch.fx.experimental._config.backed_size_oblivious` is our `specialize_zero_one = "by_need"`, also where it was set
    before. Afterwards ours is as it was."""

    def __init__(self) -> None:
        self._before = ours.specialize_zero_one
        if sizes.backed_size_oblivious:
            ours.specialize_zero_one = "by_need"
        self._methods = Added(_Sizes, {"__setattr__": _write_of_sizes})

    def take_back(self) -> None:
        self._methods.take_back()
        ours.specialize_zero_one = self._before


class SharedCounters:
    """`tracer.counters` counts in torch's. Afterwards each has what was counted."""

    def __init__(self) -> None:
        counters.keep_in(utils.counters)

    def take_back(self) -> None:
        counters.keep_in(defaultdict(Counter))
