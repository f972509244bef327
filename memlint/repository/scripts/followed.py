"""Follows the code of the program that a command starts, with the command's arguments.

In a custom program the name of a flag says little: `--bits 4` means quantization only if the code uses it so, and
`SFTConfig(gradient_accumulation_steps=total // world_size)` follows from no single flag. If the code is followed to its
end, the arguments that it passes to the trainer are used, and a flag that it passes to nothing has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from memlint._record import NamedTuple
from memlint.formats.trainer.keys import KEYS
from memlint.formats.trainer.python.model import MAKES_MODEL
from memlint.formats.trainer.python.own_optimizer import MAKES_OPTIMIZER
from memlint.formats.trainer.python.python_run import PythonRun, lacks_its_stage
from memlint.formats.trainer.python.trainer_call import HIDDEN
from memlint.repository.scripts.commands import LaunchCommand, Option, options, overrides
from memlint.repository.scripts.definitions import TrainingProgram
from memlint.repository.scripts.document import at_flag, words_range
from memlint.repository.scripts.placed import Placed, not_known
from memlint.source.document import Document, Path
from memlint.source.python.reader import CommandLine
from memlint.source.python.values import (
    Either,
    Known,
    Table,
    Undetermined,
    Value,
    is_small,
    plain,
    source_of,
)
from memlint.source.shell.text import Text, shown

# A program's path, how it is started, and the files that were written before, by absolute path.
Follow = Callable[[str, CommandLine, Mapping[str, str]], "tuple[PythonRun, ...]"]
# The same, as a document of its code; the number is that of the run.
AsPython = Callable[[str, CommandLine, Mapping[str, str], int], "Document | None"]
MOST_FOLLOWED = 8  # programs of one script: each may take half a second
_ADAPTED = ("lora_", "use_dora", "use_rslora", "use_peft", "load_in_", "bnb_", "use_bnb")
_ADAPTERS = (*_ADAPTED, "use_lora", "lora", "use_qlora")  # keys that tell whether an adapter is trained
_SUGGEST_ADAPTERS = ("lora_", "bits")
# Arguments of the Trainer that may have an effect in code that is not followed, such as tokenization.
_KEPT = frozenset(
    ("max_length", "max_seq_length", "max_prompt_length", "max_completion_length", "max_new_tokens")
    + ("model_name_or_path",)
)
# Arguments of the Trainer without a row of the table that rules ask for. A callback of a script may take them instead.
_OF_EVALUATION = frozenset({"eval_steps", "eval_delay", "eval_on_start"})
_LENGTHS = ("max_length", "max_seq_length")  # one and the same argument, by the release of TRL
# Arguments of `from_pretrained`: where it is seen, a flag that it does not get has no effect.
_OF_LOADING = ("attn_implementation", "dtype", "torch_dtype")


class Followed(NamedTuple):
    """A run that a program makes from a command. `options`: those of the command, by name. `number`: which one."""

    run: PythonRun
    options: Mapping[str, Option]
    number: int = 0


def followed(
    entry: str, launched: LaunchCommand, line: CommandLine, written: Mapping[str, Text], follow: Follow
) -> tuple[Followed, ...]:
    """The runs of the program at `entry`, one after another; none if it is not certain that it starts each of several.

    `written`: absolute path -> text of files that the script has written.
    """
    runs = follow(entry, line, {path: shown(text) for path, text in written.items()})
    if len(runs) > 1 and any(run.program.trainer_call != "train" for run in runs):
        return ()
    named, others = options(launched.arguments)
    given = {one.name: one for one in (*named, *overrides(others))}
    return tuple(Followed(run, given, number) for number, run in enumerate(runs))


def corrected(given: Iterable[Placed], program: TrainingProgram, of: Followed) -> Iterator[Placed]:
    """The command's flags as keys, corrected by the arguments that the program really passes to its trainer."""
    keys = of.run.keys
    placed = {one.path: one for one in given if not _is_mere_switch(one, of.run)}
    model = keys.get("model_name_or_path")
    knows_model = isinstance(model, Known) or _is_made(model) or _is_of_a_word(model)
    sees_loading = knows_model and of.run.program.loads_model and not isinstance(keys.get("load_in_4bit"), Undetermined)
    handed_on = {_flag_of(value) for value in keys.values()}
    for path, one in placed.items():
        name = str(path[0])
        is_other_name = name in handed_on and name not in KEYS  # `--bs`, which the code gives to a key below
        is_followed = knows_model or any(_are_of_one_call(name, key) for key in keys)
        # A default that the code was not seen to use may be another program's: the class stands in a module beside.
        is_replaced = name in _LENGTHS and (one.key is None or any(key in keys for key in _LENGTHS))
        is_replaced = is_replaced or (name in _OF_LOADING and sees_loading)
        is_replaced = is_replaced or _is_without_effect(name, program, is_followed, keys)
        if name in keys or not (is_other_name or is_replaced):
            yield one
    for name, value in keys.items():
        yield from _placed(name, value, placed.get((name,)), of.options)
    if isinstance(model, Undetermined) and not knows_model:
        said = (*_first(placed), *keys)
        by_default = {str(path[0]) for path, one in placed.items() if one.key is None}
        by_default |= {name for name, value in keys.items() if source_of(value).how == "default"}
        is_adapted = any(name.startswith(_ADAPTERS) and not _is_mere_size(name, by_default) for name in said)
        says_dtype = any(name in ("dtype", "torch_dtype") for name in said)
        for name in (*(() if is_adapted else ("use_peft",)), *(() if says_dtype else ("dtype",))):
            yield not_known(name, f"the model: {model.reason}")  # the code may cast the model later
    elif knows_model and _only_flags_suggest_adapters(placed, keys):
        yield Placed(("use_peft",), False)


