"""Qwen 2 to 3.5, their mixtures of experts and vision towers."""

from __future__ import annotations

from memlint.memory.families.traits import (
    ALWAYS,
    AttentionTraits,
    ExpertTraits,
    Family,
    LigerTraits,
    LossTraits,
    PatchPath,
    RotaryTraits,
    TowerTraits,
    UnslothTraits,
    VisionTraits,
    before,
    since,
)

_LIGER = LigerTraits(supported=True)
_STACKED_TARGETS = ("gate_proj", "up_proj", "down_proj", "gate")

# Qwen/Qwen-7B modeling_qwen.py, QWenAttention.forward: `_attn` keeps the scores; with SUPPORT_TORCH2 a later revision
# calls F.scaled_dot_product_attention. QWenLMHeadModel.forward: its own shifted loss, of logits as the head returns.
QWEN = Family(
    model_types=("qwen",),
    attention=AttentionTraits(eager_at_first=True),
    loss=LossTraits(in_own_dtype=ALWAYS),
)
QWEN2 = Family(
    model_types=("qwen2",),
    liger=LigerTraits(supported=True, layers="in_place"),
    unsloth=UnslothTraits(own_forward=True, query_bias=True),
)
QWEN2_MOE = Family(
    model_types=("qwen2_moe",),
    classes=("Qwen2Moe",),
    experts=ExpertTraits(shared_first=True, linears_in_4=True, zero3_leaf=True),
)
QWEN3 = Family(
    model_types=("qwen3",),
    liger=LigerTraits(supported=True, layers="in_place"),
    unsloth=UnslothTraits(own_forward=True),
)
QWEN3_MOE = Family(
    model_types=("qwen3_moe",),
    experts=ExpertTraits(linears_in_4=True, peft_stacked_targets=_STACKED_TARGETS, zero3_leaf=True),
    liger=_LIGER,
)
QWEN3_NEXT = Family(
    model_types=("qwen3_next",),
    classes=("Qwen3Next",),
    attention=AttentionTraits(gated_query=True),
    experts=ExpertTraits(shared_first=True, peft_stacked_targets=_STACKED_TARGETS),
    liger=_LIGER,
)
QWEN3_5_TEXT = Family(
    model_types=("qwen3_5_text", "qwen3_5_moe_text"),
    code=since(5),
    classes=("Qwen3_5",),
    attention=AttentionTraits(gated_query=True),
    experts=ExpertTraits(shared_first=True),
    liger=_LIGER,
)

VISION_TEXT = Family(model_types=("qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text"), liger=_LIGER)
_MERGED = VisionTraits(PatchPath("layer"))
QWEN2_VL = Family(model_types=("qwen2_vl",), liger=_LIGER, vision=_MERGED)
QWEN2_5_VL = Family(model_types=("qwen2_5_vl",), liger=_LIGER, vision=VisionTraits(PatchPath("rms", reordered=True)))
QWEN2_5_OMNI = QWEN2_5_VL._replace(model_types=("qwen2_5_omni", "qwen2_5_omni_thinker"), liger=LigerTraits())
QWEN3_OMNI_MOE = Family(
    model_types=("qwen3_omni_moe", "qwen3_omni_moe_thinker"),
    experts=ExpertTraits(peft_stacked_targets=_STACKED_TARGETS),
    vision=_MERGED,
)
QWEN3_VL = Family(model_types=("qwen3_vl",), liger=_LIGER, vision=_MERGED)
QWEN3_5 = QWEN3_5_TEXT._replace(model_types=("qwen3_5", "qwen3_5_moe"), classes=(), vision=_MERGED)
# transformers 4 ran the stack's experts one by one (models/qwen3_vl_moe/modeling_qwen3_vl_moe.py:104-112, v4.57.6).
QWEN3_VL_MOE_TEXT = Family(
    model_types=("qwen3_vl_moe_text",), experts=ExpertTraits(stacked=ALWAYS, copied=before(5)), liger=_LIGER
)
QWEN3_VL_MOE = QWEN3_VL_MOE_TEXT._replace(model_types=("qwen3_vl_moe",), vision=_MERGED)
QWEN2_AUDIO = Family(
    model_types=("qwen2_audio",),
    # models/qwen2_audio/modeling_qwen2_audio.py, Qwen2AudioForConditionalGeneration.forward: its own shifted loss
    loss=LossTraits(in_own_dtype=ALWAYS),
    # models/qwen2_audio/processing_qwen2_audio.py:79, padding to `max_length`
    vision=VisionTraits(unbounded=": a sound of one second goes through as thirty, so tokens do not bound it"),
)

# models/qwen2_vl/modeling_qwen2_vl.py:395-418, VisionAttention
QWEN2_TOWER = Family(
    classes=("Qwen2VLVision", "Qwen2_5_VLVision", "Qwen2_5OmniVision"),
    attention=AttentionTraits(image_by_image=True),
    rotary=RotaryTraits(in_fp32=True),
    tower=TowerTraits(rotary="computed", positions_differ_by_sequence=True),
)
QWEN3_TOWER = QWEN2_TOWER._replace(
    classes=("Qwen3VLVision",),
    tower=TowerTraits(
        rotary="computed", positions_differ_by_sequence=True, hooks_input_embedding=False, interpolates_positions=True
    ),
)

ROWS = (
    QWEN,
    QWEN2,
    QWEN2_MOE,
    QWEN3,
    QWEN3_MOE,
    QWEN3_NEXT,
    QWEN3_5_TEXT,
    VISION_TEXT,
    QWEN2_VL,
    QWEN2_5_VL,
    QWEN2_5_OMNI,
    QWEN3_OMNI_MOE,
    QWEN3_VL,
    QWEN3_5,
    QWEN3_VL_MOE_TEXT,
    QWEN3_VL_MOE,
    QWEN2_AUDIO,
    QWEN2_TOWER,
    QWEN3_TOWER,
)
