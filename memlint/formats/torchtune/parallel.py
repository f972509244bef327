"""How many GPUs a torchtune file runs on, and how they share the model."""

from __future__ import annotations

from memlint.formats.fields import Fields, as_bool, as_int, as_words
from memlint.formats.torchtune.behaviour import SHARDED
from memlint.formats.torchtune.config import TuneConfig
from memlint.run import UNKNOWN

CUSTOM = "custom_sharded_layers"
TENSOR, CONTEXT, COPIES = "tensor_parallel_dim", "context_parallel_dim", "data_parallel_replicate_dim"
_ENDS = frozenset(("tok_embeddings", "output"))
_FSDP1_BEFORE = (0, 3)  # 0.1 and 0.2: FullyShardedDataParallel


def read_world(fields: Fields, config: TuneConfig) -> None:
    """One GPU for recipes of one device. Else the number that a command, the settings or the comments say."""
    recipe, gpus = config.recipe, fields.get("parallelism.world_size")
    if recipe.is_distributed is False:
        fields.infer("parallelism.world_size", 1, f"{recipe.said_by}: a recipe for one device")
        fields.infer("parallelism.gpus_per_node", 1, f"{recipe.said_by}: a recipe for one device")
    elif not isinstance(gpus, int) and recipe.gpus:
        fields.infer("parallelism.world_size", recipe.gpus, f"{recipe.said_by}: `--nproc_per_node {recipe.per_node}`")
        fields.infer("parallelism.gpus_per_node", recipe.per_node, f"{recipe.said_by}")
    world = fields.get("parallelism.world_size")
    if not isinstance(world, int):
        reason = "no command says on how many GPUs (`--nproc_per_node`)"
        fields.unknown("parallelism.world_size", reason)
        fields.unknown("parallelism.data_parallel_size", reason)
    reads = recipe.is_distributed is not False
    tensor, context = (_dimension(config, key) if reads else 1 for key in (TENSOR, CONTEXT))
    fields.put("parallelism.tensor_parallel_size", tensor, config.origin(TENSOR))
    fields.put("parallelism.context_parallel_size", context, config.origin(CONTEXT))
    if isinstance(world, int):
        ranks = max(1, world // (tensor * context))
        fields.infer("parallelism.data_parallel_size", ranks, "the GPUs that share no matrix or sequence")
    _read_engine(fields, config, world)


def _dimension(config: TuneConfig, key: str) -> int:
    return as_int(config.get(key)) or 1


def _read_engine(fields: Fields, config: TuneConfig, world: object) -> None:
    """FSDP2 in recipes for several GPUs; nothing on one, where 0.6 leaves it out of full fine-tuning."""
    if config.recipe.is_distributed is False or (world == 1 and not config.recipe.is_distributed):
        fields.infer("parallelism.engine", "single", f"{config.recipe.said_by or 'one GPU'}")
        return
    if config.recipe.is_distributed is None and not isinstance(world, int):
        fields.infer("parallelism.engine", "fsdp", "nobody says which recipe runs")
    fields.behave(*SHARDED)
    if config.release < _FSDP1_BEFORE:
        fields.infer("parallelism.fsdp.version", 1, "torchtune before 0.3")
    named = frozenset(as_words(config.raw(CUSTOM)))
    fields.put("parallelism.fsdp.root_holds_ends", not _ENDS & named, config.origin(CUSTOM))
    _read_offload(fields, config)
    copies = _dimension(config, COPIES)
    ranks = fields.get("parallelism.data_parallel_size")
    if copies > 1 and isinstance(ranks, int):
        fields.put("parallelism.fsdp.strategy", "HYBRID_SHARD", config.origin(COPIES))
        fields.put("parallelism.fsdp.shard_group_size", max(1, ranks // copies), config.origin(COPIES))


def _read_offload(fields: Fields, config: TuneConfig) -> None:
    for key, name, default in (
        ("fsdp_cpu_offload", "parallelism.fsdp.cpu_offload", False),
        ("fsdp_reshard_after_forward", "parallelism.fsdp.reshard_after_forward", True),
    ):
        value = config.get(key)
        if value is UNKNOWN:
            fields.unknown(name, f"`{key}` is a placeholder")
        else:
            given = as_bool(value)
            fields.put(name, default if given is None else given, config.origin(key))
    if not fields.get("parallelism.fsdp.reshard_after_forward"):
        fields.infer("parallelism.fsdp.strategy", "SHARD_GRAD_OP", "`fsdp_reshard_after_forward`")
