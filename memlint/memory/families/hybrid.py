"""Models with state-space layers and attention, in one layer or in turn."""

from __future__ import annotations

import memlint.memory.families.routers as routers
from memlint.memory.families.traits import (
    ALWAYS,
    AttentionTraits,
    ExpertTraits,
    Family,
    LigerTraits,
    NormTraits,
    RotaryTraits,
    since,
)

BAMBA = Family(model_types=("bamba",), classes=("Bamba",), attention=AttentionTraits(returns_weights=True))
FALCON_H1 = Family(
    model_types=("falcon_h1",),
    classes=("FalconH1",),
    scales_after_embedding=True,
    multiplies_projections=True,
    liger=LigerTraits(supported=True),
)
GRANITE_HYBRID = Family(
    model_types=("granitemoehybrid",),
    classes=("GraniteMoeHybrid",),
    scales_after_embedding=True,
    scales_branches=True,
    experts=ExpertTraits(routers.CHOSEN_FIRST, stacked=ALWAYS),
)
NEMOTRON_H = Family(
    model_types=("nemotron_h",),
    code=since(5),
    classes=("NemotronH",),
    norm=NormTraits(scales_in_fp32=True),
    experts=ExpertTraits(routers.SIGMOID_IN_FP32),
)
# models/mamba2/modeling_mamba2.py, Mamba2Block.forward; `residual_in_fp32` is True by default
MAMBA2 = Family(model_types=("mamba2",), classes=("Mamba2",), fp32_residual=True)
LFM3 = Family(
    model_types=("lfm3",),
    code=since(5),
    classes=("Lfm3",),
    rotary=RotaryTraits(fp32_tables=True, casts_back=True, separate_for_windows=True),
)

ROWS = (BAMBA, FALCON_H1, GRANITE_HYBRID, NEMOTRON_H, MAMBA2, LFM3)
