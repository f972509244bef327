"""Translates a command's flags to the keys of a format, and adds the arguments that the program sets itself.

Scripts have names of their own for arguments of the Trainer: `--micro_batch_size 4` is `per_device_train_batch_size: 4`
where the script's code passes it on under that name, or where it says nothing and many scripts mean that (`SHARED`).

`completed` gives a run's keys as flags and defaults say them, `worked_out` those that the program computes from flags.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memlint.formats.trainer.keys import KEYS
from memlint.formats.trainer.python.libraries import MAY_BE_PASSED
from memlint.repository.python.unread_lengths import unread_reason
from memlint.repository.scripts.commands import LaunchCommand, is_open
from memlint.repository.scripts.definitions import TrainingProgram
from memlint.repository.scripts.document import keys_of
from memlint.repository.scripts.handed_on import value_of
from memlint.repository.scripts.placed import Placed, not_known
from memlint.repository.scripts.refused import refused_flags
from memlint.source.python.classes import READ_WHEN_MADE

# Names that many scripts use for the same argument, likeliest first. `batch_size` is not among them: it may be per GPU
# or over all GPUs.
SHARED: Mapping[str, tuple[str, ...]] = {
    "model_name_or_path": (
        *("model_path", "base_model", "base_model_name_or_path", "model_id", "pretrained_model_name_or_path"),
        *("pretrained_model", "base_model_path", "llm_path", "pretrain", "model"),
    ),
    "per_device_train_batch_size": ("per_device_batch_size", "micro_batch_size", "per_gpu_batch_size"),
    "gradient_accumulation_steps": (
        "grad_accum",
        "gradient_accumulation",
        "grad_accumulation_steps",
        "grad_accum_steps",
    )
    + ("accum_steps", "accumulation_steps", "grad_steps"),
    "max_length": ("max_sequence_length", "max_seq_len", "sequence_length", "context_length", "seq_len", "max_len"),
    "gradient_checkpointing": ("grad_checkpointing", "use_gradient_checkpointing", "grad_checkpoint"),
    "lora_r": ("lora_rank", "lora_dim"),
}
# Options of DeepSpeed's own parser, and of programs that start it themselves.
_OF_ENGINE = ("deepspeed_config", "ds_config")
_BATCHES = ("batch_size", "train_batch_size", "global_batch_size", "total_batch_size")


def flag_names(command: LaunchCommand, program: TrainingProgram) -> dict[str, str]:
    """Key -> the flag that sets it, for flags with another name than their key."""
    return {key: flag for flag, key in program.meanings.items() if flag != key and flag in program.flags}


def completed(
    command: LaunchCommand, program: TrainingProgram, format_name: str, given: Iterable[Placed]
) -> Iterator[Placed]:
    """The program's own defaults, then the flags, all under the names of the format's table."""
    flags = [_without_effect(one, program) for one in given]
    may_be_given = is_open(command.arguments)
    if may_be_given:
        yield from _of_caller(program, format_name)
    if format_name != "trainer":
        yield from flags
        return
    yield from () if may_be_given else _program_defaults(program, {str(one.path[0]) for one in flags})
    yield from _repeated(program, flags)
    refused = refused_flags(command, program)
    shared = list(_shared([one for one in flags if str(one.path[0]) not in refused]))
    places = {one.key for one in shared if one.key is not None}
    yield from (one for one in flags if one.key not in places)
    yield from shared


def _of_caller(program: TrainingProgram, format_name: str) -> Iterator[Placed]:
    """The keys that an open command may be given besides its own flags, which come after them: those that decide about
    memory, the engine, and the program's own."""
    known = keys_of(format_name)
    own = (program.meanings.get(name, name) for name in program.flags)
    for key in dict.fromkeys((*MAY_BE_PASSED, *_ENGINE_KEYS, *own)):
        if key in known:
            yield not_known(key, f"the command's caller may give `--{key}`")
    if format_name == "trainer":
        yield from (Placed((key,), value) for key, (value, _) in program.constants.items() if key in KEYS)


_ENGINE_KEYS = ("deepspeed", "fsdp")


def _without_effect(one: Placed, program: TrainingProgram) -> Placed:
    """A flag as given; a length that no code reads is none, and how long the samples are is not known."""
    name = str(one.path[0])
    if name not in program.unread:
        return one
    return one._replace(value=f"${{{name}}}", unknown=unread_reason(name))


def _repeated(program: TrainingProgram, flags: list[Placed]) -> Iterator[Placed]:
    """The values of flags under the further names that the code passes them as. They come before the flags of these
    names, which override them."""
    by_name = {str(one.path[0]): one for one in flags}
    for key, flag in program.shared.items():
        given = by_name.get(program.meanings.get(flag, flag)) or by_name.get(flag)
        if given is not None and key in KEYS and key not in by_name:
            yield given._replace(path=(key,), key=None)


