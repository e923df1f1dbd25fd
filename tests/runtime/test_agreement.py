"""`config.agree_across_ranks`, with one other rank that says what the test has it say; see also test_agreement_of_processes."""

from __future__ import annotations

import json
import warnings

import pytest
import torch
import torch.distributed as dist

import tracer
from tracer.runtime import agreement, notice_board
from tracer.runtime.notice_board import Board, Unreachable


class OtherRank(Board):
    """The board of rank 0 of 2. Rank 1 comes whenever it is waited for.

    `sees`: the sizes and numbers that it tells of at each miss, by place. `misses`: whether it has no entry, for each call in
    turn (afterwards: it hits). `absent`: it never comes."""

    def __init__(self, sees=None, misses=(), absent=False):
        super().__init__(dist.HashStore(), 0, 2)
        self.sees, self.misses, self.absent = sees, list(misses), absent
        self.exchanges, self.calls = 0, 0

    def add(self, key, amount):
        self.calls += 1
        if self.absent:
            return super().add(key, amount)
        missed = self.misses.pop(0) if self.misses else False
        super().add(key, 1 + (1 << 24) * missed)
        return super().add(key, amount)

    def wait_for(self, keys, unless, seconds):
        for key in [key for rank, key in keys.items() if rank is not None and not self.absent]:
            self.exchanges += 1
            self.post(key, "" if self.sees is None else json.dumps([self.sees, {}]))
        super().wait_for(keys, unless, seconds)


@pytest.fixture
def beside(monkeypatch):
    """Makes this process rank 0 beside another one."""

    def put(board):
        monkeypatch.setattr(notice_board, "current", lambda: board)
        return board

    return put


def rows(x):
    return x * x.shape[0]


def entries(compiled):
    return tracer.region_of(compiled).entries()


@pytest.mark.parametrize("when", [agreement.AT_MISSES, agreement.AT_CALLS])
def test_a_size_that_differs_on_another_rank_is_a_symbol_at_once(when, beside):
    other = beside(OtherRank({"L['x']": (7, 8)}))
    with tracer.config.patch(agree_across_ranks=when):
        compiled = tracer.optimize()(rows)
        for count in 4, 5, 6:
            torch.testing.assert_close(compiled(torch.ones(count, 8)), rows(torch.ones(count, 8)))
    assert len(entries(compiled)) == 1
    assert other.exchanges == 1


def test_nothing_is_asked_while_it_is_off(beside):
    other = beside(OtherRank({"L['x']": (7, 8)}))
    compiled = tracer.optimize()(rows)
    for count in 4, 4, 5:
        compiled(torch.ones(count, 8))
    assert len(entries(compiled)) == 2
    assert (other.calls, other.exchanges) == (0, 0)
    assert tracer.region_of(compiled).region.agree is None


def test_a_call_that_misses_elsewhere_is_traced_here_too(beside):
    other = beside(OtherRank({"L['x']": (4, 8)}, misses=[True, False, True, False]))
    with tracer.config.patch(agree_across_ranks="at_calls"):
        compiled = tracer.optimize()(rows)
        compiled(torch.ones(4, 8))
        assert compiled(torch.ones(4, 8)).sum() == 128 and len(entries(compiled)) == 1
        other.sees = {"L['x']": (9, 8)}
        assert compiled(torch.ones(4, 8)).sum() == 128
        assert tracer.region_of(compiled).stats["compile"] == 2
        compiled(torch.ones(6, 8))
    assert tracer.region_of(compiled).stats["compile"] == 2
    assert other.calls == 4


def test_the_reason_of_such_a_recompile_is_told(beside):
    beside(OtherRank({"L['x']": (4, 8)}, misses=[True, True]))
    with tracer.config.patch(agree_across_ranks="at_calls"):
        compiled = tracer.optimize()(rows)
        compiled(torch.ones(4, 8))
        with (
            tracer.config.patch(error_on_recompile=True),
            pytest.raises(tracer.exc.RecompileError, match="another rank has no entry for its call"),
        ):
            compiled(torch.ones(4, 8))


