"""The keys of SkyRL that bear on memory or on the run (0.3.0 skyrl/train/config/config.py), with the spellings of the
YAML that older releases compose (skyrl-train 0.1.0 to 0.4.0 skyrl_train/config/ppo_base_config.yaml).

A dotted name leads through sections, as in an override of a command."""

from __future__ import annotations

from memlint.formats.keys import FieldChange, Key, Keys, Written
from memlint.formats.skyrl import reading, roles
from memlint.formats.skyrl.config import ENGINE, MODEL, SkyRLConfig, older_name
from memlint.formats.skyrl.reading import FSDP, GPUS, LORA, PLACES, POLICY
from memlint.formats.verl.model import read_model


def _write_adapter(change: FieldChange) -> Written | None:
    """`lora.rank` says both that an adapter trains and its rank."""
    if change.field == "method.kind" and change.value != "lora":
        return None
    return {reading.RANK: change.changes.get("method.rank", change.run.method.rank or 16)}


def _write_targets(change: FieldChange) -> Written | None:
    """One name as it is, several as a list; `all-linear` is the default."""
    names = list(change.value) if isinstance(change.value, (tuple, list)) else []
    return {f"{LORA}.target_modules": names[0] if len(names) == 1 else names} if names else None


def _write_batch(change: FieldChange) -> Written | None:
    """The accumulation follows from the mini-batch; with a bound on tokens, that bound is the size."""
    bound = change.run.batch.max_tokens
    if change.field == "batch.micro_batch_size":
        return None if bound else {reading.UPDATE: change.value}
    return None


def _write_forward(change: FieldChange) -> Written | None:
    """One key for the policy and its reference."""
    sizes = ("rollout.log_prob_micro_batch_size", "rollout.reference_micro_batch_size")
    return {reading.FORWARD: change.value} if change.field in sizes and not change.run.batch.max_tokens else None


def _write_ulysses(change: FieldChange) -> Written | None:
    """The reference shares sequences as the policy does, if there is one."""
    names = (POLICY, "trainer.ref") if change.run.method.reference_model != "none" else (POLICY,)
    return {f"{name}.sequence_parallel_size": change.value for name in names}


def _trains_adapter(config: SkyRLConfig) -> bool:
    return config.integer(reading.RANK) is not None


def _of_engine(row: Key) -> Key:
    """A key of the inference engine, whose section older releases do not have."""
    name = f"{ENGINE}.{row.name}"
    return row._replace(name=name, older=(older_name(name),))


