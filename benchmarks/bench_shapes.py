"""Symbolic shapes against torch's ShapeEnv, in one process, interleaved.

`python -m benchmarks.bench_shapes` propagates fake tensors through 12-layer BERT, GPT2 and Llama (small width, symbolic
batch and sequence), times single expressions and decisions, and shows what pruning with z3 costs. CPU time, medians.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.func import functional_call
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from tracer.graph.fakes.fake_mode import FakeMode
from tracer.graph.fakes.fake_tensors import FakeWorld
from tracer.sources.roots import LocalSource

BATCH, SEQUENCE, ROUNDS = 3, 17, 5
TOKENS = {"vocab_size": 200, "bos_token_id": 0, "eos_token_id": 1}


def models(layers: int) -> Iterator[tuple[str, torch.nn.Module]]:
    width = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "num_hidden_layers": layers}
    yield "BERT", BertModel(BertConfig(**width, vocab_size=200)).eval()
    yield "GPT2", GPT2LMHeadModel(GPT2Config(n_layer=layers, n_embd=64, n_head=4, use_cache=False, **TOKENS)).eval()
    yield "Llama", LlamaForCausalLM(LlamaConfig(**width, num_key_value_heads=2, use_cache=False, **TOKENS)).eval()


class Propagation:
    """One model on fake inputs: over own sizes, over torch's, and with static sizes."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.ids = torch.randint(0, 200, (BATCH, SEQUENCE))
        self.mask = torch.ones(BATCH, SEQUENCE, dtype=torch.long)
        self.emission = 0.0
        self.guards: dict[str, int] = {}

    def own(self) -> float:
        world = FakeWorld()
        inputs = [world.fakify(self.ids, LocalSource("ids")), world.fakify(self.mask, LocalSource("mask"))]
        seconds = self._run(world.fake_mode, inputs)
        start = time.process_time()
        self.guards["own"] = len(world.env.produce_guards())
        self.emission = time.process_time() - start
        return seconds

    def torch(self) -> float:
        env = ShapeEnv(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)
        mode = FakeTensorMode(shape_env=env)
        inputs = []
        for name, real in (("ids", self.ids), ("mask", self.mask)):
            context = StatelessSymbolicContext([DimDynamic.DUCK] * 2)
            inputs.append(mode.from_tensor(real, source=ConstantSource(name), symbolic_context=context))
        return self._run(mode, inputs)

    def static(self) -> float:
        mode = FakeTensorMode()
        return self._run(mode, [mode.from_tensor(self.ids), mode.from_tensor(self.mask)])

    def _run(self, mode: FakeTensorMode, inputs: list[FakeTensor]) -> float:
        FakeTensorMode.cache_clear()
        FakeMode.cache_of_static_sizes.clear()
        state = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        fakes = {name: fake_like(mode, value) for name, value in state.items()}
        gc.collect()
        start = time.process_time()
        with torch.no_grad(), mode, enable_python_dispatcher():
            functional_call(self.model, fakes, (), {"input_ids": inputs[0], "attention_mask": inputs[1]})
        return time.process_time() - start


def fake_like(mode: FakeTensorMode, tensor: torch.Tensor) -> FakeTensor:
    meta = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    return FakeTensor(mode, meta, tensor.device)


def propagation_rows(layers: int) -> list[dict[str, Any]]:
    rows = []
    for name, model in models(layers):
        case = Propagation(model)
        times: dict[str, list[float]] = {"own": [], "torch": [], "static": []}
        for turn in range(ROUNDS + 1):
            for variant, seconds in times.items():
                took = getattr(case, variant)()
                if turn:  # the first round warms imports
                    seconds.append(took)
        own, theirs, static = (statistics.median(times[variant]) * 1e3 for variant in ("own", "torch", "static"))
        rows.append(
            {
                "case": f"{name}, {layers} layers",
                "own": own,
                "torch": theirs,
                "static sizes": static,
                "ratio": own / theirs,
                "bar": 0.4,
                "emission": case.emission * 1e3,
                "guards": case.guards["own"],
            }
        )
    return rows


def own_sizes() -> list[torch.SymInt]:
    return list(FakeWorld().fakify(torch.randn(5, 7), LocalSource("x")).shape)


def torch_sizes() -> list[torch.SymInt]:
    env = ShapeEnv(duck_shape=False)
    made = []
    for hint in (5, 7):
        symbol = env.create_symbol(hint, ConstantSource(f"a{hint}"), dynamic_dim=DimDynamic.DYNAMIC)
        made.append(env.create_symintnode(symbol, hint=hint))
    return made


def microseconds(run: Callable[..., object], sizes: list[torch.SymInt], calls: int) -> float:
    a, b = sizes
    start = time.process_time()
    for _ in range(calls):
        run(a, b)
    return (time.process_time() - start) / calls * 1e6


def new_expressions(sizes: list[torch.SymInt], calls: int) -> float:
    """A decision on an expression that was never seen before."""
    a, b = sizes
    start = time.process_time()
    for k in range(2, calls + 2):
        bool((a * (k + 1000) + b * k) * a + k > a + b)
    return (time.process_time() - start) / calls * 1e6


REPEATED: dict[str, Callable[[Any, Any], object]] = {
    "a + b": lambda a, b: a + b,
    "a * b + 1": lambda a, b: a * b + 1,
    "a * b // b": lambda a, b: a * b // b,
    "bool(a == b + 1)": lambda a, b: bool(a == b + 1),
    "bool(a * b >= 2)": lambda a, b: bool(a * b >= 2),
    "sym_max(a, 4)": lambda a, b: torch.sym_max(a, 4),
}


def expression_rows() -> list[dict[str, Any]]:
    new = [new_expressions(own_sizes(), 200), new_expressions(torch_sizes(), 20)]
    rows = [{"case": "new expression, decided", "own": new[0], "torch": new[1], "bar": 0.05}]
    own, theirs = own_sizes(), torch_sizes()
    for name, run in REPEATED.items():
        best = [min(microseconds(run, sizes, 3000) for _ in range(3)) for sizes in (own, theirs)]
        rows.append({"case": f"repeated: {name}", "own": best[0], "torch": best[1], "bar": 0.33})
    for row in rows:
        row["ratio"] = row["own"] / row["torch"]
    return rows


def show(console: Console, title: str, unit: str, rows: list[dict[str, Any]], extra: tuple[str, ...] = ()) -> None:
    table = Table(title=title)
    for column in ("case", f"own {unit}", f"torch {unit}", *extra, "ratio", "bar"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for row in rows:
        numbers = [f"{row[name]:.1f}" for name in ("own", "torch", *extra)]
        table.add_row(row["case"], *numbers, f"{row['ratio']:.3f}", f"{row['bar']}")
    console.print(table)


def main(layers: int = 12) -> None:
    console = Console()
    propagation, expressions = propagation_rows(layers), expression_rows()
    show(console, "Fake propagation", "ms", propagation, ("static sizes", "emission", "guards"))
    show(console, "Expressions", "us", expressions)
    if "--json" in sys.argv:
        print(json.dumps({"propagation": propagation, "expressions": expressions}))


if __name__ == "__main__":
    main()
