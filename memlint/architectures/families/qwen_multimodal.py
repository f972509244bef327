"""Qwen's models that see and hear: a tower of their own before Qwen's language models."""

from __future__ import annotations

from memlint.architectures import towers
from memlint.architectures.blocks import Weights, linear, norm
from memlint.architectures.config import ModelConfig
from memlint.architectures.families import (
    llama,
    qwen_vision,
)
from memlint.architectures.families.composite import language_model, nested, whole
from memlint.architectures.model import Architecture, Tower, Weight, layer_parameters


def qwen2_vl(c: ModelConfig) -> Architecture:
    text = language_model(c, "qwen2_vl_text", layer_class="Qwen2VLDecoderLayer")
    return whole(c, "Qwen2VLForConditionalGeneration", text, qwen_vision.qwen2(nested(c, "vision_config")))


def qwen2_5_vl(c: ModelConfig) -> Architecture:
    text = language_model(c, "qwen2_5_vl_text", layer_class="Qwen2_5_VLDecoderLayer")
    return whole(c, "Qwen2_5_VLForConditionalGeneration", text, qwen_vision.qwen2_5(nested(c, "vision_config")))


def qwen3_vl(c: ModelConfig) -> Architecture:
    text = language_model(c, "qwen3_vl_text", layer_class="Qwen3VLTextDecoderLayer")
    return whole(c, "Qwen3VLForConditionalGeneration", text, qwen_vision.qwen3(nested(c, "vision_config")))


def qwen3_vl_moe(c: ModelConfig) -> Architecture:
    text = language_model(c, "qwen3_vl_moe_text", layer_class="Qwen3VLMoeTextDecoderLayer")
    return whole(c, "Qwen3VLMoeForConditionalGeneration", text, qwen_vision.qwen3(nested(c, "vision_config")))


def qwen3_5(c: ModelConfig) -> Architecture:
    text = language_model(c, "qwen3_5_text")
    return whole(c, "Qwen3_5ForConditionalGeneration", text, qwen_vision.qwen3(nested(c, "vision_config")))


def qwen3_5_moe(c: ModelConfig) -> Architecture:
    text = language_model(c, "qwen3_5_moe_text")
    return whole(c, "Qwen3_5MoeForConditionalGeneration", text, qwen_vision.qwen3(nested(c, "vision_config")))


def qwen2_5_omni_thinker(c: ModelConfig) -> Architecture:
    text = language_model(c, "qwen2_5_omni_text", layer_class="Qwen2_5OmniDecoderLayer")
    vision = qwen_vision.qwen2_5(nested(c, "vision_config"), split_qkv=True)
    return whole(c, "Qwen2_5OmniThinkerForConditionalGeneration", text, vision, _omni_audio(nested(c, "audio_config")))


def _omni_audio(c: ModelConfig) -> Tower:
    tower = towers.whisper(c, "model.audio_tower")
    hidden, out = tower.hidden_size, c.integer("output_dim")
    kept = tuple(w for w in tower.weights if not w.name.startswith(("embed_positions", "layer_norm")))
    own = (
        Weight("audio_bos_eos_token.weight", (2, out), "embedding"),
        *norm("ln_post", hidden, True),
        *linear("proj", out, hidden, True),
    )
    return tower._replace(weights=kept + own, projector_prefix="model.audio_tower.proj")


def qwen2_5_omni(c: ModelConfig) -> Architecture:
    """The thinker, which is what frameworks train; the talker and its vocoder are weights that some hold beside it."""
    thinker = ModelConfig(c.mapping("thinker_config"), "qwen2_5_omni_thinker")
    return qwen2_5_omni_thinker(thinker)._replace(family=c.family, speech_weights=_omni_speech(c))


_TOKEN2WAV = 449_051_264  # parameters of Qwen2_5OmniToken2WavModel by its own defaults, which no checkpoint changes


def _omni_speech(c: ModelConfig) -> Weights:
    """The talker (modeling_qwen2_5_omni.py, Qwen2_5OmniTalkerForConditionalGeneration) and the vocoder."""
    if not c.mapping("talker_config"):
        return ()
    talker = ModelConfig(c.mapping("talker_config"), "qwen2_5_omni_talker")
    hidden, embedding = talker.integer("hidden_size"), talker.integer("embedding_size")
    vocabulary = talker.integer("vocab_size", 8448)
    layers = llama.qwen2(ModelConfig({**talker.values, "vocab_size": vocabulary}, "qwen2"))
    inside = sum(layer_parameters(layers.layer_types[kind]) for kind in layers.layer_type_ids)
    around = vocabulary * (embedding + hidden) + (embedding + 1) * hidden + hidden
    return (Weight("talker", (inside + around,), "other"), Weight("token2wav", (_TOKEN2WAV,), "other"))


FAMILIES = {
    "qwen2_5_omni": qwen2_5_omni,
    "qwen2_5_omni_thinker": qwen2_5_omni_thinker,
    "qwen2_5_vl": qwen2_5_vl,
    "qwen2_vl": qwen2_vl,
    "qwen3_5": qwen3_5,
    "qwen3_5_moe": qwen3_5_moe,
    "qwen3_vl": qwen3_vl,
    "qwen3_vl_moe": qwen3_vl_moe,
}
