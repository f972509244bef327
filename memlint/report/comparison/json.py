"""What a branch changes, as versioned JSON."""

from __future__ import annotations

from typing import Any

from memlint.report import json
from memlint.report.comparison.model import DiffReport, FileDiff, RunDiff, moved


def render(report: DiffReport) -> str:
    return json.dump(
        {
            "schema_version": json.SCHEMA_VERSION,
            "memlint_version": report.version,
            "base": report.base,
            "head": report.head,
            "regression": any(file.is_regression for file in report.files),
            "files": [_file(file) for file in report.files],
            "unaffected": report.quiet,
            "notes": list(report.notes),
        }
    )


def _file(file: FileDiff) -> dict[str, Any]:
    return {
        "path": file.path,
        "status": file.status,
        "old_path": file.old_path or None,
        "via": list(file.via),
        "regression": file.is_regression,
        "runs": [_run(run) for run in file.runs],
        "new": [json.finding(item) for item in file.new],
        "resolved": [json.finding(item) for item in file.resolved],
        "unchanged": file.unchanged,
    }


def _run(run: RunDiff) -> dict[str, Any]:
    return {
        "before": json.run(run.before) if run.before else None,
        "after": json.run(run.after) if run.after else None,
        "device_delta_bytes": run.delta,
        "trend": run.trend,
        "components": [{"name": name, "before_bytes": old, "after_bytes": new} for name, old, new in moved(run)],
        "changes": [
            {
                "name": change.name,
                "before": change.before,
                "after": change.after,
                "place": change.place,
                "alone_delta_bytes": change.own_effect,
            }
            for change in run.changes
        ],
    }
