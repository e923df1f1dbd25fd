"""`repeated="outline"`: compilers are given equal blocks once, and nothing that a program can see is different for it."""

from __future__ import annotations

import pytest
import torch
import torch._inductor.config as inductor

import tracer
from tests.support.regions import entries

BACKENDS = ["aot_eager", pytest.param("inductor", marks=pytest.mark.full)]
WIDTH = 8


class Block(torch.nn.Module):
    def __init__(self, dropout=0.0, slope=0.1, size=WIDTH):
        super().__init__()
        self.norm, self.wide, self.narrow = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, size), torch.nn.Linear(size, WIDTH)
        self.dropout, self.slope = torch.nn.Dropout(dropout), slope

    def forward(self, x, mask):
        batch, length, _ = x.shape
        h = self.wide(self.norm(x)).view(batch, length, 2, -1).transpose(1, 2)
        h = torch.nn.functional.leaky_relu(h * mask, self.slope).transpose(1, 2).reshape(batch, length, -1)
        return x + self.dropout(self.narrow(h))


class Stack(torch.nn.Module):
    """Blocks between a part before and a part behind them."""

    def __init__(self, blocks):
        super().__init__()
        self.before, self.blocks, self.head = torch.nn.Linear(3, WIDTH), torch.nn.ModuleList(blocks), torch.nn.Linear(WIDTH, 2)

    def forward(self, x):
        mask = (x.sum(-1) > 0).to(x.dtype)[:, None, :, None]
        h, seen = self.before(x), []
        for block in self.blocks:
            h = block(h, mask)
            seen.append(h)
        return self.head(h), seen[1]


def stack(count=4, **kinds):
    torch.manual_seed(0)
    return Stack([Block(**kinds) for _ in range(count)])


def outlined(model, backend="aot_eager", **settings):
    return tracer.compile(model, backend=backend, repeated="outline", fullgraph=True, **settings)


def gradients_of(model, x):
    model.zero_grad()
    first, second = model(x)
    (first.sum() + (second**2).sum()).backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def blocks_in(log):
    """What was logged of each graph."""
    return list(dict.fromkeys(record.text for record in log))


def test_a_compiler_is_given_equal_blocks_once():
    given = []

    def noting(gm, inputs):
        given.append(gm)
        return gm.forward

    model, x = stack(6), torch.randn(2, 5, 3)
    assert all(map(torch.equal, outlined(model, noting)(x), model(x)))
    assert len(given) == 3  # what is before the blocks, a block, what is behind them


def test_the_default_is_one_graph():
    model, given = stack(6), []
    tracer.compile(model, backend=lambda gm, inputs: given.append(gm) or gm.forward)(torch.randn(2, 5, 3))
    assert len(given) == 1


def test_the_setting_says_what_is_not_said_at_the_decoration():
    given = []
    with tracer.config.patch(repeated="outline"):
        tracer.compile(stack(6), backend=lambda gm, inputs: given.append(gm) or gm.forward)(torch.randn(2, 5, 3))
    assert len(given) == 3


def test_a_word_that_is_not_known_is_refused():
    with pytest.raises(tracer.exc.UserError, match="'flat', 'outline' or 'auto'"):
        tracer.compile(stack(), repeated="twice")


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_and_gradients_are_those_of_one_graph(backend):
    one, other = stack(), stack()
    flat, pieces = tracer.compile(one, backend=backend), outlined(other, backend)
    for batch in (2, 3, 4):
        x = torch.randn(batch, 5, 3)
        for expected, seen in zip((*flat(x), *gradients_of(flat, x)), (*pieces(x), *gradients_of(pieces, x)), strict=True):
            torch.testing.assert_close(seen, expected)
        if backend == "aot_eager":
            assert all(map(torch.equal, pieces(x), flat(x)))
    assert len(entries(pieces)) == len(entries(flat)) == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_symbolic_sizes_are_handed_to_each_piece(backend):
    def deep(x, weights):
        n = x.shape[0] + 2
        x = torch.cat((x, x[:2]))
        for weight in weights:
            x = torch.nn.functional.layer_norm(x @ weight, (WIDTH,)).tanh() / n
            x = (x + torch.ones(n, 1).cumsum(0)).view(n, 2, -1).transpose(1, 2).reshape(n, -1) * x
        return x, n

    weights = [torch.randn(WIDTH, WIDTH) for _ in range(5)]
    with tracer.logs.capture("repeated") as log:
        compiled = outlined(deep, backend, dynamic=True)
        for rows in (4, 7, 9):
            x = torch.randn(rows, WIDTH)
            (seen, number), (expected, wanted) = compiled(x, weights), deep(x, weights)
            torch.testing.assert_close(seen, expected)
            assert number == wanted
    assert "5 blocks" in blocks_in(log)[0] and len(entries(compiled)) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_blocks_draw_random_numbers_in_the_order_of_the_program(backend):
    model, x = stack(dropout=0.5), torch.randn(2, 5, 3)
    with inductor.patch(fallback_random=True), tracer.logs.capture("repeated") as log:
        torch.manual_seed(1)
        expected, after = [*model(x), *gradients_of(model, x)], torch.rand(1)
        compiled = outlined(model, backend)
        torch.manual_seed(1)
        for seen, wanted in zip([*compiled(x), *gradients_of(compiled, x)], expected, strict=True):
            torch.testing.assert_close(seen, wanted)
        assert torch.equal(torch.rand(1), after)
    assert "4 blocks" in blocks_in(log)[0]


