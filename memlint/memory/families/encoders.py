"""Encoders (BERT and relatives) and encoder-decoders (T5, BART and relatives)."""

from __future__ import annotations

from memlint.memory.families.traits import NEVER, AttentionTraits, Family

# models/bert/modeling_bert.py, eager_attention_forward: softmax without a dtype
BERT = Family(
    model_types=("bert", "roberta", "xlm-roberta", "camembert", "electra", "distilbert"),
    classes=("BertLayer", "RobertaLayer", "XLMRobertaLayer", "CamembertLayer", "ElectraLayer", "TransformerBlock"),
    attention=AttentionTraits(softmax_keeps_dtype=True),
)
# models/deberta_v2/modeling_deberta_v2.py, DisentangledSelfAttention: scores and those of positions, op by op
DEBERTA = Family(
    model_types=("deberta-v2",),
    classes=("DebertaV2Layer",),
    attention=AttentionTraits(sdpa=NEVER, eager_only=True, softmax_keeps_dtype=True),
)
BART = Family(
    model_types=("bart", "mbart", "pegasus", "marian", "m2m_100", "plbart", "blenderbot", "blenderbot-small"),
    classes=(
        *("BartEncoder", "BartDecoder", "MBartEncoder", "MBartDecoder", "Pegasus", "Marian", "M2M100", "PLBart"),
        "Blenderbot",
    ),
    attention=AttentionTraits(softmax_keeps_dtype=True),
)
# models/t5/modeling_t5.py, T5Attention.compute_bias and forward
T5 = Family(model_types=("t5", "mt5", "umt5"), attention=AttentionTraits(position_bias=True))
ROWS = (T5, BERT, DEBERTA, BART)
