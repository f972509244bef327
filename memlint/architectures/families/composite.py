"""What image-text and audio-text models are put together from: nested configurations, the language model of another
family, towers with projectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint.architectures.blocks import Weights
from memlint.architectures.config import ModelConfig, UnsupportedConfig
from memlint.architectures.defaults import defaulted
from memlint.architectures.families import (
    delta_rule,
    dense,
    experts,
    experts_by_layer,
    gemma,
    gemma_n,
    latent,
    llama,
    mixture,
    phi3,
    pre_llama,
    short_convolution,
    state_space,
)
from memlint.architectures.model import Architecture, Tower

Build = Callable[[ModelConfig], Architecture]


def _glm4v_text(c: ModelConfig) -> Architecture:
    """GLM-4V's text layers project q, k and v with a bias whatever the config says (modeling_glm4v.py)."""
    return dense.glm4(ModelConfig({**c.values, "attention_bias": True}, c.family, c.defaults, c.aliases))


# The language models that image-text and audio-text configurations name in `text_config.model_type`.
TEXT: Mapping[str, Build] = {
    **llama.FAMILIES,
    **gemma.FAMILIES,
    **gemma_n.FAMILIES,
    **dense.FAMILIES,
    **mixture.FAMILIES,
    **experts.FAMILIES,
    **experts_by_layer.FAMILIES,
    **state_space.FAMILIES,
    **delta_rule.FAMILIES,
    **short_convolution.FAMILIES,
    **phi3.FAMILIES,
    "kimi_k2": latent.deepseek_v3,
    "deepseek_v2": latent.deepseek_v2,
    "glm4_moe_lite": latent.glm4_moe_lite,
    "mistral4": latent.mistral4,
    "deepseek_v3": latent.deepseek_v3,
    "qwen2_vl_text": llama.qwen2,
    "qwen2_5_vl_text": llama.qwen2,
    "qwen2_5_omni_text": llama.qwen2,
    "qwen3_vl_text": llama.qwen3,
    "qwen3_vl_moe_text": mixture.qwen3_moe,
    "glm4v_text": _glm4v_text,
    "glm4v_moe_text": experts.glm4_moe,
    "ernie4_5_vl_moe_text": experts.ernie4_5_vl_moe,
    "glm_ocr_text": dense.glm4,
    "hunyuan_vl_text": dense.hunyuan_v1_dense,
    "paddleocr_vl_text": dense.ernie4_5,
    "persimmon": pre_llama.persimmon,
    "molmo2_text": dense.molmo2_text,
    "deepseek_ocr2_text": experts.deepseek_ocr2_text,
}


def nested(c: ModelConfig, key: str, kind: str = "") -> ModelConfig:
    """The configuration under `key`, with the defaults of its own class (`kind` where it names no model_type)."""
    values = c.mapping(key)
    named = values.get("model_type")
    own = named if isinstance(named, str) else kind
    found = defaulted(values, f"{c.family}/{key}")
    if not found.defaults or (own and found.defaults.get("model_type") != own):
        other = defaulted(values, own) if own else found
        found = other if other.defaults else found
    found.family = own or found.family
    return found


def language_model(
    c: ModelConfig, kind: str, *, key: str = "text_config", prefix: str = "model.language_model.", layer_class: str = ""
) -> Architecture:
    """The nested language model, its tensors renamed to where they stand in the whole model."""
    values = c.mapping(key)
    text = (
        nested(c, key, kind)
        if values
        else ModelConfig(c.values, kind, defaulted(c.values, f"{c.family}/{key}").defaults)
    )
    family = text.text("model_type", kind) if values else kind
    build = TEXT.get(family) or TEXT.get(kind)
    if build is None:
        raise UnsupportedConfig(f"no parameter shapes known for the language model `{family[:60]}`")
    tied = _tied(c, text)
    settled = ModelConfig({**text.values, "tie_word_embeddings": tied}, family, text.defaults, text.aliases)
    built = build(settled)
    outside = tuple(weight._replace(name=_moved(weight.name, prefix)) for weight in built.non_layer_weights)
    kinds = built.layer_types
    if layer_class:
        kinds = tuple(kind_._replace(class_name=layer_class) for kind_ in kinds)
    return built._replace(non_layer_weights=outside, layer_types=kinds)


def _moved(name: str, prefix: str) -> str:
    return prefix + name[len("model.") :] if name.startswith("model.") else name


# Configurations that tie the head where the nested language model's one says so, its class's default included
# (transformers 5.23 models/paddleocr_vl/configuration_paddleocr_vl.py:195 and others).
_EITHER_TIES = {"glm4v", "glm4v_moe", "glm_ocr", "hunyuan_vl", "paddleocr_vl", "qwen2_5_vl", "qwen2_vl"}


def _tied(c: ModelConfig, text: ModelConfig) -> bool:
    """The outer config decides; where it is silent the inner one's word, else the outer class's default."""
    if c.family in _EITHER_TIES:
        own = text if text.values is not c.values else ModelConfig({}, text.family, text.defaults)
        return c.flag("tie_word_embeddings") or own.flag("tie_word_embeddings")
    if c.has("tie_word_embeddings") or not text.has("tie_word_embeddings"):
        return c.flag("tie_word_embeddings")
    return text.flag("tie_word_embeddings")


def whole(c: ModelConfig, class_name: str, text: Architecture, *parts: Tower, extra: Weights = ()) -> Architecture:
    return text._replace(
        family=c.family, class_name=class_name, towers=parts, non_layer_weights=text.non_layer_weights + extra
    )


def projected(tower: Tower, weights: Weights, prefix: str = "model.multi_modal_projector", **traits: Any) -> Tower:
    return tower._replace(projector_weights=weights, projector_prefix=prefix, **traits)
