"""Releases of Axolotl, the libraries that each allows, and which of them a file is for."""

from __future__ import annotations

from collections.abc import Mapping

from memlint._record import NamedTuple
from memlint.formats.fields import Section
from memlint.formats.schema.validate import compiled_schema
from memlint.formats.versions import Evidence, evidence
from memlint.run import Origin

NAME = "axolotl"
SCHEMA = "axolotl.json"
Version = tuple[int, ...]


class Packaging(NamedTuple):
    """The last patch of a minor release of Axolotl, and the newest libraries that its packaging allows."""

    version: Version
    newest: Mapping[str, Version]


_PACKAGES = ("transformers", "torch", "peft", "accelerate", "trl", "deepspeed")


def _packaging(version: Version, *newest: Version) -> Packaging:
    return Packaging(version, dict(zip(_PACKAGES, newest, strict=True)))


# Newest first: requirements.txt and setup.py, from 0.17 on pyproject.toml, at each tag. What is not bounded from above
# there (torch up to 0.17, transformers in 0.6, trl and deepspeed in 0.4): what its tests ran with (.github/workflows),
# or what was current.
RELEASES: tuple[Packaging, ...] = (
    _packaging((0, 21), (5, 20), (2, 14), (0, 21), (1, 15), (1, 14), (0, 18)),
    _packaging((0, 20), (5, 17), (2, 14), (0, 21), (1, 15), (1, 13), (0, 18)),
    _packaging((0, 19), (5, 16), (2, 13), (0, 20), (1, 13), (1, 9), (0, 18)),
    _packaging((0, 18), (5, 14), (2, 12), (0, 19), (1, 13), (1, 8), (0, 18)),
    _packaging((0, 17), (5, 9), (2, 10), (0, 19), (1, 13), (1, 5), (0, 18)),
    _packaging((0, 16, 1), (5, 5), (2, 10), (0, 18), (1, 13), (0, 29), (0, 18)),
    _packaging((0, 15), (5, 3), (2, 10), (0, 18), (1, 13), (0, 29), (0, 18)),
    _packaging((0, 14), (5, 0), (2, 9), (0, 18), (1, 12), (0, 27), (0, 18)),
    _packaging((0, 13, 2), (4, 57), (2, 9), (0, 18), (1, 12), (0, 27), (0, 18)),
    _packaging((0, 12, 2), (4, 55), (2, 7), (0, 17), (1, 10), (0, 21), (0, 17)),
    _packaging((0, 11), (4, 53), (2, 7), (0, 15), (1, 8), (0, 18), (0, 17)),
    _packaging((0, 10, 1), (4, 52), (2, 7), (0, 15), (1, 7), (0, 18), (0, 17)),
    _packaging((0, 9, 2), (4, 51), (2, 7), (0, 15), (1, 6), (0, 17), (0, 15)),
    _packaging((0, 8, 1), (4, 51), (2, 6), (0, 15), (1, 6), (0, 16), (0, 15)),
    _packaging((0, 7, 1), (4, 49), (2, 6), (0, 14), (1, 3), (0, 15), (0, 16)),
    _packaging((0, 6), (4, 47), (2, 5), (0, 14), (1, 2), (0, 12), (0, 16)),
    _packaging((0, 5, 2), (4, 46), (2, 5), (0, 13), (1, 1), (0, 12), (0, 15)),
    _packaging((0, 4), (4, 37), (2, 1), (0, 7), (0, 26), (0, 7), (0, 13)),
)
# What a file is for that says nothing of it: later releases need Python 3.12, and shard with FSDP2 alone.
_ASSUMED: Version = (0, 19)


def axolotl_versions(section: Section, stated: Mapping[str, Version]) -> tuple[dict[str, Version], Origin | None]:
    """Versions by package: what is stated, else what the stated release of Axolotl allows, else the newest that takes
    the file's keys and the stated transformers; and where a key is that bounds it."""
    found = None if NAME in stated else _evidence(section)
    shown = (one for one in (found and found.version, _pinned_by(stated)) if one)
    bound = stated.get(NAME) or min(shown, default=_ASSUMED)
    release = next((one for one in RELEASES if one.version[:2] <= bound[:2]), RELEASES[-1])
    whole = release.version if release.version[: len(bound)] == bound else bound
    return {**release.newest, **stated, NAME: whole}, found.origin if found else None


def _pinned_by(stated: Mapping[str, Version]) -> Version | None:
    """The newest release that pins the stated transformers or an older one: each pins one (requirements.txt)."""
    transformers = stated.get("transformers")
    if not transformers:
        return None
    return next(
        (one.version for one in RELEASES if one.newest["transformers"] <= transformers[:2]), RELEASES[-1].version
    )


def _evidence(section: Section) -> Evidence | None:
    """Axolotl ignores a key that it does not know: only one tells its release whose value the next ones refuse."""
    properties = compiled_schema(SCHEMA).schema["properties"]
    refused = {
        key: value
        for key, value in section.value.items()
        if value and "is refused" in properties.get(key, {}).get("x-memlint-note", "")
    }
    return evidence(section._replace(value=refused), SCHEMA, (NAME,)).get(NAME)
