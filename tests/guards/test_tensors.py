"""TENSOR_MATCH and the guards beside it: marks, torch's global state, sizes."""

import pytest
import torch

from tests.guards.helpers import X, agreed, holds, manager_of
from tracer import _C
from tracer.guards.identity import TypeMatch
from tracer.guards.manager import CheckFunctionManager
from tracer.guards.shapes import ShapeGuards, ShapeLine
from tracer.guards.state import GlobalStateMatch
from tracer.guards.tensors import MarksMatch, TensorMatch, tensor_spec
from tracer.guards.values import EqualsMatch
from tracer.locations import UserLocation
from tracer.sources.containers import ItemSource
from tracer.sources.roots import LocalSource
from tracer.sources.tensors import GradSource, TensorSizeSource, TensorStrideSource

A, B, N = map(LocalSource, "abn")


def two(a, b):
    pass


def sizes_and_int(a, b, n):
    pass


def of(value, *dims, **more):
    return TensorMatch(X, tensor_spec(value, dims, **more))


BASE = torch.randn(4, 3)
OTHERS = {
    "dtype": BASE.double(),
    "rank": BASE[0],
    "size": torch.randn(4, 2),
    "stride": torch.randn(3, 4).t(),
    "requires_grad": torch.randn(4, 3, requires_grad=True),
    "device": torch.randn(4, 3, device="meta"),
    "class": torch.nn.Parameter(BASE, requires_grad=False),
    "no tensor": 5,
}


@pytest.mark.parametrize("what", OTHERS)
def test_tensor_match_notices(what):
    assert holds(of(BASE), torch.zeros(4, 3))
    assert not holds(of(BASE), OTHERS[what])


SENTENCES = {
    "dtype": "tensor 'L['x']' dtype mismatch. expected torch.float32, actual torch.float64",
    "rank": "tensor 'L['x']' rank mismatch. expected 2, actual 1",
    "size": "tensor 'L['x']' size mismatch at index 1. expected 3, actual 2",
    "stride": "tensor 'L['x']' stride mismatch at index 0. expected 3, actual 1",
    "class": "type of L['x'] was Tensor, is Parameter",
    "no tensor": "type of L['x'] was Tensor, is int",
}


@pytest.mark.parametrize("what", SENTENCES)
def test_the_explanation_names_the_field(what):
    value = torch.randn(3, 4).t() if what == "stride" else OTHERS[what]
    guard = of(BASE, 0) if what == "stride" else of(BASE)
    assert manager_of(guard).explain((value,)).message == SENTENCES[what]


def test_device_and_dispatch_keys_are_shown_as_a_person_reads_them():
    meta = manager_of(TensorMatch(X, tensor_spec(BASE)._replace(dispatch_keys=None))).explain((OTHERS["device"],))
    assert meta.message == "tensor 'L['x']' device mismatch. expected cpu, actual meta"
    assert manager_of(of(BASE)).explain((OTHERS["device"],)).message == meta.message
    plain = torch.ones(2, dtype=torch.complex64)
    keys = manager_of(of(plain)).explain((plain.conj(),)).message
    assert "dispatch key set mismatch" in keys and "CPU" in keys and "Conjugate" in keys


def test_open_dims():
    assert holds(of(BASE, 0), torch.zeros(9, 3)) and not holds(of(BASE, 0), torch.zeros(9, 4))
    assert not holds(of(BASE, 0, dynamic_strides=[]), torch.zeros(9, 6)[:, :3])
    assert holds(of(BASE, 0, dynamic_strides=[0]), torch.zeros(9, 6)[:, :3])
    assert holds(of(BASE, dynamic_strides=None), torch.zeros(3, 4).t())


