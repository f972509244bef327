"""The command line options that several verbs share, and their conversion to requests."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NoReturn

import memlint.plugin_registry as extensions
from memlint.commands.output import to_screen, to_stdout
from memlint.errors import UsageError
from memlint.findings import SEVERITIES
from memlint.formats.schema.suggest import nearest
from memlint.hardware.named import named_gpu
from memlint.lint.plugin_choice import choose_plugins, load_plugins
from memlint.lint.request import LintRequest, StatedFacts
from memlint.lint.select_files import FileChoice, display_path, select_files
from memlint.report.outputs import OUTPUTS
from memlint.repository.files.discovery import FoundFile
from memlint.settings.meaning import is_version, version
from memlint.suppressions.directives import PACKAGES

Options = argparse.Namespace
OutputPairs = tuple[tuple[str, str | None], ...]  # (format, file; None: standard output)


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Formats help for the width of the terminal. argparse itself would import shutil for that, at each start."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_help_width())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Joins each paragraph to one line, which `format_help` wraps later. Indented lines are kept."""
        paragraphs = text.split("\n\n")
        return "\n\n".join(one if "\n " in one else one.replace("\n", " ") for one in paragraphs)


@cache
def _help_width() -> int:
    """COLUMNS, else the columns of the terminal, at most 120; 100 in a pipe."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and len(stated) < 5:
        return int(stated) - 2
    try:
        return min(os.get_terminal_size(1).columns or 100, 120) - 2
    except OSError:
        return 100


DESCRIBE = "--describe-options"  # hidden option: raises `Described` with the verb's parser instead of running the verb
COLOURS = {"auto": None, "always": True, "never": False}


class Described(Exception):
    """Carries a verb's parser to the caller (shell completion, manual page)."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__("a verb's options")
        self.parser = parser


class _Describe(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        raise Described(parser)


class Parser(argparse.ArgumentParser):
    """A verb's parser. Its error message is one line, with the word that was probably meant.

    `other_words`: options of other programs -> what they are called here.
    """

    other_words: Mapping[str, str] = {}

    def format_help(self) -> str:
        from memlint.report.wrap import wrapped  # --help

        return wrapped(super().format_help(), _help_width() + 2)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}{self._hint(message)} (`{self.prog} --help` lists the options)\n")

    def _hint(self, message: str) -> str:
        if "arguments are required: FILE" in message:
            return "; of a model alone, `memlint estimate --model NAME --write-config FILE` writes one"
        unknown = re.match(r"unrecognized arguments: (-[^\s=]*)", message)
        if unknown and unknown[1] in self.other_words:
            return f"; that is {self.other_words[unknown[1]]} here"
        choice = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        near = nearest(unknown[1], self._option_string_actions) if unknown else ""
        if choice:
            near = nearest(choice[1], choice[2].replace("'", "").split(", "))
        return f"; did you mean {near}?" if near else ""


def parser(program: str, description: str, epilog: str = "") -> Parser:
    made = Parser(
        prog=program,
        description=description,
        epilog=epilog,
        allow_abbrev=False,
        formatter_class=Formatter,
    )
    made.add_argument(DESCRIBE, action=_Describe, nargs=0, help=argparse.SUPPRESS)
    return made


def add_paths(to: argparse.ArgumentParser) -> None:
    to.add_argument("paths", nargs="*", metavar="PATH", help="files and folders; - reads standard input (default: .)")
    group = to.add_argument_group("which files")
    group.add_argument("--stdin-filename", metavar="NAME", help="the name that standard input goes by")
    group.add_argument("--exclude", action="append", default=[], metavar="GLOB", help="leave out matching files")
    group.add_argument("--force-exclude", action="store_true", help="apply excludes to named files too (for hooks)")
    group.add_argument("--list-files", action="store_true", help="print the files that would be read, and stop")


def add_hardware(to: argparse.ArgumentParser, gpus: Callable[[str], object] | None = None) -> None:
    """`gpus`: how the number of GPUs is read, by default as a whole number."""
    group = to.add_argument_group("what a config cannot say")
    group.add_argument("--gpu", metavar="NAME", help="A100-80GB, H100, RTX4090, 24GiB, p4d.24xlarge, ...")
    group.add_argument(
        "--gpus", type=gpus or positive, metavar="N", help="GPUs over all nodes (data-parallel world size)"
    )
    group.add_argument("--gpus-per-node", type=positive, metavar="N", help="GPUs in one machine")
    group.add_argument(
        "--model",
        metavar="ID",
        help="the model, an id or a folder; check, fix and plan use it where a config names none that is known",
    )
    group.add_argument("--images", type=whole, metavar="N", help="images in each sample, for models that see")
    group.add_argument(
        "--longest-sample",
        type=positive,
        metavar="N",
        help="tokens of the longest sample in the data (of its prompt, where the run writes completions)",
    )
    group.add_argument("--with", dest="companions", action="append", default=[], metavar="FILE", help="a launch file")
    group.add_argument(
        "--versions",
        action="append",
        default=[],
        metavar="PKG=X",
        help="versions in use: transformers=4.48,torch=2.4",
    )
    group.add_argument("--hub", action="store_true", help="ask the Hugging Face Hub for config.json of unknown models")
    group.add_argument("--exact", action="store_true", help="count unknown families with PyTorch and transformers")


