"""Framework versions that a file gives away: the newest releases whose arguments still have its keys.

HfArgumentParser and TrlParser refuse a key that no argument has (transformers 5.23 hf_argparser.py, parse_dict), so a
file with `max_seq_length` cannot be for the TRL of today. Versions that somebody states are never second-guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from memlint._record import NamedTuple
from memlint.formats.fields import Section
from memlint.formats.schema.validate import compiled_schema
from memlint.run import Origin

Version = tuple[int, ...]

# The last release before each one that starts a new count.
_LAST_BEFORE: Mapping[tuple[str, Version], Version] = {("transformers", (5, 0)): (4, 57), ("trl", (1, 0)): (0, 29)}
# TRL's releases before 0.27 are older than transformers 5.0 (both January 2026).
_TRL_WITH_TRANSFORMERS_5: Version = (0, 27)
# TRL's releases, newest first, and the oldest transformers that the packaging of each takes (setup.py, setup.cfg and
# pyproject.toml of every tag): what a release before that can stand beside.
_TRL_NEEDS: tuple[tuple[Version, Version], ...] = (
    ((0, 22), (4, 56, 1)),
    ((0, 20), (4, 55)),
    ((0, 19), (4, 53, 2)),
    ((0, 18), (4, 51)),
    ((0, 17), (4, 50)),
    ((0, 11), (4, 46)),
    ((0, 10), (4, 40)),
)
# Keys that scripts declare for themselves, or that were accepted long after they were announced to go.
NO_EVIDENCE = frozenset({"use_flash_attention_2", "model_max_length"})


class Evidence(NamedTuple):
    """`version`: the newest release that has `key`."""

    version: Version
    key: str
    origin: Origin


def evidence(section: Section, schema: str, frameworks: Iterable[str]) -> dict[str, Evidence]:
    """The oldest bound per framework that the section's keys set; nothing for a framework that none bounds."""
    found: dict[str, Evidence] = {}
    removed = _removed(schema)
    for key in section.value.keys() & removed.keys():
        framework, version = removed[key]
        known = found.get(framework)
        if framework in frameworks and (known is None or (version, key) < (known.version, known.key)):
            detail = f"the newest {framework} that takes `{key}`"
            origin = section.origin(key, detail=detail)._replace(kind="inferred")
            found[framework] = Evidence(version, key, origin)
    return found


def trainer_versions(
    section: Section, schema: str, said: Mapping[str, Version], is_trl: bool
) -> tuple[dict[str, Version], dict[str, Origin]]:
    """Versions by framework for a Trainer file, stated or given away, and the origins of those given away."""
    found = evidence(section, schema, ("transformers", "trl") if is_trl else ("transformers",))
    trl = found.get("trl")
    if trl and trl.version < _TRL_WITH_TRANSFORMERS_5:
        own = found.get("transformers")
        if own is None or own.version > (4, 57):
            detail = f"trl {_text(trl.version)} is older than transformers 5"
            found["transformers"] = Evidence((4, 57), trl.key, trl.origin._replace(detail=detail))
    unsaid = {name: one for name, one in found.items() if name not in said}
    if is_trl and "trl" not in said and "transformers" in said:
        unsaid.update(_trl_beside(said["transformers"], unsaid.get("trl")))
    versions = {**said, **{name: one.version for name, one in unsaid.items()}}
    return versions, {name: one.origin for name, one in unsaid.items()}


def _trl_beside(transformers: Version, known: Evidence | None) -> dict[str, Evidence]:
    """The newest TRL whose packaging takes a stated transformers, where that is older than `known` and the newest."""
    bounds = [(release, need) for release, need in _TRL_NEEDS if transformers < need[: len(transformers)]]
    if not bounds or (known is not None and known.version <= bounds[-1][0]):
        return {}
    release, need = bounds[-1]
    detail = f"newer releases of trl need transformers {_text(need)}"
    return {"trl": Evidence(release, "", Origin("inferred", detail=detail))}


class LlamaFactoryRelease(NamedTuple):
    """A release of LLaMA-Factory and what its packaging asks for (setup.py, requirements.txt, pyproject.toml)."""

    version: Version
    oldest_transformers: Version
    newest: Mapping[str, Version]


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


def llamafactory_versions(
    section: Section, schema: str, said: Mapping[str, Version]
) -> tuple[dict[str, Version], dict[str, Origin]]:
    """Versions by framework for a LLaMA-Factory file: what is stated, else what its newest fitting release allows."""
    given_away = evidence(section, schema, ("transformers", "llamafactory"))
    found = {name: one for name, one in given_away.items() if name not in said}
    bound = said.get("llamafactory") or (found["llamafactory"].version if "llamafactory" in found else None)
    below = said.get("transformers") or (found["transformers"].version if "transformers" in found else None)
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
        return {**versions, **said}, {}
    why = found.get("llamafactory") or found["transformers"]
    return {**versions, **said}, {name: why.origin for name in versions if name not in said}


@cache
def _removed(schema: str) -> dict[str, tuple[str, Version]]:
    """Key -> framework and the last version that has it, for the keys of `schema` that newer releases refuse."""
    properties = compiled_schema(schema).schema["properties"]
    return {
        key: _before(sub["x-memlint-removed-in"])
        for key, sub in properties.items()
        if "x-memlint-removed-in" in sub and key not in NO_EVIDENCE
    }


def _before(removed: str) -> tuple[str, Version]:
    """`trl 0.20` -> trl, (0, 19)."""
    framework, _, text = removed.partition(" ")
    version = tuple(map(int, text.split(".")))
    while len(version) > 2 and version[-1] == 0:
        version = version[:-1]
    special = _LAST_BEFORE.get((framework, version))
    return framework, special or (*version[:-1], version[-1] - 1)


def _text(version: Version) -> str:
    return ".".join(map(str, version))
