"""The Hugging Face Trainer format: YAML or JSON for HfArgumentParser or TrlParser.

TrainingArguments, TRL's configurations, PEFT and model keys beside a script's own. Read in transformers 5.23.0 and
4.57.6, trl 1.16.0, 0.29.0, 0.26.2, 0.19.1 and 0.15.2, peft 0.21.2, accelerate 1.15.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Any

from memlint._record import NamedTuple
from memlint.architectures.names import TUNED
from memlint.findings import Edit
from memlint.formats.base import Context, Parsed
from memlint.formats.deepspeed.zero import read_sequence_communication
from memlint.formats.entailed import put_entailed
from memlint.formats.fields import Fields, Section, as_bool, root
from memlint.formats.hardware import apply_hardware
from memlint.formats.issues import FILE_IS_AWAY
from memlint.formats.keys import read_start
from memlint.formats.own_reader import rule_applies
from memlint.formats.trainer.behaviour import behaviour
from memlint.formats.trainer.config import TrainerConfig
from memlint.formats.trainer.families import ONLY_IN_TRANSFORMERS_5
from memlint.formats.trainer.frozen_parts import read_frozen_parts
from memlint.formats.trainer.issues import conflicts, own_file_issues, refused_arguments, trainer_issues
from memlint.formats.trainer.keys import KEYS, OWN_KEYS
from memlint.formats.trainer.learning_rates import with_default_rate
from memlint.formats.trainer.loss import apply_loss
from memlint.formats.trainer.method import adapter_key
from memlint.formats.trainer.model import keep_packed, model_name
from memlint.formats.trainer.own_engine import OF_A_LOOP, is_loop
from memlint.formats.trainer.parallel import (
    Companions,
    apply_engine,
    apply_launcher,
    companions_of,
    leave_precision_open,
    read_loading,
    read_spread_layers,
    read_what_starts_fsdp,
    refused_device_map,
)
from memlint.formats.trainer.quantized import (
    LOADED,
    REFUSED,
    apply_preparation,
    may_load_adapter,
    trains_quantised_weights,
    under_zero3,
)
from memlint.formats.trainer.reader import (
    completing_script,
    is_record,
    read_dtype_doubt,
    read_own_batch,
    read_own_freezing,
    read_own_method,
    read_own_rank,
    unjudged,
)
from memlint.formats.trainer.recognise import NAME, SCHEMA, is_trl, recognise
from memlint.formats.trainer.releases import stale_pin, trainer_versions
from memlint.formats.trainer.training import read_unbounded_length, stage_of
from memlint.formats.training_arguments import Version, arguments
from memlint.formats.training_arguments import apply as apply_arguments
from memlint.formats.vision_towers import apply_towers, has_no_images
from memlint.formats.without_training import apply_without_training
from memlint.run import TRANSFORMERS, Entailed, Origin, Run
from memlint.source.document import Document, Path, Start

__all__ = [
    "DIALECT",
    "NAME",
    "SCHEMA",
    "copy_of",
    "edits",
    "parse",
    "recognise",
    "rule_applies",
    "skips_rule",
    "stale_pin",
    "unjudged",
]

DIALECT = "yaml11"
OF_ANY_SCRIPT = True
# trl 1.16 base_config.py: what _BaseConfig changes of TrainingArguments (the same since 0.22).
_TRL_DEFAULTS: Mapping[str, Any] = {"gradient_checkpointing": True}
_TRL_NEWEST: Version = (1, 16)
_FOLDER = re.compile(r"[./~]|[^/]*/[^/]*/")  # a path on the machine: the Hub's names have one slash


class ReadFile(NamedTuple):
    """What a file's keys say, before a run is made of them. `companions`: the engine's files behind it; `raw` and
    `places` as in `Parsed`."""

    config: TrainerConfig
    fields: Fields
    companions: tuple[Document, ...]
    raw: dict[str, Any]
    places: dict[str, tuple[str, Path]]

    @property
    def related(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.path for one in self.companions))


def read(document: Document, context: Context) -> ReadFile:
    """The file's fields. A framework that trains with the Trainer reads its own keys after these."""
    companions = companions_of(context, document)
    config = _with_model(config_of(root(document), context, companions.precision()))
    if _is_too_new(config):
        config = _with_model(config_of(root(document), context, companions.precision(), oldest=(5,)))
    fields = Fields()
    sections = _fill(fields, config, companions)
    read_own_batch(fields, document, context)
    read_own_freezing(fields, document, context)
    read_own_method(fields, document, context)
    read_own_rank(fields, document)
    others = tuple(s.document for s in sections if s.document.path != document.path)
    return ReadFile(config, fields, others, *_raw(config, sections, companions))


