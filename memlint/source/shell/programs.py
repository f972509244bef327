"""The output of programs (for `$( ... )`, pipes, files), as far as it is known without running them."""

from __future__ import annotations

from collections.abc import Sequence

from memlint.source.shell import filters
from memlint.source.shell.state import State, path_in
from memlint.source.shell.text import Text, Word, known, literal, unknown

NUMBER_OF_GPUS = "it depends on the number of GPUs"

_IS_NOT_KNOWN = "prints is not known"


def is_output(reason: str) -> bool:
    """Whether a text is unknown because a program prints it."""
    return reason.endswith(_IS_NOT_KNOWN)


def printed(name: str, words: Sequence[Word], state: State) -> Text:
    """The output of the program `name`, called with `words` (including its name)."""
    if name == "cat" and len(words) == 2 and (path := path_in(state.folder, words[1].pieces)) in state.files:
        return state.files[path or ""]
    if name == "cat" and len(words) == 1 and state.input is not None:
        return state.input
    found = filters.printed(name, [word.pieces for word in words[1:]], state.input)
    if found is None and name == "which" and len(words) == 2:
        return unknown(f"$(which {words[1].text})", "where a program is installed is not known")
    if found is None:
        return unknown(f"$({name})", f"what `{name or words[0].text[:40]}` {_IS_NOT_KNOWN}")
    if name in ("realpath", "readlink") and known(found) is not None and (full := path_in(state.folder, found)):
        return literal(full)
    return found


def lists_gpus(name: str, words: Sequence[Word]) -> bool:
    """Whether the program prints a line for each GPU of the machine."""
    return name == "nvidia-smi" and any(
        word.text in ("-L", "--list-gpus") or word.text.startswith("--query-gpu") for word in words
    )


def counts_gpus(name: str, words: Sequence[Word]) -> bool:
    """Whether the program prints how many GPUs the machine has."""
    return name.startswith("python") and any("device_count" in word.text for word in words)
