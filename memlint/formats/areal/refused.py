"""What AReaL refuses before its first step: values that its dataclasses check, sizes that its allocation does not take,
and choices that its trainer refuses together (1.0.4 and 2.0.0 areal/api/cli_args.py, areal/api/alloc_mode.py and
areal/trainer/rl_trainer.py; since when stands beside each check)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.areal.allocation import EngineGpus, allocations
from memlint.formats.areal.config import ArealConfig
from memlint.formats.areal.placement import BACKEND, MODE, has_own_backend, placement
from memlint.formats.areal.refused_engines import engine_checks, is_on
from memlint.formats.areal.releases import OWN_BACKENDS
from memlint.formats.base import Issue
from memlint.formats.fields import Fields, as_number, interpolated, value_at
from memlint.formats.section_keys import path_of

REFUSES = "AReaL refuses to start"
_ENGINES = ("actor", "model", "ref", "critic", "teacher")


class Choice(NamedTuple):
    """The words that a key may have, since a release. `sections`: those that have the key."""

    key: str
    words: tuple[Any, ...]
    since: tuple[int, ...] = ()
    sections: tuple[str, ...] = ("",)


_NORMS = tuple(f"{role}.{name}" for role in ("actor", "teacher") for name in ("reward_norm", "adv_norm"))
# Keys of dataclasses whose `__post_init__` checks them, with the release that came with the check.
CHOICES = (
    Choice("mean_level", ("batch", "group", None), (0, 3, 4), _NORMS),
    Choice("std_level", ("batch", "group", None), (0, 3, 4), _NORMS),
    Choice("mb_spec.packing_algorithm", ("ffd", "kk"), (1, 0, 4), _ENGINES),
    Choice("optimizer.type", ("adam", "sgd", "adam_bf16"), (0, 3, 4), _ENGINES),
    Choice("optimizer.lr_scheduler_type", ("linear", "cosine", "constant"), (0, 3, 1), _ENGINES),
    Choice("archon.reshard_after_forward_policy", ("default", "always", "never"), (0, 5, 3), _ENGINES),
    Choice("saver.mode", ("auto", "sync", "async"), (1, 0, 0)),
    Choice("recover.mode", ("on", "off", "auto", "disabled"), (1, 0, 0)),
    Choice("stats_logger.wandb.mode", ("online", "offline", "disabled", "shared"), (1, 0, 3)),
    Choice("stats_logger.swanlab.mode", ("cloud", "local", "disabled", "offline"), (1, 0, 3)),
    *(
        Choice(f"rejection_sampling.{key}", words, (1, 0, 4), ("actor", "teacher"))
        for key, words in (
            ("level", ("token", "sequence")),
            ("action", ("mask", "clamp")),
            ("metric", ("ratio", "kl_k1", "kl_k2", "kl_k3")),
            ("agg", ("sum", "mean", "max")),
        )
    ),
    Choice("stats_logger.trackio.mode", ("disabled", "online", "local"), (1, 0, 3)),
    Choice("archon.fp8_config.mode", ("disabled", "blockwise"), (1, 0, 3), _ENGINES),
    Choice("archon.moe_router_dtype", ("fp32", None), (1, 0, 2), _ENGINES),
    Choice("_version", ("v1", "v2"), (1, 0, 3), (*_ENGINES, "rollout")),
)
_DTYPES = ("bfloat16", "float16", "float32")


def refused(fields: Fields, config: ArealConfig) -> Iterator[Issue]:
    yield from _choices(config)
    yield from _allocation(config)
    yield from _numbers(config)
    yield from _together(config)
    yield from _divided(fields, config)
    for check in engine_checks(config):
        yield from _issue(config, "config" if check.of_command else check.key, check.message)


def _issue(config: ArealConfig, key: str, message: str, code: str = "conflict") -> Iterator[Issue]:
    """At the key where the file itself has it; a file below has the issue otherwise."""
    path = path_of(key)
    while path and value_at(config.own.value, path) is None:
        path = path[:-1]
    if path:
        yield config.own.issue(code, f"{message}: {REFUSES}", *path)


def _is_since(config: ArealConfig, release: tuple[int, ...]) -> bool:
    return config.release >= release


def _choices(config: ArealConfig) -> Iterator[Issue]:
    for choice in CHOICES:
        if not _is_since(config, choice.since):
            continue
        for section in choice.sections:
            key = f"{section}.{choice.key}" if section else choice.key
            value = value_at(config.own.value, path_of(key))
            if value is None or not isinstance(value, str) or interpolated(value) or value == "???":
                continue
            if value not in choice.words:
                names = ", ".join(str(word) for word in choice.words if word is not None)
                yield from _issue(config, key, f"`{value}` is none of {names}", "bad-value")


def _allocation(config: ArealConfig) -> Iterator[Issue]:
    """Texts that the grammar does not take (ValueError), and sizes that it refuses."""
    found = placement(config)
    if config.stated >= OWN_BACKENDS and not has_own_backend(config) and not config.misses_a_file:
        word = config.get(BACKEND)
        if isinstance(word, str) and not interpolated(word) and word != "???":
            yield from _issue(config, BACKEND, f"`{word}` names no engine, as `fsdp:d4` does", "bad-value")
        return
    if found.is_invalid:
        yield from _issue(config, found.key, f"`{config.get(found.key)}` is no allocation", "bad-value")
        return
    texts = [(found.key, config.get(found.key))]
    if has_own_backend(config):
        texts += [(f"{role}.backend", config.value(f"{role}.backend")) for role in ("rollout", "ref", "critic")]
        if found.trains is not None and found.trains.writes:
            yield from _issue(config, BACKEND, f"`{found.trains.backend}` writes completions and trains nothing")
    for key, text in texts:
        if isinstance(text, str) and not interpolated(text):
            yield from _sizes(config, key, text)


def _sizes(config: ArealConfig, key: str, text: str) -> Iterator[Issue]:
    components = allocations(text)
    if components is None:
        if ":" in text:
            yield from _issue(config, key, f"`{text}` is no allocation", "bad-value")
        return
    if key != MODE and len(components) > 1:
        yield from _issue(config, key, "a backend is that of one engine, without `+`")
        return
    names = [one.name for one in components]
    if len(components) > 2 and not all(names):
        yield from _issue(config, key, "of three engines and more each needs a name, `fsdp[actor]:d4`")
    if any(name and names.count(name) > 1 for name in names):
        yield from _issue(config, key, "two engines have the same name")
    for one in components:
        yield from _size(config, key, one)
    for before, one in pairwise(components):
        if one.beside and one.world != before.world:
            yield from _issue(config, key, f"engines on the same GPUs have {before.world} and {one.world} of them")


def _size(config: ArealConfig, key: str, one: EngineGpus) -> Iterator[Issue]:
    """Since 0.5.2 FSDP has no stages and no ranks of experts, since 1.0.3 each component names its backend."""
    if one.backend == "fsdp" and (one.pipeline > 1 or one.expert > 1) and _is_since(config, (0, 5, 2)):
        yield from _issue(config, key, "FSDP takes data, tensor and context parallelism alone")
    if not one.backend and _is_since(config, OWN_BACKENDS):
        yield from _issue(config, key, "the backend has to be named, `fsdp:d4`")
    shared = one.pipeline * one.expert * one.expert_tensor
    if one.expert > 1 and one.world % shared:
        yield from _issue(config, key, f"{one.world} GPUs are no multiple of the {shared} that share the experts")


def _numbers(config: ArealConfig) -> Iterator[Issue]:
    """The bounds of numbers in `__post_init__`."""
    for key, holds, message, since in (
        ("total_train_epochs", _above(0), "the epochs have to be above 0", (0, 5, 2)),
        ("actor.fsdp.optim_step_prefetch_layers", _from(0), "the layers have to be 0 or more", (1, 0, 2)),
        ("actor.archon.pp_layers_per_stage", _from(1), "the layers have to be 1 or more", (1, 0, 0)),
        ("actor.archon.pp_first_stage_less_layers", _from(0), "the layers have to be 0 or more", (1, 0, 0)),
        ("actor.archon.pp_last_stage_less_layers", _from(0), "the layers have to be 0 or more", (1, 0, 0)),
    ):
        value = as_number(value_at(config.own.value, path_of(key)))
        if value is not None and not holds(value) and _is_since(config, since):
            yield from _issue(config, key, message, "bad-value")
    yield from _rejection(config)


def _above(least: float) -> Callable[[float], bool]:
    return lambda value: value > least


def _from(least: float) -> Callable[[float], bool]:
    return lambda value: value >= least


def _rejection(config: ArealConfig) -> Iterator[Issue]:
    """`RejectionSamplingConfig`, since 1.0.4."""
    section = "actor.rejection_sampling"
    given = config.value(section)
    if not isinstance(given, dict):
        return
    metric, action = given.get("metric", "ratio"), given.get("action", "mask")
    upper, lower = as_number(given.get("upper", 5.0)), as_number(given.get("lower"))
    if upper is not None and lower is not None and lower > upper:
        yield from _issue(config, f"{section}.lower", f"{lower} is above `upper` ({upper})")
    if metric == "ratio" and upper is not None and upper <= 1:
        yield from _issue(config, f"{section}.upper", f"a ratio's bound has to be above 1, not {upper}")
    if metric == "ratio" and lower is not None and lower <= 0:
        yield from _issue(config, f"{section}.lower", f"a ratio's lower bound has to be above 0, not {lower}")
    if metric in ("kl_k2", "kl_k3") and upper is not None and upper <= 0:
        yield from _issue(config, f"{section}.upper", f"the bound of `{metric}` has to be above 0, not {upper}")
    if action == "clamp" and isinstance(metric, str) and metric != "ratio" and not interpolated(metric):
        yield from _issue(config, f"{section}.action", f"`clamp` takes the metric `ratio` alone, not `{metric}`")


def _together(config: ArealConfig) -> Iterator[Issue]:
    """Choices that exclude each other."""
    for role in ("actor", "ref", "critic"):
        if is_on(config, f"{role}.fsdp.memory_efficient_load") and is_on(config, f"{role}.init_from_scratch"):
            key = f"{role}.fsdp.memory_efficient_load"
            yield from _issue(config, key, "a model of random weights has none to load (`init_from_scratch`)")
    if is_on(config, "actor.use_sapo_loss"):
        if is_on(config, "actor.use_decoupled_loss"):
            yield from _issue(config, "actor.use_sapo_loss", "SAPO excludes `use_decoupled_loss`")
        for name in ("sapo_tau_pos", "sapo_tau_neg"):
            value = as_number(config.value(f"actor.{name}"))
            if value is not None and value <= 0:
                yield from _issue(config, f"actor.{name}", "SAPO's temperatures have to be above 0")
    yield from _engines_together(config)
    yield from _programs(config)


def _engines_together(config: ArealConfig) -> Iterator[Issue]:
    """`PPOTrainer._validate_cfg`, since 1.0.3."""
    if config.algorithm() != "rl" or not _is_since(config, OWN_BACKENDS) or not has_own_backend(config):
        return
    found = placement(config)
    offloads = [role for role in ("actor", "ref", "critic", "teacher") if is_on(config, f"{role}.offload")]
    if (found.together or offloads) and not is_on(config, "enable_offload"):
        key = f"{offloads[0]}.offload" if offloads else "rollout.scheduling_strategy"
        yield from _issue(config, key, "engines that wait in host memory need `enable_offload: true`")
    mode = config.value("actor.weight_update_mode")
    if found.together and (mode is None or (isinstance(mode, str) and mode != "disk" and not interpolated(mode))):
        message = "engines on the actor's GPUs get new weights from disk (`actor.weight_update_mode: disk`)"
        yield from _issue(config, "rollout.scheduling_strategy", message)
    writes = found.writes.backend if found.writes is not None else ""
    if writes == "vllm" and is_on(config, "rollout.return_routed_experts"):
        yield from _issue(config, "rollout.return_routed_experts", "vLLM returns no experts")
    megatron = found.trains is not None and found.trains.backend == "megatron"
    if megatron and writes == "sglang" and is_on(config, "actor.use_lora"):
        yield from _issue(config, "actor.use_lora", "Megatron-LM's adapters need vLLM, not SGLang")


def _programs(config: ArealConfig) -> Iterator[Issue]:
    """`DPOConfig` (since 1.0.4) trains no critic."""
    kind = config.value("actor.loss_type")
    is_odd = isinstance(kind, str) and kind not in ("sigmoid", "ipo") and not interpolated(kind)
    if config.algorithm() == "dpo" and is_odd:
        yield from _issue(config, "actor.loss_type", f"`{kind}` is none of sigmoid, ipo", "bad-value")
    for role in ("actor", "model"):
        dtype = config.value(f"{role}.dtype")
        if isinstance(dtype, str) and dtype not in _DTYPES and not interpolated(dtype) and dtype != "???":
            yield from _issue(config, f"{role}.dtype", f"torch has no dtype `{dtype}`", "bad-value")


def _divided(fields: Fields, config: ArealConfig) -> Iterator[Issue]:
    """Heads that GPUs cannot divide (1.0.4 areal/engine/fsdp_utils/parallel.py, apply_non_moe_tp; 0.3.4 the same)."""
    found = placement(config).trains
    if found is None or found.engine != "fsdp" or found.tensor == 1 or not config.architecture:
        return
    for layer in config.architecture.layer_types:
        for name, count in (("attention heads", layer.attention.heads), ("key-value heads", layer.attention.kv_heads)):
            if count and count % found.tensor:
                key = placement(config).key
                yield from _issue(config, key, f"{count} {name} cannot be divided among {found.tensor} GPUs")
                return
