"""Leaves out of the findings of one file those that repeat another one.

The same fact is found several times, because a file is linted alone and also through each config, command and script
that names it: "`stage: 3` ..." of `ds.json`, and "`stage: 3` ... with 8 GPUs" of `ds.json` through `sft.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from memlint.findings import SEVERITIES, Finding
from memlint.rule_groups import OUT_OF_MEMORY, OVER_AT_FULL_LENGTH

_NAMES = r"`[^`]*`"  # the keys, files and models that a message names
_CONFIGS = (".yaml", ".yml", ".json")  # one run each, however many commands start it
_SCRIPT_PHRASE = r", where \S+ passes this value on$"  # a part of messages of formats/trainer/issues.py


def without_repetitions(found: Iterable[Finding]) -> Iterator[Finding]:
    """Drops findings that repeat another one of the same rule and line.

    What stays:

    - the longer one where a message begins with another one: a config knows more about the run than its DeepSpeed JSON;
    - the more severe one at the same location, for the same reason;
    - the first of several runs: of the commands that name the file, or of a loop over models;
    - the first of several scripts that pass the same value on;
    - of a config that is out of memory under one command at any length, only that.
    """
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for item in _without_milder_verdicts(list(found)):
        groups.setdefault((item.location.path, item.location.line, item.rule), []).append(item)
    for group in groups.values():
        if len(group) == 1:  # the usual case
            yield group[0]
            continue
        full = [item for item in group if not any(_supersedes(one, item) for one in group)]
        yield from _first_of_each_script_value(_first_of_each_run(full))


def _without_milder_verdicts(found: Collection[Finding]) -> Iterator[Finding]:
    """The findings without those that a config is too large at full length, where a run of it is too large at any."""
    over = {item.location.path for item in found if item.rule.startswith(OUT_OF_MEMORY)}
    for item in found:
        is_milder = item.rule.startswith(OVER_AT_FULL_LENGTH) and item.location.path.endswith(_CONFIGS)
        if not (is_milder and item.location.path in over):
            yield item


def _first_of_each_run(found: Iterable[Finding]) -> Iterable[Finding]:
    """The findings without those that differ from an earlier one at the same location only in figures and verdict,
    which each run has of its own."""
    first: dict[tuple[object, ...], Finding] = {}
    for item in found:
        names = tuple(re.findall(_NAMES, item.message))
        first.setdefault((item.location, item.severity, item.key, names), item)
    return first.values()


def _first_of_each_script_value(group: Iterable[Finding]) -> Iterator[Finding]:
    """The findings without those that differ from an earlier one only in the script that passes the value on."""
    facts: set[str] = set()
    for item in group:
        fact = re.sub(_SCRIPT_PHRASE, "", item.message)
        if fact == item.message or fact not in facts:
            yield item
        if fact != item.message:
            facts.add(fact)


def _supersedes(finding: Finding, other: Finding) -> bool:
    """Whether `finding` makes `other` superfluous: it is more severe at the same location, or its message is that of
    `other` with more after it, and it is no less severe. Equal messages are two mistakes on one line: both stay."""
    more_severe = SEVERITIES.index(finding.severity) - SEVERITIES.index(other.severity)
    if more_severe and finding.location == other.location:
        return more_severe > 0
    return more_severe >= 0 and finding.message != other.message and finding.message.startswith(other.message)
