"""`config.cache_dir`: what one process has compiled the next one finds, unless it differs; the folder is the user's alone."""

from __future__ import annotations

import os
import random
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config

import tracer
from tests.support.processes import run_python
from tracer import config, logs
from tracer.exc import UserError
from tracer.saving import cache_folder


@pytest.fixture
def folder(tmp_path):
    with config.patch(cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache"
        cache_folder.flush()


def files(folder):
    return sorted(folder.rglob("*.entries"))


def program(x):
    return x * 2 if x.shape[0] <= 8 else x.sum(0)


def breaks(x):
    y = x * 2
    print(end="")
    return y + 1


def fresh(fn, *calls, **settings):
    """A compiled object as the next process has it, after these calls, which gave what eager gives."""
    made = tracer.compile(fn, **settings)
    for x in calls:
        assert torch.equal(made(x), fn(x))
    cache_folder.flush()
    return made


CALLS = [torch.randn(n, 3) for n in (3, 5, 20)]


def test_what_was_compiled_once_is_found_by_the_next(folder):
    first = fresh(program, *CALLS)
    assert first.stats()["compiles"] == 3 and len(files(folder)) == 3
    again = fresh(program, *CALLS)
    assert again.stats()["compiles"] == 0 and tracer.region_of(again).stats["load"] == 2  # that of any size serves two calls
    assert len(files(folder)) == 3


def test_a_loaded_entry_serves_no_call_that_its_guards_refuse(folder):
    fresh(program, CALLS[0])
    again = fresh(program, torch.randn(3, 3, dtype=torch.float64), CALLS[0], CALLS[0].clone().requires_grad_())
    assert again.stats()["compiles"] == 2


def test_a_size_that_varies_after_a_load_becomes_symbolic(folder):
    fresh(program, CALLS[0])
    again = fresh(program, CALLS[0], torch.randn(5, 3), torch.randn(7, 3))
    assert again.stats()["compiles"] == 1


def test_other_settings_and_other_ways_to_compile_find_nothing(folder):
    fresh(program, CALLS[0])
    with config.patch(specialize_float=True):
        assert fresh(program, CALLS[0]).stats()["compiles"] == 1
    assert fresh(program, CALLS[0], fullgraph=True).stats()["compiles"] == 1
    assert fresh(program, CALLS[0], shapes="x: B, _; B in 1..64").stats()["compiles"] == 1
    assert fresh(program, CALLS[0], shapes="x: B, _; B in 1..64").stats()["compiles"] == 0


def test_precompile_is_served_from_the_folder_with_the_certificate_intact(folder):
    for compiles in (2, 0):
        made = tracer.compile(program, shapes="x: B, 3; B in 1..64")
        assert tracer.precompile(made, example=CALLS[:1]).certified and made.stats()["compiles"] == compiles
        cache_folder.flush()


def test_both_sides_of_a_break_are_found(folder):
    fresh(breaks, CALLS[0])
    assert fresh(breaks, CALLS[0]).stats()["compiles"] == 0


def test_one_that_explains_is_told_of_each_graph(folder):
    fresh(program, CALLS[0])
    assert tracer.explain(program)(CALLS[0]).graph_count == 1


# -- what is edited -----------------------------------------------------------------------------------------------

SOURCE = """
def scaled(x):
    return x * 2

def shifted(x):
    return x + 1

def first(x):
    return scaled(x)

def second(x):
    return shifted(x)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    name = f"edited_{tmp_path.name}"
    monkeypatch.syspath_prepend(tmp_path / "checkout")

    def written(old="", new=""):
        (tmp_path / "checkout").mkdir(exist_ok=True)
        (tmp_path / "checkout" / f"{name}.py").write_text(textwrap.dedent(SOURCE.replace(old, new) if old else SOURCE))
        sys.modules.pop(name, None)
        sys.dont_write_bytecode = True
        return __import__(name)

    yield written
    sys.modules.pop(name, None)


def test_a_line_that_is_edited_refuses_exactly_its_entries(folder, module):
    before = module()
    fresh(before.first, CALLS[0])
    fresh(before.second, CALLS[0])
    now = module("x * 2", "x * 3")
    with logs.capture("cache") as records:
        assert fresh(now.first, CALLS[0]).stats()["compiles"] == 1
        assert fresh(now.second, CALLS[0]).stats()["compiles"] == 0
    told = [record.text for record in records if "NOT LOADED" in record.text]
    assert len(told) == 1 and "scaled" in told[0] and "has other code" in told[0]


# -- damage -------------------------------------------------------------------------------------------------------


def test_files_that_were_changed_are_misses_with_a_reason(folder, request):
    fresh(program, CALLS[0])
    (file,) = files(folder)
    data, draw = file.read_bytes(), random.Random(0)
    for _ in range(2000 if request.config.getoption("--full") else 40):
        file.write_bytes(mutated(data, draw))
        made = tracer.compile(program)
        assert torch.equal(made(CALLS[0]), program(CALLS[0]))
        assert made.stats()["compiles"] in (0, 1)
        cache_folder.flush()
    file.write_bytes(data)
    assert fresh(program, CALLS[0]).stats()["compiles"] == 0


def mutated(data, draw):
    start = draw.randrange(len(data))
    match draw.randrange(4):
        case 0:
            return data[:start]
        case 1:
            return data[:start] + bytes([data[start] ^ 1 << draw.randrange(8)]) + data[start + 1 :]
        case 2:
            return data[:start] + draw.randbytes(20) + data[start:]
        case _:
            return data[:start] + data[start + draw.randrange(1, 50) :]


def test_a_file_that_was_never_finished_is_not_read_and_removed(folder):
    fresh(program, CALLS[0])
    (file,) = files(folder)
    half = file.with_name(f".{file.name}.x.new")
    half.write_bytes(file.read_bytes()[:100])
    os.utime(half, (time.time() - 9999,) * 2)
    assert fresh(program, CALLS[0]).stats()["compiles"] == 0
    fresh(program, CALLS[0].double())
    assert not half.exists()


def test_the_least_recently_used_files_go_when_the_folder_is_full(folder, monkeypatch):
    made = fresh(program, CALLS[0])
    (old,) = files(folder)
    os.utime(old, (1, 1))
    with config.patch(cache_size=0):
        made(CALLS[0].double())
        cache_folder.flush()
    assert not old.exists()


# -- trust --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_that_others_may_write_to_is_an_error(tmp_path, mode):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(mode)
    with config.patch(cache_dir=str(tmp_path / "cache")), pytest.raises(UserError, match="others may write to .*run as code"):
        tracer.compile(program)(CALLS[0])


def test_a_folder_of_another_user_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with config.patch(cache_dir=str(tmp_path / "cache")), pytest.raises(UserError, match="belongs to user"):
        tracer.compile(program)(CALLS[0])


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with config.patch(cache_dir=str(tmp_path / "file" / "cache")), pytest.raises(UserError, match="cannot be used"):
        tracer.compile(program)(CALLS[0])


# -- processes ----------------------------------------------------------------------------------------------------

PROCESS = """
import sys, torch, tracer
sys.path.insert(0, sys.argv[1])
import of_the_user
model = of_the_user.Model().eval()
compiled = tracer.compile(model)
with torch.no_grad():
    assert torch.equal(compiled(torch.ones(3, 4)), model(torch.ones(3, 4)))
print(tracer.stats(compiled)["compiles"])
"""
MODEL = """
import torch
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
    def forward(self, x):
        return self.linear(x).relu() + 1
"""


def checkout(folder):
    folder.mkdir()
    (folder / "of_the_user.py").write_text(MODEL)
    return folder


def compiles(path, cache, **environment):
    return int(run_python(PROCESS, path, TRACER_CACHE_DIR=str(cache), **environment).stdout.split()[-1])


def test_another_checkout_host_and_environment_find_what_was_compiled(tmp_path):
    cache = tmp_path / "cache"
    assert compiles(checkout(tmp_path / "one"), cache) == 1
    assert compiles(checkout(tmp_path / "two"), cache, HOSTNAME="pod-7", POD_IP="10.0.0.7", HOME=str(tmp_path)) == 0


@pytest.mark.full
def test_eight_processes_at_once_share_a_folder(tmp_path):
    cache, path = tmp_path / "cache", checkout(tmp_path / "one")
    with ThreadPoolExecutor(8) as pool:
        assert all(found <= 1 for found in pool.map(lambda _: compiles(path, cache), range(8)))
        assert list(pool.map(lambda _: compiles(path, cache), range(8))) == [0] * 8
    assert not list(cache.rglob("*.new"))


@pytest.mark.parametrize(
    "change",
    [inductor_config.patch(emulate_precision_casts=True), functorch_config.patch(treat_parameters_as_free_to_save=False)],
)
def test_what_torch_compiled_with_other_settings_is_not_loaded(folder, change):
    fresh(program, *CALLS[:1], backend="aot_eager")
    with change:
        again = fresh(program, *CALLS[:1], backend="aot_eager")
    assert again.stats()["compiles"] == 1 and len(files(folder)) == 2
    assert fresh(program, *CALLS[:1], backend="aot_eager").stats()["compiles"] == 0


def test_a_function_whose_globals_have_no_name_is_kept_or_refused_with_a_reason(folder, caplog):
    made = {}
    exec("def plus(x): return x + 1", made)
    plus = made["plus"]
    fresh(lambda x: plus(x) * 2, CALLS[0])
    assert not [record for record in caplog.records if "is not kept" in record.getMessage()]
