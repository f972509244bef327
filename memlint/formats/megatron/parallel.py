"""GPUs, degrees of parallelism and batch of a command of Megatron-LM (core 0.19 training/arguments.py,
validate_args)."""

from __future__ import annotations

from memlint.formats.fields import Fields
from memlint.formats.megatron.config import SOURCE, MegatronConfig
from memlint.run import UNKNOWN

_DEGREES = {
    "tensor_model_parallel_size": "parallelism.tensor_parallel_size",
    "pipeline_model_parallel_size": "parallelism.pipeline_parallel_size",
    "context_parallel_size": "parallelism.context_parallel_size",
    "expert_model_parallel_size": "parallelism.expert_parallel_size",
}
# Those that divide one copy of the model.
SIZES_OF_MODEL = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
# Stages that have not all as many layers: those that are counted, and others.
_ENDS = {
    "decoder_first_pipeline_num_layers": "parallelism.first_stage_layers",
    "decoder_last_pipeline_num_layers": "parallelism.last_stage_layers",
}
_IF_GIVEN = {"expert_tensor_parallel_size": "parallelism.expert_tensor_parallel_size", **_ENDS}
_UNEVEN = (
    *("pipeline_model_parallel_layout", "pipeline_model_parallel_split_rank", "standalone_embedding_stage"),
    *("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"),
)


def gpus_of_model(config: MegatronConfig) -> int | None:
    """GPUs that one copy of the model is divided over: tensor x pipeline x context ranks."""
    found = 1
    for key in SIZES_OF_MODEL:
        size = config.whole(key)
        if size is None:
            return None
        found *= size
    return found


def uneven_stages(config: MegatronConfig) -> str:
    """The argument that gives stages different numbers of layers; "" where all have as many."""
    return unread_stages(config) or next((key for key in _ENDS if config.gives(key)), "")


def unread_stages(config: MegatronConfig) -> str:
    """The argument that gives stages numbers of layers that are not counted here; "" where there is none."""
    return next((key for key in _UNEVEN if config.gives(key)), "")


def lacks_nodes(gpus: object, per_node: object, config: MegatronConfig) -> bool:
    """Whether the script starts one machine of several: the model needs more GPUs than it has, a multiple of them.
    Megatron-LM's own examples leave the number of machines to be filled in (examples/gpt3)."""
    model = gpus_of_model(config)
    if config.states_machines or model is None or not isinstance(gpus, int) or gpus < 1 or gpus >= model:
        return False
    return gpus == per_node and model % gpus == 0


def read_degrees(fields: Fields, config: MegatronConfig) -> None:
    for key, field in _DEGREES.items():
        _read_whole(fields, config, key, field)
    for key, field in _IF_GIVEN.items():
        if config.written(key) is not None:
            _read_whole(fields, config, key, field)
    _read_copies(fields, config)


def _read_whole(fields: Fields, config: MegatronConfig, key: str, field: str) -> None:
    size = config.whole(key)
    if size is None:
        fields.unknown(field, config.why(key))
    else:
        fields.put(field, size, config.origin(key))


def _read_copies(fields: Fields, config: MegatronConfig) -> None:
    """The data-parallel ranks: all GPUs over those of one model."""
    world, model = fields.get("parallelism.world_size"), gpus_of_model(config)
    if lacks_nodes(world, fields.get("parallelism.gpus_per_node"), config):
        reason = f"the model is divided over {model} GPUs and the command starts {world}: more machines are to come"
        fields.unknown("parallelism.world_size", reason)
        fields.unknown("parallelism.data_parallel_size", reason)
    elif not isinstance(world, int):
        if "parallelism.world_size" not in fields.values:
            fields.unknown("parallelism.world_size", "nobody said how many GPUs (the launcher, --gpus)")
        fields.put("parallelism.data_parallel_size", UNKNOWN, fields.origins["parallelism.world_size"])
    elif model is None:
        fields.unknown("parallelism.data_parallel_size", "the degrees of parallelism are not known")
    else:
        fields.infer("parallelism.data_parallel_size", max(1, world // model), "GPUs over those of one model")


def read_micro_batch(fields: Fields, config: MegatronConfig) -> None:
    _read_whole(fields, config, "micro_batch_size", "batch.micro_batch_size")


def read_accumulation(fields: Fields, config: MegatronConfig) -> None:
    """Micro-batches of a step: the global batch over those that the ranks take at once, one where none is given. A
    batch that grows ends there (core 0.19 num_microbatches_calculator.py)."""
    name, key = "batch.gradient_accumulation_steps", "global_batch_size"
    micro, copies = config.whole("micro_batch_size"), fields.get("parallelism.data_parallel_size")
    if config.written(key) is None:
        fields.default(name, 1, SOURCE)
    elif config.whole(key) is None:
        fields.unknown(name, config.why(key))
    elif micro is None or not isinstance(copies, int):
        fields.unknown(name, "it follows from the global batch and the number of GPUs")
    else:
        fields.put(name, max(1, (config.whole(key) or 1) // (micro * copies)), config.origin(key))


def read_length(fields: Fields, config: MegatronConfig) -> None:
    _read_whole(fields, config, "seq_length", "sequence.length")
