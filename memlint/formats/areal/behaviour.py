"""What AReaL's code does whatever a file says: fields of the run with the lines that say so (1.0.4 and 2.0.0)."""

from __future__ import annotations

from memlint.formats.fields import Behaviour

_ENGINE = "AReaL 1.0.4 areal/engine/fsdp_engine.py"
_STEP = f"{_ENGINE}, forward_backward_batch"
_WRAPS = "AReaL 1.0.4 areal/engine/fsdp_utils/__init__.py, apply_fsdp2"
_SHARDS = "AReaL 1.0.4 areal/engine/fsdp_utils/parallel.py, parallelize_model"
_SCORES = "AReaL 1.0.4 areal/utils/functional/vocab_parallel.py"
_PACKS = "AReaL 1.0.4 areal/utils/data.py, pack_tensor_dict"
ALWAYS = (
    Behaviour("precision.autocast", False, f"{_STEP}: no autocast around the forward"),
    Behaviour("precision.outputs_to_fp32", False, f"{_STEP}: accelerate has no part in it"),
    Behaviour("checkpointing.reentrant", False, f"{_ENGINE}, _create_device_model"),
    Behaviour("evaluation.enabled", False, "evaluation generates, or runs forwards of the same micro-batches"),
    Behaviour("batch.auto_find", False, "AReaL has no such search"),
    Behaviour("sequence.unpadded", True, f"{_PACKS}: sequences are joined"),
    Behaviour("loss.kind", "plain", f"{_SCORES}, gather_logprobs_entropy"),
)
# The loss of FSDP's engine, of reinforcement learning as of supervised training.
LOSS = (
    Behaviour("loss.selection", "compiled_chunks", f"{_SCORES}, _chunked_apply and torch.compile"),
    Behaviour("loss.scores_in_fp32", False, f"{_SCORES}: kernels read the logits as they are"),
    Behaviour("loss.upcast_logits", False, f"{_SCORES}: kernels read the logits as they are"),
    Behaviour("loss.prompt_logits", True, f"{_ENGINE}, _compute_logprobs_entropy: logits of all tokens"),
    Behaviour("loss.keeps_logits", True, f"{_STEP}: `outputs` and `logits` hold them until the backward has ended"),
)
FSDP = (
    Behaviour("parallelism.engine", "fsdp", _WRAPS),
    Behaviour("parallelism.fsdp.version", 2, f"{_WRAPS}, fully_shard"),
    Behaviour("parallelism.fsdp.root_holds_ends", True, f"{_WRAPS}: layers, an untied embedding, the model"),
    Behaviour("parallelism.fsdp.embedding_apart", True, f"{_WRAPS}: layers, an untied embedding, the model"),
    Behaviour("parallelism.fsdp.upcasts_trainable", False, f"{_ENGINE}: accelerate has no part in it"),
    Behaviour("saving.gathers_full_weights", True, f"{_ENGINE}, _save_model_to_hf"),
    Behaviour("precision.master_weights", False, f"{_ENGINE}: the sharded parameters are the optimizer's"),
    Behaviour("planning.sequence_sharing", "parallelism.sequence_parallel_size", f"{_ENGINE}, Ulysses"),
)
_MEGATRON = "AReaL 1.0.4 areal/engine/megatron_engine.py"
MEGATRON = (
    Behaviour("parallelism.engine", "megatron", _MEGATRON),
    Behaviour("optimizer.state_dtype", "float32", "Megatron-LM core/optimizer: moments of fp32 parameters"),
    Behaviour("loss.bytes_per_logit", 2, f"{_MEGATRON}: logits in half precision at least"),
)
