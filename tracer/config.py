"""Settings: `tracer.config.recompile_limit`, `tracer.config.patch(recompile_limit=2)`.

A value is looked up in the overlays of the running context (`patch`, a context variable: threads and async tasks do
not see each other's), then in the process default (set by assignment, or at import by TRACER_<KEY> in the
environment). A worker that runs in `contextvars.copy_context()` inherits the overlays of the code that copied it.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import sys
import types
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple


class Key(NamedTuple):
    """One setting."""

    name: str
    type: type
    default: Any
    doc: str
    choices: tuple[str, ...] = ()  # of a setting that is one of a few words


KEYS: dict[str, Key] = {}


def _key(name: str, default: Any, doc: str, *choices: str) -> None:
    KEYS[name] = Key(name, type(default), default, doc, choices)


_key("recompile_limit", 8, "Entries of one code object in one region; past it, what no entry matches runs in CPython.")
_key(
    "accumulated_recompile_limit",
    256,
    "The same over all regions that trace one code object; entries taken over from equal modules do not count.",
)
_key("error_on_recompile", False, "A recompile raises RecompileError with the reason.")
_key("fail_on_recompile_limit_hit", False, "Reaching a recompile limit raises FailOnRecompileLimitHit, not a warning.")
_key(
    "error_on_graph_break",
    False,
    "A graph break raises Unsupported, as with `fullgraph=True`, but the frame need not be one graph.",
)
_key("automatic_dynamic_shapes", True, "A dim or an int that was seen to change becomes symbolic at the recompile.")
_key("assume_static_by_default", True, "Sizes and ints are constants in the first trace; off: symbolic from the start.")
_key("duck_shape", True, "Symbolic sizes that are equal at the trace, and were in the calls traced before, share one symbol.")
_key(
    "specialize_zero_one",
    "always",
    "Whether sizes 0 and 1 are traced on their own: `always`, or `by_need`, where the program asks, or a layout depends on it, "
    "as ever where shapes are declared.",
    "always",
    "by_need",
)
_key(
    "capture_scalar_outputs",
    False,
    "item() and tolist() become unbacked symbols in the graph and do not break it; so they always do with `fullgraph=True`, and "
    "where shapes are declared.",
)
_key(
    "capture_dynamic_output_shape_ops",
    False,
    "Operators whose size depends on data enter the graph; so they always do with `fullgraph=True`, and where shapes are "
    "declared.",
)
_key("only_allow_pt2_compliant_ops", False, "Custom operators without the tag `pt2_compliant_tag` break the graph.")
_key("specialize_int", False, "Python ints are always constants, also those that were seen to change.")
_key(
    "specialize_float",
    False,
    "Python floats are always constants; off: one seen to change, or read out of a tensor at a break, is a graph input.",
)
_key("replay", True, "In one trace, a module that is like one traced before is not traced again (docs/decisions/replay.md).")
_key("guard_nn_modules", True, "Attributes of modules that a trace relied on are guarded; off: they never change.")
_key("force_parameter_static_shapes", True, "Sizes of parameters, and of buffers until they vary, are constants.")
_key("suppress_errors", True, "Where tracing fails by a bug of the tracer, warn and run the frame in CPython.")
_key("verify_correctness", False, "Each graph's first result is compared with that of running the graph eagerly.")
_key("verbose", False, "Errors of the tracer show its own stack beside the user's.")
_key("prune_guards", True, "Shape guards that the solver proves implied by the others are dropped.")
_key("skip_messages", False, "Warnings and calls of loggers in traced code are left out of it.")
_key("convert_every_frame", False, "Frames without tensors are replaced too, also the library's: tries the tracer on any Python.")
_key(
    "agree_across_ranks",
    "never",
    "What the ranks of a distributed program decide together: `at_misses`, which sizes are symbols; `at_calls`, also when "
    "something is compiled ([howto/ranks.md](howto/ranks.md)). Read when something is compiled.",
    "never",
    "at_misses",
    "at_calls",
)
_key("agree_timeout", 300.0, "Seconds that a rank waits for the others before it decides alone.")
_key("compile_timeout", 0.0, "Seconds that a trace and its backend may take; then the frame runs in CPython. 0: no limit.")
_key("max_trace_instructions", 5_000_000, "A trace longer than this breaks the graph.")
_key(
    "repeated",
    "flat",
    "What compilers are given of a graph in which blocks repeat: `flat`, one graph; `outline`, equal blocks once; `auto`, the "
    "same where the blocks are many and large.",
    "flat",
    "outline",
    "auto",
)
_key("cache_dir", "", "A folder that keeps what was compiled for other processes (docs/serving.md). Empty: none does.")
_key("cache_size", 1024, "MiB that the folder may hold; the least recently used files are removed.")

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}


def parse(key: Key, text: str) -> Any:
    """The value of an environment variable; ValueError says what was expected."""
    name = f"TRACER_{key.name.upper()}"
    if key.type is bool:
        if text.strip().lower() in _TRUE | _FALSE:
            return text.strip().lower() in _TRUE
        raise ValueError(f"{name}={text!r}: expected 1 or 0")
    if key.choices and text not in key.choices:
        raise ValueError(f"{name}={text!r}: expected {' or '.join(key.choices)}")
    try:
        return key.type(text)
    except ValueError:
        raise ValueError(f"{name}={text!r}: expected a value of type {key.type.__name__}") from None


def _initial(environ: Mapping[str, str]) -> dict[str, Any]:
    values = {}
    for key in KEYS.values():
        text = environ.get(f"TRACER_{key.name.upper()}")
        values[key.name] = key.default if text is None else parse(key, text)
    return values


class _Overlay(NamedTuple):
    """The settings of one `patch`; `values` contains those of the outer patches too. `block`: the setting of `begin_setting`."""

    values: dict[str, Any]
    below: _Overlay | None
    block: str = ""


_defaults: dict[str, Any] = _initial(os.environ)
_overlay: ContextVar[_Overlay | None] = ContextVar("tracer_config_overlay", default=None)


def _unknown(name: str) -> AttributeError:
    near = difflib.get_close_matches(name, KEYS)
    meant = f"; did you mean {' or '.join(near)}?" if near else f". Known: {', '.join(sorted(KEYS))}"
    return AttributeError(f"tracer.config has no setting {name!r}{meant}")


def _checked(name: str, value: Any) -> Any:
    """The value, if it has the type of the setting. Only ints are converted: 0 and 1 to bool, any to float."""
    key = KEYS.get(name)
    if key is None:
        raise _unknown(name)
    if key.type is bool and type(value) is int and value in (0, 1):
        return bool(value)
    if key.type is float and type(value) is int:
        return float(value)
    if type(value) is not key.type:
        raise TypeError(f"tracer.config.{name} is {key.type.__name__}, not {type(value).__name__} ({value!r})")
    if key.choices and value not in key.choices:
        raise ValueError(f"tracer.config.{name} is one of {', '.join(map(repr, key.choices))}, not {value!r}")
    return value


class patch:
    """`with config.patch(recompile_limit=2):` or `@config.patch({"verbose": True})`: settings for this context only."""

    def __init__(self, changes: Mapping[str, Any] | str | None = None, value: Any = None, /, **more: Any) -> None:
        first = {changes: value} if isinstance(changes, str) else dict(changes or {})
        self.changes = {name: _checked(name, setting) for name, setting in {**first, **more}.items()}

    def __enter__(self) -> None:
        below = _overlay.get()
        _overlay.set(_Overlay({**(below.values if below else {}), **self.changes}, below))

    def __exit__(self, *exc_info: object) -> None:
        current = _overlay.get()
        assert current is not None, "config.patch left in a context where it was not entered"
        _overlay.set(current.below)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isclass(fn) or inspect.isgeneratorfunction(fn) or inspect.iscoroutinefunction(fn):
            raise TypeError(f"config.patch decorates plain functions; use `with` inside {fn.__qualname__}")

        @functools.wraps(fn)
        def patched(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        return patched


def begin_setting(name: str, value: Any) -> None:
    """Until the matching `end_setting`, this context has the setting. The tracer knows the two by identity: in traced code, the
    setting holds for the trace of what stands between them."""
    below = _overlay.get()
    _overlay.set(_Overlay({**(below.values if below else {}), name: _checked(name, value)}, below, name))


def before_block(inner: int) -> tuple[str, Any] | None:
    """The setting of a block that has begun in this context, `inner` blocks further out than the innermost: its name, and the
    value that it has outside. None if there is no such block."""
    overlay = _overlay.get()
    while overlay is not None:
        if overlay.block and not inner:
            below = overlay.below.values if overlay.below else {}
            return overlay.block, below.get(overlay.block, _defaults[overlay.block])
        inner -= bool(overlay.block)
        overlay = overlay.below
    return None


def end_setting() -> None:
    """Ends what the last `begin_setting` began."""
    patch().__exit__()


def snapshot() -> dict[str, Any]:
    """All settings as this context sees them."""
    current = _overlay.get()
    return {**_defaults, **(current.values if current else {})}


_WITHOUT_EFFECT_ON_TRACES = frozenset({
    "recompile_limit", "accumulated_recompile_limit", "error_on_recompile", "fail_on_recompile_limit_hit", "suppress_errors",
    "verify_correctness", "verbose", "prune_guards", "max_trace_instructions", "compile_timeout",
    "cache_dir", "cache_size", "replay", "agree_across_ranks", "agree_timeout",
})  # fmt: skip


def of_traces() -> dict[str, Any]:
    """Of all settings as this context sees them, those that change what a trace gives."""
    return {name: value for name, value in snapshot().items() if name not in _WITHOUT_EFFECT_ON_TRACES}


def reset() -> None:
    """Process defaults as at import; overlays of running patches stay."""
    _defaults.update(_initial(os.environ))


def markdown() -> str:
    """The text of docs/config.md."""
    lines = [
        "# Settings\n",
        "`tracer.config.<name> = value` sets the default of the process; `with tracer.config.patch(<name>=value):`",
        "(also a decorator) holds for the running thread or async task only. At import `TRACER_<NAME>` in the",
        "environment is read (`1` or `0` for switches). This page is generated from `tracer/config.py` and",
        "`tracer/logs.py`.\n",
        "| Name | Default | Meaning |",
        "|---|---|---|",
    ]
    lines += [f"| `{key.name}` | `{key.default!r}` | {key.doc} |" for key in KEYS.values()]
    return "\n".join(lines) + "\n"


# The module's own class answers for the settings: a property per key, so that reading one is quick.


def _setting(name: str) -> property:
    def read(module: types.ModuleType, get: Any = _overlay.get, defaults: dict[str, Any] = _defaults) -> Any:
        overlay = get()
        if overlay is not None and name in overlay.values:
            return overlay.values[name]
        return defaults[name]

    def write(module: types.ModuleType, value: Any) -> None:
        _defaults[name] = _checked(name, value)

    return property(read, write, doc=KEYS[name].doc)


class _Settings(types.ModuleType):
    """The class of this module."""

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        raise _unknown(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in KEYS or name[:2] == "__":
            super().__setattr__(name, value)
        else:
            raise _unknown(name)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"tracer.config.{name} cannot be deleted")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *KEYS})


for _name in KEYS:
    setattr(_Settings, _name, _setting(_name))
sys.modules[__name__].__class__ = _Settings

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
