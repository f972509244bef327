"""Estimates the run of a file with other values, as the framework would read the changed file. Nothing is written.

A change is `key=value`. The key is the framework's own (`per_device_train_batch_size`), a dotted one of a file that the
config names (`zero_optimization.stage`), a field of the run (`batch.micro_batch_size`), or `gpu` and `gpus`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import memlint.run as runs
from memlint._record import NamedTuple
from memlint.errors import UsageError
from memlint.findings import Edit, Finding
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
from memlint.question.models import suggestions
from memlint.report.model import FileReport, RunReport
from memlint.ruleset.engine import Analysis
from memlint.run import Run
from memlint.source import load
from memlint.source.document import Document

FACTS = ("gpu", "gpus")
UNKNOWN_KEY = "config/unknown-key"
# Findings about a value that is certainly wrong, even if the framework would start with it.
WRONG_VALUES = ("config/wrong-type", "config/bad-value", "reference/missing", "model/unknown")
NO_MODEL = "model/unknown"
# Fields of the run that only the command line states, and the names that `--set` has for them.
STATED = {"parallelism.world_size": "gpus", "hardware.gpu": "gpu", "hardware.gpus_per_node": "gpus"}
# Fields of a question -> the fields of the run that they set.
QUESTION_FIELDS = {
    "model": "model.name",
    "length": "sequence.length",
    "context": "sequence.length",
    "batch": "batch.micro_batch_size",
    "batch_size": "batch.micro_batch_size",
    "accumulation": "batch.gradient_accumulation_steps",
    "optimizer": "optimizer.name",
    "rank": "method.rank",
    "zero": "parallelism.zero.stage",
    "checkpointing": "checkpointing.mode",
    "attention": "attention.implementation",
}


class Change(NamedTuple):
    """One `key=value`, as it was typed and as its value is read."""

    key: str
    value: Any
    text: str


class Variant(NamedTuple):
    """The run of a file with some changes. `refused`: why the framework would not start it; empty if it would."""

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
    """Something that has variants: a file or a question."""

    def variant(self, label: str, changes: Iterable[Change]) -> Variant:
        """The run with the changes. Raises UsageError for a key that is not read."""


class FileWhatIf:
    """The run of one file, and its variants. Raises UsageError if the file has no run or several.

    `request`: how the file is linted; its facts also hold for the variants.
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
        self._before = frozenset(map(_rule_and_message, self._analysis.findings))

    def variant(self, label: str, changes: Iterable[Change]) -> Variant:
        """The run with the changes. Raises UsageError for a key that is not read."""
        changes = tuple(changes)
        _refuse_twice(changes)
        facts = _facts(self._request.facts, [one for one in changes if one.key in FACTS])
        written = [one for one in changes if one.key not in FACTS]
        contents = {**dict(self._request.contents), **changed_contents(self._analysis, written)}
        request = self._request._replace(facts=facts, contents=tuple(contents.items()))
        report = Linter(request).lint_file(self._path).report
        _refuse_unknown_keys(report, written)
        if len(report.runs) != 1:
            raise UsageError(f"{label}: no run is left of {self._path}")
        stopped = set(report.runs[0].stopped_by)
        new = [
            one for one in report.findings if _rule_and_message(one) not in self._before
        ]  # those that the changes cause
        refused = (one for one in new if one.severity == "error" and one.rule in stopped)
        wrong = (one for one in new if one.name in WRONG_VALUES)
        reasons = (_reason(one, changes) for one in (*refused, *wrong))
        return Variant(label, report.runs[0], tuple(dict.fromkeys(reasons)))


def _rule_and_message(finding: Finding) -> tuple[str, str]:
    return finding.rule, finding.message


def _reason(finding: Finding, changes: Iterable[Change]) -> str:
    """The message of a finding about a changed value; for an unknown model, with similar names."""
    if finding.name != NO_MODEL:
        return finding.message
    named = next((str(one.value) for one in changes if str(one.value) in finding.message), "")
    near = suggestions(named) if named else []
    return f"{finding.message}; did you mean {' or '.join(near)}?" if near else finding.message


