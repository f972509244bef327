"""Mixtures of experts whose makers have no file of their own here."""

from __future__ import annotations

import memlint.memory.families.routers as routers
from memlint.memory.families.dense import COHERE, ERNIE, GRANITE_SWA, HUNYUAN
from memlint.memory.families.traits import (
    ALWAYS,
    NEVER,
    AttentionTraits,
    ExpertTraits,
    Family,
    LigerTraits,
    NormTraits,
    RotaryTraits,
    RouterTraits,
    since,
)

_STACKED_TARGETS = ("gate_proj", "up_proj", "down_proj", "gate")

# One 3-D parameter for a layer's experts before transformers 5 as well (4.57 models/*/modeling_*.py).
STACKED = Family(model_types=("dbrx",), experts=ExpertTraits(stacked=ALWAYS))
STACKED_CHOSEN_FIRST = Family(
    model_types=("jetmoe",), classes=("JetMoe",), experts=ExpertTraits(routers.CHOSEN_FIRST, stacked=ALWAYS)
)
# models/granitemoe/modeling_granitemoe.py: `embedding_multiplier` and `residual_multiplier`, which JetMoE lacks (5.24)
GRANITEMOE = STACKED_CHOSEN_FIRST._replace(
    model_types=("granitemoe", "granitemoeshared"),
    classes=("GraniteMoe",),
    scales_after_embedding=True,
    scales_branches=True,
)
JAMBA = Family(model_types=("jamba",), classes=("Jamba",), experts=ExpertTraits(routers.IN_INPUT_DTYPE))
EXAONE_MOE = Family(
    model_types=("exaone_moe",),
    code=since(5),
    classes=("ExaoneMoe",),
    experts=ExpertTraits(routers.SIGMOID_IN_FP32, peft_stacked_targets=_STACKED_TARGETS),
)
# models/kolibri1/modeling_kolibri1.py, Kolibri1TopKRouter: a sigmoid of the chosen experts' logits, divided by its sum
KOLIBRI1 = Family(
    model_types=("kolibri1",),
    code=since(5),
    classes=("Kolibri1",),
    experts=ExpertTraits(
        RouterTraits(fp32_product=True, scores="product", result="scores", chosen_first=True, divides=True)
    ),
)
MINIMAX_M2 = Family(
    model_types=("minimax_m2",),
    code=since(5),
    classes=("MiniMaxM2",),
    experts=ExpertTraits(routers.KEEPS_FP32, peft_stacked_targets=("w1", "w3", "w2", "gate")),
)
MINIMAX = Family(
    model_types=("minimax",),
    experts=ExpertTraits(routers.KEEPS_FP32, peft_stacked_targets=("w1", "w3", "w2", "gate")),
)
MIMO_V2_FLASH = Family(
    model_types=("mimo_v2_flash",),
    code=since(5),
    classes=("MiMoV2Flash",),
    attention=AttentionTraits(sdpa=NEVER),
    experts=ExpertTraits(routers.SIGMOID_IN_FP32),
)
# models/step3p7/modeling_step3p7.py:543, Step3p7Experts: a loop over the experts of one stack, whatever is configured
STEP3P7 = Family(
    model_types=("step3p7",),
    code=since(5),
    classes=("Step3p7",),
    experts=ExpertTraits(routers.KEEPS_FP32, shared_first=True, copied=ALWAYS),
)
PHIMOE = Family(model_types=("phimoe",), experts=ExpertTraits(linears_in_4=True))
LONGCAT_FLASH = Family(
    model_types=("longcat_flash",),
    classes=("LongcatFlash",),
    experts=ExpertTraits(RouterTraits(fp32_product=True, scores="autocast"), peft_stacked_targets=_STACKED_TARGETS),
)
# The layers of Cohere's and Ernie's mixtures are those of their dense models (dense.py), but for the experts.
ERNIE4_5_MOE = ERNIE._replace(
    model_types=("ernie4_5_moe",),
    classes=("Ernie4_5_Moe",),
    experts=ExpertTraits(routers.OUTSIDE_AUTOCAST, shared_first=True, peft_stacked_targets=_STACKED_TARGETS),
)
ERNIE4_5_VL_MOE_TEXT = ERNIE4_5_MOE._replace(
    model_types=(),
    code=since(5),
    classes=("Ernie4_5_VLMoe",),
    rotary=RotaryTraits(factors_in_fp32=True, fp32_tables=True),
)
COHERE2_MOE = COHERE._replace(
    model_types=("cohere2_moe",),
    code=since(5),
    classes=("Cohere2Moe",),
    experts=ExpertTraits(routers.CHOSEN_FIRST, peft_stacked_targets=_STACKED_TARGETS),
)
AFMOE = Family(
    model_types=("afmoe",),
    code=since(5),
    classes=("Afmoe",),
    norm=NormTraits(scales_in_fp32=True),
    experts=ExpertTraits(routers.KEEPS_FP32, shared_first=True, peft_stacked_targets=_STACKED_TARGETS),
)
SOLAR_OPEN = Family(
    model_types=("solar_open",),
    code=since(5),
    classes=("SolarOpen",),
    experts=ExpertTraits(routers.SIGMOID_IN_FP32, peft_stacked_targets=_STACKED_TARGETS),
)
AXK1 = Family(
    model_types=("axk1", "kimi_linear"),
    code=since(5),
    classes=("AXK1", "KimiLinear"),
    experts=ExpertTraits(routers.SIGMOID_IN_FP32),
)
HY_V3 = Family(
    model_types=("hy_v3",),
    code=since(5),
    classes=("HYV3",),
    experts=ExpertTraits(routers.SIGMOID_IN_FP32._replace(divides=True)),
)
LAGUNA = Family(
    model_types=("laguna",),
    code=since(5),
    classes=("Laguna",),
    experts=ExpertTraits(routers.IN_INPUT_DTYPE, shared_first=True),
)
LFM2_MOE = Family(
    model_types=("lfm2_moe",),
    code=since(5),
    classes=("Lfm2Moe",),
    experts=ExpertTraits(RouterTraits(scores="product", result="scores", divides=True)),
)
MISTRAL4 = Family(
    model_types=("mistral4",),
    code=since(5),
    classes=("Mistral4",),
    experts=ExpertTraits(RouterTraits(scores="autocast", result="scores")),
)
HUNYUAN_MOE = Family(
    model_types=("hunyuan_v1_moe",),
    classes=("HunYuanMoE",),
    attention=HUNYUAN.attention,
    experts=ExpertTraits(shared_first=True, peft_stacked_targets=_STACKED_TARGETS),
    liger=LigerTraits(supported=True),
)

