"""Which releases of transformers and TRL a Trainer file is for: those stated, else what its keys give away."""

from __future__ import annotations

from collections.abc import Mapping

from memlint.formats.fields import Section
from memlint.formats.versions import Evidence, Version, evidence
from memlint.run import Origin

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


def trainer_versions(
    section: Section, schema: str, stated: Mapping[str, Version], is_trl: bool, oldest: Version = ()
) -> tuple[dict[str, Version], dict[str, Origin]]:
    """Versions by framework for a Trainer file, stated or given away, and the origins of those given away.

    `oldest`: the transformers that first has the model's family. What gives an older one away is no evidence: something
    else takes that key.
    """
    found = evidence(section, schema, ("transformers", "trl") if is_trl else ("transformers",))
    _add_what_is_given(found, section)
    if oldest >= (5,):
        least = {"transformers": oldest, "trl": _TRL_WITH_TRANSFORMERS_5}
        found = {name: one for name, one in found.items() if one.version >= least[name]}
    trl = found.get("trl")
    if trl and trl.version < _TRL_WITH_TRANSFORMERS_5:
        own = found.get("transformers")
        if own is None or own.version > (4, 57):
            detail = f"trl {_text(trl.version)} is older than transformers 5"
            found["transformers"] = Evidence((4, 57), trl.key, trl.origin._replace(detail=detail))
    unstated = {name: one for name, one in found.items() if name not in stated}
    if is_trl and "trl" not in stated and "transformers" in stated:
        unstated.update(_trl_for(stated["transformers"], unstated.get("trl")))
    versions = {**stated, **{name: one.version for name, one in unstated.items()}}
    return versions, {name: one.origin for name, one in unstated.items()}


def _add_what_is_given(found: dict[str, Evidence], section: Section) -> None:
    """The newest releases that take what a program gives them, where no key says an older one."""
    start = section.document.start
    for framework, (version, name) in (start.program.newest if start is not None else {}).items():
        if framework not in found or version < found[framework].version:
            origin = Origin("inferred", detail=f"the newest {framework} that takes the program's `{name}`")
            found[framework] = Evidence(version, name, origin)


def newest_trl_for(transformers: Version) -> Version:
    """The newest TRL whose packaging takes a stated transformers; () where the newest of all does."""
    bounds = _too_new(transformers)
    return bounds[-1][0] if bounds else ()


def _too_new(transformers: Version) -> list[tuple[Version, Version]]:
    return [(release, need) for release, need in _TRL_NEEDS if transformers < need[: len(transformers)]]


def _trl_for(transformers: Version, known: Evidence | None) -> dict[str, Evidence]:
    """The newest TRL whose packaging takes a stated transformers, where that is older than `known` and the newest."""
    bounds = _too_new(transformers)
    if not bounds or (known is not None and known.version <= bounds[-1][0]):
        return {}
    release, need = bounds[-1]
    detail = f"newer releases of trl need transformers {_text(need)}"
    return {"trl": Evidence(release, "", Origin("inferred", detail=detail))}


def _text(version: Version) -> str:
    return ".".join(map(str, version))
