"""Mixtures of experts whose makers have no file of their own here."""

from __future__ import annotations

from memlint.memory.families.traits import ALWAYS, NEVER, AttentionTraits, ExpertTraits, Family, LigerTraits, since

_STACKED_TARGETS = ("gate_proj", "up_proj", "down_proj", "gate")

# One 3-D parameter for a layer's experts before transformers 5 as well (4.57 models/*/modeling_*.py).
STACKED = Family(model_types=("dbrx", "granitemoe", "granitemoeshared", "jetmoe"), experts=ExpertTraits(stacked=ALWAYS))
EXAONE_MOE = Family(
    model_types=("exaone_moe",),
    code=since(5),
    classes=("ExaoneMoe",),
    experts=ExpertTraits(fp32_router_product=True, peft_stacked_targets=_STACKED_TARGETS),
)
MINIMAX_M2 = Family(
    model_types=("minimax_m2",),
    code=since(5),
    classes=("MiniMaxM2",),
    experts=ExpertTraits(fp32_scores=True, peft_stacked_targets=("w1", "w3", "w2", "gate")),
)
MINIMAX = Family(model_types=("minimax",), experts=ExpertTraits(peft_stacked_targets=("w1", "w3", "w2", "gate")))
MIMO_V2_FLASH = Family(model_types=("mimo_v2_flash",), code=since(5), attention=AttentionTraits(sdpa=NEVER))
# models/step3p7/modeling_step3p7.py:543, Step3p7Experts: a loop over the experts of one stack, whatever is configured
STEP3P7 = Family(model_types=("step3p7",), code=since(5), classes=("Step3p7",), experts=ExpertTraits(copied=ALWAYS))
PHIMOE = Family(model_types=("phimoe",), experts=ExpertTraits(linears_in_4=True))
# The layers of Cohere's and Ernie's mixtures are those of their dense models (dense.py).
STACKED_TARGETS = Family(
    model_types=("longcat_flash", "ernie4_5_moe"), experts=ExpertTraits(peft_stacked_targets=_STACKED_TARGETS)
)
STACKED_TARGETS_NEWER = STACKED_TARGETS._replace(model_types=("afmoe", "solar_open", "cohere2_moe"), code=since(5))
HUNYUAN_MOE = Family(
    model_types=("hunyuan_v1_moe",),
    experts=ExpertTraits(peft_stacked_targets=_STACKED_TARGETS),
    liger=LigerTraits(supported=True),
)

ROWS = (
    STACKED,
    EXAONE_MOE,
    MINIMAX_M2,
    MINIMAX,
    MIMO_V2_FLASH,
    STEP3P7,
    PHIMOE,
    STACKED_TARGETS,
    STACKED_TARGETS_NEWER,
    HUNYUAN_MOE,
)
