"""`observe_calls`: the variants of a module's calls, found by running what will call it at the edges of what will come.

Each call is noted as it begins: the sizes of its tensors and the ints among its arguments, through containers and objects. Calls
with the same structure are of one kind, and each kind becomes a `Variant`. A size that is the same in all calls of a kind is
static; one that follows another (`P + 1`, `2*B`) is computed from it; any other varies between the least and the greatest seen.
Of tensors that do not lie densely in all calls, the same is said of strides.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from tracer.api.modules import OptimizedModule
from tracer.api.stances import set_stance
from tracer.errors import UserError
from tracer.forwarding import parameters_of
from tracer.guards.constants import is_guardable_constant
from tracer.runtime.argument_paths import Attribute, Path, path_text
from tracer.runtime.shape_spec import ShapeSpec
from tracer.runtime.thread_state import ThreadState
from tracer.serving.variants import Variant
from tracer.sources.reading import instance_dict

MOST_KINDS = 64
_USUAL = (3, 5, 7, 11, 13)  # sizes of the first run, whose calls become examples: no two alike, none 0 or 1
_OPAQUE = (torch.nn.Module, type, torch.dtype, torch.device, torch.Generator)

Sizes = tuple[int, ...]


def observe_calls(module: torch.nn.Module, run: Callable[..., object], **sizes: tuple[int, int]) -> list[Variant]:
    """The variants of the calls of `module` that `run` makes, for `precompile`: of `generate`, a prefill and a decode step.

    `run` is called with the names in `sizes` as keywords, uncompiled: with two choices of sizes inside of the bounds, then with
    each combination of the bounds. So the variants have every size that comes between these, and the modes of torch that the
    calls were made in. A kind of call that comes only somewhere between is not seen. Each variant is named by the number of its
    first call in `run`.
    Raises UserError if `module` is none, if it is not called, and where calls have more than 64 kinds.

    ```python
    model = tracer.compile_module(torch.nn.Linear(4, 2).eval())
    calls = tracer.observe_calls(model, lambda B: model(torch.ones(B, 4)), B=(1, 64))
    assert tracer.precompile(model, calls).certified
    ```
    """
    if not isinstance(module, torch.nn.Module):
        raise UserError(
            f"{module!r} is not an nn.Module, and only calls of modules can be observed",
            hint="write a tracer.Variant for each kind of call.",
        )
    module = module._orig_mod if isinstance(module, OptimizedModule) else module
    log = _Log(module)
    hook = module.register_forward_pre_hook(log.note, with_kwargs=True, prepend=True)
    try:
        for point in _points(sizes):
            log.begin(point)
            with set_stance("force_eager"):
                run(**point)
    finally:
        hook.remove()
    if not log.kinds:
        raise UserError(f"{type(module).__name__} was not called", hint="run must call the module that is observed.")
    return [kind.variant(sizes) for kind in log.kinds.values()]


def _points(sizes: Mapping[str, tuple[int, int]]) -> Iterator[dict[str, int]]:
    """Ordinary sizes, those in the middle, then the corners."""
    usual: dict[str, int] = {}
    for name, (low, high) in sizes.items():
        inside = [value for value in (*_USUAL, high) if low <= value <= high]
        usual[name] = next((value for value in inside if value not in usual.values()), inside[0])
    corners = [dict(zip(sizes, corner)) for corner in itertools.product(*sizes.values())]
    middle = {name: (low + high) // 2 for name, (low, high) in sizes.items()}
    yield from {tuple(point.items()): point for point in (usual, middle, *corners)}.values()


@dataclasses.dataclass(frozen=True)
class _Call:
    """What is kept of one call. `sizes`, `strides`: of each tensor; of an int, itself alone."""

    point: Mapping[str, int]
    sizes: dict[Path, Sizes]
    strides: dict[Path, Sizes]


class _Log:
    """The calls of a module by kind."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.signature = parameters_of(type(module).forward)
        self.kinds: dict[Any, _Kind] = {}
        self.point: Mapping[str, int] = {}
        self.number = 0

    def begin(self, point: Mapping[str, int]) -> None:
        self.point, self.number = point, 0

    def note(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A hook, called before the module is."""
        leaves = dict(self._leaves(args, kwargs))
        mode = ThreadState.now().text()
        key = mode, tuple([(path, _structure(leaf)) for path, leaf in leaves.items()])
        kind = self.kinds.get(key)
        if kind is None:
            if len(self.kinds) == MOST_KINDS:
                raise UserError(f"{type(module).__name__} is called in more than {MOST_KINDS} ways", hint=self._what_differs(key))
            kind = self.kinds[key] = _Kind(self._name(), mode, *self._copied(args, kwargs))
        kind.calls.append(_call(self.point, leaves))
        self.number += 1

    def _name(self) -> str:
        """`call 1`, or `call 1 at S=1` where `run` makes such a call for some sizes only."""
        name = f"call {self.number}"
        if any(kind.name == name for kind in self.kinds.values()):
            name += " at " + ", ".join(f"{size}={value}" for size, value in self.point.items())
        return name

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
        seen: set[int] = {id(self.module)}
        for name, value in self.signature.bind(self.module, *args, **kwargs).arguments.items():
            kind = self.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                for key, each in value.items():
                    yield from _leaves((key,), each, seen)
            else:
                yield from _leaves((name,), value, seen)

    def _copied(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The arguments as they are now: a cache is changed by the call."""
        try:
            return copy.deepcopy((args, kwargs), {id(self.module): self.module})
        except Exception as error:
            raise UserError(
                f"an argument of {type(self.module).__name__} cannot be copied: {error}",
                hint="write a tracer.Variant for this call.",
            ) from error

    def _what_differs(self, key: Any) -> str:
        last = dict(list(self.kinds)[-1][1])
        other = [path_text(path) for path, structure in key[1] if last.get(path) != structure]
        return f"what differs is a constant or the structure at {', '.join(other[:3]) or 'an argument'}; hand in tensors or ints."


def _leaves(path: Path, value: Any, seen: set[int]) -> Iterator[tuple[Path, Any]]:
    """The parts of an argument, through containers and what objects hold themselves; each object once."""
    if isinstance(value, (torch.Tensor, *_OPAQUE)) or callable(value) or is_guardable_constant(value):
        yield path, value
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    yield path, value
    items: list[tuple[Any, Any]]
    fields = getattr(type(value), "_fields", ())  # of a namedtuple
    if isinstance(value, tuple) and fields:
        items = [(Attribute(name), item) for name, item in zip(fields, value)]
    elif isinstance(value, Mapping):
        items = [(key, item) for key, item in value.items() if type(key) in (str, int)]
    elif isinstance(value, (list, tuple)):
        items = list(enumerate(value))
    else:
        items = [(Attribute(name), item) for name, item in (instance_dict(value) or {}).items()]
    for key, item in items:
        yield from _leaves((*path, key), item, seen)


def _structure(leaf: Any) -> Any:
    """What calls of one kind have in common at a path."""
    if isinstance(leaf, torch.Tensor):
        return type(leaf), leaf.dtype, leaf.device, leaf.layout, leaf.dim(), leaf.requires_grad
    if type(leaf) is int:
        return int
    if is_guardable_constant(leaf):
        return type(leaf), repr(leaf)
    return type(leaf), len(leaf) if isinstance(leaf, (list, tuple, dict)) else None


def _call(point: Mapping[str, int], leaves: Mapping[Path, Any]) -> _Call:
    tensors = {path: leaf for path, leaf in leaves.items() if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided}
    ints = {path: (leaf,) for path, leaf in leaves.items() if type(leaf) is int}
    sizes = {path: tuple(leaf.shape) for path, leaf in tensors.items()}
    return _Call(point, ints | sizes, {path: leaf.stride() for path, leaf in tensors.items()})


# -- kinds of calls -------------------------------------------------------------------------------------------------------


class _Kind:
    """Calls that differ in sizes and ints only, and the arguments of the first."""

    def __init__(self, name: str, mode: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.name, self.mode, self.args, self.kwargs = name, mode, args, kwargs
        self.calls: list[_Call] = []

    def variant(self, sizes: Mapping[str, tuple[int, int]]) -> Variant:
        columns = {
            (path, dim): column
            for path in self.calls[0].sizes
            for dim, column in enumerate(zip(*[call.sizes[path] for call in self.calls]))
            if len(set(column)) > 1
        }
        given = {name: tuple([call.point[name] for call in self.calls]) for name in sizes}
        named = _Named({}, {}, given)
        named.add(columns.values())
        dims: dict[Path, dict[int, str]] = {}
        for (path, dim), column in columns.items():
            dims.setdefault(path, {})[dim] = named.text[column]
        strides = {path: self._strides(path) for path in self.calls[0].strides if not self._lies_as_the_first(path)}
        steps = named.add([column for of in strides.values() for column in of if len(set(column)) > 1])
        apart: dict[str, None] = {}  # relations of strides, each once
        least: dict[str, int] = {}  # of strides
        for path, of in strides.items():
            for name, extents, text in self._apart(path, of, named, steps):
                least[name] = max(least.get(name, 0), extents[0] if len(set(extents)) == 1 else 0)
                if len(set(extents)) > 1:
                    apart[text] = None
        bounds: dict[str, Any] = {
            name: sizes.get(name) or self._range_of(column, given, sizes) for name, column in named.bases.items()
        }
        for name in steps - sizes.keys():
            low, high = bounds[name]
            bounds[name] = least.get(name, low), high, _multiple(named.bases[name], strides.values())
        texts = {path_text(path): dims.get(path, {}) for path in dict.fromkeys([*dims, *strides])}
        said = {path_text(path): [named.said(column) for column in of] for path, of in strides.items()}
        spec = ShapeSpec(texts, list(apart), strided=said, modes=self.mode, **bounds)
        return Variant(self.args, self.kwargs, spec, self.name)

    def _strides(self, path: Path) -> list[Sizes]:
        """For each dim of a tensor, its stride in each call."""
        return list(zip(*[call.strides[path] for call in self.calls]))

    def _apart(
        self, path: Path, strides: Sequence[Sizes], named: _Named, steps: Collection[str]
    ) -> Iterator[tuple[str, list[int], str]]:
        """R, its least value in each call, and `R >= 8*min(N, 7)`: that a step which varies goes beyond all of the next inner
        dim, where it does in all calls. Calls of this kind may come with smaller sizes than `run` had for it."""
        sizes = list(zip(*[call.sizes[path] for call in self.calls]))
        order = sorted(range(len(strides)), key=lambda dim: (strides[dim], -dim))
        for inner, outer in itertools.pairwise(order):
            extents = [size * stride for size, stride in zip(sizes[inner], strides[inner])]
            name = named.said(strides[outer])
            if name in steps and all(map(operator.ge, strides[outer], extents)):
                yield name, extents, f"{name} >= ({named.said(sizes[inner])})*({named.said(strides[inner])})"

    def _range_of(self, column: Sizes, given: Mapping[str, Sizes], sizes: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
        """The least and the greatest that a size will be. A cache grows in the same steps from each length of prompt, also from
        those that `run` had for other kinds of calls only."""
        for name, values in given.items():
            beyond: dict[int, set[int]] = {}
            for size, value in zip(column, values):
                beyond.setdefault(value, set()).add(size - value)
            one, *others = beyond.values()
            if others and all(each == one for each in others):
                return sizes[name][0] + min(one), sizes[name][1] + max(one)
        return min(column), max(column)

    def _lies_as_the_first(self, path: Path) -> bool:
        """Whether a tensor is dense in all calls, with its dims in the order of the first."""
        first = self.calls[0].strides[path]
        order = sorted(range(len(first)), key=lambda dim: (first[dim], -dim))
        return all(call.strides[path] == _dense(call.sizes[path], order) for call in self.calls)


def _dense(sizes: Sizes, order: Sequence[int]) -> Sizes:
    strides, step = [0] * len(sizes), 1
    for dim in order:
        strides[dim] = step
        step *= max(sizes[dim], 1)
    return tuple(strides)


def _multiple(steps: Sizes, strides: Iterable[Sequence[Sizes]]) -> int:
    """What a stride that varies is a multiple of: the stride of an inner dim that never varies, of a tensor that has both."""
    fixed = {column[0] for of in strides if steps in of for column in of if len(set(column)) == 1}
    return max((each for each in fixed if each > 0 and not any(step % each for step in steps)), default=1)


@dataclasses.dataclass(frozen=True)
class _Named:
    """Names for sizes and strides that vary, by their values in the calls. `bases`: those that stand for themselves; `text`: what
    each is; `given`: the sizes that `run` had."""

    bases: dict[str, Sizes]
    text: dict[Sizes, str]
    given: dict[str, Sizes]

    def said(self, column: Sizes) -> Any:
        """What stands in a spec for a size or stride: a text, or its number if it is the same in all calls."""
        return column[0] if len(set(column)) == 1 else self.text[column]

    def add(self, columns: Iterable[Sizes]) -> set[str]:
        """Names sizes, or strides. Those that are what `run` was given have its names; others follow one that is named already or
        have new names. The names that are new here are returned."""
        by_values = {column: name for name, column in reversed(self.given.items())}
        taken = {*self.given, *self.bases}
        fresh = (name for number in itertools.count() if (name := f"N{number or ''}") not in taken)
        made = set()
        for column in sorted(
            set(columns) - set(self.text),
            key=lambda column: (column not in by_values, -len(set(column)), max(column) - min(column), min(column), column),
        ):
            follows = next((text for name, base in self.bases.items() if (text := _following(column, name, base))), None)
            if follows is None:
                follows = by_values.get(column) or next(fresh)
                self.bases[follows] = column
                made.add(follows)
            self.text[column] = follows
        return made


def _following(column: Sizes, name: str, base: Sizes) -> str | None:
    """`2*B + 1`, `min(N, 7)` or `max(S, 8)`, if the sizes are that in all calls: a window that slides is full at some time."""
    for bound, limit in ((None, None), (min, max(column)), (max, min(column))):
        text = _computed(column, name, base, bound, limit)
        if text is not None:
            return text
    return None


def _computed(column: Sizes, name: str, base: Sizes, bound: Any, limit: int | None) -> str | None:
    free = [(size, value) for size, value in zip(base, column) if value != limit]
    (low, least), (high, most) = min(free), max(free)
    if low == high and least != low:
        return None
    factor = (most - least) // (high - low) if low < high else 1
    offset = least - factor * low
    computed = [factor * size + offset for size in base]
    if factor < 1 or column != tuple(computed if bound is None else [bound(each, limit) for each in computed]):
        return None
    text = (f"{factor}*{name}" if factor > 1 else name) + (f" {'+-'[offset < 0]} {abs(offset)}" if offset else "")
    return text if bound is None else f"{bound.__name__}({text}, {limit})"


__all__ = ["observe_calls"]
