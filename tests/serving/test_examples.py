"""The programs under docs/examples, as processes that are asked over HTTP; and the demo that puts one under load."""

from __future__ import annotations

import importlib.util
import itertools
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import tracer
from benchmarks import serve_demo
from benchmarks.serve_demo import EXAMPLES, Load, Server, eager_logits

pytest.importorskip("transformers")


def needs(package, extra="serve"):
    """Skips, with what to do about it."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install 'shapetracer[{extra}]'")


@pytest.fixture(scope="module")
def load():
    return Load.random(rate=60, seconds=1.0, seed=3)


@pytest.fixture
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    for name in ("classifier", "continuous_batching", "litserve_classifier", "ray_serve_classifier"):
        sys.modules.pop(name, None)


def run_program(name, *options):
    """A program of `benchmarks`, in a process of its own."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=EXAMPLES.parents[1], timeout=550, check=False)


def check_answers(server, load):
    """Many at once: each gets the logits of its sequence alone, from batches of several sizes, and nothing is compiled."""
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(server.classify, load.sequences))
    for answer, expected in zip(answers, eager_logits(load)):
        torch.testing.assert_close(torch.tensor(answer["logits"]), expected, atol=serve_demo.SAME, rtol=0)
    assert len({answer["batch"][0] for answer in answers}) > 1
    assert {answer["compiles"] for answer in answers} == {3}
    return answers


def check_ended(server):
    """By itself, with all that it started."""
    assert server.process.returncode == 0 and not server.left, server.told()


def test_the_model_of_the_examples_is_certified_and_sealed_for_what_may_come(examples):
    needs("litserve")
    from litserve_classifier import Classifier

    api = Classifier("tracer", max_batch_size=16)
    api.setup("cpu")
    sequences = [[5], [7] * 256, [1, 2, 3]]
    for batch in (sequences, sequences[:1], sequences[1:2], [sequences[0]] * 16):
        answers = api.unbatch(api.predict(api.batch([api.decode_request({"tokens": tokens}) for tokens in batch])))
        assert len(answers) == len(batch) and all(answer["compiles"] == 3 for answer in answers)
        alone = eager_logits(Load(batch, []))
        torch.testing.assert_close(torch.tensor([answer["logits"] for answer in answers]), torch.stack(alone), atol=1e-5, rtol=0)
    with pytest.raises(Exception, match="1 to 256 tokens, please, not 257"):
        api.decode_request({"tokens": [1] * 257})


@torch.no_grad()
def test_requests_that_come_and_go_give_what_each_gives_alone(examples):
    import continuous_batching as served

    model, reference, scheduler = served.sealed(served.build()), served.build(), served.Scheduler()
    coming, finished = [served.Request([1, 2, 3], 9), served.Request([4], 1), served.Request(list(range(40)), 2)], []
    coming += [served.Request([7] * 40, 12) for _ in range(4)]  # more blocks than there are
    for number in itertools.count():
        if coming and number % 2 == 0:
            scheduler.add(coming.pop())
        finished += served.step(model, scheduler)
        if not (coming or scheduler.running or scheduler.waiting):
            break
    assert len(finished) == 7 and sum(request.evictions for request in finished) > 0
    assert len(scheduler.free) == served.BLOCKS
    alone = {tuple(request.prompt): served.alone(reference, request) for request in finished}
    assert len(alone) == 4 and all(request.generated == alone[tuple(request.prompt)] for request in finished)
    stats = tracer.stats(model)
    assert stats["sealed_misses"] == stats["breaks"] == 0 and stats["certified"]


def test_attention_over_blocks_is_attention_over_the_sequence(examples):
    import continuous_batching as served

    torch.manual_seed(0)
    heads, width = served.HEADS, served.WIDTH // served.HEADS
    keys, values = (torch.randn(served.BLOCKS, served.BLOCK, heads, width) for _ in range(2))
    query, key, value = (torch.randn(11, heads, width) for _ in range(3))
    table = torch.tensor([[5, 2]])
    slots = torch.cat([torch.arange(40, 48), torch.arange(16, 19)])
    call = keys, values, slots, torch.tensor([0, 11]), torch.tensor([11]), table
    seen = served.attention(query, key, value, *call)
    causal = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(0, 1) for x in (query, key, value)), is_causal=True)
    torch.testing.assert_close(seen, causal.transpose(0, 1))
    assert torch.equal(keys[5], key[:8]) and torch.equal(values[2, :3], value[8:])


