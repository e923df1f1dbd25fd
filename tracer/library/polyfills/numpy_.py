"""numpy, written so that it can be traced."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer.library.polyfills.replacing import replaces

_OF_MODULE: Any = np.random.mtrand._rand  # the generator of the functions of np.random


@replaces(np.random.seed)
def seed(seed: Any = None) -> None:
    _OF_MODULE.seed(seed)
