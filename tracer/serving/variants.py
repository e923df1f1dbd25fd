"""Variants of a call: with and without an optional argument, prefill and decode. Each has its own domain; a `Certificate` is over
all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shapes.domain import Domain, Point
from tracer.errors import UserError
from tracer.serving.call_facts import same_variant
from tracer.serving.readiness import Probe, arguments
from tracer.serving.regions import Served

if TYPE_CHECKING:
    from tracer.serving.coverage_result import Coverage


@dataclasses.dataclass(frozen=True, eq=False)
class Variant:
    """One way in which a function is called: an example, and the shapes that come in calls like it.

    `spec`: None for what was declared when the function was compiled. `name`: for messages, reports and contracts.

    ```python
    def pooled(x, mask=None):
        return x.sum(1) if mask is None else (x * mask).sum(1)

    compiled = tracer.compile(pooled, shapes="x: B, S; mask: B, S; B in 1..8; S in 1..64")
    x = torch.ones(3, 5)
    plain, masked = tracer.Variant((x,), name="plain"), tracer.Variant((x, torch.ones(3, 5)), name="masked")
    certificate = tracer.precompile(compiled, [plain, masked])
    assert certificate.certified and certificate.variant("masked").certified
    ```
    """

    example: Any = ()
    kwargs: Mapping[str, Any] | None = None
    spec: Any = None
    name: str = ""

    def arguments(self) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The positional and the keyword arguments of the example. Raises UserError for what is no example."""
        return arguments(self.example, self.kwargs)


def variants_of(given: Sequence[Any]) -> list[Variant]:
    """The variants in a list of such, of tuples of arguments, and of dicts of keyword arguments; with a name for each."""
    found = [each if isinstance(each, Variant) else Variant(each) for each in given]
    names = [each.name for each in found if each.name]
    twice = next((name for name in names if names.count(name) > 1), None)
    if not found or twice is not None:
        what = "there is no variant" if not found else f"two variants are named {twice!r}"
        raise UserError(what, hint="give one example for each way in which the function is called, each with a name of its own.")
    return [each if each.name else dataclasses.replace(each, name=str(number)) for number, each in enumerate(found)]


@dataclasses.dataclass(frozen=True, eq=False)
class Certificate:
    """What is known of each variant of the calls of a function. True in a condition only if all of them are certified."""

    variants: tuple[Coverage, ...]

    @property
    def first_gap(self) -> Coverage | None:
        """The first variant that is not certified."""
        return next((each for each in self.variants if not each.certified), None)

    @property
    def status(self) -> str:
        """That of `first_gap`, else "certified"; see `Coverage`."""
        return "certified" if self.first_gap is None else self.first_gap.status

    @property
    def certified(self) -> bool:
        return self.first_gap is None

    def __bool__(self) -> bool:
        return self.certified

    @property
    def witness(self) -> Point | None:
        return None if self.first_gap is None else self.first_gap.witness

    @property
    def reason(self) -> str:
        return "" if self.first_gap is None else self.first_gap.reason

    @property
    def stands(self) -> bool:
        """Whether all entries of this result are still valid."""
        return all(each.stands for each in self.variants)

    @property
    def covering(self) -> list[Served]:
        """What serves calls of each variant, one after the other; an entry that serves two of them is there twice."""
        return [served for each in self.variants for served in each.covering]

    @property
    def probes(self) -> tuple[Probe, ...]:
        """Of each entry, a call that it served when this was certified."""
        return tuple([probe for each in self.variants for probe in each.probes])

    @property
    def seconds(self) -> float:
        return sum(each.seconds for each in self.variants)

    def variant(self, name: str) -> Coverage:
        """The one of a name. Raises UserError if there is none."""
        found = next((each for each in self.variants if each.name == name), None)
        if found is None:
            raise UserError(
                f"there is no variant {name!r}", hint=f"there are {', '.join(repr(each.name) for each in self.variants)}."
            )
        return found

    def share(self) -> float:
        """The part of the shapes that has an entry, where the least has; see `Coverage.share`."""
        return min(each.share() for each in self.variants)

    def of_domain(self, domain: Domain) -> Coverage | None:
        """The variant whose calls have these sizes at these places."""
        return next((found for each in self.variants if (found := each.of_domain(domain)) is not None), None)

    def __str__(self) -> str:
        entries = len({id(served.entry) for served in self.covering})
        head = f"{self.status}: {len(self.variants)} variants, {entries} entries, {self.seconds:.1f} s"
        parts = [f"{each.name}: {each}".replace("\n", "\n  ") for each in self.variants]
        return "\n  ".join([head, *parts])

    __repr__ = __str__


def known_variants(kept: Coverage | Certificate | None) -> tuple[Coverage, ...]:
    """The variants in what `RegionState.coverage` keeps."""
    if kept is None:
        return ()
    return kept.variants if isinstance(kept, Certificate) else (kept,)


def with_variant(kept: Coverage | Certificate | None, found: Coverage, add: bool) -> Coverage | Certificate:
    """The variants that are kept, with `found` in place of what was known of the same variant. `add`: a variant that was not
    known is added, and not left out."""
    known = known_variants(kept)
    matching = [index for index, each in enumerate(known) if same_variant(each.facts, found.facts)]
    if not matching and known and not add:
        assert kept is not None  # something is known
        return kept
    at = matching[0] if matching else len(known)
    others = [each for index, each in enumerate(known) if index not in matching]
    all_of_them = [*others[:at], found, *others[at:]]
    return found if len(all_of_them) == 1 else Certificate(tuple(_named(all_of_them)))


def _named(variants: list[Coverage]) -> list[Coverage]:
    """The variants, renamed where two have the same name."""
    taken: set[str] = set()
    named = []
    for number, each in enumerate(variants):
        name = each.name if each.name and each.name not in taken else str(number)
        while name in taken:
            name += "'"
        taken.add(name)
        named.append(dataclasses.replace(each, name=name))
    return named
