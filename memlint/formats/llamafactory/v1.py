"""LLaMA-Factory's v1 layout (src/llamafactory/v1: `model`, `peft_config`, `dist_config`, ...) as a `Run`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.formats.accelerate.format import recognise as recognise_accelerate
from memlint.formats.base import Context, Issue, Parsed
from memlint.formats.fields import Fields, Section, as_bool, as_int, as_number, interpolated, root
from memlint.formats.hardware import apply_hardware
from memlint.formats.llamafactory.config import Config
from memlint.formats.llamafactory.families import LIGER_MODELS_V1
from memlint.formats.llamafactory.model import apply_model, find_model
from memlint.formats.llamafactory.parallel import (
    Companion,
    apply_companion,
    apply_rest,
    apply_world,
    deepspeed_companion,
)
from memlint.formats.llamafactory.v0 import NAME, PURPOSES, apply_stack
from memlint.formats.schema.validate import compiled_schema, schema_issues
from memlint.formats.training_arguments import Arguments, read_arguments
from memlint.formats.versions import NEWEST
from memlint.run import Origin, Quantization
from memlint.source.document import Document

_ATTENTION = ("eager", "sdpa", "flash_attention_2")  # v1/utils/types.py:58


def parse_v1(document: Document, context: Context, role: str) -> Parsed:
    """One run. Never raises on any value."""
    view, origin, name = find_model(_view(document, context, role))
    fields = Fields()
    apply_stack(fields, view)
    apply_hardware(fields, context)
    apply_model(fields, view, origin, name)
    fields.put("model.name", name or fields.get("model.name"), view.own.origin("model"))
    for part in (_quantization, _method, _precision, _batch, _sequence, _loss, _optimizer):
        part(fields, view)
    apply_world(fields, view)
    companions = _engine(fields, view)
    apply_rest(fields, view)
    _accumulation(fields, view)
    related = tuple(c.document.path for c in companions if c.document is not document)
    run = fields.run(NAME, document.path, related, PURPOSES[role])
    files = (document, *(c.document for c in companions if c.document is not document))
    raw = {"config": document.value, **{c.name: c.value for c in companions}}
    places = {"config": (document.path, ()), **{c.name: (c.document.path, c.pointer) for c in companions}}
    found = schema_issues(view.section.value, document.path, "llamafactory.json#v1", context.versions)
    judged = (_judged(issue, context) for issue in found)
    issues = (*(issue for issue in judged if issue is not None), *fields.issues)
    return Parsed(NAME, (run,), issues, files, raw, places)


_CONFIG = "llamafactory/v1/config"


def _judged(issue: Issue, context: Context) -> Issue | None:
    """v1 is no release of its own and its keys still move: the schema is that of the newest commit. A copy of
    LLaMA-Factory in the repository says what it takes; without one release 0.9.5 may be in use, which reads `template`
    and hands a plug-in's mapping on as it is (v0.9.5 v1/config/arg_utils.py)."""
    key = issue.pointer[0] if issue.pointer else ""
    if isinstance(key, str) and context.declared("model", _CONFIG):
        theirs = bool(context.declared(key, _CONFIG))
        return None if theirs and (issue.code == "unknown-key" or key.endswith("_config")) else issue
    if issue.pointer == ("template",):
        message = "`template` is gone after llamafactory 0.9.5: the model's own chat template is used"
        return issue._replace(code="removed-key", message=message, severity="info")
    return issue._replace(severity="warning") if issue.severity == "error" else issue


def _view(document: Document, context: Context, role: str) -> Config:
    """v1's keys seen through the v0 view: `model` stands for `model_name_or_path`."""
    section = root(document)
    held = frozenset(key for key, value in section.value.items() if isinstance(key, str) and interpolated(value))
    value = {key: item for key, item in section.value.items() if key not in held}
    versions = {**NEWEST, **context.versions}
    named = "LLaMA-Factory " + ".".join(map(str, versions["llamafactory"])) + " v1"
    properties = compiled_schema("llamafactory.json#v1").schema["properties"]
    defaults = {key: schema["default"] for key, schema in properties.items() if "default" in schema}
    defaults.update({"flash_attn": "sdpa", "batching_strategy": "normal", "model_class": "llm"})
    if isinstance(value.get("model"), str):
        defaults["model_name_or_path"] = value["model"]
    plain = section._replace(value=value)
    own = read_arguments(plain, defaults, named)
    return Config(plain, own, read_arguments(plain, {}, named), context, versions, held, role=role)


