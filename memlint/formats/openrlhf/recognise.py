"""Whether a document is OpenRLHF's: by flags that no other trainer has."""

from __future__ import annotations

from memlint.formats.base import Recognition
from memlint.source.document import Document

NAME = "openrlhf"
SCHEMA = "openrlhf.json"
# Flags of OpenRLHF alone: a file of them is made for it (`memlint` reads them from commands as well).
_TELLTALE_KEYS = frozenset(
    {
        *("micro_train_batch_size", "micro_rollout_batch_size", "actor_num_gpus_per_node", "colocate_all_models"),
        *("vllm_num_engines", "vllm_enable_sleep", "deepspeed_enable_sleep", "colocate_actor_ref", "zpg"),
        *("ds.zero_stage", "train.colocate_all", "actor.num_gpus_per_node", "vllm.num_engines", "ds.packing_samples"),
        *("rollout.micro_batch_size", "train.micro_batch_size", "data.prompt_dataset", "ds.param_dtype"),
    }
)


def recognise(document: Document) -> Recognition:
    """Two of its own flags, beside each other."""
    value = document.value
    if isinstance(value, dict) and len(_TELLTALE_KEYS & value.keys()) >= 2:
        return Recognition("certain", reason="flags of OpenRLHF")
    return Recognition("no")
