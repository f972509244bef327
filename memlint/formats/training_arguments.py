"""transformers' TrainingArguments keys as neutral fields; shared by the Trainer and LLaMA-Factory formats.

Read in transformers 5.23.0 (training_args.py, trainer.py) and 4.57.6. A format makes `Arguments` from its section,
calls `apply` and overrides what its framework does differently with a later `Fields.put`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.fields import Fields, Section, as_bool, as_int, as_number, as_words
from memlint.run import Origin

Version = tuple[int, ...]

TRANSFORMERS_5: Version = (5,)

# TrainingArguments of transformers 5.23.0 where memory or another argument depends on them (training_args.py).
_DEFAULTS: Mapping[str, Any] = {
    "per_device_train_batch_size": 8,
    "per_device_eval_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "learning_rate": 5e-5,
    "weight_decay": 0.0,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "max_grad_norm": 1.0,
    "label_smoothing_factor": 0.0,
    "optim": "adamw_torch_fused",
    "bf16": False,
    "fp16": False,
    "bf16_full_eval": False,
    "fp16_full_eval": False,
    "gradient_checkpointing": False,
    "use_liger_kernel": False,
    "auto_find_batch_size": False,
    "torch_compile": False,
    "eval_strategy": "no",
    "save_strategy": "steps",
    "save_only_model": False,
    "prediction_loss_only": False,
}

# A key's other names, newest first: what is asked for under the first may be written under any of them.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "gradient_checkpointing": ("activation_checkpointing", "gradient_checkpointing"),  # 5.2x training_args.py:1535
    "gradient_checkpointing_kwargs": ("activation_checkpointing_kwargs", "gradient_checkpointing_kwargs"),
    "eval_strategy": ("eval_strategy", "evaluation_strategy"),
    "per_device_train_batch_size": ("per_device_train_batch_size", "per_gpu_train_batch_size", "micro_batch_size"),
    "per_device_eval_batch_size": ("per_device_eval_batch_size", "per_gpu_eval_batch_size"),
    "use_liger_kernel": ("use_liger_kernel", "use_liger"),
    "torch_empty_cache_steps": ("torch_empty_cache_steps",),
}


class Arguments(NamedTuple):
    """What a section says about TrainingArguments, and the defaults for the rest. Made by `told`.

    `values` holds both, `unsaid` is the origin of a default. Values are as written: use `number`, `flag`, ....
    """

    section: Section
    defaults: Mapping[str, Any]
    source: str
    world_size: int | None
    values: Mapping[str, Any]
    unsaid: Origin

    def written(self, key: str) -> str | None:
        """The name under which the file gives `key` (null counts as not given), else None."""
        given = self.section.value
        if key not in _NAMES:
            return key if given.get(key) is not None else None
        return next((name for name in _NAMES[key] if given.get(name) is not None), None)

    def get(self, key: str) -> Any:
        """The file's value of `key`, else the default, else None."""
        return self.values.get(key)

    def origin(self, key: str) -> Origin:
        """Where `get(key)` comes from."""
        name = self.written(key)
        return self.unsaid if name is None else self.section.origin(name)

    def flag(self, key: str) -> bool:
        """`get(key)` as a boolean; what is no boolean counts as the default (validation reports it)."""
        value = self.values.get(key)
        if value is True or value is False:
            return value
        value = as_bool(value)
        return bool(as_bool(self.defaults.get(key))) if value is None else value

    def integer(self, key: str) -> int | None:
        """`get(key)` as a whole number, else None."""
        return as_int(self.values.get(key))

    def number(self, key: str) -> float | int | None:
        """`get(key)` as a number, else None."""
        return as_number(self.values.get(key))

    def word(self, key: str) -> str:
        """`get(key)` as lower-case text; "" for anything else. YAML 1.1 reads a bare `no` as false: "no"."""
        value = self.values.get(key)
        if isinstance(value, str):
            return value.lower()
        return ("no", "yes")[value] if isinstance(value, bool) else ""


def read_arguments(
    section: Section, defaults: Mapping[str, Any], source: str, world_size: int | None = None
) -> Arguments:
    """The arguments that `section` gives, over `defaults`. `source` names the framework and version of the defaults."""
    given = {key: value for key, value in section.value.items() if value is not None}
    values = {**defaults, **given}
    for key, names in _NAMES.items():
        for name in names:
            if name in given:
                values[key] = given[name]
                break
    return Arguments(section, defaults, source, world_size, values, Origin("default", detail=source))


