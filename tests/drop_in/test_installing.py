"""`tracer.install`: torch.compile and nn.Module.compile go to the tracer, and uninstall puts everything back."""

from __future__ import annotations

import sys
import tomllib
import types

import pytest
import torch
import torch._dynamo
from torch import compile as imported_before
from torch._dynamo import optimize as optimize_imported_before

import tracer
from tests.support.processes import ROOT, run_python
from tracer._C import Dispatcher


def doubled(x):
    return x * 2 + 1


def entries_of(compiled):
    return tracer.region_of(compiled).entries()


def everything_in_torch():
    """name -> the object, of every attribute of torch's modules and of the classes in torch._dynamo."""
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] in ("torch", "functorch")]
    found = {}
    for module in modules:
        if type(module) is types.ModuleType:
            found |= {(module.__name__, name): value for name, value in vars(module).items() if type(value) is not int}
    for owner in (torch.nn.Module, torch._dynamo.OptimizedModule, type(torch._dynamo.config), torch._dynamo.exc.Unsupported):
        found |= {(owner, name): value for name, value in vars(owner).items()}
    return found


def test_torch_compile_is_the_tracers_while_it_is_installed():
    with tracer.install():
        compiled = torch.compile(doubled, backend="eager")
    assert type(compiled) is Dispatcher
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 3.0))
    assert len(entries_of(compiled)) == 1
    assert type(torch.compile(doubled, backend="eager")) is types.FunctionType


@pytest.mark.parametrize(
    "compile_it",
    [
        lambda fn: imported_before(fn, backend="eager"),
        lambda fn: imported_before(backend="eager")(fn),
        lambda fn: torch.compiler.compile(fn, backend="eager"),
        lambda fn: optimize_imported_before("eager")(fn),
        lambda fn: torch._dynamo.optimize("eager", nopython=True)(fn),
        lambda fn: torch._dynamo.optimize_assert("eager")(fn),
    ],
    ids=["torch.compile", "as a decorator", "torch.compiler", "optimize", "nopython", "optimize_assert"],
)
def test_names_imported_before_go_to_the_tracer(installed, compile_it):
    compiled = compile_it(doubled)
    assert compiled(torch.ones(2)).tolist() == [3, 3]
    assert len(entries_of(compiled)) == 1


def test_uninstall_puts_back_every_object_of_torch():
    tracer.install()  # loads what an install loads
    tracer.uninstall()
    before = everything_in_torch()
    with tracer.install(backend="eager"):
        torch.compile(doubled)(torch.ones(2))
        during = everything_in_torch()
        assert {key for key, value in before.items() if during[key] is not value}
    after = everything_in_torch()
    assert {key for key, value in before.items() if after.get(key) is not value} == set()
    assert {key for key in after.keys() - before.keys() if key[0] in (torch.nn.Module, type(torch._dynamo.config))} == set()


def test_nothing_of_torch_is_touched_nor_imported_before_an_install():
    run_python(
        """
        import sys, tracer, torch
        assert "torch._dynamo" not in sys.modules
        tracer.uninstall()
        assert "torch._dynamo" not in sys.modules
        """
    )


def test_a_second_install_is_the_first_unless_it_says_something_else():
    with tracer.install(backend="eager", recompile_limit=3) as first:
        assert tracer.install(backend="eager", recompile_limit=3) is first
        with pytest.raises(tracer.exc.UserError, match="installed already, with other settings"):
            tracer.install(backend="eager", recompile_limit=4)


@pytest.mark.parametrize("settings", [{"backend": "no such"}, {"recompile": 3}])
def test_an_install_that_fails_changes_nothing(settings):
    before = torch._dynamo.eval_frame._optimize
    with pytest.raises(tracer.exc.TracerError, match="no such|no setting 'recompile'"):
        tracer.install(**settings)
    assert torch._dynamo.eval_frame._optimize is before
    with tracer.install():
        pass


def test_settings_of_the_install_hold_where_the_caller_says_nothing():
    with tracer.install(backend="eager", dynamic=True, recompile_limit=5):
        assert tracer.region_of(torch.compile(doubled)).dynamic is True
        assert tracer.region_of(torch.compile(doubled, dynamic=False)).dynamic is False
        assert tracer.region_of(torch.compile(doubled)).recompile_limit == 5
        assert tracer.region_of(torch.compile(doubled, recompile_limit=2)).recompile_limit == 2


