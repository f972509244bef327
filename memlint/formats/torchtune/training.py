"""Model, adapter, precision, loss, optimizer and recomputation of a torchtune file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.formats.fields import STATED_MODEL, Fields, as_bool, as_int, as_number, as_words, value_at
from memlint.formats.torchtune import families
from memlint.formats.torchtune.config import MODEL, TuneConfig
from memlint.formats.torchtune.recognise import COMPONENT
from memlint.run import UNKNOWN, Origin

LENGTH, PACKED = "tokenizer.max_seq_len", "dataset.packed"
OWN_LENGTH = "dataset.max_seq_len"
LOSS, OPTIMIZER = f"loss.{COMPONENT}", f"optimizer.{COMPONENT}"
RANK, ATTENTION_PARTS = "model.lora_rank", "model.lora_attn_modules"
RECOMPUTES, OFFLOADS = "enable_activation_checkpointing", "enable_activation_offloading"
MODE, OPTION = "ac_mode", "ac_option"
IN_BACKWARD = "optimizer_in_bwd"
DTYPES = {"bf16": "bfloat16", "fp32": "float32", "fp16": "float16"}
# torchtune's names of linear layers -> those of the catalog's models (models/convert_weights.py, _FROM_HF).
_PARTS = {"output_proj": "o_proj"}
_MLP, _HEAD = ("gate_proj", "up_proj", "down_proj"), "lm_head"
_ATTENTION = "torchtune 0.6.1 modules/attention_utils.py"
_PARTS_OF_LOSS = 8  # `num_output_chunks` of both losses
# Before, the model's fp32 logits were copied without the last token, and transposed for the loss.
_SHIFTS_BEFORE = (0, 3)
_SHIFTS = "torchtune 0.2.1 recipes/full_finetune_single_device.py: `logits[..., :-1, :].contiguous()`"


def find_model(config: TuneConfig) -> None:
    """Look the model up, for keys whose reading depends on it."""
    component, path = config.component("model"), config.own.document.path
    config.architecture = families.built(component, config.values("model"), config.release, config.context, path)
    name = config.context.model_name
    if config.architecture is None and name and not families.why_not_modelled(component):
        config.architecture = config.context.find_model(name, path).architecture


def read_model(fields: Fields, config: TuneConfig) -> None:
    """The builder says which model it is."""
    component = config.component("model")
    builder = families.builder_of(component)
    name = families.name_of(component) or config.context.model_name
    if not name or config.architecture is None:
        reason = _why_no_model(config, component, builder)
        fields.unknown("model.name", reason)
        fields.unknown("model.architecture", reason)
        return
    given = bool(families.name_of(component))
    fields.put("model.name", name, config.origin(MODEL) if given else STATED_MODEL)
    origin = Origin("catalog", detail=f"the builder `{builder}`") if given else STATED_MODEL
    fields.put("model.architecture", config.architecture, origin)


def _why_no_model(config: TuneConfig, component: str, builder: str) -> str:
    if not component:
        reason = config.origin(MODEL).detail if config.get(MODEL) is UNKNOWN else ""
        return reason or f"the model is not named (`{MODEL}`)"
    if not builder:
        return f"`{component}` is a model of the repository's own; say which with --model"
    return families.why_not_modelled(component) or f"what `{builder}` builds is not known"


def read_dtype(fields: Fields, config: TuneConfig) -> None:
    """Weights, gradients and states have the dtype that the model is made in."""
    dtype = DTYPES.get(config.word("dtype"))
    for name in ("model.weights_dtype", "precision.compute", "precision.trainable_dtype"):
        if dtype is None:
            fields.unknown(name, config.origin("dtype").detail or "`dtype` is none that is known here")
        else:
            fields.put(name, dtype, config.origin("dtype"))


def trains_adapter(config: TuneConfig) -> bool:
    return families.is_adapted(config.component("model"))


def read_adapter(fields: Fields, config: TuneConfig) -> None:
    """Adapters in the model's dtype, on the linear layers that the file names; the base in 4 bits for `qlora_`."""
    component = config.component("model")
    if not trains_adapter(config):
        if component or not config.missing:
            fields.put("method.kind", "full", config.origin(MODEL))
        else:
            fields.unknown("method.kind", config.origin(MODEL).detail)
        return
    fields.put("method.kind", "lora", config.origin(MODEL))
    rank = config.get(RANK)
    if rank is UNKNOWN:
        fields.unknown("method.rank", config.origin(RANK).detail or f"`{RANK}` is a placeholder")
    else:
        fields.put("method.rank", as_int(rank) or 8, config.origin(RANK))
    fields.infer("method.adapter_dtype", fields.get("model.weights_dtype"), "torchtune: the dtype of the model")
    _read_targets(fields, config)
    _read_base(fields, config, component)


