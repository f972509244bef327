"""Finds out which values of a config are set by programs and commands before a framework reads it.

They are searched as text. A key counts as set by a command that names the config and the key (`sed`, `jq`,
`llamafactory-cli train sft.yaml lora_rank=8`), and by a program that loads the file and has the key in quotes
(`config["lora_rank"] = 8`). So does a value that they name instead of the key, and a key that a command overrides by
its dotted name (`policy.megatron_cfg.enabled=true`) where its page names no config: then it is for one by default.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from memlint.repository.launch.pages import HINTS
from memlint.repository.reader.script import Script

_EDITS = re.compile(r"\b(?:sed|jq|yq|perl|awk|replace)\b")
_STARTS = re.compile(rf"{HINTS}|\.(?:py|sh)\b|\bpython")
_CONTINUED = re.compile(r"\\\r?\n")
_SHORTEST = 3  # characters of a word that is specific enough to be searched in a command


def by_command(config: str, key: str, value: object, pages: Iterable[str]) -> bool:
    """Whether a command on one of the `pages` edits the key or its value in the file `config`, or all commands that
    start a program with the file pass the key as well."""
    name = posixpath.basename(config)
    naming = (line for page in pages for line in _CONTINUED.sub(" ", page).splitlines() if name in line)
    lines = [re.sub(rf"\S*{re.escape(name)}\S*", " ", line) for line in naming]
    if not lines:
        return False
    patterns = [rf"(?<!\w){re.escape(word)}(?!\w)" for word in _if_specific(key)]
    # `sed s/__RATE__/1/` has marks around the value
    patterns += [rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])" for word in _if_specific(value)]
    saying = {line for pattern in patterns for line in lines if re.search(pattern, line)}
    starting = {line for line in lines if _STARTS.search(line) and not _EDITS.search(line)}
    return any(map(_EDITS.search, saying)) or (bool(starting) and starting <= saying)


def by_override(dotted: str, pages: Iterable[str]) -> bool:
    """Whether a command on one of the `pages` overrides the key of that dotted name, and the page names no config."""
    given = re.compile(rf"(?<![\w.]){re.escape(dotted)}=")
    return any(given.search(page) is not None and not _NAMES_CONFIG.search(page) for page in pages)


_NAMES_CONFIG = re.compile(r"--config\b|\bconfig[_-](?:name|path|file)\b|\.ya?ml\b")


def by_substitution(pages: Iterable[str]) -> bool:
    """Whether one of the `pages`, which name the file, runs envsubst, which replaces all variables in it."""
    return any("envsubst" in page for page in pages)


def by_replacement(value: object, scripts: Iterable[Script]) -> bool:
    """Whether a program names a variable of the value as the file writes it: `text.replace("${checkpoint}", name)`."""
    variables = [one.encode() for one in _VARIABLE.findall(value)] if isinstance(value, str) else []
    patterns = [re.compile(rb"""["']%b["']""" % re.escape(one)) for one in variables]
    return any(pattern.search(script.text) for script in scripts for pattern in patterns)


_VARIABLE = re.compile(r"\$\{\w+\}")


def by_program(key: str, value: object, scripts: Iterable[Script]) -> bool:
    """Whether one of the `scripts`, which load the file, has the key or its value in quotes."""
    texts = [script.text for script in scripts]
    words = [word.encode("utf-8", "replace") for word in (*_if_specific(key), *_if_specific(value))] if texts else []
    quoted = [rb"""["']%b["']""" % re.escape(word) for word in words]
    return any(re.search(word, text) for text in texts for word in quoted)


def is_made(name: str, pages: Iterable[str], scripts: Iterable[Script]) -> bool:
    """Whether a command writes a file of that name (`jq ... > name`), or a program opens it to write."""
    naming = (script.text for script in scripts if name.encode("utf-8", "replace") in script.text)
    return any(_is_written(page, name) for page in pages) or any(_opens_to_write(text, name) for text in naming)


# What writes the file named behind it: `python - "$FILE" <<EOF` has its program in the page itself.
_WRITES = r"(?:>|\btee|-[oO]|--out\S*|\bcp\b.*|\bmv\b.*|\bpython3? +- .*)"


def _is_written(page: str, name: str) -> bool:
    """Whether a command of the page writes the file, by its name or by a variable with its name."""
    file = rf"\S*(?<![\w.-]){re.escape(name)}"
    variables = re.findall(rf"""^[ \t]*(?:export[ \t]+)?(\w+)=["']?{file}["']?[ \t]*$""", page, re.MULTILINE)
    places = "|".join([file, *(rf"\$\{{?{variable}\b" for variable in variables)])
    return re.search(rf"""{_WRITES}[ \t=]*["']?(?:{places})""", page) is not None


def _opens_to_write(script: bytes, name: str) -> bool:
    """Whether a program opens the file for writing, by its name or by a variable with its name."""
    text = script.decode("utf-8", "replace")
    quoted = rf"""["'][^\s"']*(?<![\w.-]){re.escape(name)}["']"""
    variables = re.findall(rf"""\b(\w+)(?:\s*:\s*\w+)?\s*=\s*(?:[^=\n][^\n]*?)?{quoted}""", text)
    places = [quoted, *(rf"\b{variable}\b" for variable in variables)]
    return any(re.search(pattern.format(place), text) for place in places for pattern in _WRITTEN)


_WRITTEN = (
    r"""\bopen\(\s*[^\n]{{0,80}}?{0}\)?\s*,\s*(?:mode\s*=\s*)?["'][wax]""",
    r"""{0}\)?\s*\.(?:write_text|write_bytes)\(""",
    r"""{0}\)?\s*\.open\(\s*(?:mode\s*=\s*)?["'][wax]""",
    r"""\.(?:save|to_json_file|to_yaml)\([^\n]{{0,80}}?{0}""",
)


def _if_specific(word: object) -> tuple[str, ...]:
    """The word if it is specific enough to be searched in a text; else nothing."""
    return (word,) if isinstance(word, str) and len(word) >= _SHORTEST else ()
