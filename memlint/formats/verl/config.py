"""verl's values: overrides over the file that they are for, with Hydra's interpolations resolved."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from memlint.formats.base import Context
from memlint.formats.fields import Section, as_bool, as_int, interpolated, value_at
from memlint.formats.keys import Keys
from memlint.formats.section_keys import SectionKeys, path_of
from memlint.formats.verl.composed import Composed
from memlint.run import UNKNOWN, Origin

SOURCE = "verl 0.9.1"
MODEL_PATHS = ("actor_rollout_ref.model.path", "model.path")  # of the policy, of SFT's model
# `${a.b}`, `${oc.select:a.b,default}` (OmegaConf), with a leading dot for the section that holds it.
_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?\s*(\.*[\w.]+)\s*(?:,\s*([^${}]*))?\}")
# What a file of one's own is written for, beside the engine: its values decide what is counted.
_DECISIVE = frozenset(
    {
        *MODEL_PATHS,
        *("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "actor_rollout_ref.actor.use_dynamic_bsz"),
        *("actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu", "data.micro_batch_size_per_gpu"),
        *("data.max_prompt_length", "data.max_response_length", "data.max_length"),
        *("trainer.n_gpus_per_node", "trainer.nnodes"),
    }
)
_MOST_STEPS = 8  # of references that lead to references


def has_copy(context: Context) -> bool:
    """Whether the repository has a copy of verl, which may take words of its own: a fork trains with `strategy=dp`."""
    return bool(context.repository.own_functions("verl/trainer"))


class VerlConfig:
    """The values of `keys` in `own`, else in the files of the repository that it lies over (`files`: the one that a
    command names, then the trainer's), else verl's own defaults: `KeyValues` of formats/keys.py. `architecture` is None
    where the model is not known. The attributes of the class are what a fork has of its own."""

    __slots__ = ("_layers", "_missing", "architecture", "base", "context", "groups", "is_sft", "keys", "named", "own")
    source = SOURCE
    model_keys = MODEL_PATHS
    decisive = _DECISIVE
    names_file = "`--config-name`"

    def __init__(self, own: Section, files: Composed, keys: Keys, context: Context, is_sft: bool) -> None:
        self.own = own
        self.named, self.base, self._missing, self.groups = files
        self.keys = keys
        self.context = context
        self.is_sft = is_sft
        self.architecture: Any = None
        sections = tuple(one for one in (own, files.named, files.base, *files.groups) if one is not None)
        self._layers = tuple(SectionKeys(resolved(one, sections), keys, self.source) for one in sections)

    @property
    def misses_a_file(self) -> bool:
        """Whether the command names a file that is not in the repository."""
        return bool(self._missing)

    def _layer(self, key: str) -> SectionKeys | None:
        return next((layer for layer in self._layers if layer.written(key) is not None), None)

    def written(self, key: str) -> str | None:
        """The spelling under which a file gives the key; null counts as not given."""
        layer = self._layer(key)
        return layer.written(key) if layer is not None else None

    def raw(self, key: str) -> Any:
        """What a file has at the key, None where none gives it."""
        layer = self._layer(key)
        return layer.raw(key) if layer is not None else None

    def get(self, key: str) -> Any:
        """The value in force; UNKNOWN for a placeholder, None where there is neither a value nor a default."""
        value = self.raw(key)
        if interpolated(value, key in self.model_keys) or value == "???" or (value is None and self._is_left_out(key)):
            return UNKNOWN
        return self._default(key) if value is None else value

    def _is_left_out(self, key: str) -> bool:
        """Whether a file that nobody sees may give the key: everybody's files do."""
        return self.misses_a_file and key in self.decisive

    def _default(self, key: str) -> Any:
        """The key's default in the release that somebody states, else in the newest."""
        return self.keys[key].default_in(self._release)

    @property
    def _release(self) -> tuple[int, ...]:
        return tuple(self.context.versions.get("verl", ()))

    def origin(self, key: str) -> Origin:
        """Where `get(key)` comes from; why it is not known, for a placeholder."""
        layer = self._layer(key)
        if layer is None and self._is_left_out(key):
            return Origin(
                "unknown", detail=f"{self.names_file} names `{self._missing}`, a file that is not in the repository"
            )
        if layer is None:
            return Origin("default", detail=self._default_source(key))
        start = self.own.document.start
        path = path_of(layer.written(key) or key)
        if start is not None and path in start.values.unknown:
            return Origin("unknown", detail=start.values.unknown[path])
        return layer.section.origin(*path)

    def _default_source(self, key: str) -> str:
        changed = self.keys[key].earlier_default
        if changed is None or not () < self._release < changed[0]:
            return self.source
        return f"verl before {'.'.join(map(str, changed[0]))}"

    def flag(self, key: str) -> bool:
        return bool(as_bool(self.get(key)))

    def integer(self, key: str) -> int | None:
        """A whole number above 0: the file's or the default."""
        found = as_int(self.get(key))
        return found if found is not None and found > 0 else None

    def word(self, key: str) -> str:
        value = self.get(key)
        return value.lower() if isinstance(value, str) else ""

    def has(self, *path: str) -> bool:
        """Whether one of the files has something at `path`."""
        return any(value_at(layer.section.value, path) is not None for layer in self._layers)

    def is_emptied(self, key: str) -> bool:
        """Whether the first file that has the key has null there: Hydra takes that in place of verl's default."""
        *above, name = path_of(key)
        parts = (value_at(layer.section.value, tuple(above)) for layer in self._layers)
        given = next((part for part in parts if isinstance(part, dict) and name in part), None)
        return given is not None and given[name] is None

    def is_unknown(self, *keys: str) -> str:
        """The first of `keys` that a file gives and nobody can know, "" where there is none."""
        return next((key for key in keys if self.get(key) is UNKNOWN), "")


def follow(value: Any, above: tuple[str, ...], sections: tuple[Section, ...]) -> Any:
    """The value that a reference leads to in `sections`, of a key in the section `above`; other values as they are."""
    for _ in range(_MOST_STEPS):
        match = _REFERENCE.fullmatch(value) if isinstance(value, str) and len(value) < 200 else None
        if match is None:
            return value
        path = _absolute(match[1], above)
        found = next((one for one in (value_at(s.value, path) for s in sections) if one is not None), None)
        if found is None:
            return _plain(match[2]) if match[2] is not None else None if "oc.select" in value else value
        value, above = found, path[:-1]
    return value


def resolved(
    section: Section,
    sections: tuple[Section, ...],
    following: Callable[[Any, tuple[str, ...], tuple[Section, ...]], Any] = follow,
) -> Section:
    """The section with references to other keys replaced by the values that these have in `sections`."""

    def walk(value: Any, above: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            return {key: walk(inner, (*above, str(key))) for key, inner in value.items()}
        return following(value, above[:-1], sections)

    return section._replace(value=walk(section.value, ()))


def _absolute(name: str, above: tuple[str, ...]) -> tuple[str, ...]:
    """The path of a reference; each dot in front leads one section out."""
    plain = name.lstrip(".")
    dots = len(name) - len(plain)
    if not dots:
        return path_of(plain)
    return (*above[: len(above) - dots + 1], *path_of(plain))


_WORDS: Mapping[str, Any] = {"null": None, "true": True, "false": False, "": None}


def _plain(text: str) -> Any:
    word = text.strip()
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    number = as_int(word)
    return word if number is None else number
