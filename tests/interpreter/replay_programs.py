"""Models of several blocks, most of them equal, whose blocks do what a replay has to notice."""

from __future__ import annotations

import functools

import torch
from torch import nn

import tracer

X = torch.linspace(-2, 2, 12).reshape(3, 4)


class Block(nn.Module):
    def __init__(self, scale=2.0):
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)
        self.scale, self.flag = scale, False

    def forward(self, x):
        h = self.norm(self.linear(x)).relu() * self.scale
        return h + x if self.flag else h - x


class Stack(nn.Module):
    def __init__(self, *blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Writing(Block):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x):
        self.count += 1
        return self.linear(x) + self.count


class WritingOwnResult(Block):
    def forward(self, x):
        h = self.linear(x)
        h.relu_()
        h[:, 0] = 1
        return h.add_(x)


class WritingArgument(Block):
    def forward(self, x):
        x.mul_(0.5)
        return self.linear(x) + x


class Counting(Block):
    calls = 0

    def forward(self, x):
        Counting.calls += 1
        return self.linear(x) * Counting.calls


class Keeping(Block):
    def forward(self, x):
        self.last = x
        return self.linear(x)


class Numbered(Block):
    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        return self.linear(x) + self.number if self.number % 2 else self.linear(x)


class NumberedAndUnread(Numbered):
    def forward(self, x):
        return self.linear(x)


class Dropping(Block):
    def forward(self, x):
        return nn.functional.dropout(self.linear(x), 0.5) + torch.rand(4)


class Passing(Block):
    def forward(self, x):
        return x


class Giving(Block):
    def forward(self, x):
        h = self.linear(x)
        return h, (h[0], x), None, 3


class Sized(Block):
    def forward(self, x):
        rows, columns = x.shape
        h = self.linear(x).view(rows * columns)
        return h.view(rows, columns) + (rows if rows > 2 else -1)


class Failing(Block):
    def forward(self, x):
        try:
            raise KeyError(1)
        except KeyError:
            return self.linear(x)


class Asking(Block):
    """Compares what it is given with what it has."""

    def forward(self, x, other=None):
        if other is self.linear.weight:
            return self.linear(x) * 2
        return self.linear(x) + (0 if other is None else other.sum())


class AskingAlso(Asking):
    def forward(self, x, other=None):
        return self.linear(x) + (1 if x is other else 0)


class InARow(Stack):
    """Calls every block with something of the block, or of the one before."""

    def __init__(self, choose, *blocks):
        super().__init__(*blocks)
        self.choose = choose

    def forward(self, x):
        for index, block in enumerate(self.blocks):
            x = block(x, self.choose(self.blocks, index, x))
        return x


class Gathering(Stack):
    def forward(self, x):
        found = []
        for block in self.blocks:
            x = block(x)
            found.append(x)
        return found


class GivingAway(Stack):
    def forward(self, x):
        found = []
        for block in self.blocks:
            x, parts, nothing, number = block(x)
            found += [x + number, *parts]
        return found


class Sharing(Block):
    def __init__(self, table):
        super().__init__()
        self.table = table

    def forward(self, x):
        return self.linear(x) * self.table["scale"] + self.table["shift"]


class Changing(Stack):
    """Changes an object that all blocks read, between two of them."""

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
            self.blocks[0].table["scale"] += 1
        return x


class Memory:
    def __init__(self):
        self.last, self.calls = None, 0


class Remembering(Block):
    """Keeps its result in a memory that it is given, and computes the rest from tensors alone."""

    def __init__(self):
        super().__init__()
        self.rest = Block()

    def forward(self, x, memory):
        memory.last = x if memory.last is None else memory.last + x
        memory.calls += 1
        return self.rest(memory.last)


class WithMemories(Stack):
    def __init__(self, *blocks):
        super().__init__(*blocks)
        self.memories = [Memory() for _ in blocks]

    def forward(self, x):
        for block, memory in zip(self.blocks, self.memories):
            x = block(x, memory)
        return x, [memory.last for memory in self.memories]


class ReadingMemory(Block):
    def __init__(self, memory):
        super().__init__()
        self.memory = [memory]

    def forward(self, x):
        return self.linear(x) * self.memory[0].calls


