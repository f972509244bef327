"""What EasyR1's code does whatever the file says: fields of the run with the lines that say so (0.3.3)."""

from __future__ import annotations

from memlint.formats.fields import Behaviour

_WORKER = "EasyR1 0.3.3 verl/workers/fsdp_workers.py"
_ACTOR = "EasyR1 0.3.3 verl/workers/actor/dp_actor.py"
_SHARING = "EasyR1 0.3.3 verl/workers/sharding_manager/fsdp_vllm.py"
ALWAYS = (
    Behaviour("precision.compute", "bfloat16", f"{_WORKER}, mp_param_dtype"),
    Behaviour("precision.autocast", False, f"{_ACTOR}: FSDP casts parameters and inputs"),
    Behaviour("precision.outputs_to_fp32", False, f"{_ACTOR}: accelerate has no part in it"),
    Behaviour("precision.master_weights", False, f"{_WORKER}: the sharded parameters are the optimizer's"),
    Behaviour("attention.implementation", "flash_attention_2", f"{_WORKER}, from_pretrained"),
    Behaviour("checkpointing.reentrant", False, f"{_WORKER}, use_reentrant=False"),
    Behaviour("parallelism.engine", "fsdp", f"{_WORKER}, FullyShardedDataParallel"),
    Behaviour("parallelism.fsdp.version", 1, f"{_WORKER}, FullyShardedDataParallel"),
    Behaviour("parallelism.fsdp.param_dtype", "bfloat16", f"{_WORKER}, mp_param_dtype"),
    Behaviour("parallelism.fsdp.reduce_dtype", "float32", f"{_WORKER}, mp_reduce_dtype"),
    Behaviour("parallelism.fsdp.upcasts_trainable", False, f"{_WORKER}: parameters are loaded in torch_dtype"),
    Behaviour("parallelism.fsdp.reduces_each_backward", True, f"{_ACTOR}: no no_sync"),
    Behaviour("parallelism.fsdp.backward_prefetch", "BACKWARD_PRE", "torch FullyShardedDataParallel's default"),
    Behaviour("parallelism.fsdp.state_dict_type", "SHARDED_STATE_DICT", "EasyR1 0.3.3 utils/checkpoint"),
    Behaviour("loss.kind", "fused_ce", "EasyR1 0.3.3 verl/utils/torch_functional.py, log_probs_from_logits"),
    Behaviour("loss.upcast_logits", False, "EasyR1 0.3.3 verl/utils/torch_functional.py, log_probs_from_logits"),
    Behaviour("loss.prompt_logits", True, f"{_ACTOR}: logits of all tokens"),
    Behaviour("loss.entropy", "none", f"{_ACTOR}: no entropy"),
    Behaviour("loss.scales_logits", False, f"{_ACTOR}: the temperature divides in place"),
    Behaviour("evaluation.enabled", False, "validation generates, and trains nothing"),
    Behaviour("batch.auto_find", False, "EasyR1 has no such search"),
    Behaviour("sequence.images_in_prompts", True, "EasyR1 0.3.3 verl/utils/dataset.py, _filter_overlong_prompts"),
    Behaviour("planning.critic_has_own_batch", True, "EasyR1 0.3.3 verl/workers/critic/config.py"),
    Behaviour("planning.sequence_sharing", "parallelism.sequence_parallel_size", f"{_ACTOR}, ulysses_size"),
    Behaviour("rollout.generator", "vllm_colocate", "EasyR1 0.3.3 verl/workers/rollout/vllm_rollout_spmd.py"),
    Behaviour("rollout.sleep_level", 1, f"{_SHARING}, offload_vllm"),
    Behaviour("rollout.own_process", False, "vllm_rollout_spmd.py: external_launcher"),
    Behaviour("rollout.offloads_until_update", False, f"{_WORKER}, update_actor loads the optimizer before forward"),
)
HALF_OPTIMIZER = Behaviour(
    "planning.half_optimizer", "adamw_anyprecision_bf16", "EasyR1 0.3.3 README.md:90, Hardware Requirements"
)
