"""GPT-2 and other decoders before Llama, and gpt-oss.

Releases of sdpa: `_supports_sdpa` in models/*/modeling_*.py, 4.33.3 to 4.53.3. Their own losses took the logits in the
model's dtype until 4.48 or 4.49 (models/opt/modeling_opt.py:1031, v4.45.2).
"""

from __future__ import annotations

from memlint.memory.families.traits import (
    ALWAYS,
    NEVER,
    AttentionTraits,
    ExpertTraits,
    Family,
    LigerTraits,
    LossTraits,
    NormTraits,
    RouterTraits,
    UnslothTraits,
    before,
    since,
)

_OWN_LOSS = LossTraits(in_own_dtype=before(4, 48))

# models/gpt2/modeling_gpt2.py, GPT2Block.forward: `attn_output` and `feed_forward_hidden_states`
_HOLDS = NormTraits(holds_attention=True, holds_second_norm=True)
GPT2 = Family(
    model_types=("gpt2",),
    classes=("GPT2",),
    norm=_HOLDS,
    attention=AttentionTraits(sdpa=since(4, 42), softmax_keeps_dtype=True),
    loss=_OWN_LOSS,
)
# models/gpt_bigcode/modeling_gpt_bigcode.py:382, `self.bias = nn.Buffer(torch.tril(...))`
GPT_BIGCODE = Family(
    model_types=("gpt_bigcode",),
    classes=("GPTBigCode",),
    norm=_HOLDS,
    attention=AttentionTraits(sdpa=since(4, 36)),
    loss=_OWN_LOSS,
    causal_buffer="model",
)
GPT_NEO = Family(
    model_types=("gpt_neo",),
    classes=("GPTNeoBlock",),
    norm=_HOLDS,
    attention=AttentionTraits(sdpa=NEVER),
    causal_buffer="layers",
)
# models/gpt_neox/modeling_gpt_neox.py:289, v4.38.2
GPT_NEOX = Family(
    model_types=("gpt_neox",),
    attention=AttentionTraits(sdpa=since(4, 42), softmax_kept_dtype=before(4, 42)),
    loss=LossTraits(in_own_dtype=before(4, 49)),
)
GPT_NEOX_JAPANESE = Family(
    model_types=("gpt_neox_japanese",),
    classes=("GPTNeoXJapanese",),
    attention=AttentionTraits(
        sdpa=NEVER, softmax_keeps_dtype=True, keeps_weights_dtype=True, adds_to_zeros=True, holds_scores=True
    ),
    loss=_OWN_LOSS,
)
GPTJ = Family(
    model_types=("gptj", "codegen"),
    classes=("GPTJ", "CodeGen"),
    attention=AttentionTraits(sdpa=since(5, 24), returned_weights=before(5, 24)),
)
OPENAI_GPT = Family(
    model_types=("openai-gpt",),
    classes=("Block",),
    attention=AttentionTraits(sdpa=NEVER, softmax_keeps_dtype=True, keeps_weights_dtype=True, drops_weights=True),
    norm=NormTraits(after_sums=True),
    causal_buffer="layers",
    causal_buffer_in_dtype=True,
)
BIOGPT = Family(
    model_types=("biogpt",),
    classes=("BioGpt",),
    attention=AttentionTraits(sdpa=since(4, 45), softmax_keeps_dtype=True),
)
BLOOM = Family(
    model_types=("bloom",),
    classes=("Bloom",),
    attention=AttentionTraits(sdpa=NEVER, eager_only=True, returns_weights=True, mask_before_norm=True),
    loss=_OWN_LOSS,
)
FALCON = Family(
    model_types=("falcon",),
    classes=("FalconDecoder",),
    attention=AttentionTraits(softmax_keeps_dtype=True),
    loss=_OWN_LOSS,
)
MPT = Family(
    model_types=("mpt",),
    classes=("Mpt",),
    attention=AttentionTraits(sdpa=NEVER, returns_weights=True, mask_of_flags=True),
    loss=_OWN_LOSS,
)
# models/opt/modeling_opt.py:239-242, v4.38.2
OPT = Family(
    model_types=("opt",),
    computes_mlp_itself=True,
    attention=AttentionTraits(sdpa=since(4, 46), softmax_kept_dtype=before(4, 46), softmax_upcasts_fp16=True),
    loss=_OWN_LOSS,
)
XGLM = Family(
    model_types=("xglm",),
    classes=("XGLM",),
    attention=AttentionTraits(
        sdpa=NEVER, softmax_keeps_dtype=True, keeps_weights_dtype=True, clamps_scores=True, mask_before_norm=True
    ),
)
# Sinks and the clamped SwiGLU: models/gpt_oss/modeling_gpt_oss.py; experts run one by one there in v4.55.4 (line 103).
_ROUTER = RouterTraits(scores="product", result="scores", chosen_first=True)
GPT_OSS = Family(
    model_types=("gpt_oss",),
    classes=("GptOss",),
    norm=NormTraits(scales_in_fp32=True),
    attention=AttentionTraits(sdpa=NEVER, concatenates_sinks=True),
    experts=ExpertTraits(_ROUTER, clamps_gate=True, inputs_first=True, stacked=ALWAYS, copied=before(5)),
    liger=LigerTraits(supported=True),
    # Training runs FlexAttention (unsloth_zoo 2026.10.9 temporary_patches/gpt_oss.py:3117, patch_GptOssAttention).
    unsloth=UnslothTraits(attention=("flash_attention_2", "flash_attention_2"), packs_experts=True),
)

ROWS = (
    GPT2,
    GPT_BIGCODE,
    GPT_NEO,
    GPT_NEOX,
    GPT_NEOX_JAPANESE,
    GPTJ,
    OPENAI_GPT,
    BIOGPT,
    BLOOM,
    FALCON,
    MPT,
    OPT,
    XGLM,
    GPT_OSS,
)
