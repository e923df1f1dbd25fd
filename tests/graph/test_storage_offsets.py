"""Where an input begins in its storage: guarded on where the program relies on it, and only there."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.soundness.watching import Watched
from tests.support.outcomes import outcome


def reads_it(x):
    return x + x.storage_offset()


def reads_that_of_a_view(x):
    return x + x[2:].storage_offset() * x[:, None].storage_offset()


def counts_from_the_storage(x):
    return x.as_strided((2, 2), (2, 1), 1) + 1


def counts_from_the_storage_by_function(x):
    return torch.as_strided(x, size=(2,), stride=(1,), storage_offset=1) * 2


def copies_from_the_storage(x):
    return torch.as_strided_copy(x[1:], (2,), (1,), 1)


def scatters_into_the_storage(x):
    return torch.as_strided_scatter(x, torch.ones(2), (2,), (1,), 2)


def counts_from_its_beginning(x):
    return x.as_strided((2,), (1,)) * 2


def at(offset):
    return torch.arange(20.0)[offset : offset + 8]


PROGRAMS = [
    reads_it, reads_that_of_a_view, counts_from_the_storage, counts_from_the_storage_by_function, copies_from_the_storage,
    scatters_into_the_storage, counts_from_its_beginning,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs_that_rely_on_the_offset(program):
    watched = Watched(program)
    for offset in (0, 3, 5, 1, 0, 12):
        expected, seen = outcome(program, at(offset)), outcome(watched.compiled, at(offset))
        assert torch.equal(expected, seen) if isinstance(expected, torch.Tensor) else expected == seen


def test_the_offset_is_guarded_only_where_it_is_read():
    watched = Watched(reads_it)
    watched(at(3))
    assert "L['x'].storage_offset() == 3" in watched.entries[0].guarded_code.guards_text
    for program, traces in ((counts_from_its_beginning, 1), (counts_from_the_storage, 2), (reads_it, 2)):
        watched = Watched(program)
        watched(at(0))
        watched(at(4))
        assert watched.traces == traces


def test_an_input_that_begins_later_breaks_the_graph_of_a_compiler_that_counts_from_there():
    watched = Watched(counts_from_the_storage)
    watched(at(0))
    watched(at(4))
    assert ["as_strided" in str(gm.graph) for gm in watched.graphs] == [True, False]


def test_an_input_that_begins_later_is_captured_where_the_graph_runs_as_written():
    compiled = tracer.compile(counts_from_the_storage, backend="eager", fullgraph=True)
    for offset in (4, 0, 4, 6):
        assert torch.equal(compiled(at(offset)), counts_from_the_storage(at(offset)))
