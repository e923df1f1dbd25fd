"""Functions that a program gives to torch.compile more than once: `torch.compile(f)(x)` in a loop, or in a function that is
called often. Each result is an object of its own, and all have the entries of the first, as under torch's tracer.

What was compiled for a function lies in the function, so that both go together. Functions of the same code, such as closures that
one function makes, take over from one another what their guards allow (docs/decisions/sharing.md).
"""

from __future__ import annotations

import dataclasses
import types
from typing import TYPE_CHECKING, Any

from tracer.api.settings import Settings
from tracer.runtime.twins import backend_key, of_process

if TYPE_CHECKING:
    from tracer.runtime.region_state import RegionState

_ATTRIBUTE = "_tracer_compiled"
_MOST = 8  # settings under which one function is remembered, the newest


@dataclasses.dataclass(frozen=True, eq=False)
class SettingsOfAgain(Settings):
    """The settings of a decoration that goes on in the region of an earlier one, or leaves its own to later ones."""

    earlier: Earlier | None = None
    install: object = None

    def new_region(self, target: object, *, is_of_module: bool = False) -> RegionState:
        assert self.earlier is not None
        region = self.earlier.region(self)
        if region is None:
            region = super().new_region(target, is_of_module=is_of_module)
            region.shares_code = not is_of_module
            self.earlier.keep(self, region)
        return region


class Earlier:
    """The regions of one function, by what they were made from. Copies and pickles of the function know nothing of them."""

    def __init__(self, function: types.FunctionType | None = None) -> None:
        self.function = function
        self._regions: dict[tuple[Any, ...], RegionState] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Earlier, ()

    def region(self, settings: SettingsOfAgain) -> RegionState | None:
        """The region of an earlier decoration with these settings. One that was sealed since belongs to that decoration alone."""
        found = self._regions.get(_key(settings))
        return found if found is not None and found.miss_handler is None else None

    def keep(self, settings: SettingsOfAgain, region: RegionState) -> None:
        self._regions[_key(settings)] = region
        if len(self._regions) > _MOST:
            del self._regions[next(iter(self._regions))]


def settings_of_again(target: Any, settings: Settings, install: object) -> Settings:
    """The settings for one more decoration of what may have been decorated before, in the same install: a function, without
    declared shapes."""
    if install is None or type(target) is not types.FunctionType or settings.shapes is not None:
        return settings
    earlier = target.__dict__.get(_ATTRIBUTE)
    if earlier is None or earlier.function is not target:  # `functools.wraps` copies the attributes of a function
        earlier = target.__dict__[_ATTRIBUTE] = Earlier(target)
    fields = {field.name: getattr(settings, field.name) for field in dataclasses.fields(Settings)}
    return SettingsOfAgain(**fields, earlier=earlier, install=install)


def _key(settings: SettingsOfAgain) -> tuple[Any, ...]:
    """Equal for decorations that make the same of a function. The objects whose ids it holds live as long as the region."""
    own = settings.fullgraph, settings.dynamic, settings.name, settings.recompile_limit, settings.capacity
    hooks = tuple(sorted((name, id(hook)) for name, hook in settings.hooks.items()))
    made_by = *backend_key(settings.compiler()), settings.install
    return *made_by, *own, settings.compile_timeout, hooks, *of_process()
