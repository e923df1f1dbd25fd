"""Errors and graph breaks: what happened, where, and what to try; and every id that is used is in the registry."""

import ast
import pickle
import re
from pathlib import Path

import pytest
import torch

import tracer
from tools.generate_docs import stale_pages
from tracer import errors, exc, graph_breaks
from tracer.locations import UserLocation, stack_text

HERE = UserLocation(__file__, 1, "fn")
TRACER = Path(errors.__file__).parent


def test_exc_is_the_public_name_of_errors():
    public = {n for n, v in vars(errors).items() if isinstance(v, type) and issubclass(v, errors.TracerError)}
    assert public == set(exc.__all__)
    assert all(getattr(exc, name) is getattr(errors, name) for name in public)


def test_a_message_says_what_where_and_what_to_try():
    error = exc.UserError("dim 5 is out of range", hint="use 0 or 1.", stack=[UserLocation(__file__, 1, "fn")])
    first_line = Path(__file__).read_text().splitlines()[0]
    assert str(error) == (
        f'dim 5 is out of range\n  Hint: use 0 or 1.\n\nfrom user code:\n  File "{__file__}", line 1, in fn\n    {first_line}'
    )
    assert str(exc.UserError("short")) == "short"


def test_the_nearest_place_is_kept_and_callers_are_put_before_it():
    error = exc.UserError("x").at([HERE])
    error.at([UserLocation("other.py", 2, "g")])
    caller = UserLocation("caller.py", 7, "outer")
    assert error.user_stack == (HERE,) and error.where == HERE
    assert error.within(caller).user_stack == (caller, HERE)


def test_unsupported_carries_reason_details_and_hint():
    with pytest.raises(exc.Unsupported) as caught:
        graph_breaks.unsupported("data-dependent-branch", value="TensorVariable()")
    error = caught.value.at([HERE])
    assert error.id == "data-dependent-branch" and error.details == {"value": "TensorVariable()"}
    text = str(error)
    assert text.startswith("Branch on the value of a tensor (TensorVariable()) [data-dependent-branch]\n")
    assert "Explanation: " in text and "Hint: use torch.where" in text and f'File "{__file__}", line 1, in fn' in text


def test_an_unknown_id_names_the_nearest():
    with pytest.raises(KeyError, match="data-dependent-branch"):
        graph_breaks.unsupported("data-dependant-branch")


@pytest.mark.parametrize("bad", ["Not-Kebab", "a_b", "", "data-dependent-branch"])
def test_ids_are_kebab_case_and_unique(bad):
    with pytest.raises(ValueError):
        graph_breaks.register(bad, "s", "e", "h")


def test_every_reason_is_worded_for_a_person():
    for reason in graph_breaks.reasons():
        assert reason.summary[-1] not in ".:" and reason.explanation.endswith((".", "?")) and reason.hint.endswith(".")
        assert reason.topic != "other"


def used_ids():
    """(id, names of details, place) of each `unsupported("...")` in the tracer."""
    for path in sorted(TRACER.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "unsupported":
                if node.args and isinstance(node.args[0], ast.Constant):
                    yield node.args[0].value, {k.arg for k in node.keywords}, f"{path.name}:{node.lineno}"


def test_every_id_in_use_is_registered_and_gets_the_details_that_its_summary_names():
    known = {reason.id: reason for reason in graph_breaks.reasons()}
    wrong = [f"{place}: {id} is not in the registry" for id, _, place in used_ids() if id not in known]
    for id, details, place in used_ids():
        missing = set(re.findall(r"\{(\w+)\}", known[id].summary)) - details if id in known else set()
        wrong += [f"{place}: {id} lacks {', '.join(sorted(missing))}"] if missing and None not in details else []
    assert not wrong, "\n".join(wrong)


def test_generated_pages_are_up_to_date():
    assert not stale_pages(), "run: python -m tools.generate_docs"


def test_backend_errors_name_the_backend_and_what_it_raised():
    def broken(gm, inputs):
        pass

    error = exc.BackendCompilerFailed(broken, ValueError("no"))
    assert str(error).startswith("backend='broken' raised:\nValueError: no\n  Hint: ")
    assert isinstance(error.inner_exception, ValueError)
    error = exc.InvalidBackend("egaer", ["eager", "inductor"])
    assert "Invalid backend: 'egaer'" in str(error) and "known backends: eager, inductor" in str(error)


@pytest.mark.parametrize(
    "error",
    [
        exc.UserError("m", hint="h", stack=[HERE]),
        exc.Unsupported(graph_breaks.reason("unsupported-call"), {"value": "x"}, stack=[HERE]),
        exc.InvalidBackend("x", ["eager"]),
        exc.BackendCompilerFailed("b", ValueError("no"), stack=[HERE]),
        exc.RecompileError("again"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_cross_processes(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error) and again.user_stack == error.user_stack


def test_errors_are_runtime_errors_and_never_hide_an_interrupt():
    assert issubclass(exc.TracerError, RuntimeError) and issubclass(exc.ConstraintViolationError, exc.UserError)
    assert not issubclass(KeyboardInterrupt, exc.TracerError)


def test_an_operation_that_fails_in_a_trace_is_an_error_of_its_own():
    with pytest.raises(exc.TorchRuntimeError, match="add failed") as caught:
        tracer.compile(lambda x, y: x + y, fullgraph=True)(torch.ones(2), torch.ones(3))
    assert isinstance(caught.value, exc.Unsupported) and caught.value.id == "operator-failed-in-trace"
    assert type(pickle.loads(pickle.dumps(caught.value))) is exc.TorchRuntimeError


def test_a_stack_reads_like_a_traceback():
    missing = UserLocation("<string>", 3, "f")
    assert stack_text([missing, HERE]).splitlines()[0] == '  File "<string>", line 3, in f'
    assert missing.with_code() == "<string>:3 in f" and HERE.with_code().startswith(f'{__file__}:1 in fn: """Errors')
