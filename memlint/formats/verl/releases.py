"""What depends on verl's release: the one that a repository pins, or what its own copy of verl's file gives away."""

from __future__ import annotations

from memlint.formats.fields import value_at
from memlint.formats.trainer_names import Taken
from memlint.formats.verl.config import VerlConfig

# Releases before bound nothing (Requires-Dist of each wheel).
TAKES: Taken = (((0, 9), {"transformers": (5, 10)}),)

_SINCE = (0, 4)
_ACTOR = ("actor_rollout_ref", "actor")
_ROLLOUT = ("actor_rollout_ref", "rollout")
_MODEL = ("actor_rollout_ref", "model")
_ALWAYS_SLEEPS = ((0, 3), (0, 5))
_VLLM_SLEEPS = (0, 7)
_KEY_UNTIL_0_4_1 = "use_fire_sampling"  # a key of the rollout from 0.3.0 to 0.4.1 trainer/config/ppo_trainer.yaml
_KEY_SINCE_0_4_1 = "entropy_from_logits_with_chunking"  # a key of the actor in 0.4.1 trainer/config/ppo_trainer.yaml


def is_before_0_4(config: VerlConfig) -> bool:
    """Whether the run is of verl 0.3 or older."""
    pinned = config.context.versions.get("verl")
    if pinned:
        return pinned < _SINCE
    actor = value_at(config.base.value, _ACTOR) if config.base is not None else None
    return isinstance(actor, dict) and "ppo_mini_batch_size" in actor and _KEY_SINCE_0_4_1 not in actor


def sleeps_in_any_case(config: VerlConfig) -> bool:
    """Whether the engine sleeps while the model trains whatever `free_cache_engine` says. From 0.3 to 0.4.1 the
    sharding managers put vLLM since 0.7 and SGLang to sleep after each rollout (0.3.0
    workers/sharding_manager/fsdp_vllm.py:123, 0.4.1 :215); the key was for vLLM up to 0.6.3 alone (0.4.1
    vllm_rollout_spmd.py:364). 0.5.0 asks it."""
    if () < config.context.versions.get("vllm", ()) < _VLLM_SLEEPS:
        return False
    pinned = config.context.versions.get("verl")
    if pinned:
        return _ALWAYS_SLEEPS[0] <= pinned < _ALWAYS_SLEEPS[1]
    rollout = value_at(config.base.value, _ROLLOUT) if config.base is not None else None
    return isinstance(rollout, dict) and _KEY_UNTIL_0_4_1 in rollout


_ACTORS_UNTIL, _COPIES_SINCE = (0, 8), (0, 9)
_LEGACY = ("trainer", "use_legacy_worker_impl")


def has_actor_of_its_own(config: VerlConfig) -> bool:
    """Whether workers/actor/dp_actor.py makes the update, as until 0.7.1 unless `trainer.use_legacy_worker_impl` is
    `disable`. A repository's own file is as old where it has that key, from 0.6.0 on, or removes no padding, which was
    the default until 0.6.1."""
    sections = [section.value for section in (config.own, config.named, config.base) if section is not None]
    written = [value_at(section, _LEGACY) for section in sections]
    if "disable" in written:
        return False
    pinned = config.context.versions.get("verl", ())
    if pinned or config.base is None:
        return () < pinned < _ACTORS_UNTIL
    return any(written) or value_at(config.base.value, (*_MODEL, "use_remove_padding")) is False


def divides_in_place(config: VerlConfig) -> bool:
    """Whether logits are divided by the temperature in their own memory: `logits.div_(temperature)` until 0.8.0 (0.7.1
    workers/actor/dp_actor.py, 0.8.0 workers/engine/fsdp/transformer_impl.py:1112); 0.9.0 copies unless it is 1."""
    pinned = config.context.versions.get("verl")
    return pinned < _COPIES_SINCE if pinned else has_actor_of_its_own(config)


# Before, workers/fsdp_workers.py (0.7.0, line 171) read the key below the actor alone.
_ENGINES_DEGREE_SINCE = (0, 8)
_ULYSSES = "ulysses_sequence_parallel_size"


def ulysses_key(config: VerlConfig) -> str:
    """The key that gives the Ulysses degree: below the engine, unless the older one below the actor is over 1 (verl
    0.9.0 workers/config/actor.py:332; VeOmni has its own, workers/engine/veomni/transformer_impl.py:153)."""
    if config.is_sft:
        return _ULYSSES
    older, fsdp = (".".join((*_ACTOR, *path, _ULYSSES)) for path in ((), ("fsdp_config",)))
    veomni = ".".join((*_ACTOR, "veomni", "ulysses_parallel_size"))
    reads = (config.context.versions.get("verl") or _ENGINES_DEGREE_SINCE) >= _ENGINES_DEGREE_SINCE
    keys = (older, fsdp, veomni) if reads else (older, veomni)
    return next((key for key in keys if (config.integer(key) or 1) > 1), older)


def has_fused_kernels(config: VerlConfig) -> bool:
    """Whether the trainer's file has `use_fused_kernels`: Hydra refuses a key that it does not know. It came with 0.4
    below the actor, and stands below the model now."""
    sections = (value_at(config.base.value, path) for path in _SECTIONS) if config.base is not None else ()
    known = [section for section in sections if isinstance(section, dict)]
    return not is_before_0_4(config) and (not known or any("use_fused_kernels" in section for section in known))


_SECTIONS = (_ACTOR, _MODEL)


_IMPORTS_SINCE = (0, 6, 1)


def imports_optimizers(config: VerlConfig) -> bool:
    """Whether FSDP's optimizer is the class that the file names with its module: Hydra refuses `optimizer_impl` before
    0.6.1 (trainer/config/optim/fsdp.yaml), whose engines made torch's AdamW."""
    pinned = config.context.versions.get("verl")
    if pinned:
        return pinned >= _IMPORTS_SINCE
    section = ("optim",) if config.is_sft else (*_ACTOR, "optim")
    known = value_at(config.base.value, section) if config.base is not None else None
    return not isinstance(known, dict) or "optimizer_impl" in known
