"""`torch._dynamo.config`, its counters and TORCH_LOGS, while the tracer is installed."""

from __future__ import annotations

from unittest import mock

import pytest
import torch
import torch._dynamo
from torch._dynamo import config as config_imported_before
from torch._dynamo.utils import counters as counters_imported_before

import tracer
from tracer import logs

pytestmark = pytest.mark.usefixtures("installed")


def constant_of(x, n):
    return x + int(str(n))


def test_a_setting_is_one_value_under_both_names():
    torch._dynamo.config.recompile_limit = 3
    assert tracer.config.recompile_limit == 3
    tracer.config.recompile_limit = 5
    assert config_imported_before.recompile_limit == config_imported_before.cache_size_limit == 5
    torch._dynamo.config.cache_size_limit = 4
    assert tracer.config.recompile_limit == 4
    torch._dynamo.config.accumulated_cache_size_limit = 40
    assert tracer.config.accumulated_recompile_limit == 40


@pytest.mark.filterwarnings("ignore:torch._dynamo.config:FutureWarning")
def test_copies_of_torchs_settings_hold_what_was_set_by_our_names():
    tracer.config.recompile_limit = 11
    assert torch._dynamo.config.get_config_copy()["recompile_limit"] == 11
    saved = torch._dynamo.config.save_config()
    tracer.config.recompile_limit = 12
    torch._dynamo.config.load_config(saved)
    assert tracer.config.recompile_limit == 11


def test_patches_of_torchs_settings_are_heard():
    before = tracer.config.error_on_recompile
    compiled = torch.compile(lambda x, flag: x + 1 if flag else x)
    compiled(torch.ones(2), True)
    with torch._dynamo.config.patch(error_on_recompile=True), pytest.raises(torch._dynamo.exc.RecompileError):
        compiled(torch.ones(2), False)
    assert tracer.config.error_on_recompile is before
    with mock.patch.object(torch._dynamo.config, "specialize_int", True):
        assert tracer.config.specialize_int
    assert not tracer.config.specialize_int


def test_settings_made_before_the_install_are_heard_and_ours_come_back():
    tracer.uninstall()
    with torch._dynamo.config.patch(specialize_int=True, recompile_limit=2):
        with tracer.install(backend="eager"):
            assert tracer.config.specialize_int and tracer.config.recompile_limit == 2
        assert not tracer.config.specialize_int and tracer.config.recompile_limit == 8
        assert torch._dynamo.config.recompile_limit == 2


def test_the_limit_that_torch_sets_is_the_tracers():
    with torch._dynamo.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        compiled = torch.compile(lambda x, flag: x + 1 if flag else x)
        compiled(torch.ones(2), True)
        with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
            compiled(torch.ones(2), False)


def test_settings_that_there_are_not_raise_as_torchs():
    with pytest.raises(AttributeError, match="no_such"):
        torch._dynamo.config.no_such
    with pytest.raises(AttributeError, match="no_such"):
        torch._dynamo.config.no_such = 1


def test_counters_are_torchs():
    counters_imported_before.clear()
    compiled = torch.compile(lambda x: x.sin() + 1)
    compiled(torch.ones(2))
    assert torch._dynamo.utils.counters is counters_imported_before
    assert counters_imported_before["stats"]["unique_graphs"] == tracer.counters["stats"]["unique_graphs"] == 1
    assert counters_imported_before["stats"]["calls_captured"] == 2
    tracer.uninstall()
    assert tracer.counters["stats"]["unique_graphs"] == 1
    tracer.compile(lambda x: x.cos())(torch.ones(2))
    assert counters_imported_before["stats"]["unique_graphs"] == 1


def test_logs_of_torch_switch_ours():
    try:
        torch._logging.set_logs(graph_code=True, recompiles_verbose=True, dynamic=20)
        assert logs.enabled() >= {"graph_code", "recompiles", "dynamic"}
        tracer.set_logs(guards=True)
        torch._logging.set_logs(graph_breaks=True)
        assert logs.enabled() == {"graph_breaks", "guards"}
    finally:
        torch._logging.set_logs()
        tracer.set_logs(all=False)


def test_logs_switched_on_before_the_install_are_on_until_it_ends():
    tracer.uninstall()
    torch._logging.set_logs(guards=True)
    try:
        with tracer.install():
            assert logs.is_on("guards")
        assert not logs.is_on("guards")
    finally:
        torch._logging.set_logs()


def test_a_size_of_one_is_not_looked_at_where_torchs_setting_says_so(installed):
    import torch.fx.experimental._config as sizes

    def entries_for(rows):
        compiled = torch.compile(lambda x: x * 2)
        for n in rows:
            x = torch.ones(n, 3)
            torch._dynamo.mark_dynamic(x, 0)
            compiled(x)
        return len(tracer.region_of(compiled).entries())

    before = tracer.config.specialize_zero_one
    assert entries_for((4, 1)) == 2
    with sizes.patch(backed_size_oblivious=True):
        assert entries_for((4, 1)) == 1
    assert tracer.config.specialize_zero_one == before


def test_torchs_settings_for_ranks_are_ours():
    assert tracer.config.agree_across_ranks == "never"
    with torch._dynamo.config.patch(enable_compiler_collectives=True):
        assert tracer.config.agree_across_ranks == "at_misses"
        compiled = torch.compile(lambda x: x + 1)
        assert torch.compiler.set_enable_guard_collectives(True) is False
        assert tracer.config.agree_across_ranks == "at_calls"
        assert tracer.region_of(compiled).region.agree is not None  # also of what is compiled already
        assert compiled(torch.ones(2)).sum() == compiled(torch.ones(2)).sum() == 4
        assert torch.compiler.set_enable_guard_collectives(False) is True
        assert tracer.config.agree_across_ranks == "at_misses"
    assert tracer.config.agree_across_ranks == "never"


def test_settings_for_ranks_made_before_the_install_are_heard_and_ours_come_back():
    tracer.uninstall()
    torch.compiler.set_enable_guard_collectives(True)
    try:
        with tracer.install(backend="eager"):
            assert tracer.config.agree_across_ranks == "at_calls"
        assert tracer.config.agree_across_ranks == "never"
    finally:
        assert torch.compiler.set_enable_guard_collectives(False) is True
