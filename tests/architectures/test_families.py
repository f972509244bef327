"""Every tensor of every family, compared by name and shape with the classes of transformers."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import torch
import transformers

from memlint.architectures import from_config
from memlint.architectures.builder import families
from memlint.architectures.model import parameters
from tests.architectures import referee
from tests.architectures.small import NO_DEFAULTS, SMALL, VARIANTS

SHARED = sorted(
    family
    for family in families()
    if family in referee.CLASSES and family not in ("gemma3n", "qwen2_5_omni", "qwen3_omni_moe", "mimo")
)
CASES = [(family, {}) for family in SHARED if family not in NO_DEFAULTS]
# transformers 5.24 builds it as a Llama: its tensors have other names than those of the code beside the weights.
OTHERWISE_NAMED = {"exaone"}
CASES += [(family, values) for family, variants in VARIANTS.items() for values in variants]


@pytest.mark.parametrize(("family", "values"), CASES, ids=[f"{family}-{n}" for n, (family, _) in enumerate(CASES)])
def test_tensors_are_those_of_transformers(family: str, values: dict[str, Any]) -> None:
    if family not in transformers.CONFIG_MAPPING:
        pytest.skip(f"transformers {transformers.__version__} has no class for it")
    model = referee.build(family, values)
    architecture = from_config({"model_type": family, **values})
    assert parameters(architecture) == sum(parameter.numel() for parameter in model.parameters())
    if family in OTHERWISE_NAMED:
        return
    real, ours = referee.tensors(model), referee.listed(architecture, model)
    assert {name: shape for name, shape in ours.items() if real.get(name) != shape} == {}
    assert {name: shape for name, shape in real.items() if ours.get(name) != shape} == {}


def test_every_family_with_a_class_is_compared() -> None:
    assert set(SHARED) <= {family for family, _ in CASES}


def test_gemma3n_has_its_conformer_its_two_embedders_and_the_one_tower_of_timm() -> None:
    """Its class needs timm 1.0 for mobilenetv5_300m_enc, which has 294,126,912 parameters: the published checkpoints
    have these, and two projections and a norm more in layers that share keys and values."""
    from transformers import Gemma3nConfig
    from transformers.models.gemma3n import modeling_gemma3n as real

    config = Gemma3nConfig()
    with torch.device("meta"):
        parts = (
            real.Gemma3nAudioEncoder(config.audio_config),
            real.Gemma3nMultimodalEmbedder(config.audio_config, config.text_config),
            real.Gemma3nMultimodalEmbedder(config.vision_config, config.text_config),
            real.Gemma3nForCausalLM(config.text_config),
        )
    ours = from_config({"model_type": "gemma3n"})
    counted = sum(parameter.numel() for part in parts for parameter in part.parameters())
    assert parameters(ours) == counted + 294_126_912 == 7_849_978_192 - 15 * (2 * 512 * 2048 + 256)
    names = {weight.name: weight.shape for weight in (*ours.towers[1].weights, *ours.towers[1].layer_weights)}
    real_names = {
        name.removeprefix("conformer.0."): tuple(one.shape)
        for name, one in parts[0].named_parameters()
        if not re.match(r"conformer\.[1-9]", name)
    }
    assert names == real_names


@pytest.mark.parametrize("outer", [None, False, True])
@pytest.mark.parametrize("inner", [None, False, True])
@pytest.mark.parametrize("family", ["paddleocr_vl", "qwen2_5_vl", "glm_ocr"])
def test_the_head_is_tied_where_either_configuration_says_so(
    family: str, inner: bool | None, outer: bool | None
) -> None:
    """Their classes forward the nested word, which is its class's default where it is silent."""
    text, whole = ({} if word is None else {"tie_word_embeddings": word} for word in (inner, outer))
    parts = VARIANTS[family][0] if family in VARIANTS else {}
    nested = {name: part for name, part in parts.get("text_config", SMALL).items() if name != "tie_word_embeddings"}
    values = {**parts, "text_config": {**nested, **text}, **whole}
    tied = transformers.CONFIG_MAPPING[family](**copy.deepcopy(values)).tie_word_embeddings
    assert from_config({"model_type": family, **values}).tied_embeddings == tied


def test_published_paddleocr_vl_says_that_its_head_is_its_own_and_is_tied() -> None:
    """A flat configuration: the nested class's default ties the head all the same."""
    sizes = {"hidden_size": 96, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16}
    assert from_config({"model_type": "paddleocr_vl", **sizes, "tie_word_embeddings": False}).tied_embeddings
