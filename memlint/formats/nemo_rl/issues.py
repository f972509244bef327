"""Issues of a NeMo-RL file: values that its own checks refuse (0.7.0, and since when).

Sizes and GPUs stand here, options that exclude each other in refused.py and refused_engines.py, keys and the types of
their values in key_issues.py."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.formats.base import Issue
from memlint.formats.fields import Fields, as_bool, value_at
from memlint.formats.nemo_rl.batches import DYNAMIC, GLOBAL, MICRO, PACKING, SCORED, tokens_section
from memlint.formats.nemo_rl.config import NemoConfig
from memlint.formats.nemo_rl.placement import gpus_of_model, says_gpus
from memlint.formats.nemo_rl.refused import ALGORITHM, refusals
from memlint.formats.nemo_rl.refused_engines import ENGINES
from memlint.formats.section_keys import path_of
from memlint.run import UNKNOWN

_REFUSES, _STOPS = "NeMo-RL refuses to start", "NeMo-RL stops at the first update"
_TENSOR = {
    "dtensor": "policy.dtensor_cfg.tensor_parallel_size",
    "megatron": "policy.megatron_cfg.tensor_model_parallel_size",
}
_CONTEXT = "policy.dtensor_cfg.context_parallel_size"
_ENGINES = ("policy.dtensor_cfg.enabled", "policy.megatron_cfg.enabled")
_MANY = 4  # GPUs that share a matrix, from which on two forwards of different sizes give other probabilities


def nemo_rl_issues(fields: Fields, config: NemoConfig) -> tuple[Issue, ...]:
    """Where a file is missing, keys may have values that nobody sees, so that nothing is said."""
    if config.names:
        return ()
    every = (*_engines(config), *_world(fields, config), *_batch(fields, config), *_sequences(config))
    refused = refusals(config, (*ALGORITHM, *ENGINES))
    return (*every, *_accuracy(config), *_workers(fields, config), *_copies(fields, config), *_heads(config), *refused)


def _issue(
    config: NemoConfig, key: str, message: str, severity: str = "error", effect: str = _REFUSES
) -> Iterator[Issue]:
    """At the key, where the file itself has it; nothing where it comes from a file below, which has the issue."""
    own = config.own
    if value_at(own.value, path_of(key)) is not None:
        yield own.issue("conflict", f"{message}; {effect}", *path_of(key), severity=severity)


def _first(config: NemoConfig, *keys: str) -> str:
    """The first of the keys that the file itself has."""
    return next((key for key in keys if value_at(config.own.value, path_of(key)) is not None), keys[0])


def _engines(config: NemoConfig) -> Iterator[Issue]:
    """nemo_rl/models/policy/lm_policy.py:94 (since 0.4) and :128 (since 0.3; a file of 0.2 has no Megatron-LM)."""
    dtensor, megatron = (as_bool(config.get(key)) for key in _ENGINES)
    if dtensor and megatron and not config.is_overridden(_ENGINES):
        message = "DTensor and Megatron-LM are both switched on"
        yield from _issue(config, _first(config, *reversed(_ENGINES)), message)
    given = all(config.written(key) is not None for key in _ENGINES)
    if given and dtensor is False and megatron is False:
        message = "neither DTensor nor Megatron-LM is switched on"
        yield from _issue(config, _first(config, *_ENGINES), message)


def _world(fields: Fields, config: NemoConfig) -> Iterator[Issue]:
    """nemo_rl/models/policy/lm_policy.py:199 and :208 (since 0.4)."""
    world, model = fields.get("parallelism.world_size"), gpus_of_model(config)
    origin = fields.origins.get("parallelism.world_size")
    if not isinstance(world, int) or model is None or world % model == 0 or origin is None or not says_gpus(config):
        return
    key = _first(config, _TENSOR.get(config.engine, _TENSOR["dtensor"]), _CONTEXT, "cluster.gpus_per_node")
    yield from _issue(config, key, f"{world} GPUs are no multiple of the {model} that share one copy of the model")


def _batch(fields: Fields, config: NemoConfig) -> Iterator[Issue]:
    """nemo_rl/distributed/batched_data_dict.py:399 and :831 (0.2 to 0.7)."""
    total, rows, ranks = config.integer(GLOBAL), config.integer(MICRO), fields.get("parallelism.data_parallel_size")
    world, model = fields.get("parallelism.world_size"), gpus_of_model(config)
    if total is None or not isinstance(ranks, int) or not isinstance(world, int) or not model or world % model:
        return
    if not says_gpus(config):
        return
    key = _first(config, GLOBAL, MICRO, "cluster.gpus_per_node")
    if total % ranks:
        message = f"a global batch of {total} cannot be divided among {ranks} data-parallel ranks"
        yield from _issue(config, key, message, effect=_STOPS)
    elif rows and not tokens_section(config) and (total // ranks) % rows:
        message = f"{total // ranks} sequences of each data-parallel rank are no multiple of micro-batches of {rows}"
        yield from _issue(config, key, message, effect=_STOPS)


def _sequences(config: NemoConfig) -> Iterator[Issue]:
    """nemo_rl/models/policy/lm_policy.py:295 (since 0.3), nemo_rl/models/automodel/setup.py:384 and
    nemo_rl/models/policy/workers/dtensor_policy_worker.py:346 (since 0.3)."""
    packs = f"{PACKING}.enabled"
    if config.flag(packs) and config.flag(f"{DYNAMIC}.enabled"):
        yield from _issue(config, _first(config, packs, f"{DYNAMIC}.enabled"), "packing excludes dynamic batching")
    if config.engine == "dtensor" and config.flag(packs) and (config.integer(_CONTEXT) or 1) > 1:
        message = "sequences that are packed cannot be shared among GPUs (`context_parallel_size`) under DTensor"
        yield from _issue(config, _first(config, _CONTEXT, packs), message)


def _accuracy(config: NemoConfig) -> Iterator[Issue]:
    """nemo_rl/models/policy/lm_policy.py:178 (since 0.6), unless NRL_IGNORE_TP_ACCURACY_CHECK is set."""
    key = _TENSOR.get(config.engine)
    rows, scored = config.integer(MICRO), config.integer(SCORED)
    if key is None or (config.integer(key) or 1) < _MANY or rows is None or scored is None or rows == scored:
        return
    if config.flag("loss_fn.force_on_policy_ratio") or not _is_since_0_6(config):
        return
    message = (
        f"with {config.integer(key)} GPUs that share a matrix, `logprob_batch_size: {scored}` must be "
        f"`train_micro_batch_size: {rows}`"
    )
    message += " unless NRL_IGNORE_TP_ACCURACY_CHECK is set"
    yield from _issue(config, _first(config, SCORED, MICRO), message, "warning")


def _is_since_0_6(config: NemoConfig) -> bool:
    """Whether the release is said, or the file has a key that came with 0.6."""
    return config.stated >= (0, 6) if config.stated else config.has_section("policy", "dtensor_cfg", "automodel_kwargs")


def _workers(fields: Fields, config: NemoConfig) -> Iterator[Issue]:
    """nemo_rl/models/automodel/setup.py:500 (since 0.6) and :669, nemo_rl/models/policy/lm_policy.py:148 (since 0.5),
    nemo_rl/models/automodel/setup.py:635 (since 0.3)."""
    if config.engine != "dtensor":
        return
    tensor, context = config.integer(_TENSOR["dtensor"]) or 1, config.integer(_CONTEXT) or 1
    lora, offload = "policy.dtensor_cfg.lora_cfg.enabled", "policy.dtensor_cfg.cpu_offload"
    if config.flag(lora) and not config.is_v2:
        yield from _issue(config, lora, "LoRA needs `policy.dtensor_cfg._v2: true`")
    triton = "policy.dtensor_cfg.lora_cfg.use_triton"
    if config.flag(lora) and config.is_v2 and tensor > 1 and config.flag(triton):
        yield from _issue(config, _first(config, triton, lora), "Triton's LoRA does not divide matrices among GPUs")
    if context > 1 and tensor > 1 and config.flag("policy.dtensor_cfg.sequence_parallel"):
        message = "`sequence_parallel` does not go with `context_parallel_size`"
        yield from _issue(config, _first(config, "policy.dtensor_cfg.sequence_parallel", _CONTEXT), message)
    alone = fields.get("parallelism.world_size") == 1 and says_gpus(config)
    if config.is_v2 and config.flag(offload) and alone and _is_since_0_6(config):
        yield from _issue(config, offload, "`cpu_offload` does not work on a single GPU")


def _copies(fields: Fields, config: NemoConfig) -> Iterator[Issue]:
    """nemo_rl/models/automodel/setup.py:470 (0.7, which brings the key)."""
    key = "policy.dtensor_cfg.dp_replicate_size"
    copies, ranks = config.integer(key) or 1, fields.get("parallelism.data_parallel_size")
    if config.engine == "dtensor" and config.is_v2 and isinstance(ranks, int) and ranks % copies and says_gpus(config):
        message = f"{ranks} data-parallel ranks cannot be divided into the {copies} copies of `dp_replicate_size`"
        yield from _issue(config, _first(config, key, "cluster.gpus_per_node"), message)


def _heads(config: NemoConfig) -> Iterator[Issue]:
    """nemo_rl/models/dtensor/parallelize.py:667 and :670 (0.2 to 0.7)."""
    tensor = config.integer(_TENSOR["dtensor"]) or 1
    if config.engine != "dtensor" or tensor == 1 or config.architecture in (None, UNKNOWN):
        return
    layers = config.architecture.layer_types
    for name, counts in (
        ("key-value heads", {one.attention.kv_heads for one in layers}),
        ("attention heads", {one.attention.heads for one in layers}),
    ):
        odd = next((count for count in counts if count and count % tensor), None)
        if odd is not None:
            yield from _issue(config, _TENSOR["dtensor"], f"{odd} {name} cannot be divided among {tensor} GPUs")
            return