def parse(document: Document, context: Context) -> Parsed:
    """The file as one run. Never raises on any value."""
    found = read(document, context)
    config, fields = found.config, found.fields
    purpose = "inference" if only_evaluates(config) else "train"
    doubts = (read_dtype_doubt(fields, document, context), read_spread_layers(fields))
    readings = (*chain(*doubts), *read_unbounded_length(fields, config))
    run = fields.run(NAME, document.path, found.related, purpose)._replace(readings=readings)
    may_lack = is_record(document.value) or _is_started_elsewhere(document)
    reported = (one for one in fields.issues if one.code not in FILE_IS_AWAY or not may_lack)
    of_trainer = (*trainer_issues(config), *conflicts(config))
    issues = (
        *(refused_arguments(config) if is_loop(document.start) else of_trainer),
        *reported,
        *own_file_issues(document),
    )
    completed_by = "" if adapter_key(found.config) else completing_script(document, context)
    return Parsed(NAME, (run,), issues, (document, *found.companions), found.raw, found.places, completed_by)


def _is_started_elsewhere(document: Document) -> bool:
    """Whether a command is started in another repository than this one. A program that a page shows options for is
    started in a folder of its own, too."""
    start = document.start
    return start is not None and (start.values.is_commanded or start.program.is_elsewhere)


def copy_of(rule: str, context: Context) -> str:
    return "TRL" if context.repository.own_functions("trl/trainer") else ""


def skips_rule(rule: str, document: Document, context: Context) -> bool:
    """Whether `rule` says nothing of this document: `exempt_rules` has the reasons."""
    from memlint.formats.trainer import exempt_rules  # asked only about a file with findings

    return exempt_rules.skips_rule(rule, document, context)


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of this file or of the engine's file; None where no file can express one of them."""
    from memlint.formats.trainer.edits import trainer_edits  # writes keys back: for fixes

    return trainer_edits(parsed, run, changes)


def _is_too_new(config: TrainerConfig) -> bool:
    """Whether no release as old as the one that the keys give away has the model's family."""
    family = getattr(config.architecture, "family", "")
    is_stated = "transformers" in config.stated
    return family in ONLY_IN_TRANSFORMERS_5 and not is_stated and config.transformers < (5,)


def config_of(
    section: Section, context: Context, launcher_precision: str = "no", oldest: tuple[int, ...] = ()
) -> TrainerConfig:
    """The file's configuration. `launcher_precision`: accelerate's, which is in force where the file has none.
    `oldest`: the transformers that first has the model's family, where that is known."""
    stated, for_trl = context.versions, _is_for_trl(section)
    versions, origins = trainer_versions(section, SCHEMA, stated, for_trl, oldest)
    context = context._replace(versions=versions, version_origins={**context.version_origins, **origins})
    transformers = tuple(versions.get("transformers", TRANSFORMERS))
    trl = tuple(versions.get("trl", _TRL_NEWEST)) if for_trl else ()
    start = section.document.start
    has_defaults = bool(trl) and not (start is not None and start.program.has_plain_arguments)  # TRL's own
    defaults: dict[str, Any] = {**OWN_KEYS.defaults, **(_TRL_DEFAULTS if has_defaults and trl >= (0, 22) else {})}
    if as_bool(section.value.get("use_unsloth")):
        defaults.update(_half_precision_of_unsloth(section, context))
    elif has_defaults and trl >= (0, 19):  # sft_config.py:252, v0.19.0: `bf16 = not fp16` when unset
        defaults["bf16"] = section.value.get("fp16") is not True
    elif launcher_precision in ("bf16", "fp16") and section.value.get("bf16") is None is section.value.get("fp16"):
        defaults[launcher_precision] = True
    version = ".".join(map(str, trl or transformers))
    source = f"trl {version}" if trl else f"transformers {version} TrainingArguments"
    args = arguments(section, context.versions, defaults, source, spellings=KEYS.spellings)
    config = TrainerConfig(section, args, context, trl, transformers, stated=stated)
    config = config._replace(stage=stage_of(config)[0])
    return with_default_rate(config) if has_defaults else config


