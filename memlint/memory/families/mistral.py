"""Mistral AI's models, and Pixtral's tower."""

from __future__ import annotations

import memlint.memory.families.routers as routers
from memlint.memory.families.traits import (
    AttentionTraits,
    ExpertTraits,
    Family,
    LigerTraits,
    LossTraits,
    PatchPath,
    Releases,
    TowerTraits,
    UnslothTraits,
    VisionTraits,
    since,
)

MISTRAL = Family(
    model_types=("mistral",),
    attention=AttentionTraits(sdpa=since(4, 37)),
    liger=LigerTraits(supported=True, layers="in_place"),
    unsloth=UnslothTraits(own_forward=True),
)
MINISTRAL = Family(model_types=("ministral",), liger=LigerTraits(supported=True, layers="in_place"))
MIXTRAL = Family(
    model_types=("mixtral",),
    classes=("Mixtral",),
    attention=AttentionTraits(sdpa=since(4, 37)),
    experts=ExpertTraits(
        routers.KEEPS_FP32, linears_in_4=True, peft_stacked_targets=("w1", "w3", "w2", "gate"), zero3_leaf=True
    ),
    liger=LigerTraits(supported=True),
)
MISTRAL3 = Family(
    model_types=("mistral3",),
    loss=LossTraits(in_own_dtype=Releases((4, 50), (4, 52))),
    vision=VisionTraits(
        PatchPath("rms", shuffles=2, linears_before_activation=1), holds_all_layers=True, passes_use_cache=True
    ),
)
PIXTRAL = Family(model_types=("pixtral",), liger=LigerTraits(supported=True))
# All images of a batch are one sequence, with a mask between them (models/pixtral/modeling_pixtral.py:309,
# generate_block_attention_mask).
PIXTRAL_TOWER = Family(classes=("Pixtral",), tower=TowerTraits(rotary="computed", packs_images=True))

ROWS = (MISTRAL, MINISTRAL, MIXTRAL, MISTRAL3, PIXTRAL, PIXTRAL_TOWER)
