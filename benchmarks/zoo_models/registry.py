"""The registry of the zoo, and what its models share: inputs for a batch of n, and names of sizes in configurations."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

Inputs = Callable[[int], dict[str, Any]]
Builder = Callable[[], tuple[Callable[..., Any], Inputs]]

VOCABULARY = 97


@dataclasses.dataclass(frozen=True)
class Model:
    """One row of the zoo."""

    name: str
    family: str
    build: Builder
    needs: str = ""  # a package that is not one of the tests' own
    trains: bool = False  # runs with gradients, as in training

    @property
    def imports(self) -> str:
        """The module that the package brings."""
        return MODULES.get(self.needs, self.needs.replace("-", "_"))


MODULES = {
    "pyro-ppl": "pyro",
    "linear-operator": "linear_operator",
    "chronos-forecasting": "chronos",
    "itransformer": "iTransformer",
    "neuraloperator": "neuralop",
}  # of packages named otherwise
ZOO: dict[str, Model] = {}


def zoo(family: str, needs: str = "") -> Callable[[Builder], Builder]:
    """Registers a builder under its name."""

    def register(build: Builder) -> Builder:
        name = build.__name__.rstrip("_")
        ZOO[name] = Model(name, family, build, needs)
        return build

    return register


COMMUNITY: dict[str, Model] = {}


def community(needs: str, trains: bool = False) -> Callable[[Builder], Builder]:
    """Registers a builder of the community zoo, which has an environment of its own."""

    def register(build: Builder) -> Builder:
        name = build.__name__.rstrip("_")
        assert name not in COMMUNITY, name
        COMMUNITY[name] = Model(name, "community", build, needs, trains)
        return build

    return register


def without_init(package: str) -> None:
    """Lets the modules of a package be imported without what its __init__ imports, torchvision say."""
    if package not in sys.modules:
        found = importlib.util.find_spec(package)
        assert found is not None and found.submodule_search_locations is not None, package
        bare = sys.modules[package] = types.ModuleType(package)
        bare.__path__ = list(found.submodule_search_locations)
        bare.__spec__ = found


# -- inputs --------------------------------------------------------------------------------------------------------


def ids(n: int, length: int = 11) -> torch.Tensor:
    """Tokens, (n, length)."""
    return torch.randint(3, VOCABULARY - 3, (n, length))


def tokens(n: int) -> dict[str, Any]:
    return {"input_ids": ids(n)}


def masked_tokens(n: int) -> dict[str, Any]:
    """Tokens of which a different number are padding in each row."""
    mask = torch.ones(n, 11, dtype=torch.long)
    for row in range(n):
        mask[row, 11 - row % 5 :] = 0
    return {"input_ids": ids(n), "attention_mask": mask}


def without_cache(n: int) -> dict[str, Any]:
    return {"input_ids": ids(n), "use_cache": False}


def with_cache(n: int) -> dict[str, Any]:
    return {"input_ids": ids(n), "use_cache": True}


def translation(n: int) -> dict[str, Any]:
    return {"input_ids": ids(n), "decoder_input_ids": ids(n, 7)}


def pixels(size: int = 32) -> Inputs:
    return lambda n: {"pixel_values": torch.randn(n, 3, size, size)}


# -- configurations ------------------------------------------------------------------------------------------------


_LAYERS = {"hidden_size": 32, "num_hidden_layers": 12, "num_attention_heads": 4, "intermediate_size": 48}


def text(**more: Any) -> dict[str, Any]:
    """What most text models call their sizes."""
    return {"vocab_size": VOCABULARY, **_LAYERS, "max_position_embeddings": 64, **more}


def vision(**more: Any) -> dict[str, Any]:
    """What most vision transformers call their sizes."""
    return {**_LAYERS, "image_size": 32, "patch_size": 8, **more}


def speech(**more: Any) -> dict[str, Any]:
    """What encoders of raw waves call their sizes."""
    sizes = {
        "vocab_size": 32,
        **_LAYERS,
        "conv_dim": (16, 16),
        "conv_stride": (5, 2),
        "conv_kernel": (10, 3),
        "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 2,
    }
    return {**sizes, **more}


def both_sides(**more: Any) -> dict[str, Any]:
    """What most encoder-decoders call their sizes."""
    sizes = {
        "vocab_size": VOCABULARY,
        "d_model": 32,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "max_position_embeddings": 64,
    }
    return {**sizes, **more}


def hugging_face(model: str, config: str, inputs: Inputs, **settings: Any) -> tuple[torch.nn.Module, Inputs]:
    """A model of transformers from the names of its class and of its configuration."""
    import transformers

    return getattr(transformers, model)(getattr(transformers, config)(**settings)), inputs
