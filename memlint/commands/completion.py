"""`memlint completion`: prints the script that lets a shell complete verbs, options, rules, cards and paths."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping

import shtab

from memlint.commands import load, options
from memlint.commands.completion_scripts import scripts
from memlint.commands.output import to_stdout
from memlint.errors import UsageError
from memlint.hardware.catalog import every
from memlint.lint.linter import Linter
from memlint.lint.request import LintRequest, StatedFacts
from memlint.lint.rule_facts import rule_facts
from memlint.report.outputs import OUTPUTS

Verbs = Mapping[str, tuple[str, str]]  # as cli.VERBS: verb -> (module, what it does)

_PATHS = ("PATH", "FILE", "FOLDER")
HOW = """\
How to install it:
  bash        memlint completion bash > ~/.local/share/bash-completion/completions/memlint
  zsh         memlint completion zsh > ~/.zfunc/_memlint   (with `fpath+=~/.zfunc` before `compinit`)
  fish        memlint completion fish > ~/.config/fish/completions/memlint.fish
  powershell  memlint completion powershell >> $PROFILE
  elvish      memlint completion elvish >> ~/.config/elvish/rc.elv
  nushell     memlint completion nushell > ~/.config/nushell/memlint.nu   (and `source memlint.nu` in config.nu)"""


def run(program: str, arguments: list[str], verbs: Verbs) -> int:
    parser = options.parser(program, "Prints a shell's completion script.", HOW)
    ours = scripts()
    parser.add_argument("shell", choices=[*shtab.SUPPORTED_SHELLS, *ours])
    given = parser.parse_args(arguments)
    whole = _completed(whole_parser(verbs))
    script = ours[given.shell](whole) if given.shell in ours else _with_files(shtab.complete(whole, given.shell))
    to_stdout(script + "\n")
    return 0


def whole_parser(verbs: Verbs) -> argparse.ArgumentParser:
    """One parser with every verb as a subcommand, as completion and the manual page describe them."""
    whole = argparse.ArgumentParser("memlint", description="Lints LLM training configs for GPU memory.")
    whole.add_argument("-V", "--version", action="store_true", help="print the version")
    each = whole.add_subparsers(metavar="COMMAND")
    for verb, (module, about) in verbs.items():
        own = _parser_of(verb, module, verbs)
        made = each.add_parser(
            verb,
            help=about,
            description=own.description,
            epilog=own.epilog,
            parents=[own],
            add_help=False,
            formatter_class=options.Formatter,
            allow_abbrev=False,
        )
        made.prog = f"memlint {verb}"
    return whole


def _parser_of(verb: str, module: str, verbs: Verbs) -> argparse.ArgumentParser:
    """The parser of a verb, obtained without running the verb."""
    run_verb = load(module)
    try:
        run_verb(f"memlint {verb}", [options.DESCRIBE], *([verbs] if verb == "completion" else []))
    except options.Described as asked:
        return asked.parser
    raise UsageError(f"memlint {verb} does not describe its options")


def _completed(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The parser, with the possible values of each argument set for shtab (rules, cards, paths)."""
    rules = [rule.id for rule in rule_facts(Linter(LintRequest(StatedFacts())).rules, ())]
    for action in _actions(parser):
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        if metavar in ("RULE", "RULE|PATH[:LINE]"):
            action.choices = rules
        elif action.dest == "gpu":
            action.choices = [card.name.replace(" ", "-") for card in every()]
        elif action.dest == "format" and metavar == "NAME":
            action.choices = list(OUTPUTS)
        elif action.dest == "colour" and metavar:
            action.choices = list(options.COLOURS)
        elif metavar in _PATHS:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        if action.help:
            action.help = action.help.replace("`", "'")
    return parser


def _actions(parser: argparse.ArgumentParser) -> Iterable[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)
        yield action


def _with_files(script: str) -> str:
    """The bash script, extended to complete a path if no verb matches: `memlint train.yaml` checks that file."""
    return script.replace("complete -o bashdefault -F", "complete -o bashdefault -o default -F")
