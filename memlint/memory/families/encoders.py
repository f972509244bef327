"""Encoders (BERT and relatives) and encoder-decoders (T5, BART and relatives)."""

from __future__ import annotations

from memlint.memory.families.traits import ALWAYS, NEVER, AttentionTraits, Family, LossTraits, NormTraits, RotaryTraits

# models/bert/modeling_bert.py, BertForMaskedLM.forward: `CrossEntropyLoss()(prediction_scores, labels)`
_OWN_LOSS = LossTraits(in_own_dtype=ALWAYS, shifts=False)
# models/bert/modeling_bert.py, eager_attention_forward: softmax without a dtype
BERT = Family(
    model_types=("bert", "roberta", "xlm-roberta", "camembert", "electra"),
    classes=("BertLayer", "RobertaLayer", "XLMRobertaLayer", "CamembertLayer", "ElectraLayer"),
    attention=AttentionTraits(softmax_keeps_dtype=True),
    norm=NormTraits(after_sums=True),
    loss=_OWN_LOSS,
)
DISTILBERT = Family(
    model_types=("distilbert",),
    classes=("TransformerBlock",),
    attention=BERT.attention._replace(drops_no_output=True),
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
# models/deberta_v2/modeling_deberta_v2.py, DisentangledSelfAttention: scores and those of positions, op by op
DEBERTA = Family(
    model_types=("deberta-v2",),
    classes=("DebertaV2Layer",),
    attention=AttentionTraits(sdpa=NEVER, eager_only=True, softmax_keeps_dtype=True),
    norm=NormTraits(after_sums=True),
    loss=_OWN_LOSS,
)
BART = Family(
    model_types=("bart", "mbart", "pegasus", "marian", "m2m_100", "plbart", "blenderbot", "blenderbot-small"),
    classes=(
        *("BartEncoder", "BartDecoder", "MBartEncoder", "MBartDecoder", "Pegasus", "Marian", "M2M100", "PLBart"),
        "Blenderbot",
    ),
    attention=AttentionTraits(softmax_keeps_dtype=True),
    loss=_OWN_LOSS,
)
# models/t5/modeling_t5.py, T5Attention.compute_bias and forward
T5 = Family(model_types=("t5", "mt5", "umt5"), attention=AttentionTraits(position_bias=True), loss=_OWN_LOSS)
ROWS = (T5, BERT, DISTILBERT, MODERNBERT, DEBERTA, BART)
