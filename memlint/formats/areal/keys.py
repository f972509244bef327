"""The keys of AReaL that bear on memory or on the run (2.0.0 areal/api/cli_args.py; those of 0.3.1 to 1.0.4 beside
them). A dotted name leads through sections, as in an override on the command line."""

from __future__ import annotations

from memlint.formats.areal import batches, placement, roles, training
from memlint.formats.areal.config import CRITIC_HEAD, MODEL, ArealConfig
from memlint.formats.keys import FieldChange, Key, Keys, Written
from memlint.formats.verl.model import read_model


def _of_actor(row: Key) -> Key:
    """A key of the engine that trains, whose section was `model` in supervised training until 0.5.1."""
    return row._replace(older=(*row.older, f"model.{row.name.removeprefix('actor.')}"))


def _write_tokens(change: FieldChange) -> Written | None:
    """The bound of a micro-batch. The longest sequence has to fit."""
    length = change.run.sequence.length
    fits = isinstance(change.value, int) and isinstance(length, int) and change.value >= length
    section = "model" if "model" in change.section and "actor" not in change.section else "actor"
    return {f"{section}.mb_spec.max_tokens_per_mb": change.value} if fits else None


def _fsdp(change: FieldChange) -> bool:
    return change.run.parallelism.engine == "fsdp"


def _trains_by_reinforcement(config: ArealConfig) -> bool:
    return config.algorithm() == "rl"


