"""torchtune's values: a command's overrides over the file that it names (torchtune/config/_parse.py)."""

from __future__ import annotations

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
        sections = tuple(one.value for one in (self.own, self.named) if one is not None)
        self.recipe: Recipe = recipe_of(document, sections, self.named)
        self.release = release_of(sections, context)

    def origin(self, key: str) -> Origin:
        """As verl's; a file that is named without its suffix is one of torchtune's own (`tune ls`)."""
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
        for one in (self.named, self.own):
            part = one.value.get(section) if one is not None else None
            found.update(part if isinstance(part, dict) else {})
        return found


def config_of(document: Document, keys: Keys, context: Context) -> TuneConfig:
    return TuneConfig(document, _files(document, context), keys, context)


def _files(document: Document, context: Context) -> Composed:
    """The file that a command names: a path, or a name of `tune ls` that a copy of torchtune has below its recipes."""
    name = document.value.get("config") if document.start is not None else None
    if not isinstance(name, str):
        return Composed()
    names = (name,) if name.endswith((".yaml", ".yml")) else (f"{name}.yaml", name)
    paths = (f"{above}{folder}{tail}" for one in names for tail in tails(one) for folder in _FOLDERS for above in ABOVE)
    named = first_file(paths, document.path, context)
    return Composed(named) if named is not None else Composed(missing=name)