def add_settings(to: argparse.ArgumentParser) -> None:
    group = to.add_argument_group("settings")
    group.add_argument("--settings", metavar="FILE", help="use this settings file and no other")
    group.add_argument("--isolated", action="store_true", help="read no settings file")
    group.add_argument("--show-settings", metavar="FILE", help="print the settings of FILE and where each came from")
    add_plugin(group)
    add_allow_plugins(group)


def add_plugin(to: argparse._ActionsContainer) -> None:
    to.add_argument("--plugin", action="append", default=[], metavar="NAME", help="load a module or a .py file")


def add_allow_plugins(to: argparse._ActionsContainer) -> None:
    to.add_argument("--allow-plugins", action="store_true", help="load the plug-ins that a repository names")


def add_rules(to: argparse.ArgumentParser) -> None:
    group = to.add_argument_group("rules")
    group.add_argument("--select", action="append", default=[], metavar="RULE", help="only these: ids, names, families")
    group.add_argument("--ignore", action="append", default=[], metavar="RULE", help="not these")
    group.add_argument("--profile", choices=("default", "strict", "ci"), help="a set of rules")
    group.add_argument("--preview", action="store_true", help="rules that are still being tried out, too")


def add_output(to: argparse.ArgumentParser, names: Iterable[str] = OUTPUTS) -> None:
    group = to.add_argument_group("output")
    listed = ", ".join(names)
    group.add_argument("--format", action="append", default=[], metavar="NAME", help=f"{listed} (default: text)")
    group.add_argument("--output", action="append", default=[], metavar="FILE", help="where the format before it goes")
    add_colour(group)
    group.add_argument("--jobs", type=positive, metavar="N", help="worker processes (default: as many as pay)")


def add_colour(to: argparse._ActionsContainer) -> None:
    words = "|".join(COLOURS)
    to.add_argument(
        "--color", dest="colour", type=_colour, default=None, metavar=words, help="colour and links (default: auto)"
    )
    to.add_argument("--no-color", dest="colour", action="store_const", const=False, help="as --color never")


def _colour(text: str) -> bool | None:
    """Converts "auto", "always" or "never", for argparse. None ("auto"): terminal and environment decide."""
    if text not in COLOURS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(COLOURS)}")
    return COLOURS[text]


def add_exit(to: argparse.ArgumentParser) -> None:
    group = to.add_argument_group("exit code")
    group.add_argument("--fail-on", choices=SEVERITIES, help="the least severity that exits 1 (default: warning)")
    group.add_argument("--exit-zero", action="store_true", help="exit 0 whatever is found")


def positive(text: str) -> int:
    """A whole number from 1 on, for argparse."""
    return _number(text, 1)


def whole(text: str) -> int:
    """A whole number from 0 on, for argparse."""
    return _number(text, 0)


def _number(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"wants a whole number, not {text!r}{_number_meant(text)}") from None
    if number < least:
        raise argparse.ArgumentTypeError(f"wants a whole number from {least} on")
    return number


def share(text: str) -> float:
    """A share such as 0.9, for argparse. A number above 1 is refused: it was probably meant in percent."""
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"wants a share between 0 and 1, not {text!r}") from None
    if text.endswith("%") or not 0 < number <= 1:
        meant = f"; did you mean {number / 100:g}?" if 0 < number <= 100 else ""
        raise argparse.ArgumentTypeError(f"wants a share between 0 and 1, not {text!r}{meant}")
    return number


_THOUSANDS = {"": 1, "k": 1024, "m": 1024**2}


def _number_meant(text: str) -> str:
    """A question about the number meant by `4k`, `4,096`, `4096.0`, `4bit` or `8x`; "" if the text has no number."""
    found = re.fullmatch(r"[a-z]*(\d+(?:,\d{3})*)(?:\.0+)?\s*(k|m|)[a-z]*", text.strip().lower())
    return f"; did you mean {int(found[1].replace(',', '')) * _THOUSANDS[found[2]]}?" if found else ""


def words(values: list[str]) -> tuple[str, ...]:
    """`--select A,B --select C` as ("A", "B", "C")."""
    return tuple(word for value in values for word in value.replace(",", " ").split())


def versions(values: list[str]) -> dict[str, tuple[int, ...]]:
    """`transformers=4.48,torch=2.4` as numbers by package. Raises UsageError."""
    found = {}
    for word in words(values):
        name, _, text = word.replace("==", "=").partition("=")
        if name not in PACKAGES:
            near = nearest(name, PACKAGES)
            hint = f"did you mean {near}?" if near else f"one of {', '.join(PACKAGES)}"
            raise UsageError(f"--versions {word}: unknown package {name!r}: {hint}")
        if not is_version(text):
            raise UsageError(f"--versions {word}: write a version behind the name: {name}=4.48")
        found[name] = version(text)
    return found


