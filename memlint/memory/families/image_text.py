"""Image-text models whose language models are of other families, and their towers."""

from __future__ import annotations

from memlint.memory.families.traits import (
    AttentionTraits,
    Family,
    LigerTraits,
    LossTraits,
    PatchPath,
    Releases,
    TowerTraits,
    VisionTraits,
    before,
    since,
)

# The loss takes the tokens that the attention mask has (models/llava/modeling_llava.py:455, v4.51.3) of logits that, up
# to 4.45, the language model had turned into fp32.
_MASKED = LossTraits(in_own_dtype=Releases((4, 46), (4, 52)))
# Tiles side by side, ends of lines, the whole image first, all images.
_ANY_RESOLUTION = PatchPath(shuffles=1, feature_copies=4)
# Tiles go through the tower beside the whole image: a long narrow image takes a row of them, and padding that goes
# through is cut off before the language model (models/llava_next/modeling_llava_next.py:122, unpad_image; the grids are
# those of architectures/image_tokens.py).
_SDPA = AttentionTraits(sdpa=since(4, 46))

LLAVA = Family(
    model_types=("llava",),
    attention=_SDPA,
    loss=_MASKED,
    liger=LigerTraits(supported=True),
    vision=VisionTraits(PatchPath(shuffles=1), patches_are_tokens=True, holds_all_layers=True),
)
LLAVA_NEXT = Family(
    model_types=("llava_next", "llava_next_video"),
    attention=_SDPA,
    loss=_MASKED,
    vision=VisionTraits(
        _ANY_RESOLUTION, patches_are_tokens=True, holds_all_layers=True, patches_per_token=4, passes_use_cache=True
    ),
)
LLAVA_ONEVISION = Family(
    model_types=("llava_onevision",),
    loss=_MASKED,
    vision=VisionTraits(
        _ANY_RESOLUTION, patches_are_tokens=True, holds_all_layers=True, patches_per_token=7, passes_use_cache=True
    ),
)
VIPLLAVA = Family(model_types=("vipllava",), attention=_SDPA, loss=_MASKED)
INTERNVL = Family(
    model_types=("internvl",),
    liger=LigerTraits(supported=True),
    vision=VisionTraits(PatchPath("layer", norm_first=False, shuffles=2, feature_copies=0), holds_all_layers=True),
)
IDEFICS3 = Family(
    model_types=("idefics3",),
    loss=LossTraits(copies_logits=before(4, 52)),
    vision=VisionTraits(PatchPath(shuffles=2), passes_use_cache=True),
)
# Of these no more is known.
OTHERS = Family(
    model_types=("idefics2", "lighton_ocr", "phi4_multimodal", "video_llava"),
    vision=VisionTraits(passes_use_cache=True),
)
SMOLVLM = IDEFICS3._replace(model_types=("smolvlm",), liger=LigerTraits(supported=True))

# CLIP norms its class token alone.
CLIP_TOWER = Family(classes=("CLIP",), tower=TowerTraits(norms_last=False))
# models/idefics3/modeling_idefics3.py:578-603
IDEFICS3_TOWER = Family(classes=("Idefics3",), tower=TowerTraits(drops_empty_images=True))
INTERNVL_TOWER = Family(classes=("InternVLVision",), attention=AttentionTraits(softmax_keeps_dtype=True))

ROWS = (
    LLAVA,
    LLAVA_NEXT,
    LLAVA_ONEVISION,
    VIPLLAVA,
    INTERNVL,
    IDEFICS3,
    SMOLVLM,
    OTHERS,
    CLIP_TOWER,
    IDEFICS3_TOWER,
    INTERNVL_TOWER,
)