def _read_targets(fields: Fields, config: TuneConfig) -> None:
    names = [_PARTS.get(name, name) for name in as_words(config.raw(ATTENTION_PARTS))]
    names += list(_MLP) if config.flag("model.apply_lora_to_mlp") else []
    names += [_HEAD] if config.flag("model.apply_lora_to_output") else []
    if names:
        fields.put("method.targets", tuple(names), config.origin(ATTENTION_PARTS))
    else:
        fields.unknown("method.targets", f"`{ATTENTION_PARTS}` names no layers")


def _read_base(fields: Fields, config: TuneConfig, component: str) -> None:
    if not families.is_quantized(component) and not config.flag("model.quantize_base"):
        return
    origin = config.origin("model.quantize_base" if config.flag("model.quantize_base") else MODEL)
    for name, value in (("method", "torchao"), ("bits", 4), ("kind", "nf4"), ("double_quant", True)):
        fields.put(f"model.quantization.{name}", value, origin)


def read_stage(fields: Fields, config: TuneConfig) -> None:
    """What trains; the reference of DPO is the model without its adapters, or a copy."""
    recipe = config.recipe
    stage = recipe.stage if recipe.stage in ("dpo", "ppo", "grpo") else "sft"
    fields.infer("method.stage", stage, recipe.said_by or "no key of another recipe")
    if stage == "dpo":
        copies = fields.get("method.kind") == "full"
        fields.infer("method.reference_model", "copy" if copies else "shared", f"the recipe {recipe.name}")
        fields.infer("loss.keeps_logits", True, "torchtune 0.6.1 recipes: a variable holds the reference's logits")


def read_length(fields: Fields, config: TuneConfig) -> None:
    """Sequences are cut at the tokenizer's number; without one, the longest of the data is not known."""
    key = LENGTH if config.written(LENGTH) or not config.written(OWN_LENGTH) else OWN_LENGTH
    value = config.get(key)
    length = as_int(value)
    if length is not None and length > 0:
        fields.put("sequence.length", length, config.origin(key))
    else:
        reason = config.origin(key).detail if value is UNKNOWN else ""
        fields.unknown("sequence.length", reason or f"`{LENGTH}` is not set: the longest of the data is not known")
    packed = packs(config)
    if packed is UNKNOWN:
        fields.unknown("sequence.packing", f"`{PACKED}` is a placeholder")
        return
    fields.put("sequence.packing", packed, config.origin(PACKED))
    if packed:
        fields.put("sequence.neat_packing", True, config.origin(PACKED))
        fields.put("sequence.length_is_bound", False, config.origin(PACKED))
    name = "flex_attention" if packed else "sdpa"
    fields.infer("attention.implementation", name, f"{_ATTENTION}, _sdpa_or_flex_attention")


def packs(config: TuneConfig) -> Any:
    """`packed` of the data set; of several, whether one of them says so."""
    dataset = next((found for one in config.sections() if (found := one.get("dataset"))), None)
    if isinstance(dataset, list):
        return any(as_bool(value_at(one, ("packed",))) for one in dataset)
    value = config.get(PACKED)
    return UNKNOWN if value is UNKNOWN else bool(as_bool(value))