def test_blocks_with_different_constants_are_not_one():
    torch.manual_seed(0)
    model, x = Stack([Block(slope=0.1 * i) for i in range(4)]), torch.randn(2, 5, 3)
    assert all(map(torch.equal, outlined(model)(x), model(x)))


def test_blocks_of_other_sizes_are_not_one():
    torch.manual_seed(0)
    model, x = Stack([Block(size=WIDTH * 2**i) for i in range(4)]), torch.randn(2, 5, 3)
    with tracer.logs.capture("repeated") as log:
        assert all(map(torch.equal, outlined(model)(x), model(x)))
    assert "left whole" in blocks_in(log)[0]


def test_blocks_that_connect_their_operations_in_other_ways_are_not_one():
    def crossed(x, weights):
        for i, weight in enumerate(weights):
            a, b = (x @ weight).sin(), (x @ weight.t()).cos()
            c, d = (a * 2).exp(), (b * 2).exp()
            x = ((c - d) if i % 2 else (d - c)).tanh().neg().relu() + x
        return x

    weights = [torch.randn(WIDTH, WIDTH) for _ in range(6)]
    x = torch.randn(3, WIDTH)
    assert torch.equal(outlined(crossed)(x, weights), crossed(x, weights))


def test_several_kinds_of_blocks_are_found_in_one_graph():
    class Pair(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = (
                stack(5),
                torch.nn.ModuleList([torch.nn.TransformerDecoderLayer(WIDTH, 2, 16) for _ in range(4)]),
            )

        def forward(self, x):
            memory = self.encoder(x)[1]
            for layer in self.decoder:
                memory = layer(memory, memory)
            return memory

    model, x = Pair().eval(), torch.randn(2, 5, 3)
    with tracer.logs.capture("repeated") as log:
        torch.testing.assert_close(outlined(model)(x), model(x))
    assert "4 blocks" in blocks_in(log)[0] and "5 blocks" in blocks_in(log)[0]


class Cached(torch.nn.Module):
    """Each block writes to a buffer of its own, and in place to what it has computed."""

    def __init__(self):
        super().__init__()
        self.norm, self.wide = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.register_buffer("cache", torch.zeros(6, WIDTH))

    def forward(self, x):
        h = self.wide(self.norm(x))
        self.cache[2:4] += h.detach()
        h = torch.nn.functional.leaky_relu(h * 2, 0.1, True)
        h.add_(self.cache.sum(0))
        return (h.sin() + h.cos()).tanh() + x


def cached():
    torch.manual_seed(0)
    return torch.nn.Sequential(*[Cached() for _ in range(4)])


@pytest.mark.parametrize("backend", BACKENDS)
def test_blocks_that_write_to_buffers_of_their_own_are_outlined(backend):
    model, eager = cached(), cached()
    compiled = outlined(model, backend)
    with tracer.logs.capture("repeated") as log:
        for _ in range(3):
            x = torch.randn(2, WIDTH)
            torch.testing.assert_close(compiled(x), eager(x))
    for seen, expected in zip(model.state_dict().values(), eager.state_dict().values(), strict=True):
        torch.testing.assert_close(seen, expected)
    assert "3 blocks" in blocks_in(log)[0]  # the first is another one, whose input needs no gradient


def test_what_compiles_only_as_one_graph_is_compiled_as_one():
    given = []

    def refusing(gm, inputs):
        given.append(gm)
        if len(given) == 2:
            raise RuntimeError("not this one")
        return gm.forward

    model, x = stack(5), torch.randn(2, 5, 3)
    with tracer.logs.capture("repeated") as log:
        assert all(map(torch.equal, outlined(model, refusing)(x), model(x)))
    assert len(given) == 3 and "not this one" in blocks_in(log)[-1]


def test_memory_that_all_blocks_write_to_keeps_them_in_one_piece():
    def shared(x, total, weights):
        for weight in weights:
            h = torch.nn.functional.layer_norm(x @ weight, (WIDTH,)).sin().cos().tanh()
            total += h
            x = (h * total).exp().neg().sigmoid() + x
        return x

    weights, x = [torch.randn(WIDTH, WIDTH) for _ in range(5)], torch.randn(3, WIDTH)
    one, other = torch.zeros(3, WIDTH), torch.zeros(3, WIDTH)
    with tracer.logs.capture("repeated") as log:
        assert torch.equal(outlined(shared)(x, one, weights), shared(x, other, weights)) and torch.equal(one, other)
    assert "left whole" in blocks_in(log)[0]


def view_of_what_is_written(x, weights):
    part = x.chunk(2, 1)[1]
    x.add_(1)
    for weight in weights:
        y = (x @ weight).sin().cos().tanh().exp().neg().sigmoid().abs().sqrt()
        x = torch.nn.functional.layer_norm(y, (WIDTH,)) + torch.cat((part, part), 1)
    return x, part


@pytest.mark.parametrize("given", [lambda: torch.ones(3, WIDTH).cumsum(0), lambda: torch.ones(WIDTH, 3).cumsum(0).t()])
def test_views_of_inputs_that_are_written_to_are_where_the_program_has_them(given):
    weights = [torch.randn(WIDTH, WIDTH) for _ in range(5)]
    one, other = given(), given()
    compiled = outlined(view_of_what_is_written, dynamic=True)
    for seen, expected in zip((*compiled(one, weights), one), (*view_of_what_is_written(other, weights), other), strict=True):
        assert torch.equal(seen, expected) and seen.storage_offset() == expected.storage_offset()


def test_results_that_share_memory_still_do():
    def viewed(x, weights):
        results = [x.t()]
        for weight in weights:
            x = torch.nn.functional.layer_norm(x @ weight, (WIDTH,)).sin().cos().tanh().exp().neg().sigmoid() + x
            results += [x, x.view(-1)]
        return results

    weights, x = [torch.randn(WIDTH, WIDTH) for _ in range(5)], torch.randn(3, WIDTH)
    seen, expected = outlined(viewed)(x, weights), viewed(x, weights)
    assert all(map(torch.equal, seen, expected))
    for results in (seen, expected):
        assert results[0].data_ptr() == x.data_ptr()
        assert all(one.data_ptr() == view.data_ptr() for one, view in zip(results[1::2], results[2::2], strict=True))


def test_gradients_switched_off_between_blocks_are_off_where_the_program_has_it():
    model, x = stack(6), torch.randn(2, 5, 3)

    def half(x):
        mask = torch.ones(2, 1, 5, 1)
        h = model.before(x)
        with torch.no_grad():
            for block in model.blocks[:3]:
                h = block(h, mask)
        for block in model.blocks[3:]:
            h = block(h, mask)
        return model.head(h), h

    def gradients(fn):
        model.zero_grad(set_to_none=True)
        fn(x)[0].sum().backward()
        return [parameter.grad for parameter in model.parameters()]

    for seen, expected in zip(gradients(outlined(half)), gradients(half), strict=True):
        assert seen is expected is None or torch.equal(seen, expected)


def test_auto_leaves_small_graphs_whole_and_says_so():
    with tracer.logs.capture("repeated") as log:
        tracer.compile(stack(2), backend="aot_eager", repeated="auto")(torch.randn(2, 5, 3))
        tracer.compile(stack(12), backend="aot_eager", repeated="auto")(torch.randn(2, 5, 3))
    small, large = blocks_in(log)
    assert small.startswith("left whole") and large.startswith("outlined")


def test_the_entry_and_its_report_have_the_whole_graph():
    model, x = stack(5), torch.randn(2, 5, 3)
    whole, pieces = tracer.compile(model, backend="aot_eager"), outlined(stack(5))
    whole(x), pieces(x)
    (one,), (other,) = entries(whole), entries(pieces)
    assert str(other.guarded_code.graph.code) == str(one.guarded_code.graph.code)
    assert "hit" in str(tracer.why(pieces, x))


def test_a_wrong_backend_is_found_beside_eager():
    model, x = stack(5), torch.randn(2, 5, 3)
    with tracer.config.patch(verify_correctness=True):
        assert all(map(torch.equal, outlined(model)(x), model(x)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_outlined_entries_are_saved_and_loaded(backend, tmp_path):
    model, x = stack(5).requires_grad_(False), torch.randn(2, 5, 3)
    compiled = outlined(model, backend)
    expected = compiled(x)
    assert tracer.save(compiled, tmp_path / "file").saved == 1
    again = outlined(model, backend)
    assert tracer.load(again, tmp_path / "file").loaded == 1
    with tracer.set_stance("fail_on_recompile"):
        assert all(map(torch.equal, again(x), expected))
    other = tracer.compile(model, backend=backend)
    assert not tracer.load(other, tmp_path / "file")
