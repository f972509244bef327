"""Models with state-space layers and attention, in one layer or in turn."""

from __future__ import annotations

from memlint.memory.families.traits import ALWAYS, AttentionTraits, ExpertTraits, Family, LigerTraits, NormTraits, since

BAMBA = Family(model_types=("bamba",), classes=("Bamba",), attention=AttentionTraits(returns_weights=True))
FALCON_H1 = Family(
    model_types=("falcon_h1",),
    classes=("FalconH1",),
    multiplies_projections=True,
    liger=LigerTraits(supported=True),
)
GRANITE_HYBRID = Family(model_types=("granitemoehybrid",), experts=ExpertTraits(stacked=ALWAYS))
NEMOTRON_H = Family(
    model_types=("nemotron_h",),
    code=since(5),
    classes=("NemotronH",),
    norm=NormTraits(scales_in_fp32=True),
    experts=ExpertTraits(fp32_router_product=True),
)

ROWS = (BAMBA, FALCON_H1, GRANITE_HYBRID, NEMOTRON_H)