def read_recomputation(fields: Fields, config: TuneConfig) -> None:
    """Every layer, or with `ac_mode` in the recipe of full fine-tuning on several GPUs each n-th; both together switch
    each other off (0.6.1 recipes/full_finetune_distributed.py, _setup_model)."""
    value, mode = config.get(RECOMPUTES), config.word(MODE)
    selects = mode in ("full", "selective") and reads_mode(config)
    if value is UNKNOWN:
        fields.unknown("checkpointing.mode", config.origin(RECOMPUTES).detail or f"`{RECOMPUTES}` is a placeholder")
    elif as_bool(value):
        found = "none" if reads_mode(config) and config.raw(MODE) is not None else "full"
        fields.put("checkpointing.mode", found, config.origin(RECOMPUTES))
    elif selects:
        every = as_int(config.get(OPTION)) or 1
        found = "full" if mode == "full" or every == 1 else "every_n"
        fields.put("checkpointing.mode", found, config.origin(MODE))
        fields.put("checkpointing.every", every if found == "every_n" else 1, config.origin(OPTION))
    else:
        fields.put("checkpointing.mode", "none", config.origin(RECOMPUTES))
    _read_offload(fields, config)


def reads_mode(config: TuneConfig) -> bool:
    """Whether the recipe reads `ac_mode` (0.2 to main: full fine-tuning on several GPUs, and quantisation-aware)."""
    stage = config.recipe.stage
    return config.recipe.is_distributed is True and not trains_adapter(config) and stage in ("sft", "qat")


def _read_offload(fields: Fields, config: TuneConfig) -> None:
    value = config.get(OFFLOADS)
    if value is UNKNOWN:
        fields.unknown("offload.activations", f"`{OFFLOADS}` is a placeholder")
    else:
        fields.put("offload.activations", "cpu" if as_bool(value) else "none", config.origin(OFFLOADS))


def read_loss(fields: Fields, config: TuneConfig) -> None:
    """Whether the logits are made and scored at once, or in parts."""
    component = config.component("loss")
    name = component.rpartition(".")[2]
    parts = as_int(config.values("loss").get("num_output_chunks")) or _PARTS_OF_LOSS
    in_parts = name in ("CEWithChunkedOutputLoss", "LinearCrossEntropyLoss")
    fields.put("precision.upcast_lmhead_output", not in_parts, config.origin(LOSS))
    if not component and config.missing:
        fields.unknown("loss.kind", config.origin(LOSS).detail)
        return
    fields.put("loss.kind", "plain", config.origin(LOSS))
    if config.release < _SHIFTS_BEFORE:
        fields.infer("loss.in_logits_dtype", True, _SHIFTS)
        fields.infer("loss.keeps_logits", True, f"{_SHIFTS}, which a variable holds until the next forward")
    if in_parts:
        fields.put("loss.parts", parts, config.origin(LOSS))
        fields.put("loss.logits_first", name == "CEWithChunkedOutputLoss", config.origin(LOSS))
        fields.put("loss.compiled", compiles(config, "loss"), config.origin("compile"))


def compiles(config: TuneConfig, part: str) -> bool:
    """`compile`, or in the main branch a flag for each part."""
    value = config.get("compile")
    if isinstance(value, dict):
        return bool(as_bool(value.get(part, True)))
    return bool(as_bool(value)) if value is not UNKNOWN else False


def read_compile(fields: Fields, config: TuneConfig) -> None:
    value = config.get("compile")
    if value is UNKNOWN:
        fields.unknown("stack.compile", "`compile` is a placeholder")
    else:
        fields.put("stack.compile", compiles(config, "model"), config.origin("compile"))


