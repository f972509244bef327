"""The keys of transformers' TrainingArguments that bear on memory or on the run.

Read in transformers 5.23.0 (training_args.py, trainer.py) and 4.57.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.formats.fields import Behaviour, Fields, as_bool, as_int, as_number
from memlint.formats.keys import FieldChange, Key, Keys, Written
from memlint.formats.training_arguments.arguments import Arguments
from memlint.run import TRANSFORMERS, Origin


def _read_optimizer(fields: Fields, args: Arguments) -> None:
    name = args.word("optim")
    if name:
        fields.put("optimizer.name", name, args.origin("optim"))
    else:
        fields.unknown("optimizer.name", f"`optim: {args.get('optim')!r}` is no optimizer's name")
    # trainer_optimizer.py: the *_layerwise optimizers step inside backward hooks and free each gradient at once.
    fields.put("optimizer.layerwise", name.endswith("_layerwise"), args.origin("optim"))


def _read_optimizer_options(fields: Fields, args: Arguments) -> None:
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


def optimizer_options(value: Any) -> dict[str, str]:
    """`optim_args` as transformers parses it: `key=value` pairs with commas between, spaces dropped."""
    if not isinstance(value, str):
        return {}
    pairs = (item.partition("=") for item in value.replace(" ", "").split(","))
    return {key: text for key, separator, text in pairs if separator}


def _read_checkpointing(fields: Fields, args: Arguments) -> None:
    """`use_reentrant` is False when nothing is said since transformers 5 (5.23 modeling_utils.py:3149) and True before
    (4.57.6 modeling_utils.py, `{"use_reentrant": True}`).
    """
    # Scripts with Unsloth write its word (`use_gradient_checkpointing="unsloth"`); to transformers any text is true.
    on = args.flag("gradient_checkpointing") or args.get("gradient_checkpointing") == "unsloth"
    fields.put("checkpointing.mode", "full" if on else "none", args.origin("gradient_checkpointing"))
    options = args.get("gradient_checkpointing_kwargs")
    kwargs = options if isinstance(options, dict) else {}
    reentrant = as_bool(kwargs.get("use_reentrant"))
    if reentrant is None:
        default = args.release("transformers", TRANSFORMERS) < (5,)
        fields.put("checkpointing.reentrant", default, Origin("default", detail=args.source))
    else:
        fields.put("checkpointing.reentrant", reentrant, args.origin("gradient_checkpointing_kwargs"))
    if on:
        _read_checkpointing_options(fields, kwargs, args.origin("gradient_checkpointing_kwargs"))


def _read_checkpointing_options(fields: Fields, kwargs: Mapping[str, Any], origin: Origin) -> None:
    """`every_n_layers`, `offload` and `selective` (transformers 5.23 activation_checkpointing_enable)."""
    every = as_int(kwargs.get("every_n_layers"))
    if every is not None and every > 1:
        fields.put("checkpointing.mode", "every_n", origin)
        fields.put("checkpointing.every", every, origin)
    if as_bool(kwargs.get("offload")):
        fields.put("checkpointing.offload", True, origin)
    if as_bool(kwargs.get("selective")):
        fields.put("checkpointing.mode", "selective", origin)


# transformers 5.23.0 trainer.py:1896 asks accelerate's plug-in; 4.46 to 5.1 called `no_sync` whatever it said.
_IGNORES_SYNC = ((4, 46), (5, 2))


def _read_accelerator(fields: Fields, args: Arguments) -> None:
    """`gradient_accumulation_kwargs: {sync_each_batch: true}`: FSDP reduces gradients after each micro batch."""
    options = args.get("accelerator_config")
    kwargs = options.get("gradient_accumulation_kwargs") if isinstance(options, dict) else None
    first, since = _IGNORES_SYNC
    is_read = not first <= args.release("transformers", since) < since
    if is_read and isinstance(kwargs, dict) and as_bool(kwargs.get("sync_each_batch")):
        fields.put("parallelism.fsdp.reduces_each_backward", True, args.origin("accelerator_config"))


# The first release of transformers that takes a name of `optim`, or an argument (training_args.py and
# trainer_pt_utils.py of each release; those from before 4.25 are not listed).
_OPTIMIZERS_SINCE = {
    "adamw_torch_fused": (4, 28),
    **dict.fromkeys(("adamw_8bit", "paged_adamw_32bit", "paged_adamw_8bit"), (4, 30)),
    "adamw_torch_4bit": (4, 45),
    "adamw_torch_8bit": (4, 49),
}
_ACCUMULATION_OPTIONS_SINCE, _LIGER_SINCE = (4, 40), (4, 45)


def _takes_optimizer(change: FieldChange) -> bool:
    return _is_release(change, _OPTIMIZERS_SINCE.get(str(change.value), ()))


def _takes_liger(change: FieldChange) -> bool:
    return _is_release(change, _LIGER_SINCE)


def _is_release(change: FieldChange, since: tuple[int, ...]) -> bool:
    """Whether the run's transformers, where one is known, is as new as that."""
    return not change.run.stack.transformers or change.run.stack.transformers >= since


