"""`__torch_function__` of tensor subclasses and of other classes, modes, and what switches them off."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function_unary

from tests.support import Checked, captured_made, check_made
from tracer.api.callables import compiled
from tracer.api.settings import Settings


class Plain(torch.Tensor):
    """Nothing of its own: what torch does for every subclass."""


class Tagged(torch.Tensor):
    def __new__(cls, data: torch.Tensor, tag: str) -> Tagged:
        return torch.Tensor._make_subclass(cls, data)

    def __init__(self, data: torch.Tensor, tag: str) -> None:
        self.tag = tag

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(result, Tagged) and not hasattr(result, "tag"):
            result.tag = "+".join(arg.tag for arg in args if isinstance(arg, Tagged))
        return result


class Rich(torch.Tensor):
    scale = 3

    @property
    def half(self) -> Any:
        return self / 2

    def twice(self) -> Any:
        return self * 2

    @classmethod
    def name(cls) -> str:
        return cls.__name__

    def sum(self, *args: Any) -> Any:
        return super().sum(*args) + 1

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) * 2

    def __add__(self, other: Any) -> Any:
        return "added"

    def __radd__(self, other: Any) -> Any:
        return "added to"


class Handled(torch.Tensor):
    """Functions that are in a table are replaced."""

    table: dict[Any, Any] = {}

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in cls.table:
            return cls.table[func](*args, **(kwargs or {}))
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


def _subtract(left: Any, right: Any) -> Any:
    with torch._C.DisableTorchFunctionSubclass():
        return torch.sub(left, right)


Handled.table.update({torch.add: _subtract, torch.Tensor.add: _subtract})


class Modest(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, Bold) for kind in types):
            return NotImplemented
        return super().__torch_function__(func, types, args, kwargs)


class Bold(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        return result.as_subclass(torch.Tensor) * 10 if isinstance(result, torch.Tensor) else result


class Bolder(Bold):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs)
        return result + len(types) if isinstance(result, torch.Tensor) else result


class Undisturbed(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl

    def up(self) -> Any:
        return self + 1


class Refusing(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.sin:
            raise ValueError(f"no {func.__name__}")
        return super().__torch_function__(func, types, args, kwargs)


class Chatty(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        print(end="")
        return super().__torch_function__(func, types, args, kwargs)


class Box:
    """No tensor at all."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        opened = [arg.value if isinstance(arg, Box) else arg for arg in args]
        return Box(func(*opened, **(kwargs or {})))


class Named:
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func.__name__, len(args), types


def _fresh(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    with torch._C.DisableTorchFunction():
        copied = value.as_subclass(torch.Tensor).detach().clone().requires_grad_(value.requires_grad)
        return copied if type(value) is torch.Tensor else copied.as_subclass(type(value))


def check_fresh(fn: Any, *args: Any, **options: Any) -> Checked:
    return check_made(fn, lambda: (tuple(map(_fresh, args)), {}), **options)


def captured_fresh(fn: Any, *args: Any, graphs: int = 1, **options: Any) -> Checked:
    checked = check_fresh(fn, *args, **options)
    assert not checked.breaks, "\n".join(map(str, checked.breaks))
    assert len(checked.graphs) == graphs
    return checked


def of(cls: type, *sizes: int) -> Any:
    return torch.randn(*sizes).as_subclass(cls)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x + 1,
        lambda x: 1 - x,
        lambda x: -x,
        lambda x: x @ x,
        lambda x: x == 0,
        lambda x: torch.sin(x).sum(0),
        lambda x: (x.shape, x.T, x.dtype, x.size(0), len(x), x.data, x.ndim, x.numel()) + (x + 1,),
        lambda x: (x[0], x[1:, 0]),
        lambda x: [row for row in x],
        lambda x: (x.split(2), x.max(0), x.norm()),
        lambda x: torch.nn.functional.max_pool2d(x[None], 2),
        lambda x: torch.nn.functional.linear(x, torch.ones(2, 4)),
        lambda x: torch.nn.functional.dropout(torch.nn.functional.softmax(x, -1), 0.5),
        lambda x: torch.cat([x, torch.ones(1, 4)]),
        lambda x: torch.ones(4, 4) + x,
        lambda x: torch.where(x > 0, x, torch.zeros(4, 4)),
        lambda x: (type(x + 1), isinstance(x, Plain), isinstance(x, torch.Tensor), torch.is_tensor(x), x * 2),
        lambda x: (hasattr(x, "nothing"), hasattr(x, "shape"), getattr(x, "nothing", 3), x * 2),
        lambda x: (torch.ones(3).as_subclass(Plain), x.as_subclass(torch.Tensor), Plain(x), torch.Tensor(x)),
    ],
)
def test_operations_on_a_subclass_give_the_subclass_in_one_graph(fn: Any) -> None:
    captured_fresh(fn, of(Plain, 4, 4))