def formats(options: Options, allowed: Iterable[str] = (), verb: str = "") -> OutputPairs:
    """The requested (format, file) pairs; file None: standard output. `allowed`: by default every report format.

    Raises UsageError.
    """
    names: list[str] = options.format or ["text"]
    listed = tuple(allowed) or (*OUTPUTS, *extensions.outputs)
    for name in names:
        if name not in listed:
            where = f" for {verb}" if verb else ""
            raise UsageError(f"unknown format {name!r}{where}: {_either(listed)}")
    files: list[str | None] = list(options.output)
    if len(files) > len(names):
        raise UsageError("more --output than --format: give one --format for each")
    pairs = tuple(zip(names, files + [None] * (len(names) - len(files))))
    if sum(file in (None, "-") for _, file in pairs) > 1:
        raise UsageError("two formats would go to standard output: give each of them an --output FILE")
    return tuple((name, None if file == "-" else file) for name, file in pairs)


def _either(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) <= 3 else f"one of {', '.join(words)}"


def fill_defaults(given: Options) -> None:
    """Sets the options that a verb does not have to their defaults."""
    blank: dict[str, Any] = {"paths": [], "companions": [], "select": [], "ignore": [], "isolated": False}
    blank |= {"hub": False, "exact": False, "plugin": [], "allow_plugins": False, "versions": []}
    blank |= {"exclude": [], "force_exclude": False, "hook": False, "preview": False, "list_files": False}
    names = ("gpu", "gpus", "gpus_per_node", "model", "settings", "show_settings", "profile", "stdin_filename")
    blank |= {"images": None, "longest_sample": None, **dict.fromkeys(names)}
    for name, value in blank.items():
        if not hasattr(given, name):
            setattr(given, name, value)


def handle_info_flags(given: Options) -> bool:
    """Handles `--list-files` and `--show-settings` of any verb; True if one was given and its output printed.

    Loads plug-ins first, as `--gpu` may name a GPU of a plug-in. Raises UsageError.
    """
    fill_defaults(given)
    load_chosen_plugins(given)
    if given.show_settings:
        from memlint.lint.settings_table import settings_table

        option_values = {name: getattr(given, name, None) for name in ("preview", "fail_on", "baseline")}
        request = lint_request(
            Options(**{**vars(given), "paths": []})
        )  # without paths, so that standard input is not read
        to_screen(settings_table(given.show_settings, request, option_values))
        return True
    if given.list_files:
        to_stdout("".join(f"{item.path}\n" for item in config_files(given)))
        return True
    return False


def load_chosen_plugins(given: Options) -> tuple[str, ...]:
    """Loads the plug-ins of the invocation, once, and returns their names.

    Writes to standard error which plug-ins of the repository are not loaded. Raises UsageError.
    """
    if not hasattr(given, "loaded_plugins"):
        roots = [path for path in given.paths or ["."] if path != "-"]
        chosen = choose_plugins(given.plugin, roots, given.settings, given.isolated, given.allow_plugins)
        if chosen.refused:
            names = ", ".join(os.path.relpath(name) if os.path.isabs(name) else name for name in chosen.refused)
            sys.stderr.write(
                f"memlint: plug-ins of this repository are not loaded: {names} (--allow-plugins loads them)\n"
            )
        load_plugins(chosen.names)
        given.loaded_plugins = chosen.names
    found: tuple[str, ...] = given.loaded_plugins
    return found


def lint_request(given: Options, fixes: bool = True) -> LintRequest:
    """The request that the options describe. Reads standard input if a path is "-". Raises UsageError."""
    plugins = load_chosen_plugins(given)
    return LintRequest(
        stated_facts(given),
        words(given.select),
        words(given.ignore),
        given.profile or "",
        given.preview,
        fixes,
        os.getcwd(),
        ((_stdin_name(given), sys.stdin.buffer.read()),) if "-" in given.paths else (),
        plugins=plugins,
    )


def stated_facts(given: Options) -> StatedFacts:
    """The facts that the options state about every file. Raises UsageError."""
    gpu, count = named_gpu(given.gpu)
    return StatedFacts(
        gpu,
        given.gpus or count,
        given.gpus_per_node or count,
        given.model or "",
        tuple(given.companions),
        given.hub,
        given.settings,
        given.isolated,
        given.exact,
        versions(given.versions),
        given.images,
        given.longest_sample,
    )


def config_files(given: Options) -> list[FoundFile]:
    """The files that the options choose, in order. Notes go to standard error. Raises UsageError for a missing one."""
    load_chosen_plugins(given)
    roots = tuple(path for path in given.paths or ["."] if path != "-")
    stdin = _stdin_name(given) if "-" in given.paths else ""
    choice = FileChoice(roots, tuple(given.exclude), given.force_exclude, given.hook, stdin)
    found = select_files(choice, stated_facts(given))
    for note in dict.fromkeys(item.note for item in found if item.note):
        sys.stderr.write(f"memlint: {note}\n")
    return [item for item in found if not item.note]


def _stdin_name(given: Options) -> str:
    return display_path(given.stdin_filename or "stdin")
