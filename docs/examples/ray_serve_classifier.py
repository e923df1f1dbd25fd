"""A classifier behind HTTP with Ray Serve: two replicas, each of which proves that it serves the same contract.

    pip install "ray[serve]" transformers
    python docs/examples/ray_serve_classifier.py --port 8000 [--contract contract.json]
    curl -H "Content-Type: application/json" -d '{"tokens": [5, 17, 256]}' http://127.0.0.1:8000/

The contract says which shapes may come, and what is compiled for them: that of an earlier run, or one that is made here. Ray
ships it to the replicas. Each precompiles its domain, and one whose regions are not those of the contract raises: it never
takes traffic.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
import torch
from classifier import MOST_AT_ONCE, MOST_TOKENS, SHAPES, build, example, padded
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import tracer
from tracer.serving.contract import Contract, difference

REPLICAS = 2


def compiled(spec: Any) -> Any:
    """The model, with an entry for each shape of the domain."""
    torch.set_num_threads(1)
    model = tracer.compile(build())
    with torch.no_grad():  # as the requests will run
        certificate = tracer.precompile(model, spec, example=example())
    if not certificate.certified:
        raise RuntimeError(f"not every shape that may come is compiled: {certificate}")
    return model


@serve.deployment(num_replicas=REPLICAS, ray_actor_options={"num_cpus": 1})
class Classifier:
    """One replica. `shipped` is the content of the contract."""

    def __init__(self, shipped: dict[str, Any]) -> None:
        agreed = Contract(shipped)
        self.model = compiled(agreed.spec())
        found = difference(agreed, self.model.contract())
        if found.status != "equivalent":
            raise RuntimeError(f"this replica does not serve what was agreed: {found}")
        self.model.seal(on_miss="error")

    async def __call__(self, request: Request) -> Response:
        tokens = (await request.json())["tokens"]
        if not 1 <= len(tokens) <= MOST_TOKENS:
            return JSONResponse({"error": f"1 to {MOST_TOKENS} tokens, please, not {len(tokens)}"}, 422)
        return JSONResponse(await self.classify(tokens))

    @serve.batch(max_batch_size=MOST_AT_ONCE, batch_wait_timeout_s=0.005)
    async def classify(self, requests: list[list[int]]) -> list[dict[str, Any]]:
        batch = padded(requests)
        with torch.no_grad():
            (logits,) = self.model(**batch)
        stats = self.model.stats()
        served = {"batch": list(batch["input_ids"].shape), "compiles": stats["compiles"], "replica": os.getpid()}
        return [{"logits": row, **served} for row in logits.tolist()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--contract", help="a file that fn.contract().save(path) wrote; made here if none is given")
    options = parser.parse_args()
    agreed = Contract.read(options.contract) if options.contract else compiled(SHAPES).contract()

    ended = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: ended.set())
    ray.init(num_cpus=REPLICAS, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": options.port})
        serve.run(Classifier.bind(agreed.data))  # returns when all replicas are ready
        print(f"ready: {len(agreed.regions())} regions in each of {REPLICAS} replicas", flush=True)
        ended.wait()
    finally:
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    main()
