"""The flags of OpenRLHF that bear on memory or on the run, read in OpenRLHF 0.11.2 (openrlhf/cli/train_*.py).

`newer` is the same flag in `train_ppo_ray`, where models have sections of their own; `older` are names before 0.10.2.
"""

from __future__ import annotations

from memlint.formats.fields import Fields
from memlint.formats.keys import FieldChange, Key, Keys, Written
from memlint.formats.openrlhf import batches, model, placement, rollout
from memlint.formats.openrlhf.config import OpenRLHFConfig
from memlint.formats.role_keys import of_role


def trains_with_rewards(config: OpenRLHFConfig) -> bool:
    return config.trains_with_rewards


def shares_cards(config: OpenRLHFConfig) -> bool:
    return placement.shares_cards_with_vllm(config)


def read_optimizer(fields: Fields, config: OpenRLHFConfig) -> None:
    """The engine's own; its name is known from the DeepSpeed configuration."""
    value = config.text("optim").lower()
    if value not in ("", "adam", "muon"):
        fields.unknown("optimizer.name", f"the optimizer `{value}` is not known here")


def read_sleep(fields: Fields, config: OpenRLHFConfig) -> None:
    fields.put("rollout.offloads_optimizer", config.flag("ds.enable_sleep"), config.origin("ds.enable_sleep"))


def _write_micro_batch(change: FieldChange) -> Written | None:
    """The micro-batch. With dynamic batches a number of tokens decides, and the micro-batch follows."""
    return {} if change.run.batch.max_tokens else {"train.micro_batch_size": change.value}


