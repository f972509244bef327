"""What torchtune's recipes do whatever the file says: fields of the run with the lines that say so (0.6.1)."""

from __future__ import annotations

from memlint.formats.fields import Behaviour

_SINGLE = "torchtune 0.6.1 recipes/full_finetune_single_device.py"
_SHARDS = "torchtune 0.6.1 torchtune/training/_distributed.py, shard_model"
_LOADS = "torchtune 0.6.1 torchtune/training/_distributed.py, load_from_full_model_state_dict"
_DTYPE = "torchtune 0.6.1 recipes: `set_default_dtype(self._dtype)` around the model; no autocast"
ALWAYS = (
    Behaviour("batch.auto_find", False, "torchtune has no such search"),
    Behaviour("precision.autocast", False, _DTYPE),
    Behaviour("precision.master_weights", False, _DTYPE),
    Behaviour("precision.outputs_to_fp32", False, "torchtune does not use accelerate"),
    Behaviour("loss.upcast_logits", False, "torchtune's model or loss converts them"),
    Behaviour("checkpointing.reentrant", False, "torchtune 0.6.1 torchtune/training/memory.py: checkpoint_wrapper"),
    Behaviour("evaluation.enabled", False, f"{_SINGLE}: no validation"),
    Behaviour("optimizer.embeddings_in_32_bits", False, f"{_SINGLE}: no GlobalOptimManager"),
    Behaviour("planning.checkpoint_offload", "saved_tensors", "torchtune 0.6.1 training/_activation_offloading.py"),
    Behaviour("planning.single_gpu_launch", "", "a recipe for one device"),
    Behaviour("planning.freezes_projector_apart", False, "torchtune has no such key"),
    Behaviour("planning.quantizer", "torchao", "torchtune 0.6.1 modules/peft/lora.py, to_nf4"),
    Behaviour("planning.loss_parts", 8, "torchtune 0.6.1 modules/loss/ce_chunked_output_loss.py, num_output_chunks"),
    Behaviour("planning.updates_in_backward", True, f"{_SINGLE}:143, optimizer_in_bwd"),
)
# The recipes for several GPUs: FSDP2 over each layer and what `custom_sharded_layers` names, and over the rest as one,
# without a policy for mixed precision.
SHARDED = (
    Behaviour("parallelism.engine", "fsdp", f"{_SHARDS}: fully_shard"),
    Behaviour("parallelism.fsdp.version", 2, f"{_SHARDS}: fully_shard"),
    Behaviour("parallelism.fsdp.upcasts_trainable", False, f"{_SHARDS}: no MixedPrecisionPolicy"),
    Behaviour("parallelism.fsdp.reduces_each_backward", True, "torchtune 0.6.1 recipes: no set_requires_gradient_sync"),
    Behaviour("parallelism.fsdp.one_reads", False, f"{_LOADS}: each process reads the files (mmap)"),
)
