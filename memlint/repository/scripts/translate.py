"""Translates a command's flags to the keys of a format, and adds the arguments that the program sets itself.

Scripts have names of their own for arguments of the Trainer. A flag is translated by what the script's code does with
it, else by names that many scripts share.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from memlint.formats.trainer.keys import KEYS
from memlint.formats.trainer.python.libraries import MAY_BE_PASSED
from memlint.formats.trainer.recognise import is_training_arguments
from memlint.repository.scripts.commands import LaunchCommand, Option, is_open, options
from memlint.repository.scripts.definitions import TrainingProgram
from memlint.repository.scripts.document import Placed, keys_of, not_known
from memlint.repository.scripts.handed_on import value_of
from memlint.repository.scripts.refused import refused_flags
from memlint.source.document import NOT_READ, Document
from memlint.source.python.classes import READ_WHEN_MADE
from memlint.source.shell.text import Word

TRL_TASKS = {
    "SFTConfig": "sft",
    "DPOConfig": "dpo",
    "GRPOConfig": "grpo",
    "KTOConfig": "kto",
    "RewardConfig": "rm",
    "ORPOConfig": "orpo",
    "CPOConfig": "cpo",
    "PPOConfig": "ppo",
    "RLOOConfig": "rloo",
    "OnlineDPOConfig": "online_dpo",
    "GKDConfig": "gkd",
    "XPOConfig": "xpo",
    "NashMDConfig": "nash_md",
}
_TRL_WORDS = {"reward": "rm"}
# Scripts of trl's examples/scripts (0.12.2 to 1.16.0), as a repository that lacks them starts them.
_TRL_SCRIPTS = {"dpo_online": "online_dpo", "xpo": "xpo", "nash_md": "nash_md", "gkd": "gkd"}
# Formats whose own program always runs, even as a copy in the repository, so that its behaviour is known.
# ms-swift 4.6.0 cli/main.py:36: its options come in front of those of the command.
_FILE_COMES_FIRST = ("llamafactory", "axolotl", "swift")
WHOLE_PROGRAMS = ("verl", "easyr1", "openrlhf", "axolotl")
_VERL_PROGRAM = re.compile(r"(?:^|[./])(?:main_ppo|(?:fsdp_)?sft_trainer)(?:\.py)?$")
_HYDRA_NAMES = ("config_name", "cn")
_VERL_SECTIONS = frozenset(("actor_rollout_ref", "data", "trainer", "algorithm", "critic"))
# Keys of a LLaMA-Factory run that its other programs (such as scripts/vllm_infer.py) do not accept.
_LLAMAFACTORY_RUNS = frozenset(("stage", "finetuning_type", "do_train", "do_eval", "do_predict"))
_LLAMAFACTORY = frozenset(("finetuning_type", "template", "stage", "cutoff_len", "dataset_dir", "lora_target"))

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


def format_of(command: LaunchCommand, program: TrainingProgram, has_file: bool) -> str | None:
    """The format of the flags; "" for a program with a training loop of its own, None if the command does not train."""
    if command.launcher in ("llamafactory-cli", "lmf"):
        return "llamafactory"
    if command.launcher == "trl":
        return "trainer"
    if command.launcher in ("swift", "megatron") or _swift_module(command) or program.swift_task:
        return "swift"
    if is_axolotl(command):
        return "axolotl" if config_word(command, "axolotl") else ""
    if is_verl(command):
        return "verl"
    if is_easyr1(command):
        return "easyr1"
    if is_openrlhf(command):
        return "openrlhf"
    names = {one.name for one in options(command.arguments)[0]}
    if len(names & _LLAMAFACTORY) >= 2 and names & _LLAMAFACTORY_RUNS:
        return "llamafactory"
    if (program.classes and (program.parses or names)) or (not has_file and is_training_arguments(names)):
        return "trainer"
    return "" if _trains(names, command) else None


def is_axolotl(command: LaunchCommand) -> bool:
    """Whether axolotl trains: its own command, or its module under another launcher."""
    name = command.program.text if command.program is not None else ""
    return command.launcher == "axolotl" or (command.is_module and name in ("axolotl.cli.train", "axolotl.cli.main"))


def config_word(command: LaunchCommand, format_name: str) -> Word | None:
    """The word that names the file with the run's values: the first argument, or for TRL and scripts with such a parser
    the value of `--config` or a file."""
    named, others = options(command.arguments)
    if format_name in _FILE_COMES_FIRST:
        first = command.arguments[0] if command.arguments else None
        if first is not None and first.text.endswith((".yaml", ".yml", ".json")):
            return first
        return option_file(named) if format_name == "swift" else None
    found = [one.values[0] for one in named if one.name in CONFIG_OPTIONS and one.values]
    files = [one for one in others if one.text.endswith((".yaml", ".yml", ".json"))]
    return next(iter([*found[-1:], *files]), None)


def option_file(named: Iterable[Option]) -> Word | None:
    """The file that ms-swift 3 and 4.0 take from `--config`; its values come after the command's own, and count (3.12.6
    cli/main.py, `prepare_config_args`)."""
    return next((one.values[0] for one in named if one.name == "config" and one.values), None)


CONFIG_OPTIONS = frozenset({"config", "config_file", "config_path", "cfg"})


# What a file of a format says besides, under names of its own.
_OF_FORMAT: Mapping[str, tuple[str, ...]] = {
    "swift": ("model", "tuner_type", "lora_rank", "max_length", "torch_dtype", "quant_bits"),
    "llamafactory": ("model_name_or_path", "finetuning_type", "lora_rank", "cutoff_len", "quantization_bit"),
}


def of_file(word: Word, file: Document | None, given: set[str], format_name: str) -> Iterator[Placed]:
    """The values of the file that a command names, which the command may override. If the file cannot be read, the
    values that matter to memory are unknown."""
    if file is not None:
        # Copies: the command may set a part of a section.
        yield from (Placed((key,), deepcopy(value)) for key, value in file.value.items() if isinstance(key, str))
        return
    reason = f"`{word.text}` says it, which is not there or {NOT_READ}"
    for key in (*MAY_BE_PASSED, *_OF_FORMAT.get(format_name, ("model_name_or_path",))):
        if key not in given:
            yield Placed((key,), f"${{{key}}}", unknown=reason)


_OPENRLHF_PROGRAM = re.compile(r"(?:^|[./])train_(?:ppo_ray|ppo|sft|dpo|rm|kto|kd|prm)(?:\.py)?$")
_OPENRLHF_FLAGS = frozenset(
    ("micro_train_batch_size", "micro_rollout_batch_size", "zero_stage", "adam_offload", "actor_num_gpus_per_node")
    + ("ds.zero_stage", "train.micro_batch_size", "train.batch_size", "actor.num_gpus_per_node", "pretrain")
)


def is_openrlhf(command: LaunchCommand) -> bool:
    """Whether the command starts a program of OpenRLHF or of a fork: it has its name and at least two of its flags."""
    text = command.program.text if command.program is not None else ""
    if not _OPENRLHF_PROGRAM.search(text):
        return False
    names = {one.name for one in options(command.arguments)[0]}
    return "openrlhf.cli." in text or len(names & _OPENRLHF_FLAGS) >= 2


def is_verl(command: LaunchCommand) -> bool:
    """Whether the program accepts verl's overrides: `main_ppo` of verl or of a fork, or its SFT trainer. A command that
    names a file needs none."""
    text = command.program.text if command.program is not None else ""
    if _VERL_PROGRAM.search(text) and any(one.name in _HYDRA_NAMES for one in options(command.arguments)[0]):
        return True
    words = [word.text.lstrip("+~") for word in command.arguments]
    sections = {word.partition(".")[0] for word in words if "=" in word}
    if "actor_rollout_ref" in sections:
        return len(sections & _VERL_SECTIONS) > 1 and not any(word in text for word in ("eval", "generation"))
    return "sft_trainer" in text and {"data", "model", "trainer"} <= sections


_EASYR1_PROGRAM = re.compile(r"(?:^|[./])verl[./]trainer[./]main(?:\.py)?$")
_EASYR1_SECTIONS = frozenset(("worker", "data", "trainer", "algorithm"))


def is_easyr1(command: LaunchCommand) -> bool:
    """Whether the program accepts EasyR1's overrides: `verl.trainer.main` of EasyR1 or of a fork, or a program with
    overrides of its section `worker`."""
    text = command.program.text if command.program is not None else ""
    names = {word.text.partition("=")[0] for word in command.arguments if "=" in word.text}
    sections = {name.partition(".")[0] for name in names if "." in name}
    if _EASYR1_PROGRAM.search(text):
        return "config" in names or bool(sections & _EASYR1_SECTIONS)
    return any(name.startswith("worker.actor.") for name in names) and len(sections & _EASYR1_SECTIONS) > 1


def _trains(names: set[str], command: LaunchCommand) -> bool:
    """Whether a program of no known format probably trains, by the names of its file and flags."""
    text = command.program.text.lower() if command.program is not None else ""
    named = any(word in text for word in ("train", "sft", "dpo", "grpo", "ppo", "finetun", "fine_tun", "rlvr", "dapo"))
    learns = bool(names & {"learning_rate", "lr", "num_train_epochs", "epochs", "max_steps", "train_iters"}) or any(
        word.text.startswith(("data.train_files=", "actor_rollout_ref.")) for word in command.arguments
    )
    learns = learns or bool(names & {"gradient_accumulation_steps", "per_device_train_batch_size"})
    starts_many = command.launcher in ("torchrun", "accelerate", "deepspeed")
    return (learns and (named or starts_many or len(names) >= 8 or not names)) or (
        starts_many and named and len(names) >= 4
    )


def task_of(command: LaunchCommand, program: TrainingProgram) -> tuple[str, str]:
    """(framework, task): "trl", "transformers", "swift" or "openrlhf", and its trainer; "" if only the keys can
    tell."""
    if command.launcher == "trl":
        return "trl", _TRL_WORDS.get(command.task, command.task)
    if command.launcher in ("swift", "megatron") or _swift_module(command) or program.swift_task:
        return "swift", _swift_module(command) or command.task or program.swift_task
    if is_openrlhf(command):
        return "openrlhf", ""
    tasks = {TRL_TASKS[name] for name in program.classes if name in TRL_TASKS}
    if tasks:
        return "trl", tasks.pop() if len(tasks) == 1 else ""
    if program.classes:
        return "transformers", ""
    task = _TRL_SCRIPTS.get(posixpath.basename(command.program.text).removesuffix(".py"), "") if command.program else ""
    return ("trl", task) if task else ("", "")


def flag_names(command: LaunchCommand, program: TrainingProgram) -> dict[str, str]:
    """Key -> the flag that sets it, for flags with another name than their key."""
    return {key: flag for flag, key in program.meanings.items() if flag != key and flag in program.flags}


_SWIFT_MODULE = re.compile(r"(?:(?:^|/)swift|\))[./]cli[./](sft|pt|rlhf)(?:\.py)?$")
_SWIFT_FLAGS = frozenset({"sft_type", "train_type", "tuner_type"})  # of ms-swift alone (2.6, 3.12, 4.6)


def _swift_module(command: LaunchCommand) -> str:
    """The task of `torchrun -m swift.cli.sft` or `torchrun .../swift/cli/sft.py`; "" for other programs. A script may
    ask Python where it lies: `$(python -c "import swift; ...")/cli/sft.py`."""
    text = command.program.text if command.program is not None else ""
    found = _SWIFT_MODULE.search(text)
    if not text.startswith("$("):
        return found[1] if found else ""
    names = {one.name for one in options(command.arguments)[0]}
    return "" if not names & _SWIFT_FLAGS else found[1] if found else "rlhf" if "rlhf_type" in names else "sft"


def completed(
    command: LaunchCommand, program: TrainingProgram, format_name: str, given: Iterable[Placed]
) -> Iterator[Placed]:
    """The program's own defaults, then the flags, all under the names of the format's table."""
    flags = list(given)
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
            yield Placed((key,), default)
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
    by_name = {str(one.path[0]): one for one in flags}
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
