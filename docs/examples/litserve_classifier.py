"""A classifier behind HTTP with LitServe: it batches what comes, and no request waits for a compile.

    pip install litserve transformers
    python docs/examples/litserve_classifier.py --port 8000
    curl -H "Content-Type: application/json" -d '{"tokens": [5, 17, 256]}' http://127.0.0.1:8000/predict

The server answers once every batch and length that can come is proved to be compiled. `--compiler` serves the same model
uncompiled, or with torch.compile: what `make serve-demo` compares with. `--metrics-port 9100` (`pip install prometheus-client`)
shows at http://127.0.0.1:9100/metrics what the compiled model did.
"""

import argparse
import gc
from collections.abc import Sequence
from typing import Any

import litserve
import torch
from classifier import MOST_AT_ONCE, MOST_TOKENS, SHAPES, build, example, padded
from fastapi import HTTPException

import tracer


class Classifier(litserve.LitAPI):
    """One model, in a process of its own."""

    def __init__(self, compiler: str, metrics_port: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.compiler, self.metrics_port = compiler, metrics_port

    def setup(self, device: str) -> None:
        """LitServe listens when this has returned."""
        torch.set_num_threads(1)
        if self.metrics_port is not None:
            import prometheus_client

            tracer.report_to_prometheus()  # in the process that has the model
            prometheus_client.start_http_server(self.metrics_port, addr="127.0.0.1")
        model = build().to(device)
        self.model, self.compiles = PREPARE[self.compiler](model)
        gc.collect()
        gc.freeze()  # what is there by now stays: no request waits for a look at all of it

    def decode_request(self, request: dict) -> list[int]:
        tokens = request["tokens"]
        if not 1 <= len(tokens) <= MOST_TOKENS:
            raise HTTPException(422, f"1 to {MOST_TOKENS} tokens, please, not {len(tokens)}")
        return list(tokens)

    def batch(self, inputs: Sequence[list[int]]) -> dict[str, torch.Tensor]:
        return padded(inputs)

    def predict(self, batch: dict[str, torch.Tensor]) -> list[dict[str, Any]]:
        with torch.no_grad():
            (logits,) = self.model(**batch)
        served = {"batch": list(batch["input_ids"].shape), "compiles": self.compiles()}
        return [{"logits": row, **served} for row in logits.tolist()]

    def unbatch(self, output: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return output

    def encode_response(self, output: dict[str, Any]) -> dict[str, Any]:
        return output


def certified(model: torch.nn.Module) -> tuple[Any, Any]:
    """Compiled for each shape, with the proof, and sealed; and what counts the compiles."""
    compiled = tracer.compile(model, shapes=SHAPES)
    with torch.no_grad():  # as the requests will run
        certificate = tracer.precompile(compiled, example=example())
    print(certificate, flush=True)
    if not certificate.certified:
        raise SystemExit("not every shape that may come is compiled")
    compiled.seal(on_miss="error")
    return compiled, lambda: compiled.stats()["compiles"]


def eager(model: torch.nn.Module) -> tuple[Any, Any]:
    return model, lambda: 0


def torch_compile(model: torch.nn.Module) -> tuple[Any, Any]:
    """With the backend that tracer has by default, after one request alone and two batches."""
    compiles = 0

    def counting(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
        nonlocal compiles
        compiles += 1
        return gm.forward

    compiled = torch.compile(model, backend=counting)
    with torch.no_grad():
        for tokens in ([[1, 2, 3]], [[1, 2, 3], [4]], [[1, 2, 3, 4, 5]] * 3):
            compiled(**padded(tokens))
    return compiled, lambda: compiles


PREPARE = {"tracer": certified, "eager": eager, "torch.compile": torch_compile}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--metrics-port", type=int)
    parser.add_argument("--compiler", choices=PREPARE, default="tracer")
    options = parser.parse_args()
    api = Classifier(options.compiler, options.metrics_port, max_batch_size=MOST_AT_ONCE, batch_timeout=0.005)
    server = litserve.LitServer(api, accelerator="cpu", devices=1)
    server.run(host="127.0.0.1", port=options.port, generate_client_file=False, log_level="warning")
