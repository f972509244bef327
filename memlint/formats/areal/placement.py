"""Which GPUs train and which write completions, and how those that train share the model.

`allocation_mode` speaks of all engines; since 1.0.3 each has a `backend` (1.0.4 areal/api/alloc_mode.py and
areal/trainer/rl_trainer.py).
"""

from __future__ import annotations

from memlint._record import NamedTuple
from memlint.formats.areal.allocation import EngineGpus, allocations
from memlint.formats.areal.config import ArealConfig
from memlint.formats.fields import Fields

MODE, BACKEND, ROLLOUT = "allocation_mode", "actor.backend", "rollout.backend"
EACH = "cluster.n_gpus_per_node"
_STRATEGIES = (("actor", "rollout"), ("rollout", "actor"))


class Engines(NamedTuple):
    """`trains`: the engine of the actor; None where it is not known. `writes`: that of completions. `together`: both
    are on the same GPUs. `key`: what says it. `is_invalid`: AReaL's grammar does not take what it says."""

    trains: EngineGpus | None
    writes: EngineGpus | None
    together: bool
    key: str
    is_invalid: bool = False


def has_own_backend(config: ArealConfig) -> bool:
    return ":" in str(config.get(BACKEND))


def placement(config: ArealConfig) -> Engines:
    if not has_own_backend(config):
        return _of_mode(config)
    trains, writes = (_one(config, key) for key in (BACKEND, ROLLOUT))
    given = config.get(BACKEND)
    invalid = isinstance(given, str) and "$" not in given and trains is None
    return Engines(trains, writes, _are_colocated(config), BACKEND, invalid)


def _one(config: ArealConfig, key: str) -> EngineGpus | None:
    text = config.get(key)
    found = allocations(text) if isinstance(text, str) else None
    return found[0] if found is not None and len(found) == 1 and found[0].backend else None


def _are_colocated(config: ArealConfig) -> bool:
    """Whether the scheduling strategy of one of them names the other (rl_trainer.py, _is_actor_rollout_colocated)."""
    for role, other in _STRATEGIES:
        section = f"{role}.scheduling_strategy"
        if config.value(f"{section}.type") == "colocation" and config.value(f"{section}.target") == other:
            return True
    return False


def _of_mode(config: ArealConfig) -> Engines:
    text = config.get(MODE)
    found = allocations(text) if isinstance(text, str) else None
    if found is None:
        return Engines(None, None, False, MODE, isinstance(text, str) and bool(text) and "$" not in text)
    trains = [one for one in found if not one.writes]
    writes = [one for one in found if one.writes]
    actor = next((one for one in trains if one.name in ("actor", "")), trains[0] if trains else None)
    together = actor is not None and any(one.beside for one in found[:2])
    return Engines(actor, writes[0] if writes else None, together, MODE)


def read_world(fields: Fields, config: ArealConfig) -> None:
    """The GPUs that train, unless the command line says otherwise, and those that share a copy of the model."""
    found = placement(config)
    one, origin = found.trains, config.origin(found.key)
    if one is None:
        reason = origin.detail if origin.kind == "unknown" else f"`{found.key}` does not say which GPUs train"
        if not isinstance(fields.get("parallelism.world_size"), int):
            fields.unknown("parallelism.world_size", reason)
        fields.unknown("parallelism.data_parallel_size", reason)
        return
    if not isinstance(fields.get("parallelism.world_size"), int):
        fields.put("parallelism.world_size", one.world, origin)
        each = config.integer(EACH)
        if each is not None:
            fields.put("parallelism.gpus_per_node", min(each, one.world), config.origin(EACH))
    fields.put("parallelism.tensor_parallel_size", one.tensor, origin)
    fields.put("parallelism.pipeline_parallel_size", one.pipeline, origin)
    fields.put("parallelism.expert_parallel_size", one.expert, origin)
    field = "context_parallel_size" if one.engine == "megatron" else "sequence_parallel_size"
    fields.put(f"parallelism.{field}", one.context, origin)
    _read_ranks(fields, one)


def _read_ranks(fields: Fields, one: EngineGpus) -> None:
    world, shared = fields.get("parallelism.world_size"), one.world // one.data
    words = "GPUs over those that share a copy of the model"
    fields.infer("parallelism.data_parallel_size", max(1, world // shared), words)
