"""The file with a run's values that a command names, and those values as arguments.

`llamafactory-cli train sft.yaml` names it first, `python sft.py --config sft.yaml` by an option. The values come before
those of the command's own flags, which count; ms-swift's come after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy

from memlint.formats.trainer.python.libraries import MAY_BE_PASSED
from memlint.repository.scripts.commands import LaunchCommand, Option, options
from memlint.repository.scripts.placed import Placed
from memlint.source.document import NOT_READ, Document
from memlint.source.shell.text import Word

# ms-swift 4.6.0 cli/main.py:36: its options come in front of those of the command.
_FILE_COMES_FIRST = ("llamafactory", "axolotl", "swift")


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
    files = [one for one in others if one.text.endswith((".yaml", ".yml", ".json")) and "=" not in one.text]
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
