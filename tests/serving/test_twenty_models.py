"""Twenty models as a server has them, certified and sealed: each edge and 300 random requests hit, and give what eager gives."""

from __future__ import annotations

import itertools
import random
import re

import pytest
import torch

import tracer
from benchmarks.served_models import SERVED, build
from tests.serving.batch_builders import LAYOUTS
from tests.support.comparing import Comparison, deep_copied

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]
REQUESTS = 300  # of each model, of all its kinds together


def variants_of(kinds):
    return [tracer.Variant(kwargs=kind.inputs(**kind.example), spec=kind.spec, name=kind.name) for kind in kinds]


def up_to(each, draw):
    """A size within its bounds, as likely between 4 and 8 as between 8 and 16: the large ones take nearly all the time."""
    return each.smallest + each.multiple_of * (int(each.count() ** draw.random()) - 1)


def axes(domain):
    return [each for each in domain.variables if domain.is_size(each)]


def edges(domain):
    """Each size at its least and at its most, in all combinations."""
    for corner in itertools.product((False, True), repeat=len(axes(domain))):
        yield {each.name: each.largest if most else each.smallest for each, most in zip(axes(domain), corner)}


def requests(kind, domain, count):
    """Sizes, how the tensors that may lie in any way lie, and the arguments."""
    draw = random.Random(count)
    at_random = ({each.name: up_to(each, draw) for each in axes(domain)} for _ in range(count))
    strided = re.findall(r"(\w+): [^;]* strided", kind.spec)
    for sizes in itertools.chain(edges(domain), at_random):
        inputs, told = kind.inputs(**sizes), {**sizes}
        for name in strided:
            told[name] = draw.choice([*LAYOUTS])
            inputs[name] = LAYOUTS[told[name]](inputs[name])
        yield told, inputs


@pytest.mark.parametrize("name", SERVED)
def test_every_edge_and_random_requests_hit_under_a_seal_and_equal_eager(name, record_property):
    served = SERVED[name]
    pytest.importorskip(served.needs, reason=f"{served.needs}: pip install 'shapetracer[zoo]'")
    model = build(name)
    made = tracer.compile(model)
    with torch.no_grad():
        found = tracer.precompile(made, variants_of(served.kinds))
        assert found.certified, str(found)
        record_property("seconds of certification", round(sum(each.seconds for each in found.variants), 1))
        record_property("entries", len(found.covering))
        traced = tracer.stats(made)["compiles"]
        tracer.seal(made)
        for kind in served.kinds:
            domain = found.variant(kind.name).domain
            for told, inputs in requests(kind, domain, REQUESTS // len(served.kinds)):
                again = deep_copied(inputs)
                expected, seen = model(**inputs), made(**again)
                Comparison().same((expected, inputs), (seen, again), f"{kind.name} {told}")
    stats = tracer.stats(made)
    assert stats["sealed_misses"] == 0 and stats["certified"] and stats["compiles"] == traced
