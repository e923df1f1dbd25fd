"""`hint_override=`, `specialize_on=` and `override_optimization_hint`: what is said to compilers of sizes."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo

import tracer

pytestmark = pytest.mark.usefixtures("installed")


def times_its_size(x):
    return x * x.shape[0]


def entries_of(compiled):
    return tracer.region_of(compiled).entries()


def marked(mark, rows, **said):
    x = torch.ones(rows, 3)
    mark(x, 0, **said)
    return x


class Hints:
    """A backend that runs the graph as it is, and notes the sizes that compilers are told to expect."""

    def __init__(self):
        self.told = []

    def __call__(self, gm, inputs):
        env = torch._dynamo.utils.detect_fake_mode(inputs).shape_env
        self.told.append(sorted(env.var_to_hint_override.values()))
        sizes = [node.meta["example_value"] for node in gm.graph.nodes if "example_value" in node.meta]
        self.sizes = [env.optimization_hint(size.node.expr, fallback=77) for size in sizes if isinstance(size, torch.SymInt)]
        return gm.forward


MARKS = [torch._dynamo.mark_dynamic, torch._dynamo.decorators.mark_unbacked]


@pytest.mark.parametrize("mark", MARKS)
def test_compilers_are_told_the_usual_size(mark):
    backend = Hints()
    compiled = torch.compile(times_its_size, backend=backend)
    assert compiled(marked(mark, 4, hint_override=512))[0, 0] == 4
    assert compiled(marked(mark, 6, hint_override=512))[0, 0] == 6
    assert backend.told == [[512]]
    if "unbacked" in mark.__name__:  # for a size that is known, torch takes that of the traced call
        assert 512 in backend.sizes


def test_several_dims_are_told_at_once():
    backend = Hints()
    x = torch.ones(4, 3)
    torch._dynamo.mark_dynamic(x, [0, 1], hint_override=512)
    torch.compile(lambda x: x * x.shape[0] + x.shape[1], backend=backend)(x)
    assert backend.told == [[512, 512]]


def test_a_program_says_the_usual_size_of_a_number_that_is_read_off_data():
    backend = Hints()

    def rows(x, n):
        count = n.item()
        torch._dynamo.override_optimization_hint(count, 99)
        torch._dynamo.override_optimization_hint(x.shape[0], 7)  # known anyway: ignored
        return x + torch.zeros(count).sum() + count

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(rows, backend=backend, fullgraph=True)
        torch.testing.assert_close(compiled(torch.ones(2), torch.tensor(5)), rows(torch.ones(2), torch.tensor(5)))
    assert backend.told == [[99]]
    assert 99 in backend.sizes


@pytest.mark.parametrize("mark", MARKS)
def test_a_size_that_fits_a_condition_has_code_of_its_own(mark):
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm.code)
        return gm.forward

    compiled = torch.compile(times_its_size, backend=backend)

    def call(rows):
        x = marked(mark, rows, specialize_on=[lambda n: n == 8, lambda n: n % 16 == 0])
        torch.testing.assert_close(compiled(x), times_its_size(x))

    for rows in (5, 6, 8, 9, 8, 32, 48, 7, 8):
        call(rows)
    assert len(entries_of(compiled)) == len(graphs) == 3
    assert sum("* 8" in graph for graph in graphs) == 1  # a constant there, a symbol in the others


@pytest.mark.parametrize("mark", MARKS)
def test_a_condition_that_takes_only_ints_is_asked_at_each_call(mark):
    compiled = torch.compile(times_its_size)

    def call(rows):
        x = marked(mark, rows, specialize_on=[lambda n: n.bit_count() == 1])
        torch.testing.assert_close(compiled(x), times_its_size(x))

    for rows in (5, 6, 8, 16, 9, 32):
        call(rows)
    assert len(entries_of(compiled)) == 2


def test_conditions_of_several_dims_are_kept():
    compiled = torch.compile(lambda x: x * x.shape[0] + x.shape[1])

    def call(*sizes):
        x = torch.ones(sizes)
        torch._dynamo.mark_dynamic(x, 0, specialize_on=[lambda n: n == 8])
        torch._dynamo.mark_dynamic(x, 1, specialize_on=[lambda n: n == 4])
        return compiled(x)[0, 0]

    assert call(3, 5) == 8 and call(8, 5) == 13 and call(3, 4) == 7 and call(8, 4) == 12 and call(6, 7) == 13
    assert len(entries_of(compiled)) == 4


def test_a_condition_over_other_data_is_another_one():
    compiled = torch.compile(times_its_size)

    def call(rows, special):
        return compiled(marked(torch._dynamo.mark_dynamic, rows, specialize_on=[lambda n: n == special]))[0, 0]

    assert call(5, 8) == 5 and call(6, 8) == 6
    assert len(entries_of(compiled)) == 1
    assert call(6, 6) == 6 and call(7, 6) == 7
    assert len(entries_of(compiled)) == 3


@pytest.mark.parametrize("said", [{"hint_override": 7}, {"specialize_on": [bool]}])
def test_what_torch_drops_of_a_strict_unbacked_dim_is_refused(said):
    with pytest.raises(tracer.exc.UserError, match="cannot be honoured with strict"):
        torch._dynamo.decorators.mark_unbacked(torch.ones(4), 0, strict=True, **said)
