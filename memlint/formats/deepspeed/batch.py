"""Batch sizes of a DeepSpeed file: their values, and where they contradict the training arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.formats.base import Issue
from memlint.formats.deepspeed.config import DeepSpeedConfig
from memlint.formats.fields import Fields, as_number
from memlint.formats.training_arguments import Arguments
from memlint.source.document import Path

MICRO = "train_micro_batch_size_per_gpu"
STEPS = "gradient_accumulation_steps"
TOTAL = "train_batch_size"

# DeepSpeed key -> training argument that must say the same (transformers 5.23 integrations/deepspeed.py:138-176).
MATCHED: Mapping[str, str] = {
    MICRO: "per_device_train_batch_size",
    STEPS: "gradient_accumulation_steps",
    "gradient_clipping": "max_grad_norm",
    "optimizer.params.lr": "learning_rate",
    "optimizer.params.eps": "adam_epsilon",
    "optimizer.params.weight_decay": "weight_decay",
    "scheduler.params.warmup_max_lr": "learning_rate",
}

_SIZES = ("per_device_train_batch_size", "gradient_accumulation_steps")


def check_batch(fields: Fields, view: DeepSpeedConfig) -> None:
    """Sizes that do not multiply in a lone file, or in that of a training loop of a program's own. With training
    arguments, differences from them are refused; a command may show none.
    """
    if view.arguments is None or not view.is_compared:
        _inconsistent(fields, view)
        return
    command = view.arguments.section
    start = command.document.start
    shows_none = command.value.keys().isdisjoint(view.arguments.defaults)
    if start is not None and (shows_none or "ppo_epochs" in command.value):
        return  # `ppo_epochs`: the PPOTrainer of TRL until 0.11 is no Trainer of transformers
    for key, argument in MATCHED.items():
        _compare(fields, view, view.arguments, key, argument)
    _compare_total(fields, view, view.arguments)
    _compare_betas(fields, view, view.arguments)
    _compare_steps(fields, view, view.arguments)
    _refuse_shared_sequences(fields, view, view.arguments)


def read_micro(fields: Fields, view: DeepSpeedConfig) -> None:
    """runtime/config.py:_set_batch_related_parameters: two of the three sizes and the world give the third."""
    if view.arguments is not None:
        return
    micro, steps, total = view.integer(MICRO), view.integer(STEPS), view.integer(TOTAL)
    copies = _copies(view, fields.get("parallelism.world_size", None))
    if micro is None and total is not None and copies:
        micro = total // copies // (steps or 1)
        fields.infer("batch.micro_batch_size", micro, f"{TOTAL} // world size // {STEPS}")
    elif micro is not None:
        fields.put("batch.micro_batch_size", micro, view.origin(MICRO))
    else:
        fields.unknown("batch.micro_batch_size", f"`{MICRO}` is not a number here")


def read_steps(fields: Fields, view: DeepSpeedConfig) -> None:
    """1 by default, else the quotient of the other two sizes and the world size."""
    if view.arguments is not None:
        return
    micro, steps, total = view.integer(MICRO), view.integer(STEPS), view.integer(TOTAL)
    world = fields.get("parallelism.world_size", None)
    if steps is not None:
        fields.put("batch.gradient_accumulation_steps", steps, view.origin(STEPS))
    elif view.is_auto(STEPS):
        fields.unknown("batch.gradient_accumulation_steps", "`auto` follows training arguments that are not known")
    elif not (micro and total):
        fields.put("batch.gradient_accumulation_steps", 1, view.origin(STEPS))
    elif isinstance(world, int) and world:
        fields.infer(
            "batch.gradient_accumulation_steps", max(1, total // micro // world), f"{TOTAL} // {MICRO} // world"
        )
    else:
        fields.unknown("batch.gradient_accumulation_steps", f"{TOTAL} // {MICRO} // an unknown number of GPUs")


def _inconsistent(fields: Fields, view: DeepSpeedConfig) -> None:
    """Sizes that do not multiply. GPUs that share a copy of the model count once (runtime/config.py:446).

    A size that is missing is what the others leave, rounded down (runtime/config.py:615), so it has to come out even.
    """
    world, total = _processes(fields), view.integer(TOTAL)
    given = [(key, size) for key in (MICRO, STEPS) if (size := view.integer(key))]
    if not total or any(view.is_auto(key) for key in (MICRO, STEPS)):
        return
    if not given and not _has_whole_copies(view):
        return  # a file for inference has the total alone as well
    whole, copies = 1, _copies(view, world)
    for _, size in given:
        whole *= size
    words = " * ".join(f"{key} {size}" for key, size in given)
    is_whole = len(given) == 2
    even = total == whole * copies if is_whole else copies and total % (whole * copies) == 0
    if total % whole:
        message = f"`{TOTAL}: {total}` is no multiple of {words}: DeepSpeed refuses it"
        fields.issues.append(view.section.issue("conflict", message, TOTAL))
    elif copies and not even:
        words = f"{words} * {copies} GPUs" if words else f"{copies} GPUs"
        shared = _shared(total, whole, copies, is_whole) if not _has_whole_copies(view) else ""
        fields.issues.append(_not_the_product(view, total, words, is_whole, shared))


def _has_whole_copies(view: DeepSpeedConfig) -> bool:
    """Whether the program is seen to divide no copy of the model."""
    start = view.arguments.section.document.start if view.arguments is not None else None
    return start is not None and start.program.whole_copies


def _shared(total: int, whole: int, copies: int, is_whole: bool) -> str:
    """Over what a script may divide each copy of the model so that the sizes multiply; "" where it cannot."""
    if not is_whole:
        return "several GPUs" if copies > 1 else ""
    shared = whole * copies // total
    return f"{shared} GPUs" if (whole * copies) % total == 0 and shared > 1 else ""


def _not_the_product(view: DeepSpeedConfig, total: int, words: str, is_whole: bool, shared: str) -> Issue:
    """`words`: the other sizes and the GPUs. Fewer copies may give `total`, each divided over `shared`."""
    message = f"`{TOTAL}: {total}` is {'not' if is_whole else 'no multiple of'} {words}: DeepSpeed refuses it"
    if shared:
        message += f" unless the script divides each copy of the model over {shared}"
    return view.section.issue("conflict", message, TOTAL, severity="warning" if shared else "error")


def _copies(view: DeepSpeedConfig, world: Any) -> int:
    """Copies of the model that train on `world` GPUs, as far as the file says; 0 where that is unknown."""
    shared = (view.integer("sequence_parallel_size") or 1) * (view.integer("tensor_parallel.autotp_size") or 1)
    return world // shared if isinstance(world, int) and shared > 0 and world % shared == 0 else 0


def _compare(fields: Fields, view: DeepSpeedConfig, args: Arguments, key: str, argument: str) -> None:
    """HfTrainerDeepSpeedConfig.fill_match: a value that is not `auto` must equal the argument's."""
    here, there = as_number(view.raw(key)), args.number(argument)
    if args.is_open(argument) or args.flag("auto_find_batch_size") or None in (here, there) or here == there:
        return
    note = "" if args.written(argument) else " (its default)"
    message = (
        f"`{key}: {view.raw(key)}` contradicts `{argument}: {args.get(argument)}`{note}: "
        'transformers raises ValueError; write "auto" here'
    )
    _refuse(fields, view, key, message, _related(args, argument))


