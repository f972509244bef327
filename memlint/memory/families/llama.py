"""Llama and Meta's later models."""

from __future__ import annotations

from memlint.memory.families.traits import (
    ALWAYS,
    AttentionTraits,
    ExpertTraits,
    Family,
    LigerTraits,
    LossTraits,
    PatchPath,
    Releases,
    RotaryTraits,
    TowerTraits,
    UnslothTraits,
    VisionTraits,
    since,
)

LLAMA = Family(
    model_types=("llama",),
    attention=AttentionTraits(sdpa=since(4, 36)),
    liger=LigerTraits(supported=True, layers="in_place"),
    unsloth=UnslothTraits(own_forward=True),
)
SMOLLM3 = Family(model_types=("smollm3",), liger=LigerTraits(supported=True, layers="in_place"))
# Experts: models/llama4/modeling_llama4.py, Llama4TextMoe and Llama4TextExperts.
LLAMA4_TEXT = Family(
    model_types=("llama4_text",),
    classes=("Llama4",),
    attention=AttentionTraits(softmax_keeps_dtype=True, norms_after_rotary=True),
    rotary=RotaryTraits(casts_back=True),
    experts=ExpertTraits(every_expert=True, stacked=ALWAYS),
    liger=LigerTraits(supported=True),
)
LLAMA4 = LLAMA4_TEXT._replace(
    model_types=("llama4",),
    classes=(),
    loss=LossTraits(in_own_dtype=Releases((4, 51), (5, 17))),
    vision=VisionTraits(PatchPath(shuffles=2, feature_copies=0), passes_use_cache=True),
)
LLAMA4_TOWER = LLAMA4_TEXT._replace(
    model_types=(),
    classes=("Llama4Vision",),
    rotary=RotaryTraits(as_complex=True, casts_back=True),
    tower=TowerTraits(rotary="table", input_by_name=True, unfolds_pixels=True),
)
MLLAMA = Family(model_types=("mllama", "mllama_text_model"), liger=LigerTraits(supported=True))
# Known from Liger's list only.
MUSE = Family(model_types=("muse_glimmer",), liger=LigerTraits(supported=True))

ROWS = (LLAMA, SMOLLM3, LLAMA4_TEXT, LLAMA4, LLAMA4_TOWER, MLLAMA, MUSE)
