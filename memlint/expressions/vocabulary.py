"""The names that rules may use, and their types.

- fields of the run (`batch.micro_batch_size`), typed by the annotations of `memlint.run`;
- facts about model, card and estimate (readers.py);
- the files' own keys by section (`config.stage`, `deepspeed.zero_optimization.stage`), typed by the
  JSON Schemas of the formats that the rule is for;
- the rule's own variables.

Only loading rules from YAML needs this room: a snapshot of the shipped rules holds checked forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memlint import run as schema
from memlint.expressions import kinds as types
from memlint.expressions.check import CONSTANTS, Name, VocabularyEntry
from memlint.expressions.choices import CHOICES
from memlint.expressions.derived_facts import READERS
from memlint.expressions.kinds import Type, list_of, of
from memlint.expressions.vocabulary_schema import SchemaSection, key_type, nearest_key
from memlint.formats.schema.suggest import nearest

PHASES = (
    *("load", "forward", "backward", "optimizer_step", "evaluation", "save"),
    *("generation", "prefill", "decode", "serve"),
    *("rollout", "weight_sync", "log_probabilities", "reference", "value_update"),
)
COMPONENTS = (
    *("weights", "gradients", "optimizer_states", "activations", "logits", "temporaries", "communication"),
    *("kv_cache", "engine"),
)
SECTIONS = ("config", "deepspeed", "accelerate", "fsdp")

_GROUPS = {
    name: getattr(schema, name.title())
    for name in (
        *("model", "method", "precision", "batch", "sequence", "attention", "checkpointing", "loss", "rollout"),
        *("optimizer", "parallelism", "offload", "evaluation", "saving", "serving", "stack", "hardware"),
    )
}
_NESTED = {
    "model.quantization": schema.Quantization,
    "parallelism.zero": schema.Zero,
    "parallelism.fsdp": schema.Fsdp,
}
_TEXTS = list_of(types.STR.kinds)
_ANNOTATIONS: Mapping[str, Type] = {
    "str": types.STR,
    "Maybe[str]": types.STR,
    "str | Unknown": types.STR,
    "int": types.INT,
    "Maybe[int]": types.INT,
    "int | None": of("int null"),
    "float": types.NUMBER,
    "Maybe[float]": types.NUMBER,
    "bool": types.BOOL,
    "Maybe[bool]": types.BOOL,
    "bool | None": of("bool null"),
    "tuple[str, ...]": _TEXTS,
    "Maybe[tuple[str, ...]]": _TEXTS,
    "tuple[int, ...]": list_of(types.INT.kinds),
    "tuple[tuple[str, int], ...]": list_of(frozenset({"list"})),
}
_VERSIONS = ("stack.framework_version", *(f"stack.{name}" for name in ("transformers", "torch", "deepspeed")))
_VERSIONS += tuple(f"stack.{name}" for name in ("peft", "trl", "accelerate"))
_FACT_TYPES: Mapping[str, Type] = {
    **dict.fromkeys(("model.family", "model.class_name", "hardware.name"), types.STR),
    **dict.fromkeys(("parallelism.launch", "parallelism.launch_file", "parallelism.launch_advice"), types.STR),
    **dict.fromkeys(("model.tied_embeddings", "model.has_vision"), types.BOOL),
    **dict.fromkeys(("model.supports_liger", "model.supports_sdpa", "model.trains_nothing"), types.BOOL),
    **dict.fromkeys(("model.logits_softcap", "model.attention_softcap", "model.encoder_decoder"), types.BOOL),
    **dict.fromkeys(("hardware.bf16", "hardware.fp8", "parallelism.is_certain"), types.BOOL),
    "model.refused_attention": _TEXTS,
    **dict.fromkeys(("model.layer_classes", "model.modules", "model.linears", "estimate.parts"), _TEXTS),
    "model.stored_bits": types.NUMBER,
    "estimate.least_bytes": types.NUMBER,
    "hardware.capability": types.VERSION,
    **dict.fromkeys(("model.dtype", "model.stored_dtype", "model.stored_method", "hardware.vendor"), types.STR),
    **dict.fromkeys(("estimate.verdict", "estimate.peak_phase", "estimate.readings", "estimate.doubt"), types.STR),
    **dict.fromkeys(("estimate.least_reading", "sequence.lengths"), types.STR),
    "estimate.is_over_at_full_length_alone": types.BOOL,
}


def _annotation(annotation: Any) -> str:
    """The text of an annotation: `NamedTuple` wraps the strings of `from __future__ import annotations`."""
    return str(getattr(annotation, "__forward_arg__", annotation))


def _fields_of(prefix: str, values: Any) -> Iterable[tuple[str, VocabularyEntry]]:
    for field, annotation in values.__annotations__.items():
        name = f"{prefix}{field}"
        kind = types.VERSION if name in _VERSIONS else _ANNOTATIONS.get(_annotation(annotation))
        if kind is not None:
            yield name, VocabularyEntry(kind._replace(choices=CHOICES.get(name, ())), ["field", name])


def _fields() -> dict[str, VocabularyEntry]:
    entries = dict(_fields_of("", schema.Run))
    for group, values in {**_GROUPS, **_NESTED}.items():
        entries.update(_fields_of(f"{group}.", values))
    return entries


def _facts() -> dict[str, VocabularyEntry]:
    kinds = {name: _FACT_TYPES.get(name, types.INT) for name in READERS}
    return {
        name: VocabularyEntry(kind._replace(choices=CHOICES.get(name, ())), ["fact", name])
        for name, kind in kinds.items()
    }


def _phases() -> dict[str, VocabularyEntry]:
    entries = {}
    for phase in ("", *PHASES):
        prefix = f"estimate.phases.{phase}" if phase else "estimate.peak"
        entries[f"{prefix}.allocated_bytes"] = VocabularyEntry(types.INT, ["phase", phase, ""])
        for component in COMPONENTS:
            entries[f"{prefix}.{component}"] = VocabularyEntry(types.INT, ["phase", phase, component])
    return entries


def known_names() -> dict[str, VocabularyEntry]:
    """Every name that does not depend on a config format, with its type."""
    return {**_fields(), **_phases(), **_facts()}


_KNOWN = known_names()
FIELDS = frozenset(name for name, entry in _KNOWN.items() if entry.form[0] == "field")


class Vocabulary:
    """The names for rules of `formats` (none named: every format). Fulfils `expression_check.Names`."""

    def __init__(self, formats: tuple[str, ...] = (), variables: Mapping[str, Type] | None = None) -> None:
        self.sections = {name: SchemaSection(name, formats) for name in SECTIONS}
        self.variables = dict(variables or {})

    def lookup(self, name: Name) -> VocabularyEntry | None:
        if len(name) == 1 and name[0] in self.variables:
            return VocabularyEntry(self.variables[name[0]], ["variable", name[0]])
        if name[0] in self.sections and len(name) > 1:
            return self._key(name)
        if name[:2] == ("estimate", "details") and len(name) == 3:
            return VocabularyEntry(types.INT, ["term", name[2]])
        return _KNOWN.get(".".join(name))

    def _key(self, name: Name) -> VocabularyEntry | None:
        """A key of sections, or one whose name has dots itself (OpenRLHF's `--ds.zero_stage`)."""
        found = key_type(self.sections[name[0]], name[1:])
        if found is None and len(name) > 2:
            name = (name[0], ".".join(name[1:]))
            found = key_type(self.sections[name[0]], name[1:])
        return VocabularyEntry(found, ["raw", *name]) if found is not None else None

    def suggest(self, name: Name) -> str:
        if name[0] in self.sections and len(name) > 1:
            return nearest_key(self.sections[name[0]], name[1:])
        dotted = ".".join(name)
        ends = [known for known in _KNOWN if known.rpartition(".")[2] == name[-1]]
        return nearest(dotted, [*_KNOWN, *self.variables, *CONSTANTS]) or (ends[0] if len(ends) == 1 else "")
