"""Issues of a training config of Oumi: what its dataclasses refuse (oumi 0.9 core/configs, each `__post_init__`)."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.formats.base import Issue
from memlint.formats.fields import as_bool, as_number
from memlint.formats.oumi.config import OumiConfig
from memlint.formats.oumi.keys import DTYPE, PRECISION
from memlint.formats.oumi.recognise import SCHEMA
from memlint.formats.schema.validate import compiled_schema, schema_issues
from memlint.formats.section_keys import path_of
from memlint.formats.unread_texts import unread_texts

_REFUSES = "Oumi refuses to start"
_OWN_LOOPS = ("OUMI", "VERL_GRPO")
_BOUNDS = (("max_steps", -1), ("num_train_epochs", 3))
_WITH_REWARDS = ("TRL_GRPO", "VERL_GRPO")


def oumi_issues(config: OumiConfig) -> tuple[Issue, ...]:
    value = config.section.value
    found = schema_issues(value, config.section.document.path, SCHEMA, config.context.versions)
    texts = tuple(unread_texts(config.section, compiled_schema(SCHEMA).schema, _REFUSES))
    every = (*_precision(config), *_compile(config), *_engines(config), *_offload(config), *_steps(config))
    return (*found, *texts, *every, *_rewards(config), *_verl(config), *_passed_on(config), *_ignored(config))


def _issue(config: OumiConfig, key: str, message: str) -> Issue:
    return config.section.issue("conflict", f"{message}: {_REFUSES}", *path_of(key))


def _precision(config: OumiConfig) -> Iterator[Issue]:
    """TrainingConfig: "Model must be loaded in fp32 to enable mixed precision training." """
    word, given = config.text(PRECISION).upper(), config.text(DTYPE)
    if not config.dtype:
        yield config.section.issue("bad-value", f"`{given}` is no dtype: {_REFUSES}", *path_of(DTYPE))
    elif word in ("BF16", "FP16") and config.dtype != "float32":
        yield _issue(config, PRECISION, f"autocast to {word} needs `{DTYPE}: float32`, not `{given}`")


def _compile(config: OumiConfig) -> Iterator[Issue]:
    if as_bool(config.raw("model.compile")):
        yield _issue(config, "model.compile", "`model.compile` is for inference, `training.compile` for training")
    if config.flag("training.compile") and config.get("fsdp.use_orig_params") is False:
        yield _issue(config, "fsdp.use_orig_params", "compiled models need `fsdp.use_orig_params: true`")


def _engines(config: OumiConfig) -> Iterator[Issue]:
    if not config.flag("deepspeed.enable_deepspeed"):
        return
    if config.shards:
        yield _issue(config, "deepspeed.enable_deepspeed", "FSDP and DeepSpeed are both enabled")
    size = config.get("deepspeed.train_batch_size")
    if config.is_of_trl and size != "auto":
        yield _issue(config, "deepspeed.train_batch_size", "TRL's trainers need `train_batch_size: auto`")


def _offload(config: OumiConfig) -> Iterator[Issue]:
    """DeepSpeedParams: parameters at stage 3 alone, optimizer states from stage 1 on, enabled or not."""
    given, stage = config.mapping("deepspeed"), config.zero_stage
    if given.get("offload_param") is not None and stage != 3:
        yield _issue(config, "deepspeed.offload_param", "parameters are offloaded at ZERO_3 alone")
    if given.get("offload_optimizer") is not None and stage == 0:
        yield _issue(config, "deepspeed.offload_optimizer", "optimizer states are offloaded from ZERO_1 on")


def _steps(config: OumiConfig) -> Iterator[Issue]:
    training = config.mapping("training")
    every, bounds = training.get("eval_steps"), [as_number(training.get(key, default)) for key, default in _BOUNDS]
    if all(bound is not None and bound <= 0 for bound in bounds):
        yield _issue(config, "training.num_train_epochs", "neither `max_steps` nor `num_train_epochs` is above 0")
    if isinstance(every, float) and (not 0 < every < 1 or config.trainer in _OWN_LOOPS):
        message = f"`eval_steps: {every}` is no share of a run that the trainer {config.trainer} takes"
        yield _issue(config, "training.eval_steps", message)


def _rewards(config: OumiConfig) -> Iterator[Issue]:
    training = config.mapping("training")
    if training.get("reward_functions") and config.trainer not in _WITH_REWARDS:
        yield _issue(config, "training.reward_functions", f"the trainer {config.trainer} takes no reward functions")
    if config.trainer == "TRL_GRPO" and training.get("include_performance_metrics") is True:
        key = "training.include_performance_metrics"
        yield _issue(config, key, "TRL_GRPO takes no `include_performance_metrics`")


def _verl(config: OumiConfig) -> Iterator[Issue]:
    validation = config.mapping("data").get("validation")
    if config.trainer == "VERL_GRPO" and not (isinstance(validation, dict) and validation.get("datasets")):
        yield _issue(config, "training.trainer_type", "VERL_GRPO needs a data set in `data.validation`")


def _passed_on(config: OumiConfig) -> Iterator[Issue]:
    """GRPO's own section is passed on whole, and an argument may be given once."""
    own = config.mapping("training").get("grpo")
    twice = sorted(config.passed_on.keys() & own.keys()) if isinstance(own, dict) else ()
    if config.trainer == "TRL_GRPO" and twice:
        key = f"training.trainer_kwargs.{twice[0]}"
        yield _issue(config, key, f"`{twice[0]}` stands in `training.grpo` and in `training.trainer_kwargs`")


def _ignored(config: OumiConfig) -> Iterator[Issue]:
    """Sections that a switch elsewhere turns on (oumi 0.9 train.py): without it they change nothing, and the model is
    whole on each card, or all of it trains."""
    for section, switch, otherwise in _SWITCHED:
        if isinstance(config.section.value.get(section), dict) and config.written(switch) is None:
            message = f"the section `{section}` has no effect without `{switch}: true`: {otherwise}"
            yield config.section.issue("ignored-key", message, section, severity="warning", on_key=True)


_SWITCHED = (
    ("peft", "training.use_peft", "all of the model trains"),
    ("fsdp", "fsdp.enable_fsdp", "nothing is sharded"),
    ("deepspeed", "deepspeed.enable_deepspeed", "nothing is sharded"),
)