def _plugin(view: Config, key: str) -> Section:
    return view.section.below(key)


def _name(section: Section) -> str:
    name = section.value.get("name")
    return name if isinstance(name, str) else ""


def _put(fields: Fields, section: Section, name: str, key: str, value: Any) -> None:
    """A neutral field that a plugin's parameter decides."""
    known = section.value.get(key) is not None
    detail = f"LLaMA-Factory v1 {'.'.join(map(str, section.pointer))}"
    fields.put(name, value, section.origin(key) if known else Origin("default", detail=detail))


def _whole(section: Section, key: str, default: int) -> int:
    value = as_int(section.value.get(key))
    return default if value is None else value


def _flag(section: Section, key: str, default: bool) -> bool:
    value = as_bool(section.value.get(key))
    return default if value is None else value


def _words(value: Any) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(item.strip() for text in items if isinstance(text, str) for item in text.split(",") if item.strip())


def _quantization(fields: Fields, view: Config) -> None:
    """v1/plugins/model_plugins/quantization.py: `bnb` means 4 bits when it says none, `auto` then means none."""
    plugin = _plugin(view, "quant_config")
    bits = as_int(plugin.value.get("quantization_bit"))
    if _name(plugin) not in ("bnb", "auto") or (bits is None and _name(plugin) == "auto"):
        return
    bits = 4 if bits is None else bits
    kind = plugin.value.get("quantization_type")
    storage = plugin.value.get("compute_dtype")
    four = Quantization(
        method="bnb",
        bits=4,
        kind=kind if isinstance(kind, str) else "nf4",
        double_quant=_flag(plugin, "double_quantization", True),
        storage_dtype=storage if isinstance(storage, str) else "float16",
    )
    eight = Quantization(method="bnb", bits=8, kind="int8")
    fields.put("model.quantization", eight if bits == 8 else four, plugin.origin("quantization_bit"))


def _method(fields: Fields, view: Config) -> None:
    """v1/core/model_engine.py:204-220 and plugins/model_plugins/peft.py. No part of a model is frozen by name."""
    plugin = _plugin(view, "peft_config")
    name = _name(plugin)
    preference = any(view.own.written(key) for key in ("pref_loss", "pref_beta", "pref_ftx", "simpo_gamma"))
    stage = "rm" if view.own.word("model_class") == "cls" else "dpo" if preference else "sft"
    fields.infer("method.stage", stage, "the command decides (llamafactory-cli sft, dpo, rm); judged by the keys")
    if not view.training:
        fields.infer("method.kind", "none", "nothing trains")
        return
    fields.put("method.kind", name if name in ("lora", "freeze") else "full", view.own.origin("peft_config"))
    for part in ("freeze_vision_tower", "freeze_multi_modal_projector"):
        fields.infer(f"method.{part}", False, "the v1 layout freezes no part by name")
    if name == "lora":
        _lora(fields, plugin)
    elif name == "freeze":
        _freeze(fields, plugin)
    if stage == "dpo":
        shared = "shared" if name == "lora" else "copy"
        needed = view.own.word("pref_loss") not in ("orpo", "simpo")
        fields.infer("method.reference_model", shared if needed else "none", "v1/trainers/dpo_trainer.py")


def _lora(fields: Fields, plugin: Section) -> None:
    targets = _words(plugin.value.get("target_modules", "all"))
    _put(fields, plugin, "method.rank", "r", _whole(plugin, "r", 8))
    _put(fields, plugin, "method.alpha", "lora_alpha", _whole(plugin, "lora_alpha", 16))
    dropout = as_number(plugin.value.get("lora_dropout", 0.05))
    _put(fields, plugin, "method.dropout", "lora_dropout", float(dropout or 0))
    _put(fields, plugin, "method.targets", "target_modules", ("all-linear",) if targets == ("all",) else targets)
    _put(fields, plugin, "method.modules_to_save", "modules_to_save", _words(plugin.value.get("modules_to_save")))
    _put(fields, plugin, "method.use_dora", "use_dora", _flag(plugin, "use_dora", False))
    _put(fields, plugin, "method.use_rslora", "use_rslora", _flag(plugin, "use_rslora", False))
    fields.infer("method.adapter_dtype", "float32", "PEFT makes half-precision adapters fp32")


