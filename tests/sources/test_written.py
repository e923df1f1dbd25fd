"""Places as a program writes them."""

from __future__ import annotations

import pytest

from tracer.sources.written import argument_as_written, as_written


@pytest.mark.parametrize(
    ("label", "written"),
    [
        ("L['x'].size()[0]", "x.shape[0]"),
        ("L['n']", "n"),
        ("L['batch']['ids'].size()[1]", "batch['ids'].shape[1]"),
        ("L['args'][0].size()[0]", "args[0].shape[0]"),
        ("L['self']._modules['cache']._buffers['keys'].size()[2]", "self.cache.keys.shape[2]"),
        ("L['self']._modules['0'].weight.size()[0]", "self._modules['0'].weight.shape[0]"),
        ("L['x'].stride()[0]", "x.stride()[0]"),
        ("G['table'].size()[0]", None),
        ("___drawn(L['x']).size()[0]", None),
        ("L['x'].items()", "x.items()"),
        ("L['x'][slice(1, 2)]", None),
    ],
)
def test_a_label_is_written_as_a_program_would(label, written):
    assert argument_as_written(label) == written


def test_steps_from_a_name_of_a_frame():
    assert as_written("mine", ".size()[0]") == "mine.shape[0]" and as_written("mine", "") == "mine"
