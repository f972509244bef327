"""What NeMo-RL's programs refuse before a model is loaded: options of the algorithm that exclude each other.

Each check names the release that has it first. Without a stated release a check of a recent one is a warning. A copy of
NeMo-RL in the repository may check something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.base import Issue
from memlint.formats.fields import as_bool, as_number, value_at
from memlint.formats.nemo_rl.config import NemoConfig, has_copy
from memlint.formats.section_keys import path_of
from memlint.run import UNKNOWN

Version = tuple[int, ...]
_LONG_SINCE: Version = (0, 4)  # up to here a check holds for any release that a file is likely to be for
_ASYNC = "grpo.async_grpo.enabled"
_CORRECTS = "loss_fn.use_importance_sampling_correction"
_SEQUENCE = "loss_fn.sequence_level_importance_ratios"
_BY_TOKEN = "loss_fn.token_level_loss"
_FORCES = "loss_fn.force_on_policy_ratio"
_TRUNCATES = "loss_fn.truncated_importance_sampling_type"
_RATIO = "loss_fn.truncated_importance_sampling_ratio"
_LEAST = f"{_RATIO}_min"
# What lets an engine write while the policy trains, and since which release it may.
_ASYNC_ENGINES: Mapping[str, tuple[Version, str]] = {
    "vllm": ((0, 4), "policy.generation.vllm_cfg.async_engine"),
    "megatron": ((0, 7), "policy.generation.mcore_generation_config.async_engine"),
}
_WAYS = ("tis", "icepop", "seq-mask-tis")
_PROMPTS, _EACH = "grpo.num_prompts_per_step", "grpo.num_generations_per_prompt"
_DRAFT, _MEGATRON = "policy.draft.enabled", "policy.megatron_cfg.enabled"
_DTENSOR, _V2 = "policy.dtensor_cfg.enabled", "policy.dtensor_cfg._v2"
_PACKS, _FILLS = "policy.sequence_packing.enabled", "policy.dynamic_batching.enabled"
_PRECISION = "policy.precision"
_ESTIMATORS: Mapping[Version, tuple[str, ...]] = {
    (0, 6): ("grpo", "gdpo", "reinforce_plus_plus"),
    (0, 7): ("grpo", "gdpo", "reinforce_plus_plus", "opd"),
}


class Refused(NamedTuple):
    """`keys`: what it is about, the first that the file has is its place. `since`: the first release that checks.
    `code`: of the issue."""

    since: Version
    keys: tuple[str, ...]
    message: str
    code: str = "conflict"


def refusals(config: NemoConfig, checks: tuple[Callable[[NemoConfig], Iterator[Refused]], ...]) -> Iterator[Issue]:
    """Issues at keys of the file itself; what the files below refuse by themselves is said of those."""
    stated = config.stated
    if config.names or (has_copy(config.context) and not stated):
        return
    for check in checks:
        for refused in check(config):
            place = next((key for key in refused.keys if value_at(config.own.value, path_of(key)) is not None), "")
            is_checked = not stated or stated >= refused.since
            if place and is_checked and not config.is_overridden(refused.keys):
                is_sure = bool(stated) or refused.since <= _LONG_SINCE
                release = "" if is_sure else f" from {'.'.join(map(str, refused.since))} on"
                message = f"{refused.message}; NeMo-RL refuses to start{release}"
                severity = "error" if is_sure else "warning"
                yield config.own.issue(refused.code, message, *path_of(place), severity=severity)


def _on(config: NemoConfig, key: str) -> bool:
    return as_bool(config.value(key)) is True


def _number(config: NemoConfig, key: str) -> float | None:
    value = config.value(key)
    return None if isinstance(value, bool) else as_number(value)


def asynchronous(config: NemoConfig) -> Iterator[Refused]:
    """0.7.0 examples/run_grpo.py:158 and nemo_rl/algorithms/grpo.py:3367 (0.4.0 examples/run_grpo_math.py:195 and
    nemo_rl/algorithms/grpo.py:1564)."""
    if config.algorithm() != "grpo" or not _on(config, _ASYNC):
        return
    for key in ("grpo.use_dynamic_sampling", "grpo.reward_scaling.enabled", "grpo.reward_shaping.enabled"):
        if _on(config, key):
            yield Refused((0, 4), (key, _ASYNC), f"asynchronous GRPO does not take `{key}`")
    if _on(config, "data.use_multiple_dataloader"):
        keys = ("data.use_multiple_dataloader", _ASYNC)
        yield Refused((0, 6), keys, "asynchronous GRPO does not take `data.use_multiple_dataloader`")
    if not _on(config, _CORRECTS) and config.value(_CORRECTS) is not UNKNOWN:
        yield Refused((0, 4), (_CORRECTS, _ASYNC), f"asynchronous GRPO needs `{_CORRECTS}: true`")
    backend = str(config.value("policy.generation.backend"))
    if backend in _ASYNC_ENGINES:
        since, engine = _ASYNC_ENGINES[backend]
        if config.value(engine) in (None, False):
            yield Refused(
                since, (engine, "policy.generation.backend", _ASYNC), f"asynchronous GRPO needs `{engine}: true`"
            )
    if _on(config, "policy.generation.colocated.enabled"):
        keys = ("policy.generation.colocated.enabled", _ASYNC)
        yield Refused((0, 4), keys, "asynchronous GRPO needs an engine with GPUs of its own, not a colocated one")


def sampling(config: NemoConfig) -> Iterator[Refused]:
    """0.7.0 nemo_rl/algorithms/grpo.py:343, :349 and :1834; the first in 0.4.0 :247, the others in 0.6.0."""
    if config.algorithm() != "grpo":
        return
    more = _number(config, "grpo.batch_multiplier")
    if more not in (None, 1) and not _on(config, "grpo.use_dynamic_sampling"):
        keys = ("grpo.batch_multiplier", "grpo.use_dynamic_sampling")
        yield Refused((0, 4), keys, f"`batch_multiplier: {more:g}` needs `use_dynamic_sampling: true`")
    name = config.value("grpo.adv_estimator.name")
    newest = [words for since, words in _ESTIMATORS.items() if not config.stated or config.stated >= since]
    if isinstance(name, str) and newest and name not in newest[-1]:
        message = f"`adv_estimator.name: {name}` is none of {', '.join(newest[-1])}"
        yield Refused((0, 6), ("grpo.adv_estimator.name",), message, "bad-value")
    prompts, each = _number(config, _PROMPTS), _number(config, "data.num_prompts_per_dataloader")
    if _on(config, "data.use_multiple_dataloader") and prompts and not _on(config, "grpo.use_dynamic_sampling"):
        loaders = ("data.use_multiple_dataloader", "data.num_prompts_per_dataloader", _PROMPTS)
        if not each:
            yield Refused((0, 6), loaders, "`use_multiple_dataloader` needs `num_prompts_per_dataloader`")
        elif prompts % each:
            message = f"`num_prompts_per_step: {prompts:g}` is no multiple of `num_prompts_per_dataloader: {each:g}`"
            yield Refused((0, 6), loaders, message)


def loss(config: NemoConfig) -> Iterator[Refused]:
    """0.7.0 nemo_rl/algorithms/loss/loss_functions.py:249 and nemo_rl/algorithms/grpo.py:434 and :442 (0.4.0
    loss_functions.py:131, 0.5.0 grpo.py:611)."""
    if config.algorithm() != "grpo":
        return
    by_token = config.value(_BY_TOKEN)
    if _on(config, _SEQUENCE) and (by_token is None or as_bool(by_token)):
        message = "`sequence_level_importance_ratios` needs `token_level_loss: false`"
        yield Refused((0, 4), (_SEQUENCE, _BY_TOKEN), message)
    total, prompts, each = (_number(config, key) for key in ("policy.train_global_batch_size", _PROMPTS, _EACH))
    if _on(config, _FORCES) and total and prompts and each and prompts * each != total:
        message = (
            f"`force_on_policy_ratio` needs a global batch of the {prompts * each:g} sequences of a step, not {total:g}"
        )
        yield Refused((0, 5), (_FORCES, "policy.train_global_batch_size", _PROMPTS, _EACH), message)
    penalty, skips = (
        _number(config, "loss_fn.reference_policy_kl_penalty"),
        "grpo.skip_reference_policy_logprobs_calculation",
    )
    if _on(config, skips) and penalty:
        message = f"`{skips.partition('.')[2]}` needs `reference_policy_kl_penalty: 0`, not {penalty:g}"
        yield Refused((0, 7), (skips, "loss_fn.reference_policy_kl_penalty"), message)


def clipped(config: NemoConfig) -> Iterator[Refused]:
    """CISPO: 0.7.0 nemo_rl/algorithms/loss/loss_functions.py:254."""
    key = "loss_fn.use_cispo"
    if config.algorithm() != "grpo" or not _on(config, key):
        return
    for other in ("loss_fn.disable_ppo_ratio", _FORCES, _SEQUENCE):
        if _on(config, other):
            yield Refused((0, 7), (key, other), f"`use_cispo` does not go with `{other.partition('.')[2]}`")
    if _number(config, "loss_fn.ratio_clip_c") is not None:
        yield Refused((0, 7), (key, "loss_fn.ratio_clip_c"), "`use_cispo` does not go with `ratio_clip_c`")
    if as_bool(config.value(_BY_TOKEN)) is False:
        yield Refused((0, 7), (key, _BY_TOKEN), "`use_cispo` needs `token_level_loss: true`")


def truncated(config: NemoConfig) -> Iterator[Refused]:
    """0.7.0 nemo_rl/algorithms/loss/loss_functions.py:276."""
    way, keys = config.value(_TRUNCATES), (_TRUNCATES, _RATIO, _LEAST, _CORRECTS)
    if config.algorithm() != "grpo" or not isinstance(way, str):
        return
    ratio, least = _number(config, _RATIO), _number(config, _LEAST)
    name = _TRUNCATES.partition(".")[2]
    if not _on(config, _CORRECTS):
        yield Refused((0, 7), keys, f"`{name}` needs `use_importance_sampling_correction: true`")
    elif way not in _WAYS:
        yield Refused((0, 6), keys, f"`{name}: {way}` is none of {', '.join(_WAYS)}", "bad-value")
    elif not ratio or ratio < 0:
        yield Refused((0, 7), keys, f"`{name}` needs a `truncated_importance_sampling_ratio` above 0")
    elif least is not None and least > ratio:
        message = f"`truncated_importance_sampling_ratio_min: {least:g}` is more than the ratio itself, {ratio:g}"
        yield Refused((0, 7), keys, message)
    elif least is None and way != "tis":
        yield Refused((0, 7), keys, f"`{name}: {way}` needs `truncated_importance_sampling_ratio_min`")
    elif way == "seq-mask-tis" and _on(config, _SEQUENCE):
        yield Refused((0, 6), (*keys, _SEQUENCE), f"`{name}: {way}` excludes `sequence_level_importance_ratios`")


def preferences(config: NemoConfig) -> Iterator[Refused]:
    """0.7.0 nemo_rl/algorithms/dpo.py:147 (0.3.1 :117)."""
    for key in (_FILLS, _PACKS) if config.algorithm() == "dpo" else ():
        if _on(config, key):
            yield Refused((0, 3), (key,), f"DPO does not take `{key}`")


def workers(config: NemoConfig) -> Iterator[Refused]:
    """0.7.0 nemo_rl/models/policy/lm_policy.py:98 and :151, nemo_rl/models/automodel/setup.py:287, :312 and :699 (0.6.0
    lm_policy.py:96; the dtypes since 0.2)."""
    if _on(config, _DRAFT) and not _on(config, _MEGATRON):
        yield Refused((0, 6), (_DRAFT, _MEGATRON), "a draft model (`policy.draft`) needs Megatron-LM")
    elif _on(config, _DRAFT) and _on(config, _PACKS):
        yield Refused((0, 6), (_DRAFT, _PACKS), "a draft model (`policy.draft`) excludes `sequence_packing`")
    if not _on(config, _DTENSOR):
        return
    word = config.value(_PRECISION)
    if isinstance(word, str) and word not in ("float32", "bfloat16", "float16"):
        message = f"`precision: {word}` is none of float32, bfloat16 and float16"
        yield Refused((0, 2), (_PRECISION,), message, "bad-value")
    copies = "policy.dtensor_cfg.dp_replicate_size"
    if config.engine == "dtensor" and not config.is_v2 and (_number(config, copies) or 1) > 1:
        yield Refused((0, 7), (copies, _V2), "copies of the model (`dp_replicate_size`) need `_v2: true`")
    attention = "policy.dtensor_cfg.automodel_kwargs.attn_implementation"
    asked: Any = config.value(attention)
    if config.is_v2 and _on(config, _PACKS) and isinstance(asked, str) and asked != "flash_attention_2":
        message = f"sequences that are packed need flash_attention_2, not `attn_implementation: {asked}`"
        yield Refused((0, 7), (attention, _PACKS), message)
    turned = "policy.hf_config_overrides.rope_scaling.rope_type"
    if config.is_v2 and config.value(turned) == "yarn":
        yield Refused((0, 6), (turned,), "YaRN needs Megatron-LM, not DTensor")


ALGORITHM = (asynchronous, sampling, loss, clipped, truncated, preferences, workers)
