"""Ways in which servers build a batch: each gives tensors of the same numbers that lie differently in memory."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

MOST_ROWS, MOST_STEPS = 16, 24
Builder = Callable[[list[torch.Tensor]], torch.Tensor]

_buffer = torch.zeros(MOST_ROWS, MOST_STEPS, dtype=torch.int64)
_staging = torch.zeros(8 + MOST_ROWS * MOST_STEPS, dtype=torch.int64)
_array = np.zeros((MOST_ROWS, MOST_STEPS), dtype=np.int64)


def _in_buffer(rows: list[torch.Tensor]) -> torch.Tensor:
    view = _buffer[: len(rows), : len(rows[0])]
    return view.copy_(torch.stack(rows))


def _in_array(rows: list[torch.Tensor]) -> torch.Tensor:
    view = _array[: len(rows), : len(rows[0])]
    view[...] = torch.stack(rows).numpy()
    return torch.from_numpy(view)


def _in_mapped_file(rows: list[torch.Tensor]) -> torch.Tensor:
    """Rows of a file in memory, between others."""
    file = tempfile.TemporaryFile()  # goes with the map
    mapped = np.memmap(file, dtype=np.int64, mode="w+", shape=(len(rows) + 2, len(rows[0])))
    mapped[1:-1] = torch.stack(rows).numpy()
    return torch.from_numpy(mapped[1:-1])


def _staged(rows: list[torch.Tensor]) -> torch.Tensor:
    """As servers fill pinned memory: one flat buffer for all batches, each of which begins somewhere in it."""
    numbers = torch.cat(rows)
    return _staging[8 : 8 + numbers.numel()].copy_(numbers).view(len(rows), -1)


def _from_loader(rows: list[torch.Tensor]) -> torch.Tensor:
    batch: torch.Tensor = next(iter(DataLoader(rows, batch_size=len(rows))))
    return batch


BUILDERS: dict[str, Builder] = {
    "new tensor": lambda rows: torch.tensor([row.tolist() for row in rows]),
    "slice of a buffer": _in_buffer,
    "slice of an array": _in_array,
    "slice of a wider tensor": lambda rows: torch.nn.functional.pad(torch.stack(rows), (0, len(rows)))[:, : len(rows[0])],
    "pad_sequence": lambda rows: pad_sequence(rows, batch_first=True),
    "pad_sequence(...).T": lambda rows: pad_sequence(rows).T,
    "stack": torch.stack,
    "stack along the other dim, transposed": lambda rows: torch.stack(rows, 1).transpose(0, 1),
    "cat": lambda rows: torch.cat([row[None] for row in rows]),
    "memory-mapped": _in_mapped_file,
    "staging buffer": _staged,
    "expand": lambda rows: rows[0].expand(len(rows), -1),
    "last step": lambda rows: torch.stack(rows)[:, -1:],
    "from a DataLoader": _from_loader,
}


def requests(build: Builder, count: int, seed: int = 0) -> Iterator[torch.Tensor]:
    """Batches of varied sizes, of token ids."""
    chance = random.Random(seed)
    for _ in range(count):
        rows, steps = chance.randint(2, MOST_ROWS), chance.randint(3, MOST_STEPS)
        yield build([torch.tensor([chance.randint(1, 99) for _ in range(steps)]) for _ in range(rows)])


# -- of any tensor ---------------------------------------------------------------------------------------------------------


def _slice_of_larger(x: torch.Tensor) -> torch.Tensor:
    return x.new_zeros([size + 3 for size in x.size()])[tuple(slice(size) for size in x.size())].copy_(x)


def _turned(x: torch.Tensor) -> torch.Tensor:
    """The dims lie in memory in the reverse order."""
    reverse = [*range(x.dim())][::-1]
    return x.permute(reverse).contiguous().permute(reverse)


def _every_second(x: torch.Tensor) -> torch.Tensor:
    return x.repeat_interleave(2, -1)[..., ::2]


def _from_array(x: torch.Tensor) -> torch.Tensor:
    array = np.zeros((x.shape[0], *(size + 1 for size in x.shape[1:])), dtype=x.numpy().dtype)
    view = array[(slice(None), *(slice(1, None) for _ in x.shape[1:]))]
    view[...] = x.numpy()
    return torch.from_numpy(view)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": torch.Tensor.contiguous,
    "slice of a larger one": _slice_of_larger,
    "turned": _turned,
    "every second": _every_second,
    "slice of an array": _from_array,
    "repeated row": lambda x: x[:1].expand(x.size()),
}