KEYS = Keys(
    _of_actor(
        Key(
            *(MODEL, "text", "model.name"),
            about="The model: a name of the Hugging Face hub or a folder.",
            also=("model.architecture",),
            read=read_model,
            read_only=True,
        )
    ),
    Key(
        *(placement.MODE, "text", "parallelism.world_size"),
        about="GPUs of each engine, until 1.0.2: sglang:d4+fsdp:d4 has 4 that write completions and 4 that train. "
        "Letters: data, tensor, pipeline, context, expert.",
        also=("parallelism.data_parallel_size", "parallelism.gpus_per_node", "parallelism.sequence_parallel_size")
        + ("parallelism.tensor_parallel_size", "parallelism.pipeline_parallel_size", "parallelism.expert_parallel_size")
        + ("parallelism.context_parallel_size",),
        read=placement.read_world,
        read_only=True,
    ),
    _of_actor(
        Key(
            *(placement.BACKEND, "text"),
            about="The engine that trains and its GPUs, since 1.0.3: fsdp:d4, megatron:d2t2p2, archon:d4.",
            read_with=placement.MODE,
        )
    ),
    Key(
        *(placement.ROLLOUT, "text"),
        about="The engine that writes completions and its GPUs, since 1.0.3: sglang:d4, vllm:d2t2.",
        read_with=placement.MODE,
    ),
    Key(*(placement.EACH, "whole", "", 8), about="GPUs of each node.", least=1, read_with=placement.MODE),
    _of_actor(
        Key(
            *(training.DTYPE, "word", "precision.compute", "bfloat16"),
            about="The dtype that layers compute in; until 1.0.4 that of shards, gradients and optimizer states, too.",
            also=("parallelism.fsdp.param_dtype", "parallelism.engine", "parallelism.fsdp.loads_whole"),
            read=training.read_engine,
            read_only=True,
        )
    ),
    _of_actor(
        Key(
            *(training.STORED, "word", "model.weights_dtype", "float32"),
            about="The dtype of shards, gradients and optimizer states, since 2.0.0.",
            also=("precision.trainable_dtype",),
            read_with=training.DTYPE,
            read_only=True,
        )
    ),
    _of_actor(
        Key(
            *(training.REDUCED, "word", "parallelism.fsdp.reduce_dtype", "float32"),
            about="The dtype that gradients are reduced in.",
            read_with=training.DTYPE,
            read_only=True,
        )
    ),
    _of_actor(
        Key(
            *(training.LOADS, "flag", "", False),
            about="Load the model in host memory and send it to the other ranks. Without it each rank has the whole "
            "model on its GPU before it is divided.",
            read_with=training.DTYPE,
        )
    ),
    _of_actor(
        Key(
            *(training.CHUNK, "whole", "loss.chunk_tokens", 1024),
            about="Tokens whose log-probabilities are computed at a time, since 2.0.",
            least=1,
            read_with=training.DTYPE,
            read_only=True,
        )
    ),
    _of_actor(
        Key(
            *(training.HOST, "flag", "parallelism.fsdp.cpu_offload", False),
            about="Shards, gradients and optimizer states are in host memory.",
            when=training.uses_fsdp,
            can_write=_fsdp,
        )
    ),
    *(
        _of_actor(Key(*(key, "flag", "", default), about=about, read_with=training.DTYPE))
        for key, default, about in (
            (training.DIVIDED, True, "Megatron-LM: data-parallel ranks divide fp32 parameters and moments."),
            (training.IN_FP32, True, "Megatron-LM: gradients in fp32."),
        )
    ),
    _of_actor(
        Key(
            *(training.RECOMPUTES, "flag", "checkpointing.mode", False),
            about="Recompute each layer in the backward pass instead of keeping its activations.",
            values={True: "full", False: "none"},
            read=training.read_recomputation,
            can_write=_fsdp,
        )
    ),
    _of_actor(
        Key(
            *(training.GRANULARITY, "word", "", "full"),
            about="Megatron-LM: what is recomputed where `gradient_checkpointing` is on.",
            read_with=training.RECOMPUTES,
        )
    ),
    _of_actor(
        Key(
            *("actor.attn_impl", "text", "attention.implementation", "flash_attention_2"),
            about="How attention is computed.",
            read_only=True,
        )
    ),
    _of_actor(
        Key(
            *(training.ADAPTER, "flag", "method.kind", False),
            about="Train a LoRA adapter, in the dtype of its base.",
            also=("method.adapter_dtype",),
            when=training.uses_fsdp,
            read=training.read_adapter,
            values={True: "lora"},
        )
    ),
    _of_actor(
        Key(
            *(training.RANK, "whole", "method.rank", 32),
            about="The rank of the adapter.",
            least=1,
            read_with=training.ADAPTER,
        )
    ),
    _of_actor(
        Key(
            *("actor.lora_alpha", "whole", "method.alpha", 16),
            about="LoRA's update is scaled by alpha over rank. It takes no memory.",
            least=0,
            invalid="default",
        )
    ),
    _of_actor(
        Key(
            *(training.TARGETS, "words", "method.targets"),
            about="The linear layers that get an adapter: all of them unless given.",
            read_with=training.ADAPTER,
        )
    ),
    _of_actor(
        Key(
            *(CRITIC_HEAD, "flag", "method.freeze_vision_tower", False),
            about="A model with one output for each token: a reward model or a critic.",
            also=("method.freeze_multi_modal_projector",),
            read=training.read_towers,
            read_only=True,
        )
    ),
    Key(
        *(batches.PROMPT, "whole", "sequence.length"),
        about="The longest prompt in tokens, in supervised training the longest sample; longer ones are left out.",
        also=("sequence.max_prompt_length", "sequence.max_new_tokens"),
        least=1,
        read=batches.read_length,
        read_only=True,
    ),
    Key(
        *(batches.ANSWER, "whole", "", 16384),
        about="The longest answer in tokens.",
        least=1,
        read_with=batches.PROMPT,
    ),
    Key(
        *(batches.WHOLE, "whole", "", 32768),
        about="The most tokens of a prompt with its answer.",
        least=1,
        read_with=batches.PROMPT,
    ),
    Key(
        *(batches.PROMPTS, "whole", "batch.gradient_accumulation_steps", 1),
        about="Prompts of one step, in supervised training samples.",
        least=1,
        read_with=batches.TOKENS,
        read_only=True,
    ),
    Key(
        *(batches.SAMPLES, "whole", "method.num_generations", 1),
        about="Answers to each prompt.",
        least=1,
        invalid="default",
        when=_trains_by_reinforcement,
        read_only=True,
    ),
    Key(*(batches.UPDATES, "whole", "", 4), about="Updates of one step.", least=1, read_with=batches.TOKENS),
    _of_actor(
        Key(
            *(batches.TOKENS, "whole", "batch.max_tokens"),
            about="The most tokens of a micro-batch, which sequences are packed into. Without it a rank has all its "
            "sequences in one forward.",
            older=("actor.mb_spec.max_tokens_per_gpu", "model.mb_spec.max_tokens_per_gpu"),
            also=("batch.micro_batch_size",),
            least=1,
            read=batches.read_batch,
            write=_write_tokens,
        )
    ),
    _of_actor(
        Key(
            *(batches.PARTS, "whole", "", 1),
            about="The fewest micro-batches; their number where they have no bound.",
            least=1,
            read_with=batches.TOKENS,
        )
    ),
    _of_actor(
        Key(
            *("actor.pad_to_maximum", "flag", "", False),
            about="Pad each micro-batch to its bound, else to a multiple of 256 tokens.",
            read_with=batches.TOKENS,
        )
    ),
    _of_actor(
        Key(
            *(training.OPTIMIZER, "word", "optimizer.name", "adam"),
            about="adam, adam_bf16 (moments and a compensation in bf16), sgd.",
            read=training.read_optimizer,
            read_only=True,
        )
    ),
    _of_actor(
        Key(
            *(training.PRECISION_AWARE, "flag", "", False),
            about="Megatron-LM: fp32 parameters and moments in dtypes of their own.",
            read_with=training.OPTIMIZER,
        )
    ),
    _of_actor(
        Key(
            *("actor.optimizer.lr", "number", "optimizer.learning_rate", 1e-3),
            about="The learning rate.",
            least=0,
            invalid="ignored",
        )
    ),
    _of_actor(
        Key(
            *("actor.optimizer.gradient_clipping", "number", "optimizer.max_grad_norm", 1.0),
            about="The largest norm of the gradients.",
            least=0,
            invalid="ignored",
            read_only=True,
        )
    ),
    Key(
        *("actor.recompute_logprob", "flag", "rollout.log_prob_micro_batch_size", False),
        about="Compute the actor's log-probabilities again before the update.",
        also=("rollout.log_prob_length",),
        read=batches.read_log_probabilities,
        read_only=True,
    ),
    *(
        Key(*(key, kind, "", default), about=about, read_with="actor.recompute_logprob")
        for key, kind, default, about in (
            ("actor.use_decoupled_loss", "flag", False, "As `recompute_logprob`, for samples of an older policy."),
            ("actor.prox_logp_method", "word", "recompute", "loglinear estimates them without a forward."),
        )
    ),
    Key(
        *(roles.CRITIC, "text", "method.value_model"),
        about="The model that a critic starts from: PPO.",
        also=("method.stage",),
        read=roles.read_critic,
        read_only=True,
    ),
    Key(
        *(roles.CRITIC_TOKENS, "whole", "method.value_model.micro_batch_size"),
        about="The most tokens of the critic's micro-batches.",
        least=1,
        read_with=roles.CRITIC,
        read_only=True,
    ),
    Key(
        *(roles.CRITIC_RECOMPUTES, "flag", "", False),
        about="Recompute the critic's layers in the backward pass.",
        read_with=roles.CRITIC,
    ),
    Key(
        *(roles.PENALTY, "number", "method.reference_model", 0.1),
        about="The weight of the distance to a reference, which is loaded where this is above 0 and `ref` is there.",
        also=("rollout.offloads_reference", "rollout.model_processes"),
        least=0,
        read=roles.read_reference,
        read_only=True,
    ),
    Key(
        *(roles.REFERENCE_TOKENS, "whole", "rollout.reference_micro_batch_size"),
        about="The most tokens of the reference's micro-batches.",
        also=("rollout.reference_length",),
        least=1,
        read_with=roles.PENALTY,
        read_only=True,
    ),
    Key(
        *(roles.OFFLOADS, "flag", "rollout.generator", False),
        about="Models and engines on the same GPUs wait in host memory in turn.",
        also=("rollout.sleep_level", "rollout.offloads_weights", "rollout.offloads_optimizer", "rollout.own_process")
        + ("rollout.tensor_parallel_size",),
        read=roles.read_generator,
        read_only=True,
    ),
    *(
        Key(
            *(key, "number", "rollout.share" if key == roles.SHARES["sglang"] else "", 0.9),
            about=f"The share of each card that {name} takes.",
            least=0,
            most=1,
            read_with=roles.OFFLOADS,
            read_only=key == roles.SHARES["sglang"],
        )
        for name, key in (("SGLang", roles.SHARES["sglang"]), ("vLLM", roles.SHARES["vllm"]))
    ),
    *(
        _of_actor(Key(*(key, "flag", "", False), about=about))
        for key, about in (
            (training.BY_LAYER, "Optimizer states wait in host memory and step layer by layer: not modelled."),
            (training.TREES, "Sequences that share their beginnings are computed as a tree: a lower bound."),
            (training.KERNELS, "Kernels of the hub in the model: a lower bound."),
        )
    ),
)