def _program_defaults(program: TrainingProgram, given: set[str]) -> Iterator[Placed]:
    """The defaults of flags with the names of keys, and the arguments that the program sets itself."""
    for name, one in program.flags.items():
        key = program.meanings.get(name, name)
        default = False if one.is_switch and one.default is None else one.default
        if default is not None and default != "" and key in KEYS and key not in given:
            yield _without_effect(Placed((key,), default), program)
    for key, (value, _) in program.constants.items():
        if key in KEYS and key not in given:
            yield Placed((key,), value)


def worked_out(program: TrainingProgram, given: Iterable[Placed]) -> Iterator[Placed]:
    """The arguments that the program's code computes from its flags. `given`: all flags.

    A parser of dataclasses sets the Trainer's arguments from flags, so that computed values only apply to arguments
    without a flag. With argparse only the code sets them.
    """
    by_name = {str(one.path[0]): one for one in given}
    flags, known = _by_flag(program, by_name), keys_of("trainer")
    for key, (expression, at) in program.computed.items():
        if key in known and (program.parses == "argparse" or not {key} & {*by_name, *program.flags}):
            yield from _as_evaluated(key, expression, at, flags, by_name)
    for key, one in program.assigned.items():
        is_unset = by_name[key].value in (None, False) if key in by_name else True
        is_too_late = key in READ_WHEN_MADE and program.parses == "dataclasses"
        if key not in known or is_too_late or (one.where_unset and not is_unset):
            continue
        if one.is_conditional:
            yield not_known(key, f"{posixpath.basename(one.at)} sets it")
        else:
            yield from _as_evaluated(key, one.value, one.at, flags, by_name)


def parts_set(program: TrainingProgram, given: Iterable[Placed]) -> Iterator[Placed]:
    """The arguments of which the program sets a part and no flag gives any: following it keeps whole values alone."""
    named, known = {one.path[0] for one in given}, keys_of("trainer")
    for key, one in program.assigned.items():
        if one.is_part and key in known and key not in named:
            yield not_known(key, f"{posixpath.basename(one.at)} sets a part of it")


def _by_flag(program: TrainingProgram, by_name: Mapping[str, Placed]) -> dict[str, Any]:
    """Attribute of the parsed arguments -> its value, as far as known."""
    found: dict[str, Any] = {}
    for flag, defined in program.flags.items():
        one = by_name.get(program.meanings.get(flag, flag)) or by_name.get(flag)
        if one is not None and not one.unknown:
            found[flag] = one.value
        elif one is None and (defined.default is not None or defined.is_switch):
            found[flag] = defined.default or False
    return found


def _as_evaluated(
    key: str, expression: ast.expr, at: str, flags: Mapping[str, Any], by_name: Mapping[str, Placed]
) -> Iterator[Placed]:
    before = by_name.get(key)
    try:
        value = value_of(expression, flags)
    except LookupError:
        yield not_known(key, f"{posixpath.basename(at)} works it out")
        return
    if not isinstance(value, (str, int, float)) and (value is not None or before is None):
        return
    if before is None or before.unknown or before.value != value:
        yield Placed((key,), value)


def _shared(flags: list[Placed]) -> Iterator[Placed]:
    """Flags with a commonly used name, for keys that no flag sets directly."""
    by_name = {str(one.path[0]): one for one in flags if len(one.path) == 1}  # `model.targets=all` is no `model`
    for key, names in SHARED.items():
        if key in by_name:
            continue
        name = next((name for name in names if name in by_name and not _is_key_of_its_own(name, key)), "")
        if name:
            yield by_name[name]._replace(path=(key,))
    file = next((name for name in _OF_ENGINE if name in by_name), "")
    if file and "deepspeed" not in by_name:
        for key in ("deepspeed", "bf16", "fp16"):
            if key not in by_name:
                yield not_known(key, f"what the program does with `--{file}` is the program's to say")
    size = next((name for name in _BATCHES if name in by_name), "")
    known = ("per_device_train_batch_size", "per_gpu_train_batch_size", *SHARED["per_device_train_batch_size"])
    if size and not any(name in by_name for name in known):
        reason = f"whether `--{size}` is a GPU's or that of all GPUs is the program's to say"
        yield by_name[size]._replace(path=("per_device_train_batch_size",), value=f"${{{size}}}", unknown=reason)


def _is_key_of_its_own(name: str, key: str) -> bool:
    """Whether a flag keeps its own name: `model` has many meanings, and is only translated to `model_name_or_path`."""
    return name == "model" and key != "model_name_or_path"
