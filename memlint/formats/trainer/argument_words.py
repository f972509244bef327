"""Words and options of TrainingArguments that end a run and that no type tells: slips, and text for a mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memlint.formats.base import Issue
from memlint.formats.fields import interpolated
from memlint.formats.schema.suggest import nearest, slip_of
from memlint.formats.trainer.config import TrainerConfig

# transformers 5.23.0 debug_utils.py, DebugOption; accelerate 1.15.0 utils/dataclasses.py, DynamoBackend.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "debug": ("underflow_overflow", "tpu_metrics_debug"),
    "torch_compile_backend": (
        *("no", "eager", "aot_eager", "inductor", "aot_ts_nvfuser", "nvprims_nvfuser", "cudagraphs", "ofi", "fx2trt"),
        *("onnxrt", "tensorrt", "aot_torchxla_trace_once", "torchxla_trace_once", "tvm", "hpu_backend", "neuron"),
    ),
}
# transformers 5.23.0 optimization.py: what each schedule takes beside the steps.
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "cosine": ("num_cycles",),
    "cosine_with_restarts": ("num_cycles",),
    "polynomial": ("lr_end", "power"),
    "inverse_sqrt": ("timescale",),
    "cosine_with_min_lr": ("num_cycles", "min_lr", "min_lr_rate"),
    "warmup_stable_decay": (
        *("num_decay_steps", "num_stable_steps", "warmup_type", "decay_type", "min_lr_ratio", "num_cycles"),
    ),
}
# torch 2.13 utils/checkpoint.py, and what transformers 5.23 takes out before.
_CHECKPOINTING = (
    *("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"),
    *("every_n_layers", "offload", "selective"),
)
# training_args.py reads text that starts with a brace as JSON; other text stays text.
_MAPPINGS = ("lr_scheduler_kwargs", "gradient_checkpointing_kwargs")


def word_issues(config: TrainerConfig) -> Iterator[Issue]:
    yield from (issue for key, known in _WORDS.items() for issue in _slips(config, key, known))
    for key in _MAPPINGS:
        value = config.section.value.get(key)
        is_used = key == _MAPPINGS[0] or config.is_on("gradient_checkpointing")
        if isinstance(value, str) and value.strip() and not value.lstrip().startswith("{") and not interpolated(value):
            message = f"`{key}: {value[:40]}` is no mapping: the run fails when it is used"
            yield config.section.issue("wrong-type", message, key, severity="error" if is_used else "warning")
    yield from _schedule(config)
    yield from _option_slips(config, "gradient_checkpointing_kwargs", _CHECKPOINTING, "checkpointing")


def _slips(config: TrainerConfig, key: str, known: tuple[str, ...]) -> Iterator[Issue]:
    """A word that misspells a known one; others may be a newer release's."""
    value = config.section.value.get(key)
    words = value if isinstance(value, list) else value.split() if isinstance(value, str) else []
    for word in words:
        near = _near(word.lower(), known) if isinstance(word, str) and word.lower() not in known else ""
        if near:
            message = f"`{key}: {word[:40]}`: did you mean `{near}`? transformers raises ValueError"
            yield config.section.issue("bad-value", message, key, suggestion="" if isinstance(value, list) else near)
            return


def _near(word: str, known: tuple[str, ...]) -> str:
    begun = (one for one in known if len(word) > 4 and one.startswith(word))
    return nearest(word, known) or next(begun, "")


def _option_slips(config: TrainerConfig, key: str, known: tuple[str, ...], owner: str) -> Iterator[Issue]:
    options = config.section.value.get(key)
    given = options if isinstance(options, dict) else {}
    for option in given:
        is_unknown = isinstance(option, str) and option not in known
        near = slip_of(option, {name: {} for name in known}, given) if is_unknown else ""
        if near:
            message = f"{owner} takes no `{option}`: did you mean `{near}`? The run fails when it is used"
            yield config.section.issue("bad-value", message, key)


def _schedule(config: TrainerConfig) -> Iterator[Issue]:
    """Options of a schedule that it does not take, and the one that it needs (optimization.py, get_scheduler)."""
    name, options = config.args.get("lr_scheduler_type"), config.section.value.get("lr_scheduler_kwargs")
    if not isinstance(name, str) or config.section.value.get("deepspeed"):
        return  # DeepSpeed's file may have the schedule
    yield from _option_slips(config, "lr_scheduler_kwargs", _OPTIONS.get(name, ()), f"`{name}`")
    if name == "warmup_stable_decay" and options in (None, {}) and "lr_scheduler_type" in config.section.value:
        message = "`warmup_stable_decay` needs `num_decay_steps` in `lr_scheduler_kwargs`: Python raises TypeError"
        yield config.section.issue("missing-key", message, "lr_scheduler_type")
