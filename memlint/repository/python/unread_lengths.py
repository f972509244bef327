"""Lengths among a program's arguments that none of its code reads.

Classes of arguments of a repository's own are copied with `max_seq_length: int = 32768` in them, and the code that cut
the samples to it is not. Then nothing bounds them: the number is no length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from memlint.formats.trainer.python.python_run import PythonRun
from memlint.source.python.modules import module_paths
from memlint.source.python.values import Undetermined, source_of

# What a class of the repository's own may add to the Trainer's arguments. TRL's SFTTrainer reads the first, to 0.19
# (sft_trainer.py, args.max_seq_length), and so does GKDTrainer, which stands on it. The second is that of LLaVA.
OWN_LENGTHS = ("max_seq_length", "model_max_length")
CLASSES_WITH_LENGTH = frozenset({"SFTConfig", "GKDConfig"})
_TRAINERS_WITH_LENGTH = frozenset({"SFTTrainer", "GKDTrainer"})
_IMPORTS = re.compile(r"^[ \t]*(?:from\s+([.\w]+)\s+import\s+([^\n]*)|import\s+([.\w]+))", re.MULTILINE)
_MOST_MODULES = 48


def is_read(name: str, texts: Iterable[str]) -> bool:
    """Whether a program reads the argument `name`: it stands elsewhere than before the `:` of its definition."""
    return any(re.search(rf"\b{name}\b(?!\s*:)", text) for text in texts)


def unread_reason(name: str) -> str:
    return f"the program reads no `{name}`: it cuts no samples to that"


def without_unread_lengths(run: PythonRun, path: str, text: str, read: Callable[[str], str | None]) -> PythonRun:
    """The run of the script at `path`; a length that no module of its program reads is not known. `read`: the text of
    a module of the repository."""
    names = [name for name in OWN_LENGTHS if name in run.keys]
    if not names or run.trainer in _TRAINERS_WITH_LENGTH or run.arguments in CLASSES_WITH_LENGTH:
        return run
    texts = tuple(_texts(path, text, read))
    unread = [name for name in names if not is_read(name, texts)]
    reasons = {name: Undetermined(unread_reason(name), source_of(run.keys[name])) for name in unread}
    return run._replace(keys={**run.keys, **reasons})


def _texts(path: str, text: str, read: Callable[[str], str | None]) -> Iterator[str]:
    """The text of the script and of the modules that it imports, nearest first."""
    pending, seen = [(path, text)], {path}
    while pending:
        place, current = pending.pop(0)
        yield current
        for found in _imported(place, current):
            inner = read(found) if found not in seen and len(seen) < _MOST_MODULES else None
            if inner is not None:
                seen.add(found)
                pending.append((found, inner))


def _imported(path: str, text: str) -> Iterator[str]:
    for module, names, plain in _IMPORTS.findall(text):
        yield from module_paths(module or plain, path)
        for name in re.findall(r"\w+", names):
            yield from module_paths(f"{module}{'' if module.endswith('.') else '.'}{name}", path)
