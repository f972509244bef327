"""Sizes and choices that SkyRL refuses together before it trains (0.3.0 skyrl/train/utils/utils.py, validate_cfg and
validate_batch_sizes; skyrl-train 0.2.0 to 0.4.0 skyrl_train/utils/utils.py have the same).

A copy of SkyRL is taken to check what it has a function for.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from memlint._record import NamedTuple
from memlint.formats.base import Issue
from memlint.formats.skyrl.config import ENGINE, SkyRLConfig, has_copy
from memlint.formats.skyrl.reading import (
    GPUS,
    INPUT,
    MINI,
    NODES,
    PLACES,
    POLICY,
    PROMPT,
    RANK,
    SAMPLES,
    STEP,
    STRATEGY,
    TOGETHER,
    TURNS,
    UPDATE,
)
from memlint.formats.skyrl.roles import BACKEND, COMPARED, CRITIC, CRITIC_MODEL, HOST
from memlint.formats.skyrl.roles import TOGETHER as ON_SAME_GPUS

_MAIN = ("skyrl.train.entrypoints.main_base", "skyrl_train.entrypoints.main_base")
_REFUSES = "SkyRL refuses to start"
_CHECKS = {"validate_batch_sizes", "validate_cfg"}
_ENGINES = tuple(f"{ENGINE}.{name}" for name in ("num_engines", "tensor_parallel_size", "pipeline_parallel_size"))
_COPIES = f"{ENGINE}.data_parallel_size"


def is_judged(config: SkyRLConfig) -> bool:
    """Whether SkyRL's own program reads the command."""
    start = config.own.document.start
    return start is not None and start.program.entry in _MAIN


def refused(config: SkyRLConfig) -> Iterator[Issue]:
    if not is_judged(config) or not _validates(config):
        return
    yield from _choices(config)
    yield from _lengths(config)
    yield from _placement(config)
    if not config.is_open(GPUS):
        yield from _batches(config, _policy(config))
        if config.written(CRITIC_MODEL) is not None:
            yield from _batches(config, _critic(config))


def _validates(config: SkyRLConfig) -> bool:
    context = config.context
    return not has_copy(context) or any(
        context.repository.own_functions(folder) >= _CHECKS for folder in ("skyrl_train", "skyrl/train")
    )


def _issue(config: SkyRLConfig, key: str, message: str) -> Issue:
    return config.own.issue("conflict", f"{message}: {_REFUSES}", *(config.written(key) or key).split("."))


def _choices(config: SkyRLConfig) -> Iterator[Issue]:
    both = [config.flag(key) for key in COMPARED]
    if all(both) and config.written(COMPARED[1]) is not None:
        yield _issue(config, COMPARED[1], f"`{COMPARED[0]}` and `{COMPARED[1]}` are both true")
    estimator = "trainer.algorithm.advantage_estimator"
    if config.word(estimator) == "gae" and config.get(CRITIC_MODEL) is None:
        yield _issue(config, estimator, f"`gae` needs a critic (`{CRITIC_MODEL}`)")
    if config.integer(RANK) and config.word(BACKEND) == "sglang":
        yield _issue(config, RANK, "an adapter needs vLLM")
    if config.word(STRATEGY) == "megatron" and config.written(CRITIC_MODEL) is not None:
        yield _issue(config, CRITIC_MODEL, "Megatron-LM trains no critic")
    shared = f"{POLICY}.sequence_parallel_size"
    if config.word(STRATEGY) == "megatron" and (config.integer(shared) or 1) > 1:
        yield _issue(config, shared, "Megatron-LM shares no sequences in Ulysses' way")
    if config.is_older and config.word(STRATEGY) == "fsdp" and config.written(STRATEGY) and config.flag(HOST):
        yield _issue(config, HOST, "`strategy=fsdp` is FSDP 1, which does not keep parameters in host memory")


