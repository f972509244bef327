"""DeepSeek's mixtures with latent attention, and Dots, which routes as they do."""

from __future__ import annotations

import memlint.memory.families.routers as routers
from memlint.memory.families.traits import ExpertTraits, Family, LigerTraits, RotaryTraits, since

_STACKED_TARGETS = ("gate_proj", "up_proj", "down_proj", "gate")

DEEPSEEK_V2 = Family(
    model_types=("deepseek_v2",),
    classes=("DeepseekV2",),
    rotary=RotaryTraits(casts_back=True),
    experts=ExpertTraits(routers.SOFTMAX_IN_FP32, linears_in_4=True, peft_stacked_targets=_STACKED_TARGETS),
    liger=LigerTraits(supported=True),
)
DEEPSEEK_V3 = Family(
    model_types=("deepseek_v3",),
    classes=("DeepseekV3",),
    experts=ExpertTraits(routers.SIGMOID_IN_FP32, linears_in_4=True, peft_stacked_targets=_STACKED_TARGETS),
    liger=LigerTraits(supported=True),
)
# models/auto/modeling_auto.py of 5.24 loads Sarvam 105B with DeepSeek V3's classes.
SARVAM_MLA = DEEPSEEK_V3._replace(model_types=("sarvam_mla",), code=since(5, 24), classes=(), liger=LigerTraits())
DEEPSEEK_V32 = Family(
    model_types=("deepseek_v32",),
    code=since(5),
    classes=("DeepseekV32",),
    experts=ExpertTraits(routers.SIGMOID_IN_FP32, peft_stacked_targets=_STACKED_TARGETS),
)
DEEPSEEK_V4 = Family(model_types=("deepseek_v4",), code=since(5), liger=LigerTraits(supported=True))
DOTS1 = Family(
    model_types=("dots1",),
    classes=("Dots1",),
    experts=ExpertTraits(routers.SIGMOID_IN_FP32, peft_stacked_targets=_STACKED_TARGETS),
)

ROWS = (DEEPSEEK_V2, DEEPSEEK_V3, SARVAM_MLA, DEEPSEEK_V32, DEEPSEEK_V4, DOTS1)
