"""What NeMo-RL's code does whatever the file says: fields of the run with the lines that say so (0.7.0)."""

from __future__ import annotations

from memlint.formats.fields import Behaviour

_V1 = "NeMo-RL 0.7.0 nemo_rl/models/policy/workers/dtensor_policy_worker.py"
_V2 = "NeMo-RL 0.7.0 nemo_rl/models/automodel/setup.py"
_SHARDS = "NeMo-RL 0.7.0 nemo_rl/models/dtensor/parallelize.py"
_LOSS = "NeMo-RL 0.7.0 nemo_rl/distributed/model_utils.py, get_next_token_logprobs_from_logits"
ALWAYS = (
    Behaviour("batch.auto_find", False, "NeMo-RL has no such search"),
    Behaviour("method.kind", "full", "NeMo-RL trains all parameters unless an adapter is asked for"),
    Behaviour("checkpointing.reentrant", False, f"{_SHARDS}: checkpoint_wrapper"),
    Behaviour("rollout.own_process", True, "NeMo-RL 0.7.0 nemo_rl/models/generation/vllm/vllm_worker.py"),
    Behaviour("rollout.sleep_level", 1, "NeMo-RL 0.7.0 nemo_rl/models/generation/vllm/vllm_worker.py:1009"),
    Behaviour("planning.freezes_projector_apart", False, "NeMo-RL 0.7.0 has no such key"),
)
# The DTensor engine: FSDP2 over the layers of a model of transformers, and over the rest as one.
DTENSOR = (
    Behaviour("parallelism.engine", "fsdp", f"{_SHARDS}, fully_shard"),
    Behaviour("parallelism.fsdp.version", 2, f"{_SHARDS}, fully_shard"),
    Behaviour("parallelism.fsdp.root_holds_ends", True, f"{_SHARDS}: each layer, then the model"),
    Behaviour("parallelism.fsdp.reduce_dtype", "float32", f"{_SHARDS}, MixedPrecisionPolicy"),
    Behaviour("parallelism.fsdp.output_dtype", "float32", f"{_SHARDS}, MixedPrecisionPolicy"),
    Behaviour("parallelism.fsdp.upcasts_trainable", False, f"{_V1}:276, torch_dtype=torch.float32"),
    Behaviour("parallelism.fsdp.reduces_each_backward", True, f"{_V1}: no set_requires_gradient_sync"),
    Behaviour("parallelism.fsdp.one_reads", True, f"{_V1}: rank 0 loads, and broadcasts"),
    Behaviour("parallelism.divides_embedding", True, f"{_SHARDS}: embed_tokens RowwiseParallel"),
    Behaviour("model.weights_dtype", "float32", f"{_V1}:276 and {_V2}:330, torch_dtype=torch.float32"),
    Behaviour("precision.trainable_dtype", "float32", f"{_V1}:276 and {_V2}:330, torch_dtype=torch.float32"),
    Behaviour("precision.master_weights", False, f"{_V1}: the sharded parameters are the optimizer's"),
    Behaviour("precision.outputs_to_fp32", False, f"{_V1}: accelerate has no part in it"),
    Behaviour("precision.upcast_lmhead_output", True, f"{_SHARDS}: output_dtype of the model is fp32"),
    Behaviour("loss.kind", "plain", _LOSS),
    Behaviour("loss.upcast_logits", False, f"{_LOSS}: they are fp32 already"),
    Behaviour("loss.prompt_logits", True, _LOSS),
    Behaviour("loss.entropy", "none", "NeMo-RL 0.7.0 nemo_rl/algorithms/loss: an entropy of log-probabilities alone"),
    Behaviour("loss.scales_logits", False, f"{_V1}, _apply_temperature_scaling: in place"),
)
