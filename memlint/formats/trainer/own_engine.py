"""The engine that a training loop sets up by itself, without accelerate: FSDP's own classes, or copies on each GPU."""

from __future__ import annotations

from typing import Any

from memlint.formats.engine_files import fsdp
from memlint.formats.fields import Behaviour, Fields, Section
from memlint.run import Origin
from memlint.source.document import Start

# torch 2.13 distributed/fsdp: FullyShardedDataParallel and fully_shard, as far as `fsdp_config` has a word for it.
_DEFAULTS: dict[str, Any] = {**fsdp.LAUNCH_DEFAULTS, "use_orig_params": False, "auto_wrap_policy": "NO_WRAP"}
_SOURCE = "torch 2.13 distributed/fsdp"
_NO_ACCELERATE = "FSDP of torch itself: accelerate has no part in it"


PLUGIN = "plugin"  # key of a loop's `fsdp_config` for accelerate's plug-in, in place of FSDP of torch itself


# What the Trainer does and a loop does not, unless it says so itself.
OF_A_LOOP = (Behaviour("optimizer.embeddings_in_32_bits", False, "transformers 5.23 trainer.py:1328 registers them"),)


def is_loop(start: Start | None) -> bool:
    """Whether a training loop of the program's own runs, without a trainer."""
    return start is not None and start.program.framework == "torch"


def apply_own_fsdp(fields: Fields, section: Section, origin: Origin) -> None:
    """Put FSDP of a loop. `section`: its `fsdp_config`, with the dtypes of its mixed precision."""
    fsdp.apply_fsdp(fields, fsdp.FsdpOptions(section, _DEFAULTS, _SOURCE), origin)
    fields.infer("parallelism.fsdp.upcasts_trainable", False, _NO_ACCELERATE)
    fields.infer("parallelism.fsdp.root_holds_ends", True, "embedding, last norm and head are left to the root")
    reduced = not section.value.get("no_sync")
    fields.infer("parallelism.fsdp.reduces_each_backward", reduced, "whether the loop has `no_sync`")
    fields.infer("saving.gathers_full_weights", False, "the loop saves as it likes")
    compute = section.value.get("param_dtype")
    if compute is None:
        stored = fields.get("model.weights_dtype")
        fields.infer("parallelism.fsdp.param_dtype", stored, "parameters are gathered as they are stored")
        compute = stored
    else:
        fields.put("parallelism.fsdp.param_dtype", compute, origin)
        if fields.get("precision.autocast") is False:
            fields.put("precision.compute", compute, origin)
    fields.put("parallelism.fsdp.reduce_dtype", section.value.get("reduce_dtype") or compute, origin)