def _freeze(fields: Fields, plugin: Section) -> None:
    layers = _whole(plugin, "freeze_trainable_layers", 2)
    modules = _words(plugin.value.get("freeze_trainable_modules")) or ("all",)
    extra = _words(plugin.value.get("freeze_extra_modules"))
    _put(fields, plugin, "method.freeze_trainable_layers", "freeze_trainable_layers", layers)
    _put(fields, plugin, "method.freeze_trainable_modules", "freeze_trainable_modules", modules)
    _put(fields, plugin, "method.freeze_extra_modules", "freeze_extra_modules", extra)


def _precision(fields: Fields, view: Config) -> None:
    """Full tuning turns the model to fp32 (v1/core/model_engine.py:207); there is no autocast, `bf16` is FSDP2's."""
    plugin = _plugin(view, "peft_config")
    full = view.training and _name(plugin) not in ("lora", "freeze")
    dtype = fields.get("model.weights_dtype")
    if full:
        fields.infer("model.weights_dtype", "float32", "v1/core/model_engine.py:207: `model.to(torch.float32)`")
        dtype = "float32"
    cast = _flag(plugin, "cast_trainable_params_to_fp32", True)
    trains = "float32" if full or (_name(plugin) == "freeze" and cast) else dtype
    fields.infer("precision.trainable_dtype", trains, "v1 keeps trainable parameters in fp32 unless told otherwise")
    fields.infer("precision.compute", dtype, "v1 has no autocast: matmuls run in the dtype of the weights")
    for name in ("autocast", "outputs_to_fp32", "master_weights"):
        fields.infer(f"precision.{name}", False, "v1 has its own training loop, without accelerate's wrappers")


def _batch(fields: Fields, view: Config) -> None:
    size = view.own.integer("micro_batch_size")
    if size is None or size < 1:
        fields.unknown("batch.micro_batch_size", "`micro_batch_size` is no whole number >= 1")
    else:
        view.put(fields, "batch.micro_batch_size", "micro_batch_size", size)


def _accumulation(fields: Fields, view: Config) -> None:
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


def _sequence(fields: Fields, view: Config) -> None:
    length = view.own.integer("cutoff_len")
    if length is None or length < 1:
        fields.unknown("sequence.length", "`cutoff_len` is no whole number >= 1")
    else:
        view.put(fields, "sequence.length", "cutoff_len", length)
    said = view.own.word("flash_attn")
    if said in _ATTENTION:
        view.put(fields, "attention.implementation", "flash_attn", said)
    else:
        fields.unknown("attention.implementation", f"LLaMA-Factory refuses `flash_attn: {said}`")
    on = view.training and view.own.flag("enable_activation_checkpointing")
    view.put(fields, "checkpointing.mode", "enable_activation_checkpointing", "full" if on else "none")
    fields.infer("checkpointing.reentrant", False, "v1/core/base_trainer.py:92: use_reentrant False")


def _loss(fields: Fields, view: Config) -> None:
    """The trainer takes log-probabilities of fp32 logits itself (v1/core/base_trainer.py:243): nothing is fused."""
    kernels = _plugin(view, "kernel_config")
    liger = "liger_kernel" in _words(kernels.value.get("name")) and view.family in LIGER_MODELS_V1
    reason = "v1 computes the loss from the logits: it asks Liger to keep them" if liger else ""
    fields.infer("loss.kind", "plain", "v1/core/base_trainer.py:243 computes the loss from the logits")
    fields.infer("loss.upcast_logits", True, "v1/core/base_trainer.py:240: `outputs.logits.float()`")
    _put(fields, kernels, "loss.liger_kernels", "name", liger)
    _put(fields, kernels, "loss.fallback_reason", "name", reason)
    if view.own.written("pref_loss"):
        view.put(fields, "loss.preference", "pref_loss", view.own.word("pref_loss"))