def _half_precision_of_unsloth(section: Section, context: Context) -> dict[str, bool]:
    """What Unsloth's trainers train in where the arguments say nothing: bfloat16, on cards without it float16 (unsloth
    2026.10.9 models/rl.py:2673-2678, :3328)."""
    if as_bool(section.value.get("fp16")) or as_bool(section.value.get("bf16")):
        return {}
    has_bf16 = context.gpu is None or context.gpu.bf16
    return {"bf16": has_bf16, "fp16": not has_bf16}


def _is_for_trl(section: Section) -> bool:
    """Whether TRL's trainers read it: as the program says that a command starts, else by the keys."""
    start = section.document.start
    return start.program.framework == "trl" if start is not None and start.program.framework else is_trl(section.value)


def _with_model(config: TrainerConfig) -> TrainerConfig:
    name, _ = model_name(config)
    if not name:
        return config
    found = config.context.find_model(name, config.section.document.path)
    return config._replace(
        architecture=found.architecture, may_be_adapter=TUNED in found.inferred or _FOLDER.match(name) is not None
    )


def _fill(fields: Fields, config: TrainerConfig, companions: Companions) -> tuple[Section, ...]:
    """Put all fields: defaults first, the file's keys next, engines last, as they change dtypes and optimizer."""
    fields.put("stack.framework", "trl" if config.trl else "trainer", Origin("inferred", detail="by its keys"))
    fields.behave(*behaviour(config.trl, config.stage))
    fields.put("method.stage", *stage_of(config))
    apply_hardware(fields, config.context)
    apply_launcher(fields, config, companions)
    apply_arguments(fields, config.args, config.context.versions)
    leave_precision_open(fields, config, companions)
    _not_reentrant(fields, config)
    OWN_KEYS.read(fields, config.args, config)
    leaves_tower = as_bool(config.section.value.get("finetune_vision_layers")) is False
    why = "its adapters leave the tower out" if leaves_tower else "nothing freezes a tower"
    apply_towers(fields, config.architecture, leaves_tower, Origin("inferred", detail=why))
    read_frozen_parts(fields, config)
    _read_program(fields, config.section.document.start)
    _read_allocator_of_unsloth(fields, config)
    if is_loop(config.section.document.start):
        fields.behave(*OF_A_LOOP)
    apply_loss(fields, config)
    sections = apply_engine(fields, config, companions)
    fields.issues.extend(refused_device_map(fields, config))
    read_sequence_communication(fields, sections)
    read_loading(fields, config.section.document.start)
    apply_preparation(fields, config)
    if key := trains_quantised_weights(config):
        fields.unknown("method.kind", REFUSED.format(key[8]))
    elif may_load_adapter(config):
        fields.unknown("method.kind", LOADED)
    under_zero3(fields, config)
    read_start(fields, config.section.document, KEYS)
    keep_packed(fields, config)
    _data_parallel_size(fields)
    read_what_starts_fsdp(fields, config)
    put_entailed(fields, partial(_entailed, config), "trl 1.16 trainer/model_config.py, trainer/sft_trainer.py")
    if only_evaluates(config):
        predicts = config.is_on("do_predict") or _trainer_call(config) == "predict"
        _apply_evaluation(fields, predicts and not config.is_on("prediction_loss_only"))
    return sections


def _entailed(config: TrainerConfig, fields: Fields) -> Iterable[Entailed | None]:
    from memlint.formats.trainer.entailed import find_entailed  # for plans

    return find_entailed(config, fields)


def _read_program(fields: Fields, start: Start | None) -> None:
    """What the code of the started program says beside its arguments."""
    if start is None:
        return
    if start.program.keeps_logits:
        fields.infer("evaluation.keeps_logits", True, "compute_metrics, and no preprocess_logits_for_metrics")
    if start.program.evaluates_nothing:
        fields.infer("evaluation.enabled", False, "the script gives its trainer no data to evaluate on")
    if start.program.takes_texts_alone:
        has_no_images(fields, Origin("inferred", detail="the script tokenizes, and makes no processor of images"))
    if start.program.fills_length:
        fields.infer("sequence.length_is_bound", False, "the script pads every text to it, or cuts blocks of it")


