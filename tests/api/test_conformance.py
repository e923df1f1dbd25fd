"""check-backend: what a backend must keep is seen to be kept, and each loss is found by the check that is about it."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import fx

from tracer.__main__ import main
from tracer.api.conformance import CHECKS, check_backend
from tracer.exc import InvalidBackend, UserError


def lost(backend):
    return {finding.check.name for finding in check_backend(backend) if not finding.kept}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_built_in_backends_keep_all(backend):
    assert not lost(backend)


@pytest.mark.full
def test_inductor_keeps_all_but_the_random_numbers_of_eager():
    assert lost("inductor") == {"random_numbers"}


# -- backends with a fault ---------------------------------------------------------------------------------------


def around(change):
    """A backend that runs the graph as it is, and gives `change(results, args)`."""

    def backend(gm, example_inputs):
        return lambda *args: change(gm.forward(*args), args)

    return backend


def on_results(change):
    def changed(value):
        return change(value) if isinstance(value, torch.Tensor) else value

    return around(lambda results, args: tuple(map(changed, results)))


def on_copies(gm, example_inputs):
    return lambda *args: gm.forward(*[each.clone() if isinstance(each, torch.Tensor) else each for each in args])


def for_these_sizes(gm, example_inputs):
    rows = sum(int(each.shape[0]) for each in example_inputs if isinstance(each, torch.Tensor) and each.dim())
    assert rows >= 0
    return gm.forward


def twice(gm, example_inputs):
    def run(*args):
        gm.forward(*[each.clone() if isinstance(each, torch.Tensor) else each for each in args])
        return gm.forward(*args)

    return run


def ignores_failures(gm, example_inputs):
    def run(*args):
        try:
            return gm.forward(*args)
        except (RuntimeError, IndexError):
            return (torch.zeros(1, 4),)

    return run


def for_one_thread(gm, example_inputs):
    owner = threading.get_ident()

    def run(*args):
        return gm.forward(*args) if threading.get_ident() == owner else tuple([each * 2 for each in gm.forward(*args)])

    return run


def without_history(gm, example_inputs):
    def run(*args):
        with torch.no_grad():
            return gm.forward(*args)

    return run


FAULTY = {
    "results_in_their_order": around(lambda results, args: tuple(reversed(results))),
    "dtypes": on_results(lambda value: value.float()),
    "strides": on_results(torch.Tensor.contiguous),
    "symbolic_sizes": for_these_sizes,
    "no_elements": on_results(lambda value: value if value.numel() else torch.zeros(3)),
    "writes_to_inputs": on_copies,
    "results_that_are_inputs": on_results(torch.Tensor.clone),
    "results_that_share_memory": on_results(torch.Tensor.clone),
    "gradients": without_history,
    "results_that_require_gradients": on_results(torch.Tensor.detach),
    "random_numbers": twice,
    "exceptions": ignores_failures,
    "special_values": on_results(lambda value: torch.nan_to_num(value) if value.is_floating_point() else value),
    "threads_at_once": for_one_thread,
    "strided_inputs": around(
        lambda results, args: tuple([torch.as_strided(args[0], each.shape, (1,) * each.dim()).clone() for each in results])
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_is_found_by_the_check_that_is_about_it(name):
    assert name in lost(FAULTY[name])


def test_a_difference_is_told():
    found = {finding.check.name: finding.difference for finding in check_backend(on_copies)}
    assert "call 1: arguments: " in found["writes_to_inputs"] and "mul_" not in found["dtypes"]


def test_a_backend_that_raises_loses_the_check_and_its_error_is_shown():
    def refuses(gm, example_inputs):
        raise NotImplementedError("no views here")

    found = list(check_backend(refuses))
    assert len(found) == len(CHECKS) and all("no views here" in finding.difference for finding in found)


def test_the_graph_that_a_backend_gets_is_an_fx_graph_module():
    seen = []
    lost(lambda gm, example_inputs: seen.append(type(gm)) or gm.forward)
    assert seen and all(issubclass(each, fx.GraphModule) for each in seen)


# -- on the command line -----------------------------------------------------------------------------------------


def test_the_command_prints_a_line_for_each_check(capsys):
    assert main(["check-backend", "eager"]) == 0
    assert capsys.readouterr().out.count("kept  ") == len(CHECKS)


def test_the_command_says_what_was_lost(capsys):
    assert main(["check-backend", f"{__name__}:on_copies"]) == 1
    shown = capsys.readouterr().out
    assert "LOST  writes_to_inputs: What the graph writes to its inputs is there" in shown
    assert "\n      call 1: arguments: " in shown


@pytest.mark.parametrize("name", ["nope", "nowhere.to_be:found", f"{__name__}:nothing"])
def test_what_names_no_backend_is_refused(name, capsys):
    with pytest.raises((InvalidBackend, UserError)):
        list(check_backend(name))
    assert main(["check-backend", name]) == 3
    assert name.partition(":")[0] in capsys.readouterr().err
