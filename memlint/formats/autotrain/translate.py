"""A training config of AutoTrain as the arguments of transformers and TRL, with every value at its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint.formats.autotrain.config import AutotrainConfig
from memlint.formats.autotrain.keys import BACKEND, KEYS, LENGTH, PRECISION, QUANTIZATION
from memlint.formats.base import Issue
from memlint.formats.trainer_names import entries_of_arguments
from memlint.source.document import Document, Path, Start, StartedProgram
from memlint.source.layout import Places

_ENTRY = "autotrain"
# Arguments that are worked out from a parameter of another name or kind.
_WORKED_OUT = {
    "max_length": LENGTH,
    "bf16": PRECISION,
    "fp16": PRECISION,
    "load_in_4bit": QUANTIZATION,
    "load_in_8bit": QUANTIZATION,
    "attn_implementation": "params.use_flash_attention_2",
    "lora_target_modules": "params.target_modules",
    "gradient_checkpointing": "params.disable_gradient_checkpointing",
    "eval_strategy": "params.eval_strategy",
    "deepspeed": BACKEND,
}
# What accelerate makes of `--use_deepspeed --zero_stage 3 ...` (commands.py, get_accelerate_command; accelerate 1.2.1
# utils/dataclasses.py, DeepSpeedPlugin).
_ZERO_3: Mapping[str, Any] = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
    "fp16": {"enabled": "auto"},
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "none"},
        "offload_param": {"device": "none"},
        "stage3_gather_16bit_weights_on_model_save": True,
    },
}


def as_trainer(config: AutotrainConfig) -> Document:
    """The document under the Trainer's names, with AutoTrain's defaults."""
    document = config.section.document
    values = dict(_values(config))
    return document._replace(value=values, places=_places(config, values), start=_started(config))


def _started(config: AutotrainConfig) -> Start:
    """AutoTrain's program: it loads the model itself, and starts one process for each card that it sees."""
    given = config.section.document.start
    program = StartedProgram(
        _ENTRY,
        framework="trl" if config.is_of_trl else "transformers",
        task=config.stage,
        loads_model=True,
        quantized_preparation="qlora" if not config.is_of_trl and config.bits < 16 else "",
        gives_reference=_has_own_reference(config),
        takes_texts_alone=True,
        fills_length=not config.is_of_trl,
    )
    start = (given or Start("autotrain", ""))._replace(launcher="torchrun")
    unknown = {path: why for path, why in start.values.unknown.items() if path in config.section.document.places}
    return start._replace(program=program, values=start.values._replace(unknown=_renamed(config, unknown)))


def _renamed(config: AutotrainConfig, unknown: Mapping[Path, str]) -> Mapping[Path, str]:
    """What nobody can know, under the names that it is read by."""
    by_path = {path: name for name, path in _origins(config)}
    return {(by_path[path],): why for path, why in unknown.items() if path in by_path}


def _has_own_reference(config: AutotrainConfig) -> bool:
    return config.stage == "dpo" and not config.trains_adapter and bool(config.text("params.model_ref"))


def _values(config: AutotrainConfig) -> Iterator[tuple[str, Any]]:
    """The arguments, each default before what the file says."""
    for row in KEYS:
        if row.passes and row.name != LENGTH and (row.when is None or row.when(config)):
            value = config.get(row.name) if config.written(row.name) is not None else row.default
            if value is not None:
                yield row.passes, value
    if config.length is not None:
        yield "max_length", config.length
    yield "eval_strategy", config.get("params.eval_strategy") if config.evaluates else "no"
    if config.evaluates:
        yield "per_device_eval_batch_size", config.get("params.batch_size")
    yield "packing", config.stage == "sft" and config.is_of_trl
    yield from (("bf16", config.autocast == "bf16"), ("fp16", config.autocast == "fp16"))
    yield from _loading(config)
    recomputes = not config.flag("params.disable_gradient_checkpointing")
    yield "gradient_checkpointing", recomputes
    if recomputes:
        yield "gradient_checkpointing_kwargs", {"use_reentrant": config.bits < 16}
    if config.text(BACKEND) == "deepspeed" and config.context.gpus != 1:
        yield "deepspeed", dict(_ZERO_3)


def _loading(config: AutotrainConfig) -> Iterator[tuple[str, Any]]:
    if config.flag("params.use_flash_attention_2"):
        yield "attn_implementation", "flash_attention_2"
    if config.trains_adapter and config.targets is not None:
        yield "lora_target_modules", config.targets
    if config.bits == 4:
        yield from (("load_in_4bit", True), ("bnb_4bit_quant_type", "nf4"), ("use_bnb_nested_quant", False))
    elif config.bits == 8:
        yield "load_in_8bit", True


def _origins(config: AutotrainConfig) -> Iterator[tuple[str, Path]]:
    """Argument -> the path of the parameter that it comes from."""
    yield from ((row.passes, config.path(row.name)) for row in KEYS if row.passes)
    yield from ((name, config.path(own)) for name, own in _WORKED_OUT.items())


def _places(config: AutotrainConfig, values: Mapping[str, Any]) -> Any:
    """The places of the values under their new names."""
    places = config.section.document.places
    if not isinstance(places, Places):
        return places
    return places.with_keys(entries_of_arguments(places.root, _origins(config), values))


def own_path(config: AutotrainConfig, path: Path) -> Path:
    """The parameter that an argument of the Trainer's comes from; () where AutoTrain itself says it."""
    own = dict(_origins(config)).get(str(path[0])) if path else None
    return own if own is not None and len(path) == 1 else ()


def moved_back(config: AutotrainConfig, issue: Issue) -> Issue | None:
    """An issue of the Trainer's reader at the parameter that it is about; None for one about what AutoTrain adds."""
    if issue.path != config.section.document.path or not issue.pointer:
        return issue
    own = own_path(config, issue.pointer)
    return issue._replace(pointer=own, edit=None) if own else None
