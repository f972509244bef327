"""Keys of SkyRL's policy whose meaning depends on others: its engine, its adapter, its batches and lengths.

SkyRL 0.3.0 skyrl/backends/skyrl_train/workers/fsdp/fsdp_worker.py and workers/worker.py; skyrl-train 0.2.0 and 0.4.0
have the same below skyrl_train/.
"""

from __future__ import annotations

from math import prod

from memlint.formats.entailed import put_entailed
from memlint.formats.fields import Fields
from memlint.formats.megatron_options import OPTIONS, put_options
from memlint.formats.skyrl import behaviour
from memlint.formats.skyrl.config import SkyRLConfig
from memlint.formats.target_patterns import put_targets
from memlint.formats.verl.config import VerlConfig
from memlint.formats.verl.parallel import put_groups_of, put_ulysses
from memlint.formats.vision_towers import apply_towers, excludes_tower
from memlint.run import Entailed, Origin

POLICY, PLACES = "trainer.policy", "trainer.placement"
LORA, FSDP, MEGATRON = (f"{POLICY}.{name}" for name in ("model.lora", "fsdp_config", "megatron_config"))
STRATEGY, RANK = "trainer.strategy", f"{LORA}.rank"
GPUS, NODES = f"{PLACES}.policy_num_gpus_per_node", f"{PLACES}.policy_num_nodes"
UPDATE, FORWARD = "trainer.micro_train_batch_size_per_gpu", "trainer.micro_forward_batch_size_per_gpu"
TOKENS, MINI, STEP = "trainer.max_tokens_per_microbatch", "trainer.policy_mini_batch_size", "trainer.train_batch_size"
SAMPLES, UNPADDED = "generator.n_samples_per_prompt", "trainer.remove_microbatch_padding"
PROMPT, INPUT = "trainer.max_prompt_length", "generator.max_input_length"
ANSWER, TURNS = "generator.sampling_params.max_generate_length", "generator.max_turns"
DEGREES = {
    f"{MEGATRON}.tensor_model_parallel_size": "parallelism.tensor_parallel_size",
    f"{MEGATRON}.pipeline_model_parallel_size": "parallelism.pipeline_parallel_size",
    f"{MEGATRON}.context_parallel_size": "parallelism.context_parallel_size",
    f"{MEGATRON}.expert_model_parallel_size": "parallelism.expert_parallel_size",
}
TOGETHER = tuple(DEGREES)[:3]  # the degrees that share one copy of the model
HOST_OPTIMIZER = f"{MEGATRON}.optimizer_config_kwargs.optimizer_cpu_offload"
RECOMPUTE = f"{MEGATRON}.transformer_config_kwargs.recompute_granularity"


def engine(config: SkyRLConfig) -> str:
    """fsdp1, fsdp2, megatron, or an engine that is not modelled. `fsdp` is FSDP 1 until 0.2, and FSDP 2 since, when
    `fsdp2` became another word for it (0.3.0 skyrl/train/utils/utils.py, validate_cfg)."""
    word = config.word(STRATEGY)
    is_fsdp1 = word == "fsdp" and config.is_older and config.written(STRATEGY) is not None
    return "fsdp1" if is_fsdp1 else "fsdp2" if word in ("fsdp", "fsdp2") else word


def read_world(fields: Fields, config: SkyRLConfig) -> None:
    """The policy's GPUs, unless the command line says otherwise."""
    if isinstance(fields.get("parallelism.world_size"), int):
        return
    each, nodes = config.integer(GPUS), config.integer(NODES)
    if each is None or nodes is None or config.is_open(GPUS):
        reason = config.origin(GPUS).detail if config.origin(GPUS).kind == "unknown" else ""
        said = f"nobody said how many GPUs (`{GPUS}`, --gpus)"
        fields.unknown("parallelism.world_size", reason or said)
        return
    fields.put("parallelism.world_size", each * nodes, config.origin(GPUS))
    fields.put("parallelism.gpus_per_node", each, config.origin(GPUS))


def read_engine(fields: Fields, config: SkyRLConfig) -> None:
    name = engine(config)
    if name == "megatron":
        _read_megatron(fields, config)
    elif name in ("fsdp1", "fsdp2"):
        fields.behave(*behaviour.FSDP)
        fields.put("parallelism.fsdp.version", int(name[-1]), config.origin(STRATEGY))
        fields.put("parallelism.fsdp.root_holds_ends", name == "fsdp2", config.origin(STRATEGY))
        fields.put("parallelism.fsdp.embedding_apart", name == "fsdp2", config.origin(STRATEGY))
        put_ulysses(fields, config, f"{POLICY}.sequence_parallel_size")
    else:
        fields.behave(*behaviour.FSDP)
        fields.put("stack.unmodelled", f"SkyRL's engine `{name}`", config.origin(STRATEGY))
        put_ulysses(fields, config, f"{POLICY}.sequence_parallel_size")


