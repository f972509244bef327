"""Parses `# memlint:` comments: suppressions, and facts that a config file has no key for.

# memlint: ignore[MEM001, attention] reason until=2026-12-31    this line, or the key below and all in it
# memlint: ignore-file[MEM001] reason                           the whole file
# memlint: gpu=A100-80GB gpus=8 with=accelerate.yaml model=org/name transformers=4.48
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from memlint._record import NamedTuple
from memlint.findings import Finding, Location
from memlint.formats.schema.suggest import nearest
from memlint.rule_selectors import is_selector
from memlint.source.document import Comment, Span
from memlint.suppressions.dates import is_date

PACKAGES = (
    *("accelerate", "axolotl", "deepspeed", "flash-linear-attention", "llamafactory", "peft", "torch", "transformers"),
    *("trl", "unsloth"),
)
KEYS = ("gpu", "gpus", "gpus_per_node", "host_memory", "longest_sample", "model", "with", *PACKAGES)
COUNTS = ("gpus", "gpus_per_node", "longest_sample")
MALFORMED = ("SUP004", "suppressions/malformed")

MARK = "memlint:"  # how such a comment begins
_IGNORE = r"(?P<verb>[A-Za-z_-]+)[ \t]*\[(?P<rules>[^\]]*)\](?P<rest>.*)"
_UNTIL = r"(?:^|\s)until=(\S*)"
_PAIR = r"""([A-Za-z_]+)=("[^"]*"|'[^']*'|\S*)(?:\s+|$)"""
_VERSION = r"[0-9]{1,6}(?:\.[0-9]{1,6}){0,5}"
_WORD = r"[A-Za-z_-]*"


class Suppression(NamedTuple):
    """`rules`: selectors (`memlint.rule_selectors`). `until`: the last day it holds, or ""."""

    rules: tuple[str, ...]
    reason: str
    until: str
    whole_file: bool
    comment: Comment


class Directives(NamedTuple):
    """What the comments of one file state.

    `facts`: name -> (value, place); a later comment replaces an earlier one. `companions`: all values of `with`.
    `issues`: findings about malformed comments.
    """

    facts: Mapping[str, tuple[str, Span]] = {}
    companions: tuple[tuple[str, Span], ...] = ()
    suppressions: tuple[Suppression, ...] = ()
    issues: tuple[Finding, ...] = ()


class _Malformed(Exception):
    pass


def directives(comments: Iterable[Comment], path: str) -> Directives:
    """Parses the `# memlint:` comments of the file at `path`; malformed ones become `issues`."""
    facts: dict[str, tuple[str, Span]] = {}
    companions: list[tuple[str, Span]] = []
    suppressions: list[Suppression] = []
    issues: list[Finding] = []
    for comment in comments:
        if not comment.text.startswith(MARK):
            continue
        try:
            body = comment.text.removeprefix(MARK).strip()
            bracketed = re.match(_IGNORE, body) if "[" in body else None
            if bracketed:
                suppressions.append(_suppression(bracketed, comment))
                continue
            for name, value in _pairs(body):
                facts[name] = (value, comment.span)
                if name == "with":
                    companions.append((value, comment.span))
        except _Malformed as wrong:
            issues.append(finding(MALFORMED, str(wrong), path, comment.span))
    return Directives(facts, tuple(companions), tuple(suppressions), tuple(issues))


def finding(rule: tuple[str, str], message: str, path: str, span: Span, severity: str = "warning") -> Finding:
    """A finding about a suppression. `rule`: (id, name)."""
    start, end, line, column, end_line, end_column = span
    place = Location(path, line, column, end_line, end_column, start, end)
    return Finding(rule[0], rule[1], severity, message, place, key=message)


def _suppression(match: re.Match[str], comment: Comment) -> Suppression:
    verb = match["verb"]
    if verb not in ("ignore", "ignore-file"):
        near = nearest(verb, ("ignore", "ignore-file"))
        raise _Malformed(f"unknown word `{verb}`" + (f": did you mean `{near}`?" if near else "; write ignore[RULE]"))
    rules = tuple(name.strip() for name in match["rules"].split(",") if name.strip())
    if not rules:
        raise _Malformed(f"`{verb}[]` names no rule; write {verb}[MEM001], or {verb}[all]")
    for name in rules:
        if not is_selector(name):
            raise _Malformed(f"`{name}` names no rule; write an id (MEM001), a name or a family (memory)")
    rest = match["rest"]
    until = re.search(_UNTIL, rest)
    if until and not is_date(until[1]):
        raise _Malformed(f"`until={until[1]}` is no date; write until=YYYY-MM-DD")
    reason = re.sub(_UNTIL, "", rest).strip(" \t-:#")
    return Suppression(rules, reason, until[1] if until else "", verb == "ignore-file", comment)


def _pairs(body: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    position = 0
    while position < len(body):
        pair = re.compile(_PAIR).match(body, position)
        if pair is None:
            raise _Malformed(_no_pair(body[position:]))
        pairs.append((pair[1], _value(pair[1], pair[2].strip("\"'"))))
        position = pair.end()
    if not pairs:
        raise _Malformed("nothing behind `memlint:`; write ignore[RULE] or gpu=NAME")
    return pairs


def _value(name: str, value: str) -> str:
    if name not in KEYS:
        near = nearest(name, KEYS)
        raise _Malformed(
            f"unknown name `{name}`" + (f": did you mean `{near}`?" if near else f"; one of {', '.join(KEYS)}")
        )
    if not value:
        raise _Malformed(f"`{name}=` has no value")
    if name in COUNTS and not (value.isascii() and value.isdigit() and int(value[:8]) > 0 and len(value) < 8):
        raise _Malformed(f"`{name}={value}` wants a whole number from 1 on")
    if name in PACKAGES and not re.fullmatch(_VERSION, value):
        raise _Malformed(f"`{name}={value}` wants a version: {name}=4.48")
    return value


def _no_pair(rest: str) -> str:
    word = re.match(_WORD, rest)
    text = word[0] if word else ""
    if text in ("ignore", "ignore-file"):
        return f"`{text}` names no rule; write {text}[MEM001] in square brackets"
    near = nearest(text, ("ignore", *KEYS)) if text else ""
    hint = f": did you mean `{near}`?" if near else "; write ignore[RULE] or gpu=NAME"
    return f"`{rest[:40]}` means nothing to memlint{hint}"
