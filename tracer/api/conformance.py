"""What a backend must keep, as programs that are run with it and compared with eager: `python -m tracer check-backend NAME`.

docs/backends.md lists what a backend may rely on and what it must keep; each promise there is a check here.
"""

from __future__ import annotations

import dataclasses
import importlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import torch
from torch.utils import _pytree as pytree

from tracer import config
from tracer.api.callables import compiled
from tracer.api.settings import Settings
from tracer.backends.calling import Backend, resolve_backend
from tracer.backends.verify import copies_of
from tracer.exc import TracerError, UserError

Calls = Callable[[], Iterable[tuple[Any, ...]]]


@dataclasses.dataclass(frozen=True)
class Check:
    """A program, the arguments of its calls, and what they show that a backend keeps."""

    name: str
    keeps: str
    program: Callable[..., Any]
    calls: Calls
    dynamic: bool = False  # one graph for all calls, with symbols for sizes
    gradients: bool = False  # the sum of the results is differentiated
    concurrent: bool = False  # each call also on threads of its own, at once


@dataclasses.dataclass(frozen=True)
class Finding:
    """What became of a check: `difference` says what the backend did instead, "" where it kept what it must."""

    check: Check
    difference: str

    @property
    def kept(self) -> bool:
        return not self.difference


CHECKS: list[Check] = []


