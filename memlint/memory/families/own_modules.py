"""Models that a training library builds from modules of its own, whatever family their weights are of."""

from __future__ import annotations

from memlint.memory.families.traits import AttentionTraits, Family, NormTraits, RotaryTraits

# torchtune 0.3 to 0.6.1 and main (bd2a0fc): modules/transformer.py, modules/attention.py
# (`k.unsqueeze(2).expand(...).flatten(1, 2)`), modules/position_embeddings.py (`x.float()`, and `cache` of all
# positions), modules/rms_norm.py, written out as transformers has it.
NATIVE = Family(
    classes=("TransformerSelfAttentionLayer",),
    attention=AttentionTraits(expands_kv_heads=True),
    rotary=RotaryTraits(in_fp32=True, one_by_one=True, whole_tables="model"),
)
# Builders that copy one layer (modules/transformer.py, _get_clones) copy the table of positions with it.
NATIVE_COPY = NATIVE._replace(
    classes=("TransformerSelfAttentionLayerCopy",), rotary=NATIVE.rotary._replace(whole_tables="layers")
)
# 0.5 and 0.6: `F.rms_norm(x.float(), weight=...)`, which multiplies by a weight of another dtype in fp32 (torch 2.13
# aten/src/ATen/native/layer_norm.cpp, rms_norm_symint).
IN_FP32 = NATIVE._replace(classes=("TransformerSelfAttentionLayerInFp32",), norm=NormTraits(scales_in_fp32=True))
IN_FP32_COPY = IN_FP32._replace(classes=("TransformerSelfAttentionLayerInFp32Copy",), rotary=NATIVE_COPY.rotary)

ROWS = (NATIVE, NATIVE_COPY, IN_FP32, IN_FP32_COPY)
