"""Values that AReaL's classes have no default for: OmegaConf ends the run where one is missing (0.3.1 to 2.0.0
areal/api/cli_args.py, `MISSING`, and load_expr_config)."""

from __future__ import annotations

from collections.abc import Iterator

from memlint._record import NamedTuple
from memlint.formats.areal.config import ArealConfig, is_declared
from memlint.formats.areal.releases import OWN_BACKENDS
from memlint.formats.base import Issue
from memlint.formats.fields import value_at
from memlint.formats.section_keys import path_of

_NAMES = ("experiment_name", "trial_name")
_TIMED = (*_NAMES, "fileroot")
_BY_COMMAND = "no command gives it"


class _Section(NamedTuple):
    """The keys of a section that have no default. `is_optional`: without the section nothing is missing. `of`: the
    algorithms whose files have it; () for all. `since`: the release that the keys are mandatory from on."""

    name: str
    keys: tuple[str, ...]
    is_optional: bool = False
    of: tuple[str, ...] = ()
    since: tuple[int, ...] = ()


_TABLE = (
    *(_Section(name, _TIMED) for name in ("saver", "recover", "evaluator", "stats_logger")),
    _Section("actor", _NAMES),
    _Section("actor", ("backend",), since=OWN_BACKENDS),
    _Section("rollout", ("backend",), of=("rl",), since=OWN_BACKENDS),
    *(_Section(name, _NAMES, is_optional=True) for name in ("ref", "critic")),
    *(_Section(name, ("backend",), is_optional=True, since=OWN_BACKENDS) for name in ("ref", "critic")),
    _Section("perf_tracer", _TIMED, is_optional=True),
    _Section("train_dataset", ("path",)),
    _Section("train_dataset", ("type",), since=(0, 3, 4)),
    _Section("valid_dataset", ("path",), is_optional=True),
    _Section("valid_dataset", ("type",), is_optional=True, since=(0, 3, 4)),
)


def missing_values(config: ArealConfig) -> Iterator[Issue]:
    """One issue for all of them. A command may give what a file alone does not."""
    if config.misses_a_file or (config.own.document.start is not None and config.named is None):
        return
    missing = [key for key in _mandatory(config) if config.value(key) in (None, "???")]
    if not missing:
        return
    names = ", ".join(f"`{key}`" for key in missing[:2])
    more = f" and {len(missing) - 2} more" if len(missing) > 2 else ""
    message = f"{names}{more} {'has' if len(missing) == 1 else 'have'} no value and no default: AReaL refuses to start"
    if config.own.document.start is not None:
        yield config.own.issue("missing-key", message, "config")
    else:
        path = _nearest(config, missing[0])
        yield config.own.issue("missing-key", message, *path, severity="warning", on_key=True, where=_BY_COMMAND)


def _mandatory(config: ArealConfig) -> Iterator[str]:
    if config.own.document.start is not None:
        yield from _NAMES
    algorithm = config.algorithm()
    for section in _TABLE:
        name = "model" if section.name == "actor" and config.has_section("model") else section.name
        is_asked = (not section.of or algorithm in section.of) and config.release >= section.since
        if is_asked and (config.has_section(name) or not section.is_optional):
            yield from (key for one in section.keys if not is_declared(config, key := f"{name}.{one}"))


def _nearest(config: ArealConfig, key: str) -> tuple[str, ...]:
    """The section that lacks the key, where the file has it, else the file's first key."""
    path = path_of(key)[:-1]
    if value_at(config.own.value, path) is not None:
        return path
    return (str(next(iter(config.own.value), "")),)