@pytest.mark.full
def test_litserve_batches_what_many_clients_ask_and_compiles_nothing(load):
    needs("litserve")
    with Server("litserve_classifier.py") as server:
        check_answers(server, load)
        assert server.ask([])[0] == 422
    assert "certified (3 entries" in server.told()
    check_ended(server)


@pytest.mark.full
def test_the_demo_prints_latencies_metrics_and_no_recompile():
    needs("litserve")
    needs("prometheus_client")
    done = run_program("serve_demo", "--seconds", "2", "--rate", "30")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(told in done.stdout for told in ("p99", "torch.compile", "No request waited for a compile"))
    for metric in ("hits_total", "compile_duration_seconds_count", "entries", "certified", "sealed"):
        assert f'shapetracer_{metric}{{function="BertForSequenceClassification"}} ' in done.stdout
    assert "shapetracer_misses_total" not in done.stdout


@pytest.mark.full
def test_tracing_beside_requests_costs_them_what_a_busy_thread_does():
    """32 threads, 10% novel shapes, half of eager's capacity, 60 seconds: the exit status says whether all of it held."""
    done = run_program("beside_requests")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.full
def test_the_time_to_a_certificate_is_told_beside_that_of_torch_compile():
    needs("diffusers", "zoo")
    done = run_program("certificates", "--layers", "1", "--requests", "12")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("certified in") == 5  # two of texts, three of pictures
    assert done.stdout.count(" entries; 0 compiles in requests") == 2
    assert done.stdout.count("B 1..64, S 1..512") == 2 and done.stdout.count("torch.compile(dynamic=") == 4


def test_a_server_that_does_not_start_is_told_with_what_it_printed(monkeypatch, tmp_path):
    (tmp_path / "broken.py").write_text("raise SystemExit('no such model')")
    monkeypatch.setattr(serve_demo, "EXAMPLES", tmp_path)
    with pytest.raises(RuntimeError, match="did not start(.|\n)*no such model"):
        with Server("broken.py"):
            pass


def test_a_server_ends_when_asked_though_its_parent_runs_in_the_background(monkeypatch, tmp_path):
    program = """
        import http.server, sys
        try:
            http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), http.server.SimpleHTTPRequestHandler).serve_forever()
        except KeyboardInterrupt:
            print("asked")
    """
    (tmp_path / "quick.py").write_text(textwrap.dedent(program))
    monkeypatch.setattr(serve_demo, "EXAMPLES", tmp_path)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for programs that it runs in the background
    try:
        with Server("quick.py", health="/") as server:
            pass
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    check_ended(server)
    assert "asked" in server.told()


def ray_server(monkeypatch, *options):
    """Patient: what Ray starts beside the replicas takes long on a busy machine."""
    for name, value in {
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "120",
        "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "120",
        "RAY_worker_niceness": "0",
    }.items():
        monkeypatch.setenv(name, value)
    return Server("ray_serve_classifier.py", *options, path="/", health="/-/healthz", ready="ready: 3 regions")


@pytest.mark.full
def test_two_replicas_of_ray_serve_the_contract_that_they_were_sent(load, monkeypatch):
    needs("ray")
    with ray_server(monkeypatch) as server:
        answers = check_answers(server, load)
        assert len({answer["replica"] for answer in answers}) == 2
        assert server.ask([])[0] == 422
    check_ended(server)


@pytest.mark.full
def test_a_replica_that_serves_other_regions_than_the_contract_says_does_not_start(examples):
    needs("ray")
    import ray_serve_classifier
    from classifier import SHAPES

    agreed = ray_serve_classifier.compiled(SHAPES).contract().data
    replica = ray_serve_classifier.Classifier.func_or_class
    assert replica(agreed).model.stats()["certified"]
    agreed["regions"] = [region for region in agreed["regions"] if region["text"] != "S == 1"]
    with pytest.raises(RuntimeError, match="does not serve what was agreed: different"):
        replica(agreed)
