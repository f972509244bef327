"""What the variables of a shell script stand for, as far as its text leaves one value for each.

`CONFIG=recipes/sft.yaml`, `CONFIG=${1:-recipes/sft.yaml}`, `for config in a.yaml b.yaml`, and `"$2"` where the
repository calls the script in one way. A variable with two values, or with one that a command makes, stands for
nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

Variables = Mapping[str, Sequence[str]]  # the values of each; several only for the variable of a loop

MOST_ASSIGNMENTS = 500
MOST_WORDS = 50  # of one loop
_ASSIGNED = re.compile(
    r"(?m)(?:^|;|\b(?:export|local|readonly|declare)\s)[ \t]*([A-Za-z_]\w*)=(\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|]*)"
)
_LOOP = re.compile(r"(?m)\bfor\s+([A-Za-z_]\w*)\s+in\s+([^;\n]+?)\s*(?:;|\n)\s*do\b")
_USED = re.compile(r"\$(?:\{(\w+)(?::?-([^{}]*))?\}|(\w+))")
_MADE = re.compile(r"[$`(*?\[]")  # by a command, a pattern or another variable
_CALL = r"(?m)(?:^|[\s/]){}((?:[ \t]+[^\s;&|<>()#]+)*)"


def variables(name: str, text: str, pages: Iterable[str]) -> Variables:
    """The variables of the script `name` with this `text`. `pages`: texts that may call it."""
    found: dict[str, set[str]] = defaultdict(set)
    loops = {match[1]: _words(match[2]) for match in _LOOP.finditer(text)}
    for match, _ in zip(_ASSIGNED.finditer(text), range(MOST_ASSIGNMENTS)):
        default = _USED.fullmatch(match[2].strip("\"'"))
        found[match[1]].add((default[2] or "$") if default else match[2].strip("\"'"))
    single = {key: tuple(values) for key, values in found.items() if len(values) == 1 and key not in loops}
    known = {key: values for key, values in single.items() if values[0] and not _MADE.search(values[0])}
    literal = {key: words for key, words in loops.items() if key not in found and not any(map(_MADE.search, words))}
    return {**known, **literal, **(_positional(name, pages) if re.search(r"\$\{?[1-9]", text) else {})}


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip("\"'") for word in text.replace("\\", " ").split())[:MOST_WORDS]


def _positional(name: str, pages: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The arguments that every call of the script gives it."""
    base = name.rpartition("/")[2]
    pattern = re.compile(_CALL.format(re.escape(base)))
    calls = {_words(match[1]) for page in pages if base in page for match in pattern.finditer(page) if match[1].strip()}
    if len(calls) != 1:
        return {}
    (words,) = calls
    return {str(number): (word,) for number, word in enumerate(words, 1) if not _MADE.search(word)}


def expanded(words: tuple[str, ...], known: Variables) -> Iterator[tuple[str, ...]]:
    """A command with its variables filled in: once, or once for each value of its loop's variable."""
    used = {match[1] or match[3] for word in words for match in _USED.finditer(word)}
    loops = [name for name in used if len(known.get(name, ())) > 1]
    if len(loops) > 1:
        yield words
        return
    for value in known[loops[0]] if loops else ("",):
        values = {name: known[name][0] for name in used if len(known.get(name, ())) == 1}
        values |= dict.fromkeys(loops, value)
        yield tuple(_filled(word, values) for word in words)


def _filled(word: str, values: Mapping[str, str]) -> str:
    return _USED.sub(lambda match: values.get(match[1] or match[3], match[0]), word)
