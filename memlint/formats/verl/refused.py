"""Sizes that verl's trainers refuse together before they train, where a command gives them.

The same is refused in verl 0.2.0 to 0.9.1 (trainer/ppo/ray_trainer.py:_validate_config, since 0.6 utils/config.py:
validate_config and workers/config/actor.py:validate; workers/fsdp_workers.py, since 0.8 workers/engine_workers.py and
workers/engine/utils.py). A fork's defaults are not known: the sizes are those that somebody writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memlint.formats.base import Context, Issue
from memlint.formats.fields import as_int, value_at
from memlint.formats.verl.batches import ACTOR, REFERENCE, ROLLOUT, uses_critic
from memlint.formats.verl.config import VerlConfig
from memlint.formats.verl.parallel import strategy
from memlint.formats.verl.releases import is_before_0_4, ulysses_key
from memlint.run import UNKNOWN

_PPO = "verl.trainer.main_ppo"
_SFT = ("verl.trainer.fsdp_sft_trainer", "verl.trainer.sft_trainer")
_PROMPTS = "data.train_batch_size"
_KL_TERMS = (f"{ACTOR}.use_kl_loss", "algorithm.use_kl_in_reward")
_CRITIC_SIZE = "critic.ppo_micro_batch_size"
# How verl compares an update with a step: 0.3.0 trainer/ppo/ray_trainer.py, 0.8.0 workers/config/actor.py.
_COMPARISONS = (
    "config.data.train_batch_size >= config.actor_rollout_ref.actor.ppo_mini_batch_size",
    "train_batch_size < self.ppo_mini_batch_size",
)
_REFUSES = "verl refuses to start"
_VALIDATORS = {"_validate_config", "validate_config"}  # 0.2.0 trainer/ppo/ray_trainer.py, 0.6.0 utils/config.py


def refused_sizes(config: VerlConfig) -> Iterator[Issue]:
    """What the program of verl's that a command starts refuses; nothing of a program of somebody's own."""
    start = config.own.document.start
    entry = start.program.entry if start is not None else ""
    if entry == _PPO:
        yield from _rollout(config)
        if not _validates(config.context):
            return
        yield from _unset(config)
        if strategy(config) in ("fsdp", "fsdp2"):
            yield from _padding(config)
            yield from () if config.flag(f"{ACTOR}.use_dynamic_bsz") else _batches(config)
    elif entry in _SFT and not config.flag("data.use_dynamic_bsz") and strategy(config) in ("fsdp", "fsdp2"):
        yield from _sft(config)


def _size(config: VerlConfig, key: str) -> int | None:
    """A whole number above 0 that the command or a file gives."""
    found = as_int(_written(config, key))
    return found if found is not None and found > 0 else None


def _written(config: VerlConfig, key: str) -> Any:
    """What the command has at a key of verl's, else the files that it is for; None where none gives it."""
    if key in config.keys:
        return config.raw(key)
    files = (config.own, config.named, config.base, *config.groups)
    sections = (section.value for section in files if section is not None)
    return next(
        (found for found in (value_at(one, tuple(key.split("."))) for one in sections) if found is not None), None
    )


def _world(config: VerlConfig) -> int | None:
    each, nodes = _size(config, "trainer.n_gpus_per_node"), config.integer("trainer.nnodes")
    return each * nodes if each and nodes else None


def _issue(config: VerlConfig, key: str, message: str) -> Issue:
    return config.own.issue("conflict", message, *key.split("."))


def _rollout(config: VerlConfig) -> Iterator[Issue]:
    """GPUs that the engines cannot be spread over evenly (0.2.0 workers/fsdp_workers.py:293, 0.9.1
    workers/engine_workers.py:660). Engines with nodes of their own are spread over those."""
    key = f"{ROLLOUT}.tensor_model_parallel_size"
    world, shared = _world(config), _size(config, key)
    apart = _written(config, "actor_rollout_ref.hybrid_engine") is False or _size(config, f"{ROLLOUT}.nnodes")
    if not world or not shared or apart or config.word(f"{ROLLOUT}.name") not in ("vllm", "sglang"):
        return
    others = (f"{ROLLOUT}.{name}_parallel_size" for name in ("data", "pipeline_model"))
    engine = shared
    for other in others:
        engine *= _size(config, other) or 1
    if world % engine:
        each = f"`tensor_model_parallel_size: {shared}`" + (f" ({engine} GPUs an engine)" if engine != shared else "")
        yield _issue(config, key, f"{each} does not divide the {world} GPUs: {_REFUSES}")


def _unset(config: VerlConfig) -> Iterator[Issue]:
    """Forwards whose micro-batch has no size (0.2.0 trainer/ppo/ray_trainer.py:399-414, 0.9.1 utils/config.py:168-182
    and workers/config/actor.py:206). The reference's counts where a KL term needs one (0.2 and 0.3 always ask)."""
    dynamic = f"{ACTOR}.use_dynamic_bsz"
    if config.misses_a_file or config.get(dynamic) is UNKNOWN or config.flag(dynamic):
        return
    needed = {f"{ACTOR}.ppo_micro_batch_size": "", f"{ROLLOUT}.log_prob_micro_batch_size": ""}
    if term := next(filter(config.flag, _KL_TERMS), ""):
        needed[f"{REFERENCE}.log_prob_micro_batch_size"] = term
    if uses_critic(config):
        needed[_CRITIC_SIZE] = ""
    for size, because_of in needed.items():
        newer = f"{size}_per_gpu"
        if _written(config, size) is None and _written(config, newer) is None:
            message = f"without `{newer}` (or `{dynamic}`) {_REFUSES}"
            yield _issue(config, because_of or newer, message)


