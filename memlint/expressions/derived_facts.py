"""Facts that rules read in addition to the fields of the run: about model, card and estimate, as plain values.

A reader returns UNKNOWN for what is not known. To add a fact, add a line to one of the tables here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import memlint.memory.families.lookup as families
import memlint.memory.state.adapters as adapters
from memlint.architectures.model import Architecture, parameters
from memlint.expressions.facts import Facts
from memlint.expressions.functions import gib
from memlint.hardware.model import Gpu
from memlint.identity_cache import IdentityCache
from memlint.memory.estimate import trains_nothing
from memlint.memory.state.parameters import MissingValue
from memlint.memory.unknown.readings import doubt, in_words, least_bytes, span
from memlint.memory.values import TensorEstimate, component_words
from memlint.run import LAUNCH, UNKNOWN

Reader = Callable[[Facts], Any]


def _of_architecture(read: Callable[[Architecture], Any]) -> Reader:
    def reader(facts: Facts) -> Any:
        architecture = facts.run.model.architecture
        return read(architecture) if isinstance(architecture, Architecture) else UNKNOWN

    return reader


def _of_gpu(read: Callable[[Gpu], Any]) -> Reader:
    def reader(facts: Facts) -> Any:
        gpu = facts.run.hardware.gpu
        return read(gpu) if isinstance(gpu, Gpu) else UNKNOWN

    return reader


def _feature(read: Callable[[Gpu], Any]) -> Reader:
    """Reads a capability of the card; UNKNOWN for a card that is only a size ("24GiB")."""
    return _of_gpu(lambda gpu: UNKNOWN if gpu.generic else read(gpu))


def _of_estimate(field: str) -> Reader:
    is_of_tensors = field in TensorEstimate._fields

    def reader(facts: Facts) -> Any:
        found = facts.tensors if is_of_tensors else facts.estimate
        value = getattr(found, field) if found else None
        return UNKNOWN if value is None else value

    return reader


def _verdict(facts: Facts) -> Any:
    return facts.verdict or UNKNOWN


def _budget_of_estimate(facts: Facts) -> Any:
    return UNKNOWN if facts.estimated is None else facts.estimated.budget_bytes


def _engine_start(facts: Facts) -> Any:
    """What an engine on the card needs of its share at least; UNKNOWN where its weights are not in half precision."""
    model = facts.run.model
    whole = isinstance(model.architecture, Architecture) and model.architecture.stored.method == "none"
    if facts.run.rollout.generator != "vllm_colocate" or not whole or model.quantization.method != "none":
        return UNKNOWN
    from memlint.memory.generation.rollout import engine_start  # only where an engine shares the card

    try:
        return engine_start(facts.run)
    except MissingValue:
        return UNKNOWN


def _trains_nothing(facts: Facts) -> Any:
    """Whether no parameter trains; UNKNOWN where the model or what of it trains is not known."""
    known = facts.estimated.known if facts.estimated is not None else None
    if known is not None and known.trainable_parameters is not None:
        return known.trainable_parameters == 0
    try:
        return trains_nothing(facts.run)
    except MissingValue:
        return UNKNOWN


def _positive(value: Any) -> Any:
    return value if value else UNKNOWN


def _parameters(facts: Facts) -> Any:
    """The number of parameters: as the estimator counts them (with adapters), else that of the architecture."""
    counted = _of_estimate("parameters")(facts)
    return counted if counted is not UNKNOWN else _of_architecture(parameters)(facts)


def _budget(facts: Facts) -> Any:
    """The bytes that the peak is compared with: a budget from the settings, else the card's usable memory."""
    own = facts.run.hardware.memory_budget_bytes
    return own or _of_gpu(lambda gpu: gpu.usable_bytes)(facts)


_NOTABLE = 0.01  # the least share of the peak for a component to be listed


def _parts(facts: Facts) -> Any:
    """The components of the peak, largest first: "weights 15.0 GiB"; with them an engine that stays awake beside it."""
    found = facts.tensors
    for phase in found.phases if found else ():
        if found and phase.name == found.peak_phase:
            components = {**_engine_beside(facts), **phase.components}
            parts = sorted(components.items(), key=lambda part: -part[1])
            worth = [(name, size) for name, size in parts if size >= _NOTABLE * phase.allocated_bytes]
            return tuple(f"{component_words(name)} {gib(size)}" for name, size in worth)
    return UNKNOWN


