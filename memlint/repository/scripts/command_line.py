"""The arguments of a command for following the code of the program that it starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memlint.repository.scripts.commands import LaunchCommand, is_open, options, overrides
from memlint.repository.scripts.values import has_known_name, placeholder
from memlint.repository.scripts.world import World
from memlint.source.python.reader import CommandLine, plain_word
from memlint.source.python.values import Known, Undetermined, Value, ValueSource
from memlint.source.shell.text import Text, Word, known, why_unknown

_STARTS_MANY = frozenset({"torchrun", "accelerate", "deepspeed", "lightning"})


def command_line(launched: LaunchCommand, variables: Mapping[str, Text], size: World) -> CommandLine:
    """The command's arguments for following the program's code. The path in a value's source is its flag: `--bits`."""
    named, others = options(launched.arguments)
    given = {one.name: tuple(_value(word, one.name) for word in one.values) for one in named}
    if launched.passes_rank:
        given.setdefault("local_rank", (Known("0"),))
    positional = tuple(_value(word, "") for word in others)
    over = {one.name: plain_word((_value(one.values[0], one.name),)) for one in overrides(others)}
    environment = dict(_environment(launched, variables, size))
    return CommandLine("", given, positional, environment, over, is_open=is_open(launched.arguments))


def _value(word: Word, name: str) -> Value:
    source = ValueSource(f"--{name}", None, "option")
    if word.unknown and not has_known_name(word):
        return Undetermined(why_unknown(word.pieces), source)
    return Known(placeholder(word) if word.unknown else word.text, source)


def _environment(launched: LaunchCommand, variables: Mapping[str, Text], size: World) -> Iterator[tuple[str, Value]]:
    """Variables of the command, and those that a launcher sets for each of its processes."""
    for name, text in variables.items():
        value = known(text)
        if value is not None:
            yield name, Known(value)
    if launched.launcher in _STARTS_MANY:
        for name, number in (("WORLD_SIZE", size.gpus), ("LOCAL_WORLD_SIZE", size.per_node)):
            yield name, Known(str(number)) if number else Undetermined("the number of GPUs")
        yield from ((name, Known("0")) for name in ("RANK", "LOCAL_RANK"))