def test_writes_to_a_subclass_are_seen_by_whoever_holds_it() -> None:
    def fn(x: Any) -> Any:
        y = x * 2
        z = y.add_(1)
        y += 1
        y[0] = 7
        x.mul_(3)
        x[1] = 5
        return y, z, y is z

    captured_fresh(fn, of(Plain, 3))


def test_attributes_of_a_subclass_travel_with_its_results() -> None:
    def fn(x: torch.Tensor) -> Any:
        a, b = Tagged(x, "a"), Tagged(x * 2, "b")
        c = a + b
        return a, b, c, c.tag, (c * 2).tag

    captured_fresh(fn, torch.randn(3))


def test_a_subclass_has_methods_properties_and_operators_of_its_own() -> None:
    captured_fresh(lambda x: (x.half, x.twice(), x.scale, x.name(), x.sum(), x[0]), of(Rich, 3))
    check_fresh(lambda x: (x + 1, 1 + x, torch.ones(3) + x, x + torch.ones(3)), of(Rich, 3))


def test_a_table_of_replaced_functions_is_asked() -> None:
    captured_fresh(lambda x, y: (x + y, y + x, torch.add(x, y), x * y), of(Handled, 3), torch.randn(3))


def test_several_subclasses_are_asked_in_the_order_of_precedence() -> None:
    captured_fresh(lambda x, y: (x + y, y + x, torch.cat([x, y]), torch.mul(y, x)), of(Modest, 3), of(Bold, 3))
    captured_fresh(lambda x, y: (x + y, y + x, torch.cat([x, y]), torch.mul(y, x)), of(Bold, 3), of(Bolder, 3))


def test_a_subclass_without_overrides_behaves_like_a_parameter() -> None:
    captured_fresh(lambda x: (x.up(), x * 2, type(x * 2), type(x)), of(Undisturbed, 3))


def test_an_override_that_raises_raises_in_the_program() -> None:
    def fn(x: Any) -> Any:
        try:
            return torch.sin(x)
        except ValueError as error:
            return torch.cos(x), str(error)

    captured_fresh(fn, of(Refusing, 3))
    assert isinstance(check_fresh(lambda x: torch.sin(x + 1), of(Refusing, 3)).error, ValueError)


def test_an_override_that_cannot_be_traced_breaks_at_the_operation() -> None:
    assert set(check_fresh(lambda x: torch.ones(3) * 2 + x, of(Chatty, 3)).break_ids) == {"side-effect-call"}


def test_other_classes_override_functions_too() -> None:
    captured_fresh(lambda x: torch.sigmoid(Box(x)).value, torch.randn(3))
    captured_fresh(lambda x: torch.nn.functional.relu(x).value, Box(torch.randn(3)))
    captured_fresh(lambda x: (torch.cat([Named(), x]), x + Named(), x * 2), torch.randn(3))


