"""A Trainer file as a run: defaults, the file's keys, adapters, engines."""

from __future__ import annotations

from typing import Any

from memlint.formats.base import Context, Parsed
from memlint.formats.fields import Fields, Section, as_bool, root
from memlint.formats.hardware import apply_hardware
from memlint.formats.trainer.behaviour import behaviour
from memlint.formats.trainer.config import Config, config_of
from memlint.formats.trainer.issues import is_record, trainer_issues
from memlint.formats.trainer.model import apply_adapter, apply_model, model_name
from memlint.formats.trainer.parallel import Companions, apply_parallel, companions_of
from memlint.formats.trainer.quantized import apply_preparation
from memlint.formats.trainer.recognise import NAME
from memlint.formats.trainer.stage import apply_stage
from memlint.formats.training_arguments import apply as apply_arguments
from memlint.formats.vision_towers import apply_towers
from memlint.run import Origin
from memlint.source.document import Document, Path


def parse(document: Document, context: Context) -> Parsed:
    """The file as one run. Never raises on any value."""
    companions = companions_of(context)
    config = config_of(root(document), context, companions.precision())
    config = config._replace(architecture=_architecture(config))
    fields = Fields()
    sections = _fill(fields, config, companions)
    related = tuple(dict.fromkeys(s.document.path for s in sections if s.document.path != document.path))
    run = fields.run(NAME, document.path, related)
    documents = (document, *(s.document for s in sections if s.document.path != document.path))
    found = (issue for issue in fields.issues if issue.code != "missing-reference" or not is_record(document.value))
    issues = (*trainer_issues(config), *_own_issues(config), *found)
    raw, places = _raw(config, sections, companions)
    return Parsed(NAME, (run,), issues, documents, raw, places)


def _architecture(config: Config) -> Any:
    name, _ = model_name(config)
    return config.context.find_model(name, config.section.document.path).architecture if name else None


def _fill(fields: Fields, config: Config, companions: Companions) -> tuple[Section, ...]:
    """Defaults first, what is stronger after it; engines last, as they change dtypes and optimizer."""
    fields.put("stack.framework", "trl" if config.trl else "trainer", Origin("inferred", detail="by its keys"))
    fields.behave(*behaviour(config.trl))
    apply_hardware(fields, config.context)
    apply_arguments(fields, config.args, config.context.versions)
    _not_reentrant(fields, config)
    apply_model(fields, config)
    apply_adapter(fields, config)
    apply_towers(fields, config.architecture, False, Origin("inferred", detail="nothing freezes a tower"))
    apply_stage(fields, config)
    if as_bool(config.section.value.get("use_unsloth")):
        fields.put("stack.use_unsloth", True, config.section.origin("use_unsloth"))
    sections = apply_parallel(fields, config, companions)
    apply_preparation(fields, config)
    _under_zero3(fields, config)
    _data_parallel_size(fields)
    return sections


def _not_reentrant(fields: Fields, config: Config) -> None:
    """trl has not re-entered by default since 0.27 (trainer/sft_config.py:287; 0.28.0 trainer/sft_trainer.py:907)."""
    options = config.args.get("gradient_checkpointing_kwargs")
    said = isinstance(options, dict) and "use_reentrant" in options
    if config.trl >= (0, 27) and not said:
        fields.put("checkpointing.reentrant", False, Origin("default", detail="trl"))


def _under_zero3(fields: Fields, config: Config) -> None:
    """trl 1.16 sft_trainer.py:878: adapters under ZeRO-3 need reentrant checkpointing, so it is forced."""
    adapters = fields.get("method.kind") == "lora" and fields.get("parallelism.zero.stage", None) == 3
    if adapters and config.trl >= (1, 16) and fields.get("checkpointing.mode") != "none":
        fields.infer("checkpointing.reentrant", True, "trl forces it for adapters under ZeRO-3")


def _data_parallel_size(fields: Fields) -> None:
    world = fields.get("parallelism.world_size")
    if not isinstance(world, int):
        return
    for name in ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size", "sequence_parallel_size"):
        world //= max(1, fields.get(f"parallelism.{name}", 1))
    fields.infer("parallelism.data_parallel_size", max(1, world), "world size over the other degrees")


def _own_issues(config: Config) -> tuple[Any, ...]:
    """`fp16` with `bf16`, and 4 with 8 bit: the frameworks refuse them (training_args.py, model_config.py).

    Two half types that are plainly true are PRE011's, which has a fix.
    """
    found = []
    for one, other in (("bf16", "fp16"), ("bf16_full_eval", "fp16_full_eval"), ("load_in_4bit", "load_in_8bit")):
        said = [config.section.value.get(key) for key in (one, other)]
        plain = one != "load_in_4bit" and all(value is True for value in said)
        if all(map(as_bool, said)) and not plain:
            message = f"`{one}` and `{other}` cannot both be true: the arguments are refused"
            found.append(config.section.issue("conflict", message, other))
    return tuple(found)


def _raw(
    config: Config, sections: tuple[Section, ...], companions: Companions
) -> tuple[dict[str, Any], dict[str, tuple[str, Path]]]:
    """The files' own keys for rules: the config, and each companion under its name."""
    own = config.section
    raw: dict[str, Any] = {"config": own.document.value}
    places: dict[str, tuple[str, Path]] = {"config": (own.document.path, ())}
    for section in sections:
        name = "accelerate" if section is companions.accelerate else "deepspeed"
        raw[name], places[name] = section.value, (section.document.path, section.pointer)
    if isinstance(own.value.get("fsdp_config"), dict):
        raw["fsdp"], places["fsdp"] = own.value["fsdp_config"], (own.document.path, ("fsdp_config",))
    return raw, places
