"""Keys of TorchTitan whose meaning depends on others (0.2.2 torchtitan/train.py, distributed/parallel_dims.py)."""

from __future__ import annotations

from math import prod

from memlint.formats.base import named_model
from memlint.formats.fields import STATED_MODEL, Fields
from memlint.formats.fsdp_groups import put_groups
from memlint.formats.torchtitan import behaviour, families
from memlint.formats.torchtitan.config import TitanConfig
from memlint.run import UNKNOWN, Origin

NAME, FLAVOR = "model.name", "model.flavor"
MICRO, GLOBAL = "training.local_batch_size", "training.global_batch_size"
REPLICATE, SHARD = (f"parallelism.data_parallel_{name}_degree" for name in ("replicate", "shard"))
TENSOR, PIPELINE, CONTEXT = (f"parallelism.{name}_parallel_degree" for name in ("tensor", "pipeline", "context"))
DEGREES = {
    TENSOR: "parallelism.tensor_parallel_size",
    PIPELINE: "parallelism.pipeline_parallel_size",
    CONTEXT: "parallelism.context_parallel_size",
}
MODE, OPTION = "activation_checkpoint.mode", "activation_checkpoint.selective_ac_option"
COMPILE, PARTS, CONVERTERS = "compile.enable", "compile.components", "model.converters"
RESHARDS = "parallelism.fsdp_reshard_after_forward"
DTYPE = "training.dtype"
PARAMETERS, REDUCES = (f"training.mixed_precision_{name}" for name in ("param", "reduce"))
# What stays of a layer that is checkpointed by operators: the attention, and the result of every second product of
# matrices in their order (models/llama3/infra/parallelize.py, _op_sac_save_list; _apply_op_sac).
KEPT = ("q_proj", "v_proj", "attention", "gate_proj", "down_proj")


def read_model(fields: Fields, config: TitanConfig) -> None:
    """The model starts from random weights, unless a checkpoint is loaded into it."""
    name, flavor = config.text(NAME), config.text(FLAVOR)
    found = families.named(name, flavor)
    known = found or config.context.model_name
    fields.put("model.from_scratch", True, Origin("framework", detail="TorchTitan: init_weights"))
    fields.put("attention.implementation", families.attention(flavor), config.origin(FLAVOR))
    if not known:
        reason = f"the flavor `{flavor}` of `{name}` is not known here"
        fields.unknown("model.name", reason)
        fields.unknown("model.architecture", reason)
        return
    fields.put("model.name", known, config.origin(FLAVOR) if found else STATED_MODEL)
    architecture, origin = named_model(config.context, known, config.section.document.path)
    fields.put("model.architecture", UNKNOWN if architecture is None else architecture, origin)
    if found and families.has_experts(name, flavor):
        fields.put("stack.unmodelled", "TorchTitan's own experts", config.origin(NAME))
        fields.put("stack.unmodelled_adds", True, config.origin(NAME))


