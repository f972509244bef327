"""The codes that formats use in `Issue.code`, and the rules they become."""

from __future__ import annotations

from collections.abc import Mapping

from memlint._record import NamedTuple


class IssueRule(NamedTuple):
    """`rule` and `name` as in `findings.Finding`; `severity` is the usual one (an `Issue` carries its own)."""

    rule: str
    name: str
    title: str
    severity: str
    why: str


# Codes of what is said of a key's name, not of its value.
KEY_NAME_CODES = ("unknown-key", "removed-key", "renamed-key")
FILE_IS_AWAY = ("missing-reference", "outside-reference")
ISSUES: Mapping[str, IssueRule] = {
    "unknown-key": IssueRule(
        "CFG001",
        "config/unknown-key",
        "The framework does not know this key",
        "error",
        "LLaMA-Factory, TrlParser and HfArgumentParser refuse a file with a key that they do not know. DeepSpeed "
        "ignores one at the top of its file, and in most sections pydantic refuses it (extra_forbidden); accelerate "
        "refuses one at the top and drops it in the sections. Axolotl ignores it.",
    ),
    "wrong-type": IssueRule(
        "CFG002",
        "config/wrong-type",
        "The value has a type the framework does not take",
        "error",
        "Dataclass fields are not converted: a string where a number is expected fails later, often after loading.",
    ),
    "bad-value": IssueRule(
        "CFG003",
        "config/bad-value",
        "The value is not one that the framework takes",
        "error",
        "Choices and bounds are checked when the arguments are built: the run ends before it starts.",
    ),
    "missing-key": IssueRule(
        "CFG004", "config/missing-key", "A required key is missing", "error", "The framework refuses to start."
    ),
    "renamed-key": IssueRule(
        "CFG005",
        "config/renamed-key",
        "The key has another name now",
        "warning",
        "Older versions take the old name; newer ones refuse the file or ignore the key.",
    ),
    "removed-key": IssueRule(
        "CFG006",
        "config/removed-key",
        "The key is gone from newer versions",
        "warning",
        "Newer versions refuse the file or ignore the key.",
    ),
    "string-number": IssueRule(
        "CFG007",
        "config/string-number",
        "YAML 1.1 reads this number as a string",
        "error",
        "PyYAML wants a dot in `1.0e-5`; `1e-5` arrives as text.",
    ),
    "conflict": IssueRule(
        "CFG008",
        "config/conflict",
        "Settings that the framework refuses together",
        "error",
        "The framework's own checks raise an error for this combination.",
    ),
    "ignored-key": IssueRule(
        "CFG009",
        "config/ignored-key",
        "The setting has no effect here",
        "warning",
        "Another setting, or the stage, switches it off silently.",
    ),
    "interpolation": IssueRule(
        "CFG010",
        "config/interpolation",
        "An interpolation that cannot be resolved",
        "warning",
        "OmegaConf fills `${...}` when the run starts; what it will be cannot be known here.",
    ),
    "removed-value": IssueRule(
        "CFG011",
        "config/removed-value",
        "The value is gone from newer versions",
        "warning",
        "Newer versions refuse the value, or match none of their cases with it.",
    ),
    "unreadable-config": IssueRule(
        "CFG012",
        "config/unreadable",
        "The framework cannot read a file like this",
        "warning",
        "The file is well formed, but the framework's own reader fails on it.",
    ),
    "missing-reference": IssueRule(
        "REF001",
        "reference/missing",
        "A referenced file is not there",
        "error",
        "The run ends when it opens the file; memory settings in it cannot be judged.",
    ),
    "outside-reference": IssueRule(
        "REF002",
        "reference/outside",
        "A referenced file lies outside of the linted tree",
        "info",
        "The run may well find it; memlint opens nothing outside of its root, so what it says is not counted.",
    ),
    "cyclic-reference": IssueRule(
        "REF003", "reference/cyclic", "Files reference each other in a circle", "error", "No run can read them."
    ),
    "unreadable-reference": IssueRule(
        "REF004", "reference/unreadable", "A referenced file cannot be read", "error", "The run ends when it opens it."
    ),
    "not-a-file-reference": IssueRule(
        "REF005", "reference/not-a-file", "A reference names a folder", "error", "The run ends when it opens it."
    ),
    "url-reference": IssueRule(
        "REF006", "reference/url", "A reference is a URL", "warning", "memlint reads no network."
    ),
    "placeholder-reference": IssueRule(
        "REF008",
        "reference/placeholder",
        "A reference that something else fills in",
        "info",
        "What stands there when the run starts is not known here.",
    ),
    "own-reader": IssueRule(
        "CFG013",
        "config/read-by-a-script",
        "A script reads this file by itself",
        "info",
        "Keys mean what the script makes of them: no key is judged, no dtype is presumed, and no fix is safe.",
    ),
    "several-readers": IssueRule(
        "CFG014",
        "config/several-readers",
        "Several scripts read this file and make different runs of it",
        "info",
        "What is said here holds for the one that is named; a command in a README or a script would tell which counts.",
    ),
    "unread-key": IssueRule(
        "CFG015",
        "config/key-without-effect",
        "No script reads this key",
        "warning",
        "The run trains as if the key were not there.",
    ),
    "no-release": IssueRule(
        "CFG016",
        "config/no-release-takes-both",
        "No release of the library takes both arguments",
        "error",
        "Whichever release is installed, the call raises TypeError.",
    ),
    "wrong-companion": IssueRule(
        "REF007",
        "reference/wrong-kind",
        "A referenced file is not what the key asks for",
        "error",
        "The framework cannot use it.",
    ),
}
