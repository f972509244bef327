"""Converts an editor's settings to a request of the linter. They have the same rank as command line options.

{"gpu": "H100-80GB", "gpus": 8, "gpusPerNode": 8, "model": "org/name", "with": ["accelerate.yaml"],
 "versions": {"transformers": "4.48"}, "images": 1, "longestSample": 900, "hub": false, "settings": "memlint.yaml",
 "isolated": false, "select": ["MEM001"], "ignore": [], "profile": "strict", "preview": false}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.errors import UsageError
from memlint.formats.schema.suggest import nearest
from memlint.hardware.named import named_gpu
from memlint.lint.request import LintRequest, StatedFacts
from memlint.settings.meaning import is_version, version
from memlint.suppressions.directives import PACKAGES

PROFILES = ("", "default", "strict", "ci")


class Configuration(NamedTuple):
    """A request, and the mistakes in the settings that it was made from."""

    request: LintRequest
    mistakes: tuple[str, ...] = ()


class _Wrong(Exception):
    pass


def configuration(settings: Any, cwd: str) -> Configuration:
    """The request that an editor's settings describe. A wrong setting is ignored and listed in `mistakes`."""
    given = settings if isinstance(settings, Mapping) else {}
    mistakes = [f"unknown setting `{name}`{_hint(name)}" for name in given if name not in _MEANING]
    found: dict[str, Any] = {}
    for name, read in _MEANING.items():
        if given.get(name) in (None, ""):
            continue
        try:
            found[name] = read(given[name])
        except (_Wrong, UsageError) as error:
            mistakes.append(f"setting `{name}`: {error}")
    gpu, count = found.get("gpu", (None, None))
    facts = StatedFacts(
        gpu,
        found.get("gpus") or count,
        found.get("gpusPerNode") or count,
        found.get("model", ""),
        found.get("with", ()),
        found.get("hub", False),
        found.get("settings"),
        found.get("isolated", False),
        versions=found.get("versions", {}),
        images=found.get("images"),
        longest_sample=found.get("longestSample"),
    )
    selection = found.get("select", ()), found.get("ignore", ()), found.get("profile", ""), found.get("preview", False)
    return Configuration(LintRequest(facts, *selection, fixes=False, cwd=cwd), tuple(mistakes))


def _hint(name: object) -> str:
    near = nearest(str(name), _MEANING)
    return f": did you mean `{near}`?" if near else ""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Wrong("wants text")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Wrong("wants true or false")
    return value


def _whole(least: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise _Wrong(f"wants a whole number from {least} on")
        return value

    return read


def _words(value: Any) -> tuple[str, ...]:
    words = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise _Wrong("wants a list of names")
    return tuple(words)


def _profile(value: Any) -> str:
    if value not in PROFILES:
        raise _Wrong(f"wants one of {', '.join(PROFILES[1:])}")
    return str(value)


def _versions(value: Any) -> dict[str, tuple[int, ...]]:
    if not isinstance(value, Mapping):
        raise _Wrong('wants versions by package: {"transformers": "4.48"}')
    for name, text in value.items():
        if name not in PACKAGES or not is_version(str(text)):
            raise _Wrong(f"{name}: {text} is no version of a package that memlint knows ({', '.join(PACKAGES)})")
    return {name: version(str(text)) for name, text in value.items()}


_MEANING: Mapping[str, Callable[[Any], Any]] = {
    "gpu": lambda value: named_gpu(_text(value)),
    "gpus": _whole(1),
    "gpusPerNode": _whole(1),
    "model": _text,
    "with": _words,
    "versions": _versions,
    "images": _whole(0),
    "longestSample": _whole(1),
    "hub": _flag,
    "settings": _text,
    "isolated": _flag,
    "select": _words,
    "ignore": _words,
    "profile": _profile,
    "preview": _flag,
}