def test_functions_of_the_program_that_ask_for_overrides() -> None:
    def shifted(x: Any) -> Any:
        if has_torch_function_unary(x):
            return handle_torch_function(shifted, (x,), x)
        return x + 1

    captured_fresh(lambda x: (shifted(x), shifted(Named()), shifted(x.as_subclass(torch.Tensor))), of(Plain, 3))


def test_gradients_flow_through_a_subclass() -> None:
    def fn(x: Any, w: torch.Tensor) -> Any:
        y = x * w
        with torch.no_grad():
            z = y * 2
        return y, z

    def gradient(f: Any) -> torch.Tensor:
        w = torch.ones(3, requires_grad=True)
        y, z = f(torch.arange(3.0).as_subclass(Plain), w)
        assert y.requires_grad and not z.requires_grad
        y.sum().backward()
        assert w.grad is not None
        return w.grad.as_subclass(torch.Tensor)

    captured_fresh(fn, of(Plain, 3), torch.randn(3, requires_grad=True))
    for backend in ("eager", "aot_eager"):
        assert torch.equal(gradient(compiled(fn, Settings(backend=backend))), gradient(fn))


def test_functions_of_autograd_and_unbound_methods_ask_overrides_too() -> None:
    captured_fresh(lambda x, w: torch.autograd.grad((x * w).sum(), w)[0], of(Plain, 3), torch.randn(3, requires_grad=True))
    captured_fresh(lambda x: (torch.Tensor.split(x, 2), torch.Tensor.norm(x), torch.Tensor.add(x, 1)), of(Plain, 4))


def test_a_live_subclass_keeps_its_gradient_over_a_break_under_no_grad() -> None:
    def fn(x: Any, w: torch.Tensor) -> Any:
        y = x * w
        with torch.no_grad():
            print(end="")
            z = y * 2
        return y.requires_grad, y, z

    check_fresh(fn, of(Plain, 3), torch.randn(3, requires_grad=True))


def test_sizes_of_a_subclass_are_dynamic_and_its_class_is_guarded() -> None:
    graphs: list[Any] = []

    def backend(gm: Any, inputs: Any) -> Any:
        graphs.append(gm)
        return gm.forward

    traced = compiled(lambda x: x * x.shape[0], Settings(backend=backend))
    for size in (3, 4, 5, 7):
        x = of(Plain, size, 2)
        result = traced(x)
        assert type(result) is Plain
        assert torch.equal(result.as_subclass(torch.Tensor), x.as_subclass(torch.Tensor) * size)
    assert len(graphs) == 2
    assert type(traced(torch.ones(3, 2))) is torch.Tensor
    assert len(graphs) == 3


# -- modes and switches ----------------------------------------------------------------------------------------------------


