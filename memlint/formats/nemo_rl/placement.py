"""GPUs of a NeMo-RL file: those of the cluster, less those that write completions alone, and how a model is divided."""

from __future__ import annotations

from memlint.formats.fields import Fields, value_at
from memlint.formats.nemo_rl.config import NemoConfig
from memlint.formats.section_keys import path_of
from memlint.run import UNKNOWN, Origin

EACH, NODES = "cluster.gpus_per_node", "cluster.num_nodes"
COLOCATED = "policy.generation.colocated.enabled"
OWN_GPUS, OWN_NODES = (f"policy.generation.colocated.resources.{name}" for name in (EACH[8:], NODES[8:]))
WRITING = ("grpo", "ppo", "distillation")
# Degrees of each engine: key, field.
DTENSOR = {
    "policy.dtensor_cfg.tensor_parallel_size": "parallelism.tensor_parallel_size",
    "policy.dtensor_cfg.context_parallel_size": "parallelism.context_parallel_size",
}
MEGATRON = {
    "policy.megatron_cfg.tensor_model_parallel_size": "parallelism.tensor_parallel_size",
    "policy.megatron_cfg.pipeline_model_parallel_size": "parallelism.pipeline_parallel_size",
    "policy.megatron_cfg.context_parallel_size": "parallelism.context_parallel_size",
}
EXPERTS = {
    "dtensor": "policy.dtensor_cfg.expert_parallel_size",
    "megatron": "policy.megatron_cfg.expert_model_parallel_size",
}


def says_gpus(config: NemoConfig) -> bool:
    """Whether the file itself says how many GPUs there are: those of a file below may well be others in a command."""
    return any(value_at(config.own.value, path_of(key)) is not None for key in (EACH, NODES))


def writes_elsewhere(config: NemoConfig) -> bool:
    """Whether completions are written on GPUs of their own."""
    return config.algorithm() in WRITING and not config.flag(COLOCATED)


def read_world(fields: Fields, config: NemoConfig) -> None:
    """`gpus_per_node` x `num_nodes`, unless the command line says otherwise. Without colocation those of `resources`
    are the generator's: GPUs of a single node, else whole nodes (nemo_rl/algorithms/grpo.py, setup)."""
    each, nodes = config.integer(EACH), config.integer(NODES)
    if writes_elsewhere(config) and each is not None and nodes is not None:
        own = config.integer(OWN_GPUS if nodes == 1 else OWN_NODES) or 0
        each, nodes = (max(1, each - own), 1) if nodes == 1 else (each, max(1, nodes - own))
    if not isinstance(fields.get("parallelism.world_size"), int):
        if each is None or nodes is None:
            key = EACH if each is None else NODES
            reason = config.origin(key).detail or f"nobody said how many GPUs (`{key}`, --gpus)"
            fields.unknown("parallelism.world_size", reason)
        else:
            fields.put("parallelism.world_size", each * nodes, config.origin(EACH))
            fields.put("parallelism.gpus_per_node", each, config.origin(EACH))
    _read_degrees(fields, config)


def _read_degrees(fields: Fields, config: NemoConfig) -> None:
    """How many GPUs share one copy of the model, and the data-parallel ranks that this leaves."""
    degrees = MEGATRON if config.engine == "megatron" else DTENSOR
    for key, field in degrees.items():
        fields.put(field, config.integer(key) or 1, config.origin(key))
    experts = EXPERTS.get(config.engine)
    if experts is not None:
        fields.put("parallelism.expert_parallel_size", config.integer(experts) or 1, config.origin(experts))
    world, model = fields.get("parallelism.world_size"), gpus_of_model(config)
    if not isinstance(world, int) or model is None:
        reason = "the number of GPUs is not known" if model else "how many GPUs share the model is not known"
        fields.put("parallelism.data_parallel_size", UNKNOWN, Origin("unknown", detail=reason))
    else:
        fields.infer("parallelism.data_parallel_size", max(1, world // model), "GPUs over those that share the model")


def gpus_of_model(config: NemoConfig) -> int | None:
    """GPUs that one copy of the model is divided over; None where a degree is not known."""
    found = 1
    for key in MEGATRON if config.engine == "megatron" else DTENSOR:
        if config.get(key) is UNKNOWN:
            return None
        found *= config.integer(key) or 1
    return found
