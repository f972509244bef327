"""Releases of LLaMA-Factory, the libraries that each allows, and which of them a file is for."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from memlint._record import NamedTuple
from memlint.formats.base import Context
from memlint.formats.fields import Section
from memlint.formats.versions import Version, evidence
from memlint.run import Origin
from memlint.source.document import Document


class LlamaFactoryRelease(NamedTuple):
    """A release of LLaMA-Factory and what its packaging asks for (setup.py, requirements.txt, pyproject.toml)."""

    version: Version
    oldest_transformers: Version
    newest: Mapping[str, Version]


_OLD_PROGRAMS = ("train_bash.py", "evaluate.py", "export_model.py", "cli_demo.py")
_RELEASED_FOLDER = r"(?:^|/)llama[-_]?factory[-_]v?(0\.[0-9]\.[0-9]+)(?:/|$)"
_PACKAGES = ("transformers", "torch", "peft", "accelerate", "trl", "deepspeed")


def _release(version: Version, oldest_transformers: Version, *newest: Version) -> LlamaFactoryRelease:
    return LlamaFactoryRelease(version, oldest_transformers, dict(zip(_PACKAGES, newest, strict=True)))


# Newest first. Up to 0.8.3 nothing was bounded from above: what was current when each was released; torch likewise.
LLAMAFACTORY: tuple[LlamaFactoryRelease, ...] = (
    _release((0, 9, 5), (4, 55), (5, 8), (2, 13), (0, 18), (1, 11), (0, 24), (0, 18)),
    _release((0, 9, 4), (4, 51), (4, 57), (2, 9), (0, 17), (1, 11), (0, 24), (0, 16)),
    _release((0, 9, 3), (4, 45), (4, 52), (2, 7), (0, 15), (1, 7), (0, 9), (0, 16)),
    _release((0, 9, 2), (4, 41), (4, 49), (2, 6), (0, 12), (1, 2), (0, 9), (0, 16)),
    _release((0, 9, 1), (4, 41), (4, 46), (2, 5), (0, 12), (1, 0), (0, 9), (0, 14)),
    _release((0, 9, 0), (4, 41), (4, 45), (2, 4), (0, 12), (0, 33), (0, 9), (0, 14)),
    _release((0, 8, 3), (4, 41), (4, 42), (2, 3), (0, 11), (0, 32), (0, 9), (0, 14)),
    _release((0, 7, 1), (4, 37), (4, 40), (2, 3), (0, 10), (0, 30), (0, 8), (0, 14)),
)


NEWEST: Mapping[str, Version] = {**LLAMAFACTORY[0].newest, "llamafactory": LLAMAFACTORY[0].version}


def with_libraries(stated: Mapping[str, Version]) -> dict[str, Version]:
    """The stated versions with the newest libraries that a stated release of LLaMA-Factory allows. A release older than
    those of the table allows those of its oldest."""
    bound = stated.get("llamafactory")
    release = next((one for one in LLAMAFACTORY if bound and one.version <= bound), LLAMAFACTORY[-1])
    return {**(release.newest if bound else {}), **stated}


def with_release_of_program(document: Document, context: Context) -> Context:
    """`context` with the release that a folder's name states (`cd LLaMA-Factory-0.8.2`), else with the newest one that
    has the program of a command, where nothing else states one: src/train.py was called src/train_bash.py until 0.7.0,
    and the programs beside it left with that name (commit ce8200ad9 of 3 May 2024). Of older releases the table has the
    next one."""
    if "llamafactory" in context.versions:
        return context
    found, detail = _in_a_name(document), "the name of LLaMA-Factory's folder"
    program = posixpath.basename(document.start.program.entry) if document.start is not None else ""
    if not found and program in _OLD_PROGRAMS:
        found, detail = LLAMAFACTORY[-1].version, f"the newest llamafactory with {program}"
    if not found:
        return context
    return context._replace(
        versions={**context.versions, "llamafactory": found},
        version_origins={**context.version_origins, "llamafactory": Origin("inferred", detail=detail)},
    )


_SINCE_NAMED_ATTENTION: Version = (0, 7)


def takes_attention_as_flag(document: Document, context: Context) -> bool:
    """Whether `flash_attn` is a truth value: until its kernels got names, in 0.7.0 the latest, whose programs may be of
    an older commit (056d2d956 llmtuner/hparams/model_args.py, ModelArguments)."""
    program = posixpath.basename(document.start.program.entry) if document.start is not None else ""
    return program in _OLD_PROGRAMS or () < context.versions.get("llamafactory", ()) < _SINCE_NAMED_ATTENTION


def _in_a_name(document: Document) -> Version:
    """The release in the name of the folder that a command works in, of its program's, or of the file's own."""
    program = document.start.program if document.start is not None else None
    names = (document.path,) if program is None else (program.folder, program.entry, document.path)
    for name in map(str.lower, names):
        if "factory" in name and (found := re.search(_RELEASED_FOLDER, name)):
            return tuple(map(int, found[1].split(".")))
    return ()


def llamafactory_versions(
    section: Section, schema: str, stated: Mapping[str, Version]
) -> tuple[dict[str, Version], dict[str, Origin]]:
    """Versions by framework for a LLaMA-Factory file: what is stated, else what its newest fitting release allows."""
    from_keys = evidence(section, schema, ("transformers", "llamafactory"))
    found = {name: one for name, one in from_keys.items() if name not in stated}
    bound = stated.get("llamafactory") or (found["llamafactory"].version if "llamafactory" in found else None)
    below = stated.get("transformers") or (found["transformers"].version if "transformers" in found else None)
    release = next(
        (
            one
            for one in LLAMAFACTORY
            if (bound is None or one.version <= bound) and (below is None or one.oldest_transformers <= below)
        ),
        LLAMAFACTORY[-1],
    )
    versions: dict[str, Version] = {**release.newest, "llamafactory": bound or release.version}
    if below is not None and below < versions["transformers"]:
        versions["transformers"] = below
    if release is LLAMAFACTORY[0] or not found:
        return {**versions, **stated}, {}
    why = found.get("llamafactory") or found["transformers"]
    return {**versions, **stated}, {name: why.origin for name in versions if name not in stated}
