"""The keys of EasyR1 0.3.3 that bear on memory or on the run: the dataclasses of `verl/trainer/config.py` and
`verl/workers/*/config.py`. A dotted name leads through sections, as in an override on the command line."""

from __future__ import annotations

from memlint.formats.easyr1 import reading
from memlint.formats.easyr1.reading import ACTOR, CRITIC, EXPERIENCE, REFERENCE, ROLLOUT, UPDATE
from memlint.formats.keys import FieldChange, Key, Keys, Written
from memlint.formats.verl import model, parallel
from memlint.formats.verl.config import VerlConfig
from memlint.formats.verl.keys import LENGTHS

MODEL = f"{ACTOR}.model"


STRATEGY = f"{ACTOR}.optim.strategy"


def _write_adapter(change: FieldChange) -> Written | None:
    """`lora.rank` says both that an adapter trains and its rank."""
    if change.field == "method.kind" and change.value != "lora":
        return None
    return {reading.RANK: change.changes.get("method.rank", change.run.method.rank or 16)}


def _write_dtype(change: FieldChange) -> Written | None:
    """One key for what trains and what is loaded: bfloat16 with the AdamW for it (EasyR1 0.3.3 README.md:90)."""
    return {f"{ACTOR}.fsdp.torch_dtype": "bf16"} if change.value == "bfloat16" else None


def _write_targets(change: FieldChange) -> Written | None:
    names = list(change.value) if isinstance(change.value, (tuple, list)) else []
    return {f"{MODEL}.lora.target_modules": ",".join(names)} if names else None


def _write_batch(change: FieldChange) -> Written | None:
    """The accumulation follows from the global batch."""
    return {f"{ACTOR}.{UPDATE}": change.value} if change.field == "batch.micro_batch_size" else None


def _write_experience(change: FieldChange) -> Written | None:
    """One key for the policy and its reference."""
    sizes = ("rollout.log_prob_micro_batch_size", "rollout.reference_micro_batch_size")
    return {f"{ACTOR}.{EXPERIENCE}": change.value} if change.field in sizes else None


def trains_adapter(config: VerlConfig) -> bool:
    return config.integer(reading.RANK) is not None


