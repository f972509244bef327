"""What TRL's own code does to a change of the config; a plain Trainer does what `Run` has by default."""

from __future__ import annotations

from memlint.formats.fields import Behaviour

_STORAGE_KEY = (0, 26)  # `bnb_4bit_quant_storage`
_TRL = (
    Behaviour("planning.checkpoint_offload", "saved_tensors", "trl 1.16 trainer/sft_config.py:291"),
    Behaviour("planning.lora_dropout", 0.05, "trl 1.16 trainer/model_config.py, lora_dropout"),
)
_STORES = Behaviour("planning.stores_4_bits_in_half", "asked", "trl 0.26 trainer/model_config.py")


def behaviour(trl: tuple[int, ...]) -> tuple[Behaviour, ...]:
    """`trl`: its release; empty for a Trainer without it."""
    if not trl:
        return ()
    return (*_TRL, _STORES) if trl >= _STORAGE_KEY else _TRL
