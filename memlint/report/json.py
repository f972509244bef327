"""Versioned JSON, as `schemas/report.json` describes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from memlint.card_bytes import CardBytes
from memlint.findings import Edit, Finding, Fix, Location
from memlint.memory.values import Estimate, Phase, ReadingEstimate
from memlint.report.model import FileReport, Report, RunReport, verdict_of
from memlint.report.totals import totals

SCHEMA_VERSION = 2
# Runs and fixes have these facts.
_NOT_COUNTED = ("cardless", "launched", "unlaunched", "fixable", "unsafe_fixable") + (
    "not_estimated",
    "more_not_estimated",
    "only_run",
)


def render(report: Report) -> str:
    """Findings, runs and totals of `memlint check`."""
    return "".join(pieces(report))


def pieces(report: Report) -> Iterator[str]:
    """The text of `render` in pieces: that of thousands of files at once would take a hundred MiB."""
    yield from _head(report)
    yield from _list("files", map(_file, report.files))
    yield from _list("findings", (finding(item) for file in report.files for item in file.findings))
    yield from _list("runs", (run(item) for file in report.files for item in file.runs))
    yield f'  "summary": {_nested(_counts(report), 1)},\n'
    yield f'  "notes": {_nested(list(report.notes), 1)}\n}}\n'


def render_estimates(report: Report) -> str:
    """Only the runs, as `memlint estimate --format json` prints them."""
    runs = (run(item) for file in report.files for item in file.runs)
    return "".join([*_head(report), *_list("runs", runs, "")]) + "}\n"


def _head(report: Report) -> Iterator[str]:
    yield f'{{\n  "schema_version": {SCHEMA_VERSION},\n  "memlint_version": {_nested(report.version, 1)},\n'


def _counts(report: Report) -> dict[str, Any]:
    counted = totals(report)._asdict()
    return {key: value for key, value in counted.items() if key not in _NOT_COUNTED}


def _list(name: str, items: Iterable[dict[str, Any]], end: str = ",") -> Iterator[str]:
    between = f'  "{name}": [\n    '
    for item in items:
        yield between + _nested(item, 2)
        between = ",\n    "
    yield f'  "{name}": []{end}\n' if between.startswith("  ") else f"\n  ]{end}\n"


def _nested(value: object, depth: int) -> str:
    """`value` as it stands `depth` levels below the top; no text in JSON holds a raw line feed."""
    return dump(value)[:-1].replace("\n", "\n" + "  " * depth)


# An escaped backslash, a pair of surrogates, or a lone surrogate: only the last, in the group, is not valid text.
_SURROGATES = re.compile(r"\\\\|\\ud[89ab]..\\ud[c-f]..|(\\ud[89a-f]..)")


def dump(value: object) -> str:
    """JSON in ASCII, safe to print on a terminal. A lone surrogate becomes U+FFFD."""
    text = json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False, default=str)
    return _SURROGATES.sub(lambda match: "\\ufffd" if match[1] else match[0], text) + "\n"


def _file(file: FileReport) -> dict[str, Any]:
    return {
        "path": file.path,
        "format": file.format or None,
        "findings": len(file.findings),
        "suppressed": file.suppressed,
        "baselined": file.baselined,
    }


def finding(item: Finding) -> dict[str, Any]:
    return {
        "rule": item.rule,
        "name": item.name,
        "severity": item.severity,
        "confidence": item.confidence,
        "message": item.message,
        "location": location(item.location),
        "related": [{"location": location(place), "message": text} for place, text in item.related],
        "why": item.why,
        "url": item.url,
        "key": item.key,
        "data": _plain(item.data),
        "fixes": [fix(option) for option in item.fixes],
    }


def location(place: Location) -> dict[str, Any]:
    return {
        "path": place.path,
        "line": place.line,
        "column": place.column,
        "end_line": place.end_line,
        "end_column": place.end_column,
        "pointer": json_pointer(place.pointer),
    }


def json_pointer(pointer: tuple[str | int, ...]) -> str:
    """RFC 6901."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in pointer)


def fix(option: Fix) -> dict[str, Any]:
    return {
        "title": option.title,
        "safe": option.safe,
        "speed": option.speed,
        "quality": option.quality,
        "before": _card(option.before),
        "after": _card(option.after),
        "verdict_after": option.verdict_after or None,
        "changes": _plain(option.changes),
        "edits": [_edit(edit) for edit in option.edits],
        "note": option.note,
    }


def _card(found: CardBytes | None) -> dict[str, Any] | None:
    """The memory that the run takes of its card; null if the fix is not about memory."""
    if found is None:
        return None
    return {
        "device_bytes": found.figure,
        "device_low_bytes": found.low,
        "device_high_bytes": found.high,
        "device_unclamped_high_bytes": found.unclamped_high,
    }


def _edit(edit: Edit) -> dict[str, Any]:
    return {
        "path": edit.path,
        "pointer": json_pointer(edit.pointer),
        "action": edit.action,
        "value": _plain(edit.value),
    }


def run(item: RunReport) -> dict[str, Any]:
    """One run, as in the contract of `memlint estimate`."""
    estimate = item.estimate
    return {
        "path": item.path,
        "related": list(item.related),
        "format": item.format,
        "purpose": item.purpose,
        "summary": item.summary,
        "model": item.model._asdict(),
        "hardware": item.hardware._asdict(),
        "phases": [_phase(phase) for phase in estimate.phases],
        "peak": _peak(estimate),
        "host_bytes": estimate.host_bytes,
        "verdict": estimate.verdict,
        "verdict_words": verdict_of(item),
        "stopped_by": list(item.stopped_by),
        "readings": [_reading(one) for one in estimate.readings],
        "fits_on": list(estimate.fits_on),
        "assumptions": [
            {"field": field, "value": _plain(value), "origin": origin} for field, value, origin in estimate.assumptions
        ],
        "unknown": [{"field": field, "reason": reason} for field, reason in estimate.unknown],
        "details": dict(estimate.details),
    }


def _reading(one: ReadingEstimate) -> dict[str, Any]:
    """The figures of the card; what tensors take in a phase stands under `phases`."""
    return {name: value for name, value in one._asdict().items() if name != "step_bytes"}


def _phase(phase: Phase) -> dict[str, Any]:
    return {
        "name": phase.name,
        "allocated_bytes": phase.allocated_bytes,
        "components": dict(phase.components),
    }


def _peak(estimate: Estimate) -> dict[str, Any]:
    return {
        "phase": estimate.peak_phase or None,
        "allocated_bytes": estimate.allocated_bytes,
        "allocated_low_bytes": estimate.allocated_low_bytes,
        "allocated_high_bytes": estimate.allocated_high_bytes,
        "reserved_bytes": estimate.reserved_bytes,
        "device_bytes": estimate.device_bytes,
        "device_low_bytes": estimate.device_low_bytes,
        "device_high_bytes": estimate.device_high_bytes,
        "device_unclamped_high_bytes": estimate.device_unclamped_high_bytes or estimate.device_high_bytes,
        "budget_bytes": estimate.budget_bytes or None,
    }


def _plain(value: Any) -> Any:
    """`value` in types that JSON has. Mappings and sequences are converted item by item, other types to text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    return str(value)
