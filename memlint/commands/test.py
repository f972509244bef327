"""`memlint test`: runs the examples inside rule files."""

from __future__ import annotations

import os
from collections.abc import Iterator

import memlint.plugin_registry as extensions
from memlint.commands import options
from memlint.commands.output import to_stdout
from memlint.errors import UsageError
from memlint.lint.plugin_choice import full_name, load_plugins
from memlint.lint.request import StatedFacts
from memlint.lint.settings_lookup import read_settings
from memlint.ruleset import examples
from memlint.ruleset.folder import ordered, read_document, rule_files
from memlint.ruleset.python import MODULES
from memlint.ruleset.rule import Rule, RuleError
from memlint.ruleset.rule_file import parse_python_rule, parse_rule
from memlint.ruleset.sources import fields_document
from memlint.shipped_data import folder
from memlint.source.document import Document


def run(program: str, arguments: list[str]) -> int:
    parser = options.parser(program, "Runs the failing, passing and fixed examples inside rule files.")
    parser.add_argument(
        "rules",
        nargs="*",
        metavar="RULE_FILE",
        help="files and folders (default: the rules of plug-ins and of `rules_dirs`, else the shipped rules)",
    )
    options.add_plugin(parser)
    given = parser.parse_args(arguments)
    load_plugins(tuple(full_name(name) for name in given.plugin))
    own = read_settings(os.path.join(os.getcwd(), "config.yaml"), StatedFacts()).rules_dirs
    counted = broken = 0
    for rule, document in _rules(given.rules, own):
        outcomes = list(examples.run(rule, examples.examples(document)))
        counted += len(outcomes)
        for outcome in outcomes:
            if outcome.problem:
                broken += 1
                example = outcome.example
                to_stdout(f"{rule.path}:{example.line}: {rule.id} example {example.number} {outcome.problem}\n")
    to_stdout(f"{counted} examples, {broken} broken\n")
    return int(broken > 0)


def _rules(paths: list[str], own: tuple[str, ...]) -> list[tuple[Rule, Document]]:
    """The rules in `paths`, or else in the folders `own` of the settings, with their documents.

    Raises UsageError for an invalid rule or an id used twice.
    """
    try:
        found = list(_read(paths, own))
        ordered(rule for rule, _ in found)
    except RuleError as error:
        raise UsageError(f"a rule cannot be used: {error}") from None
    return found


def _read(paths: list[str], own: tuple[str, ...]) -> Iterator[tuple[Rule, Document]]:
    if extensions.loaded and not paths:
        yield from ((rule, extensions.documents[rule.id]) for rule in extensions.rules)
    paths = paths or [*own]
    if extensions.loaded and not paths:
        return
    for path in paths or [folder("rules")]:
        for name in _files(path):
            document = read_document(name, name)
            yield parse_rule(document), document
    if not paths:
        for module in MODULES:
            document = fields_document(module)
            yield parse_python_rule(document, module.check), document


def _files(path: str) -> list[str]:
    if os.path.isdir(path):
        return [f"{path}/{name}" for name in rule_files(path)]
    return [path]