def arguments(
    section: Section,
    versions: Mapping[str, Version] | None = None,
    overrides: Mapping[str, Any] | None = None,
    source: str = "",
    world_size: int | None = None,
) -> Arguments:
    """The arguments of `section` under the framework `versions` ({"transformers": (4, 57)}; newest where absent).

    `overrides` are defaults that a subclass (SFTConfig, LLaMA-Factory) changes; `source` then names it.
    """
    versions = versions or {}
    defaults = {**_DEFAULTS, "optim": default_optimizer(versions), **(overrides or {})}
    transformers = versions.get("transformers", (5, 23))
    named = source or f"transformers {'.'.join(map(str, transformers))} TrainingArguments"
    return read_arguments(section, defaults, named, world_size)


def default_optimizer(versions: Mapping[str, Version]) -> str:
    """`optim` when nothing is said: fused AdamW from torch 2.8 on (transformers 4.57.6 training_args.py:1292)."""
    fused = versions.get("torch", (2, 13)) >= (2, 8) and versions.get("transformers", (5, 23)) >= (4, 57)
    return "adamw_torch_fused" if fused else "adamw_torch"


def apply(fields: Fields, args: Arguments, versions: Mapping[str, Version] | None = None) -> None:
    """Fill batch, optimizer, checkpointing, precision, evaluation, saving, DDP and stack fields from `args`."""
    for part in (_batch, _optimizer, _evaluation, _saving, _data_parallel, _stack):
        part(fields, args)
    checkpointing(fields, args, versions or {})
    mixed_precision(fields, args)


def _batch(fields: Fields, args: Arguments) -> None:
    _whole(fields, args, "batch.micro_batch_size", "per_device_train_batch_size", least=1)
    _whole(fields, args, "batch.gradient_accumulation_steps", "gradient_accumulation_steps", least=1)
    fields.put("batch.auto_find", args.flag("auto_find_batch_size"), args.origin("auto_find_batch_size"))


def _whole(fields: Fields, args: Arguments, name: str, key: str, least: int) -> None:
    value = args.integer(key)
    if value is None or value < least:
        fields.unknown(name, f"`{key}: {args.get(key)!r}` is no whole number >= {least}")
        return
    fields.put(name, value, args.origin(key))


def _optimizer(fields: Fields, args: Arguments) -> None:
    name = args.word("optim")
    if name:
        fields.put("optimizer.name", name, args.origin("optim"))
    else:
        fields.unknown("optimizer.name", f"`optim: {args.get('optim')!r}` is no optimizer's name")
    # trainer_optimizer.py: the *_layerwise optimizers step inside backward hooks and free each gradient at once.
    fields.put("optimizer.layerwise", name.endswith("_layerwise"), args.origin("optim"))
    norm = args.number("max_grad_norm")
    if norm is not None:
        fields.put("optimizer.max_grad_norm", float(norm), args.origin("max_grad_norm"))
    decay = args.number("weight_decay")
    if decay is not None:
        fields.put("optimizer.weight_decay", float(decay), args.origin("weight_decay"))
    _optimizer_options(fields, args)
    if args.written("label_smoothing_factor"):
        smoothing = args.number("label_smoothing_factor")
        fields.put("loss.label_smoothing", float(smoothing or 0), args.origin("label_smoothing_factor"))


def _optimizer_options(fields: Fields, args: Arguments) -> None:
    """`optim_args: "rank=64, update_proj_gap=100"` and `optim_target_modules` (GaLore, APOLLO, ...)."""
    options = optimizer_options(args.get("optim_args"))
    rank = as_int(options.get("rank"))
    if rank is not None:
        fields.put("optimizer.rank", rank, args.origin("optim_args"))
    if options.get("proj"):
        fields.put("optimizer.projection", options["proj"], args.origin("optim_args"))
    momentum = as_number(options.get("momentum"))
    if momentum is not None and args.word("optim") in ("sgd", "rmsprop"):
        # A momentum buffer per parameter: transformers 5.23 trainer_optimizer.py:266, 296 hand it to torch's classes.
        fields.put("optimizer.momentum", float(momentum), args.origin("optim_args"))
    targets = args.get("optim_target_modules")
    if targets is not None:
        fields.put("optimizer.targets", as_words(targets), args.origin("optim_target_modules"))


def optimizer_options(value: Any) -> dict[str, str]:
    """`optim_args` as transformers parses it: `key=value` pairs with commas between, spaces dropped."""
    if not isinstance(value, str):
        return {}
    pairs = (item.partition("=") for item in value.replace(" ", "").split(","))
    return {key: text for key, separator, text in pairs if separator}


