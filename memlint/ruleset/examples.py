"""Runs the examples inside rule files: configs on which the rule must fire or must not, and results of its fixes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.expressions.yaml_place import locate
from memlint.findings import Edit, Finding
from memlint.formats import every
from memlint.formats.base import Context
from memlint.hardware import find
from memlint.repository.workspace import in_memory
from memlint.rule_groups import INTERNAL_ERROR
from memlint.ruleset.engine import Analysis, analyse
from memlint.ruleset.rule import Rule
from memlint.run import UNKNOWN, Origin
from memlint.source import in_dialect, load
from memlint.source.document import Document

DEFAULT_FORMAT = "llamafactory"
_FILES = {"llamafactory": "train.yaml", "deepspeed": "ds_config.json", "accelerate": "accelerate.yaml"}
_SETTING = Origin("setting", detail="the example")


class Example(NamedTuple):
    """One example of a rule. `expected`: "fails" or "passes". `text`: the config."""

    rule: str
    number: int
    expected: str
    text: str
    format: str
    fields: Mapping[str, Any]
    line: int  # in the rule's file

    @property
    def file(self) -> str:
        name: str = self.fields.get("file", _FILES.get(self.format, "config.yaml"))
        return name


class Outcome(NamedTuple):
    """The result of an example. `problem`: why it does not behave as declared, "" if it does."""

    example: Example
    problem: str = ""


def examples(document: Document) -> tuple[Example, ...]:
    """The examples of a rule file (or of a Python rule's fields)."""
    fields = document.value
    format_name = (fields.get("formats") or [DEFAULT_FORMAT])[0]
    return tuple(
        _example(document, fields["id"], number, item, format_name)
        for number, item in enumerate(fields.get("examples", []), 1)
    )


def _example(document: Document, rule: str, number: int, item: Mapping[str, Any], format_name: str) -> Example:
    expected = "fails" if "fails" in item else "passes"
    line, _ = locate(document, ("examples", number - 1, expected), 0)
    return Example(rule, number, expected, item.get(expected, ""), item.get("format", format_name), item, line)


def run(rule: Rule, listed: tuple[Example, ...]) -> Iterator[Outcome]:
    """Runs each example."""
    for example in listed:
        yield Outcome(example, _problem(rule, example))


def _problem(rule: Rule, example: Example) -> str:
    if not example.text:
        return "has neither `fails` nor `passes`"
    analysis = analyse_text(rule, example, example.text)
    invalid = _invalid_example(analysis, example)
    if invalid:
        return invalid
    findings = [finding for finding in analysis.findings if finding.rule == rule.id]
    if example.expected == "passes":
        return f"must pass, but says: {findings[0].message}" if findings else ""
    if not findings:
        return "must fail, but the rule is silent"
    return (
        _message_problem(example, findings)
        or _place_problem(example, analysis, findings[0])
        or _fix_problem(rule, example, findings[0])
    )


def analyse_text(rule: Rule, example: Example, text: str) -> Analysis:
    """Analyses `text` with only this rule, and with the GPU, versions and files of `example`."""
    workspace = in_memory({**example.fields.get("files", {}), example.file: text})
    companions = [workspace.documents(name)[0] for name in example.fields.get("with", [])]
    facts = facts_of(example, tuple(companions))
    context: Context = workspace.context(**facts)
    return analyse(workspace.documents(example.file)[0], context, (rule,), example.format)


def facts_of(example: Example, companions: tuple[Document, ...]) -> dict[str, Any]:
    """What an example says beside its text: the facts of its context."""
    fields = example.fields
    versions = {name: tuple(map(int, text.split("."))) for name, text in fields.get("versions", {}).items()}
    return {
        "gpu": find(fields["gpu"]) if "gpu" in fields else None,
        "gpu_origin": _SETTING,
        "gpus": fields.get("gpus", UNKNOWN),
        "gpus_origin": _SETTING,
        "gpus_per_node": fields.get("gpus_per_node", UNKNOWN),
        "model_name": fields.get("model", ""),
        "companions": companions,
        "versions": versions,
        "host_bytes": int(fields.get("host_gib", 0) * 2**30),
    }


def _invalid_example(analysis: Analysis, example: Example) -> str:
    """Why an example is not a valid config of its format; "" if it is."""
    if "gpu" in example.fields and find(example.fields["gpu"]) is None:
        return f"names an unknown gpu: {example.fields['gpu']}"
    if analysis.format is None or example.format != analysis.format.NAME:
        return f"is not read as {example.format}" + _first_message(analysis)
    invalid = [
        finding for finding in analysis.findings if finding.rule[:3] in ("SRC", "REF") or finding.rule == INTERNAL_ERROR
    ]
    return f"has another problem: {invalid[0].message} {invalid[0].data.get('report', '')}" if invalid else ""


def _first_message(analysis: Analysis) -> str:
    return f": {analysis.findings[0].message}" if analysis.findings else ""


def _message_problem(example: Example, findings: list[Finding]) -> str:
    expected = example.fields.get("says", [])
    message = findings[0].message
    missing = [text for text in ([expected] if isinstance(expected, str) else expected) if text not in message]
    return f"does not say {missing[0]!r}, but: {message}" if missing else ""


def _place_problem(example: Example, analysis: Analysis, finding: Finding) -> str:
    if "points" not in example.fields or analysis.parsed is None:
        return ""
    place = finding.location
    texts = {document.path: document.text for document in analysis.parsed.documents}
    pointed_text = texts[place.path][place.start : place.end]
    return "" if pointed_text == example.fields["points"] else f"points to {pointed_text!r}"


def _fix_problem(rule: Rule, example: Example, finding: Finding) -> str:
    if "fixed" not in example.fields:
        return ""
    number = example.fields.get("fix", 1)
    if len(finding.fixes) < number:
        return f"offers {len(finding.fixes)} fixes"
    fix = finding.fixes[number - 1]
    if not fix.edits:
        return f"the fix `{fix.title}` has no edits"
    expected = _value(example, example.fields["fixed"])
    got = _with_edits(_value(example, example.text), [edit for edit in fix.edits if edit.path == example.file])
    if got != expected:
        return f"the fix leads to {got}, not to {expected}"
    findings_after = analyse_text(rule, example, example.fields["fixed"]).findings
    return next(
        (f"still fails after the fix: {found.message}" for found in findings_after if found.rule == rule.id), ""
    )


def _value(example: Example, text: str) -> Any:
    dialect = next(format_.DIALECT for format_ in every() if example.format == format_.NAME)
    return in_dialect(load(text.encode(), example.file)[0], dialect).value


def _with_edits(value: Any, edits: list[Edit]) -> Any:
    for edit in edits:
        value = _with_edit(value, edit, edit.pointer)
    return value


def _with_edit(value: Any, edit: Edit, pointer: tuple[Any, ...]) -> Any:
    if not pointer:
        return list(edit.value) if isinstance(edit.value, tuple) else edit.value
    head, rest = pointer[0], pointer[1:]
    items = dict(enumerate(value)) if isinstance(value, list) else dict(value or {})
    if not rest and edit.action in ("remove", "rename"):
        old_value = items.pop(head, None)
        items.update({edit.value: old_value} if edit.action == "rename" else {})
    else:
        items[head] = _with_edit(items.get(head), edit, rest)
    return list(items.values()) if isinstance(value, list) else items
