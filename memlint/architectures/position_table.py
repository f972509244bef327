"""The longest sequence of a model that looks its positions up in a table of learned embeddings."""

from __future__ import annotations

from memlint.architectures.model import Architecture

# OPT, RoBERTa and relatives begin to count at the padding token's number and one (transformers 5.23
# models/roberta/modeling_roberta.py, create_position_ids_from_input_ids): two rows of the table are never a position.
_FAIRSEQ_OFFSET = 2
_ROUND = 64  # tables without these two rows have a multiple of it


def longest_sequence(architecture: Architecture | None) -> int:
    """Tokens of the longest sequence that the table of positions allows: a longer one is an index error. 0 for a model
    without such a table. Of an encoder-decoder: its decoder's."""
    if architecture is None:
        return 0
    side = "decoder" if architecture.encoder_decoder else ""
    tables = (one for one in architecture.non_layer_weights if one.kind == "position" and "type" not in one.name)
    tables = (one for one in tables if side in one.name)
    rows = max((one.shape[0] for one in tables if len(one.shape) == 2), default=0)
    return rows - _FAIRSEQ_OFFSET if rows % _ROUND == _FAIRSEQ_OFFSET else rows
