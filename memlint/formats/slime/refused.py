"""What slime refuses before it trains: sizes and choices that do not go together (0.1.0 to 0.3.1
slime/utils/arguments.py, slime_validate_args, slime/ray/placement_group.py and train_async.py).

A copy of slime is taken to check what it has a function for. A file of `--custom-config-path` may say any argument
again.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from typing import Any

from memlint._record import NamedTuple
from memlint.findings import Edit
from memlint.formats.base import Issue
from memlint.formats.fields import Fields, as_number, interpolated
from memlint.formats.slime import reading, roles
from memlint.formats.slime.config import SlimeConfig

REFUSES = "slime refuses to start"
_OWN_CODE = "slime/utils"
_CHECKS = frozenset(("slime_validate_args", "hf_validate_args"))  # since 0.2.0; in 0.1.0
_OTHER_ROLLOUTS = (
    "rollout_function_path",
    "custom_generate_function_path",
    "custom_convert_samples_to_train_data_path",
)
_TRAINS_ALONE = ("debug_train_only", "load_debug_rollout_data")
_WITHOUT_ENGINES = (*_TRAINS_ALONE, "rollout_external", "rollout_external_engine_addrs")


class _Check(NamedTuple):
    """`holds`: whether a command is refused, for what it says of `key`. `lacks`: the arguments that are not there; an
    open command may have them. `adds`: the switch whose absence is refused. `first`, `end`: the release that came with
    the check, and that which is without it again; () for all."""

    key: str
    holds: Callable[[SlimeConfig], bool]
    message: str
    lacks: tuple[str, ...] = ()
    adds: str = ""
    first: tuple[int, ...] = ()
    end: tuple[int, ...] = ()


def number(config: SlimeConfig, key: str) -> float | None:
    """A number that the command gives, with or without a row in the table."""
    return as_number(config.section.value.get(key))


def _word(config: SlimeConfig, key: str) -> str:
    value = config.section.value.get(key)
    return value if isinstance(value, str) else ""


def _is(key: str, *words: str) -> Callable[[SlimeConfig], bool]:
    return lambda config: _word(config, key) in words


def _gives(*keys: str) -> Callable[[SlimeConfig], bool]:
    """Whether a command certainly gives all of these: what its caller may give is a placeholder."""
    return lambda config: all(config.gives(key) and not interpolated(config.section.value.get(key)) for key in keys)


def _less(key: str, other: str, by: int = 0) -> Callable[[SlimeConfig], bool]:
    def holds(config: SlimeConfig) -> bool:
        one, two = number(config, key), number(config, other)
        return one is not None and two is not None and one < two + by

    return holds


def _both_above_0(key: str, other: str) -> Callable[[SlimeConfig], bool]:
    return lambda config: bool(number(config, key)) and bool(number(config, other))


def _has_one_stage(key: str) -> Callable[[SlimeConfig], bool]:
    return lambda config: _gives(key)(config) and config.whole("pipeline_model_parallel_size") == 1


def _leaves_a_rest(whole: str, part: str) -> Callable[[SlimeConfig], bool]:
    def holds(config: SlimeConfig) -> bool:
        one, two = number(config, whole), number(config, part)
        return one is not None and two is not None and two > 0 and one % two > 0

    return holds


def _above_1(key: str) -> Callable[[SlimeConfig], bool]:
    return lambda config: (number(config, key) or 1) > 1


_TABLE = (
    _Check(
        *(roles.KL_LOSS, roles.compares),
        "a reference needs a checkpoint (`--ref-load`)",
        lacks=("ref_load",),
    ),
    _Check(
        *("kl_loss_coef", _both_above_0("kl_coef", "kl_loss_coef")),
        "`kl_coef` and `kl_loss_coef` are both given, and a reference counts in the reward or in the loss",
    ),
    _Check(
        *(roles.ESTIMATOR, _is(roles.ESTIMATOR, "reinforce_plus_plus", "reinforce_plus_plus_baseline")),
        "this estimator needs `--normalize-advantages`",
        lacks=("normalize_advantages",),
        adds="normalize_advantages",
    ),
    _Check(
        *(reading.DYNAMIC, _gives(reading.DYNAMIC)),
        f"dynamic batches need `--{reading.TOKENS.replace('_', '-')}`",
        lacks=(reading.TOKENS,),
    ),
    _Check(
        *("eval_interval", _gives("eval_interval")),
        "evaluation needs data (`--eval-prompt-data` or `--eval-config`)",
        lacks=("eval_prompt_data", "eval_config"),
    ),
    _Check(
        *("save_interval", _gives("save_interval"), "checkpoints need a place (`--save`)"),
        lacks=("save",),
        first=(0, 2),
    ),
    _Check(
        *("over_sampling_batch_size", _less("over_sampling_batch_size", reading.PROMPTS)),
        f"it is less than `{reading.PROMPTS}`",
    ),
    _Check(
        *(reading.PROMPTS, _gives(reading.PROMPTS)),
        "nobody says how long to train (`--num-rollout` or `--num-epoch`)",
        lacks=("num_rollout", "num_epoch"),
    ),
    _Check(
        *(reading.CONTEXT, _less(reading.CONTEXT, reading.PROMPT, by=1)),
        f"it leaves no token for an answer behind a prompt of `{reading.PROMPT}`",
        first=(0, 2, 2),
    ),
    _Check(
        *("use_tis", _gives("use_tis", "use_rollout_logprobs")),
        "`use_tis` and `use_rollout_logprobs` exclude each other",
    ),
    _Check(
        *("get_mismatch_metrics", _gives("get_mismatch_metrics")),
        "these metrics need `--custom-tis-function-path`",
        lacks=("custom_tis_function_path",),
    ),
    _Check(
        *("enable_mtp_training", _gives("enable_mtp_training"), "it needs `--mtp-num-layers`"),
        lacks=("mtp_num_layers",),
    ),
    _Check(
        *("freeze_params_name_list", _gives("freeze_params_name_list", "only_train_params_name_list")),
        "only one of it and `only_train_params_name_list` may be given",
    ),
    _Check("use_opd", _gives("use_opd"), "it needs `--opd-type`", lacks=("opd_type",)),
    _Check(
        *("opd_type", lambda config: config.gives("use_opd") and _word(config, "opd_type") == "megatron"),
        "a teacher under Megatron-LM needs `--opd-teacher-load`",
        lacks=("opd_teacher_load",),
    ),
    _Check(
        *(
            "opd_teacher_load",
            lambda config: _gives("use_opd", "opd_teacher_load")(config) and _word(config, "opd_type") == "sglang",
        ),
        "with `opd_type sglang` a server has the teacher",
    ),
    _Check("opd_teacher_load", _gives("opd_teacher_load"), "it needs `--use-opd`", lacks=("use_opd",)),
    _Check(
        *("debug_rollout_only", _gives("debug_rollout_only", "debug_train_only")),
        "`debug_rollout_only` and `debug_train_only` exclude each other",
    ),
    _Check(
        *("update_weight_mode", lambda config: _word(config, "update_weight_mode") == "delta" and _colocates(config)),
        "differences of weights are not sent to engines on the same GPUs",
    ),
    _Check(
        *("release_train", lambda config: config.gives("release_train") and _word(config, roles.ESTIMATOR) == "ppo"),
        "it trains no critic",
    ),
    _Check("release_train", _gives("release_train", "keep_old_actor"), "it keeps no older policy"),
    _Check("release_train", _gives("release_train"), "the next policy is loaded from `--save`", lacks=("save",)),
    _Check(
        *("num_epoch", _gives("num_epoch", "disable_rollout_global_dataset")),
        "epochs are those of the global dataset, which `disable_rollout_global_dataset` takes away",
        lacks=("num_rollout",),
    ),
    _Check(
        "eval_prompt_data",
        lambda config: _is_odd(config.section.value.get("eval_prompt_data")),
        "data for evaluation are names with paths, in pairs",
    ),
    _Check(
        *("balance_by_flops", _gives("balance_by_flops"), "it needs `--use-dynamic-batch-size`"),
        lacks=(reading.DYNAMIC,),
    ),
    _Check(
        *("qkv_format", lambda config: _word(config, "qkv_format") == "bshd" and config.flag(reading.DYNAMIC)),
        "dynamic batches have no padding, as `bshd` wants",
        first=(0, 2, 2),
        end=(0, 3, 1),
    ),
    _Check(
        *(roles.TOGETHER, lambda config: _colocates(config) and _is_async(config)),
        "`train_async.py` writes answers while the policy trains, which needs GPUs of its own: no `--colocate`",
    ),
    _Check(
        *("prefill_num_servers", _gives("prefill_num_servers", "rollout_external_engine_addrs")),
        "engines elsewhere are as they are",
    ),
    _Check(
        *("sglang_config", _gives("sglang_config", "rollout_external_engine_addrs")),
        "engines elsewhere are as they are",
    ),
    _Check(
        *("sglang_config", _gives("sglang_config", "prefill_num_servers")),
        "the file says which engines prefill: no `prefill_num_servers`",
    ),
    *(
        _Check(
            *(key, _has_one_stage(key)),
            "with one pipeline stage it must not be given",
            first=(0, 2, 2),
        )
        for key in ("decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers")
    ),
    _Check(
        *("sglang_pp_size", _leaves_a_rest(roles.RANKS, "sglang_pp_size")),
        f"`{roles.RANKS}` is no multiple of it",
        first=(0, 3),
    ),
    *(
        _Check(
            *(key, _above_1(key)),
            "copies within an engine need `--sglang-enable-dp-attention`",
            lacks=("sglang_enable_dp_attention",),
        )
        for key in ("sglang_dp_size", "sglang_data_parallel_size")
    ),
)


def _is_odd(words: Any) -> bool:
    """More than one word, and not in pairs; one alone is a path."""
    return isinstance(words, list) and len(words) > 1 and len(words) % 2 == 1 and not any(map(interpolated, words))


def _colocates(config: SlimeConfig) -> bool:
    return config.flag(roles.TOGETHER)


def _is_async(config: SlimeConfig) -> bool:
    start = config.section.document.start
    return start is not None and posixpath.basename(start.program.entry) in ("train_async.py", "train_async")


def is_judged(config: SlimeConfig) -> bool:
    """Whether slime's own checks read the command, as far as it shows: those of a copy, or of slime elsewhere. Another
    program `train.py` of the repository is no copy: of frameworks that were made of slime, which check otherwise."""
    own, start = config.context.repository.own_functions(_OWN_CODE), config.section.document.start
    is_elsewhere = not own and start is not None and start.program.is_foreign
    is_checked = bool(own & _CHECKS) or is_elsewhere
    return is_checked and not config.gives("custom_config_path") and not config.is_fsdp


def refused(fields: Fields, config: SlimeConfig) -> Iterator[Issue]:
    for check in _TABLE:
        is_absent = not any(config.gives(key) for key in check.lacks)
        is_said = is_absent and not (check.lacks and leaves_open(config)) and _is_in_release(config, check)
        if is_said and check.holds(config):
            yield _issue(config, check)
    yield from _required(config)
    yield from _batches(config)
    yield from _engines(config)


def _required(config: SlimeConfig) -> Iterator[Issue]:
    """The one argument that argparse asks for: often one of those below a line without its backslash."""
    if not config.gives(reading.PROMPTS) and not leaves_open(config) and config.section.value:
        message = f"`--{reading.PROMPTS.replace('_', '-')}` is required, and this command ends without it; {REFUSES}"
        yield config.section.issue("conflict", message, str(tuple(config.section.value)[-1]))


def leaves_open(config: SlimeConfig) -> bool:
    """Whether the command may have arguments that nobody knows."""
    start = config.section.document.start
    return start is None or start.accepted.leaves_open


def _issue(config: SlimeConfig, check: _Check) -> Issue:
    place = config.section
    edit = Edit(place.document.path, (*place.pointer, check.adds), "set", True) if check.adds else None
    where = "" if config.context.versions.get("slime") else _releases(check)
    return place.issue("conflict", f"{check.message}; {REFUSES}", check.key, edit=edit, where=where)


def _is_in_release(config: SlimeConfig, check: _Check) -> bool:
    """Whether the release that somebody states has the check; so it is where nobody states one."""
    release = tuple(config.context.versions.get("slime", ()))
    return not release or (release >= check.first and (not check.end or release < check.end))


def _releases(check: _Check) -> str:
    """In which releases the check is; "" for all."""
    first, end = (".".join(map(str, one)) for one in (check.first, check.end))
    return f"slime is {first} or newer" + (f", and older than {end}" if end else "") if first else ""


def _batches(config: SlimeConfig) -> Iterator[Issue]:
    """Updates of a rollout that are not as large as is said, or larger than the rollout."""
    given, steps, whole = (config.whole(key) for key in (reading.BATCH, reading.STEPS, reading.PROMPTS))
    held = reading.sequences_of_rollout(config)
    if given is None or held is None or whole is None or not config.is_known(reading.SAMPLES):
        return
    if steps is not None and held // steps != given:
        message = f"{held} sequences in {steps} updates are not {given} in each; {REFUSES}"
        yield config.section.issue("conflict", message, reading.BATCH)
    elif given > held and not any(config.gives(key) for key in _OTHER_ROLLOUTS):
        message = f"a rollout has {held} sequences, fewer than one update ({given}); slime has no update to make"
        yield config.section.issue("conflict", message, reading.BATCH, where="each prompt has no more answers")


def _engines(config: SlimeConfig) -> Iterator[Issue]:
    """Engines without GPUs: `None` cannot be added to the policy's."""
    lacks = (roles.GPUS, roles.TOGETHER, *_WITHOUT_ENGINES)
    if any(config.gives(key) for key in lacks) or leaves_open(config) or not config.gives(reading.PROMPTS):
        return
    message = f"the engines have no GPUs: give `--colocate` or `--{roles.GPUS.replace('_', '-')}`; slime fails on it"
    yield config.section.issue("conflict", message, reading.PROMPTS)
