"""Model families that verl treats in a way of its own."""

from __future__ import annotations

# Whose code scales the logits after the head (transformers 5.23 modeling_cohere.py, `logit_scale`; modeling_granite.py,
# `logits_scaling`).
SCALES_LOGITS = frozenset({"cohere", "cohere2", "granite", "granitemoe", "granitemoehybrid", "granitemoeshared"})
