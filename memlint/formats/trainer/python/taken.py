"""Which releases take what a script gives a trainer and its configuration: what newer ones refuse, what none takes
together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from memlint._record import NamedTuple
from memlint.formats.trainer.python.argument_releases import RELEASES
from memlint.formats.trainer.python.libraries import FLAGS
from memlint.formats.versions import Version, last_with
from memlint.source.document import NoRelease, OutdatedArguments
from memlint.source.python.calls import HANDED_ON
from memlint.source.python.values import Either, Items, Known, Made, Undetermined, Value, plain

# A script that asks a trainer, a class of arguments or a release what it takes: it gives it nothing else. An import of
# Unsloth gives TRL's trainers a translation of older arguments (unsloth 2026.10.9 trainer.py, _patch_trl_trainer).
TAKES_WHAT_IT_ASKS = re.compile(
    r"\bsignature\(|\bco_varnames\b|\bexcept TypeError\b|\b(?:trl|transformers)\.__version__"
    r"|__(?:dataclass_fields|annotations)__|\bfields\(|\bversion\(['\"](?:trl|transformers)['\"]|\bhasattr\(\w*(?:Config|Trainer|Arguments)\b"
    r"|^\s*(?:from|import) unsloth\b",
    re.MULTILINE,
)
# The same of a class of arguments alone.
ASKS_FOR_FIELDS = re.compile(
    r"(?:Arguments|Config)\.__(?:dataclass_fields|annotations)__|\b(?:fields|signature)\([\w.]*(?:Arguments|Config)\b"
)
# Transformers' trainers take `tokenizer` until 4.57 (trainer.py, gone in 5.0).
_TOKENIZER_OF_TRANSFORMERS: Version = (4, 57)
# The last release of TRL whose trainers take arguments of their configuration.
_BESIDE_CONFIGURATION: Version = (0, 12)


class Taken(NamedTuple):
    """The first and the last minor release of TRL that takes an argument; () where its class had it from the start, or
    has it still."""

    first: Version = ()
    last: Version = ()


_ALWAYS = Taken()


@cache
def _of_class(name: str) -> dict[str, Taken]:
    words = RELEASES.get(name, "").split()
    return {argument: Taken(*map(_version, span.split("-"))) for argument, span in zip(words[::2], words[1::2])}


def _version(text: str) -> Version:
    return tuple(map(int, text.split("."))) if text else ()


def outdated(trainer: Made, framework: str) -> tuple[OutdatedArguments, ...]:
    """What a trainer is given that newer releases do not take. A class of the repository may take more by itself."""
    given, known = handed_to_library(trainer), _of_class(trainer.last)
    found = []
    last = _TOKENIZER_OF_TRANSFORMERS if framework == "transformers" else known.get("tokenizer", _ALWAYS).last
    if last and "tokenizer" in given:
        found.append(OutdatedArguments(trainer.last, framework, last, _next(last), ("tokenizer",), _INSTEAD))
    beside = tuple(sorted(name for name in given if name in known and known[name].last == _BESIDE_CONFIGURATION))
    beside = tuple(name for name in beside if name != "tokenizer")
    if beside:
        instead = f"{_configuration(trainer)} has {'it' if len(beside) == 1 else 'them'}"
        instead += " (`max_seq_length` as `max_length` since 0.16)" if "max_seq_length" in beside else ""
        found.append(OutdatedArguments(trainer.last, "trl", _BESIDE_CONFIGURATION, "0.13", beside, instead))
    return tuple(found)


_INSTEAD = "use `processing_class`"


def _next(last: Version) -> str:
    return "5.0" if last == _TOKENIZER_OF_TRANSFORMERS else f"{last[0]}.{last[1] + 1}"


def _configuration(trainer: Made) -> str:
    return f"{trainer.last.removesuffix('Trainer')}Config"


def handed_to_library(trainer: Made) -> frozenset[str]:
    """The names of what TRL's or transformers' own class is certainly given."""
    own, given = trainer.attributes.get(HANDED_ON), certain_arguments(trainer)
    return given & {str(plain(name)) for name in own.values} if isinstance(own, Items) else given


def certain_arguments(made: Made) -> frozenset[str]:
    """The names of the arguments that a call certainly has. One that only some branches set may be there for the
    releases that take it: `kwargs = {"tokenizer": tok} if is_old() else {"processing_class": tok}`."""
    return frozenset(name for name, value in made.arguments.items() if not _is_of_some_branches(value))


def _is_of_some_branches(value: Value) -> bool:
    return isinstance(value, Either) and any(isinstance(one, Undetermined) for one in value.values)


def _of_configuration(arguments: Value | None) -> Iterator[tuple[str, str, Taken]]:
    """The class, the argument and its releases, of each that a call of a class of TRL has."""
    if isinstance(arguments, Made) and arguments.name.startswith("trl"):
        known = _of_class(arguments.last)
        yield from ((arguments.last, name, known[name]) for name in sorted(known.keys() & certain_arguments(arguments)))


def no_release(trainer: Made, arguments: Value | None) -> NoRelease | None:
    """What a trainer and its arguments are given that no release takes together."""
    known = _of_class(trainer.last)
    of_trainer = ((trainer.last, name, known[name]) for name in sorted(handed_to_library(trainer)) if name in known)
    found = [*of_trainer, *_of_configuration(arguments)]
    gone = min((one for one in found if one[2].last), key=lambda one: one[2].last, default=None)
    new = max((one for one in found if one[2].first), key=lambda one: one[2].first, default=None)
    if gone is None or new is None or new[2].first <= gone[2].last:
        return None
    return NoRelease("trl", *gone[:2], gone[2].last, *new[:2], new[2].first)


def newest(
    trainer: Made,
    framework: str,
    arguments: Value | None,
    seen: list[Made],
    gone: tuple[OutdatedArguments, ...],
) -> dict[str, tuple[Version, str]]:
    """The newest release that takes what a trainer is given, and the flags that the command gives its model."""
    found = [(one.framework, one.last, one.names[0]) for one in gone]
    found += [("trl", taken.last, name) for _, name, taken in _of_configuration(arguments) if taken.last]
    models = (made for made in seen if framework == "trl" and made.last == "ModelConfig")
    given = (one for made in models if isinstance(one := made.attributes.get(FLAGS), Items))
    flags = {str(flag.value) for one in given for flag in one.values if isinstance(flag, Known)}
    lasts = ((*last, name) for name in sorted(flags) if (last := last_with("trainer.json", name)) is not None)
    bounds = sorted((*found, *lasts), key=lambda bound: bound[1], reverse=True)
    return {framework: (version, name) for framework, version, name in bounds}
