"""AReaL's values: a command's overrides over the file that it names, over AReaL's own defaults.

Until 0.5.1 the model of supervised training stands in the section `model`, which is `actor` in later releases.
"""

from __future__ import annotations

from typing import Any

from memlint.formats.areal.recognise import is_experiment
from memlint.formats.areal.releases import TAKES, newest_release
from memlint.formats.base import Context
from memlint.formats.fields import Section, root, value_at
from memlint.formats.keys import Keys
from memlint.formats.section_keys import path_of
from memlint.formats.trainer_names import with_taken_releases
from memlint.formats.verl.composed import ABOVE, Composed, first_file, tails
from memlint.formats.verl.config import VerlConfig
from memlint.run import Origin
from memlint.source.document import Document

SOURCE = "AReaL 2.0.0"
PACKAGE = "areal"
MODEL = "actor.path"
CRITIC_HEAD = "actor.is_critic"
_OF_WRITING = ("gconfig", "rollout")


class ArealConfig(VerlConfig):
    """As verl's, with AReaL's keys. `release`: the newest that takes all keys, or the one that somebody states."""

    __slots__ = ("release",)
    source = SOURCE
    model_keys = (MODEL, MODEL)
    names_file = "`--config`"
    decisive = frozenset(
        {
            *(MODEL, "allocation_mode", "actor.backend", "rollout.backend", "actor.dtype", "actor.mb_spec.n_mbs"),
            *("actor.gradient_checkpointing", "actor.optimizer.type", "actor.use_lora", "actor.fsdp.offload_params"),
            *("actor.mb_spec.max_tokens_per_mb", "actor.kl_ctl", "actor.optimizer_dtype", "actor.lora_rank"),
        }
    )

    def __init__(self, own: Section, files: Composed, keys: Keys, context: Context) -> None:
        super().__init__(own, files, keys, context, False)
        self.release: tuple[int, ...] = ()

    @property
    def sections(self) -> tuple[Section, ...]:
        """The file's own values and those of the file below it, with references followed."""
        return tuple(layer.section for layer in self._layers)

    @property
    def stated(self) -> tuple[int, ...]:
        """AReaL's release, where somebody states it."""
        return tuple(self.context.versions.get(PACKAGE, ()))

    def _default_source(self, key: str) -> str:
        return SOURCE

    def _default(self, key: str) -> Any:
        return self.keys[key].default

    def has_section(self, *path: str) -> bool:
        """Whether one of the files has a mapping there."""
        return any(isinstance(value_at(one.value, path), dict) for one in self.sections)

    def value(self, key: str) -> Any:
        """What the first file that has it gives at any key, with a row of the table or not."""
        found = (value_at(one.value, path_of(key)) for one in self.sections)
        return next((one for one in found if one is not None), None)

    def algorithm(self) -> str:
        """What trains: rl, sft, rw (a reward model), dpo."""
        if any(self.has_section(name) for name in _OF_WRITING):
            return "rl"
        if self.flag(CRITIC_HEAD):
            return "rw"
        return "dpo" if self.has_section("ref") else "sft"

    @property
    def is_controlled(self) -> bool:
        """Whether one process schedules each engine's workers (`scheduler.type`), so that engines may have GPUs of
        their own; else a launcher starts one program on all GPUs that train (1.0.4 areal/utils/environ.py)."""
        start = self.own.document.start
        is_launcher = start is not None and ".launcher." in start.program.entry
        return not is_launcher and isinstance(self.value("scheduler.type"), str)

    def unknown_origin(self, key: str) -> Origin:
        """Why nobody knows the value of a key."""
        origin = self.origin(key)
        return origin if origin.kind == "unknown" else Origin("unknown", detail=f"`{key}` is not known")


def config_of(document: Document, keys: Keys, context: Context) -> ArealConfig:
    files = _files(document, context)
    first = ArealConfig(root(document), files, keys, context)
    release = first.stated or newest_release(first.algorithm(), first.sections)
    found = ArealConfig(root(document), files, keys, with_taken_releases(context, PACKAGE, TAKES, release))
    found.release = release
    return found


def _files(document: Document, context: Context) -> Composed:
    """The file that a command names, and the one that a file lists in its `defaults` (Hydra composes them)."""
    if document.start is None:
        return Composed(base=_listed(document.value, document.path, context))
    name = document.value.get("config")
    if not isinstance(name, str):
        return Composed()
    names = (f"{above}{tail}" for tail in tails(name) for above in ABOVE)
    named = first_file(names, document.path, context, is_experiment)
    if named is None:
        return Composed(missing=name)
    return Composed(named, _listed(named.value, named.document.path, context))


def _listed(value: Any, path: str, context: Context) -> Section | None:
    listed = value.get("defaults") if isinstance(value, dict) else None
    names = [one for one in listed if isinstance(one, str) and one != "_self_"] if isinstance(listed, list) else []
    return first_file((f"./{name.removesuffix('.yaml')}.yaml" for name in names), path, context)


def has_copy(context: Context) -> bool:
    """Whether the repository has a copy of AReaL, whose classes may have keys of their own."""
    return bool(context.repository.own_functions("areal/api"))


def is_declared(config: ArealConfig, key: str) -> bool:
    """Whether a class of the repository declares the key, or a section above it."""
    return any(config.context.repository.field_annotations(step) for step in key.split("."))