# models/aria/modeling_aria.py, AriaTextTopKRouter: a softmax of the chosen logits, without a dtype
ARIA = Family(
    model_types=("aria", "aria_text"),
    classes=("AriaText",),
    experts=ExpertTraits(
        RouterTraits(scores="autocast", result="scores", chosen_first=True), inputs_first=True, stacked=since(5)
    ),
)
GRANITEMOE_SWA = GRANITE_SWA._replace(
    model_types=("granitemoe_swa",), classes=("GraniteMoeSWA",), experts=ExpertTraits(routers.CHOSEN_FIRST)
)
DEEPSEEK_OCR2 = Family(
    model_types=("deepseek_ocr2",),
    code=since(5),
    classes=("DeepseekOcr2Text",),
    experts=ExpertTraits(routers.SOFTMAX_IN_FP32),
)

ROWS = (
    ARIA,
    GRANITEMOE_SWA,
    DEEPSEEK_OCR2,
    STACKED,
    STACKED_CHOSEN_FIRST,
    GRANITEMOE,
    JAMBA,
    EXAONE_MOE,
    KOLIBRI1,
    MINIMAX_M2,
    MINIMAX,
    MIMO_V2_FLASH,
    STEP3P7,
    PHIMOE,
    LONGCAT_FLASH,
    ERNIE4_5_MOE,
    ERNIE4_5_VL_MOE_TEXT,
    COHERE2_MOE,
    AFMOE,
    SOLAR_OPEN,
    AXK1,
    HY_V3,
    LAGUNA,
    LFM2_MOE,
    MISTRAL4,
    HUNYUAN_MOE,
)
