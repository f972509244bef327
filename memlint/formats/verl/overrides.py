"""Overrides of a command that Hydra refuses: a key that verl's own files do not have, unless it is added with `+`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint.formats.base import Issue
from memlint.formats.fields import Section, value_at
from memlint.formats.key_releases import key_releases, refused_keys
from memlint.formats.verl.composed import file_name
from memlint.formats.verl.config import VerlConfig, has_copy
from memlint.source.layout import key_text

# Entry -> the program's table, by the file that it composes unless the command names another.
_PROGRAMS = {
    "verl.trainer.main_ppo": {"": "ppo", "ppo_trainer": "ppo", "ppo_megatron_trainer": "ppo_megatron"},
    "verl.trainer.sft_trainer": {"": "sft_trainer", "sft_trainer_engine": "sft_trainer"},
    "verl.trainer.fsdp_sft_trainer": {"": "fsdp_sft_trainer", "sft_trainer": "fsdp_sft_trainer"},
}
VERL_PROGRAMS = frozenset(_PROGRAMS)
# Hydra's own options and its section, and what composes other files (0.9.1 trainer/config/ppo_trainer.yaml, defaults).
_OF_HYDRA = frozenset({"hydra", "config_name", "config_path", "config_dir", "cn", "cp", "cd", "cfg", "multirun"})
_ENGINE = "model_engine"


def refused_overrides(config: VerlConfig) -> Iterator[Issue]:
    """Nothing where the repository has a copy of verl or a file that the command lies over: those have their own keys.
    A group that the command chooses (`engine=veomni`) brings keys that are not read here."""
    start = config.own.document.start
    files = _PROGRAMS.get(start.program.entry, {}) if start is not None else {}
    program = files.get(file_name(config.own.document).removesuffix(".yaml"), "")
    own = config.base is not None or config.named is not None or has_copy(config.context)
    if not program or own:
        return
    if config.own.value.get(_ENGINE) is not None:
        program = "ppo_megatron" if config.own.value[_ENGINE] == "megatron" else ""
    table = key_releases("verl", program)
    keys = tuple(".".join(place) for place in overridden(config.own) if not _is_of_hydra(place))
    if table is None or any(_is_group(config.own.value, key) and not table.knows(key) for key in keys):
        return
    refusal = table.refusal(keys, config.context.versions.get("verl", ()))
    if refusal is not None:
        yield from refused_keys(config.own, table, refusal, f"`{start.program.entry if start else ''}` of verl")


def _is_group(value: Mapping[str, Any], key: str) -> bool:
    """Whether an override at the top chooses a file of a group: a word, `engine=veomni`."""
    return isinstance(value.get(key), str)


def _is_of_hydra(place: tuple[str, ...]) -> bool:
    return place[0] in _OF_HYDRA or place == (_ENGINE,)


def overridden(own: Section, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys that a command overrides; not those that it adds (`+a.b=1`) or deletes (`~a.b`)."""
    for key, inner in (value_at(own.value, above) or {}).items():
        place = (*above, str(key))
        if isinstance(inner, dict) and inner:
            yield from overridden(own, place)
        elif not key_text(own.document, place).startswith(("+", "~")):
            yield place