def _check(keeps: str, calls: Calls, **options: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(program: Callable[..., Any]) -> Callable[..., Any]:
        CHECKS.append(Check(program.__name__, keeps, program, calls, **options))
        return program

    return add


def check_backend(backend: str | Callable[..., Any]) -> Iterator[Finding]:
    """Runs all checks with a backend: a name of `tracer.list_backends()`, `"module:function"`, or the function.

    Yields a finding for each as it is done. Raises UserError, or InvalidBackend, for what names no backend.

    ```python
    from tracer.api.conformance import check_backend

    assert all(finding.kept for finding in check_backend("eager"))
    ```
    """
    found = resolve_backend(_imported(backend) if isinstance(backend, str) and ":" in backend else backend)
    for check in CHECKS:
        yield Finding(check, _difference(check, found))


def _imported(name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{name} cannot be imported: {error}", hint="write package.module:function.") from error
    return cast(Callable[..., Any], found)


def _difference(check: Check, backend: Backend) -> str:
    """What the backend did otherwise than eager, or the error that it raised; "" for neither."""
    graphs: list[torch.fx.GraphModule] = []
    settings = Settings(
        backend=backend, dynamic=True if check.dynamic else None, hooks={"on_graph": lambda gm, _: graphs.append(gm)}
    )
    made = compiled(check.program, settings)
    try:
        with config.patch(suppress_errors=False):
            for number, args in enumerate(check.calls()):
                _compare(check, made, args, number)
    except (AssertionError, TracerError) as error:
        return str(error).strip()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if check.dynamic and len(graphs) > 1:
        return f"{len(graphs)} graphs were compiled where one with symbolic sizes serves all calls"
    return ""


def _compare(check: Check, made: Callable[..., Any], args: tuple[Any, ...], number: int) -> None:
    """Calls both on copies of the arguments, from one random state. Raises AssertionError where they differ."""
    seed = torch.random.get_rng_state()
    expected = _outcome(check, check.program, copies_of(args))
    drawn = torch.random.get_rng_state()
    torch.random.set_rng_state(seed)
    seen = _outcome(check, made, copies_of(args))
    where = f"call {number + 1}: "
    _assert_same(expected, seen, where)
    assert torch.equal(drawn, torch.random.get_rng_state()), where + "torch's random state is another afterwards"
    if check.concurrent:
        for outcome in _on_threads(lambda: _outcome(check, made, copies_of(args))):
            _assert_same(expected, outcome, where + "on a thread, ")


def _outcome(check: Check, function: Callable[..., Any], args: Sequence[Any]) -> dict[str, Any]:
    """The results of a call, what it left in its arguments, gradients, and who shares memory with whom; or its exception."""
    try:
        results = function(*args)
    except TracerError:
        raise
    except Exception as error:
        return {"exception": type(error), "arguments": args}
    found = {"results": results, "arguments": args, "memory": _sharing((args, results))}
    if check.gradients:
        sum(each.sum() for each in pytree.tree_leaves(results) if each.requires_grad).backward()
        found["gradients"] = [each.grad for each in pytree.tree_leaves(args) if isinstance(each, torch.Tensor)]
    return found


def _assert_same(expected: dict[str, Any], seen: dict[str, Any], where: str) -> None:
    for what in {**expected, **seen}:
        left, right = expected.get(what), seen.get(what)
        if what in ("exception", "memory"):
            assert left == right, f"{where}{what}: eager gives {left}, the backend {right}"
            continue
        tensors = list(zip(pytree.tree_leaves(left), pytree.tree_leaves(right), strict=False))
        assert pytree.tree_structure(left) == pytree.tree_structure(right), f"{where}{what} are of another structure: {right}"
        for one, other in tensors:
            _assert_close(one, other, f"{where}{what}: ")


def _assert_close(expected: Any, seen: Any, where: str) -> None:
    if not isinstance(expected, torch.Tensor):
        assert expected == seen, f"{where}eager gives {expected!r}, the backend {seen!r}"
        return
    assert expected.requires_grad == seen.requires_grad, f"{where}requires_grad is {seen.requires_grad}"
    assert expected.numel() == 0 or expected.stride() == seen.stride(), f"{where}strides {seen.stride()}, not {expected.stride()}"
    torch.testing.assert_close(seen, expected, equal_nan=True, msg=lambda text: where + text)


def _sharing(value: Any) -> list[int]:
    """For each tensor, which of them was the first with its memory."""
    storages = [each.untyped_storage()._cdata for each in pytree.tree_leaves(value) if isinstance(each, torch.Tensor)]
    return [storages.index(each) for each in storages]


def _on_threads(call: Callable[[], dict[str, Any]]) -> list[dict[str, Any]]:
    outcomes: list[dict[str, Any]] = []
    threads = [threading.Thread(target=lambda: outcomes.append(call())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == len(threads), "a call on a thread raised"
    return outcomes


# -- the programs ------------------------------------------------------------------------------------------------


def _of_sizes(*sizes: int, requires_grad: bool = False) -> Calls:
    return lambda: [(torch.randn(size, 4, requires_grad=requires_grad),) for size in sizes]


@_check(
    "The graph returns a tuple; the callable takes the placeholders' values, in order, and gives as many results.", _of_sizes(3)
)
def results_in_their_order(x: torch.Tensor) -> Any:
    return {"sum": x.sum(), "rows": [x * 2, x + 1]}, x.amax(0)


@_check("Dtypes of results are those of the graph.", _of_sizes(3))
def dtypes(x: torch.Tensor) -> Any:
    return x > 0, x.argmax(1), x.double(), (x * 10).to(torch.int8), x.to(torch.bfloat16)


@_check("Strides of results are those of the graph.", _of_sizes(3))
def strides(x: torch.Tensor) -> Any:
    return (x + 1).t(), x.mul(2)[:, ::2], torch.empty_like(x.t()).fill_(1)


@_check("One graph serves all sizes that its guards allow.", _of_sizes(3, 5, 8, 64), dynamic=True)
def symbolic_sizes(x: torch.Tensor) -> Any:
    return x.view(-1).repeat(2), torch.arange(x.shape[0]) * x.shape[0], x.shape[0] * 3 + 1


@_check("Placeholders may be ints.", lambda: [(torch.ones(3), n) for n in (3, 5, 9)], dynamic=True)
def ints_as_inputs(x: torch.Tensor, n: int) -> Any:
    return x * n, x.new_zeros(n), n // 2


@_check("Tensors without elements are tensors like others.", _of_sizes(0))
def no_elements(x: torch.Tensor) -> Any:
    return x.sum(0), torch.cat([x, x]), x.t()


@_check("Inputs may have any strides.", lambda: [(torch.randn(6, 8)[::2, 1::2],), (torch.randn(4, 3).t(),)])
def strided_inputs(x: torch.Tensor) -> Any:
    return x * 2, x.contiguous(), x.reshape(-1)


@_check("What the graph writes to its inputs is there when the callable returns.", _of_sizes(3, 4))
def writes_to_inputs(x: torch.Tensor) -> Any:
    x.mul_(2)
    x[0] = 1
    return x.sum()


@_check("A result that is an input, or a view of one, is so for the caller.", _of_sizes(3))
def results_that_are_inputs(x: torch.Tensor) -> Any:
    return x, x[1:], x.t(), x * 1


@_check("Results share memory with one another where they do in the graph, and nowhere else.", _of_sizes(3))
def results_that_share_memory(x: torch.Tensor) -> Any:
    y = x + 1
    return y, y.view(-1), y + torch.zeros_like(y), x + torch.zeros_like(x)


@_check("One tensor given twice is one tensor.", lambda: [(x := torch.randn(3, 4), x)])
def inputs_given_twice(x: torch.Tensor, y: torch.Tensor) -> Any:
    x.add_(1)
    return x + y


@_check("Gradients are those of eager.", _of_sizes(3, 5, requires_grad=True), gradients=True)
def gradients(x: torch.Tensor) -> Any:
    return (x.sin() * x).softmax(-1), x.detach() * 2


@_check("Results require a gradient where those of the graph do.", _of_sizes(3, requires_grad=True))
def results_that_require_gradients(x: torch.Tensor) -> Any:
    with torch.no_grad():
        y = x * 2
    return x * 3, y, x.argmax()


@_check("As many random numbers are drawn as in eager, in the same order, used or not.", _of_sizes(3))
def random_numbers(x: torch.Tensor) -> Any:
    torch.rand(2)
    return torch.nn.functional.dropout(x, 0.5), torch.randn(3)


@_check("What raises in the graph raises.", lambda: [(torch.randn(3, 4), torch.tensor([i])) for i in (1, 7)])
def exceptions(x: torch.Tensor, index: torch.Tensor) -> Any:
    return x[index] * 2


@_check("Values that are not numbers stay so.", lambda: [(torch.tensor([1.0, float("nan"), float("inf"), -0.0]),)])
def special_values(x: torch.Tensor) -> Any:
    return x + 1, x * 0, torch.maximum(x, -x), 1 / x, x.sort()[0]


@_check("Threads may run the callable at once.", _of_sizes(64), concurrent=True)
def threads_at_once(x: torch.Tensor) -> Any:
    for _ in range(5):
        x = (x @ x.t()).softmax(-1) @ x
    return x