def test_log_line_is_that_of_the_reference_documents():
    start = "check_tensor(L['x'], torch.float32, device=None, requires_grad=False, "
    assert of(BASE).lines() == [start + "size=[4, 3], stride=[3, 1])"]
    assert of(BASE, 0).lines() == [start + "size=[None, 3], stride=[3, 1])"]
    assert of(OTHERS["class"]).lines()[0].startswith("check_tensor(L['x'], Parameter, torch.float32")
    assert "device='meta'" in of(OTHERS["device"]).lines()[0]
    assert of(BASE).log_name() == "local 'x' TENSOR_MATCH"


def test_grad_mode_and_inference_tensors_are_told_apart():
    with torch.inference_mode():
        inference = torch.zeros(4, 3)
    assert not holds(of(BASE), inference)


def test_sparse_tensors_can_be_guarded_by_what_they_have():
    sparse = torch.eye(3).to_sparse()
    assert of(sparse).spec.strides is None
    assert holds(of(sparse), torch.eye(3).to_sparse()) and not holds(of(sparse), torch.eye(3))


def test_all_tensors_are_checked_in_one_call_and_the_failing_one_is_named():
    guards = [TensorMatch(A, tensor_spec(BASE)), TensorMatch(B, tensor_spec(BASE))]
    manager = manager_of(*guards, code=two.__code__)
    assert manager.exec_text.count("___check_tensors") == 1 and "___check_tensors(a, b)" in manager.exec_text
    assert agreed(manager, BASE, BASE)
    assert manager.explain((BASE, BASE[:2])).message == "tensor 'L['b']' size mismatch at index 0. expected 4, actual 2"
    assert manager.explain((BASE, None)).message == "type of L['b'] was Tensor, is NoneType"


def test_what_hangs_off_a_tensor_is_read_after_the_tensor_was_checked():
    leaf = torch.ones(4, 3, requires_grad=True)
    leaf.grad = torch.ones(4, 3)
    manager = manager_of(TensorMatch(GradSource(X), tensor_spec(leaf.grad)), TensorMatch(X, tensor_spec(leaf)))
    text = manager.exec_text
    assert text.index("___check_tensors(x)") < text.index("___tensor_grad(x)") < text.index("___check_tensors_1(v1)")
    assert agreed(manager, leaf)
    leaf.grad = None
    assert not agreed(manager, leaf)


def test_marks_count_if_the_trace_knew_them():
    plain, marked = torch.ones(3), torch.ones(3)
    marked._tracer_dims = {0: "dynamic"}
    changes, at_first = _C.Counter(), _C.Counter()
    changes.note()
    changes.note()
    changes.note()
    none = MarksMatch.of("_tracer_dims", {X: {}}, changes, 2)
    known = MarksMatch.of("_tracer_dims", {X: {0: "dynamic", 1: "static"}}, changes, 2)
    assert holds(none, plain) and not holds(none, marked) and holds(known, plain) and holds(known, marked)
    marked._tracer_dims = {0: "static"}
    assert not holds(known, marked)
    assert known.lines() == ["marks of L['x'] within {0: dynamic, 1: static}"]
    assert manager_of(none).explain((marked,)).message == "marks of L['x'] changed"
    untouched = MarksMatch.of("_tracer_dims", {X: {}}, at_first, 0)
    assert holds(untouched, marked)  # nothing was set since the trace
    at_first.note()
    assert not holds(untouched, marked)


def test_global_state_is_checked_first_and_its_change_is_named():
    manager = manager_of(EqualsMatch(X, 1), GlobalStateMatch(_C.GlobalState()))
    assert manager.exec_text.splitlines()[1] == "    if not ___global_state(): return False"
    assert agreed(manager, 1)
    with torch.no_grad():
        assert not agreed(manager, 1)
        assert manager.explain((1,)).message == "global state changed: grad_mode was True, is False"


SHAPES = ShapeGuards.of(
    [
        ("{0} == {1}", (TensorSizeSource(B, 0), TensorSizeSource(A, 0))),
        ("2 <= {0}", (TensorSizeSource(A, 0),)),
        ("2*{0} >= {1}", (TensorSizeSource(A, 0), N)),
    ]
)
TENSORS = [TensorMatch(source, tensor_spec(BASE, [0])) for source in (A, B)]


