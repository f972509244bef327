"""What slime's code does whatever a command says: fields of the run with the lines that say so (0.3.1, and 0.1.0)."""

from __future__ import annotations

from memlint.formats.fields import Behaviour

_LOSS = "slime 0.3.1 slime/backends/megatron_utils/loss.py"
ALWAYS = (
    Behaviour("evaluation.enabled", False, "evaluation generates, and trains nothing"),
    Behaviour("batch.auto_find", False, "slime has no such search"),
    Behaviour("method.kind", "full", "slime 0.3.1 slime/backends: all parameters train"),
    Behaviour("sequence.unpadded", True, "slime 0.3.1 slime/backends/megatron_utils/data.py: sequences are joined"),
    Behaviour("rollout.own_process", True, "slime 0.3.1 slime/backends/sglang_utils/sglang_engine.py"),
)
MEGATRON = (
    Behaviour("parallelism.engine", "megatron", "slime 0.3.1 slime/backends/megatron_utils/model.py"),
    Behaviour("precision.autocast", False, "Megatron-LM core/transformer/module.py, Float16Module"),
    Behaviour("optimizer.state_dtype", "float32", "Megatron-LM core/optimizer: moments of fp32 parameters"),
    Behaviour("loss.kind", "plain", f"{_LOSS}, get_log_probs_and_entropy"),
)
# Logits in fp32, which the loss is handed, and the softmax of them that it keeps for the backward: of all tokens at
# once (0.3.1 slime/utils/ppo_utils.py, _VocabParallelLogProbEntropy), or of each answer in turn (0.1.0 to 0.2.2,
# compute_log_probs), whose entropy has a softmax and a copy of its own besides.
LOSS = Behaviour("loss.bytes_per_logit", 8, f"{_LOSS}, policy_loss_function and sft_loss_function")
_FSDP = "slime 0.2.2 slime/backends/fsdp_utils/actor.py"
FSDP = (
    Behaviour("parallelism.engine", "fsdp", f"{_FSDP}, apply_fsdp2"),
    Behaviour("parallelism.fsdp.version", 2, f"{_FSDP}, fully_shard"),
    Behaviour("parallelism.fsdp.root_holds_ends", True, f"{_FSDP}, apply_fsdp2"),
    Behaviour("parallelism.fsdp.embedding_apart", True, f"{_FSDP}, apply_fsdp2"),
    Behaviour("parallelism.fsdp.reduce_dtype", "float32", f"{_FSDP}, MixedPrecisionPolicy"),
    Behaviour("parallelism.fsdp.upcasts_trainable", False, f"{_FSDP}: parameters are loaded in fp32"),
    Behaviour("parallelism.fsdp.reduces_each_backward", True, f"{_FSDP}: no set_requires_gradient_sync"),
    Behaviour("model.weights_dtype", "float32", f"{_FSDP}: from_pretrained without a dtype"),
    Behaviour("precision.trainable_dtype", "float32", f"{_FSDP}: from_pretrained without a dtype"),
    Behaviour("precision.master_weights", False, f"{_FSDP}: the sharded parameters are the optimizer's"),
    Behaviour("precision.autocast", False, f"{_FSDP}, MixedPrecisionPolicy"),
    Behaviour("precision.outputs_to_fp32", False, f"{_FSDP}: accelerate has no part in it"),
    Behaviour("optimizer.name", "adamw_torch", f"{_FSDP}, torch.optim.AdamW"),
    Behaviour("loss.kind", "plain", f"{_FSDP}, get_logprob_and_entropy"),
    # A log-softmax twice, a softmax and their product, of all logits in fp32 (get_logprob_and_entropy).
    Behaviour("stack.unmodelled", "what slime's loss keeps of the logits under FSDP", f"{_FSDP}, _train_step"),
    Behaviour("stack.unmodelled_adds", True, f"{_FSDP}, _train_step"),
)