KEYS = Keys(
    Key(
        *(MODEL, "text", "model.name", "Qwen/Qwen2.5-1.5B-Instruct"),
        about="The model: a name of the Hugging Face hub or a folder.",
        also=("model.architecture",),
        read=read_model,
        read_only=True,
    ),
    Key(
        *(GPUS, "whole", "parallelism.gpus_per_node", 1),
        about="GPUs of each node that the policy trains on.",
        also=("parallelism.world_size",),
        least=1,
        read=reading.read_world,
        read_only=True,
    ),
    Key(
        *(reading.NODES, "whole", "", 1),
        about="Nodes that the policy trains on.",
        least=1,
        read_with=GPUS,
    ),
    Key(
        *(reading.STRATEGY, "word", "parallelism.engine", "fsdp"),
        about="The engine: fsdp (FSDP 2; FSDP 1 until 0.2), fsdp2, megatron; deepspeed until skyrl-train 0.2.",
        also=("parallelism.fsdp.version", "parallelism.data_parallel_size"),
        read=reading.read_engine,
        read_only=True,
    ),
    Key(
        *(f"{POLICY}.sequence_parallel_size", "whole", "parallelism.sequence_parallel_size", 1),
        about="GPUs that share each sequence (Ulysses).",
        least=1,
        write=_write_ulysses,
        read_with=reading.STRATEGY,
    ),
    *(
        Key(
            *(key, "whole", field, 1),
            about=f"Megatron-LM: {what}",
            least=1,
            read_with=reading.STRATEGY,
            read_only=True,
        )
        for (key, field), what in zip(
            reading.DEGREES.items(),
            (
                *("GPUs that share each matrix.", "stages of layers, each on GPUs of its own."),
                *("GPUs that share each sequence.", "GPUs that share a layer's experts."),
            ),
            strict=True,
        )
    ),
    Key(
        *(reading.HOST_OPTIMIZER, "flag", "offload.optimizer", False),
        about="Megatron-LM: keep optimizer states in host memory and step there.",
        read_with=reading.STRATEGY,
        read_only=True,
    ),
    Key(
        *(reading.RECOMPUTE, "word", "", "full"),
        about="Megatron-LM: full recomputes each layer in the backward pass.",
        read_with=reading.STRATEGY,
    ),
    Key(
        *(f"{FSDP}.reshard_after_forward", "any", "parallelism.fsdp.reshard_after_forward", True),
        about="Free a layer's gathered parameters after its forward; FSDP 2 takes a number of GPUs as well.",
        also=("parallelism.fsdp.strategy",),
        when=reading.uses_fsdp,
        read=reading.read_sharding,
        read_only=True,
    ),
    Key(
        *(f"{FSDP}.fsdp_size", "whole", "parallelism.fsdp.shard_group_size", -1),
        about="GPUs that share one copy of the model; -1: all of them.",
        read_with=f"{FSDP}.reshard_after_forward",
        read_only=True,
    ),
    Key(
        *(roles.HOST, "flag", "parallelism.fsdp.cpu_offload", False),
        about="FSDP keeps parameters, gradients and optimizer states in host memory.",
        when=reading.uses_fsdp,
        read_only=True,
    ),
    Key(
        *(reading.RANK, "whole", "method.rank", 0),
        about="The rank of a LoRA adapter; 0 trains all parameters.",
        also=("method.kind",),
        least=0,
        when=reading.uses_fsdp,
        read=reading.read_adapter,
        write=_write_adapter,
    ),
    Key(
        *(f"{LORA}.alpha", "whole", "method.alpha", 16),
        about="LoRA's update is scaled by alpha over rank. It takes no memory.",
        least=0,
        when=_trains_adapter,
        invalid="default",
    ),
    Key(
        *(f"{LORA}.target_modules", "any", "method.targets", "all-linear"),
        about="The linear layers that get an adapter.",
        older=("trainer.target_modules",),
        when=_trains_adapter,
        read=reading.read_targets,
        write=_write_targets,
    ),
    Key(
        *(f"{LORA}.exclude_modules", "text"),
        about="Modules that get no adapter.",
        older=("trainer.exclude_modules",),
        read_with=f"{POLICY}.language_model_only",
    ),
    Key(
        *(f"{POLICY}.language_model_only", "flag", "method.freeze_vision_tower", False),
        about="Load the language model of a model that sees, without its vision tower.",
        also=("method.freeze_multi_modal_projector",),
        read=reading.read_towers,
        read_only=True,
    ),
    Key(
        *("trainer.gradient_checkpointing", "flag", "checkpointing.mode", True),
        about="FSDP: recompute each layer in the backward pass instead of keeping its activations.",
        values={True: "full", False: "none"},
        read=reading.read_checkpointing,
    ),
    Key(
        *("trainer.gradient_checkpointing_use_reentrant", "flag", "checkpointing.reentrant", False),
        about="Which of torch's two ways of checkpointing runs.",
        read_only=True,
    ),
    Key(
        *("trainer.flash_attn", "flag", "attention.implementation", True),
        about="FlashAttention 2; else torch's attention, or transformers' own in releases before skyrl 0.2.",
        read=reading.read_attention,
        read_only=True,
    ),
    Key(
        *(reading.UNPADDED, "flag", "sequence.unpadded", True),
        about="Join the sequences of a micro-batch without padding.",
        older=("trainer.use_sample_packing",),
        read_only=True,
    ),
    Key(
        *("trainer.algorithm.use_entropy_loss", "flag", "loss.entropy", False),
        about="Make the entropy part of the loss, which then keeps what its gradient needs of all logits.",
        also=("stack.unmodelled",),
        read=reading.read_entropy,
        read_only=True,
    ),
    Key(
        *(reading.PROMPT, "whole", "sequence.max_prompt_length", 512),
        about="The longest prompt in tokens; longer ones are left out.",
        also=("sequence.length",),
        least=1,
        read=reading.read_lengths,
        read_only=True,
    ),
    Key(
        *(reading.ANSWER, "whole", "sequence.max_new_tokens", 1024),
        about="The longest answer of one turn in tokens.",
        least=1,
        read_with=reading.PROMPT,
        read_only=True,
    ),
    Key(
        *(reading.INPUT, "whole"),
        about="In several turns: the longest conversation that gets a further answer, in tokens.",
        least=1,
        read_with=reading.PROMPT,
    ),
    Key(
        *(reading.TURNS, "whole", "", 1),
        about="The most turns of one conversation.",
        least=1,
        read_with=reading.PROMPT,
    ),
    Key(
        *(reading.STEP, "whole", "", 1024),
        about="Prompts of one step.",
        least=1,
    ),
    Key(
        *(reading.SAMPLES, "whole", "method.num_generations", 5),
        about="Answers to each prompt.",
        least=1,
        invalid="default",
        read_only=True,
    ),
    Key(
        *(reading.MINI, "whole", "batch.gradient_accumulation_steps", 256),
        about="Prompts of one update. With their answers, and the micro-batch, it gives the accumulation.",
        least=1,
        read_only=True,
        read_with=reading.UPDATE,
    ),
    Key(
        *(reading.TOKENS, "whole", "batch.max_tokens", -1),
        about="Tokens of one micro-batch, in place of the numbers of sequences below; -1: those count.",
        read_only=True,
        read_with=reading.UPDATE,
    ),
    Key(
        *(reading.UPDATE, "whole", "batch.micro_batch_size", 1),
        about="Sequences of one forward and backward on a GPU, of the policy and of a critic.",
        least=1,
        read=reading.read_batch,
        write=_write_batch,
    ),
    Key(
        *(roles.COMPARED[0], "flag", "method.reference_model", True),
        about="Compare with a reference model in the loss; without this and the next there is none.",
        values={True: "copy", False: "none"},
        also=("rollout.offloads_reference",),
        read=roles.read_reference,
        read_only=True,
    ),
    Key(
        *(roles.COMPARED[1], "flag", "", False),
        about="Compare with a reference model in the reward.",
        read_with=roles.COMPARED[0],
    ),
    Key(
        *(reading.FORWARD, "whole", "rollout.log_prob_micro_batch_size", 1),
        about="Sequences of one forward for log-probabilities, of the policy and of the reference.",
        also=("rollout.reference_micro_batch_size",),
        least=1,
        read=reading.read_forward,
        write=_write_forward,
    ),
    Key(
        *(roles.TOGETHER, "flag", "rollout.offloads_weights", True),
        about="Put policy, reference, critic and engines on the same GPUs, where each waits in host memory in turn.",
        also=("rollout.model_processes",),
        read=roles.read_placement,
        read_only=True,
    ),
    Key(
        *(roles.WITH_REFERENCE, "flag", "", True),
        about="Put the reference on the policy's GPUs.",
        read_with=roles.TOGETHER,
    ),
    Key(
        *(roles.WAITS, "flag", "rollout.offloads_optimizer", True),
        about="Keep the optimizer states in host memory but for the update.",
        read_with=roles.TOGETHER,
    ),
    Key(
        *(f"{POLICY}.optimizer_config.lr", "number", "optimizer.learning_rate", 1e-06),
        about="The learning rate.",
        least=0,
        invalid="ignored",
    ),
    Key(
        *(f"{POLICY}.optimizer_config.max_grad_norm", "number", "optimizer.max_grad_norm", 1.0),
        about="The largest norm of the gradients.",
        least=0,
        invalid="ignored",
        read_only=True,
    ),
    _of_engine(
        Key(
            *("gpu_memory_utilization", "number", "rollout.share", 0.8),
            about="The share of each card that the engine takes while it writes answers.",
            also=("rollout.generator", "rollout.sleep_level"),
            least=0,
            most=1,
            read=roles.read_generator,
        )
    ),
    _of_engine(
        Key(
            *("run_engines_locally", "flag", "", True),
            about="Start the engines; else servers elsewhere are asked.",
            read_with=roles.SHARE,
        )
    ),
    _of_engine(
        Key(
            *("backend", "word", "rollout.share_of_free", "vllm"),
            about="vllm, or sglang until skyrl 0.2, whose share is of the memory that is free when it starts.",
            read_with=roles.SHARE,
            read_only=True,
        )
    ),
    _of_engine(
        Key(
            *("weight_transfer_threshold_cuda_ipc_GB", "number", "rollout.sync_bucket_bytes", 1.0),
            about="GiB of new weights that are gathered and sent to the engine at once.",
            least=0,
            read_with=roles.SHARE,
            read_only=True,
        )
    ),
    _of_engine(
        Key(
            *("tensor_parallel_size", "whole", "rollout.tensor_parallel_size", 1),
            about="GPUs that share the engine's weights.",
            least=1,
            read=roles.read_engine_ranks,
            read_only=True,
        )
    ),
    _of_engine(
        Key(
            *("engine_init_kwargs.max_model_len", "whole", "rollout.max_model_len"),
            about="Tokens of the longest sequence that the engine accepts; the model's own unless said.",
            least=0,
        )
    ),
    *(
        _of_engine(Key(name, "whole", "", 1, f"{what} With `colocate_all` they take the policy's GPUs.", least=1))
        for name, what in (
            *(("num_engines", "Engines."), ("pipeline_parallel_size", "Stages of an engine's layers.")),
            ("data_parallel_size", "Copies of the model in one engine."),
        )
    ),
    Key(
        *("trainer.algorithm.advantage_estimator", "word", "", "grpo"),
        about="How advantages are estimated. `gae` needs a critic.",
    ),
    Key(
        *("trainer.critic_mini_batch_size", "whole", "", 256),
        about="Prompts of one update of the critic.",
        least=1,
    ),
    *(
        Key(*(f"{PLACES}.ref_num_{name}", "whole", "", 1), about=f"{what} of the reference.", least=1)
        for name, what in (("gpus_per_node", "GPUs of each node"), ("nodes", "Nodes"))
    ),
    *(
        Key(
            *(f"trainer.{role}.sequence_parallel_size", "whole", "", 1),
            about=f"GPUs that share each sequence of the {name}.",
            least=1,
        )
        for role, name in (("critic", "critic"), ("ref", "reference"))
    ),
    Key(
        *(roles.CRITIC_MODEL, "text", "method.value_model"),
        about="The model that a critic starts from: PPO. Without one there is no critic.",
        also=("method.stage",),
        read=roles.read_critic,
        read_only=True,
    ),
    Key(
        *(f"{roles.CRITIC}.model.lora.rank", "whole", "method.value_model.trains_adapter", 0),
        about="The rank of the critic's adapter; 0 trains all of it.",
        read_with=roles.CRITIC_MODEL,
        read_only=True,
    ),
    Key(
        *(f"{roles.CRITIC}.fsdp_config.cpu_offload", "flag", "", False),
        about="FSDP keeps the critic in host memory.",
        read_with=roles.CRITIC_MODEL,
    ),
    Key(
        *(f"{roles.CRITIC}.optimizer_config.offload_after_step", "flag", "method.value_model.offloads_optimizer", True),
        about="Keep the critic's optimizer states in host memory but for its update.",
        read_with=roles.CRITIC_MODEL,
    ),
    Key(
        *(f"{PLACES}.critic_num_gpus_per_node", "whole", "", 1),
        about="GPUs of each node that a critic trains on, without `colocate_all`.",
        read_with=roles.CRITIC_MODEL,
    ),
    Key(
        *(f"{PLACES}.critic_num_nodes", "whole", "", 1),
        about="Nodes that a critic trains on.",
        read_with=roles.CRITIC_MODEL,
    ),
)
