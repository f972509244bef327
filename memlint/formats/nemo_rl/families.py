"""Model families that NeMo Automodel has code of its own for, apart from those with experts."""

from __future__ import annotations

# Automodel 24b47e85 nemo_automodel/_transformers/registry.py. Llama and Qwen 2 are not among them: their weights could
# not be sent to the generator, so that NeMo-RL takes transformers' code (0.7.0 nemo_rl/models/automodel/setup.py,
# _maybe_set_force_hf).
_OWN_CODE = ("NemotronH", "Baichuan", "Gemma4", "Mistral3", "Ministral3", "Mistral4")


def has_own_code(class_name: str) -> bool:
    """Whether Automodel runs models of this class of transformers in code of its own."""
    return class_name.startswith(_OWN_CODE)
