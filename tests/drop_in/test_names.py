"""docs/drop_in.md says of every name what it does; none is ignored in silence."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
import torch
import torch._dynamo

import tracer
from tracer.drop_in.settings import SHARED

PAGE = (Path(__file__).parents[2] / "docs" / "drop_in.md").read_text()
WORDS = ("heard", "replaced", "torch's", "warns", "refused")
# Names of torch._dynamo outside of its `__all__` that transformers, diffusers, accelerate, peft, Lightning, vLLM and SGLang use.
USED_BY_OTHERS = (
    *("eval_frame.OptimizedModule", "eval_frame.innermost_fn", "eval_frame.remove_from_cache", "exc", "utils.counters"),
    *("decorators.mark_unbacked", "convert_frame.register_bytecode_hook", "reset", "eval_frame._debug_get_cache_entry_list"),
    *("symbolic_convert.InliningInstructionTranslator", "aot_compile.SerializableCallable", "utils.lazy_format_graph_code"),
)


def rows():
    """name -> the word of its row."""
    found = {}
    for names, word in re.findall(r"^\| ([^|]*`torch\.[^|]*) \| ([a-z']+) \|", PAGE, flags=re.MULTILINE):
        found |= dict.fromkeys(re.findall(r"`([^`]+)`", names), word)
    return found


NEW_IN_2_14 = ("nonstrict_trace", "precompile", "PrecompileError", "cudagraph_mark_warmup_incomplete")
MISSING_HERE = {f"torch.compiler.{name}" for name in NEW_IN_2_14 if not hasattr(torch.compiler, name)}
ROWS = {name: word for name, word in rows().items() if name not in MISSING_HERE}


def value_of(name):
    owner, attribute = torch, name.removeprefix("torch.")
    for part in attribute.split("."):
        if isinstance(owner, type(torch)) and not hasattr(owner, part):
            importlib.import_module(f"{owner.__name__}.{part}")
        owner = getattr(owner, part)
    return owner


def test_the_table_has_every_public_name_and_those_that_others_use():
    public = {f"torch.compiler.{name}" for name in torch.compiler.__all__} | {
        f"torch._dynamo.{name}" for name in torch._dynamo.__all__
    }
    assert public | {f"torch._dynamo.{name}" for name in USED_BY_OTHERS} <= ROWS.keys()
    assert set(ROWS.values()) == set(WORDS)


def test_the_words_of_the_table_are_true():
    before = {name: value_of(name) for name in ROWS}
    with tracer.install(backend="eager"):
        during = {name: value_of(name) for name in ROWS}
    changed = {name for name in ROWS if during[name] is not before[name]}
    assert {name for name, word in ROWS.items() if word in ("replaced", "warns", "refused")} <= changed
    assert not {name for name in changed if ROWS[name] == "torch's"}


@pytest.mark.parametrize("name", [name for name, word in ROWS.items() if word == "refused"])
def test_what_is_refused_raises_with_its_name(installed, name):
    with pytest.raises(tracer.exc.UserError, match=f"{name.rpartition('.')[2]} cannot be honoured"):
        value_of(name)(None)


@pytest.mark.parametrize("name", [name for name, word in ROWS.items() if word == "warns"])
def test_what_has_no_effect_says_so(installed, name):
    arguments = {"allow_c_slot": (int,), "override_optimization_hint": (3, 4), "set_recursion_limit": (-1,)}
    last = name.rpartition(".")[2]
    with pytest.warns(UserWarning, match=f"{last} has no effect"):
        value_of(name)(*arguments.get(last, ()))


@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="the page lists the settings of torch 2.13")
def test_every_setting_of_torch_is_shared_or_has_a_reason():
    settings = {name for name in torch._dynamo.config._config if name[0] != "_" and name not in ("TYPE_CHECKING", "disable")}
    listed = set(re.findall(r"`([a-zA-Z0-9_]+)`", PAGE))
    assert settings - listed == set() and SHARED <= listed


@pytest.mark.parametrize(
    "listed, varying, entries",
    [
        ("L['x']", (2, 3), 1),
        ("L['x']:0", (2, 3), 1),
        ("L['x']:1", (2, 3), 2),
        (r"L\['.*:0, L['n']", (2, 3), 1),
        ("L['n']", (5,), 2),
    ],
)
def test_sizes_are_marked_by_name(installed, listed, varying, entries):
    """Sizes that are not marked are constants at first: a second size makes a second entry."""

    def scaled(x, n):
        return x * n * x.shape[0]

    with torch.compiler.config.patch(dynamic_sources=listed):
        compiled = torch.compile(scaled, isolate_recompiles=True)
        for rows in (4, *varying):
            x = torch.ones(rows, 6)
            assert torch.equal(compiled(x, 3), x * 3 * rows)
        if "n" in listed:
            assert torch.equal(compiled(x, 4), x * 4 * rows)
    assert len(tracer.region_of(compiled).entries()) == entries


def test_sizes_named_as_unbacked_are_not_looked_at(installed):
    with torch.compiler.config.patch(unbacked_sources="L['x']:0"):
        compiled = torch.compile(lambda x: x + 1 if x.shape[0] > 3 else x, fullgraph=True)
        with pytest.raises(torch._dynamo.exc.Unsupported):
            compiled(torch.ones(2))
        assert torch.equal(torch.compile(lambda x: x.sum(), fullgraph=True)(torch.ones(2)), torch.tensor(2.0))


@pytest.mark.skipif(not hasattr(torch.compiler.config, "dynamic_values"), reason="this torch has no such setting")
@pytest.mark.parametrize(
    "rows, n, dynamic, entries", [((11, 5, 6), (2,), None, 1), ((4, 5), (2,), None, 2), ((11, 5, 6), (7, 8), False, 1)]
)
def test_sizes_are_marked_by_value(installed, rows, n, dynamic, entries):
    """A size or int of a listed value is a symbol at once; the first of other sizes is a constant."""

    def scaled(x, n):
        return x * n * x.shape[0]

    with torch.compiler.config.patch(dynamic_values="11, 7"):
        compiled = torch.compile(scaled, dynamic=dynamic, isolate_recompiles=True)
        for each in n:
            for size in rows:
                x = torch.ones(size, 3)
                assert torch.equal(compiled(x, each), scaled(x, each))
    assert len(tracer.region_of(compiled).entries()) == entries


def test_a_parameter_is_not_marked_by_value(installed):
    with torch.compiler.config.patch(dynamic_values="11"):
        compiled = torch.compile(lambda p: p * 2)
        for size in (11, 5):
            compiled(torch.nn.Parameter(torch.ones(size)))
    assert len(tracer.region_of(compiled).entries()) == 2


def test_entries_are_found_and_removed_by_torchs_names(installed):
    def doubled(x):
        return x * 2

    compiled = torch.compile(doubled)
    compiled(torch.ones(1))
    assert len(torch._dynamo.eval_frame._debug_get_cache_entry_list(doubled)) == 1
    torch._dynamo.eval_frame.remove_from_cache(doubled)
    assert not tracer.region_of(compiled).entries()


def test_a_compiled_module_gives_the_decorator_that_made_it(installed):
    compiled = torch.compile(torch.nn.Linear(2, 2))
    forward = compiled.dynamo_ctx(compiled._orig_mod.forward)
    x = torch.ones(1, 2)
    assert torch.equal(forward(x), compiled(x))


def test_bytecode_hooks_are_told_of_what_was_made(installed):
    def doubled(x):
        return x * 2

    seen = []
    handle = torch._dynamo.convert_frame.register_bytecode_hook(lambda old, new: seen.append((old, new)))
    compiled = torch.compile(doubled)
    compiled(torch.ones(1))
    (entry,) = tracer.region_of(compiled).entries()
    assert seen == [(doubled.__code__, entry.guarded_code.code)]
    handle.remove()
    compiled(torch.ones(1, 1))
    assert len(seen) == 1


def test_a_bytecode_hook_that_returns_code_is_told_that_this_has_no_effect(installed):
    handle = torch._dynamo.convert_frame.register_bytecode_hook(lambda old, new: old)
    try:
        with pytest.warns(UserWarning, match="returned other code, which has no effect"):
            torch.compile(lambda x: x * 2)(torch.ones(1))
    finally:
        handle.remove()


def helper_of_inlined(x):
    return x.sin() + 1


@pytest.mark.parametrize("options", [None, {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}])
def test_who_patches_inline_call_is_told_what_was_traced_through(installed, monkeypatch, options):
    translator, told = torch._dynamo.symbolic_convert.InliningInstructionTranslator, []
    whole = translator.inline_call_

    def patched(self):
        told.append(self.f_code)
        return whole(self)

    monkeypatch.setattr(translator, "inline_call_", patched)
    compiled = torch.compile(lambda x: helper_of_inlined(x) * 2, options=options)
    x = torch.ones(2)
    assert torch.equal(compiled(x), helper_of_inlined(x) * 2)
    assert helper_of_inlined.__code__ in told
    monkeypatch.undo()
    tracer.uninstall()
    assert translator.inline_call_.__module__.startswith("torch.")
