"""Questions that libraries ask torch about symbolic numbers."""

from __future__ import annotations

import torch
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols

from tests.support import captured
from tracer import config


def test_sizes_and_numbers_that_depend_on_data_are_told_from_those_that_do_not():
    def asked(x):
        rows = x.nonzero()
        count = rows.shape[0]
        told = [has_free_unbacked_symbols(value) for value in (x, x.shape[0], (1, [x]), count, rows, (x, rows), [[count]])]
        return torch.tensor(told if torch.compiler.is_compiling() else [False] * 3 + [True] * 4)

    with config.patch(capture_dynamic_output_shape_ops=True):
        captured(asked, torch.tensor([1, 2]))
