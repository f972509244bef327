"""A LLaMA-Factory v0 file as its parser sees it: keys with LLaMA-Factory's and transformers' defaults."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.base import Context
from memlint.formats.fields import Fields, Section, interpolated
from memlint.formats.schema.validate import compiled_schema
from memlint.formats.training_arguments import Arguments, arguments, read_arguments
from memlint.formats.versions import llamafactory_versions
from memlint.run import Origin

Version = tuple[int, ...]

# Enum members are no literals in the source, so the schema has no default for them (hparams/model_args.py).
_ENUM_DEFAULTS = {"flash_attn": "auto", "infer_backend": "huggingface", "quantization_method": "bnb"}

# OmegaConf's `${...}`, and `$NAME` of a template that a shell fills in.


class Config(NamedTuple):
    """One file. `own` reads LLaMA-Factory's keys, `hf` those of transformers' TrainingArguments.

    `architecture` is None where the model is unknown. `held` are keys whose value is an interpolation.
    """

    section: Section
    own: Arguments
    hf: Arguments
    context: Context
    versions: Mapping[str, Version]
    held: frozenset[str]
    architecture: Any = None
    role: str = "training"
    given_away: Mapping[str, Origin] = {}  # origins of the versions that the keys give away

    def words(self, key: str) -> tuple[str, ...]:
        """A comma-separated string or a list, as `split_arg` does (hparams/finetuning_args.py:580)."""
        value = self.own.get(key)
        items = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
        return tuple(item.strip() for item in items if isinstance(item, str) and item.strip())

    def text(self, key: str) -> str:
        value = self.own.get(key)
        return value if isinstance(value, str) else ""

    def whole(self, key: str, default: int = 0) -> int:
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

    def since(self, *version: int) -> bool:
        """Whether LLaMA-Factory is at least of that version."""
        return self.versions["llamafactory"] >= version

    def put(self, fields: Fields, name: str, key: str, value: Any) -> None:
        """Set a neutral field that LLaMA-Factory's `key` decides; UNKNOWN where the key is an interpolation."""
        if key in self.held:
            fields.unknown(name, f"`{key}` is an interpolation")
        else:
            fields.put(name, value, self.own.origin(key))


def config(section: Section, context: Context, role: str) -> Config:
    """The view of a v0 file; interpolated values are left out of it and named in `held`."""
    held = frozenset(key for key, value in section.value.items() if isinstance(key, str) and interpolated(value))
    plain = section._replace(value={key: value for key, value in section.value.items() if key not in held})
    versions, given_away = llamafactory_versions(plain, "llamafactory.json#v0", context.versions)
    named = "LLaMA-Factory " + ".".join(map(str, versions["llamafactory"]))
    own = read_arguments(plain, _defaults(), named)
    return Config(plain, own, arguments(plain, versions), context, versions, held, role=role, given_away=given_away)


@cache
def _defaults() -> Mapping[str, Any]:
    properties = compiled_schema("llamafactory.json#v0").schema["properties"]
    return {**{key: schema["default"] for key, schema in properties.items() if "default" in schema}, **_ENUM_DEFAULTS}


def default_origin(versions: Mapping[str, Version], detail: str = "") -> Origin:
    named = "LLaMA-Factory " + ".".join(map(str, versions["llamafactory"]))
    return Origin("default", detail=f"{named}: {detail}" if detail else named)