def _read_megatron(fields: Fields, config: SkyRLConfig) -> None:
    """bf16 parameters beside fp32 ones, which the distributed optimizer divides; layers are recomputed unless said."""
    fields.behave(*behaviour.MEGATRON)
    for key, field in DEGREES.items():
        fields.put(field, config.integer(key) or 1, config.origin(key))
    shared = prod(config.integer(key) or 1 for key in TOGETHER)
    world = fields.get("parallelism.world_size")
    if isinstance(world, int):
        fields.infer("parallelism.data_parallel_size", max(1, world // shared), "GPUs over those that share the model")
    else:
        fields.unknown("parallelism.data_parallel_size", "the number of GPUs is not known")
    fields.put("parallelism.replicates_optimizer", False, Origin("framework", detail="use_distributed_optimizer=True"))
    fields.put("checkpointing.mode", "full" if config.word(RECOMPUTE) == "full" else "none", config.origin(RECOMPUTE))
    if config.flag(HOST_OPTIMIZER):
        fields.put("offload.optimizer", "cpu", config.origin(HOST_OPTIMIZER))
    if config.integer(RANK):
        fields.unknown("method.kind", "what Megatron Bridge's adapters train is not read")
    others = {"micro_batch_size": UPDATE, "optimizer_cpu_offload": f"{HOST_OPTIMIZER}=true"}
    spell = {name: f"{MEGATRON}.{name}" for name in OPTIONS.values()} | others | {"use_distributed_optimizer": ""}
    recomputation = "" if config.word(RECOMPUTE) == "full" else f"{RECOMPUTE}=full"
    put_options(fields, spell.__getitem__, recomputation, "", "SkyRL 0.3.0")


def uses_fsdp(config: SkyRLConfig) -> bool:
    return engine(config) != "megatron"


def read_checkpointing(fields: Fields, config: SkyRLConfig) -> None:
    """FSDP's key: Megatron has options of its own (workers/megatron/megatron_worker.py reads none of this)."""
    key = "trainer.gradient_checkpointing"
    if uses_fsdp(config):
        fields.put("checkpointing.mode", "full" if config.flag(key) else "none", config.origin(key))


def read_sharding(fields: Fields, config: SkyRLConfig) -> None:
    """`fsdp_size` below the number of GPUs makes groups of that many, which hold copies (fsdp_utils.py,
    create_device_mesh)."""
    key = f"{FSDP}.reshard_after_forward"
    value = config.get(key)
    reshards = value is not False and str(value).lower() != "false"
    put_groups_of(fields, config, f"{FSDP}.fsdp_size", key, reshards)


def read_adapter(fields: Fields, config: SkyRLConfig) -> None:
    """A rank above 0 makes an adapter, in fp32 as its base."""
    rank = config.integer(RANK)
    fields.put("method.kind", "lora" if rank else "full", config.origin(RANK))
    if rank:
        fields.put("method.rank", rank, config.origin(RANK))
        fields.infer("method.adapter_dtype", "float32", _FP32)


_FP32 = "SkyRL loads the policy in fp32"


def put_adapters_of_plans(fields: Fields, config: SkyRLConfig) -> None:
    """What follows from an adapter where none trains yet; asked once all keys are read."""
    if uses_fsdp(config) and not config.integer(RANK):
        put_entailed(fields, _adapters_of_plans, _FP32)


def _adapters_of_plans(fields: Fields) -> tuple[Entailed, ...]:
    """An adapter that a plan trains instead; the engine then keeps its weights in host memory while it sleeps (0.3.0
    inference_servers/remote_inference_client.py, sleep)."""
    changes = (("method.adapter_dtype", "float32"), ("rollout.sync_bucket_bytes", 0))
    sleeps = (("rollout.sleep_level", 1),) if fields.get("rollout.sleep_level") == 2 else ()
    return (Entailed((("method.kind", "lora"),), (*changes, *sleeps)),)


def read_targets(fields: Fields, config: VerlConfig) -> None:
    """Names, or `all-linear`."""
    key = f"{LORA}.target_modules"
    value = config.get(key)
    put_targets(
        fields, value if isinstance(value, (str, list)) else "all-linear", config.origin(key), config.architecture
    )


def read_towers(fields: Fields, config: SkyRLConfig) -> None:
    """A vision tower trains with the rest unless an adapter leaves it out, or only the language model is loaded."""
    excluded, alone = f"{LORA}.exclude_modules", f"{POLICY}.language_model_only"
    frozen = config.flag(alone) or (bool(config.integer(RANK)) and excludes_tower(config.raw(excluded)))
    apply_towers(fields, config.architecture, frozen, config.origin(alone if config.flag(alone) else excluded))


def read_attention(fields: Fields, config: SkyRLConfig) -> None:
    """Without FlashAttention torch's attention, in older releases transformers' own (0.2.0 model_wrapper.py)."""
    key = "trainer.flash_attn"
    plain = "eager" if config.is_older else "sdpa"
    fields.put("attention.implementation", "flash_attention_2" if config.flag(key) else plain, config.origin(key))


def read_entropy(fields: Fields, config: SkyRLConfig) -> None:
    """The entropy is computed 1024 tokens of each row at a time, with a gradient only where it is part of the loss."""
    key = "trainer.algorithm.use_entropy_loss"
    fields.put("loss.entropy", "watched", config.origin(key))
    if config.flag(key):
        fields.put(
            "stack.unmodelled", f"the gradient of an entropy that is taken in chunks (`{key}`)", config.origin(key)
        )
        fields.put("stack.unmodelled_adds", True, config.origin(key))


_ENTROPY_ROWS = 1024  # utils/torch_utils.py, chunked_entropy_from_logits


def read_lengths(fields: Fields, config: SkyRLConfig) -> None:
    """A prompt and an answer. In several turns the conversation grows until it is longer than `max_input_length`, and
    the last answer comes on top (generators/skyrl_gym_generator.py, agent_loop)."""
    unknown = config.is_unknown(PROMPT, ANSWER, TURNS)
    prompt, answer = config.integer(PROMPT), config.integer(ANSWER)
    if unknown or prompt is None or answer is None:
        fields.unknown(
            "sequence.length", config.origin(unknown or PROMPT).detail or f"`{unknown or PROMPT}` is not known"
        )
        return
    fields.put("sequence.max_prompt_length", prompt, config.origin(PROMPT))
    has_turns = (config.integer(TURNS) or 1) > 1
    given = config.integer(INPUT)
    entered = max(prompt, given or prompt) if has_turns else prompt
    answers = entered - prompt + answer
    fields.put("sequence.max_new_tokens", answers, config.origin(ANSWER))
    words = "max_input_length + max_generate_length" if has_turns else "max_prompt_length + max_generate_length"
    fields.infer("sequence.length", prompt + answers, words)


def read_batch(fields: Fields, config: SkyRLConfig) -> None:
    """The update's micro-batch, and how many of them make `policy_mini_batch_size` prompts with their answers. With a
    bound on tokens, sequences are packed up to it; one that is longer stands alone."""
    tokens, length = config.integer(TOKENS), fields.get("sequence.length")
    held = sequences_a_rank(fields, config, MINI)
    if tokens and isinstance(length, int):
        most = max(tokens, length)
        most = min(most, held * length) if held else most
        fields.put("batch.max_tokens", most, config.origin(TOKENS))
        fields.put("batch.micro_batch_size", max(1, most // length), config.origin(TOKENS))
    else:
        put_rows(fields, config, "batch.micro_batch_size", UPDATE, held)
    micro = fields.get("batch.micro_batch_size")
    rows = micro if isinstance(micro, int) and not config.flag(UNPADDED) else 1
    fields.infer("loss.chunk_tokens", _ENTROPY_ROWS * rows, "SkyRL takes the entropy of 1024 tokens of each row")
    if held and isinstance(micro, int):
        fields.put("batch.gradient_accumulation_steps", max(1, -(-held // micro)), config.origin(MINI))
    else:
        reason = "it follows from the mini-batch and the number of GPUs"
        fields.unknown("batch.gradient_accumulation_steps", reason)


def read_forward(fields: Fields, config: SkyRLConfig) -> None:
    """The forward for log-probabilities, of the policy and of a reference."""
    tokens, length = config.integer(TOKENS), fields.get("sequence.length")
    held = sequences_a_rank(fields, config, STEP)
    for role in ("log_prob", "reference"):
        if role == "reference" and fields.get("method.reference_model") == "none":
            continue
        if tokens and isinstance(length, int):
            fields.put(f"rollout.{role}_micro_batch_size", 1, config.origin(TOKENS))
            fields.put(f"rollout.{role}_length", max(tokens, length), config.origin(TOKENS))
        else:
            put_rows(fields, config, f"rollout.{role}_micro_batch_size", FORWARD, held)


def put_rows(fields: Fields, config: SkyRLConfig, field: str, key: str, held: int | None) -> None:
    rows = config.integer(key)
    if rows is None:
        fields.unknown(field, config.origin(key).detail or f"`{key}` is not known")
    else:
        fields.put(field, min(rows, held) if held else rows, config.origin(key))


def sequences_a_rank(fields: Fields, config: SkyRLConfig, prompts_key: str) -> int | None:
    """Sequences of a batch on one rank: prompts with their answers; None where one of the sizes is not known."""
    prompts, each = config.integer(prompts_key), config.integer(SAMPLES)
    ranks = fields.get("parallelism.data_parallel_size")
    return max(1, prompts * each // ranks) if prompts and each and isinstance(ranks, int) else None