def _refuse(fields: Fields, view: DeepSpeedConfig, key: str, message: str, related: tuple[Related, ...]) -> None:
    fields.issues.append(view.section.issue("conflict", message, *view.path(key), related=related))


def _compare_betas(fields: Fields, view: DeepSpeedConfig, args: Arguments) -> None:
    """integrations/deepspeed.py:154: `optimizer.params.betas` must be [adam_beta1, adam_beta2]."""
    key = "optimizer.params.betas"
    betas = view.raw(key)
    if not isinstance(betas, list) or len(betas) != 2 or any(as_number(beta) is None for beta in betas):
        return
    wanted = [args.number("adam_beta1"), args.number("adam_beta2")]
    is_open = args.is_open("adam_beta1") or args.is_open("adam_beta2")
    if not is_open and None not in wanted and betas != wanted:
        message = (
            f"`{key}: {betas}` contradicts `adam_beta1` and `adam_beta2`: {wanted}: "
            'transformers raises ValueError; write "auto" here'
        )
        _refuse(fields, view, key, message, (*_related(args, "adam_beta1"), *_related(args, "adam_beta2")))


def _refuse_shared_sequences(fields: Fields, view: DeepSpeedConfig, args: Arguments) -> None:
    """DeepSpeed takes `sequence_parallel_size` GPUs for one copy (0.19.8 runtime/config.py:468), while transformers
    counts all of them where it fills `train_batch_size: auto` (5.23 integrations/deepspeed.py:143): the three sizes
    do not multiply. With accelerate's `parallelism_config` (1.15 accelerator.py:2359) they do. Without `auto`
    DeepSpeed works the total out, and rule DSP026 says that the key alone shares nothing."""
    key = "sequence_parallel_size"
    size = view.integer(key) or 1
    told = args.get("parallelism_config") is not None or fields.get("parallelism.sequence_parallel_size", 1) != 1
    if size < 2 or told or view.raw(TOTAL) != "auto":
        return
    message = (
        f"`{key}: {size}` contradicts `{TOTAL}: auto`: DeepSpeed counts {size} GPUs as one copy, transformers counts "
        "each, and DeepSpeed raises AssertionError; set `parallelism_config` (`sp_size`) instead"
    )
    _refuse(fields, view, key, message, ())


