"""Changes of a run as edits of a verl file, or of a command's overrides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Parsed
from memlint.formats.fields import value_at
from memlint.formats.section_edits import changed_keys, edits_of
from memlint.formats.verl.keys import KEYS
from memlint.formats.verl.keys_sft import KEYS as SFT_KEYS
from memlint.run import Run

# What follows from other keys: the accumulation from the mini-batch, the length from prompt and response, FSDP's
# version from its offload.
_FOLLOW = ("batch.gradient_accumulation_steps", "sequence.length", "method.adapter_dtype") + (
    "rollout.log_prob_length",
    "rollout.reference_length",
    "parallelism.fsdp.version",
)


def verl_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    config, place = parsed.raw.get("config"), parsed.raw_places.get("config")
    if not isinstance(config, dict) or place is None:
        return None
    is_sft = run.method.stage == "sft"
    if not is_sft and _reads_a_divided_head(run, changes):
        return None
    follow = _FOLLOW if not is_sft else ("batch.gradient_accumulation_steps", "parallelism.fsdp.version")
    wanted = {field: value for field, value in changes.items() if field not in follow}
    if (
        changes.get("method.kind") == "lora"
    ):  # the base is the reference then (0.9.1 trainer/ppo/v1/trainer_base.py:237)
        wanted.pop("method.reference_model", None)
    if run.batch.max_tokens:
        wanted.pop("batch.micro_batch_size", None)
    new_values = changed_keys(SFT_KEYS if is_sft else KEYS, config, run, wanted)
    if not new_values:
        return None
    if parsed.documents[0].start is None:
        return edits_of(config, place, new_values)
    bases = (one.value for one in parsed.documents[1:])
    given = (config, *bases)
    return overrides(place, new_values) if all(_is_known(name, given) for name in new_values) else None


def _is_known(name: str, given: Sequence[Any]) -> bool:
    """Whether Hydra takes an override of this key: the command gives it, or the trainer's file has it. What a file has
    that is composed of others is not known, nor is that of verl itself where the repository has no file. `given`: the
    command's overrides and the file."""
    own, *bases = given
    *section, key = name.split(".")
    found = [value_at(one, tuple(section)) for one in (own, *bases)]
    if any(isinstance(one, dict) and key in one for one in found):
        return True
    return not any(isinstance(base, dict) and "defaults" not in base for base in bases)


def _reads_a_divided_head(run: Run, changes: Mapping[str, Any]) -> bool:
    """Whether the changes make fused kernels multiply by a head that FSDP 2 divides as a unit of its own: they read its
    weight without calling it, so that nothing gathers it (verl 0.9.1 utils/fsdp_utils.py:549,
    models/transformers/dense_common.py:125; verl-project/verl#7427). A tied head belongs to the root, which does."""
    if not {"loss.kind", "parallelism.fsdp.version"} & set(changes):
        return False
    fused = changes.get("loss.kind", run.loss.kind) == "chunked"
    version = changes.get("parallelism.fsdp.version", run.parallelism.fsdp.version)
    return fused and version == 2 and not getattr(run.model.architecture, "tied_embeddings", True)


def overrides(place: tuple[str, Any], new_values: Mapping[str, Any]) -> tuple[Edit, ...]:
    """Each key as an override of its own: sections need not be there."""
    path, pointer = place
    return tuple(Edit(path, (*pointer, *name.split(".")), "set", value) for name, value in new_values.items())