def _is_hidden(value: Value) -> bool:
    """Whether an argument may be among those that the code passes on unseen: `TrainingArguments(**kwargs)`."""
    return isinstance(value, Undetermined) and value.reason == HIDDEN


def _is_made(value: Value | None) -> bool:
    """Whether the code was seen to make the model by itself: a flag that seems to name one names something else."""
    return isinstance(value, Undetermined) and value.reason.startswith(MAKES_MODEL)


def _is_of_a_word(value: Value | None) -> bool:
    """Whether a word of the command that is not known (`--model $1`) names the model that the code was seen to load."""
    return isinstance(value, Undetermined) and source_of(value).path.startswith("--")


def _is_mere_switch(one: Placed, run: PythonRun) -> bool:
    """Whether a flag is DeepSpeed's own `--deepspeed` (add_config_arguments), where the code has a configuration, or
    one of a loop, whose code says by itself what it does."""
    return one.path == ("deepspeed",) and one.value is True and ("deepspeed" in run.keys or not run.trainer)


_SIZES = ("lora_r", "lora_rank", "lora_dim", "lora_alpha", "lora_dropout", "lora_bias", "lora_weight_path")


def _is_mere_size(name: str, by_default: set[str]) -> bool:
    """Whether a flag has the size of an adapter by default alone: that is no word on whether one is made."""
    return name in _SIZES and name in by_default


def _only_flags_suggest_adapters(placed: Iterable[Path], keys: Iterable[str]) -> bool:
    """Whether only the names of flags with defaults suggest an adapter, while the code that was followed makes none."""
    suggested = any(name.startswith(_SUGGEST_ADAPTERS) for name in _first(placed))
    return suggested and not any(name.startswith(_ADAPTERS) for name in keys)


def _first(placed: Iterable[Path]) -> Iterator[str]:
    return (str(path[0]) for path in placed)


def _flag_of(value: Value) -> str:
    """The flag that a value comes from, without dashes; "" if it comes from none."""
    path = source_of(value).path
    return path.removeprefix("--") if path.startswith("--") else ""


_OF_ONE_CALL = (("load_in_", "bnb_", "use_bnb"), ("lora_", "use_dora", "use_rslora"))


def _are_of_one_call(name: str, key: str) -> bool:
    """Whether two keys are arguments of the same call, to BitsAndBytesConfig or to LoraConfig."""
    return any(name.startswith(words) and key.startswith(words) for words in _OF_ONE_CALL)


def _is_without_effect(name: str, program: TrainingProgram, is_followed: bool, keys: Mapping[str, Value]) -> bool:
    """Whether a flag with the name of a key has no effect on the trainer, because the code passes it to nothing, or to
    something else, such as a callback.

    `is_followed`: the code was followed up to the call that the key would be an argument of. `keys`: what was passed.
    """
    if name in _OF_EVALUATION:
        return program.parses != "dataclasses" and not any(map(_is_hidden, keys.values()))
    if name not in KEYS or name in _KEPT:
        return False
    return is_followed if name.startswith(_ADAPTED) else program.parses != "dataclasses"


def _placed(name: str, value: Value, before: Placed | None, given: Mapping[str, Option]) -> Iterator[Placed]:
    option = given.get(_flag_of(value))
    if isinstance(value, (Undetermined, Either)):
        says_none = before is not None and name.startswith(_ADAPTED) and not before.value  # a flag without effect
        if before is None or says_none or value.reason.startswith((MAKES_MODEL, MAKES_OPTIMIZER)):
            yield not_known(name, value.reason)
        return
    try:
        known_value = plain(value)
    except ValueError:
        if before is None:
            yield from _partly_known((name,), value)
        return
    if known_value is None and before is None and name not in _LENGTHS:  # for a length None says that none is cut
        return
    if before is not None and _agree(before, known_value, option):
        return
    yield _at(name, known_value, option)


_UNSEEN = "the program computes it"


def _partly_known(path: Path, value: Value) -> Iterator[Placed]:
    """The parts of a value of which some are unknown: a DeepSpeed configuration with the stage, and with a number of
    steps that follows from the number of GPUs."""
    if not isinstance(value, Table) or not value.values or not is_small(value) or lacks_its_stage(value):
        reason = value.reason if isinstance(value, (Undetermined, Either)) else _UNSEEN
        yield not_known(str(path[0]), reason) if len(path) == 1 else Placed(path, f"${{{path[-1]}}}", unknown=reason)
        return
    for name, part in value.values.items():
        try:
            yield Placed((*path, str(name)), plain(part))
        except ValueError:
            yield from _partly_known((*path, str(name)), part)


def _agree(before: Placed, value: object, option: Option | None) -> bool:
    """Whether the flag agrees with the code: it is the flag that the code reads, or it has the same value."""
    if before.unknown:
        return False
    is_same_flag = option is not None and before.key is not None and before.key == at_flag(option)
    return is_same_flag or before.value == value


def _at(name: str, value: object, option: Option | None) -> Placed:
    if option is None:
        return Placed((name,), value)
    source = option.values[0].source if len(option.values) == 1 else None
    return Placed((name,), value, at_flag(option), words_range(option.values), source)