class WithOneMemory(Stack):
    """Changes between its blocks what the first of them has read."""

    def __init__(self):
        memory = Memory()
        super().__init__(*(ReadingMemory(memory) for _ in range(4)))
        self.memory, self.memory.calls = memory, 1

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
            self.memory.calls += 1
        return x


class Switching(Stack):
    def forward(self, x):
        for index, block in enumerate(self.blocks):
            with torch.set_grad_enabled(index % 2 == 0):
                x = block(x)
        return x


class Casting(Stack):
    def forward(self, x):
        for index, block in enumerate(self.blocks):
            with torch.autocast("cpu", torch.bfloat16, enabled=index > 2):
                x = block(x)
        return x


class Detaching(Stack):
    def forward(self, x):
        for index, block in enumerate(self.blocks):
            x = block(x.detach() if index == 3 else x)
        return x


def tied(make=Block):
    blocks = [make() for _ in range(4)]
    for block in blocks[2:]:
        block.linear.weight = blocks[1].linear.weight
    return blocks


def tied_within(position):
    blocks = [Block() for _ in range(4)]
    blocks[position].linear.bias = blocks[position].norm.bias
    return blocks


def with_table(shared=True):
    table = {"scale": 2.0, "shift": torch.ones(4)}
    return [Sharing(table if shared else dict(table)) for _ in range(4)]


def own_weight(blocks, index, x):
    return blocks[index].linear.weight


def own_weight_once(blocks, index, x):
    return blocks[index if index < 2 else 0].linear.weight


def itself_once(blocks, index, x):
    return x if index == 3 else blocks[0].linear.weight


def itself(blocks, index, x):
    return x if index != 3 else x + 0


class Referring(Block):
    """Refers to another module, which is no part of it."""

    def __init__(self, other):
        super().__init__()
        object.__setattr__(self, "other", other)

    def forward(self, x):
        return self.linear(x) + (self.other.linear.weight if self.other is not None else 0).sum()


class Breaking(Block):
    def forward(self, x):
        h = self.linear(x)
        if self.flag:
            tracer.graph_break()
        return h + 1


class Many(Block):
    def __init__(self, *names):
        super().__init__()
        self.parts = nn.ModuleDict({name: nn.Linear(4, 4) for name in names})
        self.numbers, self.words = [1, 2.5], {name: index for index, name in enumerate(names)}
        self.act = functools.partial(nn.functional.softplus, beta=2)

    def forward(self, x):
        total = sum(part(x) * self.words[name] for name, part in self.parts.items())
        return self.act(total + self.numbers[1] * len(self.numbers))


class Viewing(Block):
    def forward(self, x):
        return self.linear(x)[:, :2], x[:1]


class WritingToViews(Stack):
    def forward(self, x):
        x = x + 0
        for block in self.blocks:
            narrow, first = block(x)
            narrow += 1
            first *= 2
            x = x + narrow.repeat(1, 2)
        return x


class Looking(Block):
    """What a call does depends on data."""

    def forward(self, x):
        return self.linear(x) + (1 if x.sum() > 0 else 2)


class Closed(Block):
    def __init__(self, count):
        super().__init__()

        def step():
            nonlocal count
            count += 1
            return count

        def reset():
            nonlocal count
            count = 0

        self.step, self.reset = step, reset

    def forward(self, x):
        return self.linear(x) + self.step()


class Special(Block):
    """An attribute that a property computes, and a class attribute."""

    offset = 1

    @property
    def factor(self):
        return self.scale + self.offset

    def forward(self, x):
        return self.linear(x) * self.factor


class OtherSpecial(Special):
    offset = 5


class Recursive(Block):
    def __init__(self, depth):
        super().__init__()
        self.inner = Recursive(depth - 1) if depth else None

    def forward(self, x):
        x = self.linear(x)
        return x if self.inner is None else self.inner(x)


class Locals(Block):
    """Makes lists and dicts of its own, and changes them."""

    def forward(self, x, **more):
        kept = {"x": x, **more}
        kept["y"] = self.linear(kept.pop("x"))
        parts = [kept["y"]]
        parts.append(parts[0] * 2)
        return torch.stack(parts).sum(0)


class Appending(Block):
    def forward(self, x, kept):
        kept.append(x)
        return self.linear(x) * len(kept)