def _compare_steps(fields: Fields, view: DeepSpeedConfig, args: Arguments) -> None:
    """integrations/deepspeed.py:239-248: the scheduler's steps, where the arguments say them in steps."""
    steps = _warmup_steps(args)
    if steps is not None:
        _compare_step(fields, view, args, "scheduler.params.warmup_num_steps", "warmup_steps", steps)
    last = args.integer("max_steps")
    if last is not None and last > 0:
        _compare_step(fields, view, args, "scheduler.params.total_num_steps", "max_steps", last)


def _warmup_steps(args: Arguments) -> int | None:
    """Steps of warm-up; 0 without warm-up, None where a ratio leaves the number open."""
    steps = as_number(args.get("warmup_steps"))
    if steps is not None and steps >= 1:
        return int(steps)
    return None if steps or as_number(args.get("warmup_ratio")) else 0


def _compare_step(fields: Fields, view: DeepSpeedConfig, args: Arguments, key: str, argument: str, steps: int) -> None:
    """No warm-up is 1 step since transformers 5 and 0 before."""
    here = view.integer(key)
    if args.is_open(argument) or here is None or here == steps or {here, steps} <= {0, 1}:
        return
    other = f"`{argument}: {steps}`" if args.written(argument) else f"`{argument}`, which is not set"
    message = f'`{key}: {here}` contradicts {other}: transformers raises ValueError; write "auto" here'
    _refuse(fields, view, key, message, _related(args, argument))


def _processes(fields: Fields) -> Any:
    """How many processes train: as many as the command itself starts, whatever number of GPUs is asked about."""
    return fields.values.get("parallelism.started_processes") or fields.get("parallelism.world_size", None)


Related = tuple[str, Path, str]  # file, place, words


def _related(args: Arguments, argument: str) -> tuple[Related, ...]:
    written = args.written(argument)
    if not written:
        return ()
    return ((args.section.document.path, (*args.section.pointer, written), f"`{argument}: {args.get(argument)}`"),)


def _compare_total(fields: Fields, view: DeepSpeedConfig, args: Arguments) -> None:
    total, world = view.integer(TOTAL), _processes(fields)
    micro, steps = map(args.integer, _SIZES)
    if total is None or not micro or not steps or args.flag("auto_find_batch_size") or any(map(args.is_open, _SIZES)):
        return
    wanted = micro * steps * world if isinstance(world, int) and world else 0
    if (wanted and total != wanted) or total % (micro * steps):
        product = f"{micro} * {steps}" + (f" * {world} GPUs" if wanted else " * GPUs")
        message = f'`{TOTAL}: {total}` is not {product}: transformers raises ValueError; write "auto" here'
        _refuse(fields, view, TOTAL, message, _related(args, "per_device_train_batch_size"))
