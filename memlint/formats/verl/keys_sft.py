"""The keys of verl's SFT trainer (`verl.trainer.sft_trainer`, before 0.7 `verl.trainer.fsdp_sft_trainer`) that bear on
memory: `trainer/config/sft_trainer_engine.yaml` of verl 0.9.1 and `sft_trainer.yaml` of earlier releases.
"""

from __future__ import annotations

from memlint.formats.fields import Fields, value_at
from memlint.formats.keys import FieldChange, Key, Keys, Written
from memlint.formats.verl import model, parallel
from memlint.formats.verl.config import VerlConfig
from memlint.formats.verl.engine_keys import megatron_keys, veomni_keys
from memlint.formats.verl.keys import read_optimizer, write_optimizer


def read_lengths(fields: Fields, config: VerlConfig) -> None:
    """Samples are cut or refused at `max_length`. Dynamic batches are bounded by tokens (data.use_dynamic_bsz)."""
    length = config.integer("data.max_length")
    if length is None:
        fields.unknown("sequence.length", config.origin("data.max_length").detail or "`data.max_length` is not known")
        return
    fields.put("sequence.length", length, config.origin("data.max_length"))


def read_batch(fields: Fields, config: VerlConfig) -> None:
    """The micro-batch, and how many of them make `train_batch_size` samples."""
    length, size = fields.get("sequence.length"), config.integer("data.micro_batch_size_per_gpu")
    tokens = config.integer("data.max_token_len_per_gpu")
    older = config.written("model.path") != "model.path"
    if not older and config.flag("data.use_dynamic_bsz") and tokens and isinstance(length, int):
        _read_tokens(fields, config, tokens * (config.integer("ulysses_sequence_parallel_size") or 1), length)
    elif size is None:
        origin = config.origin("data.micro_batch_size_per_gpu")
        fields.unknown("batch.micro_batch_size", origin.detail or "`data.micro_batch_size_per_gpu` is not set")
    else:
        _read_size(fields, config, size)
    _accumulation(fields, config)


_A_MACHINE = 8  # GPUs, where nobody says how many ranks share a step's samples