class Log(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


class OneMore(TorchFunctionMode):
    """The sum of two is one more."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result + 1 if func is torch.add else result


def test_a_mode_sees_every_function() -> None:
    def fn(x: torch.Tensor) -> Any:
        with Log() as log:
            y = torch.nn.functional.relu(torch.add(x, 1) * 2)
            z = torch.ones(3) + y[0] + y.shape[0]
            with torch.no_grad():
                z = z * 2
        return y, z, x * 2, log.names

    captured_fresh(fn, torch.randn(3))


def test_modes_are_asked_from_the_inside_out() -> None:
    def fn(x: torch.Tensor) -> Any:
        with Log() as outer, OneMore(), Log() as inner:
            y = torch.add(x, 1)
        return y, outer.names, inner.names

    captured_fresh(fn, torch.randn(3))


def test_a_mode_is_left_by_an_exception() -> None:
    def fn(x: torch.Tensor) -> Any:
        try:
            with Log() as log:
                y = x + 1
                raise ValueError
        except ValueError:
            pass
        return torch.add(y, 1), log.names

    captured_fresh(fn, torch.randn(3))


@pytest.mark.parametrize("times", [1, 3])
def test_the_graph_breaks_within_a_mode(times: int) -> None:
    def add(x: torch.Tensor) -> torch.Tensor:
        y = torch.add(x, 1)
        print(end="")
        return torch.add(y, 1)

    def fn(x: torch.Tensor) -> Any:
        mode = OneMore()
        for number in range(times):
            with mode:
                x = add(x)
        return torch.add(x, number)

    assert set(check_fresh(fn, torch.randn(3)).break_ids) == {"side-effect-call"}


def test_subclasses_and_modes_are_switched_off() -> None:
    def fn(x: Any) -> Any:
        with Log() as log:
            with torch._C.DisableTorchFunctionSubclass():
                y = x + 1
                with torch._C.DisableTorchFunction():
                    z = x + 2
            w = x + 3
        return y, z, w, log.names, torch._C._is_torch_function_enabled()

    captured_fresh(fn, of(Plain, 3))


def test_the_graph_breaks_where_subclasses_are_switched_off() -> None:
    def fn(x: Any) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            y = x + 1
            print(end="")
            z = y + x
        return y, z, x * 2

    assert "side-effect-call" in check_fresh(fn, of(Plain, 3)).break_ids


def test_a_device_is_a_context() -> None:
    def fn(x: torch.Tensor) -> Any:
        with torch.device("meta"):
            y = torch.ones(3)
            z = torch.full((2,), 2.0)
            w = torch.zeros(2, device="cpu")
        return y.device, z.device, w, x + torch.ones(3)

    captured_fresh(fn, torch.randn(3))


def test_attributes_of_parameters_are_read_under_a_device_and_a_mode() -> None:
    def fn(layer: torch.nn.Module) -> Any:
        with torch.device("meta"), Log() as log:
            made = torch.zeros(layer.weight.shape[0], dtype=layer.weight.dtype)
        return made.device, made.dtype, log.names

    captured_fresh(fn, torch.nn.Linear(2, 3))


def test_the_graph_breaks_within_a_device() -> None:
    def fn(x: torch.Tensor) -> Any:
        with torch.device("meta"):
            y = torch.ones(3)
            print(end="")
            z = torch.zeros(2)
        return y.device, z.device, x + torch.ones(3)

    assert "side-effect-call" in check_fresh(fn, torch.randn(3)).break_ids


# -- what breaks the graph -------------------------------------------------------------------------------------------------


class Dispatched(torch.Tensor):
    """A wrapper with __torch_dispatch__."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls: type, inner: torch.Tensor) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)  # type: ignore[attr-defined]
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        opened = [arg.inner if isinstance(arg, Dispatched) else arg for arg in args]
        result = func(*opened, **(kwargs or {}))
        return Dispatched(result + 1) if isinstance(result, torch.Tensor) else result


def test_wrappers_with_torch_dispatch_break_the_graph_and_run_right() -> None:
    def fn(inner: torch.Tensor) -> Any:
        x = Dispatched(inner)
        return (x * 2).inner + 1

    assert check_fresh(fn, torch.randn(3)).breaks
    box = Dispatched(torch.ones(3))
    assert check_fresh(lambda: (box * 2).inner + 1).breaks


class Curious(torch.Tensor):
    def __getattr__(self, name: str) -> Any:
        return name


def test_subclasses_that_answer_for_any_attribute_break_the_graph() -> None:
    assert check_fresh(lambda x: (x.anything, torch.sin(x.as_subclass(torch.Tensor))), of(Curious, 3)).breaks


class _OtherNdim(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == torch.Tensor.ndim.__get__:
            return 10
        return super().__torch_function__(func, types, args, kwargs or {})


def test_an_override_tells_by_comparison_which_attribute_is_read() -> None:
    def fn(x: torch.Tensor) -> Any:
        return x.ndim + torch.ones(2), x.dim(), torch.Tensor.ndim.__get__ != torch.Tensor.shape.__get__

    captured_made(fn, lambda: ((torch.ones(2, 2).as_subclass(_OtherNdim),), {}))