def _lengths(config: SkyRLConfig) -> Iterator[Issue]:
    prompt, given, turns = config.integer(PROMPT), config.integer(INPUT), config.integer(TURNS)
    if config.written(INPUT) is None or not (prompt and given and turns) or config.is_unknown(PROMPT, INPUT, TURNS):
        return
    if turns == 1 and given != prompt:
        yield _issue(config, INPUT, f"{given} is not `{PROMPT}` ({prompt}), as in one turn it must be")
    elif turns > 1 and given < prompt:
        yield _issue(config, INPUT, f"{given} is less than `{PROMPT}` ({prompt})")


def _placement(config: SkyRLConfig) -> Iterator[Issue]:
    """Engines on the policy's GPUs take exactly these; a reference beside the policy has as many."""
    if config.is_open(GPUS):
        return
    if config.flag(ON_SAME_GPUS):
        sizes = [config.integer(key) for key in (GPUS, NODES, *_ENGINES, _COPIES)]
        if None in sizes or any(map(config.is_open, _ENGINES[:2])):
            return
        each, nodes, engines, shared, stages, copies = (size or 1 for size in sizes)
        if each * nodes != engines * shared * stages * copies:
            taken = engines * shared * stages * copies
            yield _issue(config, _ENGINES[0], f"the engines take {taken} GPUs, the policy has {each * nodes}")
    elif config.flag(f"{PLACES}.colocate_policy_ref") and any(config.flag(key) for key in COMPARED):
        for name in ("gpus_per_node", "nodes"):
            mine, its = (f"{PLACES}.{role}_num_{name}" for role in ("policy", "ref"))
            if config.written(mine) and config.written(its) and config.integer(mine) != config.integer(its):
                yield _issue(config, its, f"{config.integer(its)} is not `{mine}` ({config.integer(mine)})")


class _Learner(NamedTuple):
    """The key of a model's mini-batch, its GPUs, and how many of them share a sequence or the model; None: unknown."""

    mini: str
    world: int | None
    shared: int | None


def _product(config: SkyRLConfig, *keys: str) -> int | None:
    sizes = [size for size in map(config.integer, keys) if size is not None]
    return prod(sizes) if len(sizes) == len(keys) else None


def _policy(config: SkyRLConfig) -> _Learner:
    shares = TOGETHER if config.word(STRATEGY) == "megatron" else (f"{POLICY}.sequence_parallel_size",)
    return _Learner(MINI, _product(config, GPUS, NODES), _product(config, *shares))


def _critic(config: SkyRLConfig) -> _Learner:
    places = tuple(f"{PLACES}.critic_num_{name}" for name in ("gpus_per_node", "nodes"))
    given = config.written(places[0]) is not None
    shared = _product(config, f"{CRITIC}.sequence_parallel_size")
    return _Learner("trainer.critic_mini_batch_size", _product(config, *places) if given else None, shared)


def _batches(config: SkyRLConfig, learner: _Learner) -> Iterator[Issue]:
    """Prompts of a step that make no whole number of mini-batches, and sequences of a mini-batch on one GPU that make
    no whole number of micro-batches."""
    step, mini, micro, each = (config.integer(key) for key in (STEP, learner.mini, UPDATE, SAMPLES))
    if not (step and mini and micro and each and learner.world and learner.shared):
        return
    if learner.world % learner.shared:
        yield _issue(
            config, GPUS, f"{learner.world} GPUs cannot be divided by the {learner.shared} that share the model"
        )
        return
    if step % mini:
        yield _issue(config, learner.mini, f"`{STEP}` ({step}) is no multiple of `{learner.mini}` ({mini})")
        return
    ranks = learner.world // learner.shared
    held = mini * each // ranks
    sizes = f"{mini} prompts with {each} answers on {ranks} ranks are {held} sequences on each"
    if held % micro or not held:
        yield _issue(config, UPDATE, f"{sizes}, no multiple of `{UPDATE}` ({micro})")
    elif (step * each // ranks) % held:
        yield _issue(
            config, learner.mini, f"{sizes}, of which {step * each // ranks} sequences of a step are no multiple"
        )