def _write_tokens(change: FieldChange) -> Written | None:
    parallel = change.run.parallelism
    ranks = parallel.sequence_parallel_size * parallel.tensor_parallel_size
    return {"train.max_tokens_per_gpu": change.value // ranks} if change.value else None


def _write_forward(change: FieldChange) -> Written | None:
    """Policy and reference have one size."""
    same = all(
        change.changes.get(field, change.value) == change.value
        for field in ("rollout.log_prob_micro_batch_size", "rollout.reference_micro_batch_size")
    )
    return {"rollout.micro_batch_size": change.value} if same and not change.run.rollout.log_prob_length else None


def _write_adapter(change: FieldChange) -> Written | None:
    """`ds.lora.rank` says both that an adapter trains and its rank."""
    if change.field == "method.kind" and change.value != "lora":
        return None
    return {"ds.lora.rank": change.changes.get("method.rank", change.run.method.rank or 16)}


def _write_targets(change: FieldChange) -> Written | None:
    names = list(change.value) if isinstance(change.value, (tuple, list)) else []
    return {"ds.lora.target_modules": names[0] if len(names) == 1 else names} if names else None


def _write_length(change: FieldChange) -> Written | None:
    """One bound of the whole, or, before 0.9.6, one of the prompt and one of the response."""
    keys = {"sequence.length": "data.max_len", "sequence.max_prompt_length": "prompt_max_len"}
    keys["sequence.max_new_tokens"] = "rollout.max_new_tokens"
    return {keys[change.field]: change.value}


def _write_engine(change: FieldChange) -> Written | None:
    if change.field == "rollout.share":
        return {"vllm.gpu_memory_utilization": change.value}
    return {"vllm.enable_sleep": change.value > 0} if change.field == "rollout.sleep_level" else None


def _write_ring(change: FieldChange) -> Written | None:
    """A ring takes packed samples alone (cli/train_sft.py:322; train_ppo_ray.py:686 warns)."""
    if change.field != "parallelism.sequence_parallel_size":
        return {}
    packed = change.run.sequence.unpadded is True
    if not packed and change.run.method.stage in ("ppo", "grpo"):
        return None
    return {"ds.ring_attn_size": change.value, **({} if packed else {"ds.packing_samples": True})}


_GPUS = (
    Key(
        *("{role}.num_nodes", "whole", "", 1),
        older=("{role}_num_nodes",),
        least=0,
        about="Machines that {noun} is on.",
    ),
    Key(
        *("{role}.num_gpus_per_node", "whole", "", 8),
        older=("{role}_num_gpus_per_node",),
        read_only=True,
        least=0,
        about="GPUs of each machine that {noun} is on.",
    ),
)


def _gpus_of_policy() -> tuple[Key, ...]:
    """The policy's GPUs are those of the run."""
    nodes, each = of_role(_GPUS, "actor", "the policy")
    fields = ("parallelism.world_size", "parallelism.gpus_per_node")
    return nodes, each._replace(field=fields[0], also=fields[1:], read=placement.read_world)


_MODEL = (
    Key(
        *("model.model_name_or_path", "text", "model.name"),
        newer=("actor.model_name_or_path",),
        older=("pretrain",),
        also=("model.architecture",),
        read=model.read_model,
        read_only=True,
        about="The model that trains: a name of the Hugging Face hub or a folder.",
    ),
    Key(
        *("ds.param_dtype", "word", "model.weights_dtype", "bf16"),
        older=("param_dtype",),
        values={"bf16": "bfloat16", "fp16": "float16"},
        read=model.read_dtype,
        read_only=True,
        about="The dtype of weights and computation. DeepSpeed keeps fp32 copies of what trains.",
    ),
    Key("bf16", "flag", "", False, read_with="ds.param_dtype", about="The same, before 0.9.2: fp32 without it."),
    Key(
        *("ds.load_in_4bit", "flag", "model.quantization.method", False),
        older=("load_in_4bit",),
        also=tuple(f"model.quantization.{name}" for name in ("bits", "kind", "double_quant")),
        read=model.read_quantization,
        read_only=True,
        about="Quantise the frozen weights to NF4 as they load.",
    ),
    Key(
        *("ds.attn_implementation", "word", "attention.implementation", "flash_attention_2"),
        older=("attn_implementation",),
        read=model.read_attention,
        read_only=True,
        about="The attention kernel.",
    ),
    Key(
        *("flash_attn", "flag", "", False),
        read_with="ds.attn_implementation",
        about="FlashAttention 2, before 0.8.10: eager attention without it.",
    ),
    Key(
        *("actor.freeze_visual_encoder", "flag", "method.freeze_vision_tower", False),
        also=("method.freeze_multi_modal_projector",),
        when=model.is_multimodal,
        about="Train the language model alone: the vision tower and the projector stay as they are.",
    ),
    Key(
        *("ds.use_liger_kernel", "flag", "loss.liger_kernels", False),
        older=("use_liger_kernel",),
        about="Liger's kernels for norms and MLPs; the loss does not use its fused one.",
    ),
    Key(
        *("ds.lora.rank", "whole", "method.rank", 0),
        older=("lora_rank",),
        also=("method.kind",),
        least=0,
        read=model.read_adapter,
        write=_write_adapter,
        about="The rank of a LoRA adapter; 0 trains the whole model.",
    ),
    Key(
        *("ds.lora.alpha", "number", "method.alpha", 16),
        older=("lora_alpha",),
        when=model.trains_adapter,
        about="The adapter's scale.",
    ),
    Key(
        *("ds.lora.dropout", "number", "method.dropout", 0),
        older=("lora_dropout",),
        when=model.trains_adapter,
        about="Dropout before the adapter. Above 0 its masked input is kept for the backward pass.",
    ),
    Key(
        *("ds.lora.target_modules", "words", "method.targets", "all-linear"),
        older=("target_modules",),
        when=model.trains_adapter,
        read=model.read_targets,
        write=_write_targets,
        about="The linear layers that get an adapter: all but the head unless said.",
    ),
)
_ENGINE = (
    *_gpus_of_policy(),
    Key(
        *("ds.zero_stage", "whole", "parallelism.zero.stage", 2),
        older=("zero_stage",),
        values={stage: stage for stage in range(4)},
        about="What DeepSpeed divides over the GPUs: 2 gradients and optimizer states, 3 the weights as well.",
    ),
    Key(
        *("ds.adam_offload", "flag", "offload.optimizer", False),
        older=("adam_offload",),
        values={True: "cpu", False: "none"},
        about="Keep optimizer states and fp32 weights in host memory, and step there.",
    ),
    Key(
        *("ds.zpg", "whole", "parallelism.zero.hpz_partition_size", 1),
        older=("zpg",),
        least=1,
        read_only=True,
        about="GPUs of a group that keeps a second copy of the sharded weights (ZeRO++).",
    ),
    Key(
        *("ds.overlap_comm", "flag", "parallelism.zero.overlap_comm", False),
        older=("overlap_comm",),
        only_if_given=True,
        read_only=True,
        about="Reduce gradients while the backward pass goes on. It needs a second bucket. Unset: at stage 3.",
    ),
    Key(
        *("ds.grad_accum_dtype", "word"),
        older=("grad_accum_dtype",),
        about="The dtype that gradients are accumulated in: fp32 or bf16.",
    ),
    Key(
        *("ds.ring_attn_size", "whole", "parallelism.sequence_parallel_size", 1),
        older=("ring_attn_size",),
        also=("parallelism.data_parallel_size",),
        least=1,
        read=placement.read_degrees,
        write=_write_ring,
        about="GPUs that share each sequence, by ring attention.",
    ),
    Key(
        *("ds.tensor_parallel_size", "whole", "parallelism.tensor_parallel_size", 1),
        older=("ds_tensor_parallel_size",),
        least=1,
        read_with="ds.ring_attn_size",
        read_only=True,
        about="GPUs that share each layer, by DeepSpeed's tensor parallelism.",
    ),
    Key(
        *("optim", "word", "optimizer.name", "adam"),
        newer=("actor.optim",),
        values={"adam": "fused_adam", "muon": "muon"},
        read=read_optimizer,
        read_only=True,
        about="The optimizer: DeepSpeed's Adam, or Muon.",
    ),
)
_BATCH = (
    Key(
        *("data.max_len", "whole", "sequence.length", 2048),
        also=("sequence.max_prompt_length", "sequence.max_new_tokens"),
        older=("max_len",),
        least=1,
        read=batches.read_length,
        write=_write_length,
        about="The longest sample in tokens, with PPO the prompt and its response.",
    ),
    Key(
        *("prompt_max_len", "whole"),
        read_with="data.max_len",
        least=1,
        about="The longest prompt, before 0.9.6.",
    ),
    Key(
        *("rollout.max_new_tokens", "whole"),
        older=("max_new_tokens", "generate_max_len"),
        read_with="data.max_len",
        least=1,
        about="The longest response.",
    ),
    Key(
        *("train.micro_batch_size", "whole", "batch.micro_batch_size"),
        older=("micro_train_batch_size",),
        least=1,
        read=batches.read_batch,
        write=_write_micro_batch,
        about="Sequences of one forward and backward on a GPU; pairs with DPO and reward models.",
    ),
    Key(
        *("train.batch_size", "whole", "batch.gradient_accumulation_steps", 128),
        older=("train_batch_size",),
        least=1,
        read_with="train.micro_batch_size",
        read_only=True,
        about="Sequences of a step on all GPUs; micro-batches are accumulated up to it.",
    ),
    Key(
        *("train.dynamic_batch_enable", "flag", "", False),
        older=("use_dynamic_batch",),
        read_with="train.micro_batch_size",
        about="Fill micro-batches up to a number of tokens instead of sequences.",
    ),
    Key(
        *("train.max_tokens_per_gpu", "whole", "batch.max_tokens", 16192),
        older=("train_max_tokens_per_gpu",),
        least=1,
        read_with="train.micro_batch_size",
        write=_write_tokens,
        about="Tokens of such a micro-batch on a GPU.",
    ),
    Key(
        *("ds.packing_samples", "flag", "sequence.unpadded", False),
        older=("packing_samples",),
        read=model.read_packing,
        about="Join the samples of a micro-batch without padding. It needs FlashAttention.",
    ),
    Key(
        *("model.gradient_checkpointing_enable", "flag", "checkpointing.mode", False),
        newer=("actor.gradient_checkpointing_enable",),
        older=("gradient_checkpointing",),
        values={True: "full", False: "none"},
        about="Recompute each layer in the backward pass instead of keeping its activations.",
    ),
    Key(
        *("model.gradient_checkpointing_reentrant", "flag", "checkpointing.reentrant", False),
        newer=("actor.gradient_checkpointing_reentrant",),
        older=("gradient_checkpointing_use_reentrant",),
        about="PyTorch's older way to recompute.",
    ),
)
_DISTILLATION = (
    Key(
        *("teacher_model", "text", "method.extra_models"),
        when=lambda config: config.distils,
        read=rollout.read_teacher,
        read_only=True,
        about="The frozen model that train_kd learns from (until 0.9).",
    ),
    Key(
        *("teacher_offload", "flag", "rollout.offloads_reference", False),
        can_write=lambda change: change.run.method.stage == "gkd",
        read_with="teacher_model",
        about="Keep the teacher in host memory (ZeRO stage 3).",
    ),
)
_REWARDS = (
    Key(
        *("rollout.n_samples_per_prompt", "whole", "method.num_generations", 1),
        older=("n_samples_per_prompt",),
        when=trains_with_rewards,
        least=1,
        read_only=True,
        about="Responses to each prompt.",
    ),
    Key(
        *("rollout.micro_batch_size", "whole", "rollout.log_prob_micro_batch_size"),
        also=("rollout.reference_micro_batch_size",),
        older=("micro_rollout_batch_size",),
        when=trains_with_rewards,
        least=1,
        read=batches.read_experience,
        write=_write_forward,
        about="Sequences of one forward that computes log-probabilities, rewards or values before the update.",
    ),
    Key(
        *("rollout.max_tokens_per_gpu", "whole", "rollout.log_prob_length"),
        also=("rollout.reference_length",),
        older=("rollout_max_tokens_per_gpu",),
        least=1,
        read_with="rollout.micro_batch_size",
        read_only=True,
        about="Tokens of that forward with dynamic batches; those of the update unless said.",
    ),
    Key(
        *("algo.advantage.estimator", "word", "method.stage", "gae"),
        also=("method.value_model",),
        older=("advantage_estimator",),
        when=trains_with_rewards,
        read=rollout.read_estimator,
        read_only=True,
        about="How advantages are estimated: `gae` trains a critic beside the policy, the others do without.",
    ),
    Key(
        *("critic.model_name_or_path", "text"),
        older=("critic_pretrain",),
        read_with="algo.advantage.estimator",
        about="The model that the critic starts from: the reward model unless said.",
    ),
    Key(
        *("reward.model_name_or_path", "text", "method.extra_models"),
        older=("reward_pretrain",),
        when=trains_with_rewards,
        read=rollout.read_rewards,
        read_only=True,
        about="Reward models, with commas between them.",
    ),
    Key(
        *("reward.remote_url", "text"),
        older=("remote_rm_url",),
        read_with="reward.model_name_or_path",
        about="A server, or a Python file, that gives the rewards in place of a model.",
    ),
    Key(
        *("train.agent_func_path", "text"),
        older=("agent_func_path",),
        read_with="reward.model_name_or_path",
        about="A Python file that plays and scores whole episodes.",
    ),
    Key(
        *("reward.offload", "flag", "", False),
        read_with="reward.model_name_or_path",
        about="Keep reward models in host memory (ZeRO stage 3).",
    ),
    Key(
        *("algo.kl.init_coef", "number", "method.reference_model", 0.01),
        older=("init_kl_coef",),
        when=lambda config: config.stage in ("ppo", "dpo", "kto"),
        read=rollout.read_reference,
        read_only=True,
        about="The weight of the distance to the reference model; 0 does without one.",
    ),
    Key(
        *("ref.model_name_or_path", "text"),
        older=("ref_pretrain",),
        read_with="algo.kl.init_coef",
        about="DPO's reference model; a copy of the trained model unless said.",
    ),
    Key(
        *("ref.offload", "flag", "rollout.offloads_reference", False),
        older=("ref_offload", "ref_reward_offload"),
        can_write=lambda change: change.run.method.stage != "gkd" and change.run.parallelism.zero.stage == 3,
        read_with="algo.kl.init_coef",
        about="Keep the reference model in host memory (ZeRO stage 3).",
    ),
    Key(
        *("actor.entropy_coef", "number", "loss.entropy"),
        older=("entropy_loss_coef",),
        read=rollout.read_entropy,
        read_only=True,
        about="The weight of the entropy; it is computed where the flag is given, 0 too.",
    ),
)
_VLLM = (
    Key(
        *("vllm.num_engines", "whole", "rollout.generator"),
        also=("rollout.share", "rollout.sleep_level", "rollout.max_model_len"),
        older=("vllm_num_engines",),
        when=trains_with_rewards,
        least=0,
        read=rollout.read_generator,
        write=_write_engine,
        about="vLLM engines that write the responses.",
    ),
    Key(
        *("vllm.tensor_parallel_size", "whole", "rollout.tensor_parallel_size", 1),
        older=("vllm_tensor_parallel_size",),
        when=shares_cards,
        least=1,
        about="GPUs that share an engine's weights.",
    ),
    Key(
        *("vllm.gpu_memory_utilization", "number", "", 0.95),
        earlier_default=((0, 7), 0.9),  # 0.6.0 and 0.7.0 cli/train_ppo_ray.py
        older=("vllm_gpu_memory_utilization",),
        least=0,
        most=1,
        read_with="vllm.num_engines",
        about="The share of each card that an engine takes.",
    ),
    Key(
        *("vllm.enable_sleep", "flag", "", False),
        older=("vllm_enable_sleep",),
        read_with="vllm.num_engines",
        about="Free an engine's share while the models train. It needs `train.colocate_all`.",
    ),
    Key(
        *("ds.enable_sleep", "flag", "rollout.offloads_optimizer", False),
        older=("deepspeed_enable_sleep",),
        when=trains_with_rewards,
        read=read_sleep,
        about="Move optimizer states to host memory but for the update.",
    ),
    Key(
        *("train.colocate_all", "flag", "rollout.model_processes", False),
        also=("rollout.own_process",),
        older=("colocate_all_models",),
        when=trains_with_rewards,
        read=rollout.read_processes,
        read_only=True,
        about="Put all models and vLLM on the same GPUs.",
    ),
    Key(
        *("vllm.sync_backend", "word", "rollout.sync_bucket_bytes", "nccl"),
        older=("vllm_sync_backend",),
        when=shares_cards,
        read=rollout.read_sync,
        read_only=True,
        about="How weights reach vLLM: with nccl on the same cards each parameter is copied once more.",
    ),
    Key(
        *("train.colocate_actor_ref", "flag", "", False),
        older=("colocate_actor_ref",),
        read_with="train.colocate_all",
        about="Put the reference model on the policy's GPUs.",
    ),
    Key(
        *("train.colocate_critic_reward", "flag", "", False),
        older=("colocate_critic_reward",),
        read_with="train.colocate_all",
        about="Put the reward model on the critic's GPUs.",
    ),
    Key(
        *("train.async_enable", "flag", "", False),
        older=("async_train",),
        read_with="vllm.num_engines",
        about="Write responses while the models train: vLLM has GPUs of its own.",
    ),
    *of_role(_GPUS, "critic", "the critic"),
    *of_role(_GPUS, "ref", "the reference model"),
    *of_role(_GPUS, "reward", "the reward model"),
)
KEYS = Keys(*_MODEL, *_ENGINE, *_BATCH, *_DISTILLATION, *_REWARDS, *_VLLM)
