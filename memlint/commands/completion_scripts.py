"""Completion scripts for the shells that shtab does not support, Elvish and Nushell, made from the same parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import shtab


@dataclass(frozen=True)
class OptionWords:
    """An option, or a positional argument (then `names` is empty)."""

    names: tuple[str, ...]
    help: str
    values: tuple[str, ...]
    takes_value: bool
    takes_path: bool


@dataclass(frozen=True)
class VerbWords:
    name: str
    help: str
    options: tuple[OptionWords, ...]
    arguments: tuple[OptionWords, ...]


def scripts() -> Mapping[str, Callable[[argparse.ArgumentParser], str]]:
    return {"elvish": elvish, "nushell": nushell}


def verbs_of(parser: argparse.ArgumentParser) -> Iterable[VerbWords]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            about = {each.dest: each.help or "" for each in action._choices_actions}
            yield from (_verb(name, about.get(name, ""), inner) for name, inner in action.choices.items())


def _verb(name: str, about: str, parser: argparse.ArgumentParser) -> VerbWords:
    every = [_option(action) for action in parser._actions if action.help != argparse.SUPPRESS]
    return VerbWords(
        name, about, tuple(each for each in every if each.names), tuple(each for each in every if not each.names)
    )


def _option(action: argparse.Action) -> OptionWords:
    return OptionWords(
        tuple(action.option_strings),
        " ".join((action.help or "").split()).replace("%%", "%").replace("%(default)s", str(action.default)),
        tuple(str(choice) for choice in action.choices or ()),
        takes_value=action.nargs != 0,
        takes_path=getattr(action, "complete", None) is shtab.FILE,
    )


def elvish(parser: argparse.ArgumentParser) -> str:
    """A completer that looks up, for the verb, its options, their values and its arguments.

    Source: the Elvish reference, edit:completion:arg-completer (a function of the words, the last one unfinished).
    """
    every = list(verbs_of(parser))
    lines = ["# memlint for Elvish: put this into rc.elv, or a file that rc.elv evaluates", "use str", ""]
    lines += ["var memlint-verbs = [", *(f"  {_quoted(verb.name)}" for verb in every), "]", ""]
    lines += ["var memlint-options = [", *(_elvish_row(verb, _names(verb)) for verb in every), "]", ""]
    lines += ["var memlint-arguments = [", *(_elvish_row(verb, _argument_values(verb)) for verb in every), "]", ""]
    lines += ["var memlint-values = [", *(row for verb in every for row in _elvish_values(verb)), "]", ""]
    return "\n".join(lines) + ELVISH


def _elvish_row(verb: VerbWords, words: Iterable[str]) -> str:
    return f"  &{verb.name}=[{' '.join(_quoted(word) for word in words)}]"


def _elvish_values(verb: VerbWords) -> Iterable[str]:
    for option in verb.options:
        if option.takes_value:
            values = " ".join(_quoted(value) for value in option.values)
            yield from (f"  &{_quoted(f'{verb.name} {name}')}=[{values}]" for name in option.names)


def _names(verb: VerbWords) -> list[str]:
    return [name for option in verb.options for name in option.names if name.startswith("--")]


def _argument_values(verb: VerbWords) -> list[str]:
    return [value for argument in verb.arguments for value in argument.values]


ELVISH = """\
set edit:completion:arg-completer[memlint] = {|@words|
  var word = $words[-1]
  var verb = $words[1]
  if (not (has-key $memlint-options $verb)) {
    set verb = check
  }
  var option = $verb' '$words[-2]
  if (== (count $words) 2) {
    all $memlint-verbs
    edit:complete-filename $word
  } elif (and (has-key $memlint-values $option) (> (count $memlint-values[$option]) 0)) {
    all $memlint-values[$option]
  } elif (and (str:has-prefix $word -) (not (has-key $memlint-values $option))) {
    all $memlint-options[$verb]
  } else {
    all $memlint-arguments[$verb]
    edit:complete-filename $word
  }
}"""


def nushell(parser: argparse.ArgumentParser) -> str:
    """An `export extern` declaration of each verb, by which Nushell completes and checks its options.

    Source: the Nushell book, chapters Externs and Custom completions.
    """
    lines = ["# memlint for Nushell: `source memlint.nu` in config.nu", ""]
    lines += ["# " + (parser.description or ""), "export extern memlint [", "  ...path: path", "  --version(-V)", "]"]
    for verb in verbs_of(parser):
        lines += ["", *_nushell_lists(verb), f"# {verb.help}", f'export extern "memlint {verb.name}" [']
        lines += [f"  {line}" for line in (*_nushell_arguments(verb), *map(_nushell_option(verb), verb.options))]
        lines += ["]"]
    return "\n".join(lines)


def _nushell_lists(verb: VerbWords) -> Iterable[str]:
    """A function for each list of values, because Nushell declarations refer to lists by name."""
    for option in (*verb.options, *verb.arguments):
        if option.values:
            values = " ".join(_quoted(value) for value in option.values)
            yield f'def "{_list_name(verb, option)}" [] {{ [{values}] }}'


def _list_name(verb: VerbWords, option: OptionWords) -> str:
    return f"memlint completions {verb.name} {_long(option) or 'argument'}"


def _nushell_arguments(verb: VerbWords) -> Iterable[str]:
    if verb.arguments:
        values = next((argument for argument in verb.arguments if argument.values), None)
        kind = f'string@"{_list_name(verb, values)}"' if values else "path"
        yield f"...argument: {kind}  # {verb.arguments[0].help}".rstrip(" #")


def _nushell_option(verb: VerbWords) -> Callable[[OptionWords], str]:
    def line(option: OptionWords) -> str:
        short = next((name[1:] for name in option.names if not name.startswith("--")), "")
        name = f"--{_long(option)}" + (f"(-{short})" if short else "")
        return f"{name}{_nushell_type(verb, option)}  # {option.help}".rstrip(" #")

    return line


def _nushell_type(verb: VerbWords, option: OptionWords) -> str:
    if not option.takes_value:
        return ""
    if option.values:
        return f': string@"{_list_name(verb, option)}"'
    return ": path" if option.takes_path else ": string"


def _long(option: OptionWords) -> str:
    return next((name[2:] for name in option.names if name.startswith("--")), "")


def _quoted(word: str) -> str:
    """A word in single quotes, as both shells read it; none of memlint's words holds a quote."""
    return f"'{word}'"
