"""Phi-4-multimodal: SigLIP and a conformer before Phi-3's layers.

Source: transformers 5.23 models/phi4_multimodal/modeling_phi4_multimodal.py. The adapters for images and speech that
its checkpoint holds are loaded as PEFT adapters, and are not part of the class.
"""

from __future__ import annotations

from memlint.architectures import towers
from memlint.architectures.blocks import Weights, linear, norm
from memlint.architectures.config import ModelConfig
from memlint.architectures.families.composite import nested, projected, whole
from memlint.architectures.families.phi3 import phi3
from memlint.architectures.model import Architecture, Tower, Weight

_IMAGES, _SOUNDS = "model.embed_tokens_extend.image_embed", "model.embed_tokens_extend.audio_embed"
_MEL_CONVOLUTIONS = 3  # by a kernel of 3 and a step of 2 each: the first of its own, two with a pointwise one


def phi4_multimodal(c: ModelConfig) -> Architecture:
    text = phi3(ModelConfig(c.values, "phi3", c.defaults, c.aliases))
    layers = tuple(kind._replace(class_name="Phi4MultimodalDecoderLayer") for kind in text.layer_types)
    vision = _with_head(nested(c, "vision_config"))
    audio = nested(c, "audio_config")
    size, heard = vision.hidden_size, audio.integer("hidden_size")
    images = (
        Weight("global_img_feature_extensor", (1, 1, size), "other"),
        Weight("sub_img_feature_extensor", (1, 1, 1, size), "other"),
        *linear("img_projection_up", text.hidden_size, size, True),
        *linear("img_projection_down", text.hidden_size, text.hidden_size, True),
    )
    sounds: Weights = ()
    for name in ("speech", "vision_speech"):
        sounds += linear(f"up_proj_for_{name}", text.hidden_size, heard, True)
        sounds += linear(f"down_proj_for_{name}", text.hidden_size, text.hidden_size, True)
    return whole(
        c,
        "Phi4MultimodalForCausalLM",
        text._replace(layer_types=layers),
        projected(vision, images, _IMAGES, tokens_per_image=256),
        projected(_conformer(audio), sounds, _SOUNDS),
    )


def _with_head(c: ModelConfig) -> Tower:
    return towers.siglip(c, f"{_IMAGES}.img_processor")._replace(layer_class="")


def _conformer(c: ModelConfig) -> Tower:
    """Convolutions over mel bins, a bias by the distance of frames, and layers of a convolution between two MLPs."""
    hidden, inner, heads = c.integer("hidden_size"), c.integer("intermediate_size"), c.integer("num_attention_heads")
    channels, bins = c.integer("nemo_conv_channels"), c.integer("input_size")
    front: tuple[Weight, ...] = (
        Weight("embed.conv.0.weight", (channels, 1, 3, 3), "conv"),
        Weight("embed.conv.0.bias", (channels,), "bias"),
    )
    for index in range(_MEL_CONVOLUTIONS):
        bins = (bins + 1) // 2
        if index:
            each, point = 3 * index - 1, 3 * index
            front += (
                Weight(f"embed.conv.{each}.weight", (channels, 1, 3, 3), "conv"),
                Weight(f"embed.conv.{each}.bias", (channels,), "bias"),
                Weight(f"embed.conv.{point}.weight", (channels, channels, 1, 1), "conv"),
                Weight(f"embed.conv.{point}.bias", (channels,), "bias"),
            )
    distances = c.integer("bias_max_distance") * (1 if c.flag("bias_symmetric") else 2)
    outside = (
        *front,
        *linear("embed.out", hidden, channels * bins, True),
        Weight("relative_attention_bias_layer.bias_values.weight", (distances, heads), "position"),
    )
    return Tower(
        kind="audio",
        hidden_size=hidden,
        layers=c.layers("num_blocks"),
        heads=heads,
        intermediate_size=inner,
        weights=outside,
        layer_weights=_conformer_layer(hidden, inner, c.integer("ext_pw_out_channel"), c.integer("kernel_size", 3)),
        tower_prefix=f"{_SOUNDS}.encoder",
    )


def _conformer_layer(hidden: int, inner: int, out: int, kernel: int) -> Weights:
    weights: Weights = norm("layer_norm_att", hidden, True) + norm("layer_norm", hidden, True)
    for name in ("feed_forward_in", "feed_forward_out"):
        weights += norm(f"{name}.layer_norm", hidden, True)
        weights += linear(f"{name}.gate_up_proj", 2 * inner, hidden, True)
        weights += linear(f"{name}.down_proj", hidden, inner, True)
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        weights += linear(f"self_attn.{name}", hidden, hidden, True)
    return (
        *weights,
        *norm("conv.layer_norm", hidden, True),
        Weight("conv.glu.b1", (1, out, 1), "bias"),
        Weight("conv.glu.b2", (1, out, 1), "bias"),
        *_convolution("conv.glu.ext_pw_conv_1d", 2 * out, hidden, 1),
        *_convolution("conv.dw_sep_conv_1d.dw_conv", hidden, 1, kernel),
        *_convolution("conv.dw_sep_conv_1d.pw_conv", hidden, hidden, 1),
        *_convolution("conv.ext_pw_conv_1d", out, hidden, 1),
    )


def _convolution(name: str, out: int, inside: int, kernel: int) -> Weights:
    return Weight(f"{name}.weight", (out, inside, kernel), "conv"), Weight(f"{name}.bias", (out,), "bias")


FAMILIES = {"phi4_multimodal": phi4_multimodal}
