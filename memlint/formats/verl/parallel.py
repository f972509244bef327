"""GPUs and engine of a verl file: FSDP in both versions. Megatron-LM and engines over FSDP 2 get a lower bound."""

from __future__ import annotations

from memlint.formats.fields import Fields
from memlint.formats.fsdp_groups import put_groups
from memlint.formats.verl.batches import ACTOR
from memlint.formats.verl.config import VerlConfig
from memlint.formats.verl.model import DTYPES
from memlint.formats.verl.releases import ulysses_key
from memlint.run import Origin

_OTHER_ENGINES = ("megatron", "veomni", "torchtitan", "automodel", "mindspeed")
_OVER_FSDP2 = ("veomni", "automodel", "fsdp_turbo")


def read_world(fields: Fields, config: VerlConfig) -> None:
    """`trainer.n_gpus_per_node` x `trainer.nnodes`, unless the command line says otherwise. SFT is started by torchrun,
    which says it."""
    if isinstance(fields.get("parallelism.world_size"), int):
        return
    each, nodes = config.integer("trainer.n_gpus_per_node"), config.integer("trainer.nnodes")
    if config.is_sft and config.written("trainer.n_gpus_per_node") is None:
        each = None
    if each is None or nodes is None:
        said_by = "torchrun's `--nproc_per_node`" if config.is_sft else "`trainer.n_gpus_per_node`"
        fields.unknown("parallelism.world_size", f"nobody said how many GPUs ({said_by}, --gpus)")
        return
    fields.put("parallelism.world_size", each * nodes, config.origin("trainer.n_gpus_per_node"))
    fields.put("parallelism.gpus_per_node", each, config.origin("trainer.n_gpus_per_node"))


def strategy(config: VerlConfig) -> str:
    """fsdp, fsdp2, or an engine that is not modelled. A config file of another engine says so by its name, as does a
    choice of Hydra's groups `model_engine` (trainer/config/model_engine), and of SFT `engine` and `optim`."""
    groups = ("config_name", "cn", "model_engine", *(("engine", "optim") if config.is_sft else ()))
    names = (config.own.value.get(key) for key in groups)
    text = " ".join(name for name in names if isinstance(name, str))
    named = next((one for one in _OTHER_ENGINES if one in text), "")
    given = next((one for one in _OTHER_ENGINES if config.has("actor_rollout_ref", "actor", one)), "")
    if config.is_sft and config.has("engine", "tensor_model_parallel_size"):
        given = "megatron"
    key = "model.strategy" if config.is_sft else f"{ACTOR}.strategy"
    word = config.word(key)
    own = word if config.written(key) else ""
    return own or named or ("megatron" if given == "megatron" else "") or word or "fsdp"


def read_engine(fields: Fields, config: VerlConfig) -> None:
    key = "model.strategy" if config.is_sft else f"{ACTOR}.strategy"
    name = strategy(config)
    if name not in ("fsdp", "fsdp2"):
        fields.put("parallelism.engine", name, config.origin(key))
        if name == "veomni":
            _read_veomni(fields, config)
        elif name not in _OVER_FSDP2:
            _megatron_degrees(fields, config)
        return
    fields.put("parallelism.engine", "fsdp", config.origin(key))
    fields.put("parallelism.fsdp.version", 2 if name == "fsdp2" else 1, config.origin(key))


def _read_veomni(fields: Fields, config: VerlConfig) -> None:
    """VeOmni loads fp32 weights where it computes in mixed precision, else bf16 ones (verl 0.9.1
    workers/engine/veomni/transformer_impl.py:300)."""
    section = "engine" if config.is_sft else f"{ACTOR}.veomni"
    mixed, host = f"{section}.mixed_precision", f"{section}.enable_fsdp_offload"
    dtype = "float32" if config.flag(mixed) else "bfloat16"
    for field in ("model.weights_dtype", "precision.trainable_dtype"):
        fields.put(field, dtype, config.origin(mixed))
    fields.put("parallelism.fsdp.cpu_offload", config.flag(host), config.origin(host))


