"""The arguments of the library's functions: a path, a file's text, a dict, or a run; and facts that no config
states."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, Union

from memlint._record import NamedTuple
from memlint.errors import Error, UsageError
from memlint.hardware.named import named_gpu
from memlint.lint.request import LintRequest, StatedFacts
from memlint.lint.select_files import FileChoice, display_path, select_files
from memlint.repository.files.discovery import FoundFile
from memlint.repository.workspace import Workspace, in_memory
from memlint.settings.meaning import is_version, version
from memlint.suppressions.directives import PACKAGES

Source = Union[str, "os.PathLike[str]", Mapping[str, Any]]
Contents = Union[str, bytes, Mapping[str, Any]]


class CallFacts(NamedTuple):
    """Facts that a config does not state; see the options of the same names (`memlint estimate --help`)."""

    gpu: str | None = None
    gpus: int | None = None
    gpus_per_node: int | None = None
    model: str | None = None
    images: int | None = None
    longest_sample: int | None = None
    versions: Mapping[str, str] | None = None
    settings: str | os.PathLike[str] | None = None
    isolated: bool = False


class GivenFiles(NamedTuple):
    """The files to lint. `workspace`: holds files in memory; None for files on disk."""

    found: tuple[FoundFile, ...]
    workspace: Workspace | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(item.path for item in self.found)


def request(facts: CallFacts, files: GivenFiles, fixes: bool = False) -> LintRequest:
    """How to lint `files`. Files in memory have no settings and no repository around them. Raises Error."""
    isolated = facts.isolated or files.workspace is not None
    return LintRequest(
        stated(facts, isolated), fixes=fixes, cwd="" if files.workspace else os.getcwd(), assumptions=True
    )


def stated(facts: CallFacts, isolated: bool = False) -> StatedFacts:
    """The keywords of a call, checked. Raises UsageError."""
    card, count = named_gpu(facts.gpu)
    counts = {"gpus": facts.gpus, "gpus_per_node": facts.gpus_per_node, "longest_sample": facts.longest_sample}
    for name, number in counts.items():
        if number is not None and (not isinstance(number, int) or number < 1):
            raise UsageError(f"{name}={number!r}: wants a whole number from 1 on")
    return StatedFacts(
        card,
        facts.gpus or count,
        facts.gpus_per_node or count,
        facts.model or "",
        settings_file=os.fspath(facts.settings) if facts.settings is not None else None,
        isolated=isolated,
        versions=_versions(facts.versions or {}),
        images=facts.images,
        longest_sample=facts.longest_sample,
    )


def _versions(stated: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    for name, text in stated.items():
        if name not in PACKAGES:
            raise UsageError(f"versions: unknown package {name!r}: one of {', '.join(PACKAGES)}")
        if not is_version(str(text)):
            raise UsageError(f"versions: {name}={text!r} is no version: write '4.48'")
    return {name: version(str(text)) for name, text in stated.items()}


def refuse_beside_question(
    path: str | None, files: Mapping[str, Contents] | None, images: int | None, longest_sample: int | None
) -> None:
    """Raises UsageError for a keyword about files if no source was given."""
    given = {"path": path, "files": files, "images": images, "longest_sample": longest_sample}
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name}=: is about a file, and no source was given")


def is_text(source: object) -> bool:
    """Whether a string is the text of a file, not a path: it has a line break or is a JSON object."""
    return isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{"))


def one_file(source: Source, path: str | None, beside: Mapping[str, Contents] | None) -> GivenFiles:
    """The single config of a call. Raises Error if it does not exist."""
    if isinstance(source, Mapping) or path is not None or is_text(source):
        return _in_memory(source, path, beside)
    name = display_path(os.fspath(source))
    if os.path.isdir(name):
        raise Error(f"{name}: a folder; name a file in it, or `memlint.check` the folder", name)
    return GivenFiles((FoundFile(name, named=True),))


def some_files(
    sources: Source | Iterable[Source], path: str | None, beside: Mapping[str, Contents] | None
) -> GivenFiles:
    """The configs of a call: files, texts or dicts, and all configs below folders. Raises Error."""
    if isinstance(sources, (str, os.PathLike, Mapping)):
        if isinstance(sources, Mapping) or path is not None or is_text(sources):
            return _in_memory(sources, path, beside)
        sources = (sources,)
    roots = tuple(os.fspath(each) for each in sources if not isinstance(each, Mapping))
    found = select_files(FileChoice(roots), StatedFacts()) if roots else []
    return GivenFiles(tuple(item for item in found if not item.note))


def _in_memory(source: Source, path: str | None, beside: Mapping[str, Contents] | None) -> GivenFiles:
    contents = source if isinstance(source, Mapping) else os.fspath(source)
    name = path or ("config.json" if isinstance(source, Mapping) or is_json(contents) else "config.yaml")
    texts = {each: text_of(held) for each, held in {**(beside or {}), name: contents}.items()}
    return GivenFiles((FoundFile(name, named=True),), in_memory(texts))


def is_json(contents: object) -> bool:
    return isinstance(contents, str) and contents.lstrip().startswith("{")


def text_of(contents: Contents) -> str:
    """A file's text. A dict becomes JSON, which keeps types; values of types that JSON lacks are written as text."""
    if isinstance(contents, Mapping):
        return json.dumps(dict(contents), indent=2, default=str)
    return contents.decode("utf-8", "replace") if isinstance(contents, bytes) else contents