KEYS = Keys(
    Key(
        *(f"{MODEL}.model_path", "text", "model.name"),
        about="The model: a name of the Hugging Face hub or a folder.",
        also=("model.architecture",),
        read=model.read_model,
        read_only=True,
    ),
    Key(
        *(f"{ACTOR}.fsdp.torch_dtype", "word", "model.weights_dtype"),
        about="The dtype of parameters, gradients and states; fp32 unless said. Computations run in bfloat16.",
        also=("precision.trainable_dtype",),
        read=reading.read_dtype,
        write=_write_dtype,
    ),
    Key(
        *(reading.RANK, "whole", "method.rank", 0),
        about="The rank of a LoRA adapter; 0 trains all parameters.",
        also=("method.kind",),
        least=0,
        read=reading.read_adapter,
        write=_write_adapter,
    ),
    Key(
        *(f"{MODEL}.lora.alpha", "whole", "method.alpha", 64),
        about="LoRA's update is scaled by alpha over rank. It takes no memory.",
        least=0,
        when=trains_adapter,
        invalid="default",
    ),
    Key(
        *(f"{MODEL}.lora.target_modules", "text", "method.targets", "all-linear"),
        about="The linear layers that get an adapter: names with commas between them.",
        when=trains_adapter,
        read=reading.read_targets,
        write=_write_targets,
    ),
    Key(
        *(f"{MODEL}.freeze_vision_tower", "flag", "method.freeze_vision_tower", False),
        about="Keep the vision tower of a model that sees as it is.",
        also=("method.freeze_multi_modal_projector",),
        read=reading.read_towers,
        read_only=True,
    ),
    Key(
        *(f"{MODEL}.lora.exclude_modules", "text"),
        about="A pattern of modules that get no adapter, such as a vision tower's.",
        read_with=f"{MODEL}.freeze_vision_tower",
    ),
    Key(
        *(f"{MODEL}.enable_gradient_checkpointing", "flag", "checkpointing.mode", True),
        about="Recompute each layer in the backward pass instead of keeping its activations.",
        values={True: "full", False: "none"},
    ),
    Key(
        *(f"{ACTOR}.padding_free", "flag", "sequence.unpadded", True),
        about="Join the sequences of a micro-batch without padding.",
    ),
    Key(
        *("trainer.n_gpus_per_node", "whole", "parallelism.gpus_per_node", 8),
        about="GPUs of each node.",
        also=("parallelism.world_size",),
        least=1,
        read=parallel.read_world,
        read_only=True,
    ),
    Key(
        *("trainer.nnodes", "whole", "", 1),
        about="Nodes.",
        least=1,
        read_with="trainer.n_gpus_per_node",
    ),
    Key(
        *("trainer.val_only", "flag", "", False),
        about="Validate, and train nothing.",
    ),
    Key(
        *(f"{ACTOR}.ulysses_size", "whole", "parallelism.sequence_parallel_size", 1),
        about="GPUs that share each sequence.",
        also=("parallelism.data_parallel_size",),
        least=1,
        read=reading.read_ulysses,
        read_only=True,
    ),
    Key(
        *(f"{ACTOR}.fsdp.enable_full_shard", "flag", "parallelism.fsdp.reshard_after_forward", True),
        about="Free a layer's gathered parameters after its forward.",
        also=("parallelism.fsdp.strategy",),
        read=reading.read_sharding,
        read_only=True,
    ),
    Key(
        *(f"{ACTOR}.fsdp.fsdp_size", "whole", "parallelism.fsdp.shard_group_size", -1),
        about="GPUs that share one copy of the model; -1: all of them.",
        read_with=f"{ACTOR}.fsdp.enable_full_shard",
        read_only=True,
    ),
    Key(
        *(f"{ACTOR}.fsdp.enable_cpu_offload", "flag", "parallelism.fsdp.cpu_offload", False),
        about="FSDP keeps parameters, gradients and optimizer states in host memory. No accumulation goes with it.",
        read_only=True,
    ),
    Key(
        *(f"{ACTOR}.fsdp.use_orig_params", "flag", "parallelism.fsdp.use_orig_params", False),
        about="Keep the names of parameters under FSDP.",
        read_only=True,
    ),
    Key(
        *(f"{ACTOR}.offload.offload_params", "flag", "rollout.offloads_weights", False),
        about="Move the model's weights to host memory while it does not compute.",
    ),
    Key(
        *(f"{ACTOR}.offload.offload_optimizer", "flag", "rollout.offloads_optimizer", False),
        about="Keep optimizer states in host memory but for the update, its forward and backward included.",
    ),
    *LENGTHS,
    Key(
        *("data.rollout_batch_size", "whole", "", 512),
        about="Prompts of one step.",
        least=1,
    ),
    Key(
        *(f"{ROLLOUT}.n", "whole", "method.num_generations", 1),
        about="Responses for each prompt.",
        least=1,
        invalid="default",
    ),
    Key(
        *(f"{ACTOR}.global_batch_size", "whole", "batch.gradient_accumulation_steps", 256),
        about="Prompts of one update. With `rollout.n` responses each, and the micro-batch, it gives the accumulation.",
        least=1,
        read_only=True,
        read_with=f"{ACTOR}.{UPDATE}",
    ),
    Key(
        *(f"{ACTOR}.{UPDATE}", "whole", "batch.micro_batch_size", 4),
        about="Sequences of one forward and backward on a GPU, or their tokens under `dynamic_batching`.",
        least=1,
        read=reading.read_batch,
        write=_write_batch,
    ),
    Key(
        *("algorithm.disable_kl", "flag", "method.reference_model", False),
        about="Leave the reference model out.",
        values={True: "none", False: "copy"},
        also=("rollout.offloads_reference",),
        read_with=f"{ACTOR}.{EXPERIENCE}",
        read_only=True,
    ),
    Key(
        *(f"{ACTOR}.{EXPERIENCE}", "whole", "rollout.log_prob_micro_batch_size", 16),
        about="Sequences of one forward for log-probabilities, of the policy and of the reference.",
        also=("rollout.reference_micro_batch_size",),
        least=1,
        read=reading.read_experience,
        write=_write_experience,
    ),
    Key(
        *(f"{REFERENCE}.fsdp.enable_cpu_offload", "flag", "", False),
        about="FSDP keeps the reference in host memory and moves it to the card layer by layer.",
        read_with=f"{ACTOR}.{EXPERIENCE}",
    ),
    Key(
        *(f"{REFERENCE}.offload.offload_params", "flag", "", False),
        about="Move the reference to host memory while it does not compute.",
        read_with=f"{ACTOR}.{EXPERIENCE}",
    ),
    Key(
        *(STRATEGY, "word", "optimizer.name", "adamw"),
        about="adamw is torch's, fused; adamw_bf16 keeps two moments and a compensation in bfloat16.",
        values={"adamw": "adamw_torch_fused", "adamw_bf16": "adamw_anyprecision_bf16"},
    ),
    Key(
        *(f"{ACTOR}.optim.lr", "number", "optimizer.learning_rate", 1e-06),
        about="The learning rate.",
        least=0,
        invalid="ignored",
    ),
    Key(
        *(f"{ROLLOUT}.gpu_memory_utilization", "number", "rollout.share", 0.6),
        about="The share of each card that vLLM takes while it writes responses.",
        least=0,
        most=1,
        read=reading.read_share,
    ),
    Key(
        *(f"{ROLLOUT}.tensor_parallel_size", "whole", "rollout.tensor_parallel_size", 2),
        about="GPUs that share the engine's weights.",
        least=1,
    ),
    Key(
        *(f"{ROLLOUT}.max_model_len", "whole", "rollout.max_model_len"),
        about="Tokens of the longest sequence that the engine accepts; prompt and response unless said.",
        least=0,
    ),
    Key(
        *("algorithm.adv_estimator", "word", "method.stage", "grpo"),
        about="How advantages are estimated. `gae` needs a critic, which trains beside the policy.",
        also=("method.value_model",),
        read=reading.read_stage,
        read_only=True,
    ),
    Key(
        *(f"{CRITIC}.model.model_path", "text"),
        about="The model that the critic starts from.",
        read_with="algorithm.adv_estimator",
    ),
    Key(
        *(f"{CRITIC}.model.enable_gradient_checkpointing", "flag", "", True),
        about="Recompute the critic's layers in the backward pass.",
        read_with="algorithm.adv_estimator",
    ),
    Key(
        *(f"{CRITIC}.fsdp.torch_dtype", "word"),
        about="The dtype of the critic's parameters; fp32 unless said.",
        read_with="algorithm.adv_estimator",
    ),
    Key(
        *(f"{CRITIC}.offload.offload_params", "flag", "method.value_model.offloads_weights", False),
        about="Move the critic's weights to host memory while it does not compute.",
        read_with="algorithm.adv_estimator",
    ),
    Key(
        *(f"{CRITIC}.offload.offload_optimizer", "flag", "method.value_model.offloads_optimizer", False),
        about="Keep the critic's optimizer states in host memory but for its update.",
        read_with="algorithm.adv_estimator",
    ),
    Key(
        *(f"{CRITIC}.{UPDATE}", "whole", "method.value_model.micro_batch_size", 4),
        about="Sequences of one forward and backward of the critic.",
        least=1,
        read_with="algorithm.adv_estimator",
    ),
)
