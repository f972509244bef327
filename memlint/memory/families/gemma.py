"""Gemma 1 to 4 and models derived from them."""

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
    RotaryTraits,
    TowerTraits,
    UnslothTraits,
    VisionTraits,
    before,
    since,
)

GEMMA = Family(
    model_types=("gemma",),
    liger=LigerTraits(supported=True, layers="in_place"),
    unsloth=UnslothTraits(own_forward=True),
)
# Soft-capped scores have no sdpa form. Up to 4.45 Gemma 2 chose eager attention by itself; from 4.46 up to 5.20 it ran
# sdpa, without the cap (`_supports_sdpa` in models/gemma2/modeling_gemma2.py, 4.45.2, 4.48.3, 4.57.6, 5.0.0 to 5.23.0).
_SOFT_CAPPED = AttentionTraits(sdpa=Releases((4, 46), (5, 21)))
GEMMA2 = Family(
    model_types=("gemma2",),
    attention=_SOFT_CAPPED,
    liger=LigerTraits(supported=True, layers="out_of_place"),
    # FlashAttention where a release that caps scores is installed, else compiled code over whole scores (2025.9.11
    # models/gemma2.py, HAS_FLASH_ATTENTION_SOFTCAPPING and slow_attention_softcapping).
    unsloth=UnslothTraits(own_forward=True, attention=("flash_attention_2", "eager")),
)
VAULTGEMMA = Family(model_types=("vaultgemma",), attention=_SOFT_CAPPED)
# models/gemma3/modeling_gemma3.py:549, a rotation for layers with a window
GEMMA3_TEXT = Family(
    model_types=("gemma3_text",),
    classes=("Gemma3Decoder",),
    rotary=RotaryTraits(separate_for_windows=True),
    liger=LigerTraits(supported=True, layers="out_of_place"),
)
# The loss takes the masked tokens of fp32 logits, a copy (models/gemma3/modeling_gemma3.py:1343-1350, v4.51.3).
SHIELDGEMMA2 = Family(
    model_types=("shieldgemma2",),
    loss=LossTraits(copies_logits=before(5, 17)),
    vision=VisionTraits(PatchPath("rms_gemma", norm_first=False, pooled=True, feature_copies=0)),
)
GEMMA3 = SHIELDGEMMA2._replace(model_types=("gemma3",), liger=LigerTraits(supported=True))
PALIGEMMA = Family(
    model_types=("paligemma",),
    loss=LossTraits(copies_logits=before(4, 52)),
    liger=LigerTraits(supported=True),
    vision=VisionTraits(PatchPath(feature_copies=0)),
)
GEMMA3N_TEXT = Family(
    model_types=("gemma3n_text", "gemma3n"),
    classes=("Gemma3n",),
    attention=AttentionTraits(mask_before_norm=True),
    rotary=RotaryTraits(one_by_one=True, separate_for_windows=True),
)
# 5.24 models/gemma4/configuration_gemma4.py, Gemma4TextConfig.kv_sharing_modes
_STORES_KEYS = AttentionTraits(stores_keys=since(5, 24))
GEMMA4_TEXT = Family(
    model_types=("gemma4_text",),
    code=since(5),
    classes=("Gemma4",),
    attention=_STORES_KEYS,
    scales_output=True,
    rotary=RotaryTraits(one_by_one=True, separate_for_windows=True),
    experts=ExpertTraits(routers.KEEPS_FP32),
    liger=LigerTraits(supported=True),
)
# Every image is padded to the patches of 280 tokens, of which one whose sides differ by less than 70 times fills 186 at
# least: both are rounded down to whole tokens (models/gemma4/image_processing_gemma4.py:33).
GEMMA4 = GEMMA4_TEXT._replace(
    model_types=("gemma4",),
    classes=(),
    vision=VisionTraits(PatchPath("rms", pools_by_position=True), patches_per_token=280 / 186, passes_use_cache=True),
)
GEMMA4_UNIFIED = Family(
    model_types=("gemma4_unified",),
    code=since(5),
    attention=_STORES_KEYS,
    vision=VisionTraits(passes_use_cache=True),
)
GEMMA4_UNIFIED_TEXT = Family(model_types=("gemma4_unified_text",), code=since(5), attention=_STORES_KEYS)
# models/gemma4/image_processing_gemma4.py, pad_along_first_dim
GEMMA4_TOWER = Family(
    classes=("Gemma4Vision",),
    rotary=RotaryTraits(by_axis=True),
    tower=TowerTraits(rotary="computed", hooks_input_embedding=False, pads_images=True),
)

ROWS = (
    GEMMA,
    GEMMA2,
    VAULTGEMMA,
    GEMMA3_TEXT,
    SHIELDGEMMA2,
    GEMMA3,
    PALIGEMMA,
    GEMMA3N_TEXT,
    GEMMA4_TEXT,
    GEMMA4,
    GEMMA4_UNIFIED,
    GEMMA4_UNIFIED_TEXT,
    GEMMA4_TOWER,
)