def test_without_a_backend_it_is_inductor():
    with tracer.install():
        assert tracer.region_of(torch.compile(doubled)).compiler_fn.name == "inductor"
        torch.compiler.set_default_backend("aot_eager")
        try:
            assert tracer.region_of(torch.compile(doubled)).compiler_fn.name == "aot_eager"
        finally:
            torch.compiler.set_default_backend(None)


def test_fullgraph_raises_what_except_clauses_of_torch_catch(installed):
    from torch._dynamo.exc import TorchDynamoException, Unsupported

    @torch.compile(fullgraph=True)
    def broken(x):
        torch._dynamo.graph_break()
        return x

    for caught in (Unsupported, TorchDynamoException, tracer.exc.Unsupported):
        with pytest.raises(caught) as raised:
            broken(torch.ones(2))
    assert "graph_break" in raised.value.msg and "from user code" not in raised.value.msg
    assert [frame.name for frame in raised.value.real_stack] == ["broken"]


def test_a_backend_that_fails_raises_torchs_error_too(installed):
    def failing(gm, inputs):
        raise ValueError("not today")

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="not today") as caught:
        torch.compile(doubled, backend=failing)(torch.ones(2))
    assert isinstance(caught.value.inner_exception, ValueError)
    with pytest.raises(torch._dynamo.exc.InvalidBackend):
        torch.compile(doubled, backend="no such")


def test_exceptions_are_our_own_again_after_uninstall():
    before = [error.__bases__ for error in vars(tracer.exc).values() if isinstance(error, type)]
    with tracer.install():
        assert issubclass(tracer.exc.RecompileError, torch._dynamo.exc.RecompileError)
        copy = tracer.exc.RecompileError("again")
    assert not issubclass(tracer.exc.RecompileError, torch._dynamo.exc.RecompileError)
    assert [error.__bases__ for error in vars(tracer.exc).values() if isinstance(error, type)] == before
    assert str(copy).startswith("again")


def test_backends_are_known_by_torchs_names_and_by_ours(installed):
    graphs = []

    def counting(gm, inputs):
        graphs.append(gm)
        return gm.forward

    torch._dynamo.register_backend(counting, name="drop_in_of_torch")
    tracer.register_backend(counting, name="drop_in_of_ours")
    for count, backend in enumerate(("drop_in_of_torch", "drop_in_of_ours", counting), start=1):
        assert backend is counting or backend in torch.compiler.list_backends()
        assert torch.compile(doubled, backend=backend, isolate_recompiles=True)(torch.ones(1)) == 3
        assert len(graphs) == count


def test_a_backend_gets_its_mode_and_its_options(installed):
    said = []

    def backend(gm, inputs, **keywords):
        said.append(keywords)
        return gm.forward

    torch.compile(doubled, backend=backend, mode="quick")(torch.ones(1))
    torch.compile(doubled, backend=backend, options={"level": 3})(torch.ones(1))
    assert said == [{"mode": "quick"}, {"options": {"level": 3}}]


def test_inductor_gets_the_options_of_the_mode():
    with tracer.install():
        of_mode = tracer.region_of(torch.compile(doubled, mode="max-autotune-no-cudagraphs")).compiler_fn
        of_options = tracer.region_of(torch.compile(doubled, options={"epilogue_fusion": False})).compiler_fn
        assert of_mode.options["options"]["max_autotune"] is True
        assert of_options.options == {"options": {"epilogue_fusion": False}}
        with pytest.raises(RuntimeError, match="no_such_option"):
            torch.compile(doubled, options={"no_such_option": 1})


def test_a_mode_that_a_backend_does_not_know_is_named(installed):
    with pytest.warns(UserWarning, match="backend 'eager' has neither modes nor options: mode='reduce-overhead'") as told:
        torch.compile(doubled, backend="eager", mode="reduce-overhead")
    assert told[0].filename == __file__


def test_disabled_it_is_the_function_itself(installed, monkeypatch):
    assert torch.compile(doubled, disable=True) is doubled
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    assert torch.compile(doubled) is doubled


def test_what_cannot_be_honoured_is_refused_by_name(installed):
    with pytest.raises(tracer.exc.UserError, match="package='a package' of torch.compile cannot be honoured"):
        torch._dynamo.optimize("eager", package="a package")


