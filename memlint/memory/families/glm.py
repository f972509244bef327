"""GLM 4 and later."""

from __future__ import annotations

import memlint.memory.families.routers as routers
from memlint.memory.families.traits import (
    AttentionTraits,
    ExpertTraits,
    Family,
    LigerTraits,
    PatchPath,
    RotaryTraits,
    TowerTraits,
    VisionTraits,
    since,
)

_STACKED_TARGETS = ("gate_proj", "up_proj", "down_proj", "gate")

GLM4 = Family(model_types=("glm4",), liger=LigerTraits(supported=True))
GLM4_MOE = Family(
    model_types=("glm4_moe",),
    classes=("Glm4Moe",),
    experts=ExpertTraits(routers.SIGMOID_IN_FP32, linears_in_4=True, peft_stacked_targets=_STACKED_TARGETS),
)
# models/auto/modeling_auto.py of 5.24 loads Sarvam 30B with GLM 4's classes; peft 0.21.2 knows no names of its experts.
SARVAM_MOE = GLM4_MOE._replace(
    model_types=("sarvam_moe",), code=since(5, 24), classes=(), experts=ExpertTraits(routers.SIGMOID_IN_FP32)
)
GLM4_MOE_LITE = Family(
    model_types=("glm4_moe_lite",),
    code=since(5),
    classes=("Glm4MoeLite",),
    experts=ExpertTraits(routers.SIGMOID_IN_FP32, peft_stacked_targets=_STACKED_TARGETS),
)
GLM_MOE_DSA = Family(
    model_types=("glm_moe_dsa",),
    code=since(5),
    classes=("GlmMoeDsa",),
    experts=ExpertTraits(routers.SIGMOID_IN_FP32, peft_stacked_targets=_STACKED_TARGETS),
)
GLM4V = Family(
    model_types=("glm4v",),
    liger=LigerTraits(supported=True),
    vision=VisionTraits(PatchPath("layer", gated=True, last_kind="rms")),
)
GLM46V = GLM4V._replace(model_types=("glm46v",), code=since(5), liger=LigerTraits())
GLM4V_MOE = Family(
    model_types=("glm4v_moe",),
    classes=("Glm4vMoe",),
    experts=ExpertTraits(routers.SIGMOID_IN_FP32, peft_stacked_targets=_STACKED_TARGETS),
    liger=LigerTraits(supported=True),
)
# Patches are normed, their positions sampled in fp32, and merged by a convolution behind the layers.
GLM4V_TOWER = Family(
    classes=("Glm4vVision",),
    attention=AttentionTraits(image_by_image=True),
    rotary=RotaryTraits(in_fp32=True),
    tower=TowerTraits(
        rotary="computed",
        hooks_input_embedding=False,
        positions_differ_by_sequence=True,
        samples_positions=True,
        norms_first=True,
    ),
)

ROWS = (GLM4, GLM4_MOE, SARVAM_MOE, GLM4_MOE_LITE, GLM_MOE_DSA, GLM4V, GLM46V, GLM4V_MOE, GLM4V_TOWER)