# Class -> its name in memory/state/optimizers.json.
_OPTIMIZERS: Mapping[str, str] = {
    "torch.optim.AdamW": "adamw_torch",
    "torch.optim.Adam": "adamw_torch",
    "torch.optim.SGD": "sgd",
    "torch.optim.Adagrad": "adagrad",
    "torch.optim.RMSprop": "rmsprop",
    "bitsandbytes.optim.PagedAdamW8bit": "paged_adamw_8bit",
    "bitsandbytes.optim.PagedAdamW": "paged_adamw_32bit",
    "bitsandbytes.optim.PagedAdamW32bit": "paged_adamw_32bit",
    "bitsandbytes.optim.AdamW8bit": "adamw_bnb_8bit",
    "bitsandbytes.optim.AdamW": "adamw_bnb_32bit",
    "bitsandbytes.optim.PagedLion8bit": "paged_lion_8bit",
    "bitsandbytes.optim.Lion8bit": "lion_8bit",
}
_OF_TORCHAO = {"AdamW8bit": "adamw_torch_8bit", "AdamW4bit": "adamw_torch_4bit", "AdamWFp8": "ao_adamw_fp8"}
_FUSED = ("torch.optim.AdamW", "torch.optim.Adam")


def read_optimizer(fields: Fields, config: TuneConfig) -> None:
    """A class by its path, with its arguments beside it. In the backward each parameter has an optimizer of its own."""
    component = config.component("optimizer")
    values, origin = config.values("optimizer"), config.origin(OPTIMIZER)
    name = _OPTIMIZERS.get(component, "")
    if component.startswith("torchao."):
        name = _OF_TORCHAO.get(component.rpartition(".")[2], "")
    if not name:
        fields.unknown("optimizer.name", _why_no_optimizer(config, component))
    else:
        fused = component in _FUSED and as_bool(values.get("fused"))
        fields.put("optimizer.name", "adamw_torch_fused" if fused else name, origin)
    if as_bool(values.get("foreach")) is False:
        fields.put("optimizer.foreach", False, origin)
    fields.put("optimizer.momentum", as_number(values.get("momentum")) or 0.0, origin)
    fields.put("optimizer.weight_decay", as_number(values.get("weight_decay")) or 0.0, origin)
    if (rate := as_number(values.get("lr"))) is not None:
        fields.put("optimizer.learning_rate", float(rate), origin)
    in_backward = config.flag(IN_BACKWARD) and not trains_adapter(config)
    fields.put("optimizer.layerwise", in_backward, config.origin(IN_BACKWARD))


def _why_no_optimizer(config: TuneConfig, component: str) -> str:
    if not component:
        return config.origin(OPTIMIZER).detail or f"`{OPTIMIZER}` is not set"
    return f"what `{component}` keeps is not known"


def read_clipping(fields: Fields, config: TuneConfig) -> None:
    value = config.get("clip_grad_norm")
    norm = as_number(value)
    fields.put("optimizer.max_grad_norm", float(norm) if norm is not None else 0.0, config.origin("clip_grad_norm"))


_STAGES = {
    "ppo": "the reference, the reward and the value model of torchtune's PPO",
    "grpo": "generation and the reference model of torchtune's GRPO",
    "kd": "the teacher beside the student",
    "qat": "weights and inputs that are quantised and dequantised in each product",
}
_DIVIDES = ("tensor_parallel_dim", "context_parallel_dim")


def read_unmodelled(fields: Fields, config: TuneConfig) -> None:
    """What makes a figure a lower bound: it adds to what is counted."""
    what = _STAGES.get(config.recipe.stage, "")
    if any((as_int(config.get(key)) or 1) > 1 for key in _DIVIDES):
        what = "matrices or sequences that GPUs share"
    if config.flag("enable_fp8_training"):
        what = "training in fp8"
    if families.writes_scores(config.component("model")):
        what = what or "attention whose scores torchtune keeps"
    loss = config.component("loss")
    if loss and loss.rpartition(".")[2] not in _LOSSES and not what:
        what = f"the loss `{loss}`"
    if what:
        fields.infer("stack.unmodelled", what, config.recipe.said_by or "the file")
        fields.infer("stack.unmodelled_adds", True, "the file")


_LOSSES = ("CEWithChunkedOutputLoss", "LinearCrossEntropyLoss", "CrossEntropyLoss", "DPOLoss", "RSOLoss")
