"""Dense decoders after Llama, by maker."""

from __future__ import annotations

from memlint.memory.families.traits import (
    NEVER,
    AttentionTraits,
    Family,
    LigerTraits,
    LossTraits,
    NormTraits,
    RotaryTraits,
    VisionTraits,
    before,
    since,
)

# RMSNorms inside of attention and MLP
BITNET = Family(model_types=("bitnet",), classes=("BitNet",), norm=NormTraits(inside_blocks=True))
# models/cohere/modeling_cohere.py, CohereLayerNorm and apply_rotary_pos_emb
COHERE = Family(
    model_types=("cohere", "cohere2"),
    classes=("Cohere",),
    rotary=RotaryTraits(in_fp32=True),
    norm=NormTraits(centred=True),
)
# models/cohere_compass/modeling_cohere_compass.py, apply_rotary_pos_emb: Qwen3's
COHERE_COMPASS = Family(
    model_types=("cohere_compass", "cohere_compass_text"),
    classes=("CohereCompass",),
    code=since(5),
    rotary=RotaryTraits(separate_for_windows=True, tables_by_sequence=True),
    norm=NormTraits(centred=True),
    vision=VisionTraits(passes_use_cache=True),
)
ERNIE = Family(
    model_types=("ernie4_5",),
    classes=("Ernie4_5",),
    rotary=RotaryTraits(factors_in_fp32=True, fp32_tables=True, spreads_tables=True),
)
EXAONE4 = Family(
    model_types=("exaone4",),
    classes=("Exaone4",),
    norm=NormTraits(after_blocks=True),
    liger=LigerTraits(supported=True),
)
# models/granite/modeling_granite.py:386; `residual_multiplier` in GraniteDecoderLayer.forward
GRANITE = Family(
    model_types=("granite",),
    classes=("GraniteDecoder",),
    scales_after_embedding=True,
    scales_branches=True,
    liger=LigerTraits(supported=True, layers="in_place"),
)
GRANITE_SWA = Family(
    model_types=("granite_swa",),
    classes=("GraniteSWA",),
    code=since(5),
    attention=AttentionTraits(sdpa=NEVER, scales_by_sinks=True),
    scales_after_embedding=True,
    scales_branches=True,
)
GRANITE_VISION = Family(
    model_types=("granite4_vision",),
    classes=("Granite4VisionText",),
    code=since(5),
    scales_after_embedding=True,
    scales_branches=True,
    vision=VisionTraits(passes_use_cache=True),
)
GRANITE_DOCLING = GRANITE_VISION._replace(
    model_types=("granite_docling",), classes=("GraniteDocling",), vision=VisionTraits()
)
MOLMO2 = Family(model_types=("molmo2",), code=since(5), vision=VisionTraits(needs_token_types=True))
HYPERCLOVAX = Family(
    model_types=("hyperclovax", "hyperclovax_vision_v2"),
    classes=("HyperCLOVAX",),
    code=since(5),
    scales_after_embedding=True,
    scales_branches=True,
)
HUNYUAN = Family(
    model_types=("hunyuan_v1_dense",),
    classes=("HunYuan",),
    attention=AttentionTraits(norms_after_rotary=True),
    liger=LigerTraits(supported=True),
)
HUNYUAN_VL = HUNYUAN._replace(
    model_types=("hunyuan_vl",),
    classes=("HunYuanVL",),
    code=since(5),
    rotary=RotaryTraits(in_fp32=True, casts_tables=True),
    liger=LigerTraits(),
)
# models/nemotron/modeling_nemotron.py, NemotronLayerNorm1P
NEMOTRON = Family(
    model_types=("nemotron",),
    classes=("NemotronDecoder",),
    norm=NormTraits(in_autocast_dtype=True),
    liger=LigerTraits(supported=True),
)
# models/helium/modeling_helium.py, HeliumRMSNorm
HELIUM = Family(model_types=("helium",), classes=("Helium",), norm=NormTraits(scales_in_fp32=True))
PHI = Family(model_types=("phi",), attention=AttentionTraits(sdpa=since(4, 39)))
PHI3 = Family(model_types=("phi3",), attention=AttentionTraits(sdpa=since(4, 45)), liger=LigerTraits(supported=True))
PERSIMMON = Family(
    model_types=("persimmon",),
    classes=("Persimmon",),
    attention=AttentionTraits(sdpa=since(4, 53), layer_norm_of_heads=True),
    loss=LossTraits(in_own_dtype=before(4, 48)),
)
STABLELM = Family(
    model_types=("stablelm",),
    classes=("StableLm",),
    norm=NormTraits(holds_first_norm=True, holds_attention=True),
    attention=AttentionTraits(sdpa=since(4, 39)),
    loss=LossTraits(in_own_dtype=before(4, 48)),
)

# Of these it is only known that they came with transformers 5.
NEWER = Family(
    model_types=(
        *("cwm", "internlm3", "iquestcoder", "jais2", "kimi_k25"),
        *("glmasr", "lfm3_vl", "mellum", "minimax_m3_vl", "ministral3"),
        "youtu",
    ),
    code=since(5),
)

# models/minicpm3/modeling_minicpm3.py, MiniCPM3DecoderLayer: `residual_scale`
MINICPM3 = Family(model_types=("minicpm3",), classes=("MiniCPM3",), code=since(5), scales_branches=True)

NANOCHAT = Family(
    model_types=("nanochat",),
    classes=("NanoChat",),
    code=since(5),
    attention=AttentionTraits(norms_after_rotary=True, mask_before_norm=True),
)

# baichuan-inc/Baichuan-7B and -13B modeling_baichuan.py, Attention.forward: torch.matmul and softmax at first, xformers
# or F.scaled_dot_product_attention in Baichuan 2.
BAICHUAN = Family(model_types=("baichuan",), attention=AttentionTraits(eager_at_first=True))

ROWS = (
    BAICHUAN,
    NEWER,
    BITNET,
    COHERE,
    COHERE_COMPASS,
    ERNIE,
    EXAONE4,
    GRANITE,
    GRANITE_SWA,
    GRANITE_VISION,
    GRANITE_DOCLING,
    MOLMO2,
    HYPERCLOVAX,
    HUNYUAN,
    HUNYUAN_VL,
    MINICPM3,
    NANOCHAT,
    NEMOTRON,
    HELIUM,
    PHI,
    PHI3,
    PERSIMMON,
    STABLELM,
)