def _engine_beside(facts: Facts) -> Mapping[str, int]:
    """What an inference engine holds on the card while the model trains."""
    if facts.run.rollout.sleep_level != 0 or not facts.run.rollout.share:
        return {}
    from memlint.memory.generation.rollout import awake_engine  # only where an engine shares the card

    return awake_engine(facts.run)


def _is_parallelism_known(facts: Facts) -> Any:
    """Whether the parallelism is known. It is not if a launcher that the files do not name could shard the model."""
    if facts.run.origins.get("parallelism.engine") is None:
        return UNKNOWN
    return not any(one.given[0][0] == "parallelism.engine" for one in facts.run.readings)


def _readings(facts: Facts) -> Any:
    """The card's figures under each reading, smallest first; UNKNOWN if there is only one reading."""
    read = facts.estimate.readings if facts.estimate else ()
    return in_words(read) if read else UNKNOWN


def _least_reading(facts: Facts) -> Any:
    """The card's figure under the reading that needs least: "128.6 GiB (124.7 - 165.7) sharded over 8 GPUs"; UNKNOWN if
    there is only one reading, or if none needs less than the figure that is given."""
    read = [one for one in (facts.estimate.readings if facts.estimate else ()) if one.device_bytes is not None]
    least = min(read, key=lambda one: one.device_bytes or 0, default=None)
    given = facts.estimate.device_bytes if facts.estimate else None
    if least is None or (given is not None and (least.device_bytes or 0) >= given):
        return UNKNOWN
    return f"{span(least)} {least.label}"


def _least(facts: Facts) -> Any:
    """The low end of the card's figure under the reading that needs least, in bytes."""
    least = least_bytes(facts.estimate) if facts.estimate else None
    return UNKNOWN if least is None else least


def _is_over_at_full_length_alone(facts: Facts) -> Any:
    from memlint.memory.unknown.full_length import is_over_at_full_length_alone  # where a run does not fit

    return UNKNOWN if facts.estimate is None else is_over_at_full_length_alone(facts.run, facts.estimate)


def _lengths(facts: Facts) -> Any:
    """The length in words: "4096", and of an encoder-decoder what goes in and comes out: "2048 -> 128"."""
    source, length = facts.run.sequence.source_length, facts.run.sequence.length
    if source is UNKNOWN or length is UNKNOWN:
        return UNKNOWN
    return f"{source} -> {length}" if source else str(length)


def _doubt(facts: Facts) -> Any:
    """The unknown thing that the verdict depends on, in words; UNKNOWN if all readings agree or there is only one, and
    without a card, where there is no verdict."""
    estimated = facts.estimated
    if estimated is None or _budget(facts) is UNKNOWN or not estimated.tensors.unknown:
        return UNKNOWN
    return doubt(estimated.whole) or UNKNOWN


def _launch(facts: Facts) -> Any:
    """The place of the launch command that the run was read with: "README.md:12"."""
    origin = facts.run.origins.get(LAUNCH)
    return UNKNOWN if origin is None else f"{origin.path}:{origin.line}"


def _first_layer(read: Callable[[Any], Any]) -> Reader:
    return _of_architecture(
        lambda model: read(model.layer_types[model.layer_type_ids[0]]) if model.layer_type_ids else UNKNOWN
    )


def _sliding_window(model: Architecture) -> int:
    """The largest sliding window in tokens; 0 if some layer attends to the whole sequence."""
    windows = [
        kind.attention.sliding_window for kind in model.layer_types if kind.attention.kind in ("attention", "mla")
    ]
    return max(windows) if windows and all(windows) else 0


_EXPERT_LINEARS = ("gate_proj", "up_proj", "down_proj", "gate_up_proj", "w1", "w2", "w3")


_MODULES = IdentityCache(64)


def _modules(model: Architecture) -> tuple[str, ...]:
    """`_named_modules`, cached: the result is the same for every run of one model."""
    found: tuple[str, ...] | None = _MODULES.get(model)
    return found or _MODULES.put(_named_modules(model), model)