def _megatron_degrees(fields: Fields, config: VerlConfig) -> None:
    section = "engine" if config.is_sft else f"{ACTOR}.megatron"
    for part in ("tensor", "pipeline"):
        key = f"{section}.{part}_model_parallel_size"
        fields.put(f"parallelism.{part}_parallel_size", config.integer(key) or 1, config.origin(key))
    for part in ("context", "expert"):
        name = f"{section}.{part}_{'model_' if part == 'expert' else ''}parallel_size"
        fields.put(f"parallelism.{part}_parallel_size", config.integer(name) or 1, config.origin(name))


HOST_OPTIMIZER = "override_optimizer_config.optimizer_cpu_offload"
HOST_SHARE = "override_optimizer_config.optimizer_offload_fraction"


def steps_on_host(config: VerlConfig) -> bool:
    """Whether Megatron-LM's optimizer steps on the CPU (megatron core 0.15 optimizer/optimizer_config.py)."""
    section = "optim" if config.is_sft else f"{ACTOR}.optim"
    return strategy(config) == "megatron" and config.flag(f"{section}.{HOST_OPTIMIZER}")


def read_host_optimizer(fields: Fields, config: VerlConfig) -> None:
    section = "optim" if config.is_sft else f"{ACTOR}.optim"
    if steps_on_host(config):
        fields.put("offload.optimizer", "cpu", config.origin(f"{section}.{HOST_OPTIMIZER}"))


def fsdp_key(config: VerlConfig, name: str) -> str:
    return f"model.fsdp_config.{name}" if config.is_sft else f"{ACTOR}.fsdp_config.{name}"


def read_reshard(fields: Fields, config: VerlConfig) -> None:
    """`fsdp_size` below the number of GPUs makes groups of that many, which hold copies (engine/fsdp/utils.py)."""
    key = fsdp_key(config, "reshard_after_forward")
    put_groups_of(fields, config, fsdp_key(config, "fsdp_size"), key, config.flag(key))


def put_groups_of(fields: Fields, config: VerlConfig, size_key: str, key: str, reshards: bool) -> None:
    """Groups of as many GPUs as `size_key` says, where that is fewer than there are. `key` says `reshards`."""
    size, world = config.integer(size_key), fields.get("parallelism.world_size")
    group = size if size is not None and isinstance(world, int) and size < world else None
    put_groups(fields, reshards, config.origin(key), group, config.origin(size_key))


def read_dtype(fields: Fields, config: VerlConfig) -> None:
    """Parameters are loaded and kept in `model_dtype`, fp32 unless said; gradients and optimizer states with them."""
    key = fsdp_key(config, "model_dtype")
    dtype = DTYPES.get(config.word(key))
    for field in ("model.weights_dtype", "precision.trainable_dtype"):
        if dtype is None:
            fields.unknown(field, f"`{key}` is no dtype that is known here")
        else:
            fields.put(field, dtype, config.origin(key))


def read_ulysses(fields: Fields, config: VerlConfig) -> None:
    put_ulysses(fields, config, ulysses_key(config))


def put_ulysses(fields: Fields, config: VerlConfig, key: str) -> None:
    """The GPUs that share a sequence, as `key` says, and how many ranks of data that leaves."""
    degree = config.integer(key) or 1
    fields.put("parallelism.sequence_parallel_size", degree, config.origin(key))
    world = fields.get("parallelism.world_size")
    if isinstance(world, int):
        fields.infer("parallelism.data_parallel_size", max(1, world // degree), "GPUs over the Ulysses degree")
    else:
        fields.unknown("parallelism.data_parallel_size", "the number of GPUs is not known")


def read_attention(fields: Fields, config: VerlConfig) -> None:
    """FlashAttention 2 unless `override_config` says otherwise (verl 0.9.1 workers/config/model.py:185)."""
    section = "model" if config.is_sft else "actor_rollout_ref.model"
    key = f"{section}.override_config.attn_implementation"
    value = config.get(key)
    if isinstance(value, str) and value:
        fields.put("attention.implementation", value, config.origin(key))
    else:
        detail = "verl 0.9.1 workers/config/model.py: attn_implementation"
        fields.put("attention.implementation", "flash_attention_2", Origin("default", detail=detail))
