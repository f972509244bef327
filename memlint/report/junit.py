"""JUnit XML (as Jenkins and Surefire): a suite per file, a case per finding; a clean file is one passing case."""

from __future__ import annotations

from memlint.findings import Finding
from memlint.report.model import FileReport, Report
from memlint.report.text import describe_fix
from memlint.report.xml import attribute, element

HEADER = '<?xml version="1.0" encoding="UTF-8"?>\n'


def render(report: Report) -> str:
    suites = [_suite(file) for file in report.files]
    tests = sum(max(1, len(file.findings)) for file in report.files)
    failures = sum(_fails(item) for file in report.files for item in file.findings)
    body = "\n" + "\n".join(suites) + "\n" if suites else "\n"
    return HEADER + element("testsuites", {"name": "memlint", "tests": tests, "failures": failures}, body) + "\n"


def _fails(finding: Finding) -> bool:
    return finding.severity != "info"


def _suite(file: FileReport) -> str:
    cases = [_case(item) for item in file.findings] or [
        element("testcase", {"name": "memlint", "classname": file.path})
    ]
    attributes: dict[str, object] = {
        "name": file.path,
        "tests": len(cases),
        "failures": sum(map(_fails, file.findings)),
        "errors": 0,
    }
    return element("testsuite", attributes, "".join(cases))


def _case(finding: Finding) -> str:
    place = finding.location
    name = {"name": f"{finding.rule} {finding.name} line {place.line}", "classname": place.path}
    text = "\n".join(
        [f"{place.path}:{place.line}:{place.column}: {finding.message}", *map(describe_fix, finding.fixes[:3])]
    )
    if not _fails(finding):
        return element("testcase", dict(name), element("system-out", {}, attribute(text)))
    failure = element("failure", {"type": finding.severity, "message": finding.message}, attribute(text))
    return element("testcase", dict(name), failure)
