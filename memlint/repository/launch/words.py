"""Splits the launch commands in scripts and pages into words. Quotes, continued lines and `cd` are understood, nothing
is run."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from memlint._record import NamedTuple
from memlint.repository.launch.pages import HINTS

MOST_LINES = 60  # of one command
MOST_LETTERS = 4096  # of one command
MOST_FOLDERS = 8  # that one file enters
# Words that make a training run of one of the config formats, with those that follow them.
TRAIN_COMMANDS = {
    "axolotl": ("train",),
    "llamafactory-cli": ("train",),
    "trl": ("sft", "dpo", "grpo", "kto", "reward", "rloo"),
}
MODULES = {
    "accelerate.commands.launch": "accelerate",
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
}
_START = re.compile(rf"{HINTS}|(?m:^[$#> \t]{{0,8}}cd )|&& *cd ")
_OPTION = re.compile(r"[# \t]*--[a-z]")
_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|\\.|[^\s"'\\;|&`()]|&(?=\d)|["'])+|&&|[;|&`()]""")
_DEVICES = re.compile(r"[0-9]+(?:,[0-9]+)*")
_ENDS = frozenset((";", "|", "&", "&&", "`", "(", ")"))


class Command(NamedTuple):
    """One launch command. `line` counts from 1, `words` begin at the launcher.

    `entered`: the folders that the file's earlier `cd`s went into.
    `visible`: how many GPUs CUDA_VISIBLE_DEVICES leaves, 0 where it is not set.
    """

    line: int
    words: tuple[str, ...]
    entered: tuple[str, ...] = ()
    visible: int = 0


def commands(text: str) -> Iterator[Command]:
    """The commands of a text that start a launcher."""
    entered: dict[str, None] = {}
    number, counted, done = 1, 0, 0  # of the line that begins at `counted`; what lies before `done` was read
    for match in _START.finditer(text):
        if match.start() < done:
            continue
        begin = text.rfind("\n", 0, match.start()) + 1
        number, counted = number + text.count("\n", counted, begin), begin
        line, done = _joined_line(text, begin)
        for words in _simple_commands(line):
            if words[0] == "cd" and len(words) > 1 and len(entered) < MOST_FOLDERS:
                entered[words[1]] = None
            start = _launcher_at(words)
            if start is not None:
                yield Command(number, words[start:], tuple(entered), _visible(words[:start]))


def _visible(words: tuple[str, ...]) -> int:
    """The number of GPUs in `CUDA_VISIBLE_DEVICES=5,7`."""
    values = [word.partition("=")[2] for word in words if word.startswith("CUDA_VISIBLE_DEVICES=")]
    return len(values[-1].split(",")) if values and _DEVICES.fullmatch(values[-1]) else 0


def _joined_line(text: str, begin: int) -> tuple[str, int]:
    """The line at `begin` joined with its continuation lines, and where they end."""
    joined, end = _line(text, begin)
    for _ in range(MOST_LINES):
        if end >= len(text) or len(joined) > MOST_LETTERS:
            break
        following, after = _line(text, end)
        # Many a page forgets the backslash in front of an option.
        if not joined.endswith("\\") and not _OPTION.match(following):
            break
        joined, end = joined.rstrip("\\ \t") + " " + following.lstrip("# \t"), after
    return joined[:MOST_LETTERS], end


def _line(text: str, begin: int) -> tuple[str, int]:
    """The line at `begin` without what ends it, and where the next one begins."""
    end = text.find("\n", begin)
    end = len(text) if end < 0 else end
    return text[begin : min(end, begin + 2 * MOST_LETTERS)].rstrip(), end + 1


def _simple_commands(line: str) -> Iterator[tuple[str, ...]]:
    """The simple commands of a line: what `&&`, `;`, pipes and backquotes separate."""
    words: list[str] = []
    for match in _WORD.finditer(line):
        word = match[0]
        if word not in _ENDS:
            words.append(word.replace('"', "").replace("'", ""))
        elif words:
            yield tuple(words)
            words = []
    if words:
        yield tuple(words)


def _launcher_at(words: tuple[str, ...]) -> int | None:
    """The index of the launcher's word; prompts, variables and wrappers (`srun`, `uv run`) may stand before it."""
    for index, word in enumerate(words[:-1]):
        name, following = posixpath.basename(word), words[index + 1]
        if name in ("torchrun", "accelerate-launch") or (name == "accelerate" and following == "launch"):
            return index
        if name == "deepspeed" or following in TRAIN_COMMANDS.get(name, ()) or (word == "-m" and following in MODULES):
            return index
    return None
