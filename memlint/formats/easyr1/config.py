"""EasyR1's values: overrides over the file `config=`, over the defaults of its dataclasses."""

from __future__ import annotations

from memlint.formats.base import Context
from memlint.formats.fields import root
from memlint.formats.keys import Keys
from memlint.formats.verl.composed import ABOVE, Composed, first_file, tails
from memlint.formats.verl.config import VerlConfig
from memlint.source.document import Document

SOURCE = "EasyR1 0.3.3"
MODEL = "worker.actor.model.model_path"


class EasyR1Config(VerlConfig):
    """As verl's, with EasyR1's keys."""

    __slots__ = ()
    source = SOURCE
    model_keys = (MODEL, MODEL)
    decisive = frozenset(
        {
            *(MODEL, "worker.actor.micro_batch_size_per_device_for_update", "worker.actor.global_batch_size"),
            *("worker.actor.micro_batch_size_per_device_for_experience", "worker.rollout.gpu_memory_utilization"),
            *("worker.actor.offload.offload_params", "worker.actor.offload.offload_optimizer"),
            *("worker.actor.fsdp.torch_dtype", "worker.actor.optim.strategy", "worker.actor.model.lora.rank"),
            *("data.max_prompt_length", "data.max_response_length", "trainer.n_gpus_per_node", "trainer.nnodes"),
        }
    )
    names_file = "`config=`"


def config_of(document: Document, keys: Keys, context: Context) -> EasyR1Config:
    return EasyR1Config(root(document), _files(document, context), keys, context, False)


def _files(document: Document, context: Context) -> Composed:
    """The file that a command gives as `config=`, from the folder that it runs in (verl/trainer/main.py)."""
    name = document.value.get("config") if document.start is not None else None
    if not isinstance(name, str):
        return Composed()
    named = first_file((f"{above}{tail}" for tail in tails(name) for above in ABOVE), document.path, context)
    return Composed(named) if named is not None else Composed(missing=name)