def read_degrees(fields: Fields, config: TitanConfig) -> None:
    """How the GPUs are divided; what no degree takes is sharded data."""
    for key, field in DEGREES.items():
        fields.put(field, max(1, config.count(key)), config.origin(key))
    if config.count(TENSOR) > 1:
        fields.put(
            "stack.unmodelled", "tensor parallelism of DTensor, which divides sequences too", config.origin(TENSOR)
        )
        fields.put("stack.unmodelled_adds", True, config.origin(TENSOR))
    shared, world = _shared(config), fields.get("parallelism.world_size")
    replicas, sharded = max(1, config.count(REPLICATE)), config.count(SHARD)
    if sharded > 0 and not isinstance(world, int):
        fields.put("parallelism.world_size", replicas * sharded * shared, config.origin(SHARD))
    elif not isinstance(world, int):
        fields.unknown("parallelism.world_size", "nobody said how many GPUs (torchrun's `--nproc_per_node`, --gpus)")
        fields.unknown("parallelism.data_parallel_size", "the number of GPUs is not known")
        fields.behave(*behaviour.FSDP)
        return
    world = fields.get("parallelism.world_size")
    ranks = max(1, world // shared)
    fields.infer("parallelism.data_parallel_size", ranks, "GPUs over those that share the model")
    _read_engine(fields, config, max(1, ranks // replicas), replicas)


def _shared(config: TitanConfig) -> int:
    return prod(max(1, config.count(key)) for key in DEGREES)


def _read_engine(fields: Fields, config: TitanConfig, sharded: int, replicas: int) -> None:
    """FSDP over what shards or shares sequences, DDP over copies alone, else a single GPU under autocast."""
    over = sharded * max(1, config.count(CONTEXT))
    if over == 1:
        engine = "ddp" if replicas > 1 else "single"
        fields.infer("parallelism.engine", engine, "no data is sharded")
        fields.put("precision.autocast", config.text(PARAMETERS) == "bfloat16", config.origin(PARAMETERS))
        return
    fields.behave(*behaviour.FSDP)
    reshards = {"always": True, "never": False}.get(config.text(RESHARDS), config.count(PIPELINE) <= 1)
    group = over if replicas > 1 else None
    put_groups(fields, reshards, config.origin(RESHARDS), group, config.origin(SHARD))
    older = config.is_before_0_2
    source = (
        "TorchTitan 0.1.0: each layer, then the model"
        if older
        else "TorchTitan 0.2.2: embedding, layers, norm and head"
    )
    fields.infer("parallelism.fsdp.root_holds_ends", older, source)


def read_dtypes(fields: Fields, config: TitanConfig) -> None:
    """Parameters, gradients and states in `dtype`; FSDP computes in another."""
    stored = config.text(DTYPE) or "float32"
    computes = config.text(PARAMETERS) or "bfloat16"
    for field in ("model.weights_dtype", "precision.trainable_dtype"):
        fields.put(field, stored, config.origin(DTYPE))
    fields.put("precision.compute", computes, config.origin(PARAMETERS))
    fields.put("parallelism.fsdp.param_dtype", computes, config.origin(PARAMETERS))
    fields.put("parallelism.fsdp.reduce_dtype", config.text(REDUCES) or "float32", config.origin(REDUCES))


def read_batch(fields: Fields, config: TitanConfig) -> None:
    """The batch of one forward, and how many of them make `global_batch_size`; -1 means one of each rank."""
    micro, whole, ranks = config.count(MICRO), config.count(GLOBAL), fields.get("parallelism.data_parallel_size")
    if micro < 1:
        fields.unknown("batch.micro_batch_size", f"`{MICRO}: {micro}` is no number of sequences")
        return
    fields.put("batch.micro_batch_size", micro, config.origin(MICRO))
    if whole < 1:
        fields.put("batch.gradient_accumulation_steps", 1, config.origin(GLOBAL))
    elif isinstance(ranks, int):
        fields.put("batch.gradient_accumulation_steps", max(1, whole // (micro * ranks)), config.origin(GLOBAL))
    else:
        fields.unknown("batch.gradient_accumulation_steps", "it follows from the number of GPUs")


def read_checkpointing(fields: Fields, config: TitanConfig) -> None:
    """`full` recomputes each layer, `selective` some operators of each, or all of every so many layers."""
    mode, option = config.text(MODE), config.text(OPTION)
    if mode == "selective" and option in ("0", "1"):
        mode = "full"
    known = mode if mode in ("none", "full", "selective") else "selective"
    fields.put("checkpointing.mode", known, config.origin(MODE))
    if mode == "selective" and option == "op" and not families.has_experts(config.text(NAME), config.text(FLAVOR)):
        fields.put("checkpointing.keeps", KEPT, config.origin(OPTION))


def read_compile(fields: Fields, config: TitanConfig) -> None:
    on = config.flag(COMPILE)
    fields.put("stack.compile", on and "model" in config.words(PARTS), config.origin(COMPILE))
    fields.put("loss.compiled", on and "loss" in config.words(PARTS), config.origin(COMPILE))


def read_converters(fields: Fields, config: TitanConfig) -> None:
    """float8 products by torchao; other converters are not modelled."""
    given = config.words(CONVERTERS)
    float8 = any("float8" in one for one in given) or config.flag("float8.enable_float8_linear")
    fields.put("precision.fp8", "torchao" if float8 else "none", config.origin(CONVERTERS))
    other = next((one for one in given if "float8" not in one or "grouped" in one), "")
    if other:
        fields.put("stack.unmodelled", f"the converter `{other}`", config.origin(CONVERTERS))


def read_optimizer(fields: Fields, config: TitanConfig) -> None:
    key = "optimizer.implementation"
    word = config.text(key) or "fused"
    fields.put("optimizer.name", "adamw_torch_fused" if word == "fused" else "adamw_torch", config.origin(key))
    fields.put("optimizer.foreach", word == "foreach", config.origin(key))
    in_backward = "optimizer.early_step_in_backward"
    fields.put("optimizer.layerwise", config.flag(in_backward), config.origin(in_backward))
