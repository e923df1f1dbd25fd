"""Continuous batching: requests come and go between steps, and each step is one call of a sealed model on the tokens of all that
run.

The tokens of a step lie flat in one tensor, whatever request they are of: the prompts of those that were just admitted, and one
token of each of the others. Keys and values lie in blocks of a shared cache, and a table says which blocks are whose. Attention
is an operator of its own, which writes the cache. Three graphs serve all steps (one request and one token are cases of their
own), certified for each number of tokens, requests and blocks that may come.

    python docs/examples/continuous_batching.py
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import random

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import tracer

VOCABULARY, WIDTH, HEADS, LAYERS = 256, 64, 4, 2
BLOCK, BLOCKS = 8, 24  # tokens in a block, and blocks in the cache
MOST_TOKENS, MOST_AT_ONCE, MOST_BLOCKS = 32, 6, 8  # of one step; requests of one step; blocks of one request
LONGEST = BLOCK * MOST_BLOCKS
SHAPES = (
    "tokens: T; positions: T; slots: T; starts: R + 1; lengths: R; tables: R, M; "
    f"T in 1..{MOST_TOKENS}; R in 1..{MOST_AT_ONCE}; M in 1..{MOST_BLOCKS}; R <= T"
)


@torch.library.custom_op("continuous_batching::attention", mutates_args=("keys", "values"))
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: Tensor,
    values: Tensor,
    slots: Tensor,
    starts: Tensor,
    lengths: Tensor,
    tables: Tensor,
) -> Tensor:
    """Writes keys and values of the new tokens (T, heads, width) to their slots of the cache (blocks, block, heads, width), and
    lets each token look at those of its request up to itself. Tokens `starts[r]` to `starts[r + 1]` are the last ones of request
    r, which has `lengths[r]` so far, in the blocks `tables[r]`."""
    keys.view(-1, *keys.shape[2:])[slots] = key
    values.view(-1, *values.shape[2:])[slots] = value
    out = torch.empty_like(query)
    for request in range(lengths.shape[0]):
        first, end, length = int(starts[request]), int(starts[request + 1]), int(lengths[request])
        blocks = tables[request, : -(-length // BLOCK)]
        seen = torch.arange(length) <= torch.arange(length - (end - first), length)[:, None]
        out[first:end] = F.scaled_dot_product_attention(
            query[first:end].transpose(0, 1),
            keys[blocks].flatten(0, 1)[:length].transpose(0, 1),
            values[blocks].flatten(0, 1)[:length].transpose(0, 1),
            attn_mask=seen,
        ).transpose(0, 1)
    return out


@attention.register_fake
def _(query, key, value, keys, values, slots, starts, lengths, tables):  # type: ignore[no-untyped-def]
    return torch.empty_like(query)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.norm_mlp = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        shape = BLOCKS, BLOCK, HEADS, WIDTH // HEADS
        self.register_buffer("keys", torch.zeros(shape), persistent=False)
        self.register_buffer("values", torch.zeros(shape), persistent=False)

    def forward(self, x: Tensor, slots: Tensor, starts: Tensor, lengths: Tensor, tables: Tensor) -> Tensor:
        query, key, value = self.qkv(self.norm(x)).view(-1, 3, HEADS, WIDTH // HEADS).unbind(1)
        seen = attention(query, key, value, self.keys, self.values, slots, starts, lengths, tables)
        x = x + self.out(seen.flatten(1))
        return x + self.down(F.silu(self.up(self.norm_mlp(x))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(
        self, tokens: Tensor, positions: Tensor, slots: Tensor, starts: Tensor, lengths: Tensor, tables: Tensor
    ) -> Tensor:
        """The logits after the last token of each request, (R, vocabulary)."""
        x = self.tokens(tokens) + self.positions(positions)
        for layer in self.layers:
            x = layer(x, slots, starts, lengths, tables)
        return self.head(x[starts[1:] - 1])


def build() -> Model:
    """The same weights in each process."""
    torch.manual_seed(0)
    return Model().eval()


@dataclasses.dataclass(eq=False)
class Request:
    prompt: list[int]
    wanted: int  # tokens to generate
    generated: list[int] = dataclasses.field(default_factory=list)
    blocks: list[int] = dataclasses.field(default_factory=list)
    cached: int = 0  # tokens whose keys and values are in the cache
    evictions: int = 0

    @property
    def known(self) -> list[int]:
        return self.prompt + self.generated

    @property
    def done(self) -> bool:
        return len(self.generated) == self.wanted


class Scheduler:
    """Decides which tokens each step computes. The first that came are served first; where blocks run out, the last is evicted,
    and begins anew later, with what it has generated as a part of its prompt."""

    def __init__(self) -> None:
        self.waiting: collections.deque[Request] = collections.deque()
        self.running: list[Request] = []
        self.free = list(range(BLOCKS))

    def add(self, request: Request) -> None:
        assert request.prompt and len(request.prompt) + request.wanted <= LONGEST
        self.waiting.append(request)

    def plan(self) -> list[tuple[Request, int]]:
        """The requests of the next step, each with the number of its tokens."""
        planned: list[tuple[Request, int]] = []
        budget = MOST_TOKENS
        for request in list(self.running):
            if request not in self.running:  # evicted for one before it
                continue
            count = min(len(request.known) - request.cached, budget)
            if count and self._reserve(request, count):
                planned.append((request, count))
                budget -= count
        while self.waiting and budget and len(self.running) < MOST_AT_ONCE:
            request = self.waiting[0]
            count = min(len(request.known), budget)
            if not self._has_room(request, count):
                break
            self.running.append(self.waiting.popleft())
            self._reserve(request, count)
            planned.append((request, count))
            budget -= count
        return planned

    def _missing(self, request: Request, count: int) -> int:
        return -(-(request.cached + count) // BLOCK) - len(request.blocks)

    def _has_room(self, request: Request, count: int) -> bool:
        return self._missing(request, count) <= len(self.free)

    def _reserve(self, request: Request, count: int) -> bool:
        """Takes the blocks that a request needs, if need be from those that came later; False if it was evicted itself."""
        while not self._has_room(request, count):
            last = self.running[-1]
            self.evict(last)
            if last is request:
                return False
        for _ in range(self._missing(request, count)):
            request.blocks.append(self.free.pop())
        return True

    def evict(self, request: Request) -> None:
        self.release(request)
        request.evictions += 1
        self.waiting.appendleft(request)

    def release(self, request: Request) -> None:
        self.running.remove(request)
        self.free += request.blocks
        request.blocks, request.cached = [], 0


def inputs(planned: list[tuple[Request, int]]) -> dict[str, Tensor]:
    """What the model is called with."""
    tokens, positions, slots, starts, lengths, tables = [], [], [], [0], [], []
    for request, count in planned:
        end = request.cached + count
        places = range(request.cached, end)
        tokens += request.known[request.cached : end]
        positions += places
        slots += [request.blocks[place // BLOCK] * BLOCK + place % BLOCK for place in places]
        starts.append(len(tokens))
        lengths.append(end)
        tables.append(request.blocks)
    widest = max(map(len, tables))
    padded = [blocks + [0] * (widest - len(blocks)) for blocks in tables]
    lists = {"tokens": tokens, "positions": positions, "slots": slots, "starts": starts, "lengths": lengths, "tables": padded}
    return {name: torch.tensor(values) for name, values in lists.items()}


def step(model: nn.Module, scheduler: Scheduler) -> list[Request]:
    """Runs one step. -> the requests that it finished"""
    planned = scheduler.plan()
    chosen = model(**inputs(planned)).argmax(1).tolist()
    finished = []
    for (request, count), token in zip(planned, chosen, strict=True):
        request.cached += count
        if request.cached == len(request.known):
            request.generated.append(token)
        if request.done:
            scheduler.release(request)
            finished.append(request)
    return finished


def sealed(model: Model) -> nn.Module:
    """The model compiled for all steps that may come; a call that was not compiled is an error."""
    compiled = tracer.compile(model, shapes=SHAPES)
    example = Scheduler()
    for prompt in ([1, 2, 3], [4, 5, 6, 7, 8, 9, 10, 11, 12, 13], [14]):
        example.add(Request(prompt, 1))
    with torch.no_grad():
        certificate = tracer.precompile(compiled, kwargs=inputs(example.plan()))
    if not certificate.certified:
        raise RuntimeError(str(certificate))
    compiled.seal()
    return compiled


def alone(model: nn.Module, request: Request) -> list[int]:
    """What a request generates if nothing else runs."""
    scheduler = Scheduler()
    scheduler.add(Request(request.prompt, request.wanted))
    finished: list[Request] = []
    while not finished:
        finished = step(model, scheduler)
    return finished[0].generated


def random_requests(count: int, seed: int) -> list[Request]:
    draw = random.Random(seed)
    return [
        Request([draw.randrange(VOCABULARY) for _ in range(draw.randint(1, LONGEST - 24))], draw.randint(1, 24))
        for _ in range(count)
    ]


@torch.no_grad()
def serve(requests: int, seed: int) -> int:
    """Serves requests that come at random, compares each with what it gives alone and uncompiled. -> the number of differences"""
    model, reference = sealed(build()), build()
    draw, scheduler = random.Random(seed), Scheduler()
    coming, finished, steps = collections.deque(random_requests(requests, seed)), [], 0
    while len(finished) < requests:
        while coming and (draw.random() < 0.5 or not (scheduler.running or scheduler.waiting)):
            scheduler.add(coming.popleft())
        finished += step(model, scheduler)
        steps += 1
    wrong = sum(request.generated != alone(reference, request) for request in finished)
    stats = tracer.stats(model)
    evictions, entries, misses = sum(request.evictions for request in finished), len(stats["entries"]), stats["sealed_misses"]
    print(f"{requests} requests in {steps} steps, {evictions} evictions; {entries} entries, {misses} misses under the seal")
    print("each as if it ran alone, uncompiled" if not wrong else f"{wrong} requests differ from what they give alone")
    return wrong + misses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    raise SystemExit(1 if serve(options.requests, options.seed) else 0)
