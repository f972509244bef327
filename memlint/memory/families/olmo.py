"""OLMo 1 to 3 and their mixtures of experts."""

from __future__ import annotations

from memlint.memory.families.traits import ExpertTraits, Family, LigerTraits, NormTraits, RotaryTraits, since

_STACKED_TARGETS = ("gate_proj", "up_proj", "down_proj", "gate")

OLMO = Family(model_types=("olmo",), classes=("Olmo",), rotary=RotaryTraits(fp32_tables=True, casts_back=True))
OLMO2 = OLMO._replace(
    model_types=("olmo2", "olmo3"),
    classes=("Olmo2", "Olmo3"),
    norm=NormTraits(scales_in_fp32=True, after_blocks=True),
    liger=LigerTraits(supported=True, layers="out_of_place"),
)
OLMOE = OLMO._replace(
    model_types=("olmoe",),
    classes=("Olmoe",),
    rotary=RotaryTraits(),
    experts=ExpertTraits(linears_in_4=True, peft_stacked_targets=_STACKED_TARGETS),
)
FLEX_OLMO = Family(
    model_types=("flex_olmo",),
    classes=("FlexOlmo",),
    rotary=RotaryTraits(fp32_tables=True, casts_back=True),
    norm=NormTraits(scales_in_fp32=True, after_blocks=True),
    experts=ExpertTraits(peft_stacked_targets=_STACKED_TARGETS),
)
# The two kinds of layers of OLMo Hybrid: the first norms after its blocks, the second before them.
OLMO_HYBRID = OLMO2._replace(
    model_types=("olmo_hybrid",), classes=("OlmoHybridAttention",), code=since(5), liger=LigerTraits()
)
OLMO_HYBRID_LINEAR = Family(classes=("OlmoHybridLinear",), code=since(5), norm=NormTraits(scales_in_fp32=True))

ROWS = (OLMO, OLMO2, OLMOE, FLEX_OLMO, OLMO_HYBRID, OLMO_HYBRID_LINEAR)
