"""Servers of others under `tracer.install()`: continuous batching of transformers, and the encoders of sentence-transformers."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo

import tracer
from tests.serving.tiny_generators import tiny

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("installed")]


def frames():
    return torch._dynamo.utils.counters["frames"]["ok"]


# -- continuous batching ---------------------------------------------------------------------------------------

PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13, 14], [3] * 11, [4] * 5]


def batched(**compile_configs):
    """The tokens of each request, in the order of the prompts, and the errors."""
    from transformers import ContinuousBatchingConfig, GenerationConfig

    model = tiny("llama")
    model.set_attn_implementation("sdpa")
    batching = ContinuousBatchingConfig(page_size=16, num_blocks=32, max_batch_tokens=32, use_cuda_graph=False, **compile_configs)
    asks = GenerationConfig(max_new_tokens=6, do_sample=False, eos_token_id=-1, pad_token_id=0)
    found = model.generate_batch(PROMPTS, generation_config=asks, continuous_batching_config=batching, warmup=False)
    by_prompt = {tuple(each.prompt_ids): each for each in found.values()}
    assert not any(each.error for each in found.values())
    return [by_prompt[tuple(prompt)].generated_tokens for prompt in PROMPTS]


@pytest.mark.parametrize("dynamic", [True, None])
def test_batches_of_requests_that_come_and_go_are_compiled_by_the_configs_for_it(dynamic):
    transformers = pytest.importorskip("transformers", minversion="5.20", reason="pip install transformers")
    expected = batched()
    before = frames()
    config = transformers.CompileConfig(backend="eager", fullgraph=False, mode=None, dynamic=dynamic)
    assert batched(varlen_compile_config=config) == expected
    assert frames() > before


# -- sentence-transformers -------------------------------------------------------------------------------------

WORDS = [f"w{number}" for number in range(40)]


@pytest.fixture
def encoder(tmp_path):
    """Makes a model that embeds sentences, always with the same weights."""
    sentence_transformers = pytest.importorskip("sentence_transformers", reason="pip install 'shapetracer[drop-in]'")
    from sentence_transformers.sentence_transformer import modules
    from transformers import BertConfig, BertModel, BertTokenizerFast

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary))
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(vocabulary), **sizes)).save_pretrained(tmp_path)
    BertTokenizerFast(vocab_file=str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)

    def make():
        parts = [modules.Transformer(str(tmp_path)), modules.Pooling(32), modules.Normalize()]
        return sentence_transformers.SentenceTransformer(modules=parts, device="cpu")

    return make


def compiled_whole(model):
    model.compile()
    return model


def compiled_inside(model):
    model[0].model = torch.compile(model[0].model)
    return model


@pytest.mark.filterwarnings("error:shapetracer failed")
@pytest.mark.parametrize("compile_it", [compiled_whole, compiled_inside], ids=["whole", "inside"])
def test_sentences_are_embedded_as_by_the_model_that_is_not_compiled(encoder, compile_it):
    sentences = [" ".join(WORDS[start : start + length]) for start, length in enumerate((3, 5, 9, 2, 14, 7))]
    expected = encoder().encode(sentences, batch_size=2, convert_to_tensor=True)
    model = compile_it(encoder())
    before = frames()
    found = model.encode(sentences, batch_size=2, convert_to_tensor=True)
    assert torch.equal(found, expected)
    assert 1 <= frames() - before <= 3  # batches of several lengths have one graph
    with torch.compiler.set_stance("fail_on_recompile"):
        assert torch.equal(model.encode(sentences, batch_size=2, convert_to_tensor=True), expected)


def test_losses_of_sentence_transformers_train_to_the_same_weights(encoder):
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

    pairs = [(" ".join(WORDS[:3]), " ".join(WORDS[2:7])), (" ".join(WORDS[5:9]), " ".join(WORDS[9:11]))]
    found = []
    for compile_it in (lambda model: model, compiled_inside):
        model = compile_it(encoder()).eval()  # eval: no dropout
        loss = CosineSimilarityLoss(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for first, second in pairs:
            features = [model.tokenize([text]) for text in (first, second)]
            optimizer.zero_grad()
            loss(features, torch.tensor([0.5])).backward()
            optimizer.step()
        found.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    torch.testing.assert_close(*found)
    assert tracer.region_of(model[0].model).entries()