def _padding(config: VerlConfig) -> Iterator[Issue]:
    """0.2.0 trainer/ppo/ray_trainer.py:463, 0.9.1 workers/config/actor.py."""
    key = ulysses_key(config)
    degree = _size(config, key)
    if degree and degree > 1 and _written(config, "actor_rollout_ref.model.use_remove_padding") is False:
        message = f"`ulysses_sequence_parallel_size: {degree}` needs `use_remove_padding: true`: {_REFUSES}"
        yield _issue(config, key, message)


def _batches(config: VerlConfig) -> Iterator[Issue]:
    """Prompts of a step, of an update and of a micro-batch; they are sequences `rollout.n` times as many."""
    world, prompts, each = _world(config), _size(config, _PROMPTS), config.integer(f"{ROLLOUT}.n") or 1
    update_key = f"{ACTOR}.ppo_mini_batch_size"
    update = _size(config, update_key)
    if prompts and update and prompts < update and _compares_batches(config.context):
        message = f"`ppo_mini_batch_size: {update}` is more than the {prompts} prompts of a step: {_REFUSES}"
        yield _issue(config, update_key, message)
    if world and prompts and prompts * each % world:
        sequences = f"`train_batch_size: {prompts}`" + (f" * n {each}" if each > 1 else "")
        yield _issue(config, _PROMPTS, f"{sequences} cannot be divided over {world} GPUs: {_REFUSES}")
    elif world and update:
        yield from _micro_batch(config, update * each, world)
    yield from _both(config)


def _validates(context: Context) -> bool:
    """Whether verl is of 0.2 or later: before, nothing compared sizes before training, and forks of those days write
    several sequences a prompt by keys of their own (Search-R1's `n_agent`). A copy in the repository tells by the
    function that compares (0.2.0 trainer/ppo/ray_trainer.py:_validate_config)."""
    pinned = context.versions.get("verl")
    if pinned:
        return pinned >= (0, 2)
    functions = context.repository.own_functions("verl/trainer/ppo")
    return not functions or not _VALIDATORS.isdisjoint(functions | context.repository.own_functions("verl/utils"))


def _compares_batches(context: Context) -> bool:
    """Whether verl compares them: 0.2 does not, nor do copies where the comparison is gone or a comment."""
    if context.repository.own_functions("verl/trainer/ppo"):
        return any(context.repository.says("verl", words) for words in _COMPARISONS)
    pinned = context.versions.get("verl")
    if pinned:
        return pinned >= (0, 3)
    return not context.repository.own_functions("verl")  # a copy without its trainer may be of any release


def _micro_batch(config: VerlConfig, sequences: int, world: int) -> Iterator[Issue]:
    """An update whose part of a rank is not whole micro-batches (0.4.1 workers/fsdp_workers.py:165, 0.9.1
    workers/engine/utils.py:126; before, the older size of all GPUs alone was compared)."""
    ranks = max(1, world // (config.integer(ulysses_key(config)) or 1))
    key = f"{ACTOR}.ppo_micro_batch_size_per_gpu"
    micro, part = _size(config, key), sequences // ranks
    if part == 0:
        message = f"an update of {sequences} sequences is less than one for each of {ranks} ranks: {_REFUSES}"
        yield _issue(config, f"{ACTOR}.ppo_mini_batch_size", message)
    elif micro and sequences % ranks == 0 and part % micro and not is_before_0_4(config):
        message = (
            f"an update has {part} sequences on each rank ({sequences} over {ranks}), no multiple of "
            f"`ppo_micro_batch_size_per_gpu: {micro}`: {_REFUSES}"
        )
        yield _issue(config, key, message)


def _both(config: VerlConfig) -> Iterator[Issue]:
    """A micro-batch's size under its older name as well (0.2.0 trainer/ppo/ray_trainer.py:399, 0.9.1
    utils/config.py:150 and workers/config/actor.py)."""
    sizes = ((ACTOR, "ppo_micro_batch_size"), (ROLLOUT, "log_prob_micro_batch_size"))
    scored = any(map(config.flag, _KL_TERMS))
    reference = ((REFERENCE, "log_prob_micro_batch_size"),) if scored else ()
    critic = (("critic", "ppo_micro_batch_size"),) if uses_critic(config) else ()
    for section, name in (*sizes, *reference, *critic):
        older, newer = f"{section}.{name}", f"{section}.{name}_per_gpu"
        if _size(config, older) and _size(config, newer):
            yield _issue(config, older, f"`{name}` and `{name}_per_gpu` are both set: {_REFUSES}")


def _sft(config: VerlConfig) -> Iterator[Issue]:
    """0.2.0 trainer/fsdp_sft_trainer.py:115, where the launcher's number of GPUs is known."""
    start = config.own.document.start
    world = start.machine.gpus if start is not None else 0
    prompts, micro = _size(config, _PROMPTS), _size(config, "data.micro_batch_size_per_gpu")
    ranks = max(1, world // (config.integer(ulysses_key(config)) or 1))
    if not world or not prompts:
        return
    if prompts % ranks:
        message = f"`train_batch_size: {prompts}` cannot be divided over {ranks} ranks: {_REFUSES}"
        yield _issue(config, _PROMPTS, message)
    elif micro and prompts // ranks % micro:
        message = (
            f"each of {ranks} ranks has {prompts // ranks} of a batch's samples, no multiple of "
            f"`micro_batch_size_per_gpu: {micro}`: {_REFUSES}"
        )
        yield _issue(config, "data.micro_batch_size_per_gpu", message)
