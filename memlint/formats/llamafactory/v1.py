"""LLaMA-Factory's v1 layout (src/llamafactory/v1: `model`, `peft_config`, `dist_config`, ...) as a `Run`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.formats.accelerate.recognise import recognise as recognise_accelerate
from memlint.formats.base import Context, Parsed
from memlint.formats.fields import Fields, interpolated, root
from memlint.formats.hardware import apply_hardware
from memlint.formats.llamafactory.config import LlamaFactoryConfig
from memlint.formats.llamafactory.issues import v1_issues
from memlint.formats.llamafactory.keys_v1 import KEYS, V1Config
from memlint.formats.llamafactory.model import find_model
from memlint.formats.llamafactory.parallel import (
    Companion,
    apply_deepspeed_companion,
    apply_launcher,
    apply_unused_parameters,
    deepspeed_companion,
    read_world,
)
from memlint.formats.llamafactory.releases import NEWEST
from memlint.formats.llamafactory.v0 import NAME, PURPOSES, apply_stack
from memlint.formats.schema.validate import compiled_schema
from memlint.formats.training_arguments import Arguments, read_arguments
from memlint.source.document import Document


def parse_v1(document: Document, context: Context, role: str) -> Parsed:
    """The file as one run. Never raises on any value."""
    view = find_model(_view(document, context, role))
    layout = V1Config(view)
    fields = Fields()
    apply_stack(fields, view)
    apply_hardware(fields, context)
    _absent(fields, view)
    KEYS.read(fields, layout, layout)
    read_world(fields, view)
    apply_unused_parameters(fields, view)
    companions = _companions(fields, layout)
    apply_launcher(fields, view)
    _accumulation(fields, view)
    related = tuple(c.document.path for c in companions if c.document is not document)
    run = fields.run(NAME, document.path, related, PURPOSES[role])
    files = (document, *(c.document for c in companions if c.document is not document))
    raw = {"config": document.value, **{c.name: c.value for c in companions}}
    places = {"config": (document.path, ()), **{c.name: (c.document.path, c.pointer) for c in companions}}
    issues = (*v1_issues(view, document), *fields.issues)
    return Parsed(NAME, (run,), issues, files, raw, places)


def _absent(fields: Fields, view: LlamaFactoryConfig) -> None:
    """Sets the fields for which the v1 layout has no key."""
    for name in ("stack.use_unsloth", "stack.use_ktransformers", "model.from_scratch"):
        fields.put(name, False, view.own.default_origin)
    fields.infer("evaluation.enabled", False, "the v1 trainer does not evaluate")


def _view(document: Document, context: Context, role: str) -> LlamaFactoryConfig:
    """v1's keys seen through the v0 view: `model` stands for `model_name_or_path`."""
    section = root(document)
    given = ((key, value) for key, value in section.value.items() if isinstance(key, str))
    unresolved = frozenset(key for key, value in given if interpolated(value, key == "model"))
    value = {key: item for key, item in section.value.items() if key not in unresolved}
    versions = {**NEWEST, **context.versions}
    named = "LLaMA-Factory " + ".".join(map(str, versions["llamafactory"])) + " v1"
    properties = compiled_schema("llamafactory.json#v1").schema["properties"]
    defaults = {key: schema["default"] for key, schema in properties.items() if "default" in schema}
    defaults.update(KEYS.defaults)
    if isinstance(value.get("model"), str):
        defaults["model_name_or_path"] = value["model"]
    plain = section._replace(value=value)
    own = read_arguments(plain, defaults, named)
    return LlamaFactoryConfig(plain, own, read_arguments(plain, {}, named), context, versions, unresolved, role=role)


def _accumulation(fields: Fields, view: LlamaFactoryConfig) -> None:
    """Micro batches a step: the global batch over what all ranks take at once (v1/core/utils/batching.py)."""
    size, micro = view.own.integer("global_batch_size"), fields.get("batch.micro_batch_size")
    ranks = fields.get("parallelism.data_parallel_size")
    if size is None:
        fields.infer("batch.gradient_accumulation_steps", 1, "no `global_batch_size`: one micro batch a step")
    elif isinstance(micro, int) and isinstance(ranks, int) and micro * ranks:
        steps = max(1, size // (micro * ranks))
        fields.infer("batch.gradient_accumulation_steps", steps, "`global_batch_size` over all micro batches")
    else:
        fields.unknown("batch.gradient_accumulation_steps", "it follows from the number of GPUs")


def _companions(fields: Fields, layout: V1Config) -> tuple[Companion, ...]:
    """The files that `dist_config` (v1/plugins/trainer_plugins/distributed) and the launcher name."""
    view = layout.config
    if layout.word("dist_config.name") == "deepspeed":
        found = deepspeed_companion(fields, view.section, view.context.read, ("dist_config", "config_file"))
        return apply_deepspeed_companion(fields, view, found, _deepspeed_arguments(view))
    if not view.training:
        return ()
    launched = [d for d in view.context.companions if recognise_accelerate(d).confidence != "no"]
    return tuple(Companion("accelerate", document, document.value) for document in launched)


def _deepspeed_arguments(view: LlamaFactoryConfig) -> Arguments:
    """v1 fills `auto` itself: bf16 where the file leaves it open (v1/plugins/model_plugins/deepspeed_utils.py:55)."""
    filled: Mapping[str, Any] = {
        "bf16": True,
        "fp16": False,
        "per_device_train_batch_size": view.own.integer("micro_batch_size") or 1,
        "max_grad_norm": view.own.number("max_grad_norm") or 1.0,
        "optim": "adamw_torch",
    }
    return read_arguments(view.section._replace(value={}), filled, view.own.source)
