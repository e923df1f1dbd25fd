"""`plan_buckets`: the batch sizes to which requests are padded, so that few different sizes are run and few rows are wasted.

A batch may be padded only if the added rows do not change the results of the others. So the contract has to say that rows are
independent (see `independent_rows`), and a size may be padded only to one for which the program takes the same branches: both lie
in the same regions.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sympy

from shapes import solver
from shapes.domain import Domain, Variable, show
from tracer.errors import UserError
from tracer.serving.contract import Contract

_ROWS_HINT = "pad where rows are independent, or serve each size as it is."


@dataclasses.dataclass(frozen=True)
class Behavior:
    """What tells whether the program treats two sizes alike: the regions' formulas, and facts about the other sizes."""

    variable: Variable
    formulas: tuple[Any, ...]
    others: tuple[Any, ...]

    @classmethod
    def of(cls, contract: Contract, domain: Domain, variable: Variable) -> Behavior:
        others = [condition for each in domain.variables if each != variable for condition in each.conditions()]
        return cls(variable, tuple([region.formula for region in contract.regions()]), tuple(others))

    def at(self, size: int) -> tuple[Any, ...]:
        """The conditions that each region puts on the other sizes."""
        return tuple([sympy.sympify(formula.subs(self.variable.symbol, size)) for formula in self.formulas])

    def alike(self, here: tuple[Any, ...], there: tuple[Any, ...]) -> bool:
        """Whether these are proved to be the same conditions."""
        return all(a == b or solver.equivalent(a, b, self.others) is True for a, b in zip(here, there))


@dataclasses.dataclass(frozen=True)
class BucketPlan:
    """`buckets`: the sizes to pad to, in order. `padding`: the number of rows that are added to all requests of the histogram."""

    size: str
    buckets: tuple[int, ...]
    padding: int
    requests: int
    rows: int
    serves: Mapping[int, int]  # size -> bucket, of the sizes of the histogram
    classes: tuple[tuple[int, ...], ...]  # groups of sizes for which the program takes the same branches
    behavior: Behavior = dataclasses.field(repr=False, compare=False)
    _found: dict[int, int] = dataclasses.field(default_factory=dict, repr=False, compare=False, init=False)

    def bucket_for(self, size: int) -> int:
        """The smallest bucket that a size may be padded to. For a size that is not in the histogram it is proved at the first
        call, in milliseconds, and kept. Raises UserError for a size that was not declared, is larger than all buckets, or for
        which the program takes other branches than for every bucket that is large enough.
        """
        bucket = self.serves.get(size, self._found.get(size))
        if bucket is None:
            bucket = self._found[size] = self._find_bucket(size)
        return bucket

    def _find_bucket(self, size: int) -> int:
        planned = f"is not among the sizes that were planned for: up to {self.buckets[-1]}"
        if type(size) is not int or size > self.buckets[-1]:
            raise UserError(f"{self.size} = {size} {planned}", hint="put it into the histogram.")
        if size not in self.behavior.variable.values():
            raise UserError(f"{self.size} = {size} {planned}, and it was not declared: {self.behavior.variable}")
        here = self.behavior.at(size)
        for bucket in self.buckets[bisect.bisect_left(self.buckets, size) :]:
            if self.behavior.alike(self.behavior.at(bucket), here):
                return bucket
        raise UserError(
            f"{self.size} = {size} can be padded to none of the buckets {', '.join(map(str, self.buckets))}: the program does "
            f"something else for these sizes",
            hint="put it into the histogram, so that a bucket is planned for it.",
        )

    # -- for engines ---------------------------------------------------------------------------------------------------

    def capture_sizes(self) -> list[int]:
        """The sizes to capture CUDA graphs for, in order, for a server that pads each batch to the next of them.

        Raises UserError if that is not what `bucket_for` says, for a size up to the largest: where the program treats it
        otherwise than the next bucket, or its bucket is a larger one.
        """
        known = [size for size in self.behavior.variable.values() if size <= self.buckets[-1]]
        for size in reversed(known):
            following = self.buckets[bisect.bisect_left(self.buckets, size)]
            if not self.behavior.alike(self.behavior.at(following), self.behavior.at(size)):
                raise UserError(
                    f"{self.size} = {size} would be padded to the next bucket, {following}, for which the program "
                    f"does something else",
                    hint=f"put {size} into the histogram, and allow a bucket more.",
                )
        return list(self.buckets)

    def settings(self, engine: str) -> dict[str, Any]:
        """The plan as keyword arguments of `vllm.LLM` (engine "vllm") or `sglang.Engine` ("sglang"). Both capture graphs by the
        number of tokens, which in decoding is the number of requests: the size has to be that number."""
        sizes = self.capture_sizes()
        if engine == "vllm":
            return {"compilation_config": {"cudagraph_capture_sizes": sizes}}
        if engine == "sglang":
            return {"cuda_graph_bs": sizes, "cuda_graph_max_bs": sizes[-1]}
        raise UserError(f"{engine!r} is not an engine whose settings are known", hint='"vllm" and "sglang" are.')

    def arguments(self, engine: str) -> list[str]:
        """The plan as command-line arguments of `vllm serve` or `python -m sglang.launch_server`."""
        found: list[str] = []
        for name, value in self.settings(engine).items():
            each = value if isinstance(value, list) else [json.dumps(value)]
            found += [f"--{name.replace('_', '-')}", *map(str, each)]
        return found

    @property
    def share(self) -> float:
        """The fraction of all rows that is padding."""
        return self.padding / max(1, self.padding + self.rows)

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.buckets))
        return f"{len(self.buckets)} buckets for {self.size}: {sizes}; {100 * self.share:.1f}% of the rows are padding"