def _read_allocator_of_unsloth(fields: Fields, config: TrainerConfig) -> None:
    """Unsloth, which a script imports before anything touches the card, has the allocator's segments grow in place. It
    does so from torch 2.2 on, unless a sleeping vLLM needs them fixed (unsloth_zoo 2026.10.9 __init__.py:321, 384)."""
    is_script = config.section.document.syntax == "python" and config.is_on("use_unsloth")
    torch = config.context.versions.get("torch", _GROWS_SINCE)
    if is_script and not config.is_on("unsloth_vllm_standby") and torch >= _GROWS_SINCE:
        fields.infer("stack.expandable_segments", True, "unsloth_zoo sets PYTORCH_CUDA_ALLOC_CONF where nobody does")


_GROWS_SINCE: Version = (2, 2)
# Keys that a file gives for training alone.
_TRAINING = ("learning_rate", "num_train_epochs", "max_steps", "per_device_train_batch_size", "optim")


def only_evaluates(config: TrainerConfig) -> bool:
    """Whether the file switches training off, or names nothing of it, and asks for an evaluation. TRL's own scripts
    train whatever `do_train` says; what a script in Python calls counts before its flags."""
    called = _trainer_call(config)
    if called:
        return called != "train"
    written = config.section.value
    switched_off = as_bool(written.get("do_train")) is False
    asks = _asks_whether_to_train(config.section.document.start)
    silent = "do_train" not in written and (asks or not any(key in written for key in _TRAINING))
    return not config.trl and (switched_off or silent) and (config.is_on("do_eval") or config.is_on("do_predict"))


# transformers' examples, which train where `do_train` is said (transformers 5.23 examples/pytorch/*/run_*.py).
_EXAMPLE = re.compile(r"(?:^|/)run_\w+\.py$")


def _asks_whether_to_train(start: Start | None) -> bool:
    """Whether a command starts a program that is not here and has the name of one of transformers' examples."""
    return start is not None and start.program.is_foreign and _EXAMPLE.search(start.program.entry) is not None


def _trainer_call(config: TrainerConfig) -> str:
    start = config.section.document.start
    return start.program.trainer_call if start is not None else ""


def _apply_evaluation(fields: Fields, keeps_logits: bool) -> None:
    """`keeps_logits`: Trainer.predict keeps those of all samples, whatever the metrics, but with `prediction_loss_only`
    (transformers 5.23.0 trainer.py:3165, :2911, :3285)."""
    reason = "nothing trains: the Trainer evaluates alone"
    apply_without_training(fields, reason)
    fields.infer("evaluation.enabled", True, reason)
    fields.infer("batch.micro_batch_size", fields.get("evaluation.batch_size"), reason)
    if keeps_logits:
        fields.infer("evaluation.keeps_logits", True, "Trainer.predict keeps the logits of all samples")


def _not_reentrant(fields: Fields, config: TrainerConfig) -> None:
    """trl has not re-entered by default since 0.27 (trainer/sft_config.py:287; 0.28.0 trainer/sft_trainer.py:907)."""
    options = config.args.get("gradient_checkpointing_kwargs")
    is_given = isinstance(options, dict) and "use_reentrant" in options
    if config.trl >= (0, 27) and not is_given:
        fields.put("checkpointing.reentrant", False, Origin("default", detail="trl"))


def _data_parallel_size(fields: Fields) -> None:
    world = fields.get("parallelism.world_size")
    if not isinstance(world, int):
        return
    if fields.get("parallelism.engine") == "single":
        world = 1  # one process trains, on however many GPUs
    for name in ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size", "sequence_parallel_size"):
        world //= max(1, fields.get(f"parallelism.{name}", 1))
    fields.infer("parallelism.data_parallel_size", max(1, world), "world size over the other degrees")


def _raw(
    config: TrainerConfig, sections: tuple[Section, ...], companions: Companions
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
