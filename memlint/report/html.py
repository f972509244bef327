"""The HTML output: one self-contained page that needs no network and no server."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import memlint.report.card_figures as card_figures
from memlint.findings import Finding
from memlint.memory.values import Estimate, component_words
from memlint.report.model import PART, FileReport, Report, RunReport, verdict_of, will_not_start
from memlint.report.table import COMPONENTS
from memlint.report.terminal import clean
from memlint.report.text import describe_fix, source_line
from memlint.report.totals import totals

FOLDER = os.path.join(os.path.dirname(__file__), "page")
SCRIPTS = ("dom.js", "bars.js", "details.js", "what_if.js", "list.js", "page.js")  # in this order: one script
FIXES_SHOWN = 3
CARDS_SHOWN = 4
# Characters that could end the script element or start a comment in it, and those that JavaScript once took for line
# ends.
ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", chr(0x2028): "\\u2028", chr(0x2029): "\\u2029"}
)


def render(report: Report) -> str:
    """The page with the report's data embedded."""
    page, style, script = _part("page.html"), _part("page.css"), _script()
    slots = {
        "@STYLE_HASH@": _hash(style),
        "@SCRIPT_HASH@": _hash(script),
        "@STYLE@": style,
        "@SCRIPT@": script,
        "@DATA@": embedded(data(report)),
    }
    for slot, text in slots.items():  # the data comes last, so that text in it that looks like a slot is not replaced
        page = page.replace(slot, text)
    return page


def embedded(value: Any) -> str:
    """JSON that is safe inside a script element, whatever strings it contains."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False).translate(ESCAPES)


def _part(name: str) -> str:
    with open(os.path.join(FOLDER, name), encoding="utf-8", newline="\n") as stream:
        return stream.read()


def _script() -> str:
    """The parts of the script in a scope of their own."""
    return '"use strict";\n(() => {\n' + "\n".join(map(_part, SCRIPTS)) + "})();"


def _hash(text: str) -> str:
    """The hash of an inline element for the Content-Security-Policy."""
    return "sha256-" + base64.b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")


def data(report: Report) -> dict[str, Any]:
    """The data that the page's script shows."""
    count = totals(report)
    parts = {name for file in report.files for run in file.runs if run.purpose != PART for name in run.related}
    whys: dict[str, int] = {}  # reason -> its index in the page's list: one that many findings share is written once
    return {
        "version": report.version,
        "components": list(map(component_words, COMPONENTS)),
        "how_to_read": card_figures.HOW_TO_READ,
        "totals": {"files": count.files, "severities": dict(count.by_severity), "verdicts": dict(count.verdicts)},
        "rules": {rule.id: {"name": rule.name, "title": clean(rule.title)} for rule in _used(report)},
        "files": [_file(file, parts, whys) for file in report.files if file.findings or not _is_part(file, parts)],
        "notes": [clean(note) for note in report.notes],
        "whys": list(whys),
    }


def _is_part(file: FileReport, parts: set[str]) -> bool:
    """Whether `file` gets no entry of its own: no format recognises it, or it takes part in another file's run."""
    return not file.format or (file.path in parts and all(run.purpose == PART for run in file.runs))


def _used(report: Report) -> Iterator[Any]:
    used = {item.rule for file in report.files for item in file.findings}
    return (rule for rule in report.rules if rule.id in used)


def _file(file: FileReport, parts: set[str], whys: dict[str, int]) -> dict[str, Any]:
    return {
        "path": clean(file.path),
        "format": file.format,
        "suppressed": file.suppressed,
        "baselined": file.baselined,
        "runs": [_run(run, file.path in parts) for run in file.runs],
        "findings": [_finding(item, file, whys) for item in file.findings],
    }


def _run(run: RunReport, is_part: bool) -> dict[str, Any]:
    """One run. `is_part`: the file takes part in another file's run."""
    estimate = run.estimate
    return {
        "related": [clean(name) for name in run.related],
        "purpose": run.purpose,
        "model": clean(run.model.id or ""),
        "parameters": run.model.parameters,
        "trainable": run.model.trainable_parameters,
        "summary": clean(run.summary),
        "gpu": run.hardware.gpu,
        "gpus": run.hardware.gpus,
        "budget": estimate.budget_bytes or run.hardware.usable_bytes,
        **_verdict(run, is_part and run.purpose == PART),
        **_sizes(estimate),
        "fits_on": [] if estimate.readings or estimate.verdict == "fits" else list(estimate.fits_on[:CARDS_SHOWN]),
        "unknown": [[field, clean(reason)] for field, reason in estimate.unknown],
        "assumptions": [[field, clean(str(value)), clean(origin)] for field, value, origin in estimate.assumptions],
        "what_if": run.what_if and {**run.what_if._asdict()},
    }


def _verdict(run: RunReport, is_part: bool) -> dict[str, str]:
    if is_part:
        return {"verdict": "part", "words": "part of a run"}
    return {"verdict": "stopped" if will_not_start(run) else run.estimate.verdict, "words": verdict_of(run)}


def _sizes(estimate: Estimate) -> dict[str, Any]:
    return {
        "low": estimate.device_low_bytes,
        "device": estimate.device_bytes,
        "high": estimate.device_high_bytes,
        "figure": card_figures.peak(estimate) if estimate.on_card else None,
        "allocated": estimate.allocated_bytes,
        "reserved": estimate.reserved_bytes,
        "host": estimate.host_bytes,
        "peak": estimate.peak_phase,
        "phases": [
            {
                "name": phase.name,
                "total": phase.allocated_bytes,
                "parts": [phase.components.get(name, 0) for name in COMPONENTS],
            }
            for phase in estimate.phases
        ],
    }


def _finding(item: Finding, file: FileReport, whys: dict[str, int]) -> dict[str, Any]:
    """One finding. `whys`: reason -> its index in the page's list; the reason of this finding is added to it."""
    place = item.location
    line = source_line(file.texts.get(place.path), place.line)
    end = place.end_column if place.end_line == place.line else len(line or "") + 1
    return {
        "rule": item.rule,
        "name": item.name,
        "severity": item.severity,
        "message": clean(item.message),
        "why": whys.setdefault(clean(item.why), len(whys)) if item.why else None,
        "path": clean(place.path),
        "line": place.line,
        "column": place.column,
        "excerpt": None if line is None else [clean(line[:400]), place.column - 1, max(place.column, end) - 1],
        "related": [[clean(spot.path), spot.line, clean(label)] for spot, label in item.related],
        "fixes": [describe_fix(fix) for fix in item.fixes[:FIXES_SHOWN]],
    }