def _optimizer(fields: Fields, view: Config) -> None:
    plugin = _plugin(view, "optim_config")
    if _name(plugin) == "muon":
        fields.put("optimizer.name", "muon", plugin.origin("name"))
    else:
        fields.infer("optimizer.name", "adamw_torch", "v1/core/base_trainer.py:209: torch.optim.AdamW")
    norm = view.own.number("max_grad_norm")
    view.put(fields, "optimizer.max_grad_norm", "max_grad_norm", float(1.0 if norm is None else norm))
    fields.infer("evaluation.enabled", False, "the v1 trainer does not evaluate")


def _engine(fields: Fields, view: Config) -> tuple[Companion, ...]:
    """`dist_config` (v1/plugins/trainer_plugins/distributed); without it several GPUs mean DDP."""
    plugin = _plugin(view, "dist_config")
    size = view.own.integer("cp_size") or 1
    view.put(fields, "parallelism.sequence_parallel_size", "cp_size", max(1, size))
    if _name(plugin) == "deepspeed":
        found = deepspeed_companion(fields, view.section, view.context.read, ("dist_config", "config_file"))
        return apply_companion(fields, view, found, _deepspeed_arguments(view))
    if _name(plugin) in ("fsdp2", "fsdpturbo"):
        _fsdp2(fields, view, plugin)
    if not view.training:
        return ()
    launched = [d for d in view.context.companions if recognise_accelerate(d).confidence != "no"]
    return tuple(Companion("accelerate", document, document.value) for document in launched)


def _deepspeed_arguments(view: Config) -> Arguments:
    """v1 fills `auto` itself: bf16 where the file leaves it open (v1/plugins/model_plugins/deepspeed_utils.py:55)."""
    filled: Mapping[str, Any] = {
        "bf16": True,
        "fp16": False,
        "per_device_train_batch_size": view.own.integer("micro_batch_size") or 1,
        "max_grad_norm": view.own.number("max_grad_norm") or 1.0,
        "optim": "adamw_torch",
    }
    return read_arguments(view.section._replace(value={}), filled, view.own.source)


def _fsdp2(fields: Fields, view: Config, plugin: Section) -> None:
    """FSDP2Engine (v1/plugins/trainer_plugins/distributed/fsdp2.py:181): fp32 reductions, bf16 parameters."""
    half = "bfloat16" if view.own.flag("bf16") else "float32"
    fields.put("parallelism.engine", "fsdp", plugin.origin("name"))
    fields.put("parallelism.fsdp.version", 2, plugin.origin("name"))
    reshard = _flag(plugin, "reshard_after_forward", True)
    _put(fields, plugin, "parallelism.fsdp.reshard_after_forward", "reshard_after_forward", reshard)
    _put(fields, plugin, "parallelism.fsdp.cpu_offload", "offload_params", _flag(plugin, "offload_params", False))
    view.put(fields, "parallelism.fsdp.param_dtype", "bf16", half)
    fields.infer("parallelism.fsdp.reduce_dtype", "float32", "FSDP2Engine.get_mp_policy")
    fields.infer("parallelism.fsdp.upcasts_trainable", False, "parameters keep their dtype")
    view.put(fields, "precision.compute", "bf16", half)
    groups = view.own.integer("mp_replicate_size") or 1
    hybrid = groups > 1
    strategy = ("HYBRID_SHARD" if hybrid else "FULL_SHARD") if reshard else "SHARD_GRAD_OP"
    view.put(fields, "parallelism.fsdp.strategy", "mp_replicate_size", strategy)
    if hybrid and view.own.integer("mp_shard_size"):
        view.put(fields, "parallelism.fsdp.shard_group_size", "mp_shard_size", view.own.integer("mp_shard_size"))
    if _name(plugin) == "fsdpturbo":
        _put(fields, plugin, "parallelism.expert_parallel_size", "ep_size", max(1, _whole(plugin, "ep_size", 1)))
