"""The output of programs that only transform text: `dirname`, `basename`, `tr`, `cut`, `wc`, `seq`, ...

Nothing is run: each program is reimplemented here, for the options that scripts use. The output of others is unknown.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence

from memlint.source.shell.arithmetic import CannotCompute, compute
from memlint.source.shell.text import Text, cut, joined, known, literal, shown, unknown, why_unknown

Printed = Text | None  # None: unknown
MOST_NUMBERS = 64


def printed(name: str, words: Sequence[Text], given: Text | None) -> Printed:
    """The output of `name words...` with the input `given`; None if it is unknown."""
    one = _FILTERS.get(name)
    if one is None:
        return None
    unknowns = [word for word in words if known(word) is None]
    if unknowns:
        return _through(name, unknowns[0])
    plain = [shown(word) for word in words]
    if name in _READERS and (given is None or known(given) is None):
        return None if given is None else unknown("${...}", why_unknown(given), given[0].is_unset)
    return one(plain, given)


def _through(name: str, word: Text) -> Text:
    """The unknown output of a program with an unknown argument, such as `basename "$1"`."""
    is_unset = all(piece.is_unset for piece in word if piece.unknown)
    if name == "basename" and not word[-1].unknown and "/" in word[-1].text:
        return cut(word[-1:], word[-1].text.rindex("/") + 1)
    return unknown("${...}", why_unknown(word), is_unset)


def _dirname(words: list[str], given: Text | None) -> Printed:
    names = [word for word in words if word != "--"]
    return literal(posixpath.dirname(names[0].rstrip("/")) or ".") if len(names) == 1 else None


def _basename(words: list[str], given: Text | None) -> Printed:
    names = [word for word in words if word != "--"]
    if not names or names[0].startswith("-"):
        return None
    base = posixpath.basename(names[0].rstrip("/"))
    suffix = names[1] if len(names) > 1 else ""
    return literal(base[: -len(suffix)] if suffix and base.endswith(suffix) and base != suffix else base)


def _realpath(words: list[str], given: Text | None) -> Printed:
    names = [word for word in words if not word.startswith("-")]
    return literal(posixpath.normpath(names[0])) if len(names) == 1 else None


def _seq(words: list[str], given: Text | None) -> Printed:
    try:
        numbers = [int(word) for word in words]
    except ValueError:
        return None
    if not 1 <= len(numbers) <= 3:
        return None
    first, step, last = {1: (1, 1, numbers[0]), 2: (numbers[0], 1, numbers[-1])}.get(len(numbers), tuple(numbers))
    if not step or (last - first) // step >= MOST_NUMBERS:
        return None
    return literal("\n".join(map(str, range(first, last + (1 if step > 0 else -1), step))))


def _expr(words: list[str], given: Text | None) -> Printed:
    try:
        return literal(str(compute(" ".join(words), lambda name: 0)))
    except CannotCompute:
        return None


def _tr(words: list[str], given: Text | None) -> Printed:
    text = shown(given or ())
    options = [word for word in words if word.startswith("-") and len(word) > 1]
    sets = [_letters(word) for word in words if word not in options]
    if options in (["-d"], ["-cd"]) and len(sets) == 1:
        keep = options == ["-cd"]
        return literal("".join(letter for letter in text if (letter in sets[0]) == keep))
    if options or len(sets) != 2 or not sets[0] or not sets[1]:
        return None
    to = sets[1] + sets[1][-1] * max(0, len(sets[0]) - len(sets[1]))
    return literal(text.translate({ord(letter): other for letter, other in zip(sets[0], to)}))


_CLASSES = {"[:upper:]": "A-Z", "[:lower:]": "a-z", "[:digit:]": "0-9", "[:space:]": " \\n\\t"}


def _letters(text: str) -> str:
    for name, letters in _CLASSES.items():
        text = text.replace(name, letters)
    text = text.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0")
    return re.sub(r"(.)-(.)", lambda one: "".join(map(chr, range(ord(one[1]), min(ord(one[2]), 127) + 1))), text)


def _wc(words: list[str], given: Text | None) -> Printed:
    text = shown(given or ())
    counts = {"-l": text.count("\n"), "-w": len(text.split()), "-c": len(text), "-m": len(text)}
    return literal(str(counts[words[0]])) if len(words) == 1 and words[0] in counts else None


def _cut(words: list[str], given: Text | None) -> Printed:
    """`cut -d, -f1`, on every line."""
    options = (
        re.sub(r"-([df])\s+", r"-\1", " ".join(words))
        if "-d" not in words
        else "-d" + "".join(words[words.index("-d") + 1 :])
    )
    match = re.fullmatch(r"-d(.) ?-f ?(\d+)(-?)|-f ?(\d+)(-?) ?-d(.)", options.strip().replace("-d  ", "-d "))
    if match is None:
        return None
    mark, number, more = match[1] or match[6], int(match[2] or match[4]), match[3] or match[5]
    lines = []
    for line in shown(given or ()).splitlines():
        fields = line.split(mark)
        lines.append(mark.join(fields[number - 1 :]) if more else fields[number - 1] if len(fields) >= number else "")
    return literal("\n".join(lines) + "\n")


def _awk(words: list[str], given: Text | None) -> Printed:
    """`awk -F, '{print NF}'` and `awk '{print $2}'`."""
    program = words[-1].strip() if words else ""
    separator = "".join(words[:-1]).removeprefix("-F") or None
    match = re.fullmatch(r"\{ *print +(NF|\$\d+) *;? *\}", program)
    if match is None or (words[:-1] and not words[0].startswith("-F")):
        return None
    lines = []
    for line in shown(given or ()).splitlines():
        fields = line.split(separator)
        index = 0 if match[1] == "NF" else int(match[1][1:])
        lines.append(
            str(len(fields)) if match[1] == "NF" else line if not index else "".join(fields[index - 1 : index])
        )
    return literal("\n".join(lines) + "\n")


def _first_lines(words: list[str], given: Text | None) -> Printed:
    number = re.fullmatch(r"(?:-n ?)?-?(\d+)", " ".join(words).replace("--lines=", ""))
    lines = shown(given or ()).splitlines()
    return literal("\n".join(lines[: int(number[1]) if number else 10])) if number or not words else None


def _last_lines(words: list[str], given: Text | None) -> Printed:
    number = re.fullmatch(r"(?:-n ?)?-?(\d+)", " ".join(words))
    lines = shown(given or ()).splitlines()
    return literal("\n".join(lines[-int(number[1]) :])) if number and int(number[1]) else None


def _sorted(words: list[str], given: Text | None) -> Printed:
    if words not in ([], ["-u"]):
        return None
    lines = sorted(shown(given or ()).splitlines())
    return literal("\n".join(dict.fromkeys(lines) if words else lines) + "\n")


def _sed(words: list[str], given: Text | None) -> Printed:
    """`sed 's/a/b/g'`, only for plain text without regular expressions."""
    if words == ["s|.*/||"]:
        return literal("\n".join(line.rpartition("/")[2] for line in shown(given or ()).split("\n")))
    match = re.fullmatch(r"s(.)([^\\.*\[\]^$]*?)\1([^\\&]*?)\1(g?)", words[0]) if len(words) == 1 else None
    if match is None or not match[2]:
        return None
    lines = shown(given or ()).split("\n")
    return literal("\n".join(line.replace(match[2], match[3], -1 if match[4] else 1) for line in lines))


def _same(words: list[str], given: Text | None) -> Printed:
    return given if not words else None


def echo(words: Sequence[Text]) -> Text:
    """The output of `echo`."""
    options = 0
    while options < len(words) and shown(words[options]) in ("-n", "-e", "-ne", "-en", "-E"):
        options += 1
    is_open = any("n" in shown(word) for word in words[:options])
    parts = [part for index, word in enumerate(words[options:]) for part in ((literal(" ") if index else ()), word)]
    return joined((*parts, () if is_open else literal("\n")))


def printf(words: Sequence[Text]) -> Text:
    """The output of `printf '%s' x`. Only `%s` and `%d` are supported."""
    form = known(words[0]) if words else None
    if form is None or re.search(r"%(?![sd%])", form):
        return unknown("${...}", "what `printf` prints is not known")
    given = list(words[1:])
    parts: list[Text] = []
    for piece in re.split(r"(%[sd%])", form.replace("\\n", "\n").replace("\\t", "\t")):
        if piece in ("%s", "%d"):
            parts.append(given.pop(0) if given else ())
        else:
            parts.append(literal("%" if piece == "%%" else piece))
    return joined(parts)


_READERS = frozenset(("tr", "wc", "cut", "awk", "head", "tail", "sort", "uniq", "sed", "xargs", "cat", "tee"))
_FILTERS: dict[str, Callable[[list[str], Text | None], Printed]] = {
    "dirname": _dirname,
    "basename": _basename,
    "realpath": _realpath,
    "readlink": _realpath,
    "seq": _seq,
    "expr": _expr,
    "tr": _tr,
    "wc": _wc,
    "cut": _cut,
    "awk": _awk,
    "head": _first_lines,
    "tail": _last_lines,
    "sort": _sorted,
    "sed": _sed,
    "xargs": _same,
    "cat": _same,
}