def _named_modules(model: Architecture) -> tuple[str, ...]:
    """Last parts of the names of all modules with weights: the names that a LoRA target can match.

    The head is in it under both its names. Expert projections are, too: they are modules in transformers 4 and
    parameters in 5.
    """
    owners = [*(kind.weights for kind in model.layer_types), model.non_layer_weights]
    for tower in model.towers:
        owners += [tower.weights, tower.layer_weights, tower.projector_weights]
    names = [weight.name.split(".") for weights in owners for weight in weights]
    found = [parts[-2] for parts in names if len(parts) > 1 and parts[-1] in ("weight", "bias")]
    found += _EXPERT_LINEARS if any(kind.mlp.experts for kind in model.layer_types) else ()
    return tuple(dict.fromkeys((*found, "lm_head", "embed_out")))


def _linears(model: Architecture) -> tuple[str, ...]:
    """Last parts of the names of the modules with a matrix, as messages list them: linear layers and embeddings."""
    owners = [*(kind.weights for kind in model.layer_types), model.non_layer_weights]
    names = [
        weight.name.split(".")
        for weights in owners
        for weight in weights
        if weight.kind in ("linear", "embedding", "head") and weight.name.endswith(".weight")
    ]
    return tuple(dict.fromkeys(parts[-2] for parts in names if len(parts) > 1))


def _pixels_per_token(model: Architecture) -> Any:
    """Pixels of an image per token of the language model; UNKNOWN for a tower with a fixed number of tokens."""
    for tower in model.towers:
        if tower.kind == "vision" and not tower.tokens_per_image:
            return (tower.patch_size * tower.merge_size) ** 2
    return UNKNOWN


def _adapted_in_tower(facts: Facts) -> Any:
    """How many projections of one vision tower layer get an adapter; 0 if none does."""
    method, model = facts.run.method, facts.run.model.architecture
    if not isinstance(model, Architecture) or not isinstance(method.targets, tuple):
        return UNKNOWN
    if method.freeze_vision_tower or method.kind not in adapters.PER_WEIGHT_KINDS:
        return 0
    weights = [weight for tower in model.towers if tower.kind == "vision" for weight in tower.layer_weights]
    return sum(adapters.is_target(weight, method, -1) for weight in weights)


def _refused_attention(facts: Facts) -> Any:
    run = facts.run
    return _of_architecture(lambda model: families.refused_attention(model, run.stack.transformers))(facts)


def _layer_classes(model: Architecture) -> tuple[str, ...]:
    return tuple(dict.fromkeys(kind.class_name for kind in model.layer_types if kind.class_name))


_TUNED = " is tuned from "  # architectures/catalog.py, of models that are listed so
_REPOSITORY_OF = " is the repository name of "  # architectures/catalog_names.py: the same name, of another owner
_COPIERS = frozenset({"unsloth", "nousresearch", "modelscope", "llm-research", "ai-modelscope", "huggyllama"})


def _is_of_another_owner(name: object) -> bool:
    """Whether a repository `owner/model` belongs to nobody who uploads models as they are."""
    owner, found, _ = str(name).partition("/")
    return bool(found) and owner.lower() not in _COPIERS


def _is_of_another_upload(facts: Facts) -> bool:
    """Whether the architecture is that of another model from which this one was probably tuned, or which somebody has
    uploaded anew: it may have more positions, and another dtype."""
    origin = facts.run.origins.get("model.architecture")
    if origin is None or origin.kind != "inferred":
        return False
    if " read as " in origin.detail or _TUNED in origin.detail:
        return True
    return _REPOSITORY_OF in origin.detail and _is_of_another_owner(facts.run.model.name)


def _of_this_upload(read: Callable[[Architecture], Any]) -> Reader:
    """A fact that another upload of the same model may not share."""
    return lambda facts: UNKNOWN if _is_of_another_upload(facts) else _of_architecture(read)(facts)


