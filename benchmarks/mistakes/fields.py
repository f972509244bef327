"""The fields that each framework's own classes declare: their kind, their choices and a value that works."""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from pathlib import Path
from typing import Any, NamedTuple

Place = tuple[str, ...]
_OPTIONS = Path(__file__).resolve().parents[1] / "data" / "refusal_options.json"
_USUAL: dict[type, Any] = {bool: True, int: 8, float: 0.1, str: "value", list: ["value"], dict: {}}


class Field(NamedTuple):
    """`kind` is bool, int, float, str, list or dict; `usual` a value of that kind."""

    kind: type
    choices: tuple[Any, ...] = ()

    @property
    def usual(self) -> Any:
        return self.choices[0] if self.choices else _USUAL[self.kind]


def fields_of(framework: str) -> dict[Place, Field]:
    """Every field of the framework's configuration, by its place in the file."""
    if framework == "llamafactory":
        from llamafactory.hparams.parser import _TRAIN_ARGS

        return _of_dataclasses(_TRAIN_ARGS)
    if framework == "trainer":
        from transformers import TrainingArguments

        return _of_dataclasses((TrainingArguments,))
    if framework.startswith("trl-"):
        import trl

        classes = (trl.ScriptArguments, getattr(trl, config_class(framework)), trl.ModelConfig)
        return _of_dataclasses(classes)
    if framework == "axolotl":
        from axolotl.utils.schemas.config import AxolotlInputConfig

        found = {(name,): kind_of(field.annotation) for name, field in AxolotlInputConfig.model_fields.items()}
        return {place: field for place, field in found.items() if field}
    return _deepspeed() if framework == "deepspeed" else _accelerate()


def options_of(framework: str) -> dict[Place, tuple[Any, ...]]:
    """Values that frameworks refuse in pairs: those of the random comparisons, and every switch."""
    from benchmarks.corpus import engine_refusals

    if framework == "deepspeed":
        return {place: values for place, values in engine_refusals.DEEPSPEED.items() if None not in values}
    if framework == "accelerate":
        return dict(engine_refusals.LAUNCH)
    known = json.loads(_OPTIONS.read_text(encoding="utf-8"))
    name = "llamafactory" if framework == "llamafactory" else config_class(framework)
    listed = known.get("SFTConfig" if framework in ("trainer", "trl-reward") else name, {"options": {}})["options"]
    found = {(key,): tuple(value for value in values if value is not None) for key, values in listed.items()}
    if framework == "axolotl":
        found = {place: (field.usual,) for place, field in fields_of(framework).items() if field.kind in (bool, str)}
        found = {place: values for place, values in found.items() if values != ("value",)}
    own = fields_of(framework)
    return {place: values for place, values in found.items() if place in own}


def config_class(framework: str) -> str:
    """TRL's class of arguments for "trl-dpo" and its like."""
    name = framework.removeprefix("trl-")
    return f"{name.capitalize() if name == 'reward' else name.upper()}Config"


def _of_dataclasses(classes: Any) -> dict[Place, Field]:
    found: dict[Place, Field] = {}
    for one in classes:
        hints = typing.get_type_hints(one)
        for field in dataclasses.fields(one):
            kind = kind_of(hints[field.name], tuple(field.metadata.get("choices") or ()))
            if field.init and kind:
                found[(field.name,)] = kind
    return found


def kind_of(annotation: Any, choices: tuple[Any, ...] = ()) -> Field | None:
    """The field that a type annotation describes; None where it is of another kind."""
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        values = typing.get_args(annotation)
        return Field(type(values[0]), values if isinstance(values[0], str) else ())
    if origin is typing.Annotated:
        return kind_of(typing.get_args(annotation)[0], choices)
    if origin in (typing.Union, types.UnionType):
        parts = [part for part in typing.get_args(annotation) if part is not type(None)]
        known = [found for found in (kind_of(part, choices) for part in parts) if found]
        return next((one for one in known if one.choices), known[0] if len(known) == 1 else None)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return Field(str, tuple(str(member.value) for member in annotation))
    plain = origin if isinstance(origin, type) else annotation
    if plain in _USUAL:
        return Field(plain, choices if plain is str else ())
    return None


def _deepspeed() -> dict[Place, Field]:
    from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
    from deepspeed.runtime.zero.offload_config import DeepSpeedZeroOffloadOptimizerConfig as Optimizer
    from deepspeed.runtime.zero.offload_config import DeepSpeedZeroOffloadParamConfig as Parameters

    zero: Place = ("zero_optimization",)
    models = {zero: DeepSpeedZeroConfig, (*zero, "offload_optimizer"): Optimizer, (*zero, "offload_param"): Parameters}
    models |= {("bf16",): DeepSpeedBF16Config, ("fp16",): DeepSpeedFP16Config}
    found: dict[Place, Field] = {}
    for above, model in models.items():
        kinds = {name: kind_of(field.annotation) for name, field in model.model_fields.items()}
        found |= {(*above, name): kind for name, kind in kinds.items() if kind}
    names = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "steps_per_print")
    found |= {(name,): Field(int) for name in names}
    found |= {(name,): Field(float) for name in ("gradient_clipping", "gradient_predivide_factor")}
    switches = ("wall_clock_breakdown", "prescale_gradients", "sparse_gradients", "zero_allow_untested_optimizer")
    found |= {(name,): Field(bool) for name in (*switches, "dump_state", "disable_allgather", "memory_breakdown")}
    found[("optimizer", "params", "lr")] = Field(float)
    found[("optimizer", "params", "weight_decay")] = Field(float)
    found[("optimizer", "params", "eps")] = Field(float)
    found[("scheduler", "type")] = Field(str, ("WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle"))
    return found


def _accelerate() -> dict[Place, Field]:
    from accelerate.commands.launch import launch_command_parser

    found: dict[Place, Field] = {}
    for action in launch_command_parser()._actions:
        kind = bool if action.nargs == 0 else action.type if action.type in (int, float) else str
        above = next((name for name in ("fsdp", "deepspeed") if action.dest.startswith(f"{name}_")), "")
        place = (f"{above}_config", action.dest) if above else (action.dest,)
        choices = tuple(action.choices or ()) if kind is str else ()
        found[place] = Field(kind, choices)
    top = ("num_processes", "num_machines", "machine_rank", "mixed_precision", "use_cpu", "main_process_port")
    zero = ("zero_stage", "offload_optimizer_device", "offload_param_device", "gradient_clipping")
    for name in zero:
        found[("deepspeed_config", name)] = found[(name,)]
    kept = {place for place in found if len(place) == 2 or place[0] in top}
    known = {"distributed_type": ("NO", "MULTI_GPU", "DEEPSPEED", "FSDP"), "compute_environment": ("LOCAL_MACHINE",)}
    return {place: found[place] for place in kept} | {(name,): Field(str, words) for name, words in known.items()}
