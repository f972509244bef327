"""A LLaMA-Factory v0 file as its parser sees it: keys with LLaMA-Factory's and transformers' defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.base import Context
from memlint.formats.fields import Fields, Section, interpolated
from memlint.formats.keys import Keys, When
from memlint.formats.llamafactory.releases import llamafactory_versions
from memlint.formats.schema.validate import compiled_schema
from memlint.formats.training_arguments import Arguments, arguments, read_arguments
from memlint.run import UNKNOWN, Origin
from memlint.source.document import Document

Version = tuple[int, ...]
V0_ARGUMENTS = ("hparams",)  # the folder where LLaMA-Factory and its forks declare their arguments
_DIVIDES_MODEL = r"(?:use_)?(?:megatron|colossal)|(?:tensor|pipeline)_(?:model_)?parallel"


def has_copy(context: Context) -> bool:
    """Whether a copy of LLaMA-Factory is in the repository: it may take what no release takes."""
    return any(context.repository.field_annotations("finetuning_type", below) for below in V0_ARGUMENTS)


def is_relative(document: Document, context: Context) -> bool:
    """Whether a program of the repository reads the flags, with arguments of its own that are called like
    LLaMA-Factory's: older projects that it grew from, and others that grew from it."""
    start = document.start
    return start is not None and bool(start.accepted.defined) and not has_copy(context)


class LlamaFactoryConfig(NamedTuple):
    """One file. `own` reads LLaMA-Factory's keys, `hf` those of transformers' TrainingArguments.

    `model`: the name of the model, "" where none is given. `architecture`: None where it is not known; `model_origin`
    has the reason. `unresolved`: keys whose value is an interpolation (OmegaConf's `${...}`, or `$NAME` of a template
    that a shell fills in); `own` and `hf` have the default for them, `get` has UNKNOWN.
    """

    section: Section
    own: Arguments
    hf: Arguments
    context: Context
    versions: Mapping[str, Version]
    unresolved: frozenset[str]
    architecture: Any = None
    role: str = "training"
    version_origins: Mapping[str, Origin] = {}  # of versions that follow from the keys
    model: str = ""
    model_origin: Origin = Origin("unknown")

    def get(self, key: str) -> Any:
        """The value of LLaMA-Factory's `key`, else its default; UNKNOWN where it is an interpolation."""
        return UNKNOWN if key in self.unresolved else self.own.get(key)

    def written(self, key: str) -> str | None:
        """The spelling under which the file gives `key`, None where it does not."""
        return self.own.written(key)

    def origin(self, key: str) -> Origin:
        """Where `get(key)` comes from."""
        return (
            Origin("unknown", detail=f"`{key}` is an interpolation") if key in self.unresolved else self.own.origin(key)
        )

    def words(self, key: str) -> tuple[str, ...]:
        """A comma-separated string or a list, as `split_arg` does (hparams/finetuning_args.py:580)."""
        value = self.own.get(key)
        items = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
        return tuple(item.strip() for item in items if isinstance(item, str) and item.strip())

    def text(self, key: str) -> str:
        value = self.own.get(key)
        return value if isinstance(value, str) else ""

    def integer(self, key: str, default: int = 0) -> int:
        value = self.own.integer(key)
        return default if value is None else value

    @property
    def family(self) -> str:
        """The model's `model_type`; "" where the model is unknown."""
        return self.architecture.family if self.architecture is not None else ""

    @property
    def stage(self) -> str:
        return self.own.word("stage") or "sft"

    @property
    def tuning(self) -> str:
        return self.own.word("finetuning_type") or "lora"

    @property
    def training(self) -> bool:
        return self.role == "training"

    @property
    def splits_sequences(self) -> bool:
        """Whether the file is for 360-LLaMA-Factory, a fork whose GPUs share a sequence (hparams/model_args.py there):
        no release of LLaMA-Factory has the key."""
        return "sequence_parallel_size" in self.section.value

    @property
    def other_engine(self) -> str:
        """A key that no release has and that is about how a program of its own divides the model, such as `megatron`;
        "" where there is none."""
        known = compiled_schema("llamafactory.json#v0").schema["properties"]
        keys = (key for key in self.section.value if isinstance(key, str) and key not in known)
        return next((key for key in keys if re.match(_DIVIDES_MODEL, key)), "")

    def since(self, *version: int) -> bool:
        """Whether LLaMA-Factory is at least of that version."""
        return self.versions["llamafactory"] >= version

    def put(self, fields: Fields, name: str, key: str, value: Any) -> None:
        """Set a neutral field that LLaMA-Factory's `key` decides; UNKNOWN where the key is an interpolation."""
        fields.put(name, UNKNOWN if key in self.unresolved else value, self.origin(key))


def config_of(section: Section, context: Context, role: str, table: Keys) -> LlamaFactoryConfig:
    """A v0 file as a configuration. Keys with interpolated values are only in `unresolved`. `table`: the v0 keys."""
    given = ((key, value) for key, value in section.value.items() if isinstance(key, str))
    unresolved = frozenset(key for key, value in given if interpolated(value, key == "model_name_or_path"))
    plain = section._replace(value={key: value for key, value in section.value.items() if key not in unresolved})
    versions, version_origins = llamafactory_versions(plain, "llamafactory.json#v0", context.versions)
    named = "LLaMA-Factory " + ".".join(map(str, versions["llamafactory"]))
    own = read_arguments(plain, _defaults(table, versions["llamafactory"]), named)
    return LlamaFactoryConfig(
        plain,
        own,
        arguments(plain, versions),
        context,
        versions,
        unresolved,
        role=role,
        version_origins=version_origins,
    )


@cache
def _defaults(table: Keys, release: Version) -> Mapping[str, Any]:
    """LLaMA-Factory's defaults: the schema has those of keys that are not in `table`, too."""
    properties = compiled_schema("llamafactory.json#v0").schema["properties"]
    others = {key: schema["default"] for key, schema in properties.items() if "default" in schema}
    return {**others, **table.defaults_in(release)}


def default_origin(versions: Mapping[str, Version], detail: str = "") -> Origin:
    named = "LLaMA-Factory " + ".".join(map(str, versions["llamafactory"]))
    return Origin("default", detail=f"{named}: {detail}" if detail else named)


def trains(config: LlamaFactoryConfig) -> bool:
    """Whether something trains: the file is not for inference or export."""
    return config.training


def finetunes_with(*kinds: str) -> When:
    """Whether the model trains in one of these ways (`finetuning_type`)."""

    def holds(config: LlamaFactoryConfig) -> bool:
        return config.training and config.tuning in kinds

    return holds
