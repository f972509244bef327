"""Model and adapter of a verl file, where a key's meaning depends on others."""

from __future__ import annotations

from memlint.formats.base import named_model
from memlint.formats.entailed import put_entailed
from memlint.formats.fields import STATED_MODEL, Fields, as_words
from memlint.formats.target_patterns import put_targets
from memlint.formats.verl.config import VerlConfig
from memlint.formats.verl.releases import is_before_0_4
from memlint.formats.vision_towers import apply_towers, excludes_tower
from memlint.run import UNKNOWN, Entailed, Origin

DTYPES = {
    **dict.fromkeys(("fp32", "float32", "float"), "float32"),
    **dict.fromkeys(("bf16", "bfloat16"), "bfloat16"),
    **dict.fromkeys(("fp16", "float16", "half"), "float16"),
}
PLACEHOLDER = "~/models/deepseek-llm-7b-chat"  # what verl's own file has, for others to replace


def model_key(config: VerlConfig) -> str:
    return config.model_keys[config.is_sft]


def find_model(config: VerlConfig) -> None:
    """Look the model up, for keys whose reading depends on it."""
    name = config.get(model_key(config))
    name = name if isinstance(name, str) and name != PLACEHOLDER else config.context.model_name
    if name:
        config.architecture = config.context.find_model(name, config.own.document.path).architecture


def read_model(fields: Fields, config: VerlConfig) -> None:
    key = model_key(config)
    value = config.get(key)
    named = isinstance(value, str) and value != PLACEHOLDER
    name = value if named else config.context.model_name
    if not name:
        reason = config.origin(key).detail if value is UNKNOWN else ""
        fields.unknown("model.name", reason or f"the model is not named (`{key}`)")
        fields.unknown("model.architecture", reason or f"the model is not named (`{key}`)")
        return
    fields.put("model.name", name, config.origin(key) if named else STATED_MODEL)
    architecture, origin = named_model(config.context, name, config.own.document.path)
    fields.put("model.architecture", UNKNOWN if architecture is None else architecture, origin)


def read_adapter(fields: Fields, config: VerlConfig) -> None:
    """`lora_rank` above 0 makes an adapter, in the dtype of the base (transformer_impl.py:364). The trainers of
    reinforcement learning know it from 0.4 on (0.3.0 workers/fsdp_workers.py has no `lora`)."""
    key = "model.lora_rank" if config.is_sft else "actor_rollout_ref.model.lora_rank"
    rank = config.integer(key)
    if rank and not config.is_sft and is_before_0_4(config):
        fields.unknown("method.kind", "this copy of verl is older than 0.4, where `lora_rank` came")
        return
    fields.put("method.kind", "lora" if rank else "full", config.origin(key))
    if rank:
        fields.put("method.rank", rank, config.origin(key))
        fields.infer("method.adapter_dtype", fields.get("model.weights_dtype"), _CAST)
    else:
        put_entailed(fields, _adapters_of_plans, _CAST)


_CAST = "verl casts it to the base's dtype"


def _adapters_of_plans(fields: Fields) -> tuple[Entailed, ...]:
    """An adapter that a plan trains instead, on the base as it is loaded and in half precision."""
    lora, dtype = ("method.kind", "lora"), "model.weights_dtype"
    found = (fields.get(dtype, "float32"), "bfloat16")
    loaded, half = ((("method.adapter_dtype", one),) for one in found)
    return Entailed((lora,), loaded), Entailed((lora, (dtype, "bfloat16")), half)


def read_targets(fields: Fields, config: VerlConfig) -> None:
    key = "model.target_modules" if config.is_sft else "actor_rollout_ref.model.target_modules"
    value = config.get(key)
    if as_words(value):
        put_targets(fields, value, config.origin(key), config.architecture)
    else:
        fields.put("method.targets", ("all-linear",), Origin("default", detail="verl: all-linear"))


_FROZEN = "actor_rollout_ref.actor.freeze_vision_tower"
_EXCLUDED = "actor_rollout_ref.model.exclude_modules"
_FREEZES_UNTIL = (0, 8)


def read_towers(fields: Fields, config: VerlConfig) -> None:
    """A vision tower trains with the rest unless the actor's `freeze_vision_tower` says otherwise, which the engines
    since 0.8 do not read (0.7.0 workers/fsdp_workers.py; 0.9.1 has it in workers/config/actor.py alone). An adapter
    leaves out what `exclude_modules` names (0.9.1 workers/engine/fsdp/transformer_impl.py:365)."""
    if config.is_sft:
        apply_towers(fields, config.architecture, False, Origin("inferred", detail="verl freezes no tower"))
        return
    reads = () <= config.context.versions.get("verl", ()) < _FREEZES_UNTIL
    if fields.get("method.kind") == "lora" and excludes_tower(config.raw(_EXCLUDED)):
        apply_towers(fields, config.architecture, True, config.origin(_EXCLUDED))
    else:
        apply_towers(fields, config.architecture, reads and config.flag(_FROZEN), config.origin(_FROZEN))


def trains_adapter(config: VerlConfig) -> bool:
    key = "model.lora_rank" if config.is_sft else "actor_rollout_ref.model.lora_rank"
    return config.integer(key) is not None