def _read_tokens(fields: Fields, config: VerlConfig, bound: int, length: int) -> None:
    """A dynamic batch: at most `bound` tokens, and no more than a rank's part of a step's samples has (verl 0.9.1
    trainer/sft_trainer.py, train_batch_size_per_dp)."""
    key, samples = "data.max_token_len_per_gpu", config.integer("data.train_batch_size") or 1
    ranks = fields.get("parallelism.data_parallel_size")
    share = max(1, samples // (ranks if isinstance(ranks, int) else _A_MACHINE)) * length
    if share < bound and not isinstance(ranks, int):
        why = f"a GPU's part of `train_batch_size: {samples}` may have fewer tokens than `max_token_len_per_gpu`"
        fields.unknown("batch.micro_batch_size", f"{why}: say how many GPUs there are (--gpus)")
        return
    fields.put("batch.max_tokens", min(bound, share), config.origin(key))
    fields.put("batch.micro_batch_size", max(1, min(bound, share) // length), config.origin(key))


def _read_size(fields: Fields, config: VerlConfig, size: int) -> None:
    """Before verl 0.2 the micro-batch is that of all GPUs (0.1 trainer/fsdp_sft_trainer.py:90)."""
    name, ranks = "batch.micro_batch_size", fields.get("parallelism.data_parallel_size")
    if config.written("data.micro_batch_size_per_gpu") != "data.micro_batch_size":
        fields.put(name, size, config.origin("data.micro_batch_size_per_gpu"))
    elif isinstance(ranks, int):
        fields.put(name, max(1, size // ranks), config.origin("data.micro_batch_size_per_gpu"))
    else:
        fields.unknown(name, "`data.micro_batch_size` is that of all GPUs: say how many (--gpus)")


def _accumulation(fields: Fields, config: VerlConfig) -> None:
    total, micro = config.integer("data.train_batch_size"), fields.get("batch.micro_batch_size")
    ranks = fields.get("parallelism.data_parallel_size")
    if total and isinstance(micro, int) and isinstance(ranks, int):
        origin = config.origin("data.train_batch_size")
        fields.put("batch.gradient_accumulation_steps", max(1, total // (ranks * micro)), origin)
    else:
        fields.unknown("batch.gradient_accumulation_steps", "it follows from `train_batch_size` and the GPUs")


def read_loss(fields: Fields, config: VerlConfig) -> None:
    """The engine's trainer computes log-probabilities as in reinforcement learning; the older one, whose model is
    `partial_pretrain`, torch's cross entropy, in fp32 under autocast (verl 0.5 trainer/fsdp_sft_trainer.py:369)."""
    older = _is_older(config)
    fields.put("loss.kind", "plain" if older else "fused_ce", config.origin("model.path"))
    fields.put("loss.in_logits_dtype", older, config.origin("model.path"))


_OLDER_OFFLOAD = ("model.fsdp_config.cpu_offload", "model.fsdp_config.offload_params")


def _is_older(config: VerlConfig) -> bool:
    """Whether it is for the trainer before the engines, whose model is `partial_pretrain`."""
    return config.written("model.path") == "model.partial_pretrain"


def read_offload(fields: Fields, config: VerlConfig) -> None:
    """The older trainer gives FSDP `CPUOffload(offload_params)` where `cpu_offload` is on: without both nothing moves
    (verl 0.5 trainer/fsdp_sft_trainer.py:254). FSDP 2 reads the policy of the newer one."""
    fields.put("planning.offloads_under_fsdp2", not _is_older(config), config.origin("model.path"))
    keys = _OLDER_OFFLOAD if _is_older(config) else ("engine.offload_policy",)
    reads = _is_older(config) or parallel.strategy(config) == "fsdp2"
    fields.put("parallelism.fsdp.cpu_offload", reads and all(map(config.flag, keys)), config.origin(keys[0]))


def _write_offload(change: FieldChange) -> Written | None:
    """The switch with what it needs: the older trainer's second one, the newer one's strategy."""
    if value_at(change.section, ("model", "partial_pretrain")) is not None:
        return dict.fromkeys(_OLDER_OFFLOAD, change.value)
    newer = change.run.parallelism.fsdp.version == 2
    return {"engine.offload_policy": change.value, **({} if newer else {"engine.strategy": "fsdp2"})}


def _write_batch(change: FieldChange) -> Written | None:
    """The accumulation follows from the total batch."""
    return {"data.micro_batch_size_per_gpu": change.value} if change.field == "batch.micro_batch_size" else None


def _write_tokens(change: FieldChange) -> Written | None:
    return {"data.max_token_len_per_gpu": change.value // change.run.parallelism.sequence_parallel_size}


KEYS = Keys(
    Key(
        *("model.path", "text", "model.name"),
        about="The model: a name of the Hugging Face hub or a folder.",
        older=("model.partial_pretrain",),
        also=("model.architecture",),
        read=model.read_model,
        read_only=True,
    ),
    Key(
        *("engine.model_dtype", "word", "model.weights_dtype", "fp32"),
        about="The dtype of parameters, gradients and optimizer states.",
        older=("model.fsdp_config.model_dtype",),
        also=("precision.trainable_dtype",),
        read=parallel.read_dtype,
        read_only=True,
    ),
    Key(
        *("model.lora_rank", "whole", "method.rank", 0),
        about="The rank of a LoRA adapter; 0 trains all parameters.",
        also=("method.kind",),
        least=0,
        read=model.read_adapter,
        read_only=True,
    ),
    Key(
        *("model.lora_alpha", "whole", "method.alpha", 16),
        about="LoRA's update is scaled by alpha over rank. It takes no memory.",
        least=0,
        when=model.trains_adapter,
        invalid="default",
    ),
    Key(
        *("model.target_modules", "words", "method.targets", "all-linear"),
        about="The linear layers that get an adapter.",
        when=model.trains_adapter,
        read=model.read_targets,
        read_only=True,
    ),
    Key(
        *("model.enable_gradient_checkpointing", "flag", "checkpointing.mode", True),
        about="Recompute each layer in the backward pass instead of keeping its activations.",
        values={True: "full", False: "none"},
    ),
    Key(
        *("model.use_remove_padding", "flag", "sequence.unpadded", True),
        about="Join the samples of a micro-batch without padding.",
        older=("use_remove_padding",),
    ),
    Key(
        *("model.use_liger", "flag", "loss.liger_kernels", False),
        about="Liger's kernels for norms and MLPs.",
    ),
    Key(
        *("model.override_config.attn_implementation", "word", "attention.implementation"),
        about="The attention kernel; FlashAttention 2 unless said.",
        read=parallel.read_attention,
        read_only=True,
    ),
    Key(
        *("trainer.n_gpus_per_node", "whole", "parallelism.gpus_per_node", 1),
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
        *("engine.strategy", "word", "parallelism.engine", "fsdp"),
        about="The training engine: fsdp, fsdp2 or megatron.",
        older=("model.strategy",),
        also=("parallelism.fsdp.version",),
        read=parallel.read_engine,
        read_only=True,
    ),
    Key(
        *("engine.ulysses_sequence_parallel_size", "whole", "parallelism.sequence_parallel_size", 1),
        about="GPUs that share each sequence.",
        older=("ulysses_sequence_parallel_size",),
        also=("parallelism.data_parallel_size",),
        least=1,
        read=parallel.read_ulysses,
        read_only=True,
    ),
    Key(
        *("engine.reshard_after_forward", "flag", "parallelism.fsdp.reshard_after_forward", True),
        about="Free a layer's gathered parameters after its forward.",
        older=("model.fsdp_config.reshard_after_forward",),
        also=("parallelism.fsdp.strategy",),
        read=parallel.read_reshard,
        read_only=True,
    ),
    Key(
        *("engine.fsdp_size", "whole", "parallelism.fsdp.shard_group_size", -1),
        about="GPUs that share one copy of the model; -1: all of them.",
        older=("model.fsdp_config.fsdp_size",),
        read_with="engine.reshard_after_forward",
        read_only=True,
    ),
    Key(
        *("engine.offload_policy", "flag", "parallelism.fsdp.cpu_offload", False),
        about="Keep parameters, gradients and optimizer states in host memory. FSDP 2 alone reads it.",
        read=read_offload,
        write=_write_offload,
    ),
    Key(
        *(_OLDER_OFFLOAD[0], "flag", "", False),
        about="The older trainer's switch for shards in host memory; it wants `offload_params` as well.",
        read_with="engine.offload_policy",
    ),
    Key(
        *(_OLDER_OFFLOAD[1], "flag", "", False),
        about="Shards in host memory, where `cpu_offload` is on.",
        read_with="engine.offload_policy",
    ),
    *megatron_keys("optim", "engine", "engine.strategy"),
    *veomni_keys("engine", "engine.strategy"),
    Key(
        *("data.max_length", "whole", "sequence.length", 1024),
        about="The longest sample in tokens.",
        least=1,
        read=read_lengths,
    ),
    Key(
        *("data.micro_batch_size_per_gpu", "whole", "batch.micro_batch_size", 4),
        about="Samples of one forward and backward on a GPU.",
        also=("batch.gradient_accumulation_steps",),
        older=("data.micro_batch_size",),
        least=1,
        read=read_batch,
        write=_write_batch,
    ),
    Key(
        *("data.use_dynamic_bsz", "flag", "", True),
        about="Bound a micro-batch by its tokens instead of its samples.",
        read_with="data.micro_batch_size_per_gpu",
    ),
    Key(
        *("data.max_token_len_per_gpu", "whole", "batch.max_tokens", 8192),
        about="Tokens of one forward and backward on a GPU under `use_dynamic_bsz`.",
        least=1,
        read_with="data.micro_batch_size_per_gpu",
        write=_write_tokens,
    ),
    Key(
        *("data.train_batch_size", "whole", "", 256),
        about="Samples of one step, on all GPUs.",
        least=1,
        read_with="data.micro_batch_size_per_gpu",
    ),
    Key(
        *("optim.optimizer", "text", "optimizer.name", "AdamW"),
        about="The optimizer's class.",
        read=read_optimizer,
        write=write_optimizer,
    ),
    Key(
        *("optim.optimizer_impl", "text", "", "torch.optim"),
        about="The module that has the optimizer's class.",
        read_with="optim.optimizer",
    ),
    Key(
        *("optim.lr", "number", "optimizer.learning_rate", 0.001),
        about="The learning rate.",
        least=0,
        invalid="ignored",
    ),
    Key(
        *("model.use_fused_kernels", "flag", "loss.kind", False),
        about="Compute log-probabilities in chunks of tokens.",
        also=("loss.in_logits_dtype",),
        read=read_loss,
        read_only=True,
    ),
)