def test_an_entry_serves_a_call_that_misses_elsewhere_where_nothing_may_be_traced(beside):
    beside(OtherRank({"L['x']": (4, 8)}, misses=[True] * 9))
    with tracer.config.patch(agree_across_ranks="at_calls"):
        compiled = tracer.optimize(recompile_limit=1)(rows)
        compiled(torch.ones(4, 8))
        hits = tracer.region_of(compiled).hits()
        assert compiled(torch.ones(4, 8)).sum() == 128
        with tracer.set_stance("fail_on_recompile"):
            assert compiled(torch.ones(4, 8)).sum() == 128
    assert tracer.region_of(compiled).stats["compile"] == 1
    assert hits == tracer.region_of(compiled).hits() == 0  # what the callback answers is no hit


def test_a_rank_that_never_comes_is_waited_for_once_and_named(beside):
    beside(OtherRank(absent=True))
    with tracer.config.patch(agree_across_ranks="at_misses", agree_timeout=0.05):
        compiled = tracer.optimize()(rows)
        with pytest.warns(UserWarning, match=r"rank 1 did not come to a call of rows .* not within 0.05 seconds"):
            compiled(torch.ones(4, 8))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert compiled(torch.ones(5, 8)).sum() == 200
    assert len(entries(compiled)) == 2


def test_calls_that_no_other_rank_makes_run(beside):
    other = beside(OtherRank())
    with tracer.config.patch(agree_across_ranks="at_calls", agree_timeout=0.05):
        compiled = tracer.optimize()(rows)
        compiled(torch.ones(4, 8))
        other.absent = True
        with pytest.warns(UserWarning, match="other ranks did not come to a call of rows"):
            assert compiled(torch.ones(4, 8)).sum() == 128
        calls = other.calls
        assert compiled(torch.ones(4, 8)).sum() == 128
        assert other.calls == calls
        tracer.reset()
        other.absent = False
        compiled(torch.ones(4, 8))
        assert other.calls == calls + 1


def test_a_store_that_fails_is_told_and_the_call_runs(beside):
    class Broken:
        def set(self, key, note):
            raise dist.DistNetworkError("connection reset")

    beside(Board(Broken(), 0, 2))
    with tracer.config.patch(agree_across_ranks="at_misses"):
        compiled = tracer.optimize()(rows)
        with pytest.warns(UserWarning, match="the store of the process group fails: connection reset"):
            assert compiled(torch.ones(4, 8)).sum() == 128


def test_switching_it_off_ends_the_questions(beside):
    other = beside(OtherRank({"L['x']": (4, 8)}))
    compiled = tracer.optimize()(rows)
    with tracer.config.patch(agree_across_ranks="at_calls"):
        compiled(torch.ones(4, 8))
    calls = other.calls
    compiled(torch.ones(4, 8))
    assert other.calls == calls and tracer.region_of(compiled).region.agree is None


def test_what_ranks_read_of_a_function_that_breaks_is_agreed_on_part_by_part(beside):
    other = beside(OtherRank({"L['x']": (4, 8)}))

    def broken(x):
        y = x * 2
        tracer.graph_break()
        return y + y.shape[0]

    with tracer.config.patch(agree_across_ranks="at_calls"):
        compiled = tracer.optimize()(broken)
        for _ in range(3):
            torch.testing.assert_close(compiled(torch.ones(4, 8)), torch.ones(4, 8) * 6)
    assert (other.exchanges, other.calls) == (2, 6)


def test_notes_are_removed_once_all_ranks_have_gone_on(beside):
    other = beside(OtherRank({"L['x']": (4, 8)}))
    with tracer.config.patch(agree_across_ranks="at_calls"):
        compiled = tracer.optimize()(rows)
        for _ in range(20):
            compiled(torch.ones(4, 8))
    assert other._store.num_keys() < 6


def test_a_process_group_of_one_has_no_board(tmp_path):
    assert notice_board.current() is None
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        assert notice_board.current() is None
        with tracer.config.patch(agree_across_ranks="at_calls"):
            compiled = tracer.optimize()(rows)
            assert compiled(torch.ones(4, 8)).sum() == compiled(torch.ones(4, 8)).sum() == 128
    finally:
        dist.destroy_process_group()


def test_a_rank_stops_waiting_once_another_one_has_given_up():
    board = Board(dist.HashStore(), 0, 2)
    board.post("given up", "1")
    with pytest.raises(Unreachable, match="they have given up waiting"):
        board.wait_for({1: "a note"}, "given up", 60)