def plan_buckets(
    histogram: Mapping[int, int] | Iterable[int], k: int, contract: Contract, *, size: str | None = None
) -> BucketPlan:
    """At most `k` batch sizes to pad requests to, with the least padding there is.

    `histogram`: batch size -> number of requests, or the batch sizes of requests, one by one. `size`: the name of the batch size
    in the contract; it may be left out if the contract has one size only. Raises UserError if padding is not proved to be
    harmless: the contract does not say that rows are independent, relations tie the size to others, or the program branches
    between more than `k` groups of sizes.

    ```python
    compiled = tracer.compile(torch.nn.Linear(4, 2).eval(), shapes="input: B, _; B in 1..64")
    with torch.no_grad():
        assert tracer.precompile(compiled, example=(torch.ones(3, 4),)).certified
    plan = tracer.plan_buckets({2: 900, 3: 400, 20: 90}, 2, tracer.contract(compiled))
    assert plan.bucket_for(2) == 3 and plan.padding == 900
    ```
    """
    counts = _counts(histogram)
    if type(k) is not int or k < 1:
        raise UserError(f"k={k!r} is not a number of buckets")
    domain = contract.domain()
    variable = _variable(domain, size)
    _require_harmless_padding(contract, domain, variable, counts)
    behavior = Behavior.of(contract, domain, variable)
    classes = _group_by_behavior(behavior, sorted(counts))
    if len(classes) > k:
        groups_text = "; ".join(", ".join(map(str, group)) for group in classes)
        raise UserError(
            f"{k} buckets are too few: the program tells {len(classes)} groups of sizes apart, and none can be padded into "
            f"another one: {groups_text}",
            hint=f"allow {len(classes)} buckets, or let the program treat these sizes alike.",
        )
    buckets = _cheapest_buckets(classes, counts, k)
    serves = {each: _bucket_for(each, group, buckets) for group in classes for each in group}
    padding = sum(count * (serves[each] - each) for each, count in counts.items())
    rows = sum(each * count for each, count in counts.items())
    return BucketPlan(variable.name, buckets, padding, sum(counts.values()), rows, serves, tuple(map(tuple, classes)), behavior)


def _counts(histogram: Mapping[int, int] | Iterable[int]) -> dict[int, int]:
    counts: dict[int, int] = {}
    items = histogram.items() if isinstance(histogram, Mapping) else ((each, 1) for each in histogram)
    for each, count in items:
        if type(each) is not int or type(count) is not int or count < 0:
            raise UserError(
                f"{each!r}: {count!r} is not a size and its number of requests", hint="give {size: count}, both ints."
            )
        if count:
            counts[each] = counts.get(each, 0) + count
    if not counts:
        raise UserError("the histogram is empty", hint="give {size: count} of the requests that came.")
    return counts


def _variable(domain: Domain, name: str | None) -> Variable:
    names = [each.name for each in domain.variables]
    if name is None and len(names) == 1:
        name = names[0]
    found = next((each for each in domain.variables if each.name == name), None)
    if found is None:
        raise UserError(f"size={name!r} is not a size of the contract", hint=f"it has {', '.join(names)}.")
    return found


