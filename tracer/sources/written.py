"""Places as a program writes them: `x.shape[0]` for `L['x'].size()[0]`."""

from __future__ import annotations

import re

_ARGUMENT = re.compile(r"L\['([^\W\d]\w*)'\]")
_SIZE = re.compile(r"\.size\(\)(\[\d+\])$")
_OF_MODULE = re.compile(r"\._(?:buffers|parameters|modules)\['([^\W\d]\w*)'\]")
_READABLE = re.compile(r"[^\W\d]\w*(\.\w+(\(\))?|\[(-?\d+|'[^']*')\])*")


def as_written(name: str, steps: str) -> str | None:
    """What a program writes for the steps from something that it calls `name`; None if a program would not write that.

    ```python
    assert as_written("batch", "['ids'].size()[1]") == "batch['ids'].shape[1]"
    ```
    """
    text = _OF_MODULE.sub(r".\1", _SIZE.sub(r".shape\1", name + steps))
    return text if _READABLE.fullmatch(text) else None


def argument_as_written(label: str) -> str | None:
    """As `as_written`, for the name of a source that begins at an argument of the function."""
    found = _ARGUMENT.match(label)
    return None if found is None else as_written(found[1], label[found.end() :])
