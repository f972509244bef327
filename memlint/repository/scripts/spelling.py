"""Rewrites messages for a command: keys become flags in the spelling of the command."""

from __future__ import annotations

import re
from collections.abc import Callable, Container

from memlint.repository.scripts.commands import LaunchCommand, options
from memlint.repository.scripts.definitions import TrainingProgram
from memlint.source.flags import are_dashed

# `per_device_train_batch_size` and `eval_steps: 50`, as messages write keys.
_KEY = re.compile(r"`([a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?:: ([^`]*))?`")


def spelled(command: LaunchCommand, program: TrainingProgram, keys: Container[str]) -> Callable[[str], str] | None:
    """A function that writes the `keys` in a message as the command's flags: `eval_steps: 50` as `--eval-steps 50`.

    None where the command writes its flags like keys.
    """
    written = [one.flag.text for one in options(command.arguments)[0]]
    if not are_dashed(written):
        return None
    meant = {key: flag for flag, key in program.meanings.items()}
    known = meant.keys() | program.flags.keys() if program.parses == "argparse" else keys

    def flag(found: re.Match[str]) -> str:
        key, value = found[1], found[2]
        if key not in known and key not in meant:
            return found[0]
        return f"`--{meant.get(key, key).replace('_', '-')}{'' if value is None else f' {value}'}`"

    return lambda message: _KEY.sub(flag, message)
