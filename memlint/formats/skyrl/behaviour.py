"""What SkyRL's code does whatever a command says: fields of the run with the lines that say so (0.3.0)."""

from __future__ import annotations

from memlint.formats.fields import Behaviour

_TRAIN = "SkyRL 0.3.0 skyrl/backends/skyrl_train"
_STRATEGY = f"{_TRAIN}/distributed/fsdp_strategy.py"
_WORKER = f"{_TRAIN}/workers/fsdp/fsdp_worker.py"
_STEP = f"{_TRAIN}/workers/worker.py, _forward_backward_micro"
_MODEL = f"{_TRAIN}/workers/model_wrapper.py"
ALWAYS = (
    Behaviour("precision.compute", "bfloat16", f"{_STRATEGY}, param_dtype"),
    Behaviour("precision.autocast", True, f"{_STEP}: torch.autocast"),
    Behaviour("precision.outputs_to_fp32", False, f"{_STEP}: accelerate has no part in it"),
    Behaviour("checkpointing.reentrant", False, "SkyRL 0.3.0 skyrl/train/config/config.py"),
    Behaviour("optimizer.name", "adamw_torch", f"{_STRATEGY}, optim.AdamW"),
    Behaviour("loss.kind", "fused_ce", f"{_TRAIN}/utils/torch_utils.py, logprobs_from_logits"),
    Behaviour("loss.upcast_logits", False, f"{_TRAIN}/utils/torch_utils.py, logprobs_from_logits"),
    Behaviour("loss.prompt_logits", True, f"{_MODEL}: logits of all tokens"),
    Behaviour("loss.scales_logits", False, f"{_MODEL}: logits_BSV.div_(temperature)"),
    Behaviour("loss.divides_in_place", True, f"{_MODEL}: logits_BSV.div_(temperature)"),
    Behaviour("loss.keeps_logits", True, f"{_STEP}: `output` holds them until the backward has ended"),
    Behaviour("evaluation.enabled", False, "evaluation generates, and trains nothing"),
    Behaviour("batch.auto_find", False, "SkyRL has no such search"),
    Behaviour("rollout.own_process", True, f"{_TRAIN}/inference_servers/vllm_server_actor.py"),
    Behaviour("rollout.offloads_until_update", True, f"{_TRAIN}/workers/worker_dispatch.py: forward, forward_backward"),
)
EXPANDABLE = Behaviour("stack.expandable_segments", True, f"{_WORKER}, _set_expandable_segments")  # since 0.3.0
FSDP = (
    Behaviour("parallelism.engine", "fsdp", f"{_STRATEGY}, fully_shard"),
    Behaviour("parallelism.fsdp.param_dtype", "bfloat16", f"{_STRATEGY}, MixedPrecisionPolicy"),
    Behaviour("parallelism.fsdp.reduce_dtype", "float32", f"{_STRATEGY}, MixedPrecisionPolicy"),
    Behaviour("parallelism.fsdp.upcasts_trainable", False, f"{_WORKER}: parameters are loaded in fp32"),
    Behaviour("parallelism.fsdp.reduces_each_backward", True, f"{_STRATEGY}: no set_requires_gradient_sync"),
    Behaviour("parallelism.fsdp.state_dict_type", "SHARDED_STATE_DICT", f"{_STRATEGY}, save_checkpoint"),
    Behaviour("parallelism.fsdp.backward_prefetch", "BACKWARD_PRE", "torch FullyShardedDataParallel's default"),
    Behaviour("parallelism.fsdp.one_reads", True, f"{_STRATEGY}, fsdp2_load_full_state_dict"),
    Behaviour("model.weights_dtype", "float32", f"{_WORKER}: the policy is loaded in fp32, frozen or not"),
    Behaviour("precision.trainable_dtype", "float32", f"{_WORKER}: the policy is loaded in fp32"),
    Behaviour("precision.master_weights", False, f"{_STRATEGY}: the sharded parameters are the optimizer's"),
    Behaviour("planning.sequence_sharing", "parallelism.sequence_parallel_size", f"{_MODEL}, ulysses"),
)
MEGATRON = (
    Behaviour("parallelism.engine", "megatron", f"{_TRAIN}/workers/megatron/megatron_worker.py"),
    Behaviour("model.weights_dtype", "bfloat16", f"{_TRAIN}/distributed/megatron/optimizer.py, params_dtype"),
    Behaviour("precision.trainable_dtype", "bfloat16", f"{_TRAIN}/distributed/megatron/optimizer.py, params_dtype"),
    Behaviour("precision.master_weights", True, f"{_TRAIN}/distributed/megatron/optimizer.py"),
    Behaviour("precision.grad_dtype", "float32", "SkyRL 0.3.0 skyrl/train/config/config.py, grad_reduce_in_fp32"),
    Behaviour("optimizer.state_dtype", "float32", "Megatron-LM core/optimizer: moments of fp32 parameters"),
    Behaviour("loss.kind", "plain", f"{_TRAIN}/workers/megatron/megatron_model_wrapper.py"),
)