class Filling(Stack):
    def forward(self, x):
        kept = []
        for block in self.blocks:
            x = block(x, kept)
        return kept


def breaking():
    stack = Stack(*(Breaking() for _ in range(5)))
    stack.blocks[3].flag = True
    return stack


def referring():
    first = Block()
    return Stack(first, *(Referring(first) for _ in range(4)))


def referring_to_others():
    blocks = [Block() for _ in range(4)]
    return Stack(*blocks, *(Referring(block) for block in blocks), Referring(blocks[0]))


def with_a_table_of_one():
    blocks = with_table(shared=False)
    blocks[2].table = blocks[0].table
    return Stack(*blocks, *with_table())


PROGRAMS = {
    "a module outside": referring,
    "modules outside": referring_to_others,
    "tables of which two are one": with_a_table_of_one,
    "a break in one": breaking,
    "breaks": lambda: Stack(*(Looking() for _ in range(3))),
    "parts by name": lambda: Stack(*(Many("a", "b") for _ in range(4)), Many("b", "a"), Many("a", "b", "c"), Many("a", "b")),
    "views": lambda: WritingToViews(*(Viewing() for _ in range(4))),
    "closures that count": lambda: Stack(*(Closed(0) for _ in range(4))),
    "class attributes": lambda: Stack(*(cls() for cls in (Special, Special, OtherSpecial, OtherSpecial, Special))),
    "recursion": lambda: Stack(Recursive(3), Recursive(3), Recursive(2)),
    "containers of its own": lambda: Stack(*(Locals() for _ in range(4))),
    "a list that is filled": lambda: Filling(*(Appending() for _ in range(4))),
    "buffers": lambda: Stack(*(Writing() for _ in range(4))),
    "results written to": lambda: Stack(*(WritingOwnResult() for _ in range(4))),
    "a counter of the class": lambda: Stack(*(Counting() for _ in range(4))),
    "attributes kept": lambda: Stack(*(Keeping() for _ in range(4))),
    "numbers": lambda: Stack(*(Numbered(number) for number in (0, 1, 1, 2, 3, 3, 1))),
    "numbers that nobody reads": lambda: Stack(*(NumberedAndUnread(number) for number in range(5))),
    "random numbers": lambda: Stack(*(Dropping() for _ in range(4))),
    "arguments passed through": lambda: Stack(*(Passing() for _ in range(4))),
    "tuples": lambda: GivingAway(*(Giving() for _ in range(4))),
    "sizes": lambda: Stack(*(Sized() for _ in range(4))),
    "exceptions": lambda: Stack(*(Failing() for _ in range(4))),
    "a list outside": lambda: Gathering(*(Block() for _ in range(4))),
    "one module, called again": lambda: Stack(*([Block()] * 3), Block(), *([Block()] * 2)),
    "shared weights": lambda: Stack(*tied()),
    "weights shared within one": lambda: Stack(*tied_within(2)),
    "a shared table": lambda: Stack(*with_table()),
    "equal tables": lambda: Stack(*with_table(shared=False)),
    "a table that changes": lambda: Changing(*with_table()),
    "tables of which one changes": lambda: Changing(*with_table(shared=False)),
    "its own weight": lambda: InARow(own_weight, *(Asking() for _ in range(4))),
    "its own weight or another": lambda: InARow(own_weight_once, *(Asking() for _ in range(4))),
    "its own weight, which is shared": lambda: InARow(own_weight, *tied(Asking)),
    "an argument twice": lambda: InARow(itself, *(AskingAlso() for _ in range(5))),
    "an argument twice, later": lambda: InARow(itself_once, *(AskingAlso() for _ in range(5))),
    "grad mode": lambda: Switching(*(Block() for _ in range(5))),
    "autocast": lambda: Casting(*(Block() for _ in range(5))),
    "gradients cut": lambda: Detaching(*(Block() for _ in range(5))),
    "memories": lambda: WithMemories(*(Remembering() for _ in range(4))),
    "a memory of all": WithOneMemory,
    "nested": lambda: Stack(*(Stack(Block(), Block()) for _ in range(3))),
    "other depths": lambda: Stack(Stack(Block()), Stack(Block(), Block()), Stack(Block()), Stack(Block(), Block())),
}  # fmt: skip