def shaped(*guards):
    return CheckFunctionManager([SHAPES, TypeMatch(N, int), *TENSORS, *guards], sizes_and_int.__code__, {})


def test_shape_guards_stand_last_and_print_as_the_reference_documents_show():
    lines = shaped().source_text.splitlines()
    assert lines[-3:] == [
        "L['b'].size()[0] == L['a'].size()[0]",
        "2 <= L['a'].size()[0]",
        "2*L['a'].size()[0] >= L['n']",
    ]


def test_each_size_is_read_once_and_by_a_plain_method_where_that_is_safe():
    text = shaped(GlobalStateMatch(_C.GlobalState())).exec_text
    assert text.count("a.size(0)") == 1 and "2*v2 >= n" in text
    assert "___tensor_size(a, 0)" in shaped().exec_text


def test_shape_guards_hold_and_fail_with_the_values_seen():
    manager = shaped()
    two, one, four = torch.zeros(2, 3), torch.zeros(1, 3), torch.zeros(4, 3)
    assert agreed(manager, four, four, 8) and not agreed(manager, four, two, 8) and not agreed(manager, one, one, 0)
    failure = manager.explain((four, four, 9))
    assert failure.message == "2*L['a'].size()[0] >= L['n']"
    assert failure.seen == "false for L['a'].size()[0] = 4, L['n'] = 9"


def test_a_shape_line_from_a_printer():
    size, stride = TensorSizeSource(A, 0), TensorStrideSource(A, 0)
    where = UserLocation("script.py", 5, "fn")
    line = ShapeLine.of(lambda of: f"{of(size)} % 8 == 0 or {of(stride)} < {of(size)}", "s0 % 8 == 0", where)
    assert line.lines() == ["L['a'].size()[0] % 8 == 0 or L['a'].stride()[0] < L['a'].size()[0]"]
    assert line.labels == (size, stride) and line.where == where and line.recorded == "s0 % 8 == 0"


def test_a_printer_that_sorts_by_name_sees_the_names():
    b, a = TensorSizeSource(B, 0), TensorSizeSource(A, 0)
    line = ShapeLine.of(lambda of: " == ".join(sorted((of(a), of(b)), reverse=True)))
    assert line.lines() == ["L['b'].size()[0] == L['a'].size()[0]"]


def test_a_size_hidden_in_a_list_is_reached():
    inner = ItemSource(A, 0)
    guards = [TypeMatch(A, list), TensorMatch(inner, tensor_spec(BASE, [0]))]
    guards.append(ShapeGuards((ShapeLine("{0} % 2 == 0", (TensorSizeSource(inner, 0),)),)))
    manager = CheckFunctionManager(guards, two.__code__, {})
    assert agreed(manager, [BASE], 0) and not agreed(manager, [BASE[:3]], 0) and not agreed(manager, [], 0)


@pytest.mark.parametrize("kind", ["mode", "subclass"])
def test_no_torch_function_runs_in_a_guard(kind):
    class Mode(torch.overrides.TorchFunctionMode):
        armed = False

        def __torch_function__(self, func, types, args=(), kwargs=None):
            if Mode.armed:
                raise RuntimeError("user code ran")
            return func(*args, **(kwargs or {}))

    class Subclass(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise RuntimeError("user code ran")

    with Mode():
        tensor = torch.zeros(4, 3) if kind == "mode" else BASE.as_subclass(Subclass)
        Mode.armed = True
        guards = [TensorMatch(A, tensor_spec(tensor, [0])), GlobalStateMatch(_C.GlobalState())]
        guards.append(ShapeGuards((ShapeLine("{0} == 4", (TensorSizeSource(A, 0),)),)))
        manager = CheckFunctionManager(guards, two.__code__, {})
        assert manager.check_fn(tensor, 0) is True