def checkpointing(fields: Fields, args: Arguments, versions: Mapping[str, Version]) -> None:
    """`gradient_checkpointing` / `activation_checkpointing` with their kwargs.

    `use_reentrant` is False when nothing is said since transformers 5 (5.23 modeling_utils.py:3149) and True before
    (4.57.6 modeling_utils.py, `{"use_reentrant": True}`).
    """
    on = args.flag("gradient_checkpointing")
    origin = args.origin("gradient_checkpointing")
    fields.put("checkpointing.mode", "full" if on else "none", origin)
    options = args.get("gradient_checkpointing_kwargs")
    kwargs = options if isinstance(options, dict) else {}
    default = versions.get("transformers", (5, 23)) < TRANSFORMERS_5
    said = as_bool(kwargs.get("use_reentrant"))
    where = args.origin("gradient_checkpointing_kwargs") if said is not None else Origin("default", detail=args.source)
    fields.put("checkpointing.reentrant", default if said is None else said, where)
    if on:
        _checkpointing_options(fields, kwargs, args.origin("gradient_checkpointing_kwargs"))


def _checkpointing_options(fields: Fields, kwargs: Mapping[str, Any], origin: Origin) -> None:
    """`every_n_layers` and `offload` (transformers 5.23 activation_checkpointing_enable)."""
    every = as_int(kwargs.get("every_n_layers"))
    if every is not None and every > 1:
        fields.put("checkpointing.mode", "every_n", origin)
        fields.put("checkpointing.every", every, origin)
    if as_bool(kwargs.get("offload")):
        fields.put("checkpointing.offload", True, origin)
    if as_bool(kwargs.get("selective")):
        fields.put("checkpointing.mode", "selective", origin)


def mixed_precision(fields: Fields, args: Arguments) -> None:
    """accelerate's native mixed precision: autocast around forward, outputs turned to fp32 (1.15 accelerator.py:1826).

    Which dtype the parameters have is the format's to say (`precision.trainable_dtype`, `model.weights_dtype`).
    """
    key = "fp16" if args.flag("fp16") and not args.flag("bf16") else "bf16"
    half = {"bf16": "bfloat16", "fp16": "float16"}[key] if args.flag(key) else ""
    origin = args.origin(key)
    fields.put("precision.autocast", bool(half), origin)
    fields.put("precision.outputs_to_fp32", bool(half), origin)
    if half:
        fields.put("precision.compute", half, origin)
    fields.put("precision.master_weights", False, Origin("inferred", detail="no engine keeps a second copy"))
    if args.written("tf32"):
        fields.put("precision.tf32", args.flag("tf32"), args.origin("tf32"))


def _evaluation(fields: Fields, args: Arguments) -> None:
    strategy = args.word("eval_strategy")
    fields.put("evaluation.enabled", strategy not in ("no", ""), args.origin("eval_strategy"))
    if strategy in ("no", "") and args.flag("do_eval"):
        fields.put("evaluation.enabled", True, args.origin("do_eval"))
    _whole(fields, args, "evaluation.batch_size", "per_device_eval_batch_size", least=1)
    steps = args.integer("eval_accumulation_steps")
    fields.put("evaluation.accumulation_steps", steps, args.origin("eval_accumulation_steps"))
    # trainer.py: `prediction_loss_only=True if self.compute_metrics is None else None`.
    fields.infer("evaluation.keeps_logits", False, "without compute_metrics Trainer.evaluate keeps losses alone")
    if args.flag("predict_with_generate"):
        fields.put("evaluation.predict_with_generate", True, args.origin("predict_with_generate"))


def _saving(fields: Fields, args: Arguments) -> None:
    fields.put("saving.enabled", args.word("save_strategy") != "no", args.origin("save_strategy"))
    fields.put("saving.only_model", args.flag("save_only_model"), args.origin("save_only_model"))


def _data_parallel(fields: Fields, args: Arguments) -> None:
    if args.written("ddp_find_unused_parameters"):
        key = "ddp_find_unused_parameters"
        fields.put("parallelism.find_unused_parameters", args.flag(key), args.origin(key))
    else:  # trainer.py:751: checkpointing breaks with it, so it is off then and on else
        checkpointed = args.flag("gradient_checkpointing")
        fields.infer("parallelism.find_unused_parameters", not checkpointed, "Trainer: off with checkpointing, else on")


def _stack(fields: Fields, args: Arguments) -> None:
    compiled = args.flag("torch_compile") or bool(args.get("torch_compile_backend") or args.get("torch_compile_mode"))
    fields.put("stack.compile", compiled, args.origin("torch_compile"))
    fields.put("loss.liger_kernels", args.flag("use_liger_kernel"), args.origin("use_liger_kernel"))
