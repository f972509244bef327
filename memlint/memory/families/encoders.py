"""Encoders (BERT and relatives) and encoder-decoders (T5, BART and relatives)."""

from __future__ import annotations

from memlint.memory.families.traits import (
    ALWAYS,
    NEVER,
    AttentionTraits,
    Family,
    LossTraits,
    NormTraits,
    RotaryTraits,
    VisionTraits,
    since,
)

# models/bert/modeling_bert.py, BertForMaskedLM.forward: `CrossEntropyLoss()(prediction_scores, labels)`
_OWN_LOSS = LossTraits(in_own_dtype=ALWAYS, shifts=False)
# models/bert/modeling_bert.py, eager_attention_forward: softmax without a dtype, and dropout of what it gives
_FP32_WEIGHTS = AttentionTraits(softmax_keeps_dtype=True, keeps_weights_dtype=True)
# Releases of sdpa: `_supports_sdpa` in models/*/modeling_*.py, 4.35.2 to 5.8.0.
BERT = Family(
    model_types=("bert",),
    classes=("BertLayer",),
    attention=_FP32_WEIGHTS._replace(sdpa=since(4, 41)),
    norm=NormTraits(after_sums=True),
    loss=_OWN_LOSS,
)
ROBERTA = BERT._replace(
    model_types=("roberta", "xlm-roberta", "camembert"),
    classes=("RobertaLayer", "XLMRobertaLayer", "CamembertLayer"),
    attention=_FP32_WEIGHTS._replace(sdpa=since(4, 45)),
)
ELECTRA = BERT._replace(
    model_types=("electra", "data2vec-text", "ernie"),
    classes=("ElectraLayer", "Data2VecTextLayer", "ErnieLayer"),
    attention=_FP32_WEIGHTS._replace(sdpa=since(5, 0)),
)
# models/layoutlm/modeling_layoutlm.py, eager_attention_forward: softmax in fp32, cast back; LayoutLMModel.forward:
# `attention_mask.unsqueeze(1).unsqueeze(2)`
LAYOUTLM = Family(
    model_types=("layoutlm",),
    classes=("LayoutLMLayer",),
    attention=AttentionTraits(mask_of_keys=True),
    norm=BERT.norm,
    loss=_OWN_LOSS,
)
DISTILBERT = Family(
    model_types=("distilbert",),
    classes=("TransformerBlock",),
    attention=_FP32_WEIGHTS._replace(sdpa=since(4, 46), drops_no_output=True),
    norm=BERT.norm,
    loss=_OWN_LOSS,
)
# models/nomic_bert/modeling_nomic_bert.py, NomicBertLayer.forward: `attention_output`
NOMIC = BERT._replace(
    model_types=("nomic_bert", "jina_embeddings_v3"),
    classes=("NomicBertLayer", "JinaEmbeddingsV3Layer"),
    attention=_FP32_WEIGHTS,
    norm=NormTraits(after_sums=True, holds_attention=True),
)
# models/gte/modeling_gte.py, GteMLP.forward
GTE = NOMIC._replace(model_types=("gte",), classes=("GteLayer",), drops_inside_mlp=True)
EUROBERT = Family(model_types=("eurobert",), classes=("EuroBert",), loss=LossTraits(shifts=False))
# models/roberta_prelayernorm/modeling_roberta_prelayernorm.py, RobertaPreLayerNormIntermediate.forward: the norm's
# output has the name that the projection's takes
ROBERTA_PRE_NORM = Family(
    model_types=("roberta-prelayernorm",),
    classes=("RobertaPreLayerNormLayer",),
    attention=_FP32_WEIGHTS._replace(sdpa=since(5, 0)),
    loss=_OWN_LOSS,
    computes_mlp_itself=True,
)
# models/xlm_roberta_xl/modeling_xlm_roberta_xl.py, XLMRobertaXLLayer.feed_forward_chunk: likewise
XLM_ROBERTA_XL = ROBERTA_PRE_NORM._replace(
    model_types=("xlm-roberta-xl",),
    classes=("XLMRobertaXLLayer",),
    attention=_FP32_WEIGHTS._replace(sdpa=since(4, 45)),
    drops_attention_alone=True,
)
# models/esm/modeling_esm.py, apply_rotary_pos_emb
ESM = Family(
    model_types=("esm",),
    classes=("EsmLayer",),
    attention=_FP32_WEIGHTS._replace(sdpa=since(4, 56)),
    loss=_OWN_LOSS,
    rotary=RotaryTraits(factors_in_fp32=True, casts_back=True),
)
# models/megatron_bert/modeling_megatron_bert.py, MegatronBertSelfAttention: scores op by op
MEGATRON = Family(
    model_types=("megatron-bert",),
    classes=("MegatronBertLayer",),
    loss=_OWN_LOSS,
    attention=_FP32_WEIGHTS._replace(
        sdpa=NEVER, eager_only=True, holds_scores=True, returns_weights=True, holds_weights_before=True
    ),
)
# models/roformer/modeling_roformer.py, RoFormerSelfAttention: scores op by op, each layer with its own tables
ROFORMER = Family(
    model_types=("roformer",),
    classes=("RoFormerLayer",),
    attention=MEGATRON.attention,
    rotary=RotaryTraits(casts_back=True),
    norm=BERT.norm,
    loss=_OWN_LOSS,
)
# models/modernbert/modeling_modernbert.py, apply_rotary_pos_emb: `q.float() * cos`
MODERNBERT = Family(
    model_types=("modernbert",),
    classes=("ModernBertEncoderLayer",),
    rotary=RotaryTraits(factors_in_fp32=True, separate_for_windows=True),
    norm=NormTraits(holds_attention=True),
    loss=LossTraits(shifts=False),
)
# models/modernbert_decoder/modeling_modernbert_decoder.py:467, `position_ids.unsqueeze(0).expand(batch_size, -1)`, and
# ModernBertDecoderLayer.forward: `attn_outputs`
MODERNBERT_DECODER = Family(
    model_types=("modernbert-decoder",),
    classes=("ModernBertDecoderLayer",),
    rotary=RotaryTraits(factors_in_fp32=True, casts_back=True, separate_for_windows=True, tables_by_sequence=True),
    norm=NormTraits(holds_attention=True),
)
# models/deberta_v2/modeling_deberta_v2.py, DisentangledSelfAttention: scores and those of positions, op by op
DEBERTA = Family(
    model_types=("deberta-v2",),
    classes=("DebertaV2Layer",),
    attention=AttentionTraits(sdpa=NEVER, eager_only=True, softmax_keeps_dtype=True),
    norm=NormTraits(after_sums=True),
    loss=_OWN_LOSS,
)
# models/mpnet/modeling_mpnet.py, MPNetSelfAttention: scores and their bias, op by op
MPNET = Family(
    model_types=("mpnet",),
    classes=("MPNetLayer",),
    attention=AttentionTraits(
        sdpa=NEVER,
        eager_only=True,
        softmax_keeps_dtype=True,
        keeps_weights_dtype=True,
        holds_scores=True,
        bias_of_encoder=True,
    ),
    norm=NormTraits(after_sums=True),
    loss=_OWN_LOSS,
)
# models/bart/modeling_bart.py, BartForConditionalGeneration.forward: `lm_logits + final_logits_bias`
_WITH_BIAS = LossTraits(in_own_dtype=ALWAYS, adds_bias=True, shifts=False)
_BART_ATTENTION = _FP32_WEIGHTS._replace(mask_before_norm=True)
BART = Family(
    model_types=("bart",),
    classes=("BartEncoder", "BartDecoder"),
    attention=_BART_ATTENTION._replace(sdpa=since(4, 36)),
    norm=NormTraits(after_sums=True),
    loss=_WITH_BIAS,
)
MARIAN = BART._replace(
    model_types=("marian", "plbart", "blenderbot-small"),
    classes=("Marian", "PLBart", "BlenderbotSmall"),
    attention=_BART_ATTENTION._replace(sdpa=since(4, 53)),
)
MBART = Family(
    model_types=("mbart",),
    classes=("MBartEncoder", "MBartDecoder"),
    attention=_BART_ATTENTION._replace(sdpa=since(4, 45)),
    computes_mlp_itself=True,
    loss=_WITH_BIAS,
)
PEGASUS = MBART._replace(
    model_types=("pegasus", "blenderbot"),
    classes=("Pegasus", "BlenderbotEncoder", "BlenderbotDecoder"),
    attention=_BART_ATTENTION._replace(sdpa=since(4, 53)),
)
# models/florence2/modeling_florence2.py, Florence2ForConditionalGeneration.forward: the head's logits without a bias
FLORENCE2 = Family(
    model_types=("florence2",),
    attention=_BART_ATTENTION,
    norm=BART.norm,
    loss=LossTraits(shifts=False),
    vision=VisionTraits(passes_use_cache=True),
)
WHISPER = Family(
    model_types=("whisper",),
    classes=("Whisper",),
    attention=_FP32_WEIGHTS._replace(sdpa=since(4, 36)),
    computes_mlp_itself=True,
    loss=_OWN_LOSS,
)
M2M100 = WHISPER._replace(
    model_types=("m2m_100",), classes=("M2M100",), attention=_FP32_WEIGHTS._replace(sdpa=since(4, 45))
)
# models/t5/modeling_t5.py, T5Attention.compute_bias and forward, T5DenseActDense, T5Stack and
# T5ForConditionalGeneration.forward; eager attention with softmax in fp32 up to 5.14
T5 = Family(
    model_types=("t5", "mt5"),
    classes=("T5Block", "MT5Block"),
    attention=AttentionTraits(
        sdpa=since(5, 15), softmax_kept_dtype=since(5, 15), keeps_weights_dtype=True, position_bias=True
    ),
    norm=NormTraits(multiplies_input=True),
    drops_inside_mlp=True,
    casts_inside_mlp=True,
    drops_last_norm=True,
    loss=_OWN_LOSS._replace(scales_input=True),
)
UMT5 = T5._replace(
    model_types=("umt5",), classes=("UMT5Block",), attention=T5.attention._replace(own_position_bias=True)
)
ROWS = (
    FLORENCE2,
    ROBERTA_PRE_NORM,
    XLM_ROBERTA_XL,
    ESM,
    MEGATRON,
    T5,
    UMT5,
    BERT,
    ROBERTA,
    ELECTRA,
    LAYOUTLM,
    ROFORMER,
    NOMIC,
    GTE,
    EUROBERT,
    DISTILBERT,
    MODERNBERT,
    MODERNBERT_DECODER,
    DEBERTA,
    MPNET,
    BART,
    MARIAN,
    MBART,
    PEGASUS,
    WHISPER,
    M2M100,
)