def test_guard_filter_fn_chooses_the_guards(installed):
    calls = []

    def without_globals(guards):
        calls.append(guards)
        return torch.compiler.skip_guard_on_globals_unsafe(guards)

    @torch.compile(options={"guard_filter_fn": without_globals})
    def scaled(x):
        return x * FACTOR

    global FACTOR
    FACTOR = 2
    assert scaled(torch.ones(1)) == 2
    FACTOR = 3
    assert scaled(torch.ones(1)) == 2
    assert calls and all(isinstance(each.guard_type, str) for each in calls[0])


def test_guard_filter_fn_knows_arguments_by_their_names(installed):
    names = set()

    def all_but_y(guards):
        names.update(each.name for each in guards)
        return [each.name != "y" for each in guards]

    @torch.compile(options={"guard_filter_fn": all_but_y})
    def added(x, y):
        return x * 2 if y is None else x + y + 5

    assert added(torch.ones(1), None) == 2
    assert added(torch.ones(1), torch.ones(1)) == 2
    assert {"x", "y"} <= names


def test_guard_filter_fn_sees_the_values_that_guards_read(installed):
    seen = []

    def keep_small_numbers(guards):
        seen.extend(guards)
        return [not (each.has_value and type(each.value) is int and each.value >= 100) for each in guards]

    layer, settings = torch.nn.Linear(2, 2), {"large": 100, "small": 1}

    @torch.compile(options={"guard_filter_fn": keep_small_numbers})
    def scaled(x, n):
        return layer(x) * settings["large"] * settings["small"] + n.__index__()

    x = torch.ones(1, 2)
    before = scaled(x, 5)
    values = {each.name: each.value for each in seen if each.has_value}
    assert values["x"] is x and values["n"] == 5 and any(value is layer.weight for value in values.values())
    assert {each.has_value for each in seen if each.guard_type == "GLOBAL_STATE"} == {False}
    settings["large"] = 200
    assert torch.equal(scaled(x, 5), before)  # nothing checks it
    settings["small"] = 2
    assert torch.equal(scaled(x, 5), layer(x) * 400 + 5)


def test_guard_filter_fn_is_told_what_a_guard_comes_down_to(installed):
    seen = {}

    def keep_all(guards):
        seen.update({(each.name, each.guard_type): each.derived_guard_types for each in guards})
        return [True] * len(guards)

    @torch.compile(options={"guard_filter_fn": keep_all}, dynamic=True)
    def scaled(x, flag):
        return times(x) * x.shape[0] if flag is None else x

    times = doubled
    scaled(torch.ones(3), None)
    assert seen["x", "TENSOR_MATCH"] == ("TENSOR_MATCH",) and seen["", "SHAPE_ENV"] == ()
    assert {derived for (name, _), derived in seen.items() if name == "flag"} == {("EQUALS_MATCH",)}
    assert any(derived == ("ID_MATCH",) for derived in seen.values())  # of the function that is called


def test_guard_filter_fn_meets_guards_on_what_is_missing(installed):
    seen = []

    class Options:
        pass

    def keep_all(guards):
        seen.extend(guards)
        return [True] * len(guards)

    @torch.compile(options={"guard_filter_fn": keep_all})
    def scaled(x, options):
        return x * options.factor if hasattr(options, "factor") else x + 1

    options = Options()
    assert scaled(torch.ones(1), options) == 2
    assert any(each.name.startswith("options") for each in seen)
    options.factor = 5
    assert scaled(torch.ones(1), options) == 5


@pytest.mark.full
def test_the_environment_installs_it_in_a_program_that_knows_nothing_of_it(tmp_path):
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["torch.backends"]
    lines = ["[torch.backends]", *[f"{name} = {value}" for name, value in entry_points.items()]]
    (tmp_path / "as_installed-1.dist-info").mkdir()
    (tmp_path / "as_installed-1.dist-info" / "METADATA").write_text("Name: as-installed\nVersion: 1\n")
    (tmp_path / "as_installed-1.dist-info" / "entry_points.txt").write_text("\n".join(lines))
    run_python(
        """
        import torch
        compiled = torch.compile(lambda x: x + 1, backend="eager")
        assert compiled(torch.zeros(1)) == 1
        assert type(compiled).__module__ == "tracer._C", type(compiled)
        """,
        TRACER_INSTALL="1",
        PYTHONPATH=f"{ROOT}:{tmp_path}",
    )
