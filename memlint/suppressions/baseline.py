"""A baseline: the findings that a repository has accepted, counted by file, rule and message key.

Line numbers are not part of it, so moving lines in a config changes nothing. Once `shrink` has removed a fixed finding
from the baseline, it is reported again if it comes back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.findings import Finding
from memlint.source import load
from memlint.source.encoding import MAX_BYTES

VERSION = 1

Key = tuple[str, str, str]  # file, rule, message key


class BaselineError(Exception):
    """A baseline that cannot be read (exit 2); the message has the place."""


class BaselineComparison(NamedTuple):
    """`new`: findings that the baseline does not accept; `accepted`: those it does; `gone`: how many accepted findings
    no longer occur, by key."""

    new: tuple[Finding, ...]
    accepted: tuple[Finding, ...]
    gone: Mapping[Key, int]


def key_of(finding: Finding) -> Key:
    """What identifies a finding in a baseline: file, rule and message key, without lines."""
    return finding.location.path.replace("\\", "/"), finding.rule, finding.key or finding.message


def count(findings: Iterable[Finding]) -> dict[Key, int]:
    """How many findings have each key."""
    counts: dict[Key, int] = {}
    for finding in findings:
        key = key_of(finding)
        counts[key] = counts.get(key, 0) + 1
    return counts


def compare(
    findings: Iterable[Finding], baseline: Mapping[Key, int], files: Iterable[str] | None = None
) -> BaselineComparison:
    """Separates new findings from accepted ones.

    `files`: the files that were checked (None: all). Findings of other files are not counted as gone.
    """
    still_accepted = dict(baseline)
    new: list[Finding] = []
    accepted: list[Finding] = []
    for finding in findings:
        key = key_of(finding)
        if still_accepted.get(key, 0) > 0:
            still_accepted[key] -= 1
            accepted.append(finding)
        else:
            new.append(finding)
    seen = None if files is None else {file.replace("\\", "/") for file in files}
    gone = {key: number for key, number in still_accepted.items() if number and (seen is None or key[0] in seen)}
    return BaselineComparison(tuple(new), tuple(accepted), gone)


def shrink(baseline: Mapping[Key, int], gone: Mapping[Key, int]) -> dict[Key, int]:
    """The baseline without the findings that are gone."""
    return {key: number - gone.get(key, 0) for key, number in baseline.items() if number > gone.get(key, 0)}


def advice(gone: Mapping[Key, int]) -> str:
    """A note for the user that the baseline can shrink; "" if it cannot."""
    total = sum(gone.values())
    if not total:
        return ""
    what = "1 accepted finding is" if total == 1 else f"{total} accepted findings are"
    return f"{what} gone: run `memlint check --write-baseline` to shrink the baseline"


def write(counts: Mapping[Key, int]) -> str:
    """The text of a baseline file: sorted, one finding per line, so that diffs are small."""
    files: dict[str, dict[str, dict[str, int]]] = {}
    for file, rule, key in sorted(counts):
        files.setdefault(_as_text(file), {}).setdefault(rule, {})[key] = counts[file, rule, key]
    return json.dumps({"version": VERSION, "files": files}, indent=2, ensure_ascii=False) + "\n"


def _as_text(path: str) -> str:
    """A path as JSON text: the lone surrogates of a file name that is not UTF-8 (PEP 383) are written as escapes."""
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


def _as_path(text: str) -> str:
    """Undoes `_as_text`. Keys contain no other backslashes: `key_of` replaced them."""
    return text.encode("raw_unicode_escape").decode("raw_unicode_escape", "replace") if "\\" in text else text


def read(data: bytes, path: str) -> dict[Key, int]:
    """The counts in a baseline file.

    :raises BaselineError: where it is not one.
    """
    value = _parsed_large(data, path) if len(data) > MAX_BYTES else _located(data, path)
    if not isinstance(value, dict) or value.get("version") != VERSION or not isinstance(value.get("files"), dict):
        raise BaselineError(f"{path}:1:1: not a baseline of version {VERSION}; write it anew with --write-baseline")
    return {
        (_as_path(file), rule, key): number
        for file, rules in value["files"].items()
        for rule, keys in _mapping(rules, path, file)
        for key, number in _mapping(keys, path, f"{file} {rule}")
        if _is_count(number, path, f"{file} {rule} {key}")
    }


def _located(data: bytes, path: str) -> Any:
    (document,) = load(data, path, "json")
    for problem in document.problems:
        raise BaselineError(f"{path}:{problem.span.line}:{problem.span.column}: {problem.message}")
    return document.value


def _parsed_large(data: bytes, path: str) -> Any:
    """Parses a baseline above the size limit of configs, which 50,000 findings reach; memlint wrote the file itself."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"{path}:{getattr(error, 'lineno', 1)}:{getattr(error, 'colno', 1)}: {error}") from None


def _mapping(value: Any, path: str, where: str) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise BaselineError(f"{path}:1:1: {where}: a mapping is expected; write it anew with --write-baseline")
    return value.items()


def _is_count(value: Any, path: str, where: str) -> bool:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BaselineError(f"{path}:1:1: {where}: a count from 1 on is expected; write it anew with --write-baseline")
    return True