def write_accelerator(change: FieldChange) -> Written | None:
    """No edit where the file has options of accelerate already, nor for a release that does not ask for this one."""
    first, since = _IGNORES_SYNC
    ignored = first <= (change.run.stack.transformers or since) < since
    ignored = ignored or not _is_release(change, _ACCUMULATION_OPTIONS_SINCE)
    if change.value is not True or ignored or change.section.get("accelerator_config"):
        return None
    return {"accelerator_config": {"gradient_accumulation_kwargs": {"sync_each_batch": True}}}


def _read_mixed_precision(fields: Fields, args: Arguments) -> None:
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


def _read_tf32(fields: Fields, args: Arguments) -> None:
    if args.written("tf32"):
        fields.put("precision.tf32", args.flag("tf32"), args.origin("tf32"))


def _is_autocast(change: FieldChange) -> bool:
    """Whether the dtype is that of mixed precision: without autocast no key of TrainingArguments says it."""
    return change.changes.get("precision.autocast") is True


def _read_evaluation(fields: Fields, args: Arguments) -> None:
    strategy = args.word("eval_strategy")
    if strategy in ("no", "") and args.flag("do_eval"):
        fields.put("evaluation.enabled", True, args.origin("do_eval"))
    else:
        fields.put("evaluation.enabled", strategy not in ("no", ""), args.origin("eval_strategy"))


def _write_evaluation(change: FieldChange) -> Written | None:
    """`eval_strategy: no`, and with it what would evaluate all the same (scripts ask `do_eval` when training is done)
    or wants its results. None where something waits for them (transformers 5.23 trainer_callback.py,
    EarlyStoppingCallback; training_args.py, SaveStrategy.BEST)."""
    section = change.section
    stops_early = any("early_stopping" in str(key) and section[key] for key in section)
    if change.value is not False or section.get("save_strategy") == "best" or stops_early:
        return None
    strategy = next((name for name in ("eval_strategy", "evaluation_strategy") if name in section), "")
    needless = [name for name in ("do_eval", "load_best_model_at_end", "eval_on_start") if section.get(name)]
    return {**({strategy: "no"} if strategy else {}), **dict.fromkeys(needless, False)}


def _read_accumulation(fields: Fields, args: Arguments) -> None:
    """`eval_accumulation_steps`. A null, the default, means that predictions stay on the GPU until the last step."""
    steps = args.integer("eval_accumulation_steps")
    fields.put("evaluation.accumulation_steps", steps, args.origin("eval_accumulation_steps"))


_COPIES = Behaviour(
    *("saving.copies_on_each_rank", True),
    "transformers 5.23 trainer.py:4112, save_model, and accelerate 1.15 accelerator.py:4095, get_state_dict",
)


def _read_saving(fields: Fields, args: Arguments) -> None:
    fields.put("saving.enabled", args.word("save_strategy") != "no", args.origin("save_strategy"))
    fields.behave(_COPIES)


def _read_unused_parameters(fields: Fields, args: Arguments) -> None:
    key, field = "ddp_find_unused_parameters", "parallelism.find_unused_parameters"
    if args.written(key):
        fields.put(field, args.flag(key), args.origin(key))
    else:  # trainer.py:751: checkpointing breaks with it, so it is off then and on else
        checkpointed = args.flag("gradient_checkpointing")
        fields.infer(field, not checkpointed, "Trainer: off with checkpointing, else on")


