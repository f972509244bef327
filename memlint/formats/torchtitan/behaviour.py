"""What TorchTitan's code does whatever a file says: fields of the run with the lines that say so (0.2.2)."""

from __future__ import annotations

from memlint.formats.fields import Behaviour

_TRAIN = "TorchTitan 0.2.2 torchtitan/train.py"
_SHARDS = "TorchTitan 0.2.2 torchtitan/models/llama3/infra/parallelize.py, apply_fsdp"
ALWAYS = (
    Behaviour("method.kind", "full", f"{_TRAIN}: all parameters train"),
    Behaviour("method.stage", "pt", f"{_TRAIN}: text in blocks of `seq_len`"),
    Behaviour("precision.master_weights", False, f"{_TRAIN}: the sharded parameters are the optimizer's"),
    Behaviour("precision.outputs_to_fp32", False, f"{_TRAIN}: accelerate has no part in it"),
    Behaviour("sequence.packing", True, "TorchTitan 0.2.2 torchtitan/hf_datasets/text_datasets.py"),
    Behaviour("sequence.length_is_bound", False, "TorchTitan 0.2.2 torchtitan/hf_datasets/text_datasets.py"),
    Behaviour("checkpointing.reentrant", False, "torch checkpoint_wrapper, NO_REENTRANT"),
    Behaviour("loss.kind", "plain", "TorchTitan 0.2.2 torchtitan/components/loss.py: pred.flatten(0, 1).float()"),
    Behaviour("loss.upcast_logits", True, "TorchTitan 0.2.2 torchtitan/components/loss.py: pred.flatten(0, 1).float()"),
    Behaviour("evaluation.enabled", False, "validation computes no more than a forward of a step"),
    Behaviour("stack.own_layers", True, "TorchTitan 0.2.2 torchtitan/models/llama3/model/model.py"),
    Behaviour("batch.auto_find", False, "TorchTitan has no such search"),
)
FSDP = (
    Behaviour("parallelism.engine", "fsdp", f"{_SHARDS}: fully_shard"),
    Behaviour("parallelism.fsdp.version", 2, f"{_SHARDS}: fully_shard"),
    Behaviour("parallelism.fsdp.upcasts_trainable", False, f"{_SHARDS}: parameters keep their dtype"),
    Behaviour("parallelism.fsdp.reduces_each_backward", True, f"{_TRAIN}: no set_requires_gradient_sync"),
    Behaviour("precision.autocast", False, f"{_TRAIN}: FSDP casts, maybe_enable_amp does nothing"),
)