def _refuse_twice(changes: tuple[Change, ...]) -> None:
    """Raises UsageError if a key gets two values."""
    seen: dict[str, Change] = {}
    for one in changes:
        other = seen.setdefault(one.key, one)
        if other.value != one.value:
            raise UsageError(f"{other.text} and {one.text}: the key has one value; --try compares several")


def _facts(facts: StatedFacts, changes: list[Change]) -> StatedFacts:
    for change in changes:
        if change.key == "gpu" and change.value is None:
            raise UsageError(f"{change.text}: wants the name of a card: gpu=H100")
        if change.key == "gpu":
            gpu, count = named_gpu(str(change.value))
            facts = facts._replace(gpu=gpu, gpus=count or facts.gpus)
        elif isinstance(change.value, int) and change.value > 0:
            facts = facts._replace(gpus=change.value)
        else:
            raise UsageError(f"{change.text}: wants a whole number of GPUs")
    return facts


def changed_contents(analysis: Analysis, changes: Iterable[Change]) -> Mapping[str, bytes]:
    """path -> the whole file with the changes. Raises UsageError if a change cannot be written as an edit."""
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
    """The edits that make a change: in the config, in a file that it names, or as its format writes a field."""
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
    """The edit that sets a key; null removes it."""
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
    if change.key == "model.name":
        return (_model_edit(analysis, run, change),)
    if change.key in STATED:
        raise UsageError(f"{change.text}: no key of a file says this; write {STATED[change.key]}=...")
    found = analysis.format.edits(parsed, run, {change.key: change.value}) if analysis.format and parsed else None
    if found is None:
        origin = run.origins.get(change.key)
        key = ".".join(map(str, origin.pointer)) if origin is not None and origin.pointer else ""
        now = runs.get(run, change.key)
        hint = f"; the file says it with {key}, and it is {now} now" if key else f"; it is {now} now"
        raise UsageError(f"{change.text}: {run.format} files have no value that says this{hint}")
    return tuple(found)


def _model_edit(analysis: Analysis, run: Run, change: Change) -> Edit:
    """The edit that replaces the model's name."""
    place = run.origins.get("model.name")
    document = _documents(analysis).get(place.path) if place is not None else None
    if place is None or document is None:
        raise UsageError(f"{change.text}: {analysis.document.path} does not name its model at a place of its own")
    name = str(place.pointer[-1]) if place.pointer else ""
    for pointer in (place.pointer, tuple(name.split(".")), ("model",)):
        if pointer and at(document.value, pointer) == run.model.name:
            return Edit(document.path, pointer, "set", change.value)
    raise UsageError(f"{change.text}: the model's name in {document.path} cannot be replaced; edit the file")


def _refuse_unknown_keys(report: FileReport, changes: list[Change]) -> None:
    for finding in report.findings:
        for change in changes:
            words = {change.key, *change.key.split(".")}
            if finding.name == UNKNOWN_KEY and any(f"`{one}`" in finding.message for one in words):
                near = nearest(change.key, _fields()) if "." in change.key else QUESTION_FIELDS.get(change.key, "")
                hint = f"; did you mean the run's field {near}?" if near else ""
                raise UsageError(f"{change.text}: {finding.message}{hint}")


def _fields() -> list[str]:
    """The dotted names of the run's fields, with at most one dot."""
    blank = Run("", "")
    sections = [name for name in Run._fields if hasattr(getattr(blank, name), "_fields")]
    return [f"{section}.{field}" for section in sections for field in getattr(blank, section)._fields]


class QuestionWhatIf:
    """The variants of a question. Changes set its fields (`batch=4`, `gpu=H100`)."""

    def __init__(self, question: Question, facts: StatedFacts) -> None:
        self._question = question
        self._facts = facts

    def variant(self, label: str, changes: Iterable[Change]) -> Variant:
        """The answer to the changed question. Raises UsageError."""
        changes = tuple(changes)
        _refuse_twice(changes)
        asked = {field: value for field, value in self._question._asdict().items() if value not in (None, "")}
        found = answer(question_of({**asked, **{one.key: one.value for one in changes}}), self._facts)
        return Variant(label, found.run, tuple(one.message for one in found.refused))