# -- which sizes may be padded -----------------------------------------------------------------------------------------


def _require_harmless_padding(contract: Contract, domain: Domain, variable: Variable, counts: Mapping[int, int]) -> None:
    tied = [relation for relation in domain.relations if variable.symbol in relation.free_symbols]
    if tied:
        raise UserError(f"{variable.name} is tied to other sizes: {show(tied[0])}", hint="padding would change those sizes too.")
    if not contract.data.get("certified"):
        raise UserError(
            "the contract's shapes are not certified", hint="make the contract from shapes that precompile has certified."
        )
    for each in counts:
        if each not in variable.values():
            raise UserError(f"{variable.name} = {each} is outside the declared range, {variable}")
    for region in contract.data["regions"]:
        if region["kind"] != "graph":
            raise UserError(f"where {region['text']}, no graph runs ({region['kind']})", hint=_ROWS_HINT)
        verdict = region.get("rows", {}).get(variable.name)
        if verdict is None:
            raise UserError(
                f"the contract does not say whether rows along {variable.name} are independent",
                hint="make the contract again with this version of the tracer.",
            )
        if verdict != "independent":
            what = f"rows along {variable.name} may depend on each other, where {region['text']}"
            raise UserError(f"{what}: {verdict}", hint=_ROWS_HINT)


def _group_by_behavior(behavior: Behavior, sizes: Sequence[int]) -> list[list[int]]:
    """Groups of sizes for which every region is proved to put the same conditions on the other sizes."""
    classes: list[tuple[tuple[Any, ...], list[int]]] = []
    for size in sizes:
        here = behavior.at(size)
        for there, group in classes:
            if behavior.alike(here, there):
                group.append(size)
                break
        else:
            classes.append((here, [size]))
    return [group for _, group in classes]


# -- the cheapest buckets ----------------------------------------------------------------------------------------------


def _cheapest_buckets(classes: Sequence[Sequence[int]], counts: Mapping[int, int], k: int) -> tuple[int, ...]:
    """Dynamic programming: the cheapest buckets of each group for each number of buckets, then the cheapest way to divide `k`
    among the groups."""
    best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}  # number of buckets -> padding, and the buckets
    for index, group in enumerate(classes):
        left = len(classes) - index - 1
        options = _cheapest_buckets_of_group(group, counts, k - len(classes) + 1)
        after: dict[int, tuple[int, tuple[int, ...]]] = {}
        for used, (padding, chosen) in best.items():
            for more, (cost, buckets) in options.items():
                if used + more + left <= k:
                    found = padding + cost, (*chosen, *buckets)
                    after[used + more] = min(after.get(used + more, found), found)
        best = after
    return tuple(sorted(min(best.values())[1]))


def _cheapest_buckets_of_group(
    group: Sequence[int], counts: Mapping[int, int], most: int
) -> dict[int, tuple[int, tuple[int, ...]]]:
    """number of buckets -> the least padding of the sizes of a group, and the buckets. Buckets are sizes of the group; the
    largest size is always one."""
    requests = [0, *itertools.accumulate(counts[size] for size in group)]
    rows = [0, *itertools.accumulate(counts[size] * size for size in group)]

    def padding(first: int, last: int) -> int:
        """The padding if the sizes from `smallest` to `last` are padded to the last."""
        return group[last] * (requests[last + 1] - requests[first]) - (rows[last + 1] - rows[first])

    @functools.cache
    def least(last: int, buckets: int) -> tuple[float, tuple[int, ...]]:
        """The least padding of the sizes up to `last`, which is a bucket, and the buckets."""
        if buckets == 1:
            return padding(0, last), (group[last],)
        ways = (
            (before + padding(first + 1, last), (*chosen, group[last]))
            for first in range(buckets - 2, last)
            for before, chosen in [least(first, buckets - 1)]
        )
        return min(ways, default=(math.inf, ()))

    found = {}
    for buckets in range(1, min(most, len(group)) + 1):
        cost, chosen = least(len(group) - 1, buckets)
        found[buckets] = int(cost), chosen
    return found


def _bucket_for(size: int, group: Sequence[int], buckets: Sequence[int]) -> int:
    own = [bucket for bucket in buckets if bucket in group]
    return own[bisect.bisect_left(own, size)]
