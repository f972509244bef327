"""torchtune's values: a command's overrides over the config that it names, a file or one of torchtune's own
(torchtune/config/_parse.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.formats.base import Context
from memlint.formats.fields import root
from memlint.formats.keys import Keys
from memlint.formats.torchtune.recipes import Recipe, recipe_of, release_of
from memlint.formats.torchtune.recognise import COMPONENT
from memlint.formats.verl.composed import ABOVE, Composed, first_file, tails
from memlint.formats.verl.config import VerlConfig
from memlint.run import Origin
from memlint.source.document import Document

SOURCE = "torchtune 0.6.1"
MODEL = f"model.{COMPONENT}"
_FOLDERS = ("", "recipes/configs/")  # of a file that is named as `tune ls` lists it: `llama3_1/8B_lora`


class TuneConfig(VerlConfig):
    """As verl's, with torchtune's keys. `recipe` and `release`: as far as somebody says them."""

    __slots__ = ("recipe", "release")
    source = SOURCE
    model_keys = (MODEL, MODEL)
    decisive = frozenset(
        {
            *(MODEL, "tokenizer.max_seq_len", "batch_size", "dtype", "enable_activation_checkpointing"),
            *("enable_activation_offloading", f"loss.{COMPONENT}", f"optimizer.{COMPONENT}", "optimizer_in_bwd"),
            *("gradient_accumulation_steps", "compile", "dataset.packed", "model.lora_rank", "fsdp_cpu_offload"),
        }
    )
    names_file = "`--config`"

    def __init__(self, document: Document, files: Composed, keys: Keys, context: Context) -> None:
        super().__init__(root(document), files, keys, context, False)
        values = self.sections()
        self.recipe: Recipe = recipe_of(document, values, self.named)
        self.release = release_of(values, context)

    def sections(self) -> tuple[Mapping[str, Any], ...]:
        """The command or the file, the file that it names, the config of torchtune's own that it names: as far as they
        are there. The first that has a key counts."""
        return tuple(one.value for one in (self.own, self.named, self.base) if one is not None)

    def origin(self, key: str) -> Origin:
        """As verl's; a file that is named without its suffix is one of torchtune's own (`tune ls`)."""
        if self.base is not None and self._layer(key) is self._layers[-1]:
            return Origin("default", detail=self.base.document.path)
        found = super().origin(key)
        if not self._missing or found.kind != "unknown" or self._missing.endswith((".yaml", ".yml")):
            return found
        return found._replace(detail=f"`{self._missing}` is a config of torchtune's own, not one of the repository")

    @property
    def missing(self) -> str:
        """The file that a command names and the repository does not have; "" where there is none."""
        return self._missing

    def component(self, section: str) -> str:
        """The class or function that a section names. `optimizer=torch.optim.SGD` on a command line names it, too."""
        given = self.own.value.get(section)
        if isinstance(given, str):
            return given
        value = self.get(f"{section}.{COMPONENT}")
        return value if isinstance(value, str) else ""

    def values(self, section: str) -> dict[str, Any]:
        """What the files have in a section, the command's own first."""
        found: dict[str, Any] = {}
        for one in reversed(self.sections()):
            part = one.get(section)
            found.update(part if isinstance(part, dict) else {})
        return found

    def merged(self) -> dict[str, Any]:
        """The values of all sections as one mapping, as torchtune makes of a command and of what it names."""
        found: dict[str, Any] = {}
        for one in reversed(self.sections()):
            found = _over(found, one)
        return found


def _over(below: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` over those of `below`; sections that both have become one."""
    found = dict(below)
    for key, value in values.items():
        under = found.get(key)
        found[key] = _over(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return found


def config_of(document: Document, keys: Keys, context: Context) -> TuneConfig:
    return TuneConfig(document, _files(document, context), keys, context)


def _files(document: Document, context: Context) -> Composed:
    """The config that a command names: a path, or a name of `tune ls`, which a copy of torchtune in the repository has
    below its recipes. A commit that somebody pins may have other values than a release."""
    name = document.value.get("config") if document.start is not None else None
    if not isinstance(name, str):
        return Composed()
    names = (name,) if name.endswith((".yaml", ".yml")) else (f"{name}.yaml", name)
    paths = (f"{above}{folder}{tail}" for one in names for tail in tails(one) for folder in _FOLDERS for above in ABOVE)
    named = first_file(paths, document.path, context)
    if named is not None:
        return Composed(named)
    own = None if "torchtune" in context.at_commits else _of_torchtune(name, context)
    return Composed(missing=name) if own is None else Composed(base=root(own, "default"))


def _of_torchtune(name: str, context: Context) -> Document | None:
    from memlint.formats.torchtune.shipped import shipped  # reads a file that other runs do not need

    return shipped(name, context.versions.get("torchtune", ()))
