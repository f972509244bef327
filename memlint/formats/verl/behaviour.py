"""What verl's code does whatever the file says: fields of the run with the lines that say so."""

from __future__ import annotations

from memlint.formats.fields import Behaviour

_ENGINE = "verl 0.9.1 workers/engine/fsdp/transformer_impl.py"
FSDP = (
    Behaviour("precision.compute", "bfloat16", f"{_ENGINE}:397, param_dtype"),
    Behaviour("precision.autocast", True, f"{_ENGINE}:1560, torch.autocast"),
    Behaviour("precision.outputs_to_fp32", False, f"{_ENGINE}: accelerate has no part in it"),
    Behaviour("precision.master_weights", False, f"{_ENGINE}: the sharded parameters are the optimizer's"),
    Behaviour("parallelism.fsdp.param_dtype", "bfloat16", f"{_ENGINE}:397"),
    Behaviour("parallelism.fsdp.reduce_dtype", "float32", f"{_ENGINE}:398"),
    Behaviour("parallelism.fsdp.upcasts_trainable", False, f"{_ENGINE}:240, parameters are loaded in model_dtype"),
    Behaviour(
        "parallelism.fsdp.reduces_each_backward", True, "engine/fsdp.yaml: use_no_sync_for_gradient_accumulation"
    ),
    Behaviour("parallelism.fsdp.state_dict_type", "SHARDED_STATE_DICT", f"{_ENGINE}:494"),
    Behaviour("checkpointing.reentrant", False, f"{_ENGINE}:315, use_reentrant=False"),
    Behaviour("loss.upcast_logits", False, "verl 0.9.1 utils/torch_functional.py, logprobs_from_logits"),
    Behaviour(
        "loss.holds_chunks",
        True,
        "verl 0.9.1 utils/experimental/torch_functional.py, FusedLinearForPPOFunction",
    ),
    Behaviour("loss.prompt_logits", True, f"{_ENGINE}:1369, logits of all tokens"),
    Behaviour("evaluation.enabled", False, "validation generates, and trains nothing"),
    Behaviour(
        "planning.sequence_sharing", "parallelism.sequence_parallel_size", "verl 0.9.1 trainer/config/engine/fsdp.yaml"
    ),
    Behaviour("planning.shares_images", True, "verl 0.9.1 models/transformers/monkey_patch.py, Ulysses for VLMs"),
    Behaviour("planning.offloads_under_fsdp2", True, "verl 0.9.1 trainer/config/engine/fsdp.yaml, offload_policy"),
    Behaviour("batch.auto_find", False, "verl has no such search"),
    Behaviour("parallelism.fsdp.backward_prefetch", "BACKWARD_PRE", "torch FullyShardedDataParallel's default"),
)
# The engine that writes completions is a server of its own (workers/rollout/vllm_rollout/vllm_async_server.py).
ENGINE = (
    Behaviour("planning.checkpoint_offload", "saved_tensors", f"{_ENGINE}:477, enable_activation_offload"),
    Behaviour("planning.critic_has_own_batch", True, "verl 0.9.1 trainer/config/critic/critic.yaml"),
    Behaviour("rollout.own_process", True, "verl 0.9.1 workers/rollout/vllm_rollout/vllm_async_server.py"),
    Behaviour("rollout.offloads_until_update", True, f"{_ENGINE}:642, train_mode and eval_mode"),
    Behaviour("rollout.offloads_reference", True, f"{_ENGINE}:433 and :460, CPUOffload for a forward-only model"),
)
