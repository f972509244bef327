"""Every shipped rule: its examples hold, its file stands where it belongs, its page has what a page needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.formats.base import Context
from memlint.lint.analyse_file import FileAnalyser
from memlint.lint.projects import Workspaces
from memlint.repository.workspace import Workspace, in_memory
from memlint.ruleset import examples
from memlint.ruleset.engine import Engine
from memlint.ruleset.folder import read_document, rule_files
from memlint.ruleset.python import MODULES
from memlint.ruleset.rule import Rule
from memlint.ruleset.rule_file import parse_python_rule, parse_rule
from memlint.ruleset.shipped import shipped
from memlint.ruleset.sources import fields_document
from memlint.shipped_data import folder
from memlint.source.document import Document

RULES = Path(folder("rules"))
FILES = rule_files(str(RULES))


def documents() -> dict[str, tuple[Rule, Document]]:
    found = {}
    for name in FILES:
        document = read_document(str(RULES / name), name)
        found[name] = (parse_rule(document), document)
    for module in MODULES:
        document = fields_document(module)
        found[document.path] = (parse_python_rule(document, module.check), document)
    return found


CASES = documents()
EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.id}-{example.number}-{example.expected}")
    for rule, document in CASES.values()
    for example in examples.examples(document)
]


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_example_holds(rule: Rule, example: examples.Example) -> None:
    (outcome,) = examples.run(rule, (example,))

    assert outcome.problem == ""


ENGINE = Engine(shipped())


@pytest.mark.parametrize(("rule", "example"), [case for case in EXAMPLES if "fixed" in case.values[1].fields])
def test_no_other_rule_speaks_against_a_fix(rule: Rule, example: examples.Example) -> None:
    """What `memlint fix` would write: an example alone is judged by its own rule only."""
    files = in_memory({**example.fields.get("files", {}), example.file: example.text})

    def context(_: Document, changed: Workspace) -> Context:
        named = (changed.documents(name)[0] for name in example.fields.get("with", []))
        return changed.context(**examples.facts_of(example, tuple(named)))

    analyser = FileAnalyser(Workspaces("", only=files), lambda _: ENGINE, context)
    analysis = analyser.analyse_document(files.documents(example.file)[0], files)
    finding = next(one for one in analyser.with_fixes(analysis, files) if one.rule == rule.id)
    fix = finding.fixes[example.fields.get("fix", 1) - 1]

    assert fix.patches, fix.note


# Errors whose remedy only the author knows: data, a path, another model, how to divide the GPUs.
WITHOUT_AN_EDIT = frozenset(
    (
        *("ACC006", "AXO018", "AXO047", "AXO060", "AXO081", "AXO083", "AXO089", "DSP005", "DSP020", "FSD002", "LLF003"),
        *("LLF043", "LLF049", "MEM004", "PAR014", "PAR016", "PAR017", "PAR018", "PAR019", "PEF009", "PEF012"),
        *("PEF022", "PEF027", "PRF009", "TRN013", "TRN016", "TRL011", "TRL028"),
        "AXO095",
        # Two settings that exclude each other, or a word among several: which one is meant is the author's to say.
        *("ORL001", "ORL003", "ORL006", "ORL008", "ORL009", "ORL010", "ORL012", "SWF002", "SWF008", "SWF009", "SWF011"),
        *("SWF012", "TUN003", "VER010"),
    )
)


def test_every_other_error_offers_the_edit_that_mends_it() -> None:
    errors = {document.value["id"]: document.value for _, document in CASES.values()}
    without = {name for name, fields in errors.items() if fields["severity"] == "error" and "fix" not in fields}
    written_in_python = {document.value["id"] for path, (_, document) in CASES.items() if path.endswith(".py")}
    assert without - written_in_python == WITHOUT_AN_EDIT


# What somebody may leave unsaid of an example's situation.
UNSAID = ((), ("gpus", "gpus_per_node"), ("gpu",), ("gpu", "gpus", "gpus_per_node"))


@pytest.mark.parametrize(("rule", "example"), [case for case in EXAMPLES if "-fails" in str(case.id)])
def test_no_message_spells_a_value_that_nobody_knows(rule: Rule, example: examples.Example) -> None:
    for unsaid in UNSAID:
        fields = {key: value for key, value in example.fields.items() if key not in unsaid}
        found = examples.analyse_text(rule, example._replace(fields=fields), example.text).findings
        messages = [one.message for one in found if one.rule == rule.id]
        assert [text for text in messages if "unknown" in text and "unknown" not in example.text] == []


@pytest.mark.parametrize("name", FILES)
def test_a_rule_file_is_named_after_its_rule(name: str) -> None:
    rule, _ = CASES[name]

    assert name == f"{rule.family}/{rule.id}.yaml"


@pytest.mark.parametrize("name", CASES)
def test_a_rule_has_an_example_of_each_kind(name: str) -> None:
    rule, document = CASES[name]
    listed = examples.examples(document)

    assert {example.expected for example in listed} == {"fails", "passes"}
    assert len(listed) == len(document.value["examples"])
    assert rule.texts().sources


def test_ids_and_names_are_used_once() -> None:
    rules = tuple(shipped())

    assert len({rule.id for rule in rules}) == len(rules) == len(CASES)
    assert len({rule.name for rule in rules}) == len(rules)


def test_one_prefix_belongs_to_one_family() -> None:
    families: dict[str, set[str]] = {}
    for rule in shipped():
        families.setdefault(rule.id[:3], set()).add(rule.family)

    assert {prefix: names for prefix, names in families.items() if len(names) > 1} == {}
