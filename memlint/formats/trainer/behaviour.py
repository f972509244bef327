"""What TRL's own code does to a change of the config; a plain Trainer does what `Run` has by default."""

from __future__ import annotations

from memlint.formats.fields import Behaviour

_STORAGE_KEY = (0, 26)  # `bnb_4bit_quant_storage`
_TRL = (
    Behaviour("planning.checkpoint_offload", "saved_tensors", "trl 1.16 trainer/sft_config.py:291"),
    Behaviour("planning.lora_dropout", 0.05, "trl 1.16 trainer/model_config.py, lora_dropout"),
)
_STORES = Behaviour("planning.stores_4_bits_in_half", "asked", "trl 0.26 trainer/model_config.py")
_SLEEPS_SINCE = (0, 23)
_ENGINE = Behaviour(
    "planning.colocated_engine",
    "use_vllm: true, vllm_mode: colocate, vllm_tensor_parallel_size: {ranks}, vllm_gpu_memory_utilization: {share},"
    " vllm_enable_sleep_mode: true",
    "trl 0.23.0 trainer/grpo_config.py:424",
)
_PAIRS_SINCE = (0, 12)
_PAIRS = Behaviour("planning.least_micro_batch", 2, "trl 1.16.0 trainer/kto_trainer.py:844, calculate_KL")


def behaviour(trl: tuple[int, ...], stage: str = "") -> tuple[Behaviour, ...]:
    """`trl`: its release; empty for a Trainer without it."""
    if not trl:
        return ()
    return (
        *_TRL,
        *((_STORES,) if trl >= _STORAGE_KEY else ()),
        *((_ENGINE,) if trl >= _SLEEPS_SINCE else ()),
        *((_PAIRS,) if stage == "kto" and trl >= _PAIRS_SINCE else ()),
    )
