"""What if: the run of a file with other values, as the framework would read the changed file. Nothing is written.

A change is `key=value`. The key is the framework's own (`per_device_train_batch_size`), a dotted one of a file that the
config names (`zero_optimization.stage`), a field of the run (`batch.micro_batch_size`), or `gpu` and `gpus`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import memlint.run as runs
from memlint._record import NamedTuple
from memlint.errors import UsageError
from memlint.findings import Edit
from memlint.fixes.edits.apply import MISSING, apply, at, patches
from memlint.fixes.edits.reread import encode
from memlint.fixes.edits.text import CannotEdit
from memlint.formats.schema.suggest import nearest
from memlint.hardware.named import named_gpu
from memlint.lint.linter import Linter
from memlint.lint.request import LintRequest, StatedFacts
from memlint.question.answer import answer
from memlint.question.check import question_of
from memlint.question.model import Question
from memlint.report.model import FileReport, RunReport
from memlint.ruleset.engine import Analysis
from memlint.run import Run
from memlint.source import load
from memlint.source.document import Document

FACTS = ("gpu", "gpus")
UNKNOWN_KEY = "config/unknown-key"


class Change(NamedTuple):
    """One `key=value`, as it was typed and as its value is read."""

    key: str
    value: Any
    text: str


class Variant(NamedTuple):
    """The run of a file under some changes. `refused`: why the framework would not start it; empty where it would."""

    label: str
    run: RunReport
    refused: tuple[str, ...] = ()


def changes_of(words: Iterable[str], option: str) -> tuple[Change, ...]:
    """The changes in words such as `optim=adamw_8bit`; values are read as YAML. Raises UsageError."""
    found = []
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"{option} {word}: wants KEY=VALUE, as in per_device_train_batch_size=4")
        found.append(Change(key.strip(), _value(text), word))
    return tuple(found)


def _value(text: str) -> Any:
    document = load(f"value: {text}\n".encode(), "value.yaml")[0]
    if document.problems or not isinstance(document.value, dict):
        return text
    return document.value.get("value")


class Variants(Protocol):
    """What has variants: a file, or a question."""

    def variant(self, label: str, changes: Iterable[Change]) -> Variant:
        """The run with the changes. Raises UsageError for a key that nobody reads."""


class FileWhatIf:
    """The run of one file, and its variants. Raises UsageError where the file has none, or several.

    `request`: how the file is linted; its facts hold for the variants as well.
    """

    def __init__(self, request: LintRequest, path: str) -> None:
        self._request = request._replace(fixes=False, assumptions=True)
        self._path = path
        analysed = Linter(self._request).analyse(path)
        with_runs = [one for one in analysed.analyses if one.runs]
        if len(with_runs) != 1 or len(with_runs[0].runs) != 1:
            count = sum(len(one.runs) for one in with_runs)
            raise UsageError(f"{path}: holds {count} runs; what-if needs a file with one")
        self._analysis = with_runs[0]

    def variant(self, label: str, changes: Iterable[Change]) -> Variant:
        """The run with the changes. Raises UsageError for a key that nobody reads."""
        changes = tuple(changes)
        facts = _facts(self._request.facts, [one for one in changes if one.key in FACTS])
        written = [one for one in changes if one.key not in FACTS]
        contents = {**dict(self._request.contents), **_contents(self._analysis, written)}
        request = self._request._replace(facts=facts, contents=tuple(contents.items()))
        report = Linter(request).lint_file(self._path).report
        _refuse_unknown_keys(report, written)
        if len(report.runs) != 1:
            raise UsageError(f"{label}: no run is left of {self._path}")
        stopped = set(report.runs[0].stopped_by)
        refused = tuple(one.message for one in report.findings if one.severity == "error" and one.rule in stopped)
        return Variant(label, report.runs[0], refused)


def _facts(facts: StatedFacts, changes: list[Change]) -> StatedFacts:
    for change in changes:
        if change.key == "gpu":
            gpu, count = named_gpu(str(change.value))
            facts = facts._replace(gpu=gpu, gpus=count or facts.gpus)
        elif isinstance(change.value, int) and change.value > 0:
            facts = facts._replace(gpus=change.value)
        else:
            raise UsageError(f"{change.text}: wants a whole number of GPUs")
    return facts


def _contents(analysis: Analysis, changes: list[Change]) -> Mapping[str, bytes]:
    """Whole files by path, as they would be with the changes."""
    documents = _documents(analysis)
    by_path: dict[str, list[Edit]] = {}
    for change in changes:
        for edit in _edits(analysis, change):
            by_path.setdefault(edit.path, []).append(edit)
    contents = {}
    for path, edits in by_path.items():
        document = documents[path]
        try:
            contents[path] = encode(document, apply(document.text, patches(document, edits)))
        except CannotEdit as error:
            raise UsageError(f"{path}: cannot be changed: {error}") from None
    return contents


def _documents(analysis: Analysis) -> dict[str, Document]:
    parts = analysis.parsed.documents if analysis.parsed else ()
    return {document.path: document for document in (*reversed(parts), analysis.document)}


def _edits(analysis: Analysis, change: Change) -> tuple[Edit, ...]:
    """The edits that say a change: in the config, in a file that it names, or as its format writes a field."""
    parts = tuple(change.key.split("."))
    if at(analysis.document.value, parts) is not MISSING:
        return (_edit(analysis.document, parts, change.value),)
    if is_field(change.key):
        return _field_edits(analysis, change)
    for path, pointer in analysis.parsed.raw_places.values() if analysis.parsed else ():
        document = _documents(analysis).get(path)
        if document is not None and len(parts) > 1 and at(document.value, (*pointer, *parts[:-1])) is not MISSING:
            return (_edit(document, (*pointer, *parts), change.value),)
    return (_edit(analysis.document, parts, change.value),)


def _edit(document: Document, pointer: tuple[str | int, ...], value: Any) -> Edit:
    """null takes a key away."""
    return Edit(document.path, pointer, "remove" if value is None else "set", value)


def is_field(key: str) -> bool:
    """Whether `key` is a field of `Run` by its dotted name."""
    node: Any = Run("", "")
    for part in key.split("."):
        if part not in getattr(node, "_fields", ()):
            return False
        node = getattr(node, part)
    return "." in key


def _field_edits(analysis: Analysis, change: Change) -> tuple[Edit, ...]:
    run, parsed = analysis.runs[0], analysis.parsed
    if runs.get(run, change.key) == change.value:
        return ()
    found = analysis.format.edits(parsed, run, {change.key: change.value}) if analysis.format and parsed else None
    if found is None:
        raise UsageError(f"{change.text}: {run.format} files have no key that says this")
    return tuple(found)


def _refuse_unknown_keys(report: FileReport, changes: list[Change]) -> None:
    for finding in report.findings:
        for change in changes:
            name = change.key.split(".")[-1]
            if finding.name == UNKNOWN_KEY and f"`{name}`" in finding.message:
                near = nearest(change.key, _fields())
                hint = f"; or the run's field {near}?" if near and "." in change.key else ""
                raise UsageError(f"{change.text}: {finding.message}{hint}")


def _fields() -> list[str]:
    """Every dotted name of the run's fields, two deep."""
    blank = Run("", "")
    sections = [name for name in Run._fields if hasattr(getattr(blank, name), "_fields")]
    return [f"{section}.{field}" for section in sections for field in getattr(blank, section)._fields]


class QuestionWhatIf:
    """The variants of a question: its fields are what changes (`batch=4`, `gpu=H100`)."""

    def __init__(self, question: Question, facts: StatedFacts) -> None:
        self._question = question
        self._facts = facts

    def variant(self, label: str, changes: Iterable[Change]) -> Variant:
        """The answer to the changed question. Raises UsageError."""
        asked = {field: value for field, value in self._question._asdict().items() if value not in (None, "")}
        found = answer(question_of({**asked, **{one.key: one.value for one in changes}}), self._facts)
        return Variant(label, found.run, tuple(one.message for one in found.refused))