def _read_compile(fields: Fields, args: Arguments) -> None:
    compiled = args.flag("torch_compile") or bool(args.get("torch_compile_backend") or args.get("torch_compile_mode"))
    fields.put("stack.compile", compiled, args.origin("torch_compile"))


def _read_processor(fields: Fields, args: Arguments) -> None:
    if args.flag("use_cpu"):
        fields.put("stack.unmodelled", "training on the CPU", args.origin("use_cpu"))


_BATCH = (
    Key(
        *("use_cpu", "flag", "stack.unmodelled", False),
        older=("no_cuda",),
        read=_read_processor,
        read_only=True,
        about="Train on the processor, without a GPU.",
    ),
    Key(
        *("per_device_train_batch_size", "whole", "batch.micro_batch_size", 8),
        about="Sequences per GPU and forward pass. Activations and logits grow with it.",
        older=("per_gpu_train_batch_size", "micro_batch_size"),
        least=1,
    ),
    Key(
        *("gradient_accumulation_steps", "whole", "batch.gradient_accumulation_steps", 1),
        about="Forward and backward passes per optimizer step. Gradients of all of them share one buffer.",
        least=1,
    ),
    Key(
        *("accelerator_config", "any", "parallelism.fsdp.reduces_each_backward"),
        about="Options of accelerate. With `gradient_accumulation_kwargs: {sync_each_batch: true}` FSDP keeps sharded "
        "gradients between micro batches.",
        read=_read_accelerator,
        write=write_accelerator,
    ),
    Key(
        *("auto_find_batch_size", "flag", "batch.auto_find", False),
        about="After running out of memory, start again with a smaller batch.",
        invalid="default",
    ),
)
_OPTIMIZER = (
    Key(
        *("optim", "word", "optimizer.name", "adamw_torch_fused"),
        about="The optimizer. Its state is often the largest part of full training: 8 bytes per parameter for AdamW.",
        read=_read_optimizer,
        can_write=_takes_optimizer,
    ),
    Key(
        *("learning_rate", "number", "optimizer.learning_rate", 5e-5),
        about="The peak learning rate. It takes no memory.",
        invalid="ignored",
    ),
    Key("adam_beta1", "number", default=0.9, about="AdamW's decay of its first moment."),
    Key("adam_beta2", "number", default=0.999, about="AdamW's decay of its second moment."),
    Key("adam_epsilon", "number", default=1e-8, about="What AdamW adds to the denominator."),
    Key(
        *("max_grad_norm", "number", "optimizer.max_grad_norm", 1.0),
        about="Gradients are clipped to this norm; 0 switches it off. Some ways of clipping copy the gradients.",
        invalid="ignored",
    ),
    Key(
        *("weight_decay", "number", "optimizer.weight_decay", 0.0),
        about="Decoupled weight decay. Some optimizers make a temporary copy for it.",
        invalid="ignored",
    ),
    Key(
        *("optim_args", "text"),
        about="Options of the optimizer: `rank=64, update_proj_gap=100`. The rank sets the size of GaLore's state.",
        read=_read_optimizer_options,
    ),
    Key(
        *("optim_target_modules", "words", "optimizer.targets"),
        about="Modules whose gradients GaLore and APOLLO project. The others keep a full optimizer state.",
        invalid="ignored",
    ),
    Key(
        *("label_smoothing_factor", "number", "loss.label_smoothing", 0.0),
        about="Label smoothing. Above 0 the Trainer computes the loss itself and holds the logits once more.",
        only_if_given=True,
        invalid="default",
    ),
)
_EVALUATION = (
    Key(
        *("eval_strategy", "word", "evaluation.enabled", "no"),
        about="When to evaluate: no, steps or epoch. Evaluation has a peak of its own.",
        older=("evaluation_strategy",),
        read=_read_evaluation,
        write=_write_evaluation,
    ),
    Key(
        *("do_eval", "flag", "evaluation.enabled", False),
        about="Evaluate when training is done.",
        read_with="eval_strategy",
        read_only=True,
    ),
    Key(
        *("per_device_eval_batch_size", "whole", "evaluation.batch_size", 8),
        about="Sequences per GPU and evaluation step. Their logits are held until the step is over.",
        older=("per_gpu_eval_batch_size",),
        least=1,
    ),
    Key(
        *("eval_accumulation_steps", "whole", "evaluation.accumulation_steps"),
        about="Move predictions to the CPU every so many steps; without it all of them stay on the GPU.",
        read=_read_accumulation,
        least=1,
    ),
    Key("bf16_full_eval", "flag", default=False, about="Turn the whole model into bf16 for evaluation, not autocast."),
    Key("fp16_full_eval", "flag", default=False, about="Turn the whole model into fp16 for evaluation, not autocast."),
    Key("prediction_loss_only", "flag", default=False, about="Evaluation returns the loss alone, no predictions."),
    Key(
        *("predict_with_generate", "flag", "evaluation.predict_with_generate"),
        about="Evaluate by generating text: no gradients, but a KV cache.",
        values={True: True},
        only_if_given=True,
        invalid="ignored",
    ),
)
_SAVING = (
    Key(
        *("save_strategy", "word", "saving.enabled", "steps"),
        about="When to save: no, steps, epoch or best. Under ZeRO-3 and FSDP saving may gather the whole model.",
        read=_read_saving,
        read_only=True,
    ),
    Key(
        *("save_only_model", "flag", "saving.only_model", False),
        about="Save the weights without optimizer state: a fifth of the disk space, but no way to resume.",
        invalid="default",
    ),
)
_DATA_PARALLEL = (
    Key("ddp_bucket_cap_mb", "number", about="Size of DDP's gradient buckets in MiB."),
    Key(
        *("ddp_find_unused_parameters", "flag", "parallelism.find_unused_parameters"),
        about="DDP looks for parameters without a gradient after each forward pass. Off with checkpointing by default.",
        read=_read_unused_parameters,
    ),
)
_STACK = (
    Key(
        *("torch_compile", "flag", "stack.compile", False),
        about="Compile the model with torch.compile, which fuses operations and keeps fewer activations.",
        read=_read_compile,
        read_only=True,
    ),
    Key(
        *("torch_compile_backend", "text", "stack.compile"),
        about="The backend of torch.compile. Giving one switches compilation on.",
        read_with="torch_compile",
        read_only=True,
    ),
    Key(
        *("torch_compile_mode", "text", "stack.compile"),
        about="The mode of torch.compile. Giving one switches compilation on.",
        read_with="torch_compile",
        read_only=True,
    ),
    Key(
        *("torch_empty_cache_steps", "whole"),
        about="Return cached GPU memory to the driver every so many steps. Less fragmentation, slower steps.",
    ),
    Key(
        *("use_liger_kernel", "flag", "loss.liger_kernels", False),
        about="Liger's fused kernels. The fused loss never builds the logits.",
        older=("use_liger",),
        invalid="default",
        can_write=_takes_liger,
    ),
)
_CHECKPOINTING = (
    Key(
        *("gradient_checkpointing", "flag", "checkpointing.mode", False),
        about="Recompute each layer in the backward pass instead of keeping its activations.",
        newer=("activation_checkpointing",),  # 5.2x training_args.py:1535
        values={True: "full", False: "none"},
        read=_read_checkpointing,
    ),
    Key(
        *("gradient_checkpointing_kwargs", "any"),
        about="Options of activation checkpointing: use_reentrant, every_n_layers, offload, selective.",
        newer=("activation_checkpointing_kwargs",),
        read_with="gradient_checkpointing",
    ),
)
_PRECISION = (
    Key(
        *("bf16", "flag", "precision.compute", False),
        about="Mixed precision in bf16: autocast around forward. Weights keep the dtype that they are loaded in.",
        values={True: "bfloat16"},
        read=_read_mixed_precision,
        can_write=_is_autocast,
    ),
    Key(
        *("fp16", "flag", "precision.compute", False),
        about="Mixed precision in fp16, with a loss scaler.",
        values={True: "float16"},
        read_with="bf16",
        can_write=_is_autocast,
    ),
    Key(
        *("tf32", "flag", "precision.tf32"),
        about="Let fp32 matrix products use TF32. The same memory, faster.",
        read=_read_tf32,
    ),
)
KEYS = Keys(
    *_BATCH,
    *_OPTIMIZER,
    *_EVALUATION,
    *_SAVING,
    *_DATA_PARALLEL,
    *_STACK,
    *_CHECKPOINTING,
    *_PRECISION,
)
