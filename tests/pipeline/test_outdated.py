"""An entry that its own call outdates runs its graph as written: the compiler is given what lasts."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tracer
from tracer.backends.calling import Backend

X = torch.linspace(-1, 1, 8).reshape(2, 4)


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the graphs that a backend was given to compile."""
    seen: list[str] = []
    compile_graph = Backend.compile_graph

    def noting(self: Backend, gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        seen.append(type(gm).__name__)
        return compile_graph(self, gm, inputs)

    monkeypatch.setattr(Backend, "compile_graph", noting)
    return seen


class Keeps(torch.nn.Module):
    """Keeps what `change` makes of itself at each call."""

    def __init__(self, change: Callable[..., torch.Tensor], **state: Any) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.change = types.MethodType(change, self)
        vars(self).update(state)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.linear(x) * self.change(x)
        return result


def makes_a_mask(self: Any, x: torch.Tensor) -> torch.Tensor:
    if self.mask is None:
        self.mask = torch.ones(x.shape[-1]).cumsum(0)
    return self.mask


def sets_an_attribute(self: Any, x: torch.Tensor) -> torch.Tensor:
    if not hasattr(self, "scale"):
        self.scale = torch.full((4,), 2.0)
    return self.scale


def counts(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.calls += 1
    return x * self.calls


def fills_a_dict(self: Any, x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] not in self.made:
        self.made[x.shape[1]] = torch.arange(4.0)
    return self.made[x.shape[1]]


def counts_in_a_dict(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.state["step"] += 1
    return x / self.state["step"]


def fills_a_list(self: Any, x: torch.Tensor) -> torch.Tensor:
    if len(self.made) == 0:
        self.made.append(torch.arange(4.0))
    return self.made[0]


FIRST_CALLS: dict[Callable[..., torch.Tensor], dict[str, Any]] = {
    makes_a_mask: {"mask": None},
    sets_an_attribute: {},
    counts: {"calls": 0},
    fills_a_dict: {"made": {}},
    counts_in_a_dict: {"state": {"step": 0}},
    fills_a_list: {"made": []},
}


@pytest.mark.parametrize("change", FIRST_CALLS)
def test_what_a_first_call_sets_up_is_compiled_once(change: Callable[..., torch.Tensor], compiles: list[str]) -> None:
    model = Keeps(change, **copy.deepcopy(FIRST_CALLS[change]))
    plain = copy.deepcopy(model)
    traced = tracer.compile(model, backend="aot_eager")
    seen = []
    for _ in range(4):
        for module in (traced, plain):
            result = module(X)
            result.sum().backward()
            module.result = result.detach()
        assert torch.equal(traced.result, plain.result) and torch.equal(model.linear.weight.grad, plain.linear.weight.grad)
        seen.append(len(compiles))
    assert seen == [0, 1, 1, 1] and traced.stats()["compiles"] == 2


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.RMSprop])
def test_the_step_of_an_optimizer_is_compiled_once(optimizer: Any, compiles: list[str]) -> None:
    def train(step: Callable[[Any], Any]) -> list[float]:
        torch.manual_seed(0)
        linear = torch.nn.Linear(4, 4)
        made = optimizer(linear.parameters(), lr=0.1)
        update = step(made)
        for _ in range(3):
            linear(X).square().sum().backward()
            update()
            made.zero_grad()
        return linear.weight.flatten().tolist()

    expected = train(lambda made: made.step)
    assert train(lambda made: tracer.compile(made.step, backend="aot_eager")) == expected
    assert len(compiles) == 1


def test_what_a_global_and_a_cell_count_is_compiled_once(compiles: list[str]) -> None:
    namespace: dict[str, Any] = {"total": 0}
    exec("def count_globally(x):\n    global total\n    total += 1\n    return x * total", namespace)
    count = 0

    def count_in_a_cell(x: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        return x * count

    for function in (namespace["count_globally"], count_in_a_cell):
        traced = tracer.compile(function, backend="aot_eager")
        assert [traced(torch.ones(1)).item() for _ in range(4)] == [1, 2, 3, 4]
    assert len(compiles) == 2


def alternates(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.on = not self.on
    return x * 2 if self.on else x * 3


def test_a_state_that_comes_back_is_compiled_after_its_second_call(compiles: list[str]) -> None:
    evicted: list[Any] = []
    plain = Keeps(alternates, on=False)
    traced = tracer.optimize(backend="aot_eager", on_evict=evicted.append)(copy.deepcopy(plain))
    seen = []
    for _ in range(10):
        assert torch.equal(traced(X), plain(X))
        seen.append(len(compiles))
    assert seen[:4] == [0] * 4 and seen[-1] == 2 and traced.stats()["compiles"] == 4
    assert [eviction.reason for eviction in evicted] == ["returned", "returned"]


def test_where_gradients_are_off_a_first_call_is_compiled_at_once(compiles: list[str]) -> None:
    traced = tracer.compile(Keeps(makes_a_mask, mask=None), backend="aot_eager")
    with torch.no_grad():
        traced(X)
    assert len(compiles) == 1


def test_what_is_compiled_for_other_processes_is_compiled_at_once(compiles: list[str], tmp_path: Any) -> None:
    tmp_path.chmod(0o700)
    with tracer.config.patch(cache_dir=str(tmp_path)):
        tracer.compile(Keeps(counts, calls=0), backend="aot_eager")(X)
    assert len(compiles) == 1


def test_a_backend_of_the_users_own_is_given_every_graph() -> None:
    given: list[torch.fx.GraphModule] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        given.append(gm)
        return gm.forward

    tracer.compile(Keeps(counts, calls=0), backend=backend)(X)
    assert len(given) == 1


def averages(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.average = self.average * 0.9 + x.detach().mean(0)
    self.seen.append(None)
    self.last["x"] = x.detach()
    self.kind = "tensor"
    return self.average


def test_what_a_call_replaces_by_its_like_leaves_the_entry_valid(compiles: list[str]) -> None:
    module = Keeps(averages, average=torch.zeros(4), seen=[], last={"x": X}, kind="tensor")
    traced = tracer.compile(module, backend="aot_eager")
    for _ in range(3):
        traced(X)
    assert len(compiles) == traced.stats()["compiles"] == 1