MODEL: dict[str, Reader] = {
    "model.parameters": _parameters,
    "model.trainable_parameters": _of_estimate("trainable_parameters"),
    "model.trains_nothing": _trains_nothing,
    "model.vocab_size": _of_architecture(lambda model: model.vocab_size),
    "model.family": _of_architecture(lambda model: model.family),
    "model.class_name": _of_architecture(lambda model: model.class_name),
    "model.dtype": _of_architecture(lambda model: model.dtype),
    "model.hidden_size": _of_architecture(lambda model: model.hidden_size),
    "model.layers": _of_architecture(lambda model: len(model.layer_type_ids)),
    "model.heads": _first_layer(lambda layer: layer.attention.heads),
    "model.kv_heads": _first_layer(lambda layer: layer.attention.kv_heads),
    "model.head_dim": _first_layer(lambda layer: layer.attention.head_dim),
    "model.largest_head_dim": _of_architecture(
        lambda model: max((kind.attention.head_dim for kind in model.layer_types), default=0)
    ),
    "model.modules": _of_architecture(_modules),
    "model.linears": _of_architecture(_linears),
    "model.pixels_per_token": _of_architecture(_pixels_per_token),
    "model.adapted_in_tower": _adapted_in_tower,
    "model.experts": _of_architecture(lambda model: max((kind.mlp.experts for kind in model.layer_types), default=0)),
    "model.max_positions": _of_this_upload(lambda model: _positive(model.max_positions)),
    "model.stored_dtype": _of_this_upload(lambda model: model.dtype),
    "model.sliding_window": _of_architecture(_sliding_window),
    "model.layer_classes": _of_architecture(_layer_classes),
    "model.tied_embeddings": _of_architecture(lambda model: model.tied_embeddings),
    "model.supports_sdpa": _of_architecture(families.loads_with_sdpa),
    "model.refused_attention": _refused_attention,
    "model.supports_liger": _of_architecture(families.supports_liger),
    "model.has_vision": _of_architecture(lambda model: any(tower.kind == "vision" for tower in model.towers)),
    "model.logits_softcap": _of_architecture(lambda model: model.logits_softcap),
    "model.attention_softcap": _of_architecture(
        lambda model: any(kind.attention.softcap for kind in model.layer_types)
    ),
    "model.stored_method": _of_architecture(lambda model: model.stored.method),
    "model.stored_bits": _of_architecture(lambda model: model.stored.bits),
    "model.encoder_decoder": _of_architecture(lambda model: model.encoder_decoder),
}
HARDWARE: dict[str, Reader] = {
    "hardware.name": _of_gpu(lambda gpu: gpu.name),
    "hardware.vendor": _feature(lambda gpu: gpu.vendor),
    "hardware.nominal_bytes": _of_gpu(lambda gpu: gpu.nominal_bytes),
    "hardware.usable_bytes": _of_gpu(lambda gpu: gpu.usable_bytes),
    "hardware.budget_bytes": _budget,
    "hardware.bf16": _feature(lambda gpu: gpu.bf16),
    "hardware.fp8": _feature(lambda gpu: gpu.fp8),
    "hardware.flash_attention": _feature(lambda gpu: gpu.flash_attention),
    "hardware.capability": _feature(lambda gpu: gpu.capability if gpu.capability[0] else UNKNOWN),
}
PARALLELISM: dict[str, Reader] = {
    "parallelism.is_certain": _is_parallelism_known,
    "parallelism.launch": _launch,
    "parallelism.launch_file": lambda facts: facts.advice().file or UNKNOWN,
    "parallelism.launch_advice": lambda facts: facts.advice().text or UNKNOWN,
}
ESTIMATE_FIELDS = (
    *("peak_phase", "allocated_bytes", "reserved_bytes", "device_bytes", "device_low_bytes"),
    *("device_high_bytes", "host_bytes", "allocated_low_bytes", "allocated_high_bytes"),
)
ESTIMATE: dict[str, Reader] = {
    **{f"estimate.{field}": _of_estimate(field) for field in ESTIMATE_FIELDS},
    "estimate.verdict": _verdict,
    "estimate.budget_bytes": _budget_of_estimate,
    "estimate.parts": _parts,
    "estimate.readings": _readings,
    "estimate.least_reading": _least_reading,
    "estimate.least_bytes": _least,
    "estimate.is_over_at_full_length_alone": _is_over_at_full_length_alone,
    "estimate.doubt": _doubt,
}
SEQUENCE: dict[str, Reader] = {"sequence.lengths": _lengths}
ROLLOUT: dict[str, Reader] = {"rollout.engine_start_bytes": _engine_start}
READERS: dict[str, Reader] = {**MODEL, **HARDWARE, **PARALLELISM, **ESTIMATE, **SEQUENCE, **ROLLOUT}
